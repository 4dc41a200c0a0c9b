"""Results of the selection models."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import statsmodels.base.wrapper as wrap
from numpy.typing import NDArray
from scipy import stats
from statsmodels.base.model import GenericLikelihoodModelResults, LikelihoodResultsWrapper
from statsmodels.tools._decorators import cache_readonly

from ..optimize.binary import Independent, fit_independent
from ..optimize.maximize import Optimizer, as_optimizer
from ..optimize.objective import Objective
from ..optimize.penalties import Penalties
from ..optimize.solution import Accuracy, Climb, Solution, Status
from ..post import covariance
from ..post.covariance import Covariance, Meat, read_groups
from ..post.dependence import Normalization, Parametrized
from ..post.door import FittedModel
from ..post.paths import EVERYWHERE
from ..tools import check_alpha
from ..types import Floats
from . import (
    bootstrap,
    drawing,
    effects,
    imputation,
    inference,
    plots,
    predicting,
    refits,
    report,
    robustness,
    shrinkage,
    specification,
    summary,
)
from .refits import SimulationError

Known = TypeVar("Known")

# Of statsmodels, for models without derivatives of their own; they work here, but are not needed.
_NUMERICAL = frozenset(("bsejac", "bsejhj", "covjac", "covjhj", "get_nlfun", "hessv", "score_obsv"))
# What its own methods read; ``cov_params()`` and ``df_resid`` are for users.
_MACHINERY = frozenset(("cov_params_default", "df_modelwc", "initialize", "normalized_cov_params"))
_OF_TERMS = frozenset(
    ("group_effects", "penalised_terms", "plot_levels", "plot_smooth", "smooth_curve")
)


@dataclass(frozen=True, slots=True)
class Fit:
    """What a model hands to its results."""

    model: FittedModel  # of the form the maximum lies on
    solution: Solution  # of all parameters of the form, fixed ones included
    independent: Independent
    method: str
    start_params: Floats | None  # (P,) of the estimated parameters
    penalty: float
    faces: dict[str, float]  # log-likelihoods compared
    options: dict[str, Any] = field(default_factory=dict)  # of fit, to repeat it
    climbs: tuple[Climb, ...] = ()  # of the search for the maximum
    # Models and their maxima, that of the fit first.
    maxima: tuple[tuple[FittedModel, Solution], ...] = ()
    # The normalization that was asked for, where the model is that of a face.
    asked: Normalization | None = None
    inner: Solution | None = None  # where the search ran to the face, if it did
    accuracy: Accuracy | None = None  # None: one of a batch, which is not checked
    penalties: Penalties | None = None  # of penalised terms

    @property
    def optimizer(self) -> Optimizer:
        """What the method can do."""
        return as_optimizer(self.method)


class SelectionResults(GenericLikelihoodModelResults):
    """Estimates of a selection model.

    Attributes
    ----------
    params, bse, tvalues, pvalues
        Outcome coefficients, ``select_`` coefficients, then the dependence parameters estimated.
    sigma, rho, error_corr : float
        Dependence of the outcome on selection; ``dependence`` is the table with intervals.
    status : Status
        How the fit ended, in words: ``status.value``. ``status.boundary`` is true on a face.
    converged : bool
        At a maximum of the closed model, interior or on a face.
    nobs, nobs_selected, eta : float
        Observations, labelled ones, and the missing ratio.
    llf, llindep, llnull : float
        Log-likelihoods: of the model, of the two equations fitted apart, of constants alone.
    """

    model: FittedModel
    _more_cov_types: ClassVar[tuple[str, ...]] = ()
    _is_likelihood: ClassVar[bool] = True
    _estimator: ClassVar[str] = "ML"  # for the summary
    _simulation_error: SimulationError | None = None
    _groups: covariance.Codes  # of the clusters, for rows in memory
    _group_columns: tuple[str, ...]  # and for rows in partitions

    # Independence of the equations, and the instrument.
    instrument = property(inference.instrument)
    _instrument = inference._instrument
    test_independence = inference.test_independence
    _ll_ignorable = inference._ll_ignorable
    _maximum = inference._maximum

    # Terms, columns left out and smaller fits; criteria and the table of predicted labels.
    compare_lr_test = specification.compare_lr_test
    score_test = specification.score_test
    wald_test_terms = specification.wald_test_terms
    info_criteria = specification.info_criteria
    pred_table = specification.pred_table

    # Dependence of the outcome on selection.
    sigma = property(inference.sigma)
    rho = property(inference.rho)
    error_corr = property(inference.error_corr)
    dependence = property(inference.dependence)
    dependence_table = inference.dependence_table
    _dependence = property(inference._dependence)
    _dependence_values = inference._dependence_values
    _two_dependence_parameters = inference._two_dependence_parameters

    # What the data say little about, and intervals that hold there.
    weak = property(inference.weak)
    _scale_note = property(inference._scale_note)
    maxima = property(inference.maxima)
    multistart = property(inference.multistart)
    _scale_remedy = inference._scale_remedy
    _by_profile = inference._by_profile
    _skewed = inference._skewed
    _across = inference._across
    _across_members = inference._across_members
    _dependence_across = inference._dependence_across
    _check_profile = inference._check_profile
    _profile_refusal = inference._profile_refusal
    _likelihood_refusal = inference._likelihood_refusal
    _closed = inference._closed
    _asked = inference._asked

    # Probabilities and indices, for the model's rows or new ones.
    predict = predicting.predict
    predict_parquet = predicting.predict_parquet
    get_prediction = predicting.get_prediction
    fittedvalues = cache_readonly(predicting.fittedvalues)
    resid = cache_readonly(predicting.resid)

    # Marginal effects of a fitted selection model.
    get_margeff = effects.get_margeff
    _by_column = effects._by_column
    _by_data = effects._by_data
    _typed = effects._typed
    _specs = effects._specs
    _factors = effects._factors
    _check_read = effects._check_read

    # Refits at a fixed dependence, and shifts of the missing labels' log-odds.
    sensitivity = robustness.sensitivity

    # Profiles, identification and sensitivity of a fitted selection model.
    identification = cached_property(robustness.identification)
    identification_report = robustness.identification_report
    profile = robustness.profile

    # Refits of a fitted selection model: bootstrap, jackknife, other draws.
    bootstrap = bootstrap.bootstrap
    jackknife = refits.jackknife
    simulation_error = refits.simulation_error

    # Imputed labels and population figures from a fitted selection model.
    impute = imputation.impute
    population_metrics = imputation.population_metrics
    _unlabelled_gradient = imputation._unlabelled_gradient

    # Residuals and influence of a fitted selection model.
    resid_response = property(predicting.resid_response)
    resid_pearson = property(predicting.resid_pearson)
    resid_quantile = predicting.resid_quantile
    resid_generalized = property(predicting.resid_generalized)
    _param_influence = predicting._param_influence
    _refit_influence = predicting._refit_influence
    _check_at_maximum = predicting._check_at_maximum
    _clusters = predicting._clusters
    get_influence = predicting.get_influence

    # Penalised terms: group effects and smooths.
    penalised_terms = shrinkage.penalised_terms
    group_effects = shrinkage.group_effects
    smooth_curve = shrinkage.smooth_curve
    plot_smooth = shrinkage.plot_smooth
    plot_levels = shrinkage.plot_levels
    _term_facts = shrinkage.facts
    _leverage = shrinkage.leverage

    # Predicted probabilities along a covariate.
    probabilities_along = drawing.probabilities_along
    plot_probabilities = drawing.plot_probabilities
    _which_in_words = drawing._which_in_words

    # Pictures of a fitted selection model.
    plot_profile = plots.plot_profile
    plot_sensitivity = plots.plot_sensitivity
    plot_margeff = plots.plot_margeff
    plot_calibration = plots.plot_calibration
    plot_trace = plots.plot_trace

    # Reports of a fitted selection model.
    to_json = report.to_json
    report = report.report

    # Tables, and what subclasses say in them.
    _header_rows = summary._header_rows
    _criteria = summary._criteria
    _penalty_notes = summary._penalty_notes
    _own_notes = summary._own_notes
    tidy = summary.tidy
    glance = summary.glance
    summary2 = summary.summary2
    summary = summary.summary

    def __dir__(self) -> list[str]:
        """List what users call, without what this fit has no use for.

        Names that are not listed work all the same.
        """
        hidden = _NUMERICAL | _MACHINERY
        if not self._has_terms:
            hidden |= _OF_TERMS
        if self._form.form.simulation is None:
            hidden |= {"simulation_error"}
        return [name for name in super().__dir__() if name not in hidden]

    def __init__(
        self, fit: Fit, cov_type: str | Covariance, cov_kwds: dict[str, Any] | None = None
    ) -> None:
        # Not GenericLikelihoodModelResults.__init__: it takes statsmodels' own optimisers' output.
        model = fit.model
        self.model = model
        self._fit_info = fit
        self.params = fit.solution.params[model.estimated]
        self.nobs = model.n_weighted()
        self.df_model = model.df_model
        self.k_constant = model.k_constant
        self.scale = 1.0
        self._use_t = False
        self._cache: dict[str, Any] = {}
        self._data_attr: list[str] = ["_groups"]
        self._data_in_cache = ["fittedvalues", "resid", "score_obsv"]
        self.mle_settings = {"optimizer": fit.method, "start_params": fit.start_params}
        self.mle_retvals = {
            "converged": self.converged,
            "iterations": fit.solution.n_iter,
            "warnflag": int(not self.converged),
            "score_norm": fit.solution.score_norm,
        }
        self.nobs_selected = model.design.counts.selected
        if isinstance(cov_type, Covariance):  # known already
            self._groups, self._group_columns, self._use_correction = (), (), True
            self._take_covariance(cov_type)
        else:
            self._set_covariance(cov_type, cov_kwds or {})

    @classmethod
    def _restored(cls, fit: Fit, found: Covariance, known: dict[str, Any]) -> Self:
        """Results whose covariance is known already, and with it what ``summary`` shows."""
        results = cls(fit, found)
        for name, value in known.items():
            results._once(name, partial(_same, value))
        return results

    def _once(self, name: str, compute: Callable[[], Known]) -> Known:
        """What ``compute`` returns; it is computed once, and outlives the data."""
        found: Known = self._summary_cache(name, compute)
        return found

    # -- covariance --------------------------------------------------------------------------------

    @property
    def _sampling(self) -> bool:
        return self.model.design.weight_kind == "prob_weights"

    def _hessian(self) -> Floats:
        keep = self.model.estimated
        return self.solution.hessian[np.ix_(keep, keep)]

    def _covariance(self, cov_type: str) -> Covariance:
        size = len(self.params)
        if not self._fit_info.optimizer.at_maximum:
            nothing = np.full((size, size), np.nan)
            return Covariance(nothing, cov_type, "none: stopped before the maximum")
        if self._has_terms and cov_type == "OPG":
            raise ValueError(
                "cov_type='OPG' leaves penalties out, but only they identify some effects of re() "
                "and smooth(); use 'nonrobust', 'HC0', 'HC1' or 'cluster'"
            )
        keep = self.model.estimated
        meat = self._meat(self.model.objective(), self.model.expand(self.params), cov_type)
        if meat is not None:
            meat = replace(meat, matrix=meat.matrix[np.ix_(keep, keep)])
        found = covariance.estimate(cov_type, self._hessian(), meat)
        if self._has_terms:
            found = replace(found, description=f"{found.description}, penalties included")
        return found

    def _meat(self, objective: Objective, theta: Floats, cov_type: str) -> Meat | None:
        """What ``cov_type`` needs of the rows' scores at all parameters of the form; see Meat."""
        if cov_type == "nonrobust":
            return None
        if self.model.in_partitions:
            return self.model.meat_in_partitions(
                objective, theta, cov_type, self._group_columns, self._use_correction
            )
        scores = objective.row_scores(theta).cpu().numpy()
        weights = self.model.design.weights
        if cov_type == "cluster":
            return covariance.cluster_meat(
                scores, weights, self._groups, use_correction=self._use_correction
            )
        return covariance.row_meat(scores, weights, sampling=self._sampling)

    def _set_covariance(self, cov_type: str, cov_kwds: dict[str, Any]) -> None:
        covariance.check_cov_type(cov_type, self._more_cov_types, sampling=self._sampling)
        self._groups, self._group_columns, self._use_correction = read_groups(
            cov_type, cov_kwds, self.model
        )
        self._take_covariance(self._covariance(cov_type))

    def _take_covariance(self, found: Covariance) -> None:
        self.cov_type = found.cov_type
        self.cov_kwds: dict[str, Any] = {
            "description": found.description,
            "n_groups": found.n_groups,
        }
        self.cov_params_default = self.normalized_cov_params = found.matrix

    def get_robustcov_results(
        self, cov_type: str = "HC0", **cov_kwds: Any
    ) -> SelectionResultsWrapper:
        """Return these estimates with another covariance.

        Parameters
        ----------
        cov_type : str
            As in the model's ``fit``.
        **cov_kwds
            ``groups`` and ``use_correction`` for "cluster".
        """
        other = self._copied()
        other._simulation_error = None  # it was beside the other standard errors
        other._set_covariance(cov_type, cov_kwds)
        return SelectionResultsWrapper(other)

    def _copied(self) -> Self:
        """A copy that computes anew what depends on its parameters and covariance."""
        other = copy.copy(self)
        other._cache = {}
        known = self.__dict__.get("_summary_statistics_cache", {})
        kept = ("llf", "llnull", "ignorable", "terms", "leverage", "apart_edf")
        other._summary_statistics_cache = {name: known[name] for name in kept if name in known}
        return other

    def _at_params(self, params: Any) -> Self:
        """These results at other parameters, such as those of a bootstrap replicate.

        They are not at a maximum of the likelihood, so their intervals are always Wald's.
        """
        other = self._copied()
        other.params = params
        other._once("weak", tuple)
        other._once("skewed", bool)
        return other

    def conf_int(self, alpha: float = 0.05, *, interval: str | None = None) -> Any:
        """Intervals of the parameters at level 1 - ``alpha``.

        Parameters
        ----------
        alpha : float
        interval : {"wald", "profile"}, optional
            As in :meth:`get_prediction`. With sigma and rho both estimated the coefficients' unit
            changes with sigma, and their intervals are always Wald's.
        """
        check_alpha(alpha)
        found = super().conf_int(alpha)
        if self._by_profile(interval) and not self._two_dependence_parameters():
            across, n_coef = self._across(), self.model.n_coef
            found = np.array(found)
            se = np.sqrt(np.diagonal(across.cov, axis1=1, axis2=2))
            found[:n_coef] = across.interval(across.coef, se, alpha)
            if self._form.kind == "loading":  # coefficients that grow with it without bound
                p = self.model.k_outcome
                found[:p] = across.unbounded(found[:p], across.coef[:, :p], se[:, :p], alpha)
            for j, values in enumerate(self._dependence_across()):
                pieces = across.ranges(values, EVERYWHERE, alpha)
                found[n_coef + j] = pieces[0][0], pieces[-1][1]
        return found

    @property
    def pvalues(self) -> Floats:
        """Two-sided P-values of the hypotheses that a parameter is zero.

        Normal or, where intervals are made by "profile", the smallest level at which that of
        :meth:`conf_int` excludes zero.
        """
        found: Floats = super().pvalues
        constrained = getattr(self, "results_constrained", None)
        if constrained is not None:  # those of the model that was fitted
            found = np.array(found)
            found[self.keep_index] = constrained.pvalues
            return found
        if not self._by_profile(None) or self._two_dependence_parameters():
            return found

        def compute() -> Floats:
            across, n_coef = self._across(), self.model.n_coef
            se = np.sqrt(np.diagonal(across.cov, axis1=1, axis2=2))
            p = np.array(found)
            p[:n_coef] = across.pvalues(across.coef, se)
            for j, values in enumerate(self._dependence_across()):
                p[n_coef + j] = across.test(values, 0.0)
            return p

        return self._once("pvalues", compute)

    # -- how it ended ------------------------------------------------------------------------------

    @property
    def solution(self) -> Solution:
        """What the optimiser returned."""
        return self._fit_info.solution

    @property
    def status(self) -> Status:
        """How the fit ended; ``status.value`` says it in words."""
        return self.solution.status

    @property
    def converged(self) -> bool:
        """Whether the fit is at a maximum of the closed model, interior or on a face."""
        return self.status.converged or self.status.boundary

    @property
    def accuracy(self) -> Accuracy | None:
        """What the error of the integration means for the estimates; print it.

        The log-likelihood and the score at the solution, evaluated once more by a finer rule. None
        for members of a batch, such as the fits of a Monte Carlo.
        """
        return self._fit_info.accuracy

    @property
    def _form(self) -> Parametrized:
        return self.model.parametrized

    # -- likelihoods -------------------------------------------------------------------------------

    @property
    def llf(self) -> float:
        """Log-likelihood, without the penalty."""
        if self._fit_info.penalty == 0.0 and not self._has_terms:
            return self.solution.value
        return self._once("llf", lambda: self.model.loglike(self.params))

    @property
    def _has_terms(self) -> bool:
        """Whether there are penalised terms."""
        return bool(self.model.design.penalised)

    @property
    def _top(self) -> float:
        """What profiles are measured from: the log-likelihood less the penalties of terms."""
        return self.solution.value if self._has_terms else self.llf

    @property
    def llindep(self) -> float:
        """Log-likelihood of the two equations fitted apart."""
        return self._fit_info.independent.value

    @property
    def llnull(self) -> float:
        """Log-likelihood of constants (and offsets) alone, equations apart."""

        def compute() -> float:
            rows = self.model.constant_rows()
            return fit_independent(rows, link=self.model.link).value

        return self._once("llnull", compute)  # outlives the data

    @cache_readonly
    def llr(self) -> float:
        """Likelihood ratio against constants alone."""
        return -2.0 * (self.llnull - self.llf)

    @cache_readonly
    def llr_pvalue(self) -> float:
        """P-value of the likelihood ratio against constants alone."""
        return float(stats.chi2.sf(self.llr, self.df_modelwc - 2))

    @cache_readonly
    def prsquared(self) -> float:
        """McFadden's pseudo R-squared."""
        return 1.0 - self.llf / self.llnull

    @cache_readonly
    def df_modelwc(self) -> float:
        """Number of parameters of the model, for the information criteria.

        That of the model as it was asked for: where its maximum lies on a face, ``params`` has
        fewer, but the data chose the face. Penalised terms count their effective degrees of
        freedom.
        """
        info, model = self._fit_info, self.model
        asked = model.normalization if info.asked is None else info.asked
        dependence = model.parametrize(asked, model.integration).free.sum()
        held = getattr(self, "k_constr", 0)
        number = float(model.n_coef + dependence - held)
        if self._has_terms:  # whose coefficients count as far as they are free
            number += float(self._leverage().sum() - model.estimated.sum())
            number += shrinkage.apart_edf(self)
        return number

    @property
    def df_resid(self) -> float:
        """Observations less :attr:`df_modelwc`."""
        used: float = self.df_modelwc
        return self.nobs - used

    @property
    def nobs_unselected(self) -> float:
        """Observations without a label."""
        return self.nobs - self.nobs_selected

    @property
    def eta(self) -> float:
        """Share of observations without a label."""
        return self.nobs_unselected / self.nobs

    # -- tables ------------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        return str(self.summary().as_html())

    def _first_stage_record(self) -> dict[str, Any] | None:
        """What a file says of BiasCorr's first stages."""
        return None

    # -- storage -----------------------------------------------------------------------------------

    def save(self, fname: Any, remove_data: bool = False) -> None:
        """Write a pickle of these results, model and data included.

        A pickle is read with the versions that wrote it, and reading one runs whatever code is in
        it: :meth:`load` only files that you trust. :meth:`to_json` writes a file that holds no
        code.

        Parameters
        ----------
        fname : str, Path or file
        remove_data : bool
            Drop the rows before; predictions for new data still work.
        """
        super().save(fname, remove_data)

    @classmethod
    def load(cls, fname: Any) -> Any:
        """Read what :meth:`save` wrote.

        Reading a pickle runs whatever code is in it: never load a file from someone you do not
        trust. ``from_json`` reads files of :meth:`to_json`, which hold no code.

        Parameters
        ----------
        fname : str, Path or file
        """
        return super().load(fname)

    def __getstate__(self) -> dict[str, Any]:
        model = self.model
        if self._is_likelihood and model.in_partitions and model.rows_at_hand():
            _ = self.llnull, self.weak, self._skewed()  # the rows do not travel
            if self._has_terms:
                _ = self._term_facts(), self._leverage(), shrinkage.apart_edf(self)
        state: dict[str, Any] = super().__getstate__()
        return state

    def remove_data(self) -> None:
        """Drop all arrays of the length of the data; predict on new data still works."""
        _ = self.llf, self.bse, self.identification, self.instrument, self.pvalues
        if self._is_likelihood:
            _ = self.llnull, summary.independence(self)
        if self._has_terms:
            _ = self._term_facts(), self._leverage(), shrinkage.apart_edf(self)
        super().remove_data()
        self.model.remove_data()

    def _embed(self, model: FittedModel, kept: NDArray[np.int64]) -> SelectionResults:
        """These results as those of a larger ``model``, zero in all but the ``kept``."""
        full = self._copied()
        full._cache = {"llf": self.llf}
        full.model = model
        full.results_constrained = SelectionResultsWrapper(self)
        full.params = np.zeros(model.nparams)
        full.params[kept] = self.params
        full.cov_params_default = np.zeros((model.nparams, model.nparams))
        full.cov_params_default[np.ix_(kept, kept)] = self.cov_params_default
        full.normalized_cov_params = full.cov_params_default
        full.keep_index = kept
        full.k_constr = len(full.params) - len(self.params)
        full._fit_info = replace(self._fit_info, model=model)
        return full


def _same(value: Known) -> Known:
    return value


class SelectionResultsWrapper(LikelihoodResultsWrapper):
    """Puts names and index on what the results return."""


wrap.populate_wrapper(SelectionResultsWrapper, SelectionResults)
