"""Intervals that hold where the likelihood is not a parabola in the dependence.

A Wald interval takes the likelihood for a parabola around one maximum. Here the error correlation r
is held at each of a grid of values and the other parameters are refitted. Given r, a target is
estimated by m(r) with standard error s(r), and LR(r) is the likelihood ratio of r. A value t of the
target is in the interval of level 1 - alpha, c the chi-squared quantile with one degree of freedom,

- if LR(r) + ((t - m(r))/s(r))^2 <= c for some r: the profile likelihood of the target, with the
  likelihood given r taken for a parabola. It is used where the likelihood is skewed in r.
- ``conservative``: if LR(r) <= c and ((t - m(r))/s(r))^2 <= c for some r: the union of the
  intervals given each r that a likelihood ratio test accepts. It is used at a corner, on a flat or
  two-humped likelihood and with a weak instrument, where the sum of both is not chi-squared with
  one degree of freedom. The set misses the true r in 5% of samples, and given that the interval
  misses in 5%; both seldom go together, so that the union covers more than 95%.

The set of the error correlation itself, and of what is a function of it alone, holds the values
with LR(r) <= (1 + b) c: at the true value LR is larger than chi-squared on average where few labels
meet a likelihood that is not a parabola, by up to a third (``widened``).

docs/standard-errors has how often they cover.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.interpolate import PchipInterpolator
from scipy.stats import chi2, norm

from ..kernel.integration import Quadrature
from ..optimize.solution import Status
from ..types import Floats
from .covariance import Covariance, invert
from .paths import Closed, Curve, Point
from .profile import Traced, trace

# Bartlett factor of sets of the dependence where the likelihood is not a parabola. It falls with
# the number of labels, as the theory says and the likelihood ratio at the truth shows, whose mean
# over many kinds of data is in docs/standard-errors.
_WIDEST = 0.2
_LABELS = 60.0  # the factor is 1 + _LABELS / labelled rows
FEW = 600  # labelled rows below which it is worth having, whatever the shape of the likelihood
FARTHEST = (1.0 + _WIDEST) * float(
    chi2.ppf(0.999, 1)
)  # likelihood ratio up to which values are kept
_BETWEEN = 12  # values interpolated between two that were fitted
_SLACK = 1e-3  # of the likelihood ratio at a root
_AT_END = 1e-2  # of the likelihood ratio: such a value is an end of the 95% set
_FEW = 11  # values of the error correlation at which targets are computed


def check_alpha(alpha: float) -> None:
    """Raise an error if ``alpha`` is not the level of a test or interval."""
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha={alpha!r} must lie between 0 and 1")


@dataclass(frozen=True, slots=True, eq=False)
class Across:
    """Fits with the error correlation held, over the values that may be supported.

    Attributes
    ----------
    u, lr, error_corr, sigma, rho : ndarray
        (G,) coordinate, likelihood ratio against the maximum, and the dependence held.
    coef, cov : ndarray
        (G, q) coefficients and (G, q, q) their covariance given the dependence.
    limits : tuple of float
        Between which the error correlation lies; reached where the set is open.
    conservative : bool
        Whether intervals are the union of those given each value.
    widened : float
        What the chi-squared quantile is multiplied by in the set of the error correlation.
    """

    u: Floats
    lr: Floats
    error_corr: Floats
    sigma: Floats
    rho: Floats
    coef: Floats
    cov: Floats
    limits: tuple[float, float]
    conservative: bool = True
    widened: float = 1.0

    def thin(self) -> Across:
        """Return the fits at a few of the values, for targets that are expensive to compute.

        The ends of the 95% set, the maximum and the outermost values stay; then the widest gaps
        are filled, those of the 99% set first.
        """
        ends = np.abs(self.lr - chi2.ppf(0.95, 1)) < _AT_END
        inner = self.lr < chi2.ppf(0.99, 1)
        kept = set(np.flatnonzero(ends)) | {0, int(self.lr.argmin()), len(self.u) - 1}
        while len(kept) < min(_FEW, len(self.u)):
            rest = [g for g in range(len(self.u)) if g not in kept]
            rest = [g for g in rest if inner[g]] or rest
            kept.add(max(rest, key=lambda g: min(abs(self.u[g] - self.u[h]) for h in kept)))
        at = np.array(sorted(kept))
        return Across(
            self.u[at], self.lr[at], self.error_corr[at], self.sigma[at], self.rho[at],
            self.coef[at], self.cov[at], self.limits, self.conservative, self.widened,
        )  # fmt: skip

    def interval(self, estimate: Floats, se: Floats, alpha: float) -> Floats:
        """(m, 2) intervals of the targets at level 1 - ``alpha``.

        Parameters
        ----------
        estimate, se : ndarray
            (G, m) of the targets with the error correlation held.
        """
        fine, lr, cut = self._supported(alpha)
        inside = lr <= cut
        left = np.full(inside.sum(), cut) if self.conservative else cut - lr[inside]
        centre, unit = (self._between(values)(fine)[inside] for values in (estimate, se))
        reach = np.sqrt(left)[:, None] * unit
        return np.column_stack([(centre - reach).min(0), (centre + reach).max(0)])

    def unbounded(self, ends: Floats, estimate: Floats, se: Floats, alpha: float) -> Floats:
        """Return (m, 2) ends, infinite where an open set carries targets off without bound."""
        _, lr, cut = self._supported(alpha)
        reach = norm.ppf(1.0 - alpha / 2.0) * se
        ends = ends.copy()
        for at in (0, -1):
            if lr[at] <= cut:
                ends[estimate[at] - reach[at] < 0.0, 0] = -np.inf
                ends[estimate[at] + reach[at] > 0.0, 1] = np.inf
        return ends

    def pvalues(self, estimate: Floats, se: Floats) -> Floats:
        """(m,) smallest level at which the interval excludes zero."""
        fine = self._fine()
        lr = np.maximum(self._between(self.lr)(fine), 0.0)[:, None]
        given = self._between(estimate / se)(fine) ** 2
        distance = np.maximum(lr, given) if self.conservative else lr + given
        return chi2.sf(distance.min(0), 1)

    def pieces(self, alpha: float = 0.05) -> list[tuple[float, float]]:
        """Return the intervals of which the set of the error correlation consists."""
        return self.ranges(self.error_corr, self.limits, alpha)

    def ranges(
        self, values: Floats, limits: tuple[float, float], alpha: float
    ) -> list[tuple[float, float]]:
        """What a monotone function of the error correlation takes over the set.

        Parameters
        ----------
        values : ndarray
            (G,) of the function.
        limits : tuple of float
            What it tends to at the ends of the range.
        """
        fine, lr, cut = self._supported(alpha, self.widened)
        inside, at = lr <= cut, self._between(values)(fine)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]]).astype(int)))
        found = []
        for first, after in zip(edges[::2], edges[1::2], strict=True):
            low = limits[0] if first == 0 else float(at[first])
            high = limits[1] if after == len(at) else float(at[after - 1])
            found.append((low, high))
        return found

    def test(self, values: Floats, null: float) -> float:
        """Return the smallest level at which :meth:`ranges` of the values exclude ``null``."""
        if not values.min() <= null <= values.max():
            return 0.0
        at = np.interp(null, values, self.u)
        lr = max(float(self._between(self.lr)(np.array([at]))[0]), 0.0)
        return float(chi2.sf(lr / self.widened, 1))

    def _fine(self) -> Floats:
        steps = np.linspace(0.0, 1.0, _BETWEEN, endpoint=False)
        inner = self.u[:-1, None] + np.diff(self.u)[:, None] * steps
        return np.append(inner.ravel(), self.u[-1])

    def _supported(self, alpha: float, widened: float = 1.0) -> tuple[Floats, Floats, float]:
        """A fine grid, the likelihood ratio there, and the largest that a test accepts."""
        fine = self._fine()
        lr = self._between(self.lr)(fine)
        cut = widened * float(chi2.ppf(1.0 - alpha, 1))
        return fine, lr, max(cut, float(lr.min())) + _SLACK

    def _between(self, values: Floats) -> Callable[[Floats], Floats]:
        return PchipInterpolator(self.u, values, axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Targets with the error correlation held at each value of an :class:`Across`."""

    across: Across
    estimate: Floats  # (G, m)
    se: Floats  # (G, m)

    def interval(self, alpha: float) -> Floats:
        """Return the (m, 2) intervals; see :meth:`Across.interval`."""
        return self.across.interval(self.estimate, self.se, alpha)

    def pvalues(self) -> Floats:
        """Return the (m,) P-values; see :meth:`Across.pvalues`."""
        return self.across.pvalues(self.estimate, self.se)


# -- whether Wald intervals hold, and refits over the error correlations where they do not ---------


CORNER = 0.999  # an error correlation beyond which the errors are one
SURE = 0.1  # standard error of atanh(error_corr) below which the likelihood is a parabola
ROOTS = (0.9, 1.1)  # root of the likelihood ratio at Wald's ends, over what a parabola has there
MOST_ROWS = 200_000  # up to which refits are made without being asked for
_CUT = float(chi2.ppf(0.95, 1))
# Of the profile around the estimate: the union of a weak fit, which is looked at over its whole
# range too, is decided by the ends of the set, a profile likelihood by its middle.
_POINTS_WEAK, _POINTS = 5, 13


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
    """Whether Wald's intervals are not to be trusted, weak fit or not.

    That is where the likelihood at the ends of Wald's interval of error_corr is not a parabola's.
    With few labels the intervals are not left to this check: a likelihood that happens to be a
    parabola around its maximum has its maximum far from the truth more often than Wald's allow.
    """
    return _judged(results) and not _parabola(results)


def widened(results: Any) -> float:
    """Return what the chi-squared quantile is multiplied by in sets of the dependence."""
    if not (results.weak or results._skewed()):
        return 1.0
    return 1.0 + min(_WIDEST, _LABELS / results.nobs_selected)


def _judged(results: Any) -> bool:
    return results._profile_refusal() is None and _estimated(results)


def _rivals(results: Any) -> list[tuple[Any, Any]]:
    """Other maxima within the cut of a likelihood ratio test."""
    top = results.solution.value
    return [pair for pair in results._fit_info.maxima[1:] if 2 * (top - pair[1].value) < _CUT]


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
        there = model.parametrized.form.dependence(values).error_corr
        return (
            f"the likelihood has another maximum at error_corr = {there:+.2f} (this fit: "
            f"{results.error_corr:+.2f}) with a log-likelihood only "
            f"{results.solution.value - other.value:.2f} lower: the data do not distinguish them. "
            "See results.maxima, and report intervals, which span both."
        )
    return None


def _estimated(results: Any) -> bool:
    """Whether the data are there and the error correlation is not fixed."""
    model = results.model
    if hasattr(results, "results_constrained"):  # zeros of a larger model, which was not fitted
        return False
    if not model.rows_at_hand():
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
    if results.nobs_selected < FEW:
        return False
    path = _closed(results).path("error_corr")
    ends = np.array([path.inverse(float(value)) for value in row[2:]])
    ends = np.clip(ends, *path.range)
    points = Curve(path).fit(ends)
    top = max(results._top, *(point.solution.value for point in points))
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
    factor, weak = widened(results), bool(results.weak)
    # A fit that is not weak has no other hump near the cut: the search would have met it.
    traced: Traced = trace(
        path,
        results._top,
        points=_POINTS_WEAK if weak else _POINTS,
        whole=weak,
        widened=factor,
    )
    if weak and factor > 1.0:  # the union ends where the plain set does
        traced.refine(_CUT)
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
        widened=factor,
    )


def _conditional(point: Point) -> tuple[Floats, Floats]:
    """Coefficients in the form's own units, and their covariance given the error correlation."""
    branch, solution = point.branch, point.solution
    coef, _ = branch.natural(solution.params)
    free = np.flatnonzero(branch.free)
    cov = invert(-solution.hessian[np.ix_(free, free)])[: len(coef), : len(coef)]
    unit = np.ones(len(coef))
    unit[: branch.objective.p] = branch.units(solution.params)
    return coef, cov * np.outer(unit, unit)


def members(results: Any, across: Across) -> list[Any]:
    """Results with the dependence fixed at each value of ``across``."""
    found = []
    for sigma, rho, coef, cov in zip(
        across.sigma, across.rho, across.coef, across.cov, strict=True
    ):
        model = results.model.holding(_fixed(results, float(sigma), float(rho)))
        params = np.append(coef, model.parametrized.values(np.empty(0)))
        solution = replace(
            results.solution,
            params=params,
            hessian=np.zeros((len(params), len(params))),
            status=Status.CONVERGED,
        )
        fit = replace(
            results._fit_info, model=model, solution=solution, asked=None, maxima=(), climbs=()
        )
        held = Covariance(cov, "nonrobust", "inverse of the observed information, given error_corr")
        found.append(type(results)._restored(fit, held, {}))
    return found


def _fixed(results: Any, sigma: float, rho: float) -> Any:
    if sigma == 0.0:
        return "independent"
    return {"sigma": sigma, "rho": rho}


def maxima(results: Any) -> pd.DataFrame:
    """The distinct maxima that the search found, that of the fit first."""
    rows = []
    for model, solution in results._fit_info.maxima or ((results.model, results.solution),):
        spec = model.parametrized
        at = spec.form.dependence(solution.params[model.k_outcome + model.k_select :])
        fit = replace(results._fit_info, model=model, solution=solution, maxima=(), climbs=())
        size = int(model.estimated.sum())
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
