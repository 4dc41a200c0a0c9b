"""Covariance matrices of the estimates, chosen by name from a registry.

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

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROBUST = ("HC0", "HC1", "cluster")


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What the estimators read."""

    hessian: Floats  # (P, P), of estimated parameters only
    scores: Floats  # (n, P) unweighted
    weights: Floats | None = None  # (n,)
    sampling: bool = False  # weights are inverse sampling probabilities, not counts
    groups: tuple[NDArray[np.int64], ...] = ()  # (n,) codes of each way of clustering
    use_correction: bool = True


@dataclass(frozen=True, slots=True)
class Covariance:
    """A covariance matrix and the words for it."""

    matrix: Floats  # (P, P)
    cov_type: str
    description: str
    n_groups: tuple[int, ...] = field(default=())


def invert(matrix: Floats) -> Floats:
    """Inverse of a symmetric matrix after scaling its diagonal to one; NaN where singular."""
    scale = np.sqrt(np.abs(np.diag(matrix)))
    if not np.isfinite(matrix).all() or np.any(scale == 0):
        return np.full_like(matrix, np.nan)
    scaled = matrix / np.outer(scale, scale)
    try:
        inverse = np.linalg.inv(scaled)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)
    return 0.5 * (inverse + inverse.T) / np.outer(scale, scale)


def _weighted(parts: Ingredients) -> Floats:
    return parts.scores if parts.weights is None else parts.weights[:, None] * parts.scores


def _meat(parts: Ingredients) -> Floats:
    left = _weighted(parts) if parts.sampling else parts.scores
    return left.T @ _weighted(parts)


def _count(parts: Ingredients) -> float:
    if parts.weights is None or parts.sampling:
        return float(len(parts.scores))
    return float(parts.weights.sum())


def _sandwich(parts: Ingredients, meat: Floats) -> Floats:
    bread = invert(-parts.hessian)
    return bread @ meat @ bread


def _nonrobust(parts: Ingredients) -> Covariance:
    return Covariance(invert(-parts.hessian), "nonrobust", "inverse of the observed information")


def _opg(parts: Ingredients) -> Covariance:
    return Covariance(invert(_meat(parts)), "OPG", "inverse of the outer product of the scores")


def _hc0(parts: Ingredients) -> Covariance:
    return Covariance(
        _sandwich(parts, _meat(parts)), "HC0", "robust to misspecification (sandwich)"
    )


def _hc1(parts: Ingredients) -> Covariance:
    n, k = _count(parts), len(parts.hessian)
    if n <= k:
        raise ValueError(f"cov_type='HC1' needs more rows ({n:g}) than parameters ({k}); use 'HC0'")
    return Covariance(
        _hc0(parts).matrix * n / (n - k), "HC1", "robust to misspecification (sandwich, n/(n - P))"
    )


def _one_way(parts: Ingredients, codes: NDArray[np.int64]) -> tuple[Floats, int]:
    """Meat of one way of clustering and its number of clusters."""
    sums = pd.DataFrame(_weighted(parts)).groupby(codes, sort=False).sum().to_numpy()
    count = len(sums)
    if count < 2:
        raise ValueError("cov_kwds['groups'] has fewer than two clusters")
    return sums.T @ sums * (count / (count - 1) if parts.use_correction else 1.0), count


def _cluster_meat(parts: Ingredients) -> tuple[Floats, tuple[int, ...]]:
    """Meat of one or two ways of clustering and their numbers of clusters."""
    meats, counts = zip(*(_one_way(parts, codes) for codes in parts.groups), strict=True)
    total = sum(meats)
    if len(parts.groups) == 2:
        first, second = parts.groups
        both = pd.factorize(first * (second.max() + 1) + second)[0]
        total = total - _one_way(parts, both)[0]
    return total, counts


def meat(cov_type: str, parts: Ingredients) -> Floats:
    """What a robust covariance has between its two Hessians."""
    return _cluster_meat(parts)[0] if cov_type == "cluster" else _meat(parts)


def _cluster(parts: Ingredients) -> Covariance:
    if not parts.groups:
        raise ValueError(
            "cov_type='cluster' needs cov_kwds={'groups': ...}: a column name, a Series or an array"
        )
    filling, counts = _cluster_meat(parts)
    way = "clusters" if len(counts) == 1 else "two-way clusters"
    return Covariance(
        _sandwich(parts, filling),
        "cluster",
        f"robust to dependence within {' and '.join(str(c) for c in counts)} {way}",
        counts,
    )


ESTIMATORS: dict[str, Callable[[Ingredients], Covariance]] = {
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


def estimate(cov_type: str, parts: Ingredients) -> Covariance:
    """The covariance matrix of this name.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[1.0], [-1.0], [0.5], [-0.5]])
    >>> parts = Ingredients(hessian=np.array([[-2.0]]), scores=scores)
    >>> estimate("HC0", parts).matrix
    array([[0.625]])
    """
    check_cov_type(cov_type)
    return ESTIMATORS[cov_type](parts)
