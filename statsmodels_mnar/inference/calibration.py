"""Observed shares against predicted probabilities."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

Floats = NDArray[np.float64]


def quantile_bins(score: Floats, weights: Floats, n_bins: int) -> NDArray[np.int64]:
    """(n,) codes of bins of about equal weight, in the order of the score; ties stay together."""
    order = np.argsort(score, kind="stable")
    mass = np.cumsum(weights[order]) / weights.sum()
    cuts = np.unique(score[order][np.searchsorted(mass, np.arange(1, n_bins) / n_bins)])
    return np.searchsorted(cuts, score, side="left")


def calibration_bins(
    y: Floats, p: Floats, weights: Floats, *, counts: bool, n_bins: int = 10, alpha: float = 0.05
) -> pd.DataFrame:
    """Mean prediction and share of ones by quantiles of the prediction.

    Parameters
    ----------
    y, p, weights : ndarray
        (n,) labels, predicted probabilities and weights.
    counts : bool
        Weights are numbers of observations. Otherwise a bin has Kish's effective number of them,
        (sum w)^2 / sum w^2.
    n_bins : int
        Bins of about equal weight; fewer where predictions are tied.
    alpha : float
        Of Wilson's binomial intervals, which take the predictions as given.

    Returns
    -------
    DataFrame
        ``n``, ``predicted``, ``observed``, ``ci_lower`` and ``ci_upper`` of each bin.

    Examples
    --------
    >>> import numpy as np
    >>> p = np.repeat([0.2, 0.6], 5)
    >>> y = np.array([0, 0, 1, 0, 0, 1, 0, 1, 1, 0.0])
    >>> table = calibration_bins(y, p, np.ones(10), counts=True, n_bins=2)
    >>> table["observed"].tolist()
    [0.2, 0.6]
    """
    bins = quantile_bins(p, weights, n_bins)
    size = np.bincount(bins, weights)
    used = size > 0
    n = (
        size
        if counts
        else size**2 / np.maximum(np.bincount(bins, weights**2), np.finfo(float).tiny)
    )
    size, n = size[used], n[used]
    observed = np.bincount(bins, weights * y)[used] / size
    z2 = norm.ppf(1.0 - alpha / 2.0) ** 2
    centre = (observed + 0.5 * z2 / n) / (1.0 + z2 / n)
    reach = np.sqrt(z2 * (observed * (1.0 - observed) / n + 0.25 * z2 / n**2)) / (1.0 + z2 / n)
    return pd.DataFrame(
        {
            "n": n,
            "predicted": np.bincount(bins, weights * p)[used] / size,
            "observed": observed,
            "ci_lower": centre - reach,
            "ci_upper": centre + reach,
        }
    ).rename_axis("bin")
