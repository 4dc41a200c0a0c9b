"""The covariance of BiasCorr's estimates that carries the error of its first stages.

The estimates solve stacked equations: the scores of g_s (zeta) and g_y (theta), the definition of
s-bar, and the score of the objective. The influence of row i on the estimates is therefore

    -H^(-1) [ g_i + (dg/ds) IF_i(s) + (dg/dtheta) IF_i(theta) ]

with H the Hessian and g the score of the objective, and IF(s) and IF(theta) the influence on the
soft selection and on g_y (Newey and McFadden 1994, section 6). Hard pseudolabels jump where
x'theta = 0; the derivative of their expectation is a density there, by a Gaussian kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .covariance import invert

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stage:
    """A first-stage regression."""

    scores: Floats  # (n, q), weighted, zero on rows it was not trained on
    hessian: Floats  # (q, q)

    @property
    def influence(self) -> Floats:
        """(n, q)."""
        return -self.scores @ invert(self.hessian)


def stacked_covariance(
    hessian: Floats,
    scores: Floats,
    select: Stage,
    outcome: Stage,
    by_select: Floats,
    by_outcome: Floats,
    by_mean: tuple[Floats, Floats] | None,
) -> Floats:
    """Sum of the outer products of the influences, (P, P).

    Parameters
    ----------
    hessian, scores : ndarray
        (P, P) of the objective and (n, P), weighted.
    by_select, by_outcome : ndarray
        (P, k) and (P, p): derivatives of the total score in zeta and theta.
    by_mean : pair of ndarray, optional
        Derivative of the total score in s-bar, (P,), and each row's deviation from it as part of
        the mean, (n,); absent where s-bar is given or each row has its own.
    """
    total = scores + select.influence @ by_select.T + outcome.influence @ by_outcome.T
    if by_mean is not None:
        slope, deviation = by_mean
        total = total + np.outer(deviation, slope)
    influence = -total @ invert(hessian)
    return influence.T @ influence


def kernel_weights(index: Floats, weights: Floats, count: float) -> Floats:
    """Estimate of the density of ``index`` at zero, spread over the rows: sums to n f(0).

    ``count`` is the number of observations that the weighted rows stand for.
    """
    center = np.average(index, weights=weights)
    spread = np.sqrt(np.average((index - center) ** 2, weights=weights))
    bandwidth = 1.06 * max(spread, 1e-12) * count ** (-0.2)
    return np.exp(-0.5 * (index / bandwidth) ** 2) / (np.sqrt(2.0 * np.pi) * bandwidth)
