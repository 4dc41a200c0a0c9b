"""Boosted trees under selection, as a classifier: options, columns and predictions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from statsmodels.tools.sm_exceptions import ModelWarning

from ..errors import warn
from ..types import Floats
from .ensembles import DATA, importance, load_library, predict_index
from .estimator import Positions, Training, choose_features
from .loading import LoadingClassifier, check_loading, error_corr, warn_without_instrument
from .loss import SelectionLoss, check_booster
from .trees import TreeFit


class BoostedSelectionClassifier(LoadingClassifier):
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
    Missing features are left to the booster, which reads them.

    The trees are flexible, so what identifies the loading is a variable that moves selection and
    that the outcome equation leaves out. Without one, a warning says so.

    Boosting stops before it has learnt all of either equation. What the selection index misses
    stays in the selection error, so that the loading is that of a larger error, and smaller. What
    the outcome index misses may pass for selection or hide it: where the outcome's features tell
    most of who is labelled, the loading can come out far too small. Compare it with that of a
    :class:`GreeneClassifier`.

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

    def _read(self, X: Any, y: Any, sample_weight: Any = None) -> Training:
        self._check_options()
        self._levels = _levels(X, self.categorical_features)
        return super()._read(_encoded(X, self._levels), y, sample_weight)

    def _fit(self, data: Training) -> Self:
        """Grow both ensembles."""
        fit = TreeFit(self, data)
        corrects = self._corrects(data, "an ordinary booster is trained")
        if corrects and self.loading is None:
            warn_without_instrument(data)
        choice = fit.choose(corrects)
        select = choice.select
        outcome = fit.outcome.complete(
            fit.problem.joint(choice.select_index, choice.loading), choice.outcome_rounds
        )
        self.outcome_booster_, self.selection_booster_ = outcome.library, select.library
        self.start_ = (outcome.start, select.start)
        self.n_rounds_ = {"outcome": outcome.rounds, "selection": select.rounds}
        self.loading_ = choice.loading
        self.error_corr_ = float(error_corr(choice.loading, fit.link))
        self.loading_path_ = choice.path
        if not self.importances("split")["outcome"].any():
            warn(
                "no tree of the outcome equation has a split, so that all rows get the same "
                "probability: the labelled rows are too few for the smallest leaf that is allowed "
                "(params of LightGBM: min_data_in_leaf, of XGBoost: min_child_weight), or no "
                "split makes rows that were held out likelier.",
                ModelWarning,
            )
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
        outcome = equation == "outcome"
        library = self.outcome_booster_ if outcome else self.selection_booster_
        if library is None:
            return np.full(len(X), np.inf)
        columns = self.outcome_features_ if outcome else self.selection_features_
        trees = predict_index(
            library,
            self.booster,
            np.ascontiguousarray(X[:, columns]),
            self._categorical(columns),
            self._params(equation, columns),
        )
        return self.start_[0 if outcome else 1] + trees

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


# -- columns ---------------------------------------------------------------------------------------


def _levels(X: Any, named: Any) -> dict[int, pd.Index]:
    """The categories of the categorical columns, by position."""
    levels: dict[int, pd.Index] = {}
    if isinstance(X, pd.DataFrame):
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
    frame = X.copy(deep=False) if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X))
    for j, known in levels.items():
        if j < frame.shape[1]:
            codes = known.get_indexer(pd.Index(_column(X, j))).astype(float)
            frame.isetitem(j, np.where(codes < 0, np.nan, codes))
    return frame if isinstance(X, pd.DataFrame) else frame.to_numpy(dtype=float)


def _column(X: Any, j: int) -> Any:
    return X.iloc[:, j] if isinstance(X, pd.DataFrame) else np.asarray(X)[:, j]


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
