"""Boosted trees under selection: an ensemble for each equation, and the loading by its profile.

The selection ensemble is grown on the likelihood of being labelled, once. Given its index, outcome
ensembles are grown on the joint likelihood, and that likelihood on rows which the trees have not
seen, cross-fitted over folds, chooses the loading and says when to stop. (On rows that the trees
have seen, it is highest at too small a loading: the trees have learnt part of the error.)

Trees that are grown anew for each loading differ by chance, and their likelihoods by more than the
loading makes of it. So trees are grown at one loading, keep their splits, and have the values of
their leaves fitted at the others, which makes the profile a smooth function of the loading; then
trees are grown at its maximum, and it is profiled once more. Folds are grown with fewer and larger
steps than the final ensembles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, ndtr
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.validation import check_is_fitted

from ..kernel.links import Link, as_link
from ..types import Floats
from .base import MissingLabelClassifier, Positions, Training, Which, choose_features
from .checks import check_loading, corrects
from .ensembles import (
    DATA,
    Derivatives,
    Ensemble,
    TreeData,
    importance,
    load_library,
    predict_index,
    predict_leaves,
)
from .loss import LINKS, SelectionLoss, check_booster
from .table import OutcomeTable

_STEP = 0.5  # between loadings that are tried, in atanh(error correlation)
_REACH = 2.0  # the largest of them: an error correlation of 0.96
_FAST_RATE = 0.3  # learning rate of the folds' ensembles, where the user's is smaller
_FASTER = 3.0  # times the user's, at most
_PASSES = 2  # trees are grown at the loading that was found, and it is found again


class BoostedSelectionClassifier(MissingLabelClassifier):
    """Gradient boosted trees corrected for labels that are missing not at random.

    The outcome index and the selection index are sums of trees; the selection error enters the
    outcome with a loading that is estimated (see :class:`~statsmodels_mnar.learn.SelectionLoss`).
    With the loading held at zero these are two ordinary boosters, one of the labelled rows' classes
    and one of which rows are labelled.

    Parameters
    ----------
    booster : {"lightgbm", "xgboost"}
        Whose trees.
    link : {"logit", "probit"}
        Of the outcome given the selection error.
    loading : float, optional
        Holds the loading at this value; by default it is estimated.
    n_estimators : int
        Trees of each equation, at most.
    learning_rate : float
    early_stopping : int or None
        Rounds without a better held-out likelihood after which an ensemble is complete. None: all
        ``n_estimators`` trees are grown.
    cv : int
        Folds over which the held-out likelihood is cross-fitted.
    params : dict, optional
        The booster's own parameters, such as ``{"num_leaves": 15}``, for both equations.
    outcome_params, selection_params : dict, optional
        Those of one equation, which take precedence.
    monotone_constraints : dict or sequence, optional
        For the outcome index, by column name or position: 1 rising, -1 falling, 0 free; a sequence
        has an entry for each column of X.
    categorical_features : array_like of names or positions, optional
        Beside the columns of a DataFrame that are of categorical type.
    outcome_features, selection_features : optional
        Columns of each equation by name, position, mask or callable; by default all.
    missing_label : scalar, optional
        What marks unlabelled rows, beside NaN and None.
    random_state : int
        Of the folds, and the booster's seed.
    n_jobs : int, optional
        Threads of the booster; by default its own choice.

    Attributes
    ----------
    classes_ : ndarray
        The two classes; probabilities are of the second.
    loading_, error_corr_ : float
        Estimated or held.
    loading_path_ : DataFrame
        The loadings that were tried, with their cross-fitted log-likelihood.
    n_rounds_ : dict
        Trees of each equation.
    outcome_booster_, selection_booster_ : Booster
        LightGBM's or XGBoost's own objects. Their raw score plus ``start_[0]`` or ``start_[1]`` is
        the index; the second is None where every row is labelled.
    start_ : tuple
        Constants of the two indices.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    The trees are flexible, so what identifies the loading is a variable that moves selection and
    that the outcome equation leaves out. Without one, a warning says so.

    Examples
    --------
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> from statsmodels_mnar.learn import BoostedSelectionClassifier
    >>> data = simulate_greene(2_000, rng=0).data
    >>> model = BoostedSelectionClassifier(
    ...     outcome_features=["x1", "x2"], params={"num_leaves": 4}, n_jobs=1
    ... )
    >>> model = model.fit(data[["x1", "x2", "z"]], data["y"])
    >>> model.predict_proba(data[["x1", "x2", "z"]]).shape
    (2000, 2)
    """

    _allow_nan = True

    def __init__(
        self,
        booster: str = "lightgbm",
        *,
        link: str = "logit",
        loading: float | None = None,
        n_estimators: int = 500,
        learning_rate: float = 0.1,
        early_stopping: int | None = 30,
        cv: int = 3,
        params: dict[str, Any] | None = None,
        outcome_params: dict[str, Any] | None = None,
        selection_params: dict[str, Any] | None = None,
        monotone_constraints: Any = None,
        categorical_features: Any = None,
        outcome_features: Any = None,
        selection_features: Any = None,
        missing_label: Any = -1,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.booster = booster
        self.link = link
        self.loading = loading
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.early_stopping = early_stopping
        self.cv = cv
        self.params = params
        self.outcome_params = outcome_params
        self.selection_params = selection_params
        self.monotone_constraints = monotone_constraints
        self.categorical_features = categorical_features
        self.outcome_features = outcome_features
        self.selection_features = selection_features
        self.missing_label = missing_label
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow both ensembles.

        Parameters
        ----------
        X : array_like
            (n, p) features. Missing values are left to the booster, which reads them.
        y : array_like
            (n,) two classes, and ``missing_label``, NaN or None where unlabelled.
        sample_weight : array_like, optional
            (n,) weights of the rows.
        """
        self._check_options()
        self._levels = _levels(X, self.categorical_features)
        data = self._read(_encoded(X, self._levels), y, sample_weight)
        fit = _Fit(self, data)
        choice = fit.choose(corrects(self, data, "an ordinary booster is trained"))
        select = choice.select
        outcome = fit.outcome.complete(
            fit.joint(select.index, choice.loading), choice.outcome_rounds
        )
        self.outcome_booster_, self.selection_booster_ = outcome.library, select.library
        self.start_ = (outcome.start, select.start)
        self.n_rounds_ = {"outcome": outcome.rounds, "selection": select.rounds}
        self.loading_ = choice.loading
        self.error_corr_ = math.tanh(_atcorr(choice.loading, fit.link))
        self.loading_path_ = choice.path
        return self

    def _check_options(self) -> None:
        """Refuse options before any work."""
        check_booster(self.booster)
        load_library(self.booster)
        SelectionLoss(self.link)
        for name, least in (("n_estimators", 1), ("cv", 2), ("early_stopping", 1)):
            value = getattr(self, name)
            if value is None and name == "early_stopping":
                continue
            if not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name}={value!r} must be an integer of at least {least}")
        if not (isinstance(self.learning_rate, int | float) and 0.0 < self.learning_rate <= 1.0):
            raise ValueError(f"learning_rate={self.learning_rate!r} must lie between 0 and 1")
        check_loading(self.loading)
        for name in ("params", "outcome_params", "selection_params"):
            ours = sorted(set(getattr(self, name) or {}) & _OURS.keys())
            if ours:
                raise ValueError(
                    f"{name} has {ours[0]!r}, which the classifier sets itself; {_OURS[ours[0]]}"
                )

    def _params(self, equation: str, columns: Positions) -> dict[str, Any]:
        """The booster's parameters for one equation."""
        own = self.outcome_params if equation == "outcome" else self.selection_params
        params = {**(self.params or {}), **(own or {}), "learning_rate": self.learning_rate}
        params["seed"] = self.random_state
        if self.n_jobs is not None:
            params[DATA[self.booster].n_jobs_name] = self.n_jobs
        if equation == "outcome" and self.monotone_constraints is not None:
            names = getattr(self, "feature_names_in_", None)
            signs = _signs(self.monotone_constraints, names, self.n_features_in_)
            params["monotone_constraints"] = tuple(signs[columns].tolist())
        return params

    def _categorical(self, columns: Positions) -> list[int]:
        """Which of an equation's columns are categorical."""
        return [j for j, column in enumerate(columns) if column in self._levels]

    # -- after the fit -----------------------------------------------------------------------------

    def _read_new(self, X: Any) -> Any:
        check_is_fitted(self)
        return super()._read_new(_encoded(X, self._levels))

    def _index(self, X: Floats, equation: str) -> Floats:
        """(n,) the index of one equation."""
        outcome = equation == "outcome"
        library = self.outcome_booster_ if outcome else self.selection_booster_
        columns = self.outcome_features_ if outcome else self.selection_features_
        trees = predict_index(
            library,
            self.booster,
            np.ascontiguousarray(X[:, columns]),
            self._categorical(columns),
            self._params(equation, columns),
        )
        return self.start_[0 if outcome else 1] + trees

    def _positive(self, X: Any, which: Which) -> Floats:
        a = self._index(X, "outcome")
        if self.selection_booster_ is None or which == "population":
            return SelectionLoss(self.link).probability(a, None, self.loading_)
        b = self._index(X, "selection")
        return SelectionLoss(self.link).probability(a, b, self.loading_, which)

    def selection_proba(self, X: Any) -> Floats:
        """P(a row is labelled), (n,).

        Parameters
        ----------
        X : array_like
            (n, p) features.
        """
        X = self._read_new(X)
        if self.selection_booster_ is None:
            return np.ones(len(X))
        return ndtr(self._index(X, "selection"))

    def importances(self, kind: str = "gain") -> pd.DataFrame:
        """How much each equation's trees use each feature.

        Parameters
        ----------
        kind : {"gain", "split"}
            Total gain of the splits on a feature, or their number.

        Returns
        -------
        DataFrame
            A row for each feature; NaN in an equation that does not read it.
        """
        check_is_fitted(self)
        if kind not in ("gain", "split"):
            raise ValueError(f"kind={kind!r} is unknown; use 'gain' or 'split'")
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        table = pd.DataFrame(np.nan, index=list(names), columns=["outcome", "selection"])
        for equation, library, columns in (
            ("outcome", self.outcome_booster_, self.outcome_features_),
            ("selection", self.selection_booster_, self.selection_features_),
        ):
            if library is not None:
                found = importance(library, self.booster, kind, len(columns))
                table.iloc[columns, table.columns.get_loc(equation)] = found
        return table

    @property
    def feature_importances_(self) -> Floats:
        """Shares of the gain in the outcome equation, (p,); see :meth:`importances`."""
        gain = self.importances()["outcome"].fillna(0.0).to_numpy()
        return gain / (gain.sum() or 1.0)


_OURS = {
    "objective": "the objective is the selection likelihood",
    "metric": "trees are judged by the held-out likelihood",
    "eval_metric": "trees are judged by the held-out likelihood",
    "base_score": "the index starts from the best constant",
    "num_class": "there are two classes",
    "learning_rate": "use the argument learning_rate",
    "eta": "use the argument learning_rate",
    "shrinkage_rate": "use the argument learning_rate",
    "n_estimators": "use the argument n_estimators",
    "num_iterations": "use the argument n_estimators",
    "num_boost_round": "use the argument n_estimators",
    "early_stopping_round": "use the argument early_stopping",
    "early_stopping_rounds": "use the argument early_stopping",
    "monotone_constraints": "use the argument monotone_constraints",
    "categorical_feature": "use the argument categorical_features",
}


# -- what trees are grown to: a target for each equation -------------------------------------------


class Target(Protocol):
    """The weighted loss of rows in one index, the other equation and the loading given."""

    def derivatives(self, index: Floats) -> tuple[Floats, Floats]:
        """Return the first two derivatives of each row's loss, (n,) each."""

    def loss(self, index: Floats) -> float:
        """Return the sum."""

    def at(self, rows: Rows) -> Target:
        """Return the target of some rows."""


Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Selection:
    """-log P(s), a probit."""

    seen: NDArray[np.bool_]  # (n,)
    weight: Floats  # (n,)

    def derivatives(self, index: Floats) -> tuple[Floats, Floats]:
        side = np.where(self.seen, 1.0, -1.0)
        z = side * index
        mills = _SQRT_2_OVER_PI / erfcx(-_SQRT_HALF * z)
        return -self.weight * side * mills, self.weight * mills * (z + mills)

    def loss(self, index: Floats) -> float:
        return -float(self.weight @ log_ndtr(np.where(self.seen, index, -index)))

    def at(self, rows: Rows) -> Selection:
        return Selection(self.seen[rows], self.weight[rows])


@dataclass(frozen=True)
class Outcome:
    """-log P(y, s = 1) of labelled rows whose selection index is given."""

    y: Floats  # (m,)
    select: Floats  # (m,)
    weight: Floats  # (m,)
    table: OutcomeTable

    def derivatives(self, index: Floats) -> tuple[Floats, Floats]:
        _, first, second = self.table(index, self.select, self.y)
        return -self.weight * first, -self.weight * second

    def loss(self, index: Floats) -> float:
        return -float(self.weight @ self.table(index, self.select, self.y, order=0)[0])

    def at(self, rows: Rows) -> Outcome:
        return Outcome(self.y[rows], self.select[rows], self.weight[rows], self.table)


_SQRT_HALF, _SQRT_2_OVER_PI = math.sqrt(0.5), math.sqrt(2.0 / math.pi)


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

    index: Floats  # (n,)
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
        trees = predict_index(ensemble.library, self.booster, self.X, self.categorical, self.params)
        return Complete(start + trees, start, rounds, ensemble.library)


# -- which loading, and how many trees -------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """What the cross-fitted likelihood chose."""

    loading: float
    outcome_rounds: int
    select: Complete
    path: pd.DataFrame


class _Fit:
    """The data of a fit in the form in which trees are grown on them."""

    def __init__(self, model: BoostedSelectionClassifier, data: Training) -> None:
        self.model = model
        self.labels = data.labels
        self.seen = data.labels.seen
        self.n = len(self.seen)
        self.weight = np.ones(self.n) if data.weights is None else data.weights
        self.link = as_link(model.link, LINKS, type(model).__name__)
        self.marginal = Selection(self.seen, self.weight)
        X = np.asarray(data.X, dtype=float)

        def equation(name: str, rows: Any, columns: Positions) -> Equation:
            return Equation(
                np.ascontiguousarray(X[rows][:, columns]),
                model.booster,
                model._params(name, columns),
                model._categorical(columns),
                self.weight[rows],
            )

        self.outcome = equation("outcome", self.seen, data.outcome)
        self.select = equation("selection", slice(None), data.select)

    def joint(self, select_index: Floats, loading: float) -> Outcome:
        """The outcome's target, given the selection index of all rows."""
        b = select_index[self.seen]
        span = (float(b.min()), float(b.max())) if loading else (0.0, 0.0)
        table = OutcomeTable(self.link, loading, span)
        return Outcome(self.labels.y[self.seen], b, self.weight[self.seen], table)

    def choose(self, corrects: bool) -> Choice:
        """Grow the selection ensemble, and choose loading and rounds of the outcome's."""
        model = self.model
        held = float(model.loading or 0.0) if model.loading is not None or not corrects else None
        most = model.n_estimators
        certain = Complete(np.full(self.n, np.inf), math.inf, 0, None)  # every row is labelled
        if held is not None and model.early_stopping is None:
            select = self.select.complete(self.marginal, most) if corrects else certain
            return Choice(held, most, select, _path({}, self.link))
        self._split()
        rate = max(model.learning_rate, min(_FASTER * model.learning_rate, _FAST_RATE))
        ratio = rate / model.learning_rate
        patience = model.early_stopping and math.ceil(model.early_stopping / ratio)
        how = (rate, math.ceil(most / ratio), patience)

        def slow(grown: Grown) -> int:
            return min(most, round(ratio * grown.rounds))

        select = certain
        if corrects:
            rounds = slow(self.select.cross_fit(self.marginal, *how))
            select = self.select.complete(self.marginal, rounds)
        hidden = np.flatnonzero(~self.seen)
        unlabelled = self.marginal.at(hidden).loss(select.index[hidden])
        if held is not None:
            grown = self.outcome.cross_fit(self.joint(select.index, held), *how)
            path = _path({held: -grown.loss - unlabelled}, self.link)
            return Choice(held, slow(grown), select, path)
        at = 0.0
        for _ in range(_PASSES):
            grown = self.outcome.cross_fit(self.joint(select.index, at), *how)
            leaves = self.outcome.leaves(grown)

            def likelihood(loading: float, leaves: Any = leaves) -> float:
                target = self.joint(select.index, loading)
                return -self.outcome.refit(target, leaves, rate) - unlabelled

            at, values = best_loading(likelihood, _unit(self.link), near=at)
        return Choice(at, slow(grown), select, _path(values, self.link))

    def _split(self) -> None:
        """Folds with about equal shares of both classes and of unlabelled rows."""
        kind = np.where(self.seen, self.labels.y, 2.0).astype(int)
        counts = np.bincount(kind)
        fewest = int(counts[counts > 0].min())
        if fewest < 2:
            raise ValueError(
                "cross-fitting needs two labelled rows of each class and two unlabelled ones, but "
                "there is only 1 sample of a kind; set loading= and early_stopping=None to grow "
                "all trees without held-out rows"
            )
        n_folds = min(self.model.cv, fewest)
        splitter = StratifiedKFold(n_folds, shuffle=True, random_state=self.model.random_state)
        folds = [held for _, held in splitter.split(kind, kind)]
        self.select.folds = folds
        place = np.cumsum(self.seen) - 1  # of a labelled row among them
        self.outcome.folds = [place[held[self.seen[held]]] for held in folds]


def _unit(link: Link) -> float:
    """The standard deviation of the outcome's own error."""
    return math.sqrt(link.variance)


def _atcorr(loading: float, link: Link) -> float:
    return math.asinh(loading / _unit(link))


def _path(values: dict[float, float], link: Link) -> pd.DataFrame:
    loading = np.array(sorted(values), dtype=float)
    corr = np.tanh(np.arcsinh(loading / _unit(link)))
    likelihood = np.array([values[at] for at in loading.tolist()], dtype=float)
    return pd.DataFrame({"loading": loading, "error_corr": corr, "log_likelihood": likelihood})


def best_loading(
    likelihood: Callable[[float], float], unit: float, near: float = 0.0
) -> tuple[float, dict[float, float]]:
    """Return the loading at which a smooth likelihood is largest, and its values along the way.

    Steps of one size in t = atanh(error correlation), loading = unit sinh(t), until the best value
    has a smaller one on either side; then two tops of parabolas through the nearest values.

    Examples
    --------
    >>> loading, values = best_loading(lambda x: -((x - 1.5) ** 2), unit=1.8)
    >>> round(loading, 2), len(values)
    (1.45, 4)
    """
    known: dict[float, float] = {}

    def value(t: float) -> None:
        known[t] = likelihood(unit * math.sinh(t))

    def parabola() -> float:
        middle = max(known, key=lambda t: known[t])
        points = sorted(known, key=lambda t: abs(t - middle))[:3]
        curve, slope, _ = np.polyfit(points, [known[t] for t in points], 2)
        top = -slope / (2.0 * curve) if curve < 0.0 else middle
        return float(np.clip(top, min(points), max(points)))

    value(min(max(math.asinh(near / unit), -_REACH), _REACH))
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
    return unit * math.sinh(best), {unit * math.sinh(t): v for t, v in known.items()}


# -- columns ---------------------------------------------------------------------------------------


def _levels(X: Any, named: Any) -> dict[int, pd.Index]:
    """The categories of the categorical columns, by position."""
    levels: dict[int, pd.Index] = {}
    if hasattr(X, "iloc"):
        for j, dtype in enumerate(X.dtypes):
            if isinstance(dtype, pd.CategoricalDtype):
                levels[j] = dtype.categories
    if named is not None:
        names = np.array(X.columns, dtype=object) if hasattr(X, "columns") else None
        width = np.shape(X)[1]
        for j in choose_features(named, X, names, width, "categorical_features").tolist():
            if j not in levels:
                levels[j] = pd.Index(pd.Series(_column(X, j)).dropna().unique()).sort_values()
    return levels


def _encoded(X: Any, levels: dict[int, pd.Index]) -> Any:
    """X with the numbers of their categories in categorical columns, NaN for unknown ones."""
    if not levels:
        return X
    frame = X.copy(deep=False) if hasattr(X, "iloc") else pd.DataFrame(np.asarray(X))
    for j, known in levels.items():
        if j < frame.shape[1]:
            codes = known.get_indexer(pd.Index(_column(X, j))).astype(float)
            frame.isetitem(j, np.where(codes < 0, np.nan, codes))
    return frame if hasattr(X, "iloc") else frame.to_numpy(dtype=float)


def _column(X: Any, j: int) -> Any:
    return X.iloc[:, j] if hasattr(X, "iloc") else np.asarray(X)[:, j]


def _signs(constraints: Any, names: NDArray[Any] | None, n_features: int) -> NDArray[np.intp]:
    """(p,) 1, -1 or 0 for each column of X."""
    signs = np.zeros(n_features, dtype=np.intp)
    if isinstance(constraints, dict):
        for name, sign in constraints.items():
            signs[choose_features(name, None, names, n_features, "monotone_constraints")] = sign
    else:
        given = np.asarray(constraints)
        if given.shape != (n_features,):
            raise ValueError(
                f"monotone_constraints has shape {given.shape}, but X has {n_features} columns; "
                "give an entry for each, or a dictionary by name"
            )
        signs[:] = given
    if not np.isin(signs, (-1, 0, 1)).all():
        raise ValueError("monotone_constraints must be 1, -1 or 0")
    return signs
