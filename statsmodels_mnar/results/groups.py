"""Cluster codes of the kept rows, from whatever the user has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design import Design, over_rows

Codes = tuple[NDArray[np.int64], ...]


def read_groups(
    cov_type: str, cov_kwds: dict[str, Any], model: Any
) -> tuple[Codes, tuple[str, ...], bool]:
    """Cluster codes, or their columns for rows in partitions, and ``use_correction``.

    Raises
    ------
    ValueError
        ``cov_kwds`` has what ``cov_type`` does not take, or groups that are not the rows'.
    """
    cluster = cov_type == "cluster"
    unknown = set(cov_kwds) - ({"groups", "use_correction"} if cluster else set())
    if unknown:
        raise ValueError(
            f"cov_kwds has unexpected keys {sorted(unknown)} for cov_type={cov_type!r}"
        )
    correction = cov_kwds.get("use_correction", True)
    if not isinstance(correction, bool | np.bool_):
        raise ValueError(f"cov_kwds['use_correction']={correction!r} must be True or False")
    groups = cov_kwds.get("groups")
    if not cluster:
        return (), (), True
    if model._in_partitions:
        return (), column_names(groups), bool(correction)
    return group_codes(groups, model.design, model._frame), (), bool(correction)


def group_codes(groups: Any, design: Design, frame: Any) -> Codes:
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
    values = np.ma.asanyarray(groups)
    if values.ndim not in (1, 2):
        raise ValueError(
            f"groups={type(groups).__name__} of shape {values.shape} has no value for each row; "
            "give a column name, a Series or an array"
        )
    return [values] if values.ndim == 1 else list(values.T)


def _codes(values: Any, design: Design, frame: Any) -> NDArray[np.int64]:
    values = over_rows(values, design, frame, "groups")
    try:
        codes = pd.factorize(values)[0]
    except TypeError as error:
        raise ValueError(f"groups must be numbers, text or dates: {error}") from error
    if (codes < 0).any():
        raise ValueError(f"groups is missing for {(codes < 0).sum()} rows; drop them from the data")
    if codes.max() == 0:
        raise ValueError("cov_kwds['groups'] has fewer than two clusters")
    return codes
