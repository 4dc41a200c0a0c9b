"""Profile log-likelihoods and the intervals they imply.

A quantity is held at each of a grid of values and the rest is refitted (`post/paths.py`). The
values at which the log-likelihood is within chi2(1)/2 of its maximum are the confidence set. It may
have several pieces, so quantities of the dependence are looked at over their whole range.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from ..optimize.solution import ended_well
from ..types import Floats
from .paths import REACH, Curve, Path, Point

_POINTS = 15
_ROUNDS = 6  # of extensions, each twice as far
_ROOT = 5e-5  # of the signed root of the likelihood ratio, at the interval's ends
_WIDE_POINTS = 11  # over the whole range of a quantity of the dependence
_WIDE = ("error_corr", "rho", "athrho", "loading")
_HIGHER = 1e-6  # log-likelihood by which a point of a profile is above the fit, not beside it


@dataclass(frozen=True, slots=True)
class Profile:
    """Profile log-likelihood of one quantity.

    Attributes
    ----------
    param : str
    estimate : float
    interval : tuple of float
        The smallest interval that holds every value with a log-likelihood of at least ``cut``.
    pieces : tuple of (float, float)
        The connected pieces of that set; more than one where the likelihood has several humps.
    open : tuple of bool
        Whether the log-likelihood stays above the cut on that side; the end is then the limit of
        the parameter's range.
    level, llf, cut : float
        Confidence level, maximum and the log-likelihood at the interval's ends.
    grid, values : ndarray
        Values of the quantity and the maximised log-likelihood at each.
    form, status : tuple of str
        At each: the form with the largest log-likelihood, and how its fit ended.
    params : DataFrame
        At each: the coefficients, in the units of that form, sigma and rho.
    note : str
        What a reader must know; empty where there is nothing to say.
    start_params : Series or None
        Estimates at a point that is more likely than the fit, where the profile found one: pass
        them to ``fit(start_params=)``.
    """

    param: str
    estimate: float
    interval: tuple[float, float]
    open: tuple[bool, bool]
    level: float
    llf: float
    cut: float
    grid: Floats  # (G,)
    values: Floats  # (G,)
    form: tuple[str, ...]  # (G,)
    status: tuple[str, ...]  # (G,)
    params: pd.DataFrame  # (G, p + k + 2)
    note: str
    start_params: pd.Series | None = None
    pieces: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        if not self.pieces:
            object.__setattr__(self, "pieces", (self.interval,))

    def summary_frame(self) -> pd.DataFrame:
        """One row for each value: log-likelihood, likelihood ratio, and whether it is inside."""
        return pd.DataFrame(
            {
                "loglik": self.values,
                "lr": 2.0 * (self.llf - self.values),
                "inside": self.values >= self.cut,
                "form": self.form,
                "status": self.status,
            },
            index=pd.Index(self.grid, name=self.param),
        )

    @property
    def shown(self) -> str:
        """The pieces in words."""
        ends = [f"[{low:.4g}, {high:.4g}]" for low, high in self.pieces]
        if self.open[0]:
            ends[0] = f"({ends[0][1:]}"
        if self.open[1]:
            ends[-1] = f"{ends[-1][:-1]})"
        return " and ".join(ends)

    def __str__(self) -> str:
        lines = [
            f"Profile likelihood of {self.param}: estimate {self.estimate:.4g}, "
            f"{self.level:.0%} {'interval' if len(self.pieces) == 1 else 'set'} {self.shown}",
        ]
        for side, is_open, end in zip(("below", "above"), self.open, self.interval, strict=True):
            if is_open:
                words = "the likelihood never falls below the cut on the way to"
                lines.append(f"Open {side}: {words} {end:.4g}.")
        return "\n".join([*lines, *([self.note] if self.note else [])])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>{self.summary_frame()._repr_html_()}"


@dataclass(frozen=True, slots=True)
class Traced:
    """Fits along a path and where they are above the cut."""

    curve: Curve
    top: float  # largest log-likelihood seen
    quantile: float
    pieces: list[tuple[float, float]]  # of u, ascending; infinite where the set is open
    open: tuple[bool, bool]

    def refine(self, quantile: float) -> None:
        """Fit the values at which the likelihood ratio passes another cut."""
        _pieces(self.curve, self.top, quantile)

    @property
    def points(self) -> list[Point]:
        """The points, one for each value, in ascending order of u."""
        return list({point.u: point for point in self.curve.points}.values())


def trace(
    path: Path,
    llf: float,
    *,
    grid: Floats | None = None,
    alpha: float = 0.05,
    points: int = _POINTS,
    whole: bool = True,
    widened: float = 1.0,
    tick: Callable[[int], Any] | None = None,
) -> Traced:
    """Fit the path and find where the likelihood ratio passes the cut.

    Parameters
    ----------
    llf : float
        Maximum of the log-likelihood.
    grid : ndarray, optional
        Values of u to fit; by default around the estimate, as far as the interval goes.
    points : int
        Of that grid.
    whole : bool
        Whether to look for other humps over the whole range of a quantity of the dependence; it is
        done in any case where the set is open.
    widened : float
        What the chi-squared quantile is multiplied by.
    tick : callable, optional
        Called with the number of values fitted.
    """
    curve = Curve(path, tick)
    quantile = widened * float(stats.chi2.ppf(1.0 - alpha, 1))
    width = curve.width()
    if grid is None:
        curve.points = []  # the grid has the estimate in its middle
        curve.fit(_first_grid(path, width, points))
        if whole:
            curve.fit(_wide_grid(path))
    else:
        curve.fit(grid, thorough=True)
    top = _extend(curve, llf, quantile, width)
    pieces, is_open = _pieces(curve, top, quantile)
    if grid is None and not whole and any(is_open):
        curve.fit(_wide_grid(path))
        top = _extend(curve, top, quantile, width)
        pieces, is_open = _pieces(curve, top, quantile)
    return Traced(curve, top, quantile, pieces, is_open)


def profile(
    path: Path,
    llf: float,
    names: tuple[str, ...],
    *,
    grid: Floats | None = None,
    alpha: float = 0.05,
    whole: bool = True,
    widened: float = 1.0,
    tick: Callable[[int], Any] | None = None,
) -> Profile:
    """Fit the path and invert the likelihood ratio.

    Parameters
    ----------
    llf : float
        Maximum of the log-likelihood.
    names : tuple of str
        (p + k,) of the coefficients.
    grid : ndarray, optional
        Values of u to show; by default around the estimate, as far as the interval goes.
    widened : float
        What the chi-squared quantile is multiplied by.
    tick : callable, optional
        Called with the number of values fitted.
    """
    traced = trace(path, llf, grid=grid, alpha=alpha, whole=whole, widened=widened, tick=tick)
    asked = None if grid is None else set(grid.tolist())
    shown = [point for point in traced.points if asked is None or point.u in asked]
    pieces = [(path.value(low), path.value(high)) for low, high in traced.pieces]
    is_open = traced.open
    if pieces[0][0] > pieces[0][1]:  # a quantity that falls in u
        pieces = [piece[::-1] for piece in pieces[::-1]]
        is_open = is_open[::-1]
        shown = shown[::-1]
    n_left_out = 0 if asked is None else len(asked) - len(shown)
    return Profile(
        param=path.name,
        estimate=path.value(path.estimate),
        interval=(pieces[0][0], pieces[-1][1]),
        pieces=tuple(pieces),
        open=is_open,
        level=1.0 - alpha,
        llf=traced.top,
        cut=traced.top - 0.5 * traced.quantile,
        grid=np.array([path.value(point.u) for point in shown]),
        values=np.array([point.solution.value for point in shown]),
        form=tuple(point.branch.name for point in shown),
        status=tuple(point.solution.status.name.lower() for point in shown),
        params=_table(shown, path, names),
        note=_note(traced, llf, n_left_out),
        start_params=_higher(traced, llf, names),
    )


def _first_grid(path: Path, width: float, points: int) -> Floats:
    low, high = path.range
    centre = float(np.clip(path.estimate, low, high))
    return np.linspace(max(low, centre - REACH * width), min(high, centre + REACH * width), points)


def _wide_grid(path: Path) -> Floats:
    """Return values over a dependence's whole range, closer in its middle; none of others."""
    low, high = path.range
    if path.name not in _WIDE or not math.isfinite(high - low):
        return np.empty(0)
    t = np.linspace(-1.0, 1.0, _WIDE_POINTS)
    bent = np.sign(t) * np.abs(t) ** (1.5 if high - low <= 10.0 else 4.0)
    return 0.5 * (low + high) + 0.5 * (high - low) * bent


def _extend(curve: Curve, top: float, quantile: float, width: float) -> float:
    """Go outwards until the likelihood has fallen below the cut or the path ends; the new top."""
    for sign in (-1, 1):
        top = _extend_to(curve, sign, top, quantile, width)
    return top


def _extend_to(curve: Curve, sign: int, top: float, quantile: float, width: float) -> float:
    """Go outwards on one side until the likelihood has fallen below the cut or the path ends."""
    path = curve.path
    limit = path.range[1 if sign > 0 else 0]
    centre = float(np.clip(path.estimate, *path.range))
    for _ in range(_ROUNDS):
        top = max(top, *(point.solution.value for point in curve.points))
        # A grid may have an infinite end in it, from which the interval's end cannot be sought.
        finite = [point for point in curve.points if math.isfinite(point.u)]
        outer = (finite or curve.points)[-1 if sign > 0 else 0]
        beyond = sign * (outer.u - path.estimate) > 0
        if beyond and outer.solution.value < top - 0.5 * quantile:
            return top
        if sign * outer.u >= sign * limit:
            break
        reach = max(2.0 * sign * (outer.u - centre), 1.1 * math.sqrt(quantile) * width)
        if not curve.fit(np.array([sign * min(sign * centre + reach, sign * limit)])):
            break
    if sign * math.inf in path.ends and math.isfinite(curve.points[-1 if sign > 0 else 0].u):
        curve.fit(np.array([sign * math.inf]))
    return max(top, *(point.solution.value for point in curve.points))


def _pieces(
    curve: Curve, top: float, quantile: float
) -> tuple[list[tuple[float, float]], tuple[bool, bool]]:
    """Where the likelihood ratio is below the cut, in u, and whether the ends are open."""
    path, root = curve.path, math.sqrt(quantile)

    def excess(value: float) -> float:
        """Root of the likelihood ratio less that of the cut: nearly linear in u."""
        return math.sqrt(max(2.0 * (top - value), 0.0)) - root

    at = {point.u: excess(point.solution.value) for point in curve.points}
    at.setdefault(path.estimate, -root)
    us = sorted(at)
    brackets = [(a, b) for a, b in pairwise(us) if (at[a] > 0) != (at[b] > 0)]
    # An infinite end is not refined: no less than the set's own end.
    finite = [pair for pair in brackets if all(map(math.isfinite, pair))]
    crossing = {pair: max(pair, key=lambda u: at[u]) for pair in brackets}
    if finite:
        roots = find_roots(
            lambda u, _: _at(curve, u, excess),
            np.array(finite),
            np.array([[at[a], at[b]] for a, b in finite]),
            _ROOT,
        )
        crossing |= dict(zip(finite, roots.tolist(), strict=True))
    is_open = at[us[0]] <= 0, at[us[-1]] <= 0
    ends = [crossing[pair] for pair in brackets]
    ends = [*[-math.inf] * is_open[0], *ends, *[math.inf] * is_open[1]]
    return list(zip(ends[::2], ends[1::2], strict=True)), is_open


def _at(curve: Curve, us: Floats, excess: Callable[[float], float]) -> Floats:
    values = {point.u: excess(point.solution.value) for point in curve.fit(us)}
    return np.array([values.get(float(u), -1.0) for u in us])  # beyond the interior: not outside


def _table(points: list[Point], path: Path, names: tuple[str, ...]) -> pd.DataFrame:
    rows = []
    for point in points:
        coef, at = point.branch.natural(point.solution.params)
        rows.append([*coef, at.sigma, at.rho])
    index = pd.Index([path.value(point.u) for point in points], name=path.name)
    return pd.DataFrame(rows, index=index, columns=[*names, "sigma", "rho"])


def _higher(traced: Traced, llf: float, names: tuple[str, ...]) -> pd.Series | None:
    """Estimates at the highest point, where it is above the fit."""
    best = max(traced.points, key=lambda point: point.solution.value)
    if best.solution.value <= llf + _HIGHER:
        return None
    coef, _ = best.branch.natural(best.solution.params)
    form = best.branch.objective.form
    values = best.solution.params[len(names) :]
    return pd.Series(np.append(coef, values), index=[*names, *form.names])


def _note(traced: Traced, llf: float, n_left_out: int) -> str:
    said, curve, top = [], traced.curve, traced.top
    if n_left_out:
        said.append(f"{n_left_out} values of grid need a sigma above 50 and were left out.")
    failed = sum(not ended_well(point.solution) for point in curve.points)
    if failed:
        said.append(f"{failed} of {len(curve.points)} fits did not converge; see status.")
    if top > llf + _HIGHER:
        said.append(
            f"A point of the profile has a larger log-likelihood than the fit ({top:.6f} against "
            f"{llf:.6f}); the cut is measured from it. Fit again from there, with "
            "fit(start_params=profile.start_params)."
        )
    return " ".join(said)


def find_roots(
    function: Callable[[Floats, NDArray[np.int64]], Floats],
    ends: Floats,
    values: Floats,
    tol: float,
    rounds: int = 25,
) -> Floats:
    """Roots of a scalar function, one for each bracket, evaluated together.

    Parameters
    ----------
    function : callable
        (m,) points and the numbers of their brackets, those still open -> (m,).
    ends, values : ndarray
        (m, 2) ascending brackets and the function there, of opposite signs.
    tol : float
        Of the function's value.

    Notes
    -----
    The secant through the last two points, where it stays inside the bracket and the last one was
    an improvement; otherwise the bracket is halved.

    Examples
    --------
    >>> import numpy as np
    >>> ends = np.array([[0.0, 1.0], [1.0, 5.0]])
    >>> find_roots(lambda x, i: np.cos(2 * x), ends, np.cos(2 * ends), 1e-12).round(6)
    array([0.785398, 2.356194])
    """
    (low, high), (f_low, f_high) = ends.T.copy(), values.T.copy()
    before, root = low.copy(), high.copy()  # the last two points
    f_before, f_root = f_low.copy(), f_high.copy()
    for _ in range(rounds):
        i = np.flatnonzero(np.abs(f_root) > tol)
        if not i.size:
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            x = root - f_root * (root - before) / (f_root - f_before)
        start = before == low  # both ends of the bracket: nothing to improve on yet
        secant = (x > low) & (x < high) & (start | (np.abs(f_root) < 0.5 * np.abs(f_before)))
        x = np.where(secant, x, 0.5 * (low + high))[i]
        f = np.asarray(function(x, i))
        before[i], f_before[i] = root[i], f_root[i]
        root[i], f_root[i] = x, f
        left = np.sign(f) == np.sign(f_low[i])  # of the root
        low[i], high[i] = np.where(left, x, low[i]), np.where(left, high[i], x)
        f_low[i] = np.where(left, f, f_low[i])
    return root
