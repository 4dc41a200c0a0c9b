"""The command ``fit``, from a file and two formulas to reports, and how every command ends."""

from __future__ import annotations

import argparse
import csv
import io
import lzma
import os
import sys
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.tools.sm_exceptions import ModelWarning

from .models import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection
from .optimize.maximize import OPTIMIZERS
from .post.covariance import ESTIMATORS
from .results.report import SUFFIXES, check_path

NOT_CONVERGED = 3
MODELS = {"greene": GreeneSelectionLogit, "biascorr": BiasCorrLogit, "probit": ProbitSelection}

# Raised over damaged archives, and no OSError as gzip's other errors are.
_BROKEN_ARCHIVE = (EOFError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error)
_COMPRESSED = (".gz", ".bz2", ".zip", ".xz", ".zst", ".tar")  # by pandas' reading of a name

EXIT_CODES = """\
exit codes:
  0    done
  1    an error that should not happen: please report it, with the traceback
  2    a mistake in the command, the formulas or the data
  3    fit: the optimiser did not converge; what was asked for is written all the same
  130  interrupted
"""

_EXAMPLES = """\
examples:
  statsmodels-mnar fit loans.csv "default ~ income + age" "approved ~ income + age + officer"
  statsmodels-mnar fit loans.parquet "default ~ np.log(income)" "~ np.log(income) + C(officer)" \\
      --groups branch --out report.html --out report.json
  statsmodels-mnar fit loans.csv "default ~ income" "approved ~ income + officer" \\
      --model biascorr

A selection formula without a left side, "~ x + z", means "the outcome is observed". Formulas may
use np (numpy) and what patsy knows: C(), I(), center(), bs(), ...
"""


def run_command(parser: argparse.ArgumentParser, argv: Sequence[str] | None = None) -> int:
    """Parse the arguments, run what they name, print what it returns, and return the exit code.

    The parser sets ``run``, a function of the parsed arguments that returns a text, or a text and
    an exit code. Mistakes of users end with a message and exit code 2, without a traceback.
    """
    args = parser.parse_args(argv)

    def say_warning(message: Warning | str, *where: Any, **options: Any) -> None:
        print(f"{parser.prog}: warning: {message}", file=sys.stderr)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", ModelWarning)
            warnings.showwarning = say_warning
            found = args.run(args)
        text, code = found if isinstance(found, tuple) else (found, 0)
        if text:
            print(text, flush=True)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print(f"{parser.prog}: interrupted", file=sys.stderr)
        return 130
    except (ValueError, ImportError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return code


def add_fit(commands: Any) -> None:
    """The parser of ``fit``."""
    parser = commands.add_parser(
        "fit",
        help="fit a model to a file and write a report",
        description="Fit a selection model to a CSV or Parquet file, print its summary and write "
        "reports.",
        epilog=f"{_EXAMPLES}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", help="a .csv, .tsv or .parquet file (compressed CSV too), or -")
    parser.add_argument("formula", help='the outcome equation, "y ~ x"')
    parser.add_argument("select_formula", help='the selection equation, "s ~ x + z" or "~ x + z"')
    parser.add_argument(
        "--model", choices=list(MODELS), default="greene",
        help="logit outcome (greene, the default), the paper's classifier (biascorr), or probit "
        "outcome (probit, Stata's heckprobit)",
    )  # fmt: skip
    parser.add_argument(
        "--normalization", metavar="HOW",
        help="loading (default of greene and biascorr), free (sigma and rho apart), independent, "
        "or fixed values: sigma=1, rho=0.5, sigma=1,rho=0.5",
    )  # fmt: skip
    parser.add_argument(
        "--cov-type", choices=[*ESTIMATORS, "stacked"],
        help="standard errors (default: nonrobust; with --prob-weights HC0; biascorr stacked)",
    )  # fmt: skip
    parser.add_argument(
        "--groups", action="append", metavar="COLUMN",
        help="clusters, implies --cov-type cluster; twice for two ways",
    )  # fmt: skip
    parser.add_argument(
        "--penalty", type=float, help="ridge penalty (default 0; biascorr 1e-4)"
    )  # fmt: skip
    weights = parser.add_mutually_exclusive_group()
    weights.add_argument("--freq-weights", metavar="COLUMN", help="counts of each row")
    weights.add_argument("--prob-weights", metavar="COLUMN", help="inverse sampling probabilities")
    parser.add_argument("--offset", metavar="COLUMN", help="known part of the outcome index")
    parser.add_argument("--offset-select", metavar="COLUMN", help="known part of selection's index")
    parser.add_argument(
        "--missing", choices=["drop", "raise"], default="drop",
        help="rows with missing covariates (default drop)",
    )  # fmt: skip
    methods = [name for name, optimizer in OPTIMIZERS.items() if optimizer.at_maximum]
    parser.add_argument("--method", choices=methods, default="newton")
    parser.add_argument("--maxiter", type=int, help="limit on iterations")
    parser.add_argument("--alpha", type=float, default=0.05, help="of intervals (default 0.05)")
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda, ...")
    parser.add_argument("--sep", help="separator of the CSV file (default: a comma; .tsv: a tab)")
    parser.add_argument(
        "--out", action="append", default=[], metavar="FILE",
        help=f"write a report: {', '.join(SUFFIXES)}; may be given several times",
    )  # fmt: skip
    parser.add_argument("--title", help="of the HTML report")
    parser.add_argument("--quiet", action="store_true", help="do not print the summary")
    parser.add_argument(
        "--progress", action="store_true", default=None,
        help="show progress on stderr (default: where that is a terminal)",
    )  # fmt: skip
    parser.set_defaults(run=run_fit)


def run_fit(args: argparse.Namespace) -> tuple[str, int]:
    """The summary and the exit code; reports are written on the way."""
    for path in args.out:
        check_path(path)
    if not 0.0 < args.alpha < 1.0:
        raise ValueError(f"--alpha {args.alpha:g} must lie between 0 and 1")
    figures = find_spec("matplotlib") is not None
    if not figures and any(path.lower().endswith(".html") for path in args.out):
        print(
            "statsmodels-mnar: warning: the page has no figures, which need matplotlib: pip "
            "install 'statsmodels-mnar[plot]'",
            file=sys.stderr,
        )
    progress = sys.stderr.isatty() if args.progress is None else args.progress
    data = read_table(args.data, args.sep)
    how = _covariance(args, data)
    if args.penalty is not None:
        how["penalty"] = args.penalty
    results = _model(args, data).fit(method=args.method, maxiter=args.maxiter, disp=progress, **how)
    for path in args.out:
        results.report(path, title=args.title, alpha=args.alpha, figures=figures, progress=progress)
    text = "" if args.quiet else str(results.summary(alpha=args.alpha))
    return text, 0 if results.converged else NOT_CONVERGED


def _model(args: argparse.Namespace, data: pd.DataFrame) -> Any:
    options: dict[str, Any] = {"device": args.device, "missing": args.missing}
    if args.normalization is not None:
        options["normalization"] = parse_normalization(args.normalization)
    for name in ("freq_weights", "prob_weights", "offset", "offset_select"):
        column = getattr(args, name)
        if column is not None:
            _check_column(column, data, f"--{name.replace('_', '-')}")
            options[name] = column
    return MODELS[args.model].from_formula(
        args.formula, args.select_formula, data, env={"np": np}, **options
    )


def _covariance(args: argparse.Namespace, data: pd.DataFrame) -> dict[str, Any]:
    if not args.groups:
        if args.cov_type == "cluster":
            raise ValueError("--cov-type cluster needs --groups COLUMN")
        return {"cov_type": args.cov_type}
    if args.cov_type not in (None, "cluster"):
        raise ValueError(f"--groups belongs to --cov-type cluster, not to {args.cov_type}")
    for column in args.groups:
        _check_column(column, data, "--groups")
    groups = args.groups[0] if len(args.groups) == 1 else tuple(args.groups)
    return {"cov_type": "cluster", "cov_kwds": {"groups": groups}}


def _check_column(name: str, data: pd.DataFrame, option: str) -> None:
    if name not in data.columns:
        raise ValueError(
            f"{option} {name!r} is not a column of the data; those are "
            f"{', '.join(map(str, data.columns))}"
        )


def parse_normalization(text: str) -> str | dict[str, float]:
    """A name, or fixed values such as sigma=1 or sigma=1,rho=0.5.

    Examples
    --------
    >>> parse_normalization("loading"), parse_normalization("sigma=1,rho=0.5")
    ('loading', {'sigma': 1.0, 'rho': 0.5})
    """
    if "=" not in text:
        return text.strip()
    fixed = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            fixed[name.strip()] = float(value)
        except ValueError:
            raise ValueError(
                f"--normalization {text!r}: {value.strip()!r} is not a number; write sigma=1 or "
                "rho=0.5"
            ) from None
    return fixed


def read_table(path: str, sep: str | None = None) -> pd.DataFrame:
    """The file as a frame; what is wrong with it is said in one sentence.

    Parameters
    ----------
    path : str
        CSV (compressed or not), .tsv, .parquet, or "-" for CSV on the standard input.
    sep : str, optional
        Separator of a CSV file.
    """
    file = Path(path)
    if path != "-" and not file.is_file():
        raise ValueError(f"{path}: {'is a folder' if file.is_dir() else 'no such file'}")
    if file.suffix.lower() in (".parquet", ".pq"):
        data = _read_parquet(path)
    else:
        data = _read_csv(path, sep or ("\t" if ".tsv" in file.suffixes else ","))
    if data.empty:
        raise ValueError(f"{path}: has no rows")
    return data


def _read_csv(path: str, sep: str) -> pd.DataFrame:
    if len(sep) != 1 or sep in '\r\n"':
        raise ValueError(f"--sep {sep!r} must be one character; a tab is $'\\t'")
    try:
        # The standard input can be read once only.
        source: Any = io.StringIO(sys.stdin.read()) if path == "-" else path
        data = pd.read_csv(source, sep=sep, low_memory=False)
        if path == "-":
            source.seek(0)
            _check_fields(source, sep, path)
        elif Path(path).suffix.lower() not in _COMPRESSED:  # which have checks of their own
            with open(path, encoding="utf-8-sig", newline="") as lines:
                _check_fields(lines, sep, path)
    except pd.errors.EmptyDataError:
        raise ValueError(f"{path}: the file is empty") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text file in UTF-8 ({error.reason})") from None
    except (pd.errors.ParserError, csv.Error) as error:
        detail = str(error).strip()
        raise ValueError(
            f"{path}: not a table separated by {sep!r} ({detail}); see --sep"
        ) from None
    except _BROKEN_ARCHIVE as error:
        raise ValueError(f"{path}: a broken archive ({error})") from None
    if data.shape[1] == 1 and sep not in data.columns[0] and ";" in str(data.columns[0]):
        raise ValueError(f"{path}: its header has semicolons and no {sep!r}; use --sep ';'")
    return data


def _check_fields(lines: Iterable[str], sep: str, path: str) -> None:
    """Refuse what pandas mends in silence: names that occur twice, rows with too few fields."""
    rows = csv.reader(lines, delimiter=sep)
    header = next(row for row in rows if row)
    repeated = sorted({name for name in header if name and header.count(name) > 1})
    if repeated:
        raise ValueError(
            f"{path}: its header has more than one column {', '.join(repeated)}; rename them"
        )
    for row in rows:
        if len(row) != len(header) and any(row):
            raise ValueError(
                f"{path}: line {rows.line_num} has {len(row)} fields and the header "
                f"{len(header)}; the file is cut short, or separated by something else (--sep)"
            )


def _read_parquet(path: str) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except ImportError:
        raise ValueError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow") from None
    except Exception as error:  # pyarrow's are of many classes, and all of them about the file
        raise ValueError(f"{path}: not a Parquet file that can be read ({error})") from None
