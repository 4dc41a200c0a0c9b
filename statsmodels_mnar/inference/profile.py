"""Profile log-likelihoods and the intervals they imply.

At each value of one quantity the others are refitted; the values at which the log-likelihood is
within chi2(1)/2 of its maximum are the interval. All values of a round are fitted as one batch from
the nearest value already fitted, moved along the tangent of the path.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from .curve import REACH, Curve, Point, ended_well, find_roots
from .paths import Path

Floats = NDArray[np.float64]

_POINTS = 15
_ROUNDS = 6  # of extensions, each twice as far
_ROOT = 5e-5  # of the signed root of the likelihood ratio, at the interval's ends


@dataclass(frozen=True, slots=True)
class Profile:
    """Profile log-likelihood of one quantity.

    Attributes
    ----------
    param : str
    estimate : float
    interval : tuple of float
        Values with a log-likelihood of at least ``cut``: the connected piece around the estimate.
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

    def __str__(self) -> str:
        low, high = self.interval
        lines = [
            f"Profile likelihood of {self.param}: estimate {self.estimate:.4g}, "
            f"{self.level:.0%} interval {'(' if self.open[0] else '['}{low:.4g}, {high:.4g}"
            f"{')' if self.open[1] else ']'}",
        ]
        for side, is_open, end in zip(("below", "above"), self.open, self.interval, strict=True):
            if is_open:
                words = "the likelihood never falls below the cut on the way to"
                lines.append(f"Open {side}: {words} {end:.4g}.")
        return "\n".join([*lines, *([self.note] if self.note else [])])


def profile(
    path: Path,
    llf: float,
    names: tuple[str, ...],
    *,
    grid: Floats | None = None,
    alpha: float = 0.05,
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
    tick : callable, optional
        Called with the number of values fitted.
    """
    curve = Curve(path, tick)
    quantile = float(stats.chi2.ppf(1.0 - alpha, 1))
    width = curve.width()
    if grid is None:
        curve.points = []  # the grid has the estimate in its middle
        curve.fit(_first_grid(path, width))
    else:
        curve.fit(grid, thorough=True)
    top = llf
    for sign in (-1, 1):
        top = _extend(curve, sign, top, quantile, width)
    asked = None if grid is None else set(grid.tolist())
    shown = list({p.u: p for p in curve.points if asked is None or p.u in asked}.values())
    ends = _interval(curve, top, quantile)
    interval = tuple(path.value(u) for u, _ in ends)
    is_open = (ends[0][1], ends[1][1])
    if interval[0] > interval[1]:  # a quantity that falls in u
        interval, is_open = interval[::-1], is_open[::-1]
        shown = shown[::-1]
    return Profile(
        param=path.name,
        estimate=path.value(path.estimate),
        interval=(interval[0], interval[1]),
        open=is_open,
        level=1.0 - alpha,
        llf=top,
        cut=top - 0.5 * quantile,
        grid=np.array([path.value(point.u) for point in shown]),
        values=np.array([point.solution.value for point in shown]),
        form=tuple(point.branch.name for point in shown),
        status=tuple(point.solution.status.name.lower() for point in shown),
        params=_table(shown, path, names),
        note=_note(curve, llf, top, 0 if asked is None else len(asked) - len(shown)),
    )


def _first_grid(path: Path, width: float) -> Floats:
    low, high = path.range
    centre = float(np.clip(path.estimate, low, high))
    return np.linspace(max(low, centre - REACH * width), min(high, centre + REACH * width), _POINTS)


def _extend(curve: Curve, sign: int, top: float, quantile: float, width: float) -> float:
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


def _interval(curve: Curve, top: float, quantile: float) -> list[tuple[float, bool]]:
    """Ends in u, each with whether it is open."""
    path, root = curve.path, math.sqrt(quantile)

    def excess(value: float) -> float:
        """Root of the likelihood ratio less that of the cut: nearly linear in u."""
        return math.sqrt(max(2.0 * (top - value), 0.0)) - root

    found: list[tuple[float, bool]] = []
    brackets: list[tuple[int, list[float], list[float]]] = []
    for side, sign in enumerate((-1, 1)):
        inside, below = path.estimate, -root
        outward = [p for p in curve.points[::sign] if sign * (p.u - path.estimate) > 0]
        found.append((sign * math.inf, True))
        for point in outward:
            value = excess(point.solution.value)
            if value > 0:
                found[side] = (point.u, False)  # no less than the end, where it is not refined
                if math.isfinite(point.u) and math.isfinite(inside):
                    brackets.append((side, [inside, point.u][::sign], [below, value][::sign]))
                break
            inside, below = point.u, value
        if math.isinf(path.estimate) and sign * path.estimate > 0:
            found[side] = (path.estimate, True)
    if brackets:
        roots = find_roots(
            lambda us, _: _at(curve, us, excess),
            np.array([b[1] for b in brackets]),
            np.array([b[2] for b in brackets]),
            _ROOT,
        )
        for (side, _, _), u in zip(brackets, roots, strict=True):
            found[side] = (float(u), False)
    return found


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


def _note(curve: Curve, llf: float, top: float, n_left_out: int) -> str:
    said = []
    if n_left_out:
        said.append(f"{n_left_out} values of grid need a sigma above 50 and were left out.")
    failed = sum(not ended_well(point.solution) for point in curve.points)
    if failed:
        said.append(f"{failed} of {len(curve.points)} fits did not converge; see status.")
    if top > llf + 1e-6:
        said.append(
            f"A point of the profile has a larger log-likelihood than the fit ({top:.6f} against "
            f"{llf:.6f}); the cut is measured from it."
        )
    return " ".join(said)
