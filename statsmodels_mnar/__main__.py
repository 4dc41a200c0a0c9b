"""Command line: ``python -m statsmodels_mnar``, also installed as ``statsmodels-mnar``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from . import __version__
from .cli import EXIT_CODES, add_fit, add_predict, run_command
from .demo import demo

_REPLICATE_MOVED = """\
statsmodels-mnar: replicate is not a command of the installed package; run it in a clone of the \
repository, with the same arguments: python -m examples.replication all --data DIR --out DIR"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="statsmodels-mnar",
        description="Binary outcomes whose labels are missing not at random.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser(
        "demo",
        help="fit the models to simulated data and compare them with the truth",
        description="Simulate applications whose outcome is seen only if accepted, fit the naive "
        "logit and the selection models, print summaries and the comparison with the truth, and "
        "save figures and a report.",
    )
    show.add_argument("--rows", type=int, default=5_000, help="rows to simulate (default 5000)")
    show.add_argument("--seed", type=int, default=0, help="seed of the simulation (default 0)")
    show.add_argument(
        "--out", default="demo", metavar="FOLDER",
        help="folder for figures and an HTML report (default demo)",
    )  # fmt: skip
    show.set_defaults(run=lambda args: demo(args.rows, args.seed, args.out))
    add_fit(commands)
    add_predict(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; user mistakes end with a message and exit code 2."""
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] == ["replicate"]:
        print(_REPLICATE_MOVED, file=sys.stderr)
        return 2
    return run_command(_parser(), given)


if __name__ == "__main__":
    sys.exit(main())
