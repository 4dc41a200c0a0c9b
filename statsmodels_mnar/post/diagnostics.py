"""Influence of single rows on the estimates, and residuals of a binary outcome."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtri

from ..types import Floats
from .covariance import invert


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


@dataclass(frozen=True, slots=True, eq=False)
class Influence:
    """One-step changes of the estimates when a row is left out.

    Names are those of statsmodels' ``MLEInfluence``. There is no hat matrix: leverage is not
    defined where the outcome of a row is not observed.

    Attributes
    ----------
    d_params : ndarray
        (n, P) estimates less those without the row, by one Newton step.
    params, cov : ndarray
        (P,) and (P, P) of the fit.
    df_resid : float
    index, names
        Of the rows and of the parameters.
    """

    d_params: Floats  # (n, P) estimates less those without the row, by one Newton step
    params: Floats  # (P,)
    cov: Floats  # (P, P)
    df_resid: float
    index: pd.Index  # (n,)
    names: tuple[str, ...]  # P

    @property
    def params_one(self) -> Floats:
        """(n, P) one-step estimates without the row."""
        return self.params - self.d_params

    @property
    def dfbetas(self) -> Floats:
        """(n, P) changes in standard errors."""
        return self.d_params / np.sqrt(np.diag(self.cov))

    @property
    def cooks_distance(self) -> tuple[Floats, Floats]:
        """(n,) distances d' cov^(-1) d / P, and statsmodels' p-values from the F distribution."""
        distance = np.einsum("ni,ij,nj->n", self.d_params, invert(self.cov), self.d_params)
        distance /= len(self.params)
        return distance, stats.f.sf(distance, len(self.params), self.df_resid)

    def summary_frame(self) -> pd.DataFrame:
        """DFBETAs (``dfb_`` and the parameter's name) and Cook's distance of every row."""
        table = pd.DataFrame(
            self.dfbetas, index=self.index, columns=[f"dfb_{name}" for name in self.names]
        )
        table["cooks_d"] = self.cooks_distance[0]
        return table


def pearson(y: Floats, p: Floats) -> Floats:
    """(y - p) over its standard deviation; NaN where y is."""
    return (y - p) / np.sqrt(p * (1.0 - p))


def randomized_quantile(y: Floats, p: Floats, rng: np.random.Generator) -> Floats:
    """Residuals of Dunn and Smyth (1996): standard normal if y is Bernoulli(p); NaN where y is."""
    u = rng.random(len(y))
    return ndtri(np.where(y == 1, 1.0 - p + u * p, u * (1.0 - p)) + 0.0 * y)
