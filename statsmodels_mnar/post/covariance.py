"""Covariance matrices of the estimates, chosen by name from a registry, and clusters of rows.

With H the Hessian of the (penalised) log-likelihood and g_i the score of row i:

=========  ===================================================================================
nonrobust  -H^(-1), the inverse of the observed information
OPG        (sum w_i g_i g_i')^(-1)
HC0        H^(-1) M H^(-1), M = sum of g_i g_i' (by w_i as counts, or w_i^2 as sampling weights)
HC1        HC0 * n/(n - P)
cluster    H^(-1) M H^(-1), M = sum over clusters of their summed scores' outer products,
           times G/(G - 1); for two ways A and B, M_A + M_B - M_AB (Cameron, Gelbach, Miller 2011)
=========  ===================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design import Design, over_rows
from ..types import Floats

ROBUST = ("HC0", "HC1", "cluster")


@dataclass(frozen=True, slots=True)
class Meat:
    """What a robust covariance has between its two Hessians: the covariance of the score."""

    matrix: Floats  # (P, P)
    count: float  # of observations
    n_groups: tuple[int, ...] = ()  # of each way of clustering


@dataclass(frozen=True, slots=True)
class Covariance:
    """A covariance matrix and the words for it."""

    matrix: Floats  # (P, P)
    cov_type: str
    description: str
    n_groups: tuple[int, ...] = field(default=())


def invert(matrix: Floats) -> Floats:
    """Inverse of a matrix, symmetric and positive or negative definite; NaN where it is not.

    Its diagonal is scaled to one before. Away from a maximum an information matrix need not be
    definite, and has no inverse that is a covariance.
    """
    scale = np.sqrt(np.abs(np.diag(matrix)))
    if not np.isfinite(matrix).all() or np.any(scale == 0):
        return np.full_like(matrix, np.nan)
    scaled = matrix / np.outer(scale, scale)
    try:
        np.linalg.cholesky(np.sign(matrix[0, 0]) * scaled)
        inverse = np.linalg.inv(scaled)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)
    return 0.5 * (inverse + inverse.T) / np.outer(scale, scale)


def weighted(scores: Floats, weights: Floats | None) -> Floats:
    """(n, P) row scores by their weights."""
    return scores if weights is None else weights[:, None] * scores


def row_meat(scores: Floats, weights: Floats | None = None, *, sampling: bool = False) -> Meat:
    """Meat of independent rows.

    Parameters
    ----------
    scores : ndarray
        (n, P) unweighted.
    weights : ndarray, optional
        (n,) counts or, with ``sampling``, inverse sampling probabilities.
    """
    left = weighted(scores, weights) if sampling else scores
    count = len(scores) if weights is None or sampling else weights.sum()
    return Meat(left.T @ weighted(scores, weights), float(count))


def cluster_meat(
    scores: Floats,
    weights: Floats | None,
    groups: Sequence[NDArray[np.int64]],
    *,
    use_correction: bool = True,
) -> Meat:
    """Meat of rows that depend on each other within clusters, of one or two ways.

    Parameters
    ----------
    groups : sequence of ndarray
        (n,) codes of each way.
    """
    if not groups:
        raise ValueError(
            "cov_type='cluster' needs cov_kwds={'groups': ...}: a column name, a Series or an array"
        )
    return meat_of_sums(
        cluster_sums(scores, weights, pd.DataFrame(dict(enumerate(groups)))),
        len(scores),
        use_correction=use_correction,
    )


def cluster_sums(scores: Floats, weights: Floats | None, keys: pd.DataFrame) -> pd.DataFrame:
    """Scores summed over rows of the same keys, one column of keys for each way, in its index."""
    ways = list(keys.columns)
    sums = pd.DataFrame(weighted(scores, weights))
    return sums.groupby([keys[way].to_numpy() for way in ways], sort=False).sum()


def joined_sums(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Cluster sums of all rows from those of parts of them."""
    ways = list(range(parts[0].index.nlevels))
    return pd.concat(parts).groupby(level=ways, sort=False).sum()


def meat_of_sums(sums: pd.DataFrame, n_rows: float, *, use_correction: bool = True) -> Meat:
    """Meat of clusters from their summed scores."""

    def one_way(part: pd.DataFrame) -> tuple[Floats, int]:
        values, count = part.to_numpy(), len(part)
        if count < 2:
            raise ValueError("cov_kwds['groups'] has fewer than two clusters")
        return values.T @ values * (count / (count - 1) if use_correction else 1.0), count

    if sums.index.nlevels == 1:
        matrix, count = one_way(sums)
        return Meat(matrix, n_rows, (count,))
    ways = [one_way(sums.groupby(level=way, sort=False).sum()) for way in (0, 1)]
    matrix = ways[0][0] + ways[1][0] - one_way(sums)[0]
    return Meat(matrix, n_rows, (ways[0][1], ways[1][1]))


def _nonrobust(hessian: Floats, meat: Meat | None) -> Covariance:
    return Covariance(invert(-hessian), "nonrobust", "inverse of the observed information")


def _opg(hessian: Floats, meat: Meat) -> Covariance:
    return Covariance(invert(meat.matrix), "OPG", "inverse of the outer product of the scores")


def _sandwich(hessian: Floats, meat: Meat) -> Floats:
    bread = invert(-hessian)
    return bread @ meat.matrix @ bread


def _hc0(hessian: Floats, meat: Meat) -> Covariance:
    return Covariance(_sandwich(hessian, meat), "HC0", "robust to misspecification (sandwich)")


def _hc1(hessian: Floats, meat: Meat) -> Covariance:
    n, k = meat.count, len(hessian)
    if n <= k:
        raise ValueError(f"cov_type='HC1' needs more rows ({n:g}) than parameters ({k}); use 'HC0'")
    return Covariance(
        _sandwich(hessian, meat) * n / (n - k),
        "HC1",
        "robust to misspecification (sandwich, n/(n - P))",
    )


def _cluster(hessian: Floats, meat: Meat) -> Covariance:
    way = "clusters" if len(meat.n_groups) == 1 else "two-way clusters"
    return Covariance(
        _sandwich(hessian, meat),
        "cluster",
        f"robust to dependence within {' and '.join(str(c) for c in meat.n_groups)} {way}",
        meat.n_groups,
    )


ESTIMATORS: dict[str, Callable[[Floats, Any], Covariance]] = {
    "nonrobust": _nonrobust,
    "OPG": _opg,
    "HC0": _hc0,
    "HC1": _hc1,
    "cluster": _cluster,
}


def check_cov_type(cov_type: str, more: tuple[str, ...] = (), *, sampling: bool = False) -> None:
    """Refuse unknown names, HC2 and HC3 among them, and what sampling weights rule out.

    ``more`` are the results' own names.
    """
    if not isinstance(cov_type, str):
        raise ValueError(f"cov_type={cov_type!r} must be a name; use one of {[*ESTIMATORS, *more]}")
    if cov_type in ("HC2", "HC3"):
        raise ValueError(
            f"cov_type={cov_type!r} is defined for linear regression only (it needs a hat matrix); "
            "use 'HC0', 'HC1' or 'cluster'"
        )
    if cov_type not in ESTIMATORS and cov_type not in more:
        raise ValueError(f"cov_type={cov_type!r} is unknown; use one of {[*ESTIMATORS, *more]}")
    if sampling and cov_type in ("nonrobust", "OPG"):
        raise ValueError(
            f"cov_type={cov_type!r} is not valid with prob_weights; use 'HC0', 'HC1' or 'cluster'"
        )


def estimate(cov_type: str, hessian: Floats, meat: Meat | None = None) -> Covariance:
    """The covariance matrix of this name.

    Parameters
    ----------
    hessian : ndarray
        (P, P), of estimated parameters only.
    meat : Meat, optional
        Not for "nonrobust".

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[1.0], [-1.0], [0.5], [-0.5]])
    >>> estimate("HC0", np.array([[-2.0]]), row_meat(scores)).matrix
    array([[0.625]])
    """
    check_cov_type(cov_type)
    return ESTIMATORS[cov_type](hessian, meat)


# -- cluster codes of the kept rows, from whatever the user has ------------------------------------


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
    if model.in_partitions:
        return (), column_names(groups), bool(correction)
    return group_codes(groups, model.design, model.frame), (), bool(correction)


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


def param_influence(hessian: Floats, scores: Floats) -> Floats:
    """-H^(-1) g_i, (n, P): what row i adds to the estimates; ``scores`` are weighted."""
    return -scores @ invert(hessian)


def influence_covariance(
    influence: Floats, counts: Floats | None = None, groups: NDArray[np.int64] | None = None
) -> Floats:
    """Covariance of estimates from the influence of the rows on them, (q, q).

    Parameters
    ----------
    influence : ndarray
        (n, q), weights included.
    counts : ndarray, optional
        (n,) number of observations that a row stands for.
    groups : ndarray, optional
        (n,) codes of clusters, whose rows move together.
    """
    if groups is not None:
        codes = np.unique(groups, return_inverse=True)[1]
        sums = np.stack([np.bincount(codes, weights=column) for column in influence.T], axis=-1)
        return sums.T @ sums * len(sums) / (len(sums) - 1.0)
    if counts is not None:  # w observations, each of 1/w of the row's influence
        influence = influence / np.sqrt(np.where(counts > 0, counts, 1.0))[:, None]
    return influence.T @ influence
