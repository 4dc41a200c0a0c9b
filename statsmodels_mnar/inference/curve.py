"""Fits along a path, and roots of functions that cost a fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..optimize.maximize import maximize_batch
from ..optimize.solution import Solution, Status
from .branches import Branch, wider
from .paths import Path

Floats = NDArray[np.float64]

REACH = 3.5  # standard errors either side of the estimate that a curve shows
_CHUNK = 8  # members of a batch: neighbours, so that they need about as many nodes


@dataclass(frozen=True, slots=True)
class Point:
    """The best fit at one value."""

    u: float
    branch: Branch
    solution: Solution


class Curve:
    """Fits along a path; remembers them as starts of the next ones."""

    def __init__(self, path: Path, tick: Callable[[int], Any] | None = None) -> None:
        self.path = path
        self.points: list[Point] = []  # best at each value, by u
        self._fitted: list[dict[float, Solution]] = [{} for _ in path.branches]
        self._tick = tick or (lambda count: None)

    def fit(self, values: Floats, *, thorough: bool = False) -> list[Point]:
        """Fit every branch at these values of u; the best at each, in ascending order.

        Left out is a value whose maximum lies beyond the sigma that is searched, on a path that
        closes at an infinite one; ``thorough`` searches farther.
        """
        us = np.unique(values)
        for branch, fitted in zip(self.path.branches, self._fitted, strict=True):
            todo = us[branch.exists(us)]
            for start in range(0, len(todo), _CHUNK):
                chunk = todo[start : start + _CHUNK]
                fitted |= dict(zip(chunk.tolist(), _fit(branch, chunk, fitted), strict=True))
        best = (self._best(float(u), thorough) for u in us)
        found = [point for point in best if point is not None]
        self.points = sorted([*self.points, *found], key=lambda point: point.u)
        self._tick(len(us))
        return found

    def _best(self, u: float, thorough: bool) -> Point | None:
        there = [
            Point(u, branch, fitted[u])
            for branch, fitted in zip(self.path.branches, self._fitted, strict=True)
            if u in fitted
        ]
        best = max(there, key=lambda point: comparable(point.solution))
        leaving = [p for p in there if p.solution.status is Status.SIGMA_INFINITE]
        if self.path.closes_at_infinity and leaving:
            closer = _closer(leaving[0]) if thorough else leaving[0]
            gone = closer.solution.status is Status.SIGMA_INFINITE
            return None if gone else max(best, closer, key=lambda p: comparable(p.solution))
        # Where no face is as good as the edge of the interior searched: go on closer to the face.
        return _closer(best) if best.branch.at_bound(best.solution.params) else best

    def width(self) -> float:
        """Standard error of u by the curvature of the profile at the estimate.

        Where it is not concave there, a share of the range.
        """
        u = float(np.clip(self.path.estimate, *self.path.range))
        low, high = self.path.range
        share = (high - low) / (2.0 * REACH) if math.isfinite(high - low) else max(abs(u), 1.0)
        there = self.fit(np.array([u]), thorough=True)
        if not there:
            return share
        best = there[0]
        held = list(best.branch.held)
        step = 1e-4 * max(1.0, abs(u))
        ends = [best.branch.put(best.branch.start, u + sign * step)[held] for sign in (1, -1)]
        slope = (ends[0] - ends[1]) / (2.0 * step)
        hessian = best.solution.hessian
        tangent = _tangent(best.branch, best.solution, slope)
        tangent[held] = slope
        curvature = -float(tangent @ hessian @ tangent)
        return 1.0 / math.sqrt(curvature) if curvature > 0.0 else share


def _closer(point: Point) -> Point:
    """The point refitted within the form's full bounds, where they were narrow."""
    wide = wider(point.branch)
    if wide is None:
        return point
    found = maximize_batch(wide.objective, point.solution.params[None], free=wide.free)[0]
    other = Point(point.u, wide, found)
    return max(point, other, key=lambda p: comparable(p.solution))


def _fit(branch: Branch, us: Floats, fitted: dict[float, Solution]) -> list[Solution]:
    starts = np.stack([_start(branch, float(u), fitted) for u in us])
    found = maximize_batch(branch.objective, starts, free=branch.free)
    lost = [i for i, solution in enumerate(found) if not ended_well(solution)]
    well = {float(u): s for u, s in zip(us, found, strict=True) if ended_well(s)} | fitted
    if lost and well:
        again = np.stack([_start(branch, float(us[i]), well, tangent=False) for i in lost])
        for i, solution in zip(
            lost, maximize_batch(branch.objective, again, free=branch.free), strict=True
        ):
            found[i] = max(found[i], solution, key=comparable)
    return found


def _start(branch: Branch, u: float, fitted: dict[float, Solution], tangent: bool = True) -> Floats:
    """The nearest fit, moved along the path's tangent."""
    if not fitted:
        return branch.put(branch.start, u)
    finite = [v for v in fitted if math.isfinite(v)] or list(fitted)
    at = float(np.clip(u, min(finite), max(finite)))
    nearest = fitted[min(finite, key=lambda v: abs(v - at))]
    start = branch.put(nearest.params, u)
    held = list(branch.held)
    if tangent and held and np.isfinite(start).all():
        move = _tangent(branch, nearest, (start - nearest.params)[held])
        size = float(np.linalg.norm(move * branch.objective.scale))
        start += move * min(1.0, 2.0 / max(size, 1e-300))
    return start


def _tangent(branch: Branch, solution: Solution, move: Floats) -> Floats:
    """(P,) move of the refitted parameters with this move of the held ones; zeros for those."""
    free, held = branch.free, list(branch.held)
    hessian = solution.hessian
    found = np.zeros(len(free))
    pull = hessian[free][:, held] @ move
    found[free] = -np.linalg.lstsq(hessian[free][:, free], pull, rcond=1e-10)[0]
    return found


def ended_well(solution: Solution) -> bool:
    return solution.status.converged or solution.status.boundary


def comparable(solution: Solution) -> float:
    return solution.value if np.isfinite(solution.value) else -np.inf


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
