"""Whether Wald intervals hold, and refits over the error correlations where they do not."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from ..inference.across import FARTHEST, Across
from ..inference.covariance import Covariance, invert
from ..inference.curve import Curve, Point
from ..inference.dependence import dependence
from ..inference.paths import Closed
from ..inference.profile import Traced, trace
from ..kernel.forms import CorrelationForm, outcome_scale
from ..kernel.integration import Quadrature
from ..optimize.solution import Status

Floats = NDArray[np.float64]

CORNER = 0.999  # an error correlation beyond which the errors are one
SURE = 0.1  # standard error of atanh(error_corr) below which the likelihood is a parabola
ROOTS = (0.9, 1.1)  # root of the likelihood ratio at Wald's ends, over what a parabola has there
MOST_ROWS = 200_000  # up to which refits are made without being asked for
_CUT = float(chi2.ppf(0.95, 1))
# Of the profile around the estimate, besides those over its whole range: the union of a weak fit is
# decided by the ends of the set, a profile likelihood by its middle.
_POINTS_WEAK, _POINTS = 5, 9


def reasons(results: Any) -> tuple[str, ...]:
    """Why the data say little about the dependence; empty where they do not.

    Of a fit that is at a maximum of a likelihood with one error correlation to estimate: it lies at
    a corner; another maximum is within the 95% cut; or the instrument is weak or absent.
    """
    if not _judged(results):
        return ()
    found = []
    if results.status is Status.FLAT:
        found.append("the likelihood is flat in the dependence")
    if abs(results.error_corr) > CORNER:
        found.append("the errors are perfectly correlated at the maximum")
    if _rivals(results):
        found.append("another maximum is about as likely (see maxima)")
    verdict = results.instrument.verdict
    if verdict in ("weak", "none"):
        found.append("the instrument is weak" if verdict == "weak" else "there is no instrument")
    return tuple(found)


def skewed(results: Any) -> bool:
    """Whether the likelihood at the ends of Wald's interval of error_corr is not a parabola's."""
    return _judged(results) and not _parabola(results)


def _judged(results: Any) -> bool:
    return results._profile_refusal() is None and _estimated(results)


def _rivals(results: Any) -> list[tuple[Any, Any]]:
    """Other maxima within the cut of a likelihood ratio test."""
    top = results.solution.value
    return [pair for pair in results.fit_info.maxima[1:] if 2 * (top - pair[1].value) < _CUT]


def doubt(results: Any) -> str | None:
    """What to warn of at once: a maximum at a corner, or one with a rival."""
    if not results._is_likelihood or not results.converged or results.status is Status.FLAT:
        return None
    if abs(results.error_corr) > CORNER and results.status.boundary:
        return (
            "the likelihood is largest where the errors of outcome and selection are perfectly "
            f"correlated (error_corr = {results.error_corr:+.3f}), which usually means that the "
            "data say little about the dependence. Report the intervals of get_prediction() and "
            "get_margeff(), which take that into account, and see sensitivity()."
        )
    rivals = _rivals(results)
    if rivals:
        model, other = rivals[0]
        values = other.params[model.k_outcome + model.k_select :]
        there = dependence(model._parametrized.kind, values).error_corr
        return (
            f"the likelihood has another maximum at error_corr = {there:+.2f} (this fit: "
            f"{results.error_corr:+.2f}) with a log-likelihood only "
            f"{results.solution.value - other.value:.2f} lower: the data do not tell them apart. "
            "See results.maxima, and report intervals, which span both."
        )
    return None


def _estimated(results: Any) -> bool:
    """Whether the data are there and the error correlation is not fixed."""
    model = results.model
    if hasattr(results, "results_constrained"):  # zeros of a larger model, which was not fitted
        return False
    if model.design.nobs == 0 or (model._in_partitions and model._rows is None):
        return False
    return "error_corr" in results._closed().dependence_names()


def _parabola(results: Any) -> bool:
    """Whether the likelihood ratio at the ends of Wald's interval is about that of the interval."""
    table = results.dependence_table(0.05, interval="wald")
    row = table.loc["error_corr" if "error_corr" in table.index else "rho"].to_numpy(dtype=float)
    se = row[1] / (1.0 - row[0] ** 2)
    if not np.isfinite(row).all():
        return False
    if se < SURE:
        return True
    path = _closed(results).path("error_corr")
    ends = np.array([path.inverse(float(value)) for value in row[2:]])
    ends = np.clip(ends, *path.range)
    points = Curve(path).fit(ends)
    top = max(results.llf, *(point.solution.value for point in points))
    roots = [math.sqrt(2.0 * max(top - p.solution.value, 0.0)) / norm.ppf(0.975) for p in points]
    return all(ROOTS[0] <= root <= ROOTS[1] for root in roots)


def _closed(results: Any) -> Closed:
    """The closed model, integrated as finely as a likelihood ratio needs."""
    closed = results._closed()
    rule = closed.integration
    if not isinstance(rule, Quadrature) or rule != rule.controlled():
        return closed
    enough = min(max(1e-3 / results.nobs, rule.tol), 1e-6)
    return replace(closed, integration=replace(rule, tol=max(rule.tol, enough)))


def across(results: Any) -> Across:
    """Refits with the error correlation held, over the values that may be supported."""
    results._check_profile()
    path = _closed(results).path("error_corr")
    points = _POINTS_WEAK if results.weak else _POINTS
    traced: Traced = trace(path, results.llf, points=points)
    near = [2.0 * (traced.top - p.solution.value) <= FARTHEST for p in traced.points]
    # One value beyond on each side: a set whose end is the last value would count as open.
    kept = np.convolve(near, [1, 1, 1], mode="same") > 0
    known = [(p, _conditional(p)) for p, keep in zip(traced.points, kept, strict=True) if keep]
    known = [(point, at) for point, at in known if np.isfinite(at[1]).all()]
    finite = [p.u for p, _ in known if math.isfinite(p.u)]
    reach = {-math.inf: min(finite) - 1.0, math.inf: max(finite) + 1.0}
    held = [point.branch.natural(point.solution.params)[1] for point, _ in known]
    return Across(
        u=np.array([reach.get(point.u, point.u) for point, _ in known]),
        lr=np.array([2.0 * (traced.top - point.solution.value) for point, _ in known]),
        error_corr=np.array([at.error_corr for at in held]),
        sigma=np.array([at.sigma for at in held]),
        rho=np.array([at.rho for at in held]),
        coef=np.stack([coef for _, (coef, _) in known]),
        cov=np.stack([cov for _, (_, cov) in known]),
        limits=(float(path.limits[0]), float(path.limits[1])),
        conservative=bool(results.weak),
    )


def _conditional(point: Point) -> tuple[Floats, Floats]:
    """Coefficients in the form's own units, and their covariance given the error correlation."""
    branch, solution = point.branch, point.solution
    coef, at = branch.natural(solution.params)
    free = np.flatnonzero(branch.free)
    cov = invert(-solution.hessian[np.ix_(free, free)])[: len(coef), : len(coef)]
    if isinstance(branch.objective.form, CorrelationForm):
        unit = np.ones(len(coef))
        unit[: branch.objective.p] = outcome_scale(at.sigma)
        cov = cov * np.outer(unit, unit)
    return coef, cov


def members(results: Any, across: Across) -> list[Any]:
    """Results with the dependence fixed at each value of ``across``."""
    found = []
    for sigma, rho, coef, cov in zip(
        across.sigma, across.rho, across.coef, across.cov, strict=True
    ):
        model = results.model._holding(_fixed(results, float(sigma), float(rho)))
        params = np.append(coef, model._parametrized.values(np.empty(0)))
        solution = replace(
            results.solution,
            params=params,
            hessian=np.zeros((len(params), len(params))),
            status=Status.CONVERGED,
        )
        fit = replace(
            results.fit_info, model=model, solution=solution, asked=None, maxima=(), climbs=()
        )
        held = Covariance(cov, "nonrobust", "inverse of the observed information, given error_corr")
        found.append(type(results)._restored(fit, held, {}))
    return found


def _fixed(results: Any, sigma: float, rho: float) -> Any:
    if sigma == 0.0:
        return "independent"
    if math.isinf(sigma) and results.model._probit_outcome:
        return {"rho": rho}
    return {"sigma": sigma, "rho": rho}


def maxima(results: Any) -> pd.DataFrame:
    """The distinct maxima that the search found, that of the fit first."""
    rows = []
    for model, solution in results.fit_info.maxima or ((results.model, results.solution),):
        spec = model._parametrized
        at = dependence(spec.kind, solution.params[model.k_outcome + model.k_select :])
        fit = replace(results.fit_info, model=model, solution=solution, maxima=(), climbs=())
        size = int(model._estimated.sum())
        unknown = Covariance(np.full((size, size), np.nan), "nonrobust", "none")
        there = type(results)._restored(fit, unknown, {})
        prevalence = there.get_prediction(average=True, interval="wald").predicted[0]
        rows.append(
            {
                "loglik": solution.value,
                "lr": 2.0 * (results.solution.value - solution.value),
                "error_corr": at.error_corr,
                "sigma": at.sigma,
                "rho": at.rho,
                "prevalence": prevalence,
                "status": solution.status.name.lower(),
            }
        )
    return pd.DataFrame(rows)
