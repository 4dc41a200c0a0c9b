"""The table of fits by formula over statsmodels' own models: ``python -m tests.benchmarks``."""

from __future__ import annotations

import argparse

from .formulas import SIZES, table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--repeat", type=int, help="of each fit; by default fewer for more rows")
    options = parser.parse_args()
    found = table(tuple(options.sizes), options.repeat)
    print(found.round(2).to_string())


if __name__ == "__main__":
    main()
