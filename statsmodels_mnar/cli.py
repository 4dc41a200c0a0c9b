"""The commands ``fit`` and ``predict``, on files, and how every command ends."""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.tools.sm_exceptions import ModelWarning

from .files import Reading, manner_of, read_chunks, read_table
from .models import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection
from .optimize.maximize import OPTIMIZERS
from .post.covariance import ESTIMATORS
from .post.prediction import INDICES, WHICH
from .results.drawing import event, variable_of
from .results.report import SUFFIXES, check_path
from .tools import written_whole

NOT_CONVERGED = 3
MODELS = {"greene": GreeneSelectionLogit, "biascorr": BiasCorrLogit, "probit": ProbitSelection}

EXIT_CODES = """\
exit codes:
  0    done
  1    an error that should not happen: please report it, with the traceback
  2    a mistake in the command, the formulas or the data
  3    fit: the optimiser did not converge; what was asked for is written all the same
  130  interrupted
"""

_FILES = (
    "a .csv or .tsv file (compressed too), .xlsx, .xls, .ods, .dta (Stata) or .parquet, or - for "
    "CSV on the standard input"
)

_EXAMPLES = """\
examples:
  statsmodels-mnar fit loans.csv "default ~ income + age" "approved ~ income + age + C(officer)"
  statsmodels-mnar fit loans.parquet "default ~ np.log(income)" "~ np.log(income) + C(officer)" \\
      --groups branch --out report.html --out report.json
  statsmodels-mnar fit loans.xlsx "default ~ income" "approved ~ income + C(officer)" \\
      --model biascorr

A selection formula without a left side, "~ x + z", means "the outcome is observed". Formulas may
use np (numpy) and what patsy knows: C(), I(), center(), bs(), ...
"""


# What messages of the package advise in Python, as this program has it.
_ADVICE = (
    (r"Try other start_params, a larger maxiter,", "Try a larger --maxiter,"),
    (r"a ridge penalty\b", "a ridge penalty (--penalty 1e-4)"),
    (r"\bpenalty=([\de.-]+)", r"--penalty \1"),
    (r"normalization='(\w+)'", r"--normalization \1"),
    (r"normalization=\{'(\w+)': ([\d.]+)\}", r"--normalization \1=\2"),
    (r"method='(\w+)'", r"--method \1"),
    (r"cov_type='(\w+)'", r"--cov-type \1"),
    (r"missing='(\w+)'", r"--missing \1"),
    (r"device='(\w+)'", r"--device \1"),
    (
        r"neither a column of data nor a name in the calling scope",
        "not a column of the data",
    ),
    (
        r"look at others with sensitivity\(error_corr=\.\.\.\)",
        "the page of --out report.html shows others",
    ),
    (
        r"Replace what means missing by NaN and convert the column with pandas\.to_numeric",
        "If such a text means that the value is missing, name it with --na",
    ),
    (
        r"Convert numbers with pandas\.to_numeric",
        "Write numbers without letters and signs such as that of a currency",
    ),
)


def in_options(text: str) -> str:
    """Say the keywords of Python in a message as options of the command.

    Examples
    --------
    >>> in_options("Use method='sgd' or normalization='loading'.")
    'Use --method sgd or --normalization loading.'
    """
    for python, option in _ADVICE:
        text = re.sub(python, option, text)
    return text


def run_command(parser: argparse.ArgumentParser, argv: Sequence[str] | None = None) -> int:
    """Parse the arguments, run what they name, print what it returns, and return the exit code.

    The parser sets ``run``, a function of the parsed arguments that returns a text, or a text and
    an exit code. Mistakes of users end with a message and exit code 2, without a traceback.
    """
    args, rest = parser.parse_known_args(argv)
    if rest:
        spaces = "" if rest[0].startswith("-") else (
            ' File names and formulas with spaces need quotation marks, as in "my loans.csv".'
        )  # fmt: skip
        parser.error(
            f"unrecognized arguments: {' '.join(rest)}.{spaces} "
            f"{parser.prog} {args.command} --help lists the options."
        )

    def say_warning(message: Warning | str, *where: Any, **options: Any) -> None:
        print(f"{parser.prog}: warning: {in_options(str(message))}", file=sys.stderr)

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
        print(f"{parser.prog}: {in_options(str(error))}", file=sys.stderr)
        return 2
    return code


def add_fit(commands: Any) -> None:
    """The parser of ``fit``."""
    parser = commands.add_parser(
        "fit",
        usage="%(prog)s [options] data formula select_formula",
        help="fit a model to a file and write a report",
        description="Fit a selection model to a file, print its summary and write reports.",
        epilog=f"{_EXAMPLES}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", help=_FILES)
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
    parser.add_argument(
        "--method", choices=list(OPTIMIZERS), default="newton",
        help="optimiser (default newton); sgd is the paper's early-stopped descent",
    )  # fmt: skip
    parser.add_argument("--maxiter", type=int, help="limit on iterations")
    parser.add_argument("--alpha", type=float, default=0.05, help="of intervals (default 0.05)")
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda, ...")
    _add_reading(parser)
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


def _add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the options of how a file is read."""
    parser.add_argument("--sep", help="separator of a CSV file (default: found in the file)")
    parser.add_argument("--decimal", choices=[".", ","], help="decimal mark of a CSV file")
    parser.add_argument(
        "--thousands", choices=[".", ",", " ", "'"],
        help="mark of thousands in a CSV file, as in 1.234,56 (default: none)",
    )  # fmt: skip
    parser.add_argument("--encoding", help="of a CSV file, such as cp1252 (default: utf-8)")
    parser.add_argument(
        "--na", action="append", default=[], metavar="TEXT",
        help="a text that means a missing value in a CSV file, such as k.A.; several times "
        "(empty fields, NA and n/a do anyway)",
    )  # fmt: skip
    parser.add_argument("--sheet", help="of an Excel file, by name or number (default: the first)")


def _reading(args: argparse.Namespace) -> Reading:
    return Reading(
        args.sep, args.decimal, args.thousands, args.encoding, args.sheet, tuple(args.na)
    )


def run_fit(args: argparse.Namespace) -> tuple[str, int]:
    """The summary and the exit code; reports are written on the way."""
    for path in args.out:
        check_path(path)
    _check_alpha(args.alpha)
    figures = find_spec("matplotlib") is not None
    if not figures and any(path.lower().endswith(".html") for path in args.out):
        print(
            "statsmodels-mnar: warning: the page has no figures, which need matplotlib: pip "
            "install 'statsmodels-mnar[plot]'",
            file=sys.stderr,
        )
    progress = sys.stderr.isatty() if args.progress is None else args.progress
    data = read_table(args.data, _reading(args))
    how = _covariance(args, data)
    if args.penalty is not None:
        how["penalty"] = args.penalty
    model = _model(args, data)
    for note in _notes(model.design, data):
        print(f"statsmodels-mnar: note: {note}", file=sys.stderr)
    results = model.fit(method=args.method, maxiter=args.maxiter, disp=progress, **how)
    for path in args.out:
        results.report(path, title=args.title, alpha=args.alpha, figures=figures, progress=progress)
    text = "" if args.quiet else str(results.summary(alpha=args.alpha))
    return text, 0 if results.converged else NOT_CONVERGED


def _notes(design: Any, data: pd.DataFrame) -> Iterator[str]:
    """What was done to the rows that a user may not expect."""
    gone = design.dropped.missing
    if gone:
        yield f"{gone:,} of {len(data):,} rows have a missing value and are left out"
    for name, rows in ((design.outcome_name, design.labelled), (design.select_name, slice(None))):
        column = variable_of(name)
        if column not in data or event(name) == f"{name} = 1":  # not made of text
            continue
        counts = data[column].iloc[design.kept[rows]].value_counts()
        others = [
            f"{level!r} ({count:,} rows)"
            for level, count in counts.items()
            if event(name) not in (f"{column} = '{level}'", f'{column} = "{level}"')
        ]
        if len(others) > 1:
            yield (
                f"{event(name)} counts as 1, and {', '.join(others[:6])}"
                f"{', ...' * (len(others) > 6)} count as 0. Where one of these means that "
                f"{column} is not known, name it with --na"
            )


def _check_alpha(alpha: float) -> None:
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"--alpha {alpha:g} must lie between 0 and 1")


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


# -- predict ---------------------------------------------------------------------------------------


ALL = tuple(which for which in WHICH if which not in INDICES)
_CHUNK = 100_000  # rows
_DIGITS = 6
_SCORES = (".csv", ".tsv", ".parquet")

_PREDICT_EXAMPLES = """\
examples:
  statsmodels-mnar fit loans.csv "default ~ income" "approved ~ income + C(officer)" --out fit.json
  statsmodels-mnar predict fit.json new.csv --out scored.csv
  statsmodels-mnar predict fit.json new.csv --which mean-unselected --interval --keep id

probabilities, of y (the outcome) and s (selection):
  mean              P(y = 1) in the population
  mean-selected     P(y = 1 given s = 1)
  mean-unselected   P(y = 1 given s = 0)
  prob-select       P(s = 1)
  p11 p10 p01 p00   P(y, s), y first
  linear, linear-select   the indices of the two equations
"""


def add_predict(commands: Any) -> None:
    """The parser of ``predict``."""
    parser = commands.add_parser(
        "predict",
        usage="%(prog)s [options] results data",
        help="predict for the rows of a file from what fit wrote",
        description="Add predicted probabilities to the rows of a file. Large files are read in\n"
        "parts; the columns needed are those of the formulas that the probability depends on.",
        epilog=f"{_PREDICT_EXAMPLES}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("results", help="the .json file that fit --out wrote")
    parser.add_argument("data", help=_FILES)
    parser.add_argument(
        "--which", action="append", choices=[*WHICH, "all"],
        metavar="NAME", help="what to predict (default mean); several times, or all probabilities",
    )  # fmt: skip
    parser.add_argument(
        "--interval", action="store_true", help="add standard errors and the ends of intervals"
    )
    parser.add_argument("--alpha", type=float, default=0.05, help="of intervals (default 0.05)")
    parser.add_argument(
        "--keep", action="append", metavar="COLUMN",
        help="write only these columns of the data beside the predictions (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--out", metavar="FILE",
        help=f"where to write: {', '.join(_SCORES)} (default: CSV on the standard output)",
    )  # fmt: skip
    _add_reading(parser)
    parser.set_defaults(run=run_predict)


def run_predict(args: argparse.Namespace) -> str:
    """Write the predictions; return what was written where, nothing if that is the output."""
    from .models.saved import from_json

    if args.out is not None:
        check_path(args.out, _SCORES)
    _check_alpha(args.alpha)
    try:
        results = from_json(Path(args.results))
    except FileNotFoundError:
        raise ValueError(f"{args.results}: no such file") from None
    except ValueError as error:
        raise ValueError(
            f"{args.results}: {error}. The first argument of predict is the .json file that "
            "fit --out fit.json wrote"
        ) from None
    if results.model.design.outcome_spec is None:
        raise ValueError(
            f"{args.results}: has no record of what its formulas learned, because they use "
            "functions of their own, or the file is of version 0.1; predict in Python with "
            "from_json(..., model=)"
        )
    wanted = list(dict.fromkeys(args.which or ["mean"]))
    if "all" in wanted:
        wanted = [*ALL, *(name for name in wanted if name in INDICES)]
    typed = str(args.out).lower().endswith(".parquet")
    design = results.model.design
    offsets = filter(None, results.model.offset_columns)
    used = {*design.outcome_spec.columns, *design.select_spec.columns, *offsets}
    frames = (
        _scored(results, chunk, wanted, args)
        for chunk in read_chunks(args.data, _CHUNK, _reading(args), None if typed else used)
    )
    if args.out is None:
        _write_csv(frames, sys.stdout, args, manner_of(args.data, _reading(args))[0])
        return ""
    with written_whole(Path(args.out)) as beside:
        if typed:
            rows, means = _write_parquet(frames, beside)
        else:
            sep, encoding = manner_of(args.data, _reading(args))
            if args.out.lower().endswith(".tsv"):
                sep = "\t"
            with beside.open("w", encoding=encoding, newline="") as file:
                rows, means = _write_csv(frames, file, args, sep)
    shown = ", ".join(f"{name} {means[name]:.3f}" for name in wanted)
    return f"{rows:,} rows written to {args.out}; means: {shown}"


def _scored(
    results: Any, data: pd.DataFrame, wanted: list[str], args: argparse.Namespace
) -> pd.DataFrame:
    """The columns to keep and the predictions."""
    if args.keep is not None:
        for name in args.keep:
            _check_column(name, data, "--keep")
    kept = data if args.keep is None else data[args.keep]
    found = {}
    for name in wanted:
        if args.interval:
            frame = results.get_prediction(data, which=name).summary_frame(args.alpha)
            for column, suffix in zip(frame, ("", "_se", "_lower", "_upper"), strict=True):
                found[name + suffix] = np.asarray(frame[column])
        else:
            found[name] = np.asarray(results.predict(data, which=name))
    twice = [name for name in found if name in kept.columns]
    if twice:
        raise ValueError(
            f"the data have columns {', '.join(twice)} already; leave them out by naming those to "
            "keep with --keep, or rename them"
        )
    scores = pd.DataFrame(found, index=data.index).round(_DIGITS)
    return pd.concat([kept, scores], axis=1)


def _write_csv(
    frames: Iterator[pd.DataFrame], file: Any, args: argparse.Namespace, sep: str
) -> tuple[int, pd.Series]:
    rows, sums, known = 0, pd.Series(dtype=float), pd.Series(dtype=float)
    for frame in frames:
        frame.to_csv(file, index=False, sep=sep, decimal=args.decimal or ".", header=rows == 0)
        rows, sums, known = _counted(frame, rows, sums, known)
    return rows, _means(rows, sums, known)


def _write_parquet(frames: Iterator[pd.DataFrame], path: Path) -> tuple[int, pd.Series]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ValueError("--out: writing Parquet needs pyarrow: pip install pyarrow") from None
    rows, sums, known = 0, pd.Series(dtype=float), pd.Series(dtype=float)
    writer: Any = None
    try:
        for frame in frames:
            table = pa.Table.from_pandas(frame, preserve_index=False)
            writer = pq.ParquetWriter(path, table.schema) if writer is None else writer
            writer.write_table(table.cast(writer.schema))
            rows, sums, known = _counted(frame, rows, sums, known)
    finally:
        if writer is not None:
            writer.close()
    return rows, _means(rows, sums, known)


def _counted(
    frame: pd.DataFrame, rows: int, sums: pd.Series, known: pd.Series
) -> tuple[int, pd.Series, pd.Series]:
    numbers = frame.select_dtypes("number")
    return (
        rows + len(frame),
        sums.add(numbers.sum(), fill_value=0.0),
        known.add(numbers.notna().sum(), fill_value=0.0),
    )


def _means(rows: int, sums: pd.Series, known: pd.Series) -> pd.Series:
    if not rows:
        raise ValueError("the data have no rows")
    missing = int(rows - known.iloc[-1])
    if missing:
        print(
            f"statsmodels-mnar: warning: {missing:,} of {rows:,} rows have a missing covariate and "
            "get no prediction",
            file=sys.stderr,
        )
    return sums / known.where(known > 0)
