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
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.stats import chi2, norm

from ..types import Floats
from .covariance import invert
from .paths import Point
from .profile import Traced

# Bartlett factor of sets of the dependence where the likelihood is not a parabola. It falls with
# the number of labels, as the theory says and the likelihood ratio at the truth shows, whose mean
# over many kinds of data is in docs/standard-errors.
_WIDEST = 0.2
_LABELS = 60.0  # the factor is 1 + _LABELS / labelled rows
# Likelihood ratio up to which values are kept.
FARTHEST = (1.0 + _WIDEST) * float(chi2.ppf(0.999, 1))
_BETWEEN = 12  # values interpolated between two that were fitted
_SLACK = 1e-3  # of the likelihood ratio at a root
_AT_END = 1e-2  # of the likelihood ratio: such a value is an end of the 95% set
_FEW = 11  # values of the error correlation at which targets are computed


def bartlett_factor(nobs_selected: float) -> float:
    """Return what the chi-squared quantile is multiplied by, given so many labelled rows."""
    return 1.0 + min(_WIDEST, _LABELS / nobs_selected)


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

    @classmethod
    def of(cls, traced: Traced, *, conservative: bool, widened: float) -> Across:
        """Keep of a traced profile the fits at values that may be supported."""
        near = [2.0 * (traced.top - p.solution.value) <= FARTHEST for p in traced.points]
        # One value beyond on each side: a set whose end is the last value would count as open.
        kept = np.convolve(near, [1, 1, 1], mode="same") > 0
        known = [(p, _conditional(p)) for p, keep in zip(traced.points, kept, strict=True) if keep]
        known = [(point, at) for point, at in known if np.isfinite(at[1]).all()]
        finite = [p.u for p, _ in known if math.isfinite(p.u)]
        reach = {-math.inf: min(finite) - 1.0, math.inf: max(finite) + 1.0}
        held = [point.branch.natural(point.solution.params)[1] for point, _ in known]
        low, high = traced.curve.path.limits
        return cls(
            u=np.array([reach.get(point.u, point.u) for point, _ in known]),
            lr=np.array([2.0 * (traced.top - point.solution.value) for point, _ in known]),
            error_corr=np.array([at.error_corr for at in held]),
            sigma=np.array([at.sigma for at in held]),
            rho=np.array([at.rho for at in held]),
            coef=np.stack([coef for _, (coef, _) in known]),
            cov=np.stack([cov for _, (_, cov) in known]),
            limits=(float(low), float(high)),
            conservative=conservative,
            widened=widened,
        )

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


def _conditional(point: Point) -> tuple[Floats, Floats]:
    """Coefficients in the form's own units, and their covariance given the error correlation."""
    branch, solution = point.branch, point.solution
    coef, _ = branch.natural(solution.params)
    free = np.flatnonzero(branch.free)
    cov = invert(-solution.hessian[np.ix_(free, free)])[: len(coef), : len(coef)]
    unit = np.ones(len(coef))
    unit[: branch.objective.p] = branch.units(solution.params)
    return coef, cov * np.outer(unit, unit)


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
