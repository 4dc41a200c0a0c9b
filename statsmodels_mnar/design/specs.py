"""What formulas learn from data: evaluated once, and again on new data or in another process.

patsy forbids pickling of its objects because their layout may change between patsy versions.
A fitted model has to survive ``pickle`` all the same, as it does in statsmodels, so the pickler
here writes them as plain (class, attributes) pairs. A pickle is to be read with the library
versions that wrote it, as any pickle is.
"""

from __future__ import annotations

import copyreg
import importlib
import io
import pickle
import re
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from types import FunctionType, ModuleType
from typing import Any, Literal, NoReturn

import numpy as np
import pandas as pd
import patsy
from numpy.typing import NDArray
from pandas.api import types as pdt
from statsmodels.formula._manager import FormulaManager

from ..errors import DesignError, listing
from .formula import (
    COLUMNS,
    Engine,
    Formula,
    builtins_of,
    by_row,
    column_coded,
    column_named,
    errors_named,
    factor_codes,
    factors_by_term,
    names_read,
    names_used,
    to_python,
)
from .terms import PenalisedTerm, all_columns
from .values import as_frame, check_size, check_unique, plain

_POWERS_FIT = 1_000  # integers whose sixth power is one

_SAMPLE = 1_000  # rows that show what an object column holds

_EXACT = 2**53  # below it, floats are integers too

# Of pandas' infer_dtype: what is neither numbers nor levels.
_NO_TERMS = {
    "complex", "date", "datetime", "datetime64", "period", "time", "timedelta", "timedelta64",
}  # fmt: skip

_SINGLE = 6  # rows that are evaluated one by one

ADVICE = (
    "Use a transform that learns from all rows once and remembers it, such as center(x), "
    "standardize(x), bs(x, df=4) or cr(x, df=4), or compute the column in the data beforehand."
)

IN_PARTITIONS = "Data in partitions are evaluated partition by partition, which would change it."

IN_NEW_DATA = "For new data it would depend on which rows are passed together."


@dataclass(frozen=True, slots=True, eq=False)
class FormulaSpec:
    """One equation's right-hand side with all it learned: levels, spline knots, means.

    It keeps the formula engine and only those names of the caller's scope that the formula uses.
    It can be pickled and used in a fresh process. Build designs from it with `rebuild`.
    """

    formula: str  # the right-hand side, "~ x + C(g)"
    engine: Engine
    columns: tuple[str, ...]  # the columns of the data it reads
    column_names: tuple[str, ...]  # the columns of the design it makes
    namespace: dict[str, Any]  # the caller's names it uses
    info: Any  # patsy's DesignInfo or formulaic's ModelSpec
    across_rows: tuple[str, ...] = ()  # terms whose values depend on other rows
    penalised: tuple[PenalisedTerm, ...] = ()  # whose columns follow those of the formula

    @property
    def term_slices(self) -> dict[str, slice]:
        """The columns that belong to each term, for joint tests of terms; not penalised ones."""
        return dict(FormulaManager(self.engine).get_term_name_slices(self.info))

    @property
    def factors(self) -> frozenset[str]:
        """Columns of the data that enter by their levels, numbers in ``C(k)`` among them."""
        codes = [code for code, levels in self._codes().items() if levels]
        found = filter(None, (column_coded(code, self.columns) for code in codes))
        return frozenset(found) | {each.column for each in self.penalised if each.kind == "re"}

    @property
    def numbers(self) -> frozenset[str]:
        """Columns of the data that are terms of their own, by their values."""
        codes = [code for code, levels in self._codes().items() if not levels]
        found = filter(None, (column_named(code, self.columns) for code in codes))
        return frozenset(found) | {each.column for each in self.penalised if each.kind == "smooth"}

    def _codes(self) -> dict[str, bool]:
        """The factors of the formula's terms, and whether they enter by levels."""
        if self.engine == "patsy":
            found = self.info.factor_infos.items()
            return {factor.code: info.type == "categorical" for factor, info in found}
        return {
            str(code): "categories" in state for code, (_, state) in self.info.encoder_state.items()
        }

    def check_new_data(self) -> None:
        """Refuse to evaluate new data where a term depends on other rows."""
        check_alone(self.across_rows, self.formula, IN_NEW_DATA)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {field.name: getattr(self, field.name) for field in fields(self)}
        return _load_spec, (dumps(state),)

    def __deepcopy__(self, memo: dict[int, Any]) -> FormulaSpec:
        return self  # immutable


def _load_spec(state: bytes) -> FormulaSpec:
    return FormulaSpec(**pickle.loads(state))


def evaluate_left(formula: Formula, frame: pd.DataFrame) -> tuple[Any, NDArray[np.bool_]]:
    """Evaluate the left-hand side on the rows where all it reads is known, and say which.

    ``I(y > 3)`` is False for a missing y if evaluated on all rows, and unknown in truth.
    """
    assert formula.lhs is not None
    if formula.lhs in formula.lhs_columns and _is_number(frame[formula.lhs].dtype):
        values = frame[formula.lhs].to_numpy(dtype=float)
        known = ~np.isnan(values)
        return values[known], known
    known = frame[list(formula.lhs_columns)].notna().all(axis=1).to_numpy()
    rows = plain(frame.loc[known, list(formula.lhs_columns)], learn=True)
    scope = {
        **builtins_of(formula.engine),
        **formula.namespace,
        **{name: rows[name] for name in rows},
        COLUMNS: rows,
    }
    try:
        return eval(to_python(formula.lhs), {}, scope), known
    except Exception as error:
        single = re.search(r"[^=!<>]=(?!=)", formula.lhs) is not None
        equals = ". Write == to compare" * (single and "unexpected keyword" in str(error))
        raise DesignError(f"cannot evaluate {formula.lhs!r}: {error}{equals}.") from error


def evaluate_right(
    formula: Formula, frame: pd.DataFrame, na_action: Literal["drop", "ignore"]
) -> tuple[NDArray[np.float64], FormulaSpec]:
    """Evaluate the right-hand side on complete rows and remember what was learned.

    A term may still be NaN (``np.log(x)`` of a negative x). With "drop" such a row is all NaN
    in the result, with "ignore" only the columns of that term are.
    """
    rows, columns = frame, _numbers_alone(formula, frame)
    if columns is None:  # objects may be numbers
        rows = plain(frame[list(formula.rhs_columns)], learn=True)
        rows = rows.set_axis(pd.RangeIndex(len(rows)), axis=0)
        columns = _numbers_alone(formula, rows)
    if columns is not None:
        info = _info_of_numbers(formula.rhs)
        design = _of_columns(info, columns, len(rows))
        return design, _spec(formula, info.column_names, info)
    check_terms(formula, rows)
    rows = readable(rows, formula.rhs, formula.engine)
    levels = _levels(formula, rows)
    if levels:
        check_size(formula.rhs, factors_by_term(formula.rhs, formula.engine), levels, len(rows))
    manager = FormulaManager(formula.engine)
    if na_action == "drop":
        action = manager.get_na_action("drop")
    else:
        action = manager.get_na_action("drop", types=[]) if formula.engine == "patsy" else "ignore"

    def evaluate(rows: pd.DataFrame, manager: FormulaManager) -> pd.DataFrame:
        if formula.engine == "patsy":  # through the manager it would take frames only
            scope = patsy.EvalEnvironment([dict(formula.namespace)])
            data = _as_patsy_reads(rows, formula.rhs, formula.namespace)
            return patsy.dmatrix(formula.rhs, data, scope, action, "dataframe")
        return manager.get_matrices(
            _as_manager_reads(formula), rows, eval_env=dict(formula.namespace), na_action=action
        )

    try:
        with errors_named(formula.rhs):
            matrix = evaluate(rows, manager)
            values = matrix.to_numpy(dtype=float)
    except DesignError as error:
        raise DesignError(f"{error}{_texts_read(str(error), formula, rows)}") from error
    codes = factor_codes(formula.rhs, formula.engine)
    check_integers(matrix, rows, codes, lambda r: evaluate(r, FormulaManager(formula.engine)))
    design = np.full((len(rows), matrix.shape[1]), np.nan)
    design[matrix.index] = values
    info = matrix.design_info if formula.engine == "patsy" else manager.spec
    spec = _spec(formula, matrix.columns, info)
    return design, replace(spec, across_rows=terms_across_rows(spec, matrix, rows))


def _spec(formula: Formula, column_names: Iterable[Any], info: Any) -> FormulaSpec:
    return FormulaSpec(
        formula=formula.rhs,
        engine=formula.engine,
        columns=formula.rhs_columns,
        column_names=tuple(str(name) for name in column_names),
        namespace={name: formula.namespace[name] for name in names_used(formula)},
        info=info,
    )


# -- terms that are columns of numbers, or products of such ----------------------------------------


def _numbers_alone(formula: Formula, frame: pd.DataFrame) -> dict[str, pd.Series] | None:
    """The factors' columns, where all are columns of numbers, as in most formulas; else None."""
    if formula.engine != "patsy":
        return None
    columns = {}
    for code in factor_codes(formula.rhs, formula.engine):
        if code not in frame.columns:
            return None
        columns[code] = frame[code]
        if not _is_number(columns[code].dtype):
            return None
    return columns


def _is_number(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "fiu"


@lru_cache(maxsize=256)
def _info_of_numbers(rhs: str) -> patsy.DesignInfo:
    """What patsy learns of such a formula: its names. It would look at each value several times."""
    terms = patsy.ModelDesc.from_formula(rhs).rhs_termlist
    scope = patsy.EvalEnvironment([])
    infos = {}
    for factor in {factor for term in terms for factor in term.factors}:
        state: dict[str, Any] = {}
        factor.memorize_passes_needed(state, scope)
        infos[factor] = patsy.FactorInfo(factor, "numerical", state, num_columns=1)
    coded = {term: [patsy.SubtermInfo(term.factors, {}, 1)] for term in terms}
    return patsy.DesignInfo([term.name() for term in terms], infos, OrderedDict(coded))


def _of_columns(
    info: patsy.DesignInfo, columns: Mapping[str, pd.Series], rows: int
) -> NDArray[np.float64]:
    """The design of a formula whose terms are products of columns."""
    numbers = {factor: columns[factor.code].to_numpy(dtype=float) for factor in info.factor_infos}
    design = np.empty((len(info.terms), rows))
    for column, term in zip(design, info.terms, strict=True):
        first, *others = [numbers[factor] for factor in term.factors] or [1.0]
        column[:] = first
        for other in others:
            column *= other
    return design.T


# -- again, on new data ----------------------------------------------------------------------------


def rebuild(spec: FormulaSpec, data: Any) -> pd.DataFrame:
    """Evaluate one equation's design on new data.

    Parameters
    ----------
    spec : FormulaSpec
        ``design.outcome_spec`` or ``design.select_spec``.
    data : DataFrame or mapping
        New data with the columns that this equation reads; others are not needed.

    Returns
    -------
    DataFrame
        One row per row of `data`, with its index; all NaN where a covariate is missing.

    Raises
    ------
    DesignError
        A column is absent, a factor has a level not seen when the design was built, or a term
        depends on other rows, as ``I(x - x.mean())`` does; ``center(x)`` remembers the mean.

    Examples
    --------
    >>> import pandas as pd
    >>> from ..design import design_from_formula, rebuild
    >>> data = pd.DataFrame({"y": [0, 1, None, 1], "x": [1.0, 2.0, 3.0, 4.0]})
    >>> design = design_from_formula("y ~ center(x)", "~ x", data)
    >>> rebuild(design.outcome_spec, pd.DataFrame({"x": [2.5, None]}))
       Intercept  center(x)
    0        1.0        0.0
    1        NaN        NaN
    """
    spec.check_new_data()
    data = as_frame(data)
    absent = [name for name in spec.columns if name not in data.columns]
    if absent:
        raise DesignError(
            f"data lacks the column(s) {listing(absent)} that {spec.formula!r} reads."
        )
    check_unique(data, spec.columns)
    frame = data[list(spec.columns)].set_axis(pd.RangeIndex(len(data)), axis=0)
    complete = frame[frame.notna().all(axis=1)]
    design = np.full((len(frame), len(spec.column_names)), np.nan)
    if len(complete):
        rows = readable(plain(complete, learn=False), spec.formula, spec.engine)
        for name in spec.numbers:
            rows[name] = _as_learned(rows[name])
        with errors_named(spec.formula):
            matrix = evaluate_again(spec, rows)
            design[matrix.index, : matrix.shape[1]] = matrix.to_numpy(dtype=float)
            if spec.penalised:
                own = all_columns(spec.penalised, rows.loc[matrix.index])
                design[matrix.index, matrix.shape[1] :] = own
    return pd.DataFrame(design, index=data.index, columns=list(spec.column_names))


def _as_learned(column: pd.Series) -> pd.Series:
    """A column of new data that was numeric when the design was built."""
    if pdt.is_bool_dtype(column.dtype):
        return column.astype(float)
    if not pdt.is_numeric_dtype(column.dtype) or pdt.is_complex_dtype(column.dtype):
        raise DesignError(
            f"{column.name} was numeric when the design was built and is of type {column.dtype} "
            "in these data. Convert it, for example with pandas.to_numeric."
        )
    return column


def evaluate_again(spec: FormulaSpec, frame: pd.DataFrame) -> pd.DataFrame:
    """Evaluate on complete rows; rows on which a term is NaN are left out."""
    matrix = _evaluate_again(spec, frame)
    check_integers(matrix, frame, spec._codes(), partial(_evaluate_again, spec))
    return matrix


def _evaluate_again(spec: FormulaSpec, frame: pd.DataFrame) -> pd.DataFrame:
    if spec.engine == "patsy":
        # Arrays have no labels, so that patsy counts the rows.
        rows = frame.set_axis(pd.RangeIndex(len(frame)), axis=0)
        data = _as_patsy_reads(rows, spec.formula, spec.namespace, spec.info)
        matrix = patsy.build_design_matrices([spec.info], data, return_type="dataframe")[0]
        return matrix.set_axis(frame.index[matrix.index], axis=0)
    from formulaic.errors import DataMismatchWarning

    with warnings.catch_warnings():  # formulaic turns unseen levels into zeros
        warnings.simplefilter("error", DataMismatchWarning)
        try:
            return spec.info.get_model_matrix(
                frame, context=spec.namespace, na_action="drop", output="pandas"
            )
        except DataMismatchWarning as error:
            raise DesignError(_unseen_levels(spec, frame) or str(error)) from None


def _unseen_levels(spec: FormulaSpec, frame: pd.DataFrame) -> str:
    parts = []
    for code, (_, state) in spec.info.encoder_state.items():
        known = state.get("categories")
        for name in names_read([str(code)])[0] & set(frame.columns) if known is not None else ():
            unseen = [level for level in frame[name].unique() if level not in list(known)]
            if unseen:
                parts.append(
                    f"{code} has the level(s) {listing(unseen)}, not seen when the design was "
                    f"built; known are {listing(known)}"
                )
    return "; ".join(parts)


# -- columns in the types that the engine reads ----------------------------------------------------


def readable(rows: pd.DataFrame, rhs: str, engine: Engine) -> pd.DataFrame:
    """Rows in which columns that enter by their levels have types that patsy reads.

    Times with a zone, periods and intervals are types of pandas, not of numpy; as levels they can
    be objects. Columns that expressions such as ``t.dt.hour`` read keep their type.
    """
    odd = [name for name in rows if _of_pandas_alone(rows[name])]
    if not odd:
        return rows
    codes, columns = factor_codes(rhs, engine), tuple(rows.columns)
    for name in odd:
        reading = [code for code in codes if name in set().union(*names_read([code]))]
        if any(column_coded(code, columns) != name for code in reading):
            continue
        column = rows[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            rows[name] = column.cat.rename_categories(column.cat.categories.astype(object))
        else:
            rows[name] = column.astype(object)
    return rows


def _as_patsy_reads(
    rows: pd.DataFrame,
    rhs: str,
    namespace: Mapping[str, Any],
    learned: patsy.DesignInfo | None = None,
) -> pd.DataFrame | dict[str, Any]:
    """The columns in the types that cost patsy least, where it reads nothing but their values.

    It looks at a Series of numbers a dozen times, each far slower than an array; and it loops in
    Python over text, unless that comes as codes and sorted levels. ``learned`` is what it knows of
    the levels; values that it has not seen stay text, which it complains of. One column stays a
    Series, from which patsy takes the index: it says which rows have no missing values.
    """
    codes = factor_codes(rhs, "patsy")
    simple = {code for name in rows.columns for code in (name, f"C({name})")} & codes
    elsewhere = set().union(*names_read(codes - simple))
    data: dict[str, Any] = {}
    indexed = False
    for name, column in rows.items():
        own = {name, f"C({name})"} & codes
        data[name] = column
        if not own or name in elsewhere:
            continue
        if own == {name} and column.dtype in (np.float64, np.int64):
            data[name] = column.to_numpy() if indexed else column
            indexed = True
        elif (
            pdt.is_object_dtype(column.dtype) and pdt.infer_dtype(column, skipna=False) == "string"
        ):
            data[name] = _by_levels(column, own, learned)
    # The number of rows is that of the frame unless a column says it, and is to be compared with
    # where an expression may have another.
    if not codes & simple:
        return rows.assign(**{name: data[name] for name in data if data[name] is not rows[name]})
    if "C" not in {*rows.columns, *namespace}:
        data["C"] = _categories
    return data


def _categories(data: Any, contrast: Any = None, levels: Any = None) -> Any:
    """Do as patsy's ``C``, but leave codes with their levels as they are.

    In the box that ``C`` makes patsy loops over them in Python.
    """
    coded = isinstance(getattr(data, "dtype", None), pd.CategoricalDtype)
    if coded and contrast is None and levels is None:
        return data
    return patsy.categorical.C(data, contrast, levels)


def _by_levels(column: pd.Series, codes: set[str], learned: patsy.DesignInfo | None) -> pd.Series:
    """Text as codes of its sorted levels, or of those that patsy has learned."""
    if learned is None:
        found, levels = pd.factorize(column, sort=True)
        return pd.Series(pd.Categorical.from_codes(found, levels), index=column.index)
    known = {
        info.categories for factor, info in learned.factor_infos.items() if factor.code in codes
    }
    levels = known.pop() if len(known) == 1 else ()
    if not levels or not all(isinstance(level, str) for level in levels):
        return column
    found = pd.Index(levels).get_indexer(column)
    if (found < 0).any():
        return column
    return pd.Series(pd.Categorical.from_codes(found, levels), index=column.index)


def _of_pandas_alone(column: pd.Series) -> bool:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    return isinstance(dtype, pd.DatetimeTZDtype | pd.PeriodDtype | pd.IntervalDtype)


def _as_manager_reads(formula: Formula) -> Any:
    """The right-hand side for statsmodels' manager, which formulaic goes through.

    Given text, the manager brings formulaic's terms into patsy's order, but loses the quotes of
    `odd name` and {x + 1} on the way; given a parsed formula it leaves it as it is.
    """
    if not set("`{") & set(formula.rhs):
        return formula.rhs
    import formulaic

    return formulaic.Formula(formula.rhs)


# -- columns that are no covariates ----------------------------------------------------------------


def check_types(formula: Formula, data: pd.DataFrame) -> None:
    """Refuse dates and the like by the types of the columns, before any work with their values."""
    for code in factor_codes(formula.rhs, formula.engine):
        name = column_named(code, formula.rhs_columns)
        if name is None or name not in data:
            continue
        column = data[name]
        if not isinstance(column, pd.Series) or _is_number(column.dtype):
            continue
        column = column.iloc[:_SAMPLE]
        if isinstance(column.dtype, pd.ArrowDtype):
            column = column.astype(object)
        kind = pdt.infer_dtype(column, skipna=True)
        if kind in _NO_TERMS:
            _refuse_kind(name, formula.rhs, kind)


def _refuse_kind(name: str, rhs: str, kind: str) -> NoReturn:
    advice = (
        "Compute numbers from it, such as the days since a date, or write "
        f"C({quoted(name)}) for levels."
    )
    if kind == "complex":
        advice = f"Compute real numbers from it, such as np.real({name}) or np.abs({name})."
    raise DesignError(f"{name} in {rhs!r} is of type {kind}, neither numbers nor levels. {advice}")


def _is_date(text: str) -> bool:
    return re.fullmatch(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}([ T][\d:.]+)?Z?", text) is not None


def check_terms(formula: Formula, rows: pd.DataFrame) -> None:
    """Refuse columns that are no covariates as they stand, such as dates and identifiers."""
    for code in factor_codes(formula.rhs, formula.engine):
        name = column_named(code, formula.rhs_columns)
        if name is None:
            continue
        column = rows[name]
        kind = pdt.infer_dtype(column)
        if kind in _NO_TERMS:
            _refuse_kind(name, formula.rhs, kind)
        if kind == "mixed" and not column.map(pdt.is_hashable).all():
            raise DesignError(
                f"{name} in {formula.rhs!r} holds lists or other nested values, neither numbers "
                "nor levels. Compute numbers or text from them in a column of its own."
            )
        # Numbers that were read as text, most often; a design with a column for each would be huge.
        if kind not in ("string", "mixed"):
            continue
        if kind == "string" and column.iloc[:_SAMPLE].map(_is_date).all():
            example = column.iloc[0]
            raise DesignError(
                f"{name} in {formula.rhs!r} has dates as text, such as {example}, neither numbers "
                "nor levels. Compute numbers from them in a column of their own, such as the year "
                f"or the days since a date, or write C({quoted(name)}) for levels."
            )
        distinct = column.nunique()
        if distinct > max(20, len(column) / 2):
            among = texts_among_numbers(column)
            if among:
                raise DesignError(
                    f"{name} in {formula.rhs!r} has numbers and the text {among}. Replace what "
                    "means missing by NaN and convert the column with pandas.to_numeric."
                )
            raise DesignError(
                f"{name} in {formula.rhs!r} is text with {distinct} different values in "
                f"{len(column)} rows, such as {column.iloc[0]!r}. Convert numbers with "
                f"pandas.to_numeric, merge levels, or write C({quoted(name)}) if each value is a "
                "level of its own."
            )


def _texts_read(error: str, formula: Formula, rows: pd.DataFrame) -> str:
    """Which columns of numbers have texts, where a function of a formula met one."""
    if "holds text where numbers are needed" not in error:
        return ""
    found = [(name, texts_among_numbers(rows[name])) for name in formula.rhs_columns]
    return "".join(
        f" {name} has the text {among}. Replace what means missing by NaN and convert the column "
        "with pandas.to_numeric."
        for name, among in found
        if among
    )


def texts_among_numbers(column: pd.Series) -> str:
    """The texts without a digit in a column that mostly has digits, to be shown in a message.

    Examples
    --------
    >>> texts_among_numbers(pd.Series(["1.200", "950", "n.k.", "800"]))
    "'n.k.' (1 row)"
    """
    counts = column.astype(str).value_counts()
    with_digit = np.array([any(c.isdigit() for c in text) for text in counts.index], dtype=bool)
    others = counts[~with_digit]
    if not 0 < others.sum() < len(column) / 2:
        return ""
    shown = [
        f"{text!r} ({count:,} row{'s' * (count > 1)})" for text, count in others.iloc[:5].items()
    ]
    return ", ".join(shown) + ", ..." * (len(others) > 5)


def quoted(name: str) -> str:
    """A column's name as a formula reads it."""
    return name if str(name).isidentifier() else f"Q({name!r})"


def _levels(formula: Formula, rows: pd.DataFrame) -> dict[str, int]:
    """How many levels the factors have that are columns, by their codes."""
    found = {}
    for code in factor_codes(formula.rhs, formula.engine):
        name = column_coded(code, formula.rhs_columns)
        if name is None:
            continue
        column = rows[name]
        numeric = pdt.is_numeric_dtype(column.dtype)
        if not numeric or column_named(code, formula.rhs_columns) is None:
            try:
                found[code] = max(int(column.nunique()), 1)
            except TypeError:  # values without a hash, of which the engine complains
                continue
    return found


def check_integers(
    matrix: pd.DataFrame,
    rows: pd.DataFrame,
    codes: Iterable[str],
    evaluate: Callable[[pd.DataFrame], pd.DataFrame],
) -> None:
    """Refuse expressions of integers that wrap around, by evaluating them as floats too."""
    columns = tuple(rows.columns)
    inside = names_read(code for code in codes if column_coded(code, columns) is None)
    large = [
        name
        for name in columns
        if name in inside[0] | inside[1]
        and pdt.is_integer_dtype(rows[name].dtype)
        and _POWERS_FIT < rows[name].abs().max() < _EXACT
    ]
    if not large:
        return
    try:
        again = evaluate(rows.astype(dict.fromkeys(large, float)))
    except Exception:  # an index, say, which floats cannot be
        return
    found, exact = matrix.to_numpy(dtype=float), again.to_numpy(dtype=float)
    same = found.shape == exact.shape and np.allclose(found, exact, rtol=1e-6, equal_nan=True)
    if not same:
        raise DesignError(
            f"the integers of {listing(large)} are too large for a term of the formula, which "
            "wraps around. Convert the column with astype(float)."
        )


# -- terms that depend on other rows ---------------------------------------------------------------


def terms_across_rows(
    spec: FormulaSpec, matrix: pd.DataFrame, rows: pd.DataFrame
) -> tuple[str, ...]:
    """The terms whose values for some ``rows`` are not those of their design, ``matrix``."""
    codes = factor_codes(spec.formula, spec.engine)
    doubtful = [code for code in codes if not by_row(code, spec.namespace)]
    if not doubtful:
        return ()
    terms = {
        str(term): columns
        for term, columns in spec.term_slices.items()
        if any(code.strip("{}") in str(term) for code in doubtful)
    }
    read = np.r_[tuple(terms.values())] if terms else np.arange(matrix.shape[1])
    found = differing(matrix, rows, partial(_evaluate_again, spec), read)
    return tuple(term for term, columns in terms.items() if found[columns].any())


def differing(
    whole: pd.DataFrame,
    rows: pd.DataFrame,
    evaluate: Callable[[pd.DataFrame], pd.DataFrame],
    doubtful: np.ndarray,
) -> np.ndarray:
    """Which columns of a design change when rows are evaluated alone, (columns,).

    Parameters
    ----------
    whole : DataFrame
        The design of all ``rows``, labelled by position; rows on which a term is NaN may lack.
    evaluate : callable
        From some of ``rows`` to their design.
    doubtful : ndarray
        The columns that may change.
    """
    found = np.zeros(whole.shape[1], dtype=bool)
    values = whole.to_numpy(dtype=float)
    if len(rows) < 2 or not len(values):
        return found
    with np.errstate(all="ignore"):
        size = np.nanmax(np.abs(values), axis=0, initial=0.0)
    for taken in _samples(values[:, doubtful], whole.index.to_numpy(), len(rows)):
        try:
            alone = evaluate(rows.iloc[taken].set_axis(pd.RangeIndex(len(taken)), axis=0))
        except Exception:  # a term that fails where there are few rows needs the others
            if len(taken) > 1:
                found[:] = True
            continue
        if alone.shape[1] != len(found):
            return ~found
        before = whole.reindex(taken).to_numpy(dtype=float)
        after = alone.reindex(range(len(taken))).to_numpy(dtype=float)
        near = np.abs(before - after) <= 1e-8 * np.abs(before) + 1e-11 * size
        same = (before == after) | near | (np.isnan(before) & np.isnan(after))
        found |= ~same.all(axis=0)
    return found


def _samples(values: np.ndarray, labels: np.ndarray, n: int) -> list[np.ndarray]:
    """Rows to evaluate alone: one at a time where columns are least and largest, and some."""
    filled = np.where(np.isnan(values), 0.0, values)
    ends = {*filled.argmin(axis=0).tolist(), *filled.argmax(axis=0).tolist()}
    single = [labels[i] for i in sorted(ends)[:_SINGLE]]
    spread = np.unique(np.linspace(n // 3, n - 1, 12).astype(int))
    return [*(np.array([i]) for i in single), spread]


def check_alone(terms: Iterable[str], formula: str, why: str) -> None:
    """Refuse terms that depend on other rows."""
    terms = list(terms)
    if terms:
        raise DesignError(
            f"{listing(terms)} in {formula!r} has other values when fewer rows are evaluated: it "
            f"depends on other rows, such as a mean, a rank, a quantile or the row before. {why} "
            f"{ADVICE}"
        )


# -- pickling --------------------------------------------------------------------------------------


def dumps(obj: Any) -> bytes:
    """Pickle `obj`, which may hold patsy objects, modules and the caller's functions.

    Functions and classes that can be imported are stored by reference. Others (lambdas, local
    functions, anything defined in a script or notebook) are stored by value if cloudpickle is
    installed; without it a ``PicklingError`` names them. Read the result with ``pickle.loads``.
    """
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(obj)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, ModuleType):
            return importlib.import_module, (obj.__name__,)
        # patsy.center is a wrapper that carries the name of the class it wraps, hence cannot be
        # found by its own name.
        if isinstance(obj, FunctionType) and hasattr(obj, "__patsy_stateful_transform__"):
            return patsy.stateful_transform, (obj.__patsy_stateful_transform__,)
        if type(obj).__module__.partition(".")[0] == "patsy":
            return copyreg.__newobj__, (type(obj),), vars(obj)  # type: ignore[attr-defined]
        if isinstance(obj, (FunctionType, type)) and not _importable(obj):
            return pickle.loads, (_by_value(obj),)
        return NotImplemented


def _importable(obj: Any) -> bool:
    """Can a fresh process find `obj` by its module and name?"""
    if obj.__module__ == "__main__":
        return False
    found: Any = sys.modules.get(obj.__module__)
    for part in obj.__qualname__.split("."):
        found = getattr(found, part, None)
    # Special types such as NoneType are not found by name but pickle knows them.
    return found is obj or obj.__module__ == "builtins"


def _by_value(obj: Any) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        raise pickle.PicklingError(
            f"the formula uses {obj.__qualname__!r}, which is defined in "
            f"{obj.__module__!r} and cannot be imported from there by a fresh process. Move it to "
            "a module that can be imported, or install cloudpickle."
        ) from None
    return cloudpickle.dumps(obj)
