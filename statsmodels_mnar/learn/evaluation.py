"""Scores and folds for data with unlabelled rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import metadata_routing
from sklearn.utils.validation import indexable

from ..post import metrics
from ..types import Floats
from .estimator import as_column, read_weights, unlabelled

# The largest log-odds of an expected log loss is that of scikit-learn's log_loss.
_CLOSEST = np.finfo(float).eps


class _Scorer(BaseEstimator):
    """A callable of (estimator, X, y) for ``scoring=``, which can be given sample weights.

    With metadata routing, ask for them by ``set_score_request(sample_weight=True)``.
    """

    # What scikit-learn calls metadata is all but X and y.
    __metadata_request__score = {"estimator": metadata_routing.UNUSED}  # noqa: RUF012

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score an estimator; greater is better."""
        return self.score(estimator, X, y, sample_weight)

    def score(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score ``estimator`` on ``X`` and ``y`` with ``sample_weight``."""
        raise NotImplementedError


class LabelledScorer(_Scorer):
    """A scorer that leaves unlabelled rows out; :func:`labelled_scorer` makes it."""

    def __init__(self, scoring: Any = "roc_auc", missing_label: Any = -1) -> None:
        self.scoring = scoring
        self.missing_label = missing_label

    def score(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score ``estimator`` on the rows of ``X`` that ``y`` labels, with ``sample_weight``."""
        values = as_column(y)
        seen = ~unlabelled(values, self.missing_label)
        if not seen.any():
            raise ValueError(
                "no row to score has a label; LabelledKFold keeps their share in every fold"
            )
        known = values[seen]
        if known.dtype == object:
            known = np.asarray(known.tolist())
        weights = read_weights(sample_weight, len(values))
        extra = {} if weights is None else {"sample_weight": weights[seen]}
        score = get_scorer(self.scoring) if isinstance(self.scoring, str) else self.scoring
        return float(score(estimator, _rows(X, seen), known, **extra))


def labelled_scorer(scoring: Any = "roc_auc", *, missing_label: Any = -1) -> LabelledScorer:
    """A scorer over the labelled rows, for ``scoring=``.

    Labelled rows are no random sample of the population, and a model that fits them better may fit
    the population worse; see :func:`population_scorer`.

    Parameters
    ----------
    scoring : str or callable
        Any scorer of scikit-learn, which would count unlabelled rows as errors.
    missing_label : scalar, optional
        A value of y that marks unlabelled rows beside NaN and None.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> from statsmodels_mnar.learn import GreeneClassifier, LabelledKFold, labelled_scorer
    >>> data = simulate_greene(1_500, rng=1).data
    >>> X, y = data[["x1", "x2", "z"]], data["y"]
    >>> model = GreeneClassifier(outcome_features=["x1", "x2"])
    >>> scores = cross_val_score(model, X, y, scoring=labelled_scorer(), cv=LabelledKFold(3))
    >>> bool((scores > 0.6).all())
    True
    """
    return LabelledScorer(scoring, missing_label)


class PopulationScorer(_Scorer):
    """A scorer of all rows under a selection model; :func:`population_scorer` makes it."""

    def __init__(self, metric: str = "roc_auc", model: Any = None, missing_label: Any = -1) -> None:
        self.metric = metric
        self.model = model
        self.missing_label = missing_label

    def __sklearn_clone__(self) -> PopulationScorer:
        return self  # a clone of the model would not be fitted

    def score(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score ``estimator`` on all rows of ``X``, labelled by ``y`` or not.

        ``sample_weight`` are weights of the rows.
        """
        values = as_column(y)
        seen = ~unlabelled(values, self.missing_label)
        classes = np.asarray(self.model.classes_)
        strange = ~np.isin(values[seen].tolist(), classes.tolist())
        if strange.any():
            raise ValueError(
                f"y has {values[seen][strange][0]!r}, which is none of the model's classes "
                f"{classes.tolist()}"
            )
        labels = np.empty(len(values))
        labels[seen] = values[seen] == classes[1]
        if not seen.all():
            labels[~seen] = _of_unlabelled(self.model, _rows(X, ~seen))
        weights = read_weights(sample_weight, len(values))
        weights = np.ones(len(values)) if weights is None else weights
        p = _probabilities(estimator, X, classes)
        return _METRICS[self.metric](p, labels, weights)


def population_scorer(
    metric: str = "roc_auc", *, model: Any, missing_label: Any = -1
) -> PopulationScorer:
    """A scorer that estimates the score over labelled and unlabelled rows together.

    Labelled rows enter with their labels, unlabelled ones as the second class with the probability
    that ``model`` gives them, P(y = 1 | x, unlabelled). The estimate is as good as that model: it
    is the truth's where the model is right, and should be fitted once to all the data, apart from
    the estimators that are compared.

    Parameters
    ----------
    metric : {"roc_auc", "neg_brier_score", "neg_log_loss", "accuracy"}
    model : classifier
        Fitted, with ``predict_proba(X, which="unlabelled")``: a classifier of this part, or a
        pipeline that ends in one.
    missing_label : scalar, optional
        A value of y that marks unlabelled rows beside NaN and None.

    See Also
    --------
    statsmodels_mnar.results.imputation.population_metrics : with standard errors.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> from statsmodels_mnar.learn import GreeneClassifier, population_scorer
    >>> data = simulate_greene(4_000, rng=1).data
    >>> X, y = data[["x1", "x2", "z"]], data["y"]
    >>> greene = GreeneClassifier(outcome_features=["x1", "x2"]).fit(X, y)
    >>> naive = LogisticRegression().fit(X[y.notna()], y.dropna())
    >>> score = population_scorer("neg_brier_score", model=greene)
    >>> truth = -np.mean((naive.predict_proba(X)[:, 1] - data.y_full) ** 2)
    >>> bool(abs(score(naive, X, y) - truth) < 0.01)
    True
    """
    if metric not in _METRICS:
        raise ValueError(f"metric={metric!r} is unknown; use one of {list(_METRICS)}")
    if not (hasattr(model, "predict_proba") and hasattr(model, "classes_")):
        raise ValueError(
            f"model={type(model).__name__} must be a fitted classifier with "
            "predict_proba(X, which='unlabelled'), such as GreeneClassifier(...).fit(X, y)"
        )
    return PopulationScorer(metric, model, missing_label)


def _of_unlabelled(model: Any, X: Any) -> Floats:
    """(n,) P(y = 1 | x, unlabelled) by a classifier, or by the one that ends a pipeline."""
    while hasattr(model, "steps"):
        if len(model) > 1:
            X = model[:-1].transform(X)
        model = model[-1]
    return np.asarray(model.predict_proba(X, which="unlabelled"), dtype=float)[:, 1]


def _probabilities(estimator: Any, X: Any, classes: NDArray[Any]) -> Floats:
    """(n,) P of the second class by any classifier."""
    own = getattr(estimator, "classes_", None)
    if own is None or np.asarray(own).tolist() != classes.tolist():
        raise ValueError(
            f"{type(estimator).__name__} has classes_ {None if own is None else list(own)}, the "
            f"model {classes.tolist()}: a classifier that takes -1 or NaN as a class cannot be "
            "scored here; fit it to labelled rows only"
        )
    return np.asarray(estimator.predict_proba(X), dtype=float)[:, 1]


def _rows(X: Any, mask: NDArray[np.bool_]) -> Any:
    """The rows of a frame or an array where the mask is true."""
    if hasattr(X, "iloc"):
        return X[mask]
    if hasattr(X, "filter") and hasattr(X, "columns"):  # polars
        return X.filter(mask)
    return np.asarray(X)[mask]


def _accuracy(p: Floats, labels: Floats, weights: Floats) -> float:
    return float(np.average(np.where(p > 0.5, labels, 1.0 - labels), weights=weights))


def _log_loss(p: Floats, labels: Floats, weights: Floats) -> float:
    p = np.clip(p, _CLOSEST, 1.0 - _CLOSEST)
    return float(np.average(labels * np.log(p) + (1.0 - labels) * np.log1p(-p), weights=weights))


_METRICS = {
    "roc_auc": lambda p, labels, weights: metrics.auc(p, labels, weights).value,
    "neg_brier_score": lambda p, labels, weights: -metrics.brier(p, labels, weights).value,
    "neg_log_loss": _log_loss,
    "accuracy": _accuracy,
}


class LabelledKFold:
    """Folds that each have the share of labelled rows, and of each class among them.

    ``StratifiedKFold`` refuses labels that are NaN, and ``KFold`` leaves folds without defaults.

    Parameters
    ----------
    n_splits : int
        Folds.
    shuffle : bool
        Shuffle the rows of each class before cutting.
    random_state : int, optional
        Seed of the shuffling.
    missing_label : scalar, optional
        A value of y that marks unlabelled rows beside NaN and None.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([0, 1, np.nan, np.nan] * 6)
    >>> for train, test in LabelledKFold(3).split(np.zeros((24, 1)), y):
    ...     print(int(np.isnan(y[test]).sum()), int(np.nansum(y[test])))
    4 2
    4 2
    4 2
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = False,
        random_state: Any = None,
        missing_label: Any = -1,
    ) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state
        self.missing_label = missing_label

    def __repr__(self) -> str:
        return (
            f"LabelledKFold(n_splits={self.n_splits}, shuffle={self.shuffle}, "
            f"random_state={self.random_state}, missing_label={self.missing_label!r})"
        )

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Positions of the rows to train on and to test on, for each fold.

        Parameters
        ----------
        X : array_like
            (n, p), read for its length only.
        y : array_like
            (n,) labels.
        groups : array_like, optional
            (n,) rows of one group stay in one fold, which then keeps shares as nearly as it can.
        """
        if y is None:
            raise ValueError("LabelledKFold needs y: it keeps the share of labelled rows")
        X, y, groups = indexable(X, y, groups)
        values = as_column(y)
        missing = unlabelled(values, self.missing_label)
        strata = np.zeros(len(values), dtype=int)  # 0: unlabelled
        known = values[~missing]
        strata[~missing] = 1 + np.unique(known.astype(str), return_inverse=True)[1]
        folds = StratifiedKFold if groups is None else StratifiedGroupKFold
        cut = folds(self.n_splits, shuffle=self.shuffle, random_state=self.random_state)
        yield from cut.split(np.zeros((len(values), 1)), strata, groups)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of folds; ``X``, ``y`` and ``groups`` are not read."""
        return self.n_splits

    def get_metadata_routing(self) -> Any:
        """Groups are asked for, as by the group splitters of scikit-learn."""
        request = metadata_routing.MetadataRequest(owner=type(self).__name__)
        request.split.add_request(param="groups", alias=True)
        return request
