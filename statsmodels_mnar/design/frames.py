"""Tables as users pass them, in the types that both formula engines read alike."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types as pdt

from statsmodels_mnar.errors import DesignError

_LONGEST = np.iinfo(np.int64).max


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
            raise DesignError(f"data is no table: {error}.") from error
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
