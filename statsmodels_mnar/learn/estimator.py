"""What the classifiers share: labels that may be missing, features of two equations, predictions.

Works with scikit-learn 1.5 and later; what changed its name since stands in one place each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d
from statsmodels.tools.sm_exceptions import ModelWarning

from ..errors import listing, warn
from ..types import Floats

Which = Literal["population", "unlabelled", "labelled"]
Positions = NDArray[np.intp]
Mask = NDArray[np.bool_]


# -- labels that may be missing --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Labels:
    """A column of labels as the models read it."""

    y: Floats  # (n,) 0, 1, or NaN where unlabelled
    classes: NDArray[Any]  # (2,) the user's labels of 0 and of 1

    @property
    def seen(self) -> Mask:
        """(n,) mask of the labelled rows."""
        return ~np.isnan(self.y)


def unlabelled(y: Any, missing_label: Any = -1) -> Mask:
    """(n,) mask of the rows without a label: missing values, and those equal to ``missing_label``.

    Parameters
    ----------
    y : array_like
        (n,) labels of any kind.
    missing_label : scalar, optional
        A value that marks unlabelled rows beside NaN, None and NA; None: there is no other.

    Examples
    --------
    >>> unlabelled([0, 1, -1, None, float("nan")]).tolist()
    [False, False, True, True, True]
    >>> unlabelled([-1, 1, 1], missing_label=None).tolist()
    [False, False, False]
    """
    values = as_column(y)
    found = np.asarray(pd.isna(values), dtype=bool)
    if missing_label is None or pd.isna(missing_label):
        return found
    named = isinstance(missing_label, str)
    if values.dtype == object:
        for i in np.flatnonzero(~found):
            found[i] = isinstance(values[i], str) == named and values[i] == missing_label
        return found
    if named != (values.dtype.kind in "US"):
        return found
    return found | (values == missing_label)


def read_labels(
    y: Any, missing_label: Any = -1, *, counted: Mask | None = None, name: str = "the classifier"
) -> Labels:
    """Read two classes and unlabelled rows; refuse everything else, with the reason.

    Parameters
    ----------
    y : array_like
        (n,) labels: any two values, and missing ones.
    missing_label : scalar, optional
        As in :func:`unlabelled`.
    counted : ndarray, optional
        (n,) mask of the rows whose weight is not zero; each class must occur among them.
    name : str
        Of the classifier, for messages.

    Examples
    --------
    >>> labels = read_labels(["bad", "good", None, "bad"])
    >>> labels.classes.tolist(), labels.y.tolist()
    (['bad', 'good'], [0.0, 1.0, nan, 0.0])
    """
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    values = as_column(y)
    if values.dtype.kind in "fc" and np.isinf(values).any():
        raise ValueError("Input y contains infinity or a value too large for dtype('float64').")
    seen = ~unlabelled(values, missing_label)
    marks = "NaN and None" if missing_label is None else f"{missing_label!r}, NaN and None"
    if not seen.any():
        raise ValueError(
            f"y has no label: all {len(values)} rows are unlabelled ({marks} mark unlabelled "
            "rows). Pass the labels that are known, or another missing_label."
        )
    known = values[seen]
    if known.dtype == object:  # numbers or words behind missing values
        known = np.asarray(known.tolist())
    check_classification_targets(known)  # refuses continuous labels
    classes = np.unique(known)
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. y has "
            f"{len(classes)} classes ({listing(classes.tolist())}) beside the rows that {marks} "
            "mark as unlabelled. Keep two of them, or name the one that means 'unlabelled' as "
            "missing_label."
        )
    counts = seen if counted is None else seen & counted
    present = np.unique(known[counts[seen]])
    if len(present) < 2:
        shown = f" ({present[0]!s})" if len(present) else ""
        weighted = "" if counted is None else " with a weight above zero"
        raise ValueError(
            f"y has {'no' if not len(present) else 'only 1'} class{shown} among its labelled "
            f"rows{weighted}; a classifier needs two. {marks} mark unlabelled rows"
            f"{': set missing_label=None if -1 is a class' if missing_label == -1 else ''}."
        )
    codes = np.full(len(values), np.nan)
    codes[seen] = (known == classes[1]).astype(float)
    return Labels(codes, classes)


def as_column(y: Any) -> NDArray[Any]:
    """(n,) array of what was given; nullable types of pandas and polars become objects."""
    if isinstance(y, list | tuple) and any(value is None for value in y):
        y = np.array(y, dtype=object)
    if hasattr(y, "to_pandas"):
        y = y.to_pandas()
    values = np.asarray(y, dtype=object) if _is_nullable(y) else np.asarray(y)
    return column_or_1d(values, warn=True)


def _is_nullable(y: Any) -> bool:
    dtype = getattr(y, "dtype", None)
    return isinstance(dtype, pd.api.extensions.ExtensionDtype)


# -- features of two equations ---------------------------------------------------------------------


def choose_features(
    features: Any, X: Any, names: NDArray[Any] | None, n_features: int, argument: str
) -> Positions:
    """Positions of the columns that an equation reads.

    Parameters
    ----------
    features : None, str, int, sequence, slice or callable
        None: all. Names (of a DataFrame's columns), positions (negative ones from the end), a
        mask, a slice of positions, or a function of X that returns one of these, as
        ``make_column_selector`` does.
    X : DataFrame or ndarray
        What was given to ``fit``, for callables.
    names : ndarray or None
        Names of the columns where X has them.
    n_features : int
    argument : str
        Name of the argument, for messages.

    Examples
    --------
    >>> import numpy as np
    >>> names = np.array(["age", "income", "leniency"], dtype=object)
    >>> choose_features(["age", "income"], None, names, 3, "outcome_features").tolist()
    [0, 1]
    >>> choose_features(slice(0, -1), None, names, 3, "outcome_features").tolist()
    [0, 1]
    """
    if callable(features):
        features = features(X)
    every = np.arange(n_features, dtype=np.intp)
    if features is None:
        return every
    if isinstance(features, slice):
        chosen = every[features]
    else:
        chosen = _positions(features, names, n_features, argument)
    if len(chosen) == 0:
        raise ValueError(f"{argument} names no column; leave it out for all of them")
    repeated = pd.Series(chosen).duplicated()
    if repeated.any():
        twice = listing(
            chosen[repeated].tolist() if names is None else names[chosen[repeated]].tolist()
        )
        raise ValueError(f"{argument} names a column twice: {twice}")
    return chosen


def _positions(
    features: Any, names: NDArray[Any] | None, n_features: int, argument: str
) -> Positions:
    single = isinstance(features, str) or np.ndim(features) == 0
    given = np.asarray([features] if single else features)
    if given.size == 0:
        return np.empty(0, dtype=np.intp)
    if given.dtype.kind == "b":
        if given.shape != (n_features,):
            raise ValueError(
                f"{argument} is a mask of shape {given.shape}; X has {n_features} columns"
            )
        return np.flatnonzero(given)
    if given.dtype.kind in "iu":
        outside = given[(given < -n_features) | (given >= n_features)]
        if outside.size:
            raise ValueError(
                f"{argument} has position {listing(outside.tolist())}, but X has {n_features} "
                "columns"
            )
        return np.where(given < 0, given + n_features, given).astype(np.intp)
    words = [str(name) for name in given]
    if names is None:
        raise ValueError(
            f"{argument} has names ({listing(words)}), but X has none: pass a DataFrame, or "
            "positions. In a Pipeline, set_output(transform='pandas') keeps names."
        )
    at = {name: position for position, name in enumerate(names)}
    unknown = [name for name in words if name not in at]
    if unknown:
        raise ValueError(
            f"{argument} has {listing(unknown)}, not among the columns of X: {listing(names)}"
        )
    return np.array([at[name] for name in words], dtype=np.intp)


# -- what scikit-learn asks ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Training:
    """What ``fit`` was given, checked."""

    X: Floats  # (n, p)
    labels: Labels
    weights: Floats | None  # (n,)
    outcome: Positions  # columns of the outcome equation
    select: Positions  # columns of the selection equation

    @property
    def row_weights(self) -> Floats:
        """(n,) weights of the rows, one where none were given."""
        return np.ones(len(self.labels.y)) if self.weights is None else self.weights


def read_weights(sample_weight: Any, n: int) -> Floats | None:
    """(n,) weights of the rows, or None where none were given."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=float)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected {(n,)}!")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight must be finite and not negative")
    if not weights.any():
        raise ValueError("sample_weight is zero on all rows; at least one must count")
    return weights


def validated(estimator: Any, X: Any, *, reset: bool, allow_nan: bool = False) -> Floats:
    """Check X and remember, or compare, its columns; an (n, p) array of floats.

    Parameters
    ----------
    estimator : BaseEstimator
        Gets ``n_features_in_`` and ``feature_names_in_`` with ``reset``.
    X : array_like
    reset : bool
        In ``fit``.
    allow_nan : bool
        Let NaN through.
    """
    finite = "allow-nan" if allow_nan else True
    try:
        from sklearn.utils.validation import validate_data
    except ImportError:  # scikit-learn 1.5
        validate_data, name = type(estimator)._validate_data, "force_all_finite"
    else:
        name = "ensure_all_finite"
    try:
        return validate_data(estimator, X, reset=reset, dtype=np.float64, **{name: finite})
    except ValueError as error:
        if "could not convert string to float" in str(error):
            raise ValueError(
                f"{error}. Features must be numbers: encode words by OneHotEncoder in a "
                "ColumnTransformer, or give boosted trees columns of categorical type."
            ) from error
        if "contains NaN" in str(error):
            raise ValueError(
                f"Input X contains NaN, and {type(estimator).__name__} reads no missing features: "
                "impute them, by SimpleImputer in a Pipeline, or use BoostedSelectionClassifier, "
                "whose trees read them."
            ) from error
        raise


class MissingLabelClassifier(ClassifierMixin, BaseEstimator):
    """A classifier of two classes whose training labels may be missing not at random.

    The base of the classifiers of this part. A subclass has in its signature ``missing_label``,
    ``outcome_features`` and ``selection_features``, learns from what ``_read`` has checked in
    ``_fit``, and computes P(y = 1) in ``_positive``.

    Examples
    --------
    >>> from statsmodels_mnar.learn import GreeneClassifier, MissingLabelClassifier
    >>> issubclass(GreeneClassifier, MissingLabelClassifier)
    True
    """

    _allow_nan = False  # features may be missing

    def __sklearn_tags__(self) -> Any:
        """Two classes only."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = self._allow_nan
        return tags

    def _more_tags(self) -> dict[str, Any]:
        return {"binary_only": True, "allow_nan": self._allow_nan}  # scikit-learn 1.5

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from labelled and unlabelled rows.

        Parameters
        ----------
        X : array_like
            (n, p) features of labelled and unlabelled rows.
        y : array_like
            (n,) two classes, and ``missing_label``, NaN or None where unlabelled.
        sample_weight : array_like, optional
            (n,) weights of the rows, such as inverse sampling probabilities.
        """
        return self._fit(self._read(X, y, sample_weight))

    def _fit(self, data: Training) -> Self:
        """Learn from checked data, and set the attributes."""
        raise NotImplementedError

    def _read(self, X: Any, y: Any, sample_weight: Any = None) -> Training:
        """Check what ``fit`` was given, and set the attributes that describe it."""
        given = X
        X = validated(self, X, reset=True, allow_nan=self._allow_nan)
        n = X.shape[0]
        weights = read_weights(sample_weight, n)
        counted = None if weights is None else weights > 0
        name = type(self).__name__
        values = None if y is None else as_column(y)
        if values is not None and len(values) != n:
            raise ValueError(f"X has {n} rows and y {len(values)}; they must be the same")
        labels = read_labels(values, self.missing_label, counted=counted, name=name)
        names = getattr(self, "feature_names_in_", None)
        outcome, select = (
            choose_features(getattr(self, argument), given, names, self.n_features_in_, argument)
            for argument in ("outcome_features", "selection_features")
        )
        self.classes_ = labels.classes
        self.outcome_features_, self.selection_features_ = outcome, select
        return Training(X, labels, weights, outcome, select)

    def _corrects(self, data: Training, otherwise: str) -> bool:
        """Whether there is selection to correct; warn of what is done ``otherwise``."""
        if (~data.labels.seen & (data.row_weights > 0)).any():
            return True
        warn(
            f"{type(self).__name__}: every row has a label, so that there is no selection to "
            f"correct; {otherwise}. Pass unlabelled rows with NaN or "
            f"missing_label={self.missing_label!r} as their label.",
            ModelWarning,
        )
        return False

    def _read_new(self, X: Any) -> Any:
        """Check new data against those of ``fit``."""
        check_is_fitted(self)
        return validated(self, X, reset=False, allow_nan=self._allow_nan)

    def _positive(self, X: Any, which: Which) -> Floats:
        """(n,) P(y = 1) at checked data."""
        raise NotImplementedError

    def predict_proba(self, X: Any, which: Which = "population") -> Floats:
        """Probabilities of the two classes, in the order of ``classes_``.

        Parameters
        ----------
        X : array_like
            (n, p) features, all columns that ``fit`` was given.
        which : {"population", "unlabelled", "labelled"}
            Of a row with these features that could be anybody, that is known to be unlabelled, or
            known to be labelled.

        Returns
        -------
        ndarray
            (n, 2).
        """
        if which not in get_args(Which):
            raise ValueError(f"which={which!r} is unknown; use one of {list(get_args(Which))}")
        p = self._positive(self._read_new(X), which)
        return np.column_stack([1.0 - p, p])

    def predict_log_proba(self, X: Any, which: Which = "population") -> Floats:
        """Logarithms of :meth:`predict_proba`, with the same ``X`` and ``which``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, which))

    def decision_function(self, X: Any) -> Floats:
        """Log odds of the second class in the population at the features ``X``, (n,)."""
        return logit(np.clip(self._positive(self._read_new(X), "population"), 1e-300, 1 - 1e-16))

    def predict(self, X: Any) -> NDArray[Any]:
        """The likelier class in the population at each row of ``X``, (n,)."""
        second = self.decision_function(X) > 0
        return self.classes_[second.astype(int)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the labelled rows whose label is predicted.

        Parameters
        ----------
        X : array_like
            (n, p) features.
        y : array_like
            (n,) labels; rows without one are left out, and NaN is returned if none is left.
        sample_weight : array_like, optional
            (n,) weights.

        Notes
        -----
        Labelled rows are no random sample of the population; see ``population_scorer`` for
        an estimate there.
        """
        predicted = self.predict(X)
        values = as_column(y)
        seen = ~unlabelled(values, self.missing_label)
        weights = read_weights(sample_weight, len(values))
        kept = None if weights is None else weights[seen]
        if not seen.any() or (kept is not None and not kept.any()):
            return float("nan")
        return float(np.average(predicted[seen] == values[seen], weights=kept))
