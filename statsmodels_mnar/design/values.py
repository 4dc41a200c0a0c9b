"""Tables and columns as users pass them: plain types, float arrays, and which rows are complete."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types as pdt

from ..errors import DesignError, MissingDataError, MissingOutcomeWarning, listing, warn
from ..types import Floats, Mask

_COPIES = 3  # of a design while the formula engine makes it

# Where Linux says how much memory a container may have and has.
_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def check_size(
    rhs: str, terms: Iterable[tuple[str, ...]], levels: Mapping[str, int], n_rows: int
) -> None:
    """Refuse a design that memory cannot hold.

    Parameters
    ----------
    rhs : str
        The right-hand side, for the message.
    terms : iterable of tuple of str
        The codes of each term's factors.
    levels : mapping
        Levels of the factors that have any.
    """
    columns = 0
    for term in terms:
        width = 1
        for code in term:
            width *= levels.get(code, 1)
        columns += width
    check_columns(rhs, columns, n_rows, levels)


def check_columns(rhs: str, columns: int, n_rows: int, levels: Mapping[str, int]) -> None:
    """Refuse so many columns and rows, and name the factors with the most levels."""
    size = 8 * columns * n_rows
    free = memory_at_hand()
    if free is None or _COPIES * size <= free:
        return
    most = sorted(levels.items(), key=lambda item: -item[1])[:3]
    causes = listing(f"{code} has {count:,} levels" for code, count in most)
    raise DesignError(
        f"the design of {rhs!r} would have about {columns:,} columns for {n_rows:,} rows. That is "
        f"{size / 1e9:.3g} GB, and {_COPIES} times as much while it is built, but "
        f"{free / 1e9:.3g} GB of memory are free{'; ' * bool(causes)}{causes}. Merge rare levels, "
        "or use a number in their place, such as the size of each level's group."
    )


def memory_at_hand() -> int | None:
    """Bytes that this process may still take; None where the system does not say."""
    found = []
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                found.append(1024 * int(line.split()[1]))
    except (OSError, ValueError):
        pass
    for limit, used in _CGROUPS:
        try:
            found.append(int(Path(limit).read_text()) - int(Path(used).read_text()))
        except (OSError, ValueError):  # not there, or "max"
            continue
    if not found and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(found, default=None)


# -- tables as users pass them, in the types that both formula engines read alike ------------------


_LONGEST = np.iinfo(np.int64).max


def in_memory(data: Any) -> bool:
    """Whether data are rows in memory, not a path, a pyarrow Dataset or a dask DataFrame."""
    return not (isinstance(data, str | os.PathLike) or is_arrow_dataset(data) or is_dask(data))


def is_arrow_dataset(data: Any) -> bool:
    """Whether it is a pyarrow Dataset."""
    return _is(data, "pyarrow", "Dataset")


def is_dask(data: Any) -> bool:
    """Whether it is a dask DataFrame."""
    return _is(data, "dask", "DataFrame")


def _is(data: Any, package: str, name: str) -> bool:
    """Compare by name, so that the package need not be installed."""
    return any(
        kind.__module__.partition(".")[0].removesuffix("_expr") == package and kind.__name__ == name
        for kind in type(data).__mro__
    )


def as_frame(data: Any) -> pd.DataFrame:
    """A DataFrame from what users pass as data."""
    if isinstance(data, pd.DataFrame):
        if isinstance(data.columns, pd.MultiIndex):
            raise DesignError(
                f"data has columns of {data.columns.nlevels} levels, such as "
                f"{data.columns[0] if len(data.columns) else ()}, which formulas cannot name. "
                "Join them first, as in data.columns = ['_'.join(map(str, c)) for c in "
                "data.columns]."
            )
        return data
    if isinstance(data, pd.Series):
        return data.to_frame().T.infer_objects()
    if hasattr(data, "collect") and not hasattr(data, "to_pandas"):  # polars' LazyFrame
        data = data.collect()
    if hasattr(data, "__arrow_c_stream__") and not hasattr(data, "to_pandas"):
        import pyarrow

        data = pyarrow.table(data)  # any other frame of the Arrow world
    if hasattr(data, "to_pandas"):  # polars, pyarrow
        return with_sorted_levels(data.to_pandas(), levels_by_chance(getattr(data, "schema", ())))
    if isinstance(data, Mapping):
        scalar = all(np.isscalar(value) for value in data.values())
        try:
            return pd.DataFrame(data, index=[0] if scalar else None)
        except ValueError as error:
            raise DesignError(f"data cannot be read as a table: {error}.") from error
    got = f"data must be a DataFrame or a mapping of columns, got {type(data).__name__}"
    if isinstance(data, str | os.PathLike) or type(data).__name__.endswith("Dataset"):
        raise DesignError(
            f"{got}, which names files. Read them first, as with pandas.read_parquet(data), or "
            "write predictions for them to other files with results.predict_parquet(data, folder)."
        )
    raise DesignError(f"{got}. Make one with pandas.DataFrame(data).")


def levels_by_chance(schema: Any) -> list[str]:
    """Columns whose levels stand in the order of their first rows, which nobody has chosen.

    These are the ``Categorical`` of polars, but not its ``Enum``, and the dictionaries of Arrow,
    unless they are ordered or were categories of pandas.
    """
    if isinstance(schema, Mapping):  # of polars
        return [name for name, kind in schema.items() if type(kind).__name__ == "Categorical"]
    if not hasattr(schema, "pandas_metadata"):  # not of pyarrow either
        return []
    columns = (schema.pandas_metadata or {}).get("columns", [])
    chosen = {column["name"] for column in columns if column["pandas_type"] == "categorical"}
    return [
        field.name
        for field in schema
        if getattr(field.type, "ordered", True) is False
        and field.name not in chosen
        and not any(key.startswith(b"_PL_ENUM") for key in field.metadata or ())
    ]


def with_sorted_levels(frame: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """The frame with the levels of these columns in the order that text would have."""
    found = {}
    for name in names:
        column = frame.get(name)
        if isinstance(column, pd.Series) and isinstance(column.dtype, pd.CategoricalDtype):
            levels = column.cat.remove_unused_categories().cat.categories
            found[name] = column.cat.set_categories(sorted_if_possible(levels), ordered=False)
    return frame.assign(**found) if found else frame


def sorted_if_possible(levels: Iterable[Any]) -> list[Any]:
    """The levels in their order, or as they are where they have none."""
    levels = list(levels)
    try:
        return sorted(levels)
    except TypeError:
        return levels


def owned(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame as it is now, whatever the user does to it later.

    Where pandas copies on write (always from version 3 on) nothing is copied until the user writes
    to the frame, and then only the columns written to.
    """
    return frame.copy(deep=not _copies_on_write())


def _copies_on_write() -> bool:
    if int(pd.__version__.split(".")[0]) >= 3:
        return True
    return pd.get_option("mode.copy_on_write") is True  # False or "warn" otherwise


def check_unique(data: pd.DataFrame, names: Iterable[str]) -> None:
    """Refuse names that more than one column has."""
    for name in names:
        if data.columns.get_loc(name).__class__ is not int:
            raise DesignError(f"data has more than one column {name!r}. Rename or drop one.")


def plain(frame: pd.DataFrame, learn: bool) -> pd.DataFrame:
    """Complete rows in dtypes that both formula engines read alike.

    Categories are trimmed to those in use when learning, and become plain values afterwards:
    new data with fewer or reordered categories is fine as long as each value is known.
    """
    columns = {}
    for name, column in frame.items():
        if column.dtype == np.float64:  # most are, and each question below has its cost
            columns[name] = column
            continue
        if isinstance(column.dtype, pd.CategoricalDtype) and learn:
            columns[name] = column.cat.remove_unused_categories()
            continue
        if isinstance(column.dtype, pd.CategoricalDtype) or _of_arrow(column.dtype):
            column = column.astype(object)
        if pdt.is_object_dtype(column.dtype):
            column = column.infer_objects()
        dtype = column.dtype
        if pdt.is_object_dtype(dtype) and pdt.infer_dtype(column) == "decimal":
            column = column.astype("float64")
        elif pdt.is_string_dtype(dtype):
            column = column.astype(object)
        elif pdt.is_bool_dtype(dtype):
            column = column.astype(bool)
        elif pdt.is_unsigned_integer_dtype(dtype) and column.max() > _LONGEST:
            column = column.astype("float64")
        elif pdt.is_integer_dtype(dtype):  # narrow ones would wrap around in I(k ** 2)
            column = column.astype("int64")
        elif pdt.is_float_dtype(dtype):
            column = column.astype("float64")
        columns[name] = column
    return pd.DataFrame(columns, index=frame.index)


def typed(frame: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """The frame with objects that are numbers or truth values as such, as formulas read them.

    Examples
    --------
    >>> frame = pd.DataFrame({"x": [1.5, None], "g": ["a", "b"]}, dtype=object)
    >>> [str(dtype) for dtype in typed(frame, ["x", "g"]).dtypes]
    ['float64', 'object']
    """
    found: dict[str, Any] = {}
    for name in names:
        column = frame.get(name)
        if not isinstance(column, pd.Series) or not pdt.is_object_dtype(column.dtype):
            continue
        known = column.notna()
        values = plain(column[known].to_frame(), learn=False).iloc[:, 0]
        if not pdt.is_numeric_dtype(values.dtype):  # truth values are
            continue
        if known.all():
            found[name] = values
        elif pdt.is_bool_dtype(values.dtype):
            found[name] = column.astype("boolean")
        else:
            found[name] = column.where(known, np.nan).astype("float64")
    return frame.assign(**found)


def _of_arrow(dtype: Any) -> bool:
    return isinstance(dtype, pd.ArrowDtype)


# -- values and rows: what users pass as float arrays, which rows are complete, what is allowed ----


Missing = Literal["drop", "raise", "none"]
WeightKind = Literal["freq_weights", "prob_weights"]


_LEAST_WEIGHT = 1e-3  # of all rows
_LARGEST = 1e140  # of a column; sums of squares of such numbers are finite
_UNALIGNED = (pd.errors.IndexingError, pd.errors.InvalidIndexError)  # neither is a ValueError


class Dropped(NamedTuple):
    """How many rows of the user's data are not in the design, and why."""

    subset: int = 0  # excluded by subset
    missing: int = 0  # a covariate, the selection indicator, an offset or a weight is missing
    outcome: int = 0  # selected, but the outcome is missing


# ---- rows ----------------------------------------------------------------------------------------


def check_missing(missing: str) -> None:
    if not isinstance(missing, str) or missing not in get_args(Missing):
        raise DesignError(f"missing must be 'drop', 'raise' or 'none', got {missing!r}.")


def complete_rows(
    holes: Mapping[str, Mask], y: Floats, s: Floats, missing: str, outcome_name: str, select: str
) -> tuple[Mask, Dropped]:
    """Rows on which all but the outcome of unselected rows is known."""
    incomplete = np.logical_or.reduce(list(holes.values()), axis=0)
    unlabelled = ~incomplete & (s == 1) & np.isnan(y)
    dropped = Dropped(missing=int(incomplete.sum()), outcome=int(unlabelled.sum()))
    if missing != "drop" and dropped.missing:
        counts = [f"{name} ({mask.sum()})" for name, mask in holes.items() if mask.any()]
        raise MissingDataError(
            f"{dropped.missing} of {len(s)} rows have missing values, missing={missing!r}. "
            f"Columns and counts: {listing(counts)}. Use missing='drop' to leave those rows out."
        )
    if dropped.outcome and missing != "drop":
        raise MissingDataError(
            f"{dropped.outcome} selected row(s) ({select} = 1) have no outcome {outcome_name}, "
            f"missing={missing!r}. Use missing='drop' to leave them out, or set {select} = 0 there."
        )
    return ~(incomplete | unlabelled), dropped


def check_rows_left(count: int, dropped: Dropped) -> None:
    if count == 0 and not sum(dropped):
        raise DesignError("the data have no rows.")
    if count == 0:
        raise DesignError(
            f"no rows are left: {dropped.subset} excluded by subset, {dropped.missing} have "
            f"missing covariates, {dropped.outcome} are selected without an outcome."
        )


def warn_dropped(dropped: Dropped, outcome_name: str, select: str) -> None:
    """Say that selected rows without an outcome are not in the design."""
    if dropped.outcome:
        warn(
            f"{dropped.outcome} selected row(s) ({select} = 1) have no outcome {outcome_name} and "
            f"were dropped. Set {select} = 0 there if they count as unselected.",
            MissingOutcomeWarning,
        )


def rows_without_nan(matrix: Floats, names: tuple[str, ...], missing: str) -> Mask:
    """Rows of an evaluated design without NaN, although all its columns were known."""
    flat = matrix.ravel(order="K")
    if np.isfinite(np.dot(flat, flat)):  # in one pass; a sum of squares hides no NaN
        return np.ones(len(matrix), dtype=bool)
    nan = np.isnan(matrix)
    bad = [f"{name} ({count})" for name, count in zip(names, nan.sum(0), strict=True) if count]
    if bad and (missing != "drop" or nan.any(axis=1).all()):
        raise MissingDataError(
            f"design columns are NaN where their variables are known; columns and counts: "
            f"{listing(bad)}. Change the term, or leave the rows out with subset."
        )
    return np.asarray(~nan.any(axis=1))


def subset_positions(index: pd.Index, subset: Any) -> NDArray[np.int64]:
    positions = pd.Series(np.arange(len(index), dtype=np.int64), index=index)
    if subset is None:
        return positions.to_numpy()
    if callable(subset):
        raise DesignError(
            "subset is a function; give the rows that it selects, as in subset=data['x'] > 0."
        )
    try:
        chosen = positions.loc[subset]
    except (KeyError, IndexError, TypeError, ValueError, *_UNALIGNED) as error:
        raise DesignError(f"subset does not select rows of data: {error}") from error
    return np.atleast_1d(np.asarray(chosen, dtype=np.int64))


# ---- values --------------------------------------------------------------------------------------


def as_floats(values: Any, argument: str) -> Floats:
    """Numbers of any shape as a new float array, row by row: products have the same bits then.

    Missing and masked values become NaN; dates, text and complex numbers are refused, which numpy
    would turn into nanoseconds, parse, or cut.
    """
    values = at_hand(values, argument)
    try:
        if not isinstance(values, pd.Series | pd.DataFrame):
            values = np.asanyarray(values)
        dtypes = values.dtypes if isinstance(values, pd.DataFrame) else [values.dtype]
        bad = [dtype for dtype in dtypes if not _holds_numbers(dtype)]
        if bad:
            raise TypeError(f"it is of type {bad[0]}")
        if isinstance(values, np.ma.MaskedArray):
            return np.ma.filled(values.astype(np.float64, order="C"), np.nan)
        if isinstance(values, np.ndarray) and values.dtype != object:
            return values.astype(np.float64, order="C")
        if isinstance(values, np.ndarray):  # pandas knows None and pd.NA
            flat = pd.Series(values.ravel()).to_numpy(dtype=np.float64, na_value=np.nan)
            return flat.reshape(values.shape).copy()
        return values.to_numpy(dtype=np.float64, na_value=np.nan).copy()
    except (TypeError, ValueError) as error:
        raise DesignError(f"{argument} must be numeric: {error}.") from error


def at_hand(values: Any, argument: str) -> Any:
    """Values that numpy and pandas read: torch's tensors as arrays; sparse matrices are refused."""
    if hasattr(values, "detach"):
        return values.detach().cpu().numpy()
    if hasattr(values, "toarray"):
        raise DesignError(f"{argument} is a sparse matrix; pass {argument}.toarray().")
    return values


def _holds_numbers(dtype: Any) -> bool:
    number = pdt.is_numeric_dtype(dtype) and not pdt.is_complex_dtype(dtype)
    return bool(number or pdt.is_bool_dtype(dtype) or pdt.is_object_dtype(dtype))


def binary_floats(values: Any, name: str, role: str) -> Floats:
    """Values of a variable that ought to be 0/1, as floats; missing becomes NaN."""
    values = at_hand(values, name)
    try:
        shape = np.shape(values)
    except ValueError as error:  # lists of different lengths in a list
        raise DesignError(f"{role} {name!r} must be one variable: {error}") from error
    if len(shape) == 2 and shape[1] == 1:
        values = np.asarray(values)[:, 0]
    elif len(shape) != 1:
        raise DesignError(f"{role} {name!r} must be one variable, got shape {shape}.")
    series = pd.Series(values).infer_objects()
    if pdt.is_object_dtype(series.dtype) and pdt.is_bool_dtype(series.dropna().infer_objects()):
        series = series.astype("boolean")
    if pdt.is_object_dtype(series.dtype) or not _holds_numbers(series.dtype):
        levels = _levels(series.dropna())
        raise DesignError(
            f"{role} {name!r} is of type {series.dtype}, with levels {listing(levels)}; it must be "
            f"0/1 or boolean. {_recoded(name, [repr(level) for level in levels])}"
        )
    return series.to_numpy(dtype=np.float64, na_value=np.nan).copy()


def _levels(values: pd.Series) -> list[Any]:
    try:
        found = list(values.unique())
    except TypeError:  # not all can be hashed
        found = list({str(value): value for value in values}.values())
    return sorted(found, key=str)


def _recoded(name: str, levels: list[str]) -> str:
    """How to say which level counts as one: nobody but the user knows, so both are shown."""
    ways = [f"I({name} == {level})" for level in levels]
    if len(ways) == 2:
        return f"Write {ways[0]} or {ways[1]} in the formula: the level that you write counts as 1."
    return f"Write I({name} == level) in the formula, with the level that counts as 1."


def check_binary(
    values: Floats,
    name: str,
    role: str,
    rows: pd.Index | None = None,
    positions: NDArray[np.int64] | None = None,
) -> None:
    """Refuse values other than 0 and 1; an error names the first bad row by its label in ``rows``.

    With ``positions`` the values are those of the labels at these positions.
    """
    bad = ~((values == 0) | (values == 1))
    if bad.any():
        if rows is not None and positions is not None:
            rows = rows[positions]
        shown = [
            np.format_float_positional(value, trim="-") for value in np.sort(pd.unique(values))
        ]
        raise DesignError(
            f"{role} {name!r} must be 0/1 or boolean, found {listing(shown)}{_first(bad, rows)}. "
            f"{_recoded(name, shown)}"
        )


def check_finite(matrix: Floats, names: tuple[str, ...], rows: pd.Index | None = None) -> None:
    """Refuse infinite values, and columns whose squares would overflow or vanish."""
    squares = np.einsum("ij,ij->j", matrix, matrix)
    if ((squares > _LARGEST**-2 * len(matrix)) & (squares < _LARGEST**2)).all():
        return  # then so are the peaks
    peak = np.abs(matrix).max(axis=0, initial=0.0)
    if not np.isfinite(peak).all():
        bad = [name for name, value in zip(names, peak, strict=True) if not np.isfinite(value)]
        where = _first(np.asarray(~np.isfinite(matrix).all(axis=1)), rows)
        raise DesignError(f"infinite values in {listing(bad)}{where}. Recode or drop those rows.")
    extreme = (peak > _LARGEST) | ((peak < 1.0 / _LARGEST) & (peak > 0))
    if extreme.any():
        j = int(np.argmax(extreme))
        raise DesignError(
            f"the largest value of {names[j]} is {peak[j]:.3g} in size, and its square cannot be "
            "computed. Measure the column in other units."
        )


def check_weights(
    weights: Floats, kind: str | None, rows: pd.Index | None = None, *, whole: bool = True
) -> None:
    """Refuse weights without meaning; with ``whole`` false they are a part, and may all be zero."""
    if (weights < 0).any() or (whole and not weights.any()):
        raise DesignError(
            f"{kind} must be >= 0 and not all zero, the smallest is {weights.min()}"
            f"{_first(weights < 0, rows)}."
        )
    if whole and weights.sum() < _LEAST_WEIGHT:
        raise DesignError(
            f"{kind} sum to {weights.sum():.3g}, which is too small for the optimisers. Scale "
            "them, for example to a mean of one: only their relative sizes matter."
        )
    if kind == "freq_weights" and (weights != np.round(weights)).any():
        raise DesignError(
            "freq_weights count identical rows and must be whole numbers"
            f"{_first(weights != np.round(weights), rows)}. Sampling weights go to prob_weights."
        )


def _first(bad: Mask, rows: pd.Index | None) -> str:
    if rows is None or not bad.any():
        return ""
    return f", first in row {rows[int(np.argmax(bad))]} of the data"


def read_extras(
    index: pd.Index,
    data: pd.DataFrame | None,
    offset: Any,
    offset_select: Any,
    freq: Any,
    prob: Any,
) -> tuple[dict[str, Floats], WeightKind | None]:
    """Offsets and weights as arrays in the order of the data."""
    if freq is not None and prob is not None:
        raise DesignError("give freq_weights or prob_weights, not both.")
    given = {"offset": offset, "offset_select": offset_select}
    given |= {"freq_weights": freq, "prob_weights": prob}
    extras = {
        name: _align(value, index, data, name) for name, value in given.items() if value is not None
    }
    kinds: tuple[WeightKind, ...] = get_args(WeightKind)
    return extras, next((kind for kind in kinds if kind in extras), None)


def _align(value: Any, index: pd.Index, data: pd.DataFrame | None, argument: str) -> Floats:
    if isinstance(value, str):
        if data is None or value not in data.columns:
            raise DesignError(f"{argument}={value!r} is not a column of data.")
        value = data[value]
    elif isinstance(value, pd.Series) and not value.index.equals(index):
        if not _is_permutation(value.index, index):
            raise DesignError(
                f"the index of {argument} is not that of the data. Pass {argument}.to_numpy() if "
                "its values are in the order of the rows, or align it with reindex."
            )
        value = value.reindex(index)
    found = as_floats(value, argument)
    if found.shape != (len(index),):
        raise DesignError(
            f"{argument} must have one value for each of the {len(index)} rows of the data, got "
            f"shape {found.shape}."
        )
    return found


def _is_permutation(one: pd.Index, other: pd.Index) -> bool:
    both_unique = one.is_unique and other.is_unique
    return both_unique and len(one) == len(other) and bool(one.isin(other).all())


# ---- array path ----------------------------------------------------------------------------------


def common_index(inputs: Mapping[str, Any]) -> pd.Index:
    """The index of the pandas inputs, which must agree, as must all lengths."""
    for name in ("endog", "exog"):
        if inputs[name] is None:
            raise DesignError(f"{name} is None; give an array.")
    lengths = {name: _length(value, name) for name, value in inputs.items() if value is not None}
    if len(set(lengths.values())) > 1:
        shown = listing(f"{name} has {n}" for name, n in lengths.items())
        raise DesignError(f"inputs differ in their number of rows: {shown}.")
    labelled = {
        name: value.index
        for name, value in inputs.items()
        if isinstance(value, (pd.Series, pd.DataFrame))
    }
    if not labelled:
        return pd.RangeIndex(lengths["endog"])
    first, index = next(iter(labelled.items()))
    for name, other in labelled.items():
        if not index.equals(other):
            raise DesignError(
                f"the indexes of {first} and {name} differ. Align them, for example with "
                f"{name}.reindex({first}.index)."
            )
    return index


def _length(values: Any, argument: str) -> int:
    try:
        return len(at_hand(values, argument))
    except TypeError:
        raise DesignError(
            f"{argument} must be an array, a list or a pandas object, got {type(values).__name__}."
        ) from None


def series_name(values: Any, default: str) -> str:
    if isinstance(values, pd.DataFrame) and values.shape[1] == 1:
        return str(values.columns[0])
    name = getattr(values, "name", None)
    return default if name is None else str(name)


def new_matrix(values: Any, names: Sequence[str], argument: str) -> Floats:
    """(m, p) a design of new rows for columns of these names; one row may come as a vector.

    A frame that has columns of these names is read by them, other frames and arrays by position.
    """
    own = values.columns if isinstance(values, pd.DataFrame) else getattr(values, "index", None)
    if isinstance(own, pd.Index) and len(own) == len(names) and set(own) & set(names):
        lacking = [name for name in names if name not in own]
        if lacking:
            raise DesignError(
                f"{argument} lacks the column(s) {listing(lacking)} of the model; it has "
                f"{listing(own)}."
            )
        values = values[list(names)]
    matrix = as_floats(values, argument)
    if matrix.ndim == 1:
        matrix = matrix[None] if matrix.size == len(names) else matrix[:, None]
    if matrix.ndim != 2 or matrix.shape[1] != len(names):
        raise DesignError(f"{argument} must have {len(names)} columns, got shape {matrix.shape}")
    return matrix


def read_matrix(values: Any, argument: str) -> tuple[Floats, tuple[str, ...]]:
    """A float matrix and the names of its columns, those of statsmodels for plain arrays."""
    if isinstance(values, pd.Series):
        values = values.to_frame(argument if values.name is None else values.name)
    if isinstance(values, pd.DataFrame):
        names = tuple(str(name) for name in values.columns)
        bad = [
            name
            for name, dtype in zip(names, values.dtypes, strict=True)
            if pdt.is_object_dtype(dtype) or not _holds_numbers(dtype)
        ]
        if bad:
            raise DesignError(
                f"{argument} has columns that are not numeric: {listing(bad)}. Convert numbers "
                "with pandas.to_numeric, encode levels with pandas.get_dummies, or use formulas."
            )
        return as_floats(values, argument), names
    matrix = as_floats(values, argument)
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2:
        raise DesignError(f"{argument} must have two dimensions, got shape {matrix.shape}.")
    constant = np.flatnonzero((matrix == matrix[:1]).all(axis=0))[:1]
    names_list = [f"x{i}" for i in range(1, matrix.shape[1] + 1 - len(constant))]
    for position in constant:
        names_list.insert(position, "const")
    return matrix, tuple(names_list)
