"""Predictions with delta-method intervals that stay in range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import norm

from .across import Across, Targets
from .checks import check_alpha
from .probabilities import INDICES, Designs, Quantity, blocks

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted values and their standard errors.

    Attributes
    ----------
    predicted, se : ndarray
        (m,)
    index : Index
        (m,) of the rows.
    probability : bool
        Whether intervals are made on the log-odds.
    across : Targets or None
        The same at every error correlation that the likelihood supports, where the intervals are
        the union over those ("profile"); None where they are Wald's.
    """

    predicted: Floats  # (m,)
    se: Floats  # (m,)
    index: pd.Index  # (m,)
    probability: bool  # intervals are made on the log-odds
    across: Targets | None = None

    @property
    def interval(self) -> str:
        """How intervals are made: "wald" or "profile"."""
        return "wald" if self.across is None else "profile"

    def conf_int(self, alpha: float = 0.05) -> Floats:
        """(m, 2) intervals at level 1 - ``alpha``, inside (0, 1) for probabilities."""
        check_alpha(alpha)
        if self.across is not None:
            ends = self.across.interval(alpha)
            return expit(ends) if self.probability else ends
        z = norm.ppf([alpha / 2, 1 - alpha / 2])
        if not self.probability:
            return self.predicted[:, None] + z * self.se[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = self.se / (self.predicted * (1.0 - self.predicted))
            ends = expit(logit(self.predicted)[:, None] + z * spread[:, None])
        certain = np.isin(self.predicted, (0.0, 1.0))
        ends[certain] = self.predicted[certain, None]
        # The way to the log-odds and back may miss a tiny probability by its last bit.
        low, high = np.fmin(ends[:, 0], self.predicted), np.fmax(ends[:, 1], self.predicted)
        return np.column_stack([low, high])

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Columns predicted, se, ci_lower and ci_upper, the last two at level 1 - ``alpha``."""
        low, high = self.conf_int(alpha).T
        return pd.DataFrame(
            {"predicted": self.predicted, "se": self.se, "ci_lower": low, "ci_upper": high},
            index=self.index,
        )


def across_predictions(across: Across, found: list[Prediction]) -> Targets:
    """Predictions at each error correlation, on the log-odds where they are probabilities."""
    estimate = np.stack([one.predicted for one in found])
    se = np.stack([one.se for one in found])
    if found[0].probability:
        inside = np.clip(estimate, 1e-12, 1.0 - 1e-12)
        estimate, se = logit(inside), se / (inside * (1.0 - inside))
    return Targets(across, estimate, se)


def predict_with_errors(
    quantity: Quantity, at: Designs, cov: Floats, index: pd.Index | None = None
) -> Prediction:
    """Each row's prediction, by the delta method.

    Parameters
    ----------
    cov : ndarray
        (P, P) of the model's parameters.
    index : Index, optional
        (n,) labels of the rows.
    """
    predicted, se = np.empty(len(at)), np.empty(len(at))
    for rows in blocks(len(at)):
        jet = quantity.jet(at[rows], 1)
        slope = quantity.gradient(at[rows], jet.first)
        predicted[rows] = jet.value
        se[rows] = np.sqrt(np.einsum("mi,mi->m", slope @ cov, slope))
    index = pd.RangeIndex(len(at)) if index is None else index
    return Prediction(predicted, se, index, quantity.which not in INDICES)


def predict_average(
    quantity: Quantity,
    at: Designs,
    cov: Floats,
    weights: Floats,
    index: pd.Index | None = None,
) -> Prediction:
    """The weighted mean of the rows' predictions; rows of weight zero are not read.

    Raises
    ------
    ValueError
        A row with a weight has no prediction, because a covariate is missing.
    """
    share = weights / weights.sum()
    index = pd.RangeIndex(len(at)) if index is None else index
    if not share.all():
        at, share, index = at[share > 0], share[share > 0], index[share > 0]
    mean, slope = summed_prediction(quantity, at, share, index)
    se = np.sqrt(slope @ cov @ slope)
    return Prediction(
        np.array([mean]), np.array([se]), pd.Index(["average"]), quantity.which not in INDICES
    )


def summed_prediction(
    quantity: Quantity, at: Designs, weights: Floats, index: pd.Index | None = None
) -> tuple[float, Floats]:
    """Weighted sum of the rows' predictions, and its (P,) derivatives in the parameters."""
    total, slope = 0.0, np.zeros(quantity.n_params)
    for rows in blocks(len(at)):
        jet = quantity.jet(at[rows], 1)
        if index is not None:
            check_known(jet.value, index[rows])
        total += float(weights[rows] @ jet.value)
        slope += quantity.summed_gradient(at[rows], weights[rows] * jet.first)
    return total, slope


def check_known(values: Floats, index: pd.Index) -> None:
    """Refuse to average over rows that have no value."""
    if np.isnan(values).any():
        missing = index[np.isnan(values)]
        shown = ", ".join(repr(row) for row in missing[:5].tolist())
        raise ValueError(
            f"{len(missing)} row(s) cannot be averaged over because a covariate is missing or "
            f"infinite: {shown}"
            f"{', ...' if len(missing) > 5 else ''}. Drop them, or give them the weight 0."
        )


def average_weights(given: Any, own: Floats | None, n: int, name: str) -> Floats:
    """(n,) weights of a mean over rows: those given, the rows' own, or equal ones."""
    if n == 0:
        raise ValueError("there are no rows to average over")
    if given is None:
        return np.ones(n) if own is None else own
    weights = _numbers(given, name)
    if weights.shape != (n,):
        raise ValueError(f"{name} must be {n} numbers, got shape {weights.shape}")
    if not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
        raise ValueError(f"{name} must be finite, not negative and not all zero")
    return weights


def _numbers(values: Any, name: str) -> Floats:
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from error


def as_covariance(cov: Any, names: list[str], own: Floats) -> Floats:
    """(P, P) covariance of the parameters: the fit's own, or what the user gives in its place.

    Parameters
    ----------
    cov : array_like, DataFrame or object with ``cov``, optional
        Such an object is a bootstrap. A DataFrame is aligned by its labels.
    """
    if cov is None:
        return np.asarray(own)
    boundary = getattr(cov, "boundary", None)
    if boundary:
        raise ValueError(
            f"cov: {sum(boundary.values())} of the replicates lie on a boundary, where "
            "coefficients have another scale, so their covariance says nothing about effects; "
            "take those of the replicates themselves: "
            "draws.apply(lambda results: results.get_margeff().margeff)"
        )
    if not isinstance(cov, pd.DataFrame):  # which has a method of that name
        cov = getattr(cov, "cov", cov)
    if isinstance(cov, pd.DataFrame):
        if set(cov.index) != set(names) or set(cov.columns) != set(names):
            raise ValueError(f"cov must have the labels {names}, got {list(cov.columns)}")
        cov = cov.loc[names, names]
    matrix = _numbers(cov, "cov")
    if matrix.shape != (len(names), len(names)):
        raise ValueError(
            f"cov must be a {len(names)} x {len(names)} covariance of {', '.join(names)}, got "
            f"shape {matrix.shape}"
        )
    return matrix
