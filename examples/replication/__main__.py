"""Command line: ``python -m examples.replication``, run in a clone of the repository."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from statsmodels_mnar.cli import run_command

from .command import ITEMS, replicate


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.replication",
        description="Run the experiments of Mai, Huang, Du and Wu again and write each table and "
        "figure as CSV, Markdown and PNG beside the paper's numbers. 'mlp' and 'masked' go beyond "
        "the paper.",
    )
    parser.add_argument("items", nargs="*", default=["all"], help=f"{', '.join(ITEMS)}, or all")
    parser.add_argument("--data", help="folder of the raw files (default: where the loaders look)")
    parser.add_argument("--out", default="replication", help="folder of the results")
    parser.add_argument("--runs", type=int, default=5, help="seeds of each cell (default 5)")
    parser.add_argument("--without-mlp", action="store_true", help="leave out the MLP as g_y")
    parser.add_argument(
        "--draws",
        default="summary",
        choices=["summary", "full"],
        help="how the 200 draws a row are made: their mean and spread, or each (slow on Adult)",
    )
    parser.add_argument("--jobs", type=int, help="processes (default: one for each processor)")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(run=_run)
    return parser


def _run(args: argparse.Namespace) -> str:
    written = replicate(
        args.items,
        data=args.data,
        out=args.out,
        runs=args.runs,
        mlp=not args.without_mlp,
        draws=args.draws,
        jobs=args.jobs,
        progress=not args.quiet,
    )
    return "\n\n".join(written.values())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiments; user mistakes end with a message and exit code 2."""
    return run_command(_parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
