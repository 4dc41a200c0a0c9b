"""The selection models, BiasCorr and inverse probability weighting as scikit-learn classifiers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd

from ..baselines import IPWLogit, NaiveLogit
from ..design.checks import check_exclusion
from ..models import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection
from ..types import Floats
from .estimator import MissingLabelClassifier, Training, Which

_STATISTICS = {
    "population": "mean",
    "unlabelled": "mean-unselected",
    "labelled": "mean-selected",
}


class LinearClassifier(MissingLabelClassifier):
    """A classifier with a linear index, behind which stand results in statsmodels' style.

    A subclass says in ``_estimate`` how the two designs are fitted. Without unlabelled rows there
    is nothing to correct, and a plain regression is fitted in its place.
    """

    _link = "logit"

    def _fit(self, data: Training, **how: Any) -> Self:
        """Fit the designs, and set the attributes."""
        y = data.labels.y
        X = self._design(data.X, data.outcome)
        if not self._corrects(data, f"a {self._link} is fitted"):
            model = NaiveLogit(y, X, link=self._link, prob_weights=data.weights)
            self.results_ = model.fit(penalty=self.penalty)
        else:
            W = self._design(data.X, data.select)
            self.results_ = self._estimate(y, X, W, data.weights, **how)
        params = np.asarray(self.results_.params, dtype=float)
        n_outcome = 1 + len(data.outcome)
        self.intercept_, self.coef_ = self._spread(params[:n_outcome], data.outcome)
        return self

    def _design(self, X: Floats, columns: Any) -> pd.DataFrame:
        """A constant and the chosen columns, under their names."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = np.array([f"x{j}" for j in range(X.shape[1])], dtype=object)
        design = pd.DataFrame(X[:, columns], columns=names[columns])
        design.insert(0, "const", 1.0)
        return design

    def _spread(self, params: Floats, columns: Any) -> tuple[Floats, Floats]:
        """The intercept, (1,), and coefficients of all columns of X, (1, p): zero of the others."""
        coef = np.zeros((1, self.n_features_in_))
        coef[0, columns] = params[1:]
        return params[:1].copy(), coef

    def _estimate(self, y: Floats, X: Any, W: Any, weights: Floats | None, **how: Any) -> Any:
        """Results of the model of these designs."""
        raise NotImplementedError

    def _positive(self, X: Any, which: Which) -> Floats:
        outcome = self._design(X, self.outcome_features_)
        if not isinstance(self.results_.model, NaiveLogit):
            return self._predicted(X, outcome, which)
        if which == "unlabelled":
            raise ValueError(
                "which='unlabelled': every row was labelled in fit, so that nothing is known of "
                "unlabelled ones; use 'population'"
            )
        return np.asarray(self.results_.predict(outcome))

    def _predicted(self, X: Any, outcome: Any, which: Which) -> Floats:
        """(n,) P(y = 1) by a fit with unlabelled rows; weighting assumes that all are alike."""
        return np.asarray(self.results_.predict(outcome))

    def decision_function(self, X: Any) -> Floats:
        """Index of the outcome equation at the features ``X``: ``X @ coef_[0] + intercept_``, (n,).

        Its sign says which class is likelier in the population.
        """
        X = self._read_new(X)
        return X @ self.coef_[0] + self.intercept_[0]


class TwoEquationClassifier(LinearClassifier):
    """A classifier behind which stands one of the selection models."""

    def __init__(
        self,
        *,
        outcome_features: Any = None,
        selection_features: Any = None,
        penalty: float = 1e-4,
        normalization: Any = None,
        maxiter: int | None = None,
        missing_label: Any = -1,
    ) -> None:
        self.outcome_features = outcome_features
        self.selection_features = selection_features
        self.penalty = penalty
        self.normalization = normalization
        self.maxiter = maxiter
        self.missing_label = missing_label

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the two equations.

        Parameters
        ----------
        X : array_like
            (n, p) features of labelled and unlabelled rows.
        y : array_like
            (n,) two classes, and ``missing_label``, NaN or None where unlabelled.
        sample_weight : array_like, optional
            (n,) weights of the rows, such as inverse sampling probabilities.
        groups : array_like, optional
            (n,) clusters: the standard errors of ``results_`` allow for dependence within them.
        """
        clusters = {}
        if groups is not None:
            clusters = {"cov_type": "cluster", "cov_kwds": {"groups": np.asarray(groups)}}
        self._fit(self._read(X, y, sample_weight), **clusters)
        if not isinstance(self.results_.model, NaiveLogit):
            params = np.asarray(self.results_.params, dtype=float)
            start = 1 + len(self.outcome_features_)
            both = params[start : start + 1 + len(self.selection_features_)]
            self.select_intercept_, self.select_coef_ = self._spread(both, self.selection_features_)
        return self

    def _estimate(self, y: Floats, X: Any, W: Any, weights: Floats | None, **how: Any) -> Any:
        model = self._model(y, X, (~np.isnan(y)).astype(float), W, prob_weights=weights)
        if self.penalty:  # without one, fit looks itself
            check_exclusion(model.design.counted)
        return model.fit(**{"penalty": self.penalty, "maxiter": self.maxiter, **how})

    def _model(self, *data: Any, **weights: Any) -> Any:
        """The model of (endog, exog, endog_select, exog_select)."""
        raise NotImplementedError

    def _predicted(self, X: Any, outcome: Any, which: Which) -> Floats:
        select = None if which == "population" else self._design(X, self.selection_features_)
        return np.asarray(self.results_.predict(outcome, select, which=_STATISTICS[which]))


class GreeneClassifier(TwoEquationClassifier):
    """Logit outcome and probit selection with correlated errors, as a scikit-learn classifier.

    The classifier of :class:`~statsmodels_mnar.GreeneSelectionLogit`: P(y = 1) is that of a row
    that could be anybody, estimated from labelled and unlabelled rows together.

    Parameters
    ----------
    outcome_features, selection_features : optional
        Columns of X of the two equations: names, positions, a mask, a slice, or a function of X
        that returns one of these, such as ``make_column_selector``. By default all in both, which
        leaves no exclusion restriction and is warned of.
    penalty : float
        Ridge on the coefficients of standardized columns, which bears collinear dummies and
        separation; see :meth:`~statsmodels_mnar.GreeneSelectionLogit.fit`.
    normalization : str or dict, optional
        Form of the dependence, see :class:`~statsmodels_mnar.GreeneSelectionLogit`.
    maxiter : int, optional
        Limit on Newton iterations.
    missing_label : scalar, optional
        A value of y that marks unlabelled rows; NaN, None and NA always do. None: there is no
        other, and -1 may be a class.

    Attributes
    ----------
    classes_ : ndarray
        (2,) The two labels.
    coef_, intercept_ : ndarray
        (1, p) and (1,) Outcome equation; zero for columns that are not in it.
    select_coef_, select_intercept_ : ndarray
        (1, p) and (1,) Selection equation; not there when every row was labelled.
    results_ : SelectionResults
        What the statsmodels class returns: summary, tests, effects, intervals. Of data without
        unlabelled rows, those of a :class:`~statsmodels_mnar.baselines.NaiveLogit`.
    n_features_in_, feature_names_in_
        Of X.
    outcome_features_, selection_features_ : ndarray
        Positions of the columns of each equation.

    Examples
    --------
    >>> import numpy as np
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> from statsmodels_mnar.learn import GreeneClassifier
    >>> data = simulate_greene(2_000, rng=1).data
    >>> X, y = data[["x1", "x2", "z"]], data["y"]  # NaN where unlabelled
    >>> model = GreeneClassifier(outcome_features=["x1", "x2"]).fit(X, y)
    >>> model.coef_.shape
    (1, 3)
    >>> bool(abs(model.predict_proba(X)[:, 1].mean() - data.y_full.mean()) < 0.03)
    True
    """

    def _model(self, *data: Any, **weights: Any) -> Any:
        return GreeneSelectionLogit(*data, normalization=self.normalization, **weights)


class ProbitSelectionClassifier(TwoEquationClassifier):
    """Probit outcome and probit selection with correlated errors (heckprobit) as a classifier.

    The classifier of :class:`~statsmodels_mnar.ProbitSelection`.

    Parameters
    ----------
    outcome_features, selection_features, penalty, maxiter, missing_label
        As in :class:`GreeneClassifier`.
    normalization : dict, optional
        {"rho": 0.5} fixes the error correlation; by default it is estimated.

    Attributes
    ----------
    classes_, coef_, intercept_, select_coef_, select_intercept_, results_
        As in :class:`GreeneClassifier`.
    n_features_in_, feature_names_in_, outcome_features_, selection_features_
        As in :class:`GreeneClassifier`.

    Examples
    --------
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> from statsmodels_mnar.learn import ProbitSelectionClassifier
    >>> data = simulate_greene(2_000, rng=1).data
    >>> X, y = data[["x1", "x2", "z"]], data["y"]
    >>> model = ProbitSelectionClassifier(outcome_features=["x1", "x2"]).fit(X, y)
    >>> bool(model.results_.rho > 0.3)
    True
    """

    _link = "probit"

    def _model(self, *data: Any, **weights: Any) -> Any:
        return ProbitSelection(*data, normalization=self.normalization, **weights)


class BiasCorrClassifier(TwoEquationClassifier):
    """BiasCorr, the paper's classifier: Greene's objective on pseudolabelled rows.

    The classifier of :class:`~statsmodels_mnar.BiasCorrLogit`. The paper's four settings are
    ``selection_model`` "probit" or "logit" with ``pseudolabel_model`` "logit" or "mlp".

    Parameters
    ----------
    selection_model : {"probit", "logit"} or classifier
        g_s, which predicts who is labelled.
    pseudolabel_model : {"logit", "mlp"}, MLP or classifier
        g_y, which learns the outcome from the labelled rows.
    soft_selection : float or "rowwise", optional
        In place of s-bar, see :class:`~statsmodels_mnar.BiasCorrLogit`.
    soft_pseudolabels : bool
        Keep probabilities as pseudolabels.
    outcome_features, selection_features, penalty, normalization, maxiter, missing_label
        As in :class:`GreeneClassifier`.

    Attributes
    ----------
    classes_, coef_, intercept_, select_coef_, select_intercept_, results_
        As in :class:`GreeneClassifier`.
    n_features_in_, feature_names_in_, outcome_features_, selection_features_
        As in :class:`GreeneClassifier`.

    Examples
    --------
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> from statsmodels_mnar.learn import BiasCorrClassifier
    >>> data = simulate_greene(1_000, rng=1).data
    >>> X, y = data[["x1", "x2", "z"]], data["y"]
    >>> model = BiasCorrClassifier(selection_model="logit", outcome_features=["x1", "x2"])
    >>> bool(0.3 < model.fit(X, y).results_.soft_selection < 0.5)
    True
    """

    def __init__(
        self,
        *,
        selection_model: Any = "probit",
        pseudolabel_model: Any = "logit",
        soft_selection: Any = None,
        soft_pseudolabels: bool = False,
        outcome_features: Any = None,
        selection_features: Any = None,
        penalty: float = 1e-4,
        normalization: Any = None,
        maxiter: int | None = None,
        missing_label: Any = -1,
    ) -> None:
        super().__init__(
            outcome_features=outcome_features,
            selection_features=selection_features,
            penalty=penalty,
            normalization=normalization,
            maxiter=maxiter,
            missing_label=missing_label,
        )
        self.selection_model = selection_model
        self.pseudolabel_model = pseudolabel_model
        self.soft_selection = soft_selection
        self.soft_pseudolabels = soft_pseudolabels

    def _model(self, *data: Any, **weights: Any) -> Any:
        return BiasCorrLogit(
            *data,
            normalization=self.normalization,
            selection_model=self.selection_model,
            pseudolabel_model=self.pseudolabel_model,
            soft_selection=self.soft_selection,
            soft_pseudolabels=self.soft_pseudolabels,
            **weights,
        )


class IPWClassifier(LinearClassifier):
    """Logit of the labelled rows, weighted by the inverse of their probability to be labelled.

    The classifier of :class:`~statsmodels_mnar.baselines.IPWLogit`: right where labels are missing
    at random given the selection features. Its probabilities are the same whoever is asked about.

    Parameters
    ----------
    outcome_features, selection_features, penalty, missing_label
        As in :class:`GreeneClassifier`; no exclusion restriction is needed.
    selection_model : {"probit", "logit"}
        Of who is labelled.
    stabilized : bool
        Weights P(s = 1 | x) / P(s = 1 | w).
    trim : float
        Probabilities below it are raised to it.

    Attributes
    ----------
    classes_, coef_, intercept_ : ndarray
        As in :class:`GreeneClassifier`.
    results_ : IPWResults
        What the baseline returns.
    n_features_in_, feature_names_in_, outcome_features_, selection_features_
        As in :class:`GreeneClassifier`.

    Examples
    --------
    >>> from statsmodels_mnar.datasets import simulate_mar
    >>> from statsmodels_mnar.learn import IPWClassifier
    >>> data = simulate_mar(5_000, rng=1).data
    >>> model = IPWClassifier(outcome_features=["x1", "x2"]).fit(data[["x1", "x2", "z"]], data["y"])
    >>> p = model.predict_proba(data[["x1", "x2", "z"]])[:, 1]
    >>> bool(abs(p.mean() - data.y_full.mean()) < 0.02)
    True
    """

    def __init__(
        self,
        *,
        outcome_features: Any = None,
        selection_features: Any = None,
        penalty: float = 1e-4,
        selection_model: str = "probit",
        stabilized: bool = False,
        trim: float = 0.0,
        missing_label: Any = -1,
    ) -> None:
        self.outcome_features = outcome_features
        self.selection_features = selection_features
        self.penalty = penalty
        self.selection_model = selection_model
        self.stabilized = stabilized
        self.trim = trim
        self.missing_label = missing_label

    def _estimate(self, y: Floats, X: Any, W: Any, weights: Floats | None, **how: Any) -> Any:
        model = IPWLogit(
            y,
            X,
            exog_select=W,
            prob_weights=weights,
            selection_model=self.selection_model,
            stabilized=self.stabilized,
            trim=self.trim,
        )
        return model.fit(penalty=self.penalty)
