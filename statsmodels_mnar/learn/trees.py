"""Trees for two equations: what they are grown to, and how many.

The selection ensemble is grown on the likelihood of being labelled. Given the selection index that
trees of the other folds give each row, outcome ensembles are grown on the joint likelihood, and
that likelihood on rows which the trees have not seen, cross-fitted over the same folds, chooses the
loading and says when to stop. (On rows that the outcome trees have seen, it is highest at too small
a loading: they have learnt part of the error. A selection index that has learnt which of these rows
are labelled leaves too little to chance, and the loading comes out too large.)

Trees that are grown anew for each loading differ by chance, and their likelihoods by more than the
loading makes of it. So trees are grown at one loading, keep their splits, and have the values of
their leaves fitted at the others, which makes the profile a smooth function of the loading; then
trees are grown at its maximum, and it is profiled once more. Folds are grown with fewer and larger
steps than the final ensembles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..kernel.links import as_link
from ..types import Floats
from .ensembles import (
    DATA,
    Derivatives,
    Ensemble,
    TreeData,
    predict_index,
    predict_leaves,
)
from .estimator import Positions, Training
from .loading import among_labelled, best_loading, folds, loading_path, unit
from .loss import LINKS
from .table import Problem, Rows, Target

if TYPE_CHECKING:
    from .boosting import BoostedSelectionClassifier

_FAST_RATE = 0.3  # learning rate of the folds' ensembles, where the user's is smaller
_FASTER = 3.0  # times the user's, at most
_PASSES = 2  # trees are grown at the loading that was found, and it is found again


def _started(target: Target, n: int) -> tuple[Target, float]:
    return target, best_constant(target, n)


def _from(start: float, target: Target) -> Derivatives:
    return lambda trees: target.derivatives(start + trees)


def best_constant(target: Target, n: int) -> float:
    """Return the constant index of n rows that has the smallest loss, by Newton's method."""
    value = 0.0
    for _ in range(100):
        first, second = target.derivatives(np.full(n, value))
        step = float(np.clip(first.sum() / second.sum(), -1.0, 1.0))
        value -= step
        if abs(step) < 1e-12:
            break
    return value


# -- one equation: its rows, and how trees are grown on them ---------------------------------------


@dataclass(frozen=True)
class Grown:
    """Trees of all folds at their best number of rounds."""

    loss: float  # of all rows, each by the trees of the other folds
    rounds: int
    index: Floats  # (n,) of these trees
    ensembles: Sequence[Ensemble]  # of the folds


@dataclass(frozen=True)
class Complete:
    """The trees of an equation, grown on all rows."""

    start: float  # the index without trees
    rounds: int
    library: Any  # LightGBM's or XGBoost's own object; None without trees


@dataclass
class Equation:
    """Features of the rows of one equation, and the booster that reads them."""

    X: Floats  # (n, p)
    booster: str
    params: dict[str, Any]
    categorical: list[int]
    weight: Floats  # (n,)
    folds: Sequence[Rows] = ()  # held-out rows of each fold

    def __post_init__(self) -> None:
        self._data: list[TreeData] = []  # of the folds

    @property
    def _kept(self) -> list[Rows]:
        every = np.arange(len(self.X))
        return [np.setdiff1d(every, held) for held in self.folds]

    def cross_fit(self, target: Target, rate: float, rounds: int, patience: int | None) -> Grown:
        """Grow trees on all folds side by side, until their held-out loss together is smallest."""
        params = {**self.params, "learning_rate": rate}
        if not self._data:  # binned once for all targets
            self._data = [
                DATA[self.booster](
                    self.X[rows], self.weight[rows], self.categorical, params, self.X[held]
                )
                for rows, held in zip(self._kept, self.folds, strict=True)
            ]
        ensembles = [data.ensemble(params) for data in self._data]
        parts = [
            (ensemble, held, *_started(target.at(rows), len(rows)))
            for ensemble, held, rows in zip(ensembles, self.folds, self._kept, strict=True)
        ]
        best = Grown(math.inf, 0, np.empty(0), ensembles)
        index = np.empty(len(self.X))
        for number in range(1, rounds + 1):
            for ensemble, held, own, start in parts:
                ensemble.grow(_from(start, own))
                index[held] = start + ensemble.held()
            loss = target.loss(index)
            if loss < best.loss or patience is None:
                best = replace(best, loss=loss, rounds=number, index=index.copy())
            elif number - best.rounds >= patience:
                break
        return best

    def leaves(self, grown: Grown) -> list[NDArray[np.intp]]:
        """Return in which leaf of each tree each row is, (n, rounds) for the trees of each fold."""
        return [
            predict_leaves(each.library, self.booster, self.X, self.categorical, self.params)
            [:, : grown.rounds]
            for each in grown.ensembles
        ]  # fmt: skip

    def refit(self, target: Target, leaves: list[NDArray[np.intp]], rate: float) -> float:
        """Return the held-out loss of all rows with the leaves' values fitted to a target.

        The trees keep their splits, so what is found is a smooth function of the target: trees
        grown anew for each loading differ by chance more than their likelihoods do.
        """
        index = np.empty(len(self.X))
        for kept, held, leaf in zip(self._kept, self.folds, leaves, strict=True):
            own, start = _started(target.at(kept), len(kept))
            inside, outside = np.full(len(kept), start), np.full(len(held), start)
            for tree in leaf.T:
                first, second = own.derivatives(inside)
                at, size = tree[kept], int(tree.max()) + 1
                curve = np.bincount(at, second, minlength=size)
                values = -rate * np.bincount(at, first, minlength=size) / np.maximum(curve, 1e-3)
                inside, outside = inside + values[at], outside + values[tree[held]]
            index[held] = outside
        return target.loss(index)

    def complete(self, target: Target, rounds: int) -> Complete:
        """Grow so many trees on all rows."""
        target, start = _started(target, len(self.X))
        data = DATA[self.booster](self.X, self.weight, self.categorical, self.params)
        ensemble = data.ensemble(self.params)
        for _ in range(rounds):
            ensemble.grow(_from(start, target))
        return Complete(start, rounds, ensemble.library)

    def index(self, complete: Complete) -> Floats:
        """Return the index of the rows themselves by trees that were grown on them, (n,)."""
        trees = predict_index(complete.library, self.booster, self.X, self.categorical, self.params)
        return complete.start + trees


# -- which loading, and how many trees -------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """What the cross-fitted likelihood chose."""

    loading: float
    outcome_rounds: int
    select: Complete
    select_index: Floats  # (n,) of all rows, that outcome trees are grown at
    path: pd.DataFrame


class TreeFit:
    """The data of a fit in the form in which trees are grown on them."""

    def __init__(self, model: BoostedSelectionClassifier, data: Training) -> None:
        self.model = model
        self.link = as_link(model.link, LINKS, type(model).__name__)
        self.problem = Problem(data.labels, data.row_weights, self.link)
        seen = data.labels.seen
        X = np.asarray(data.X, dtype=float)

        def equation(name: str, rows: Any, columns: Positions) -> Equation:
            return Equation(
                np.ascontiguousarray(X[rows][:, columns]),
                model.booster,
                model._params(name, columns),
                model._categorical(columns),
                data.row_weights[rows],
            )

        self.outcome = equation("outcome", seen, data.outcome)
        self.select = equation("selection", slice(None), data.select)

    def choose(self, corrects: bool) -> Choice:
        """Grow the selection ensemble, and choose loading and rounds of the outcome's."""
        model, problem = self.model, self.problem
        held = model.loading if corrects else 0.0
        most = model.n_estimators
        certain = np.full(len(self.select.X), np.inf)  # is labelled
        select, index = Complete(math.inf, 0, None), certain
        if held is not None and model.early_stopping is None:
            if corrects:
                select = self.select.complete(problem.marginal, most)
                index = self.select.index(select)
            return Choice(held, most, select, index, loading_path({}, self.link))
        self._split()
        rate = max(model.learning_rate, min(_FASTER * model.learning_rate, _FAST_RATE))
        ratio = rate / model.learning_rate
        patience = model.early_stopping and math.ceil(model.early_stopping / ratio)
        how = (rate, math.ceil(most / ratio), patience)

        def slow(grown: Grown) -> int:
            return min(most, round(ratio * grown.rounds))

        if corrects:
            grown = self.select.cross_fit(problem.marginal, *how)
            select, index = self.select.complete(problem.marginal, slow(grown)), grown.index
        unlabelled = problem.unlabelled(index)
        if held is not None:
            grown = self.outcome.cross_fit(problem.joint(index, held), *how)
            path = loading_path({held: -grown.loss - unlabelled}, self.link)
            return Choice(held, slow(grown), select, index, path)
        at = 0.0
        for _ in range(_PASSES):
            grown = self.outcome.cross_fit(problem.joint(index, at), *how)
            leaves = self.outcome.leaves(grown)

            def likelihood(loading: float, leaves: Any = leaves) -> float:
                target = problem.joint(index, loading)
                return -self.outcome.refit(target, leaves, rate) - unlabelled

            at, values = best_loading(likelihood, unit(self.link), near=at)
        return Choice(at, slow(grown), select, index, loading_path(values, self.link))

    def _split(self) -> None:
        """Rows of both equations that are held out of each fold."""
        model = self.model
        otherwise = "set loading= and early_stopping=None to grow all trees without held-out rows"
        labels = self.problem.labels
        self.select.folds = folds(labels, model.cv, model.random_state, otherwise)
        self.outcome.folds = among_labelled(labels, self.select.folds)
