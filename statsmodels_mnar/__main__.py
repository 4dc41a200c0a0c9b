"""Command line: ``python -m statsmodels_mnar``, also installed as ``statsmodels-mnar``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .demo import demo


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="statsmodels-mnar",
        description="Binary outcomes whose labels are missing not at random.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser(
        "demo",
        help="fit the models to simulated data and compare them with the truth",
        description="Simulate applications whose outcome is seen only if accepted, fit the naive "
        "logit and the selection models, print summaries and the comparison with the truth.",
    )
    show.add_argument("--rows", type=int, default=5_000, help="rows to simulate (default 5000)")
    show.add_argument("--seed", type=int, default=0, help="seed of the simulation (default 0)")
    show.set_defaults(run=lambda args: demo(args.rows, args.seed))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; user mistakes end with a message and exit code 2."""
    args = _parser().parse_args(argv)
    try:
        print(args.run(args))
    except ValueError as error:
        print(f"statsmodels-mnar: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
