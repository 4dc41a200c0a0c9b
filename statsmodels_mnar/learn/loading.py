"""What boosted trees and networks share: two indices, and the loading that joins them.

Indices that are as flexible as these have learnt part of the error of the rows that they have seen,
where the likelihood is therefore largest at too small a loading. It is chosen by rows that they
have not seen, cross-fitted over folds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr
from sklearn.model_selection import StratifiedKFold

from ..errors import NoExclusionRestrictionWarning, warn
from ..kernel.links import Link
from ..types import Floats
from .estimator import Labels, MissingLabelClassifier, Training, Which
from .loss import MAX_LOADING, SelectionLoss

_STEP = 0.5  # between loadings that are tried, in atanh(error correlation)
_REACH = 2.0  # the largest of them: an error correlation of 0.96


class LoadingClassifier(MissingLabelClassifier):
    """A classifier whose outcome and selection indices are joined by a loading.

    A subclass learns both, and the loading, in ``_fit`` and computes an index in ``_index``.
    """

    link: str
    loading_: float

    def _index(self, X: Floats, equation: str) -> Floats:
        """(n,) "outcome" or "selection" index; the latter infinite if every row had a label."""
        raise NotImplementedError

    def _positive(self, X: Floats, which: Which) -> Floats:
        a, loss = self._index(X, "outcome"), SelectionLoss(self.link)
        if which == "population":
            return loss.probability(a, None, self.loading_)
        b = self._index(X, "selection")
        if len(b) and np.isinf(b[0]):
            return loss.probability(a, None, self.loading_)
        return loss.probability(a, b, self.loading_, which)

    def decision_function(self, X: Any) -> Floats:
        """Log odds of the second class in the population at the features ``X``, (n,)."""
        a, loss = self._index(self._read_new(X), "outcome"), SelectionLoss(self.link)
        # Of both classes, since 1 - p has few digits where p is close to 1.
        two = loss.probability(a, None, self.loading_), loss.probability(-a, None, -self.loading_)
        second, first = (np.log(np.maximum(p, 1e-300)) for p in two)
        odds: Floats = second - first
        return odds

    def selection_proba(self, X: Any) -> Floats:
        """P(a row is labelled), (n,).

        Parameters
        ----------
        X : array_like
            (n, p) features.
        """
        return ndtr(self._index(self._read_new(X), "selection"))


def check_loading(loading: Any) -> None:
    """Refuse a loading that cannot be held."""
    if loading is not None and not abs(loading) <= MAX_LOADING:
        raise ValueError(
            f"loading={loading!r} must lie between -{MAX_LOADING:g} and {MAX_LOADING:g}, or be "
            "None to be estimated"
        )


def warn_without_instrument(data: Training) -> None:
    """Warn where no column moves selection alone, so that little identifies the loading."""
    if not set(data.select) - set(data.outcome):
        warn(
            "no exclusion restriction: every feature of the selection equation is in the outcome "
            "equation too, so that the shape of the errors alone identifies the loading. Leave a "
            "variable that moves selection only out of outcome_features.",
            NoExclusionRestrictionWarning,
        )


def error_corr(loading: Any, link: Link) -> Any:
    """Return the error correlation that a loading means."""
    return np.tanh(np.arcsinh(np.asarray(loading) / unit(link)))


def unit(link: Link) -> float:
    """Return the standard deviation of the outcome's own error."""
    return math.sqrt(link.variance)


def loading_path(values: dict[float, float], link: Link) -> pd.DataFrame:
    """Return the loadings that were tried, in their order, with their likelihoods."""
    loading = np.array(sorted(values), dtype=float)
    likelihood = np.array([values[at] for at in loading.tolist()], dtype=float)
    return pd.DataFrame(
        {
            "loading": loading,
            "error_corr": error_corr(loading, link),
            "log_likelihood": likelihood,
        }
    )


def kinds(labels: Labels) -> NDArray[np.intp]:
    """(n,) 0 and 1 of labelled rows, 2 of unlabelled ones."""
    return np.where(labels.seen, labels.y, 2.0).astype(np.intp)


def folds(labels: Labels, cv: int, seed: int, otherwise: str) -> list[NDArray[np.intp]]:
    """Held-out rows of each fold, with about equal shares of both classes and of unlabelled rows.

    Parameters
    ----------
    labels : Labels
    cv : int
        Folds; fewer where there are not so many rows of a kind.
    seed : int
    otherwise : str
        What to do where there are not two rows of a kind, for the message.
    """
    kind = kinds(labels)
    counts = np.bincount(kind)
    fewest = int(counts[counts > 0].min())
    if fewest < 2:
        raise ValueError(
            "cross-fitting needs two labelled rows of each class and two unlabelled ones, but "
            f"there is only 1 sample of a kind; {otherwise}"
        )
    splitter = StratifiedKFold(min(cv, fewest), shuffle=True, random_state=seed)
    return [held for _, held in splitter.split(kind, kind)]


def among_labelled(labels: Labels, several: Sequence[NDArray[np.intp]]) -> list[NDArray[np.intp]]:
    """Positions among the labelled rows of those that are labelled, for each of several."""
    place = np.cumsum(labels.seen) - 1
    return [place[rows[labels.seen[rows]]] for rows in several]


def best_loading(
    likelihood: Callable[[float], float], scale: float, near: float = 0.0
) -> tuple[float, dict[float, float]]:
    """Return the loading at which a smooth likelihood is largest, and its values along the way.

    Steps of one size in t = atanh(error correlation), loading = scale sinh(t), until the best value
    has a smaller one on either side; then two tops of parabolas through the nearest values.

    Examples
    --------
    >>> loading, values = best_loading(lambda x: -((x - 1.5) ** 2), scale=1.8)
    >>> round(loading, 2), len(values)
    (1.45, 4)
    """
    known: dict[float, float] = {}

    def value(t: float) -> None:
        known[t] = likelihood(scale * math.sinh(t))

    def parabola() -> float:
        middle = max(known, key=lambda t: known[t])
        points = sorted(known, key=lambda t: abs(t - middle))[:3]
        curve, slope, _ = np.polyfit(points, [known[t] for t in points], 2)
        top = -slope / (2.0 * curve) if curve < 0.0 else middle
        return float(np.clip(top, min(points), max(points)))

    value(min(max(math.asinh(near / scale), -_REACH), _REACH))
    while True:
        best = max(known, key=lambda t: known[t])
        beside = [t for t in (best + _STEP, best - _STEP) if abs(t) <= _REACH]
        new = [t for t in beside if min(abs(t - k) for k in known) > 1e-9]
        if not new:
            break
        value(new[0])
    best = parabola()
    if min(abs(best - t) for t in known) > 1e-3:
        value(best)
        best = parabola()
    return scale * math.sinh(best), {scale * math.sinh(t): v for t, v in known.items()}
