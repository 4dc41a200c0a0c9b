"""Predictions with delta-method intervals that stay in range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import norm

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted values and their standard errors."""

    predicted: Floats  # (m,)
    se: Floats  # (m,)
    index: pd.Index  # (m,)
    probability: bool  # intervals are made on the log-odds

    def conf_int(self, alpha: float = 0.05) -> Floats:
        """(m, 2); inside (0, 1) for probabilities."""
        z = norm.ppf([alpha / 2, 1 - alpha / 2])
        if not self.probability:
            return self.predicted[:, None] + z * self.se[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = self.se / (self.predicted * (1.0 - self.predicted))
            ends = expit(logit(self.predicted)[:, None] + z * spread[:, None])
        certain = np.isin(self.predicted, (0.0, 1.0))
        ends[certain] = self.predicted[certain, None]
        return ends

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Columns predicted, se, ci_lower and ci_upper."""
        low, high = self.conf_int(alpha).T
        return pd.DataFrame(
            {"predicted": self.predicted, "se": self.se, "ci_lower": low, "ci_upper": high},
            index=self.index,
        )


def jacobian(function: Callable[[Floats], Floats], at: Floats) -> Floats:
    """Central differences of a vector function, (m, P)."""
    columns = []
    for j, value in enumerate(at):
        step = 1e-5 * max(abs(value), 1e-2)
        moved = [at.copy(), at.copy()]
        moved[0][j] += step
        moved[1][j] -= step
        columns.append((function(moved[0]) - function(moved[1])) / (2.0 * step))
    return np.stack(columns, axis=-1)


def predict_with_errors(
    function: Callable[[Floats], Floats],
    params: Floats,
    cov: Floats,
    *,
    index: pd.Index | None = None,
    probability: bool = True,
    average: Floats | None = None,
) -> Prediction:
    """Delta method for a function of the parameters.

    Parameters
    ----------
    function : callable
        (P,) -> (m,).
    average : ndarray, optional
        (m,) weights; the weighted mean is predicted instead of the single values.
    """
    target = function
    if average is not None:
        share = average / average.sum()

        def mean(theta: Floats) -> Floats:
            return np.atleast_1d(share @ function(theta))

        target, index = mean, pd.Index(["average"])
    predicted = target(params)
    slope = jacobian(target, params)
    se = np.sqrt(np.einsum("mi,ij,mj->m", slope, cov, slope))
    index = pd.RangeIndex(len(predicted)) if index is None else index
    return Prediction(predicted, se, index, probability)
