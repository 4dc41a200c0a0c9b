"""Cluster codes of the kept rows, from whatever the user has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design import Design


def group_codes(groups: Any, design: Design, frame: Any) -> tuple[NDArray[np.int64], ...]:
    """One array of codes for each way of clustering.

    Parameters
    ----------
    groups : str, Series, array_like, or a pair or DataFrame of them
        A column name of the data, or values: a Series is aligned on the index, an array has one
        value for each row of the data or each kept row.
    frame : DataFrame or None
        The data the model was built from.
    """
    if groups is None:
        raise ValueError(
            "cov_type='cluster' needs cov_kwds={'groups': ...}: a column name, a Series or an array"
        )
    ways = _ways(groups)
    if len(ways) > 2:
        raise ValueError(f"groups has {len(ways)} ways of clustering; one or two are supported")
    return tuple(_codes(way, design, frame) for way in ways)


def column_names(groups: Any) -> tuple[str, ...]:
    """The one or two columns by which rows in partitions are clustered."""
    names = (groups,) if isinstance(groups, str) else groups
    ways = tuple(names) if isinstance(names, list | tuple) else ()
    if not 1 <= len(ways) <= 2 or not all(isinstance(name, str) for name in ways):
        raise ValueError(
            f"groups={groups!r}: rows in partitions are clustered by one or two columns of the "
            "data; give their names"
        )
    return ways


def _ways(groups: Any) -> list[Any]:
    if isinstance(groups, pd.DataFrame):
        return [groups[name] for name in groups.columns]
    if isinstance(groups, str | pd.Series):
        return [groups]
    if (
        isinstance(groups, tuple | list)
        and len(groups) == 2
        and (all(isinstance(g, str) for g in groups) or all(np.ndim(g) == 1 for g in groups))
    ):
        return list(groups)
    values = np.asarray(groups)
    return [values] if values.ndim == 1 else list(values.T)


def _codes(values: Any, design: Design, frame: Any) -> NDArray[np.int64]:
    values = over_rows(values, design, frame, "groups")
    try:
        codes = pd.factorize(values)[0]
    except TypeError as error:
        raise ValueError(f"groups must be numbers, text or dates: {error}") from error
    if (codes < 0).any():
        raise ValueError(f"groups is missing for {(codes < 0).sum()} rows")
    return codes


def over_rows(values: Any, design: Design, frame: Any, name: str) -> NDArray[Any]:
    """One value for each of the model's rows, from a column name, a Series or an array.

    A Series is aligned on the index where it can be, an array has one value for each row of the
    data or each kept row.
    """
    if isinstance(values, str):
        if frame is None:
            raise ValueError(
                f"{name}={values!r} names a column, but the model has no data frame at hand (built "
                "from arrays, or loaded from a file); pass the values"
            )
        if values not in frame:
            raise ValueError(f"{name}={values!r} is not a column of the data")
        values = np.asarray(frame[values])
    total = design.nobs + sum(design.dropped)
    if isinstance(values, pd.Series) and _alignable(values, design):
        values = values.loc[design.index].to_numpy()
    values = np.asarray(values)
    if len(values) == total and total != design.nobs:
        values = values[design.kept]
    if len(values) != design.nobs:
        raise ValueError(
            f"{name} has {len(values)} values; give one for each of the {total} rows of the data "
            f"or the {design.nobs} rows used"
        )
    return values


def _alignable(values: pd.Series, design: Design) -> bool:
    return (
        values.index.is_unique and design.index.is_unique and design.index.isin(values.index).all()
    )
