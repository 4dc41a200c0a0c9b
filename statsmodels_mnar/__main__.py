"""Command line: ``python -m statsmodels_mnar``, also installed as ``statsmodels-mnar``."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from statsmodels.tools.sm_exceptions import ModelWarning

from . import __version__
from .cli import EXIT_CODES, add_fit
from .demo import demo
from .replicate import ITEMS, replicate


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
    _add_replicate(commands)
    return parser


def _add_replicate(commands: Any) -> None:
    again = commands.add_parser(
        "replicate",
        help="run the paper's experiments again, beside its numbers",
        description="Run the experiments of Mai, Huang, Du and Wu again and write each table and "
        "figure as CSV, Markdown and PNG beside the paper's numbers. 'masked' goes beyond the "
        "paper.",
    )
    again.add_argument("items", nargs="*", default=["all"], help=f"{', '.join(ITEMS)}, or all")
    again.add_argument("--data", help="folder of the raw files (default: where the loaders look)")
    again.add_argument("--out", default="replication", help="folder of the results")
    again.add_argument("--runs", type=int, default=5, help="seeds of each cell (default 5)")
    again.add_argument("--without-mlp", action="store_true", help="leave out the MLP as g_y")
    again.add_argument(
        "--draws",
        default="summary",
        choices=["summary", "full"],
        help="how the 200 draws a row are made: their mean and spread, or each (slow on Adult)",
    )
    again.add_argument("--jobs", type=int, help="processes (default: one for each processor)")
    again.add_argument("--quiet", action="store_true", help="show no progress")
    again.set_defaults(
        run=lambda args: "\n\n".join(
            replicate(
                args.items,
                data=args.data,
                out=args.out,
                runs=args.runs,
                mlp=not args.without_mlp,
                draws=args.draws,
                jobs=args.jobs,
                progress=not args.quiet,
            ).values()
        )
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; user mistakes end with a message and exit code 2."""
    args = _parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", ModelWarning)
            warnings.showwarning = _say_warning
            found = args.run(args)
        text, code = found if isinstance(found, tuple) else (found, 0)
        if text:
            print(text, flush=True)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("statsmodels-mnar: interrupted", file=sys.stderr)
        return 130
    except (ValueError, ImportError, OSError) as error:
        print(f"statsmodels-mnar: {error}", file=sys.stderr)
        return 2
    return code


def _say_warning(message: Warning | str, *where: Any, **options: Any) -> None:
    print(f"statsmodels-mnar: warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
