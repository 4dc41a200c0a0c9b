"""Tests and intervals of a fitted selection model, and the tables of its dependence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.contrast import WaldTestResults
from statsmodels.tools.sm_exceptions import ConvergenceWarning

from ..design import find_excluded
from ..design.checks import nearly_collinear
from ..design.chunks import SavedDesign, refuse_partitioned
from ..errors import IntegrationAccuracyWarning, WeakIdentificationWarning, warn
from ..kernel.forms import Dependence, FreeForm, single_form
from ..kernel.links import PROBIT
from ..optimize.binary import fit_independent
from ..optimize.solution import Solution, Status
from ..post import covariance, intervals
from ..post import dependence as latent
from ..post.dependence import ExclusionTest, IndependenceTest
from ..post.intervals import Across, check_alpha
from ..post.paths import Closed
from ..post.tests import is_nested
from ..types import Floats
from .shrinkage import apart_edf

if TYPE_CHECKING:
    from .fitted import SelectionResults


def instrument(self: SelectionResults) -> ExclusionTest:
    """Strength of the variables that only the selection equation has; print it.

    A joint Wald test of their coefficients, from the fit and its covariance alone. Its
    ``verdict`` is "strong", "weak" (less than 10 per degree of freedom), "none" or "unknown".
    Where the fit has no covariance, the test is that of the selection equation fitted apart.
    """
    return self._once("instrument", self._instrument)  # outlives the data


def _instrument(self: SelectionResults) -> ExclusionTest:
    design = self.model.design.counted
    if design.nobs == 0 or isinstance(design, SavedDesign):
        return ExclusionTest((), np.nan, 0, np.nan, known=False)
    found = find_excluded(design.sketch)
    select = slice(self.model.k_outcome, self.model.k_outcome + self.model.k_select)
    gamma = np.asarray(self.params)[select]
    cov = np.asarray(self.cov_params_default)[select, select]
    if not np.isfinite(cov).all() and self._is_likelihood:
        gamma, cov = _selection_apart(self)
    shrunk = _shrunk_covariance(self, select) if self._has_terms else None
    test = latent.exclusion(
        _collapsed(self, found.columns), found.directions, gamma, cov, offset=found.offset,
        sampling=shrunk,
    )  # fmt: skip
    return _with_levels(self, test, found.directions)


def _with_levels(self: SelectionResults, test: ExclusionTest, directions: Floats) -> ExclusionTest:
    """The test with the effects of a factor that is apart, where it is an instrument.

    The joint statistic is that of the directions and that of the effects given these. Effects have
    the covariance D^(-1) + T'VT, T their tangent and V the covariance of the parameters, of which
    given the directions W is left: their statistic has the inverse by Woodbury's formula.
    """
    apart, terms = self.model.effects, self.model.design.penalised
    own = [term for term in terms if term.apart and term.equation == "select"]
    both = {term.column for term in terms if term.kind == "re" and term.equation == "outcome"}
    if apart is None or not own or own[0].column in both:
        return test
    V = np.asarray(self.cov_params_default)
    T, d = apart.tangent[self.model.estimated], apart.information
    effects, statistic = apart.values, 0.0
    if test.df:
        p, k = self.model.k_outcome, self.model.k_select
        R = np.hstack([np.zeros((len(directions), p)), directions,
                       np.zeros((len(directions), len(V) - p - k))])  # fmt: skip
        projected = V @ R.T @ np.linalg.inv(R @ V @ R.T)
        effects = effects - T.T @ (projected @ (R @ np.asarray(self.params)))
        V = V - projected @ R @ V
        statistic = test.statistic
    size, vectors = np.linalg.eigh(0.5 * (V + V.T))
    low = (vectors * np.sqrt(np.maximum(size, 0.0))).T @ T  # (P, q), whose square is T'WT
    pull = low @ (d * effects)
    inner = np.eye(len(low)) + (low * d) @ low.T
    statistic += float(d @ effects**2 - pull @ np.linalg.solve(inner, pull))
    df = test.df + max(1, round(apart_edf(self)))
    pvalue = float(stats.chi2.sf(statistic, df))
    return ExclusionTest((*test.columns, own[0].name), statistic, df, pvalue, test.offset)


def _shrunk_covariance(self: SelectionResults, cut: slice) -> Floats:
    """Covariance of the estimates around their means: V - VSV, penalties S, V = (H + S)^(-1)."""
    keep = self.model.estimated
    objective, inverse = self.model.objective(), covariance.invert(-self._hessian())
    if objective.smoothing is None:
        return inverse[cut, cut]
    whole = objective.smoothing[np.ix_(keep, keep)]
    shrunk: Floats = inverse - inverse @ whole @ inverse
    return shrunk[cut, cut]


def _collapsed(self: SelectionResults, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Names in which columns of one penalised term are that term."""
    term_of = {
        name: term.name
        for term in self.model.design.penalised
        if term.equation == "select"
        for name in term.names
    }
    return tuple(dict.fromkeys(term_of.get(name, name) for name in columns))


def _selection_apart(self: SelectionResults) -> tuple[Floats, Floats]:
    """Coefficients of the selection equation fitted apart, and their covariance."""
    p, apart = self.model.k_outcome, self._fit_info.independent
    gamma = apart.params[p:]
    if not apart.converged:
        return gamma, np.full((len(gamma), len(gamma)), np.nan)
    null = self.model.objective().with_form(single_form(self.model.link))
    at = null.evaluate(np.append(apart.params, 0.0), 2)
    assert at.hessian is not None
    return gamma, covariance.invert(-at.hessian[0].cpu().numpy()[p:-1, p:-1])


def test_independence(self: SelectionResults, method: str | None = None) -> IndependenceTest:
    """Test that selection is ignorable.

    Parameters
    ----------
    method : {"lr", "wald", "score"}, optional
        "lr" compares with the same model at rho = 0, "score" needs only the two equations
        fitted apart, "wald" is the estimate of athrho or the loading over its standard error.
        By default "lr"; with a robust covariance, a penalty or penalised terms "wald"; and
        "score" where neither rho nor the loading is estimated, where the fit is not at a maximum,
        and, robust, where sigma and rho are both estimated: athrho alone says nothing there.
    """
    robust = self.cov_type in covariance.ROBUST
    names = self.model.param_names
    estimated = names[-1] in ("athrho", "loading") and self.converged
    ridge = names[-2:] == ["lnsigma", "athrho"]
    if method is None:
        wald = robust or self._fit_info.penalty or self._has_terms
        method = "score" if not estimated or (wald and ridge) else "wald" if wald else "lr"
    if method not in ("lr", "wald", "score"):
        raise ValueError(f"method={method!r} is unknown; use 'lr', 'wald' or 'score'")
    # A rho or a loading that ran to its bound was estimated, though it is not among the
    # parameters.
    ends = (Status.RHO_PLUS, Status.RHO_MINUS, Status.LOADING_INFINITE, Status.FLAT)
    ran_off = self.status in ends
    if method != "score" and not estimated and not (method == "lr" and ran_off):
        raise ValueError(
            f"method={method!r} needs rho or the loading estimated at a maximum; use 'score'"
        )
    if method == "wald" and ridge:
        raise ValueError(
            "method='wald' says nothing where sigma and rho are both estimated: athrho is "
            "hardly identified apart from sigma; use 'lr' or 'score'"
        )
    if method == "lr":
        _check_likelihood(self, "method='lr'")
        return latent.likelihood_ratio(self.llf, self._ll_ignorable())
    if method == "score":
        return latent.score(
            _rows_apart(self),
            self._fit_info.independent,
            link=self.model.link,
            meat=partial(_score_meat, self) if robust else None,
        )
    variance = float(np.asarray(self.cov_params_default)[-1, -1])
    return latent.wald(float(np.asarray(self.params)[-1]), variance)


def _rows_apart(self: SelectionResults) -> Any:
    """The rows; effects of a factor that is no columns are offsets, as without dependence.

    Where they are in the outcome the score test is conservative: it is not projected on them.
    """
    rows, objective = self.model.rows, self.model.objective()
    apart = getattr(rows, "apart", None)
    if apart is None:
        return rows
    free = np.zeros(objective.n_params - objective.n_coef)
    effects = objective.effects(np.concatenate([self._fit_info.independent.params, free]))
    own = rows.level.new_tensor(effects.values, dtype=rows.X.dtype)[rows.level]
    name = "offset" if apart.equation == "outcome" else "offset_select"
    moved = {name: getattr(rows, name) + own}
    return replace(rows, apart=None, level=None, **moved)


def _ll_ignorable(self: SelectionResults) -> float:
    """Log-likelihood of the same model with rho = 0.

    Not always :attr:`llindep`: with sigma in the model the outcome's link at rho = 0 may be any
    from logit to probit, and a better link is no evidence of dependence.
    """
    kind, sigma, _ = self._asked()
    if kind == single_form(self.model.link).kind:
        return self.llindep

    def compute() -> float:
        if kind == "free" and sigma is not None:
            return self._maximum({"rho": 0.0, "sigma": sigma}).value
        probit = fit_independent(self.model.rows, link=PROBIT).value
        if kind == "probit":
            return probit
        objective = self.model.objective().with_form(FreeForm(self.model.integration))
        return latent.free_without_dependence(objective, self._fit_info.independent, probit)

    return self._once("ignorable", compute)  # outlives the data


def _maximum(self: SelectionResults, normalization: Any) -> Solution:
    """Return the maximum of the same data under another normalization."""
    return self.model.sibling(normalization).maximum(self._fit_info.independent)


def _score_meat(self: SelectionResults, theta: Any) -> Any:
    form = single_form(self.model.link)
    meat = self._meat(self.model.objective().with_form(form), theta, self.cov_type)
    assert meat is not None
    return meat.matrix


def _check_likelihood(self: SelectionResults, what: str) -> None:
    """Refuse what needs a maximised likelihood where there is none."""
    robust = self.cov_type in covariance.ROBUST
    if self._has_terms:
        raise ValueError(
            f"{what} compares maximised likelihoods, and re() and smooth() shrink their "
            "coefficients; use aic, penalised_terms() or test_independence('wald')"
        )
    if robust or self._fit_info.penalty or not self.converged:
        raise ValueError(
            f"{what} needs a likelihood at its maximum: not valid with a robust covariance, "
            "sampling weights, a penalty or a fit that stopped early; use 'wald' or 'score'"
        )


def compare_lr_test(self: SelectionResults, restricted: Any) -> tuple[float, float, int]:
    """Likelihood ratio test against ``restricted``, a smaller fit of the same rows.

    The degrees of freedom are the parameters of this model less those of the restricted one,
    as they were asked for: a maximum on a face has a parameter less, and its model has not.

    Parameters
    ----------
    restricted : results
        Of a special case of this model.

    Returns
    -------
    statistic, pvalue, df
    """
    _check_likelihood(self, "compare_lr_test")
    smaller = getattr(restricted, "_results", restricted)
    if not hasattr(smaller, "_fit_info"):
        raise ValueError(
            "restricted must be a fit of a selection model, got " + type(restricted).__name__
        )
    df = round(self.df_modelwc - smaller.df_modelwc)
    if df <= 0 or not _same_rows(self, smaller):
        raise ValueError("restricted must be a fit to the same observations with fewer parameters")
    _check_likelihood(smaller, "compare_lr_test: restricted")
    if _rows_known(self) and _rows_known(smaller) and not is_nested(smaller, self):
        raise ValueError(
            "restricted must be a special case of this model (columns of both equations among "
            "its own, and the same or a narrower normalization); vuong_test compares others"
        )
    statistic = 2.0 * (self.llf - smaller.llf)
    return statistic, float(stats.chi2.sf(statistic, df)), df


def score_test(self: SelectionResults, exog_extra: Any) -> tuple[float, float, int]:
    """Test whether columns that were left out belong in the outcome equation, without a refit.

    The score of their coefficients at zero, with the observed information.

    Parameters
    ----------
    exog_extra : array_like
        (n,) or (n, k) columns for the rows of the model, in their order.

    Returns
    -------
    statistic, pvalue, df
        As :meth:`compare_lr_test` of the larger model returns.
    """
    if self.cov_type in covariance.ROBUST or self._fit_info.penalty:
        raise ValueError(
            "score_test needs cov_type='nonrobust' and no penalty; fit with the columns in the "
            "formula and use wald_test"
        )
    _check_likelihood(self, "score_test")
    model = self.model
    refuse_partitioned(model.design, "score_test")
    model.check_rows_at_hand()
    design = model.design
    extra = np.asarray(exog_extra, dtype=float)
    extra = extra[:, None] if extra.ndim == 1 else extra
    if extra.ndim != 2 or len(extra) != len(design.X) or not np.isfinite(extra).all():
        raise ValueError(
            f"exog_extra must be finite columns for the {len(design.X)} rows of the model, got "
            f"shape {np.shape(exog_extra)}"
        )
    p, k = model.k_outcome, extra.shape[1]
    names = (*design.outcome_names, *(f"extra_{j}" for j in range(k)))
    larger = model.rebuilt(
        replace(design, X=np.column_stack([design.X, extra]), outcome_names=names)
    )
    at = np.insert(np.asarray(self.params, dtype=float), [p] * k, 0.0)
    tested = np.arange(p, p + k)
    score = np.asarray(larger.score(at))
    inverse = covariance.invert(-np.asarray(larger.hessian(at)))
    statistic = float(score[tested] @ inverse[np.ix_(tested, tested)] @ score[tested])
    return statistic, float(stats.chi2.sf(statistic, k)), k


def info_criteria(self: SelectionResults, crit: str, dk_params: float = 0) -> float:
    """AIC or BIC, with ``dk_params`` more parameters than the model has.

    Parameters
    ----------
    crit : {"aic", "bic"}
    dk_params : float
    """
    if crit not in ("aic", "bic"):
        raise ValueError(f"crit={crit!r} is unknown; use 'aic' or 'bic'")
    each = 2.0 if crit == "aic" else float(np.log(self.nobs))
    return float(getattr(self, crit)) + each * dk_params


def pred_table(self: SelectionResults, threshold: float = 0.5) -> Floats:
    """Count labelled rows by outcome (rows of the table) and prediction (columns), 0 before 1.

    The prediction is that P(y = 1 given s = 1) exceeds ``threshold``: labelled rows are compared
    with what the model says of labelled rows. Frequency weights count.
    """
    model = self.model
    refuse_partitioned(model.design, "pred_table")
    model.check_rows_at_hand()
    design = model.design
    seen = design.labelled
    said = np.asarray(self.predict(which="mean-selected"))[seen] > threshold
    weights = design.weights if design.weight_kind == "freq_weights" else None
    return np.histogram2d(
        design.y[seen], said, bins=2, range=[[0, 1], [0, 1]],
        weights=None if weights is None else weights[seen],
    )[0]  # fmt: skip


def _rows_known(self: SelectionResults) -> bool:
    return not self.model.in_partitions and self.model.design.nobs > 0


def _same_rows(self: SelectionResults, other: Any) -> bool:
    """Whether another fit has these labels on as many rows, as far as is known."""
    if other.nobs != self.nobs or other.nobs_selected != self.nobs_selected:
        return False
    if not (_rows_known(self) and _rows_known(other)):
        return True
    one, two = self.model.design, other.model.design
    return one.nobs == two.nobs and np.array_equal(one.y, two.y, equal_nan=True)


def wald_test_terms(
    self: SelectionResults,
    skip_single: bool = False,
    extra_constraints: Any = None,
    combine_terms: Any = None,
    scalar: bool = True,
) -> WaldTestResults:
    """Joint Wald tests of the terms of both equations.

    Terms of the selection equation have the prefix ``select_``. Those that are penalised are not
    among them; see :meth:`penalised_terms`.

    Parameters
    ----------
    skip_single : bool
        Leave out terms of one column.
    extra_constraints : list of (str, array), optional
        More hypotheses, each with its name.
    combine_terms : list of str, optional
        Test jointly the terms whose name contains the string.
    scalar : bool
        Statistics as numbers, not as arrays.
    """
    identity = np.eye(len(self.params))
    constraints = [
        (name, identity[columns])
        for name, columns in _terms(self).items()
        if not (skip_single and len(identity[columns]) == 1)
    ]
    for part in combine_terms or []:
        matching = [identity[cols] for name, cols in _terms(self).items() if part in name]
        if not matching:
            raise ValueError(f"combine_terms: no term contains {part!r}")
        constraints.append((part, np.vstack(matching)))
    constraints += list(extra_constraints or [])
    tests = [self.wald_test(constraint, scalar=scalar) for _, constraint in constraints]
    table = pd.DataFrame(
        [[test.statistic, test.pvalue, int(test.df_denom)] for test in tests],
        index=[name for name, _ in constraints],  # a combination may have a term's name
        columns=["statistic", "pvalue", "df_constraint"],
    )
    return WaldTestResults(None, "chi2", None, table=table)


def _terms(self: SelectionResults) -> dict[str, slice]:
    design, p = self.model.design, self.model.k_outcome
    shrunk = {name for term in design.penalised for name in term.names}
    terms: dict[str, slice] = {}
    if design.outcome_spec is not None:
        terms |= design.outcome_spec.term_slices
    else:
        terms |= {
            name: slice(i, i + 1)
            for i, name in enumerate(design.outcome_names)
            if name not in shrunk
        }
    select = (
        design.select_spec.term_slices
        if design.select_spec is not None
        else {n: slice(i, i + 1) for i, n in enumerate(design.select_names) if n not in shrunk}
    )
    for name, cut in select.items():
        terms[f"select_{name}"] = slice(p + cut.start, p + cut.stop)
    return terms


# -- the dependence of the outcome on selection ----------------------------------------------------


def sigma(self: SelectionResults) -> float:
    """Size of the error that outcome and selection share."""
    at: Dependence = self._dependence
    return at.sigma


def rho(self: SelectionResults) -> float:
    """Correlation of the error of size sigma with the selection error."""
    at: Dependence = self._dependence
    return at.rho


def error_corr(self: SelectionResults) -> float:
    """Correlation of the latent errors of outcome and selection."""
    at: Dependence = self._dependence
    return at.error_corr


def dependence(self: SelectionResults) -> pd.DataFrame:
    """sigma, rho and the error correlation with 95% intervals."""
    return self.dependence_table()


def dependence_table(
    self: SelectionResults, alpha: float = 0.05, *, interval: str | None = None
) -> pd.DataFrame:
    """sigma, rho and the error correlation with intervals at level 1 - ``alpha``.

    Parameters
    ----------
    alpha : float
    interval : {"wald", "profile"}, optional
        As in :meth:`get_prediction`: "profile" is the smallest interval that holds every value
        which a likelihood ratio test accepts.
    """
    check_alpha(alpha)
    free = self._form.free
    cov = np.zeros((len(free), len(free)))
    n_coef = self.model.k_outcome + self.model.k_select
    cov[np.ix_(free, free)] = np.asarray(self.cov_params_default)[n_coef:, n_coef:]
    table = latent.dependence_table(self._form.form, self._dependence_values(), cov, free, alpha)
    if self._form.kind == "probit" and self.model.link is not PROBIT:
        limit = pd.DataFrame(
            [[np.inf, np.nan, np.nan, np.nan]], index=["sigma"], columns=table.columns
        )
        table = pd.concat([limit, table, table.set_axis(["error_corr"], axis=0)])
    if self._by_profile(interval):
        for name, (low, high) in self._profile_ends(alpha).items():
            if name in table.index:
                table.loc[name, table.columns[2:]] = low, high
    return table


def _dependence(self: SelectionResults) -> Dependence:
    return self._form.form.dependence(self._dependence_values())


def _dependence_values(self: SelectionResults) -> Floats:
    n_coef = self.model.k_outcome + self.model.k_select
    return self._form.values(np.asarray(self.params)[n_coef:])


def _profile_ends(self: SelectionResults, alpha: float) -> dict[str, tuple[float, float]]:
    """Ends of the profile sets of the dependence, by name."""
    across = self._across()
    pieces = across.pieces(alpha)
    own = single_form(self.model.link).corr_name
    ends = {own: (pieces[0][0], pieces[-1][1])}
    if self._form.kind == "probit":
        ends["rho"] = ends[own]
    elif self._asked() == ("loading", None, None):
        loading = across.ranges(across.rho * across.sigma, (-np.inf, np.inf), alpha)
        sizes = np.abs([end for piece in loading for end in piece])
        zero = any(low <= 0.0 <= high for low, high in loading)
        ends["sigma"] = (0.0 if zero else float(sizes.min()), float(sizes.max()))
    return ends


def _two_dependence_parameters(self: SelectionResults) -> bool:
    """Whether sigma and rho were both to be estimated, wherever the maximum turned out."""
    return self._asked() == ("free", None, None)


# -- what the data say little about ----------------------------------------------------------------


def weak(self: SelectionResults) -> tuple[str, ...]:
    """Why the data say little about the dependence, in words; empty where they say enough.

    Intervals are then made by "profile" (see :meth:`get_prediction`): the union over the error
    correlations that the likelihood supports.
    """
    return self._once("weak", lambda: intervals.reasons(self))


def _weakness(self: SelectionResults) -> str | None:
    """Return what to say where sigma and rho are not identified separately inside the model."""
    both = self.model.param_names[-2:] == ["lnsigma", "athrho"]
    if not both or not self.status.converged:
        return None
    error = self.bse[-2]
    correlation = self.identification.correlation
    if correlation is None or (error < 1.0 and abs(correlation) < 0.99):
        return None
    return (
        f"sigma and rho are not identified separately by these data: SE(lnsigma) = {error:.2f}, "
        f"corr(lnsigma, athrho) = {correlation:.4f}. They do identify the error "
        f"correlation ({self.error_corr:.3f}) and the probabilities. Report those, or fix the "
        f"scale with normalization={self._scale_remedy()}."
    )


def warn_about(results: SelectionResults) -> None:
    """Say what a user must know before reading a number."""
    solution = results.solution
    if solution.status in (Status.MAXITER, Status.STALLED, Status.NONFINITE, Status.SINGULAR):
        free = results.model.normalization == "free"
        simpler = ", or a simpler normalization such as 'loading'" if free else ""
        warn(
            f"{solution.status.value}. Scaled score {solution.score_norm:.1e} after "
            f"{solution.n_iter} iterations. Try other start_params, a larger maxiter, a ridge "
            f"penalty{simpler}.{nearly_collinear(results.model.design.sketch)}",
            ConvergenceWarning,
        )
    penalties = results._fit_info.penalties
    if penalties is not None and not penalties.converged and results.converged:
        warn(
            f"penalties of re() and smooth() were not settled in {penalties.n_updates} updates: "
            "the marginal likelihood still rises. Fix one of them (sd=, penalty=), or drop a term.",
            ConvergenceWarning,
        )
    if solution.status is Status.FLAT:
        warn(
            f"{solution.status.value}. It is held at an error correlation of "
            f"{results.error_corr:.3f}; look at others with sensitivity(error_corr=...).",
            WeakIdentificationWarning,
        )
    coarse = results.accuracy.note if results.accuracy is not None else None
    if coarse is not None:
        warn(coarse, IntegrationAccuracyWarning)
    for message in (results._weakness, results._doubt()):
        if message is not None:
            warn(message, WeakIdentificationWarning)


def maxima(self: SelectionResults) -> pd.DataFrame:
    """The distinct maxima of the likelihood that were found, that of the fit first.

    Columns: ``loglik``, ``lr`` (twice its distance to the fit's), ``error_corr``, ``sigma``,
    ``rho``, ``prevalence`` and ``status``.
    """
    return intervals.maxima(self)


def _doubt(self: SelectionResults) -> str | None:
    """What to warn of at once, where the maximum is a corner or has a rival."""
    return intervals.doubt(self)


def _scale_remedy(self: SelectionResults) -> str:
    """Normalizations that could hold the error correlation found."""
    # With sigma = 1 it cannot exceed 0.483.
    return "'loading'" + (" or {'sigma': 1.0}" if abs(self.error_corr) < 0.45 else "")


def _by_profile(self: SelectionResults, interval: str | None, *, automatic: bool = True) -> bool:
    """Whether intervals are made from refits over the error correlations."""
    if interval not in (None, "wald", "profile"):
        raise ValueError(f"interval={interval!r} is unknown; use 'wald' or 'profile'")
    if interval is not None:
        return interval == "profile"
    if isinstance(self.model.design, SavedDesign):  # what the fit did
        at_hand = "across" in self.__dict__.get("_summary_statistics_cache", {})
    else:
        at_hand = self.nobs <= intervals.MOST_ROWS
    return automatic and at_hand and (bool(self.weak) or self._skewed())


def _skewed(self: SelectionResults) -> bool:
    return self._once("skewed", lambda: intervals.skewed(self))


def _across(self: SelectionResults) -> Across:
    return self._once("across", lambda: intervals.across(self))


def _across_members(self: SelectionResults) -> tuple[Across, list[Any]]:
    """A few error correlations that may be supported, and results given each."""
    few = self._across().thin()
    return few, intervals.members(self, few)


def _dependence_across(self: SelectionResults) -> list[tuple[Floats, tuple[float, float]]]:
    """The dependence parameter that is estimated, if one is: its values and its limits."""
    across, everywhere = self._across(), (-np.inf, np.inf)
    known: dict[str, Callable[[], Floats]] = {
        "loading": lambda: across.rho * across.sigma,
        "athrho": lambda: np.arctanh(np.clip(across.rho, -1 + 1e-15, 1 - 1e-15)),
        "lnsigma": lambda: np.log(np.clip(across.sigma, 1e-300, 1e300)),
    }
    return [(known[name](), everywhere) for name in self.model.parametrized.names]


def _check_profile(self: SelectionResults) -> None:
    """Refuse where a likelihood ratio has no meaning."""
    reason = self._profile_refusal()
    if reason is not None:
        raise ValueError(f"profile() inverts a likelihood ratio test, but {reason}")
    self.model.check_rows_at_hand()


def _profile_refusal(self: SelectionResults) -> str | None:
    reason = self._likelihood_refusal()
    if reason is None and not self.converged:
        reason = f"the fit is not at a maximum ({self.status.value}); use method='newton'"
    return reason


def _likelihood_refusal(self: SelectionResults) -> str | None:
    """Why ratios of this likelihood are no test; None where they are."""
    reason = None
    if not self._is_likelihood:
        reason = "BiasCorr's objective is not a likelihood; use bootstrap() for intervals"
    elif self._sampling:
        reason = "sampling weights make it a pseudo-likelihood; use conf_int()"
    elif self.cov_type in covariance.ROBUST:
        reason = (
            f"cov_type={self.cov_type!r} says that the likelihood is not trusted; use "
            "conf_int(), or get_robustcov_results('nonrobust').profile()"
        )
    elif self._fit_info.penalty:
        reason = "the fit is penalised; fit with penalty=0.0"
    elif self._has_terms and self._asked()[0] == "free":
        reason = (
            "the penalties of re() and smooth() hold in units that change with sigma; use "
            "normalization='loading'"
        )
    return reason


def _closed(self: SelectionResults) -> Closed:
    """The model that was asked for with its faces, and the estimates in it."""
    n_coef = self.model.k_outcome + self.model.k_select
    kind, sigma, rho = self._asked()
    return Closed(
        kind=kind,
        sigma=sigma,
        rho=rho,
        objective=self.model.objective(),
        integration=self.model.integration,
        names=tuple(self.model.param_names[:n_coef]),
        coef=np.asarray(self.params, dtype=float)[:n_coef],
        errors=np.sqrt(np.diag(covariance.invert(-self._hessian()[:n_coef, :n_coef]))),
        units="probit" if self._form.kind == "probit" else "logit",
        at=self._dependence,
        link=self.model.link,
    )


def _asked(self: SelectionResults) -> tuple[str, float | None, float | None]:
    """Form, fixed sigma and fixed rho of the model before its maximum turned out on a face."""
    asked, model = self._fit_info.asked, self.model
    given = model.normalization if asked is None else asked
    kind = model.parametrize(given, model.integration).kind
    if isinstance(given, Mapping):
        return kind, np.inf if kind == "probit" else given.get("sigma"), given.get("rho")
    return (kind, 0.0, 1.0) if given == "independent" else (kind, None, None)
