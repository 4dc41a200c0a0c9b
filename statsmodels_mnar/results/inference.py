"""Inference on the dependence: its instrument, test and tables, and intervals that hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.tools.sm_exceptions import ConvergenceWarning

from ..design import find_excluded
from ..design.checks import nearly_collinear
from ..design.chunks import SavedDesign
from ..errors import AbsentError, IntegrationAccuracyWarning, WeakIdentificationWarning, warn
from ..kernel.forms import Dependence, single_form
from ..kernel.integration import Quadrature
from ..kernel.links import PROBIT
from ..kernel.rows import Apart, Rows
from ..optimize.binary import fit_independent
from ..optimize.solution import Solution, Status
from ..post import covariance
from ..post import dependence as latent
from ..post.covariance import Covariance
from ..post.dependence import ExclusionTest, IndependenceTest
from ..post.intervals import Across, bartlett_factor
from ..post.paths import EVERYWHERE, Closed, Curve
from ..post.profile import trace
from ..tools import check_alpha
from ..types import Floats
from .shrinkage import apart_edf

if TYPE_CHECKING:
    from .fitted import SelectionResults


def instrument(self: SelectionResults) -> ExclusionTest:
    """Strength of the variables that only the selection equation has; print it.

    A joint Wald test of their coefficients, from the fit and its covariance alone. Its
    ``verdict`` is "strong", "weak" (less than 10 per degree of freedom; a penalised term counts
    as one variable), "none" or "unknown".
    Where the fit has no covariance, the test is that of the selection equation fitted apart.
    """
    return self._once("instrument", self._instrument)  # outlives the data


def _instrument(self: SelectionResults) -> ExclusionTest:
    design = self.model.design.counted
    if design.nobs == 0 or isinstance(design, SavedDesign):
        return ExclusionTest((), np.nan, 0, np.nan, known=False)
    found = find_excluded(design.sketch)
    select = slice(self.model.k_outcome, self.model.n_coef)
    gamma = np.asarray(self.params)[select]
    cov = np.asarray(self.cov_params_default)[select, select]
    if not np.isfinite(cov).all() and self._is_likelihood:
        gamma, cov = _selection_apart(self)
    shrunk = _shrunk_covariance(self, select) if self._has_terms else None
    test = latent.exclusion(
        _collapsed(self, found.columns), found.directions, gamma, cov, offset=found.offset,
        sampling=shrunk,
    )  # fmt: skip
    if np.isnan(test.statistic) and test.df and within_one_cluster(self):
        test = replace(test, why="clustered errors do not hold for levels within one cluster")
    return _with_levels(self, test, found.directions)


def within_one_cluster(results: SelectionResults) -> list[str]:
    """The columns of both designs, such as levels of the groups, that one cluster alone has.

    Their scores sum to zero in that cluster and are zero in the others, so that a covariance of
    clusters takes them for known. Empty where the rows are not in memory.
    """
    return results._once("within_one_cluster", lambda: _within_one_cluster(results))


def _within_one_cluster(results: SelectionResults) -> list[str]:
    design = results.model.design
    found = []
    if not results._groups or isinstance(design, SavedDesign):
        return []
    for names, columns in ((design.outcome_names, design.X), (design.select_names, design.W)):
        for name, column in zip(names, columns.T, strict=True):
            rows = np.flatnonzero(column)
            if len(rows) and any((way[rows] == way[rows[0]]).all() for way in results._groups):
                found.append(name)
    return list(dict.fromkeys(found))


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
        check_likelihood(self, "method='lr'")
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
    if rows.apart is None:
        return rows
    free = np.zeros(objective.n_params - objective.n_coef)
    effects = objective.effects(np.concatenate([self._fit_info.independent.params, free]))
    moved = rows.derive(_moved, rows.apart, effects.values)
    return replace(moved, smoothing=rows.smoothing, adjustment=rows.adjustment, apart=None)


def _moved(rows: Rows, apart: Apart, effects: Floats) -> Rows:
    """The rows with the effects of their levels as offsets."""
    assert rows.level is not None
    name = "offset" if apart.equation == "outcome" else "offset_select"
    own = rows.X.new_tensor(effects)[rows.level]
    changed: Any = {name: getattr(rows, name) + own}
    return replace(rows, apart=None, level=None, **changed)


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
        model = self.model
        return latent.free_without_dependence(
            model.objective(), model.integration, self._fit_info.independent, probit
        )

    return self._once("ignorable", compute)  # outlives the data


def _maximum(self: SelectionResults, normalization: Any) -> Solution:
    """Return the maximum of the same data under another normalization."""
    return self.model.sibling(normalization).maximum(self._fit_info.independent)


def _score_meat(self: SelectionResults, theta: Any) -> Any:
    form = single_form(self.model.link)
    meat = self._meat(self.model.objective().with_form(form), theta, self.cov_type)
    assert meat is not None
    return meat.matrix


def check_likelihood(self: SelectionResults, what: str) -> None:
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
    n_coef = self.model.n_coef
    cov[np.ix_(free, free)] = np.asarray(self.cov_params_default)[n_coef:, n_coef:]
    table = latent.dependence_table(self._form.form, self._dependence_values(), cov, free, alpha)
    if self._form.kind == "probit" and self.model.link is not PROBIT:
        limit = pd.DataFrame(
            [[np.inf, np.nan, np.nan, np.nan]], index=["sigma"], columns=table.columns
        )
        table = pd.concat([limit, table, table.set_axis(["error_corr"], axis=0)])
    if self._by_profile(interval):
        for name, (low, high) in _profile_ends(self, alpha).items():
            if name in table.index:
                table.loc[name, table.columns[2:]] = low, high
    return table


def _dependence(self: SelectionResults) -> Dependence:
    return self._form.form.dependence(self._dependence_values())


def _dependence_values(self: SelectionResults) -> Floats:
    n_coef = self.model.n_coef
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
        loading = across.ranges(across.rho * across.sigma, EVERYWHERE, alpha)
        sizes = np.abs([end for piece in loading for end in piece])
        zero = any(low <= 0.0 <= high for low, high in loading)
        ends["sigma"] = (0.0 if zero else float(sizes.min()), float(sizes.max()))
    return ends


def _two_dependence_parameters(self: SelectionResults) -> bool:
    """Whether sigma and rho were both to be estimated, wherever the maximum turned out."""
    return self._asked() == ("free", None, None)


# -- whether Wald's intervals hold -----------------------------------------------------------------


FEW = 600  # labelled rows below which a profile is worth having, whatever the likelihood's shape
_CORNER = 0.999  # an error correlation beyond which the errors are one
_SURE = 0.1  # standard error of atanh(error_corr) below which the likelihood is a parabola
_ROOTS = (0.9, 1.1)  # root of the likelihood ratio at Wald's ends, over what a parabola has there
_MOST_ROWS = 200_000  # up to which refits are made without being asked for
_CUT = float(stats.chi2.ppf(0.95, 1))
# Of the profile around the estimate: the union of a weak fit, which is looked at over its whole
# range too, is decided by the ends of the set, a profile likelihood by its middle.
_POINTS_WEAK, _POINTS = 5, 13


def weak(self: SelectionResults) -> tuple[str, ...]:
    """Why the data say little about the dependence, in words; empty where they say enough.

    Of a fit that is at a maximum of a likelihood with one error correlation to estimate: it lies at
    a corner; another maximum is within the 95% cut; or the instrument is weak or absent. Intervals
    are then made by "profile" (see :meth:`get_prediction`): the union over the error correlations
    that the likelihood supports.
    """
    return self._once("weak", partial(_reasons, self))


def _reasons(self: SelectionResults) -> tuple[str, ...]:
    if not _judged(self):
        return ()
    found = []
    if self.status is Status.FLAT:
        found.append("the likelihood is flat in the dependence")
    if abs(self.error_corr) > _CORNER:
        found.append("the errors are perfectly correlated at the maximum")
    if _rivals(self):
        found.append("another maximum is about as likely (see maxima)")
    verdict = self.instrument.verdict
    if verdict in ("weak", "none"):
        found.append("the instrument is weak" if verdict == "weak" else "there is no instrument")
    return tuple(found)


def _skewed(self: SelectionResults) -> bool:
    """Whether Wald's intervals are not to be trusted, weak fit or not.

    That is where the likelihood at the ends of Wald's interval of error_corr is not a parabola's.
    With few labels the intervals are not left to this check: a likelihood that happens to be a
    parabola around its maximum has its maximum far from the truth more often than Wald's allow.
    """
    return self._once("skewed", lambda: _judged(self) and not _parabola(self))


def _by_profile(self: SelectionResults, interval: str | None, *, automatic: bool = True) -> bool:
    """Whether intervals are made from refits over the error correlations."""
    if interval not in (None, "wald", "profile"):
        raise ValueError(f"interval={interval!r} is unknown; use 'wald' or 'profile'")
    if interval is not None:
        return interval == "profile"
    if isinstance(self.model.design, SavedDesign):  # what the fit did
        at_hand = "across" in self.__dict__.get("_summary_statistics_cache", {})
    else:
        at_hand = self.nobs <= _MOST_ROWS
    return automatic and at_hand and (bool(self.weak) or self._skewed())


def _judged(self: SelectionResults) -> bool:
    """Whether the fit is at a maximum of a likelihood, with an error correlation to estimate."""
    return self._profile_refusal() is None and _estimated(self)


def _estimated(self: SelectionResults) -> bool:
    """Whether the data are there and the error correlation is not fixed."""
    model = self.model
    if hasattr(self, "results_constrained"):  # zeros of a larger model, which was not fitted
        return False
    if not model.rows_at_hand():
        return False
    return "error_corr" in self._closed().dependence_names()


def _rivals(self: SelectionResults) -> list[tuple[Any, Any]]:
    """Other maxima within the cut of a likelihood ratio test."""
    top = self.solution.value
    return [pair for pair in self._fit_info.maxima[1:] if 2 * (top - pair[1].value) < _CUT]


def _parabola(self: SelectionResults) -> bool:
    """Whether the likelihood ratio at the ends of Wald's interval is about that of the interval."""
    table = self.dependence_table(0.05, interval="wald")
    row = table.loc["error_corr" if "error_corr" in table.index else "rho"].to_numpy(dtype=float)
    se = row[1] / (1.0 - row[0] ** 2)
    if not np.isfinite(row).all():
        return False
    if se < _SURE:
        return True
    if self.nobs_selected < FEW:
        return False
    path = _finely_closed(self).path("error_corr")
    ends = np.array([path.inverse(float(value)) for value in row[2:]])
    ends = np.clip(ends, *path.range)
    points = Curve(path).fit(ends)
    top = max(self._top, *(point.solution.value for point in points))
    roots = [
        math.sqrt(2.0 * max(top - p.solution.value, 0.0)) / stats.norm.ppf(0.975) for p in points
    ]
    return all(_ROOTS[0] <= root <= _ROOTS[1] for root in roots)


# -- refits over the error correlations where they do not ------------------------------------------


def _across(self: SelectionResults) -> Across:
    """Refits with the error correlation held, over the values that may be supported."""
    return self._once("across", partial(_refitted_across, self))


def _refitted_across(self: SelectionResults) -> Across:
    self._check_profile()
    path = _finely_closed(self).path("error_corr")
    factor, weak = widened(self), bool(self.weak)
    # A fit that is not weak has no other hump near the cut: the search would have met it.
    traced = trace(
        path,
        self._top,
        points=_POINTS_WEAK if weak else _POINTS,
        whole=weak,
        widened=factor,
    )
    if weak and factor > 1.0:  # the union ends where the plain set does
        traced.refine(_CUT)
    return Across.of(traced, conservative=weak, widened=factor)


def widened(self: SelectionResults) -> float:
    """Return what the chi-squared quantile is multiplied by in sets of the dependence."""
    if not (self.weak or self._skewed()):
        return 1.0
    return bartlett_factor(self.nobs_selected)


def _across_members(self: SelectionResults) -> tuple[Across, list[SelectionResults]]:
    """A few error correlations that may be supported, and results given each."""
    few = self._across().thin()
    held = zip(few.sigma.tolist(), few.rho.tolist(), few.coef, few.cov, strict=True)
    return few, [_given(self, *each) for each in held]


def _given(
    self: SelectionResults, sigma: float, rho: float, coef: Floats, cov: Floats
) -> SelectionResults:
    """Results with the dependence fixed, from the coefficients there and their covariance."""
    model = self.model.holding({"sigma": sigma, "rho": rho} if sigma else "independent")
    params = np.append(coef, model.parametrized.values(np.empty(0)))
    solution = replace(
        self.solution,
        params=params,
        hessian=np.zeros((len(params), len(params))),
        status=Status.CONVERGED,
    )
    fit = replace(self._fit_info, model=model, solution=solution, asked=None, maxima=(), climbs=())
    held = Covariance(cov, "nonrobust", "inverse of the observed information, given error_corr")
    return type(self)._restored(fit, held, {})


def _dependence_across(self: SelectionResults) -> list[Floats]:
    """Values of the dependence parameter that is estimated, if one is, at each of the refits."""
    across = self._across()
    known: dict[str, Callable[[], Floats]] = {
        "loading": lambda: across.rho * across.sigma,
        "athrho": lambda: np.arctanh(np.clip(across.rho, -1 + 1e-15, 1 - 1e-15)),
        "lnsigma": lambda: np.log(np.clip(across.sigma, 1e-300, 1e300)),
    }
    return [known[name]() for name in self.model.parametrized.names]


def maxima(self: SelectionResults) -> pd.DataFrame:
    """The distinct maxima of the likelihood that were found, that of the fit first.

    Columns: ``loglik``, ``lr`` (twice its distance to the fit's), ``error_corr``, ``sigma``,
    ``rho``, ``prevalence`` and ``status``.
    """
    rows = []
    for model, solution in self._fit_info.maxima or ((self.model, self.solution),):
        spec = model.parametrized
        at = spec.form.dependence(solution.params[model.n_coef :])
        fit = replace(self._fit_info, model=model, solution=solution, maxima=(), climbs=())
        size = int(model.estimated.sum())
        unknown = Covariance(np.full((size, size), np.nan), "nonrobust", "none")
        there = type(self)._restored(fit, unknown, {})
        prevalence = there.get_prediction(average=True, interval="wald").predicted[0]
        rows.append(
            {
                "loglik": solution.value,
                "lr": 2.0 * (self.solution.value - solution.value),
                "error_corr": at.error_corr,
                "sigma": at.sigma,
                "rho": at.rho,
                "prevalence": prevalence,
                "status": solution.status.name.lower(),
            }
        )
    return pd.DataFrame(rows)


def multistart(self: SelectionResults) -> pd.DataFrame:
    """Where the search for the maximum climbed from, and where each climb led.

    One row for each, the best first, by the error correlation; ``fit(n_starts=50)`` tries that
    many values of the dependence. :attr:`maxima` shows the distinct ends.
    """
    rows = [
        {
            "start_error_corr": climb.start,
            "error_corr": climb.end,
            "llf": climb.value,
            "status": climb.status.name.lower(),
            "iterations": climb.n_iter,
        }
        for climb in self._fit_info.climbs
    ]
    if not rows:
        raise AbsentError("multistart needs method='newton' and no start_params")
    return pd.DataFrame(rows).sort_values("llf", ascending=False, ignore_index=True)


# -- what a user must know before reading a number -------------------------------------------------


def warn_about(results: SelectionResults) -> None:
    """Say what a user must know before reading a number."""
    solution = results.solution
    if solution.status in (Status.MAXITER, Status.STALLED, Status.NONFINITE, Status.SINGULAR):
        remedy = "or a ridge penalty"
        if results.model.normalization == "free":
            remedy = "a ridge penalty, or a simpler normalization such as 'loading'"
        warn(
            f"{solution.status.value}. Scaled score {solution.score_norm:.1e} after "
            f"{solution.n_iter} iterations. Try other start_params, a larger maxiter, {remedy}."
            f"{nearly_collinear(results.model.design.sketch)}",
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
    for message in (results._scale_note, _doubt(results)):
        if message is not None:
            warn(message, WeakIdentificationWarning)


def _scale_note(self: SelectionResults) -> str | None:
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


def _scale_remedy(self: SelectionResults) -> str:
    """Normalizations that could hold the error correlation found."""
    # With sigma = 1 it cannot exceed 0.483.
    return "'loading'" + (" or {'sigma': 1.0}" if abs(self.error_corr) < 0.45 else "")


def _doubt(results: SelectionResults) -> str | None:
    """What to warn of at once: a maximum at a corner, or one with a rival."""
    if not results._is_likelihood or not results.converged or results.status is Status.FLAT:
        return None
    if abs(results.error_corr) > _CORNER and results.status.boundary:
        return (
            "the likelihood is largest where the errors of outcome and selection are perfectly "
            f"correlated (error_corr = {results.error_corr:+.3f}), which usually means that the "
            "data say little about the dependence. Report the intervals of get_prediction() and "
            "get_margeff(), which take that into account, and see sensitivity()."
        )
    rivals = _rivals(results)
    if rivals:
        model, other = rivals[0]
        values = other.params[model.n_coef :]
        there = model.parametrized.form.dependence(values).error_corr
        return (
            f"the likelihood has another maximum at error_corr = {there:+.2f} (this fit: "
            f"{results.error_corr:+.2f}) with a log-likelihood only "
            f"{results.solution.value - other.value:.2f} lower: the data do not distinguish them. "
            "See results.maxima, and report intervals, which span both."
        )
    return None


# -- profiles, and the form that was asked for -----------------------------------------------------


def _check_profile(self: SelectionResults) -> None:
    """Refuse where a likelihood ratio has no meaning."""
    reason = self._profile_refusal()
    if reason is not None:
        raise ValueError(f"profile() inverts a likelihood ratio test, but {reason}")
    self.model.check_rows_at_hand()


def _profile_refusal(self: SelectionResults) -> str | None:
    """Why there are no profiles; None where there are."""
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
    n_coef = self.model.n_coef
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


def _finely_closed(self: SelectionResults) -> Closed:
    """The closed model, integrated as finely as a likelihood ratio needs."""
    closed = self._closed()
    rule = closed.integration
    if not isinstance(rule, Quadrature) or rule != rule.controlled():
        return closed
    enough = min(max(1e-3 / self.nobs, rule.tol), 1e-6)
    return replace(closed, integration=replace(rule, tol=max(rule.tol, enough)))


def _asked(self: SelectionResults) -> tuple[str, float | None, float | None]:
    """Form, fixed sigma and fixed rho of the model before its maximum turned out on a face."""
    asked, model = self._fit_info.asked, self.model
    given = model.normalization if asked is None else asked
    kind = model.parametrize(given, model.integration).kind
    if isinstance(given, Mapping):
        return kind, np.inf if kind == "probit" else given.get("sigma"), given.get("rho")
    return (kind, 0.0, 1.0) if given == "independent" else (kind, None, None)
