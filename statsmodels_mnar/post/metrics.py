"""Discrimination and calibration of a score where some labels are known as probabilities only.

A row has a weight w and a label p in [0, 1]: 0 or 1 where observed, else the probability of a one.
Each figure is a function T(w, p); beside its value it has the derivatives from which its standard
error is made,

    by_row = w dT/dw, the influence of the row;    by_label = dT/dp

If the labels p(theta) of unlabelled rows come from estimates with influence phi_i, then row i moves
T by by_row_i + (sum over k of by_label_k dp_k/dtheta)' phi_i, and the variance of T is the sum of
the squares. With all labels observed, by_row is DeLong's decomposition of the AUC.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import norm

from ..tools import check_alpha
from ..types import Floats
from .covariance import influence_covariance


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


# -- discrimination and calibration of a score where some labels are known as probabilities only ---


Target = Literal["superpopulation", "rows"]


def check_target(target: str) -> None:
    if target not in get_args(Target):
        raise ValueError(f"target={target!r} is unknown; use one of {list(get_args(Target))}")


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """A number with its derivatives."""

    value: float
    by_row: Floats  # (n,)
    by_label: Floats  # (n,)


def rate(labels: Floats, weights: Floats, values: Floats | None = None) -> Figure:
    """Weighted mean of the labels less ``values``."""
    share = weights / weights.sum()
    gap = labels if values is None else labels - values
    mean = float(share @ gap)
    return Figure(mean, share * (gap - mean), share)


def auc(score: Floats, labels: Floats, weights: Floats, *, counts: bool = False) -> Figure:
    """Area under the ROC curve: expected concordant pairs over expected pairs, ties one half.

    Parameters
    ----------
    counts : bool
        Weights are numbers of identical rows, which form pairs with one another too.

    Examples
    --------
    >>> import numpy as np
    >>> auc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0.0, 0, 1, 1]), np.ones(4)).value
    0.75
    """
    ones, zeros = weights * labels, weights * (1.0 - labels)
    n_ones, n_zeros = ones.sum(), zeros.sum()
    code = np.unique(score, return_inverse=True)[1]
    beaten = _weight_below(code, zeros)  # (n,) zeros that the row would beat as a one
    beaten_by = n_ones - _weight_below(code, ones)  # (n,) ones that would beat it as a zero
    # No row forms a pair with itself.
    unit = np.ones_like(weights) if counts else weights
    own = weights * unit * labels * (1.0 - labels)
    own_by_row = own if counts else 2.0 * own
    own_by_label = weights * unit * (1.0 - 2.0 * labels)
    pairs = n_ones * n_zeros - own.sum()
    value = (ones @ beaten - 0.5 * own.sum()) / pairs

    def derivative(concordant: Floats, total: Floats) -> Floats:
        return (concordant - value * total) / pairs

    return Figure(
        float(value),
        derivative(
            ones * beaten + zeros * beaten_by - 0.5 * own_by_row,
            ones * n_zeros + zeros * n_ones - own_by_row,
        ),
        derivative(
            weights * (beaten - beaten_by) - 0.5 * own_by_label,
            weights * (n_zeros - n_ones) - own_by_label,
        ),
    )


def _weight_below(code: NDArray[np.int64], weights: Floats) -> Floats:
    """Weight of the rows of a lower code and half of that of the same, (n,)."""
    at = np.bincount(code, weights=weights)
    return (np.cumsum(at) - 0.5 * at)[code]


def ks(score: Floats, labels: Floats, weights: Floats) -> Figure:
    """Kolmogorov-Smirnov: largest distance of the score's distributions among ones and zeros.

    By the envelope theorem its derivatives are those of the distance at the score where it is
    largest.
    """
    ones, zeros = weights * labels, weights * (1.0 - labels)
    n_ones, n_zeros = ones.sum(), zeros.sum()
    levels, code = np.unique(score, return_inverse=True)
    distance = np.cumsum(np.bincount(code, weights=zeros)) / n_zeros
    distance -= np.cumsum(np.bincount(code, weights=ones)) / n_ones
    at = int(np.argmax(np.abs(distance)))
    sign = 1.0 if distance[at] >= 0 else -1.0
    below = (score <= levels[at]).astype(float)
    from_zeros = sign * (below - zeros @ below / n_zeros) / n_zeros
    from_ones = sign * (below - ones @ below / n_ones) / n_ones
    return Figure(
        float(abs(distance[at])),
        zeros * from_zeros - ones * from_ones,
        -weights * (from_zeros + from_ones),
    )


def brier(score: Floats, labels: Floats, weights: Floats) -> Figure:
    """Expected squared distance of label and score."""
    share = weights / weights.sum()
    loss = labels * (1.0 - score) ** 2 + (1.0 - labels) * score**2
    value = float(share @ loss)
    return Figure(value, share * (loss - value), share * (1.0 - 2.0 * score))


def calibration_line(score: Floats, labels: Floats, weights: Floats) -> tuple[Figure, Figure]:
    """Intercept and slope of a logit of the label on the log-odds of the score.

    NaN where a score is 0 or 1, or where the regression has no finite maximum.
    """
    with np.errstate(divide="ignore"):
        design = np.column_stack([np.ones(len(score)), logit(score)])
    coef = np.array([0.0, 1.0])
    nothing = Figure(np.nan, np.full(len(score), np.nan), np.full(len(score), np.nan))
    if not np.isfinite(design).all() or np.ptp(design[:, 1]) == 0:
        return nothing, nothing
    for _ in range(50):
        fitted = expit(design @ coef)
        bread = design.T @ ((weights * fitted * (1.0 - fitted))[:, None] * design)
        if np.linalg.cond(bread) > 1e14:
            return nothing, nothing
        step = np.linalg.solve(bread, design.T @ (weights * (labels - fitted)))
        coef = coef + step
        if np.abs(step).max() < 1e-10:
            break
    else:
        return nothing, nothing
    by_label = np.linalg.solve(bread, design.T * weights)  # (2, n)
    by_row = by_label * (labels - fitted)
    intercept, slope = (Figure(float(coef[j]), by_row[j], by_label[j]) for j in (0, 1))
    return intercept, slope


def figures(
    score: Floats, labels: Floats, weights: Floats, *, counts: bool = False
) -> dict[str, Figure]:
    """All figures by name; those of probabilities only for a score within [0, 1]."""
    area = auc(score, labels, weights, counts=counts)
    found = {
        "prevalence": rate(labels, weights),
        "auc": area,
        "gini": Figure(2.0 * area.value - 1.0, 2.0 * area.by_row, 2.0 * area.by_label),
        "ks": ks(score, labels, weights),
    }
    if score.min() >= 0.0 and score.max() <= 1.0:
        intercept, slope = calibration_line(score, labels, weights)
        found |= {
            "brier": brier(score, labels, weights),
            "calibration_in_the_large": rate(labels, weights, score),
            "calibration_intercept": intercept,
            "calibration_slope": slope,
        }
    return found


_WITHIN_UNIT = {"prevalence", "auc", "ks", "brier"}


def interval(name: str, value: float, se: float, alpha: float) -> Floats:
    """Ends of an interval, (2,); made on the log-odds for figures within (0, 1)."""
    z = norm.ppf([alpha / 2.0, 1.0 - alpha / 2.0])
    if name == "gini":
        return 2.0 * interval("auc", 0.5 * (value + 1.0), 0.5 * se, alpha) - 1.0
    if name in _WITHIN_UNIT and 0.0 < value < 1.0:
        return expit(logit(value) + z * se / (value * (1.0 - value)))
    return value + z * se


# Not slotted: the figures are cached.
@dataclass(frozen=True, eq=False)
class PopulationMetrics:
    """Figures of a score over a population whose labels are partly predicted.

    Attributes
    ----------
    figures, labelled_figures : dict
        Each figure over all rows, and over the labelled ones alone.
    se : Series
        Standard errors of the figures.
    score, labels, weights : ndarray
        (n,) The score, the labels or probabilities of a one, and the weights behind them.
    labelled : ndarray
        (n,) bool.
    target : {"superpopulation", "rows"}
        What the intervals are for.
    """

    score: Floats  # (n,)
    labels: Floats  # (n,) observed, or probability of a one
    labelled: NDArray[np.bool_]  # (n,)
    weights: Floats  # (n,)
    counts: bool  # weights are numbers of identical rows
    groups: NDArray[np.int64] | None  # (n,) codes of clusters
    param_influence: Floats  # (n, P) of the rows on the estimates behind the labels
    cov: Floats  # (P, P) of these estimates
    label_gradient: Floats  # (n_unlabelled, P) of the predicted labels in the estimates
    target: Target = "superpopulation"

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """Each figure by its name."""
        return figures(self.score, self.labels, self.weights, counts=self.counts)

    @cached_property
    def labelled_figures(self) -> dict[str, Figure]:
        """Each figure of the labelled rows alone, by its name."""
        seen = self.labelled
        return figures(self.score[seen], self.labels[seen], self.weights[seen], counts=self.counts)

    def _row_errors(self, by_row: Floats, keep: NDArray[np.bool_] | None = None) -> Floats:
        """(q,) standard errors from the influences (n, q) of the rows kept."""
        rows = slice(None) if keep is None else keep
        counts = self.weights[rows] if self.counts else None
        groups = None if self.groups is None else self.groups[rows]
        return np.sqrt(np.diag(influence_covariance(by_row, counts, groups)))

    def _errors(self, found: list[Figure]) -> Floats:
        """(q,) standard errors of figures of all rows."""
        by_label = np.array([figure.by_label for figure in found])[:, ~self.labelled]
        slopes = by_label @ self.label_gradient  # (q, P)
        if self.target == "rows":
            p = self.labels[~self.labelled]
            each = np.maximum(self.weights[~self.labelled], 1.0) if self.counts else 1.0
            noise = by_label**2 @ (p * (1.0 - p) / each)
            return np.sqrt(noise + np.einsum("qi,ij,qj->q", slopes, self.cov, slopes))
        by_row = np.stack([figure.by_row for figure in found], axis=-1)
        return self._row_errors(by_row + self.param_influence @ slopes.T)

    @cached_property
    def se(self) -> pd.Series:
        """Standard errors of the figures."""
        return pd.Series(self._errors(list(self.figures.values())), index=list(self.figures))

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Figures and intervals at level 1 - ``alpha``; beside them the labelled rows' own."""
        check_alpha(alpha)
        seen = self.labelled_figures
        by_row = np.stack([figure.by_row for figure in seen.values()], axis=-1)
        se_seen = self._row_errors(by_row, self.labelled)
        table = pd.DataFrame(
            {
                "estimate": {name: figure.value for name, figure in self.figures.items()},
                "se": self.se,
                "ci_lower": np.nan,
                "ci_upper": np.nan,
                "labelled": {name: figure.value for name, figure in seen.items()},
                "labelled_se": dict(zip(seen, se_seen, strict=True)),
            },
            index=list(self.figures),
        )
        table[["ci_lower", "ci_upper"]] = [
            interval(name, table.estimate[name], table.se[name], alpha) for name in table.index
        ]
        return table

    def calibration_table(self, n_bins: int = 10, alpha: float = 0.05) -> pd.DataFrame:
        """Mean score and share of ones by quantiles of the score.

        Parameters
        ----------
        n_bins : int
            Bins of about equal weight; fewer where the score has ties.
        alpha : float
            Of the intervals.
        """
        if n_bins < 1:
            raise ValueError(f"n_bins={n_bins!r} must be at least 1")
        check_alpha(alpha)
        bins = quantile_bins(self.score, self.weights, n_bins)
        rows, found = [], []
        for code in np.unique(bins[self.weights > 0]):
            inside = self.weights * (bins == code)
            seen = inside * self.labelled
            found.append(rate(self.labels, inside))
            rows.append(
                {
                    "weight": inside.sum(),
                    "labelled_share": seen.sum() / inside.sum(),
                    "mean_score": inside @ self.score / inside.sum(),
                    "rate": found[-1].value,
                    "labelled_rate": seen @ self.labels / seen.sum() if seen.any() else np.nan,
                }
            )
        table = pd.DataFrame(rows).rename_axis("bin")
        table.insert(4, "se", self._errors(found))
        ends = [
            interval("prevalence", r, e, alpha) for r, e in zip(table.rate, table.se, strict=True)
        ]
        table.insert(5, "ci_lower", [low for low, _ in ends])
        table.insert(6, "ci_upper", [high for _, high in ends])
        return table

    def __str__(self) -> str:
        return self.summary_frame().to_string(float_format=lambda v: f"{v:.4f}")

    def _repr_html_(self) -> str:
        return str(self.summary_frame()._repr_html_())
