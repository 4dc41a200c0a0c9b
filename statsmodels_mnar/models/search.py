"""Start values, and the maximum of the free model with its faces.

The free model is closed by three faces: |rho| = 1 (the loading form), sigma -> infinity (a probit
outcome) and sigma -> 0 (no dependence). Newton searches the interior up to moderate bounds, where
it is cheap; where it leaves through one of them, the fit on that face is compared with the best
interior point and, if the face is no better after all, the search goes on closer to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from ..engine.binary import Independent
from ..engine.forms import FreeForm, LoadingForm, ProbitForm, outcome_scale
from ..engine.objective import Objective
from ..engine.optimize import maximize, maximize_many
from ..engine.solution import Solution
from ..inference.branches import Inner
from ..inference.curve import comparable
from ..results.selection import Fit
from .normalization import Normalization

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_RANKING_ROWS = 2048


def start_values(objective: Objective, start: Floats, fixed: Floats, free: Mask) -> Floats:
    """Independent coefficients with the best of a few dependence parameters, tried as one batch.

    Parameters
    ----------
    start : ndarray
        (p + k,) coefficients of the two equations fitted apart.
    fixed, free : ndarray
        (d,) values of fixed dependence parameters, and which are not fixed.
    """
    candidates = _candidates(objective, start, fixed, free)
    if len(candidates) == 1:
        return candidates[0]
    values = objective.sample(_RANKING_ROWS).evaluate(candidates, 0).value.cpu().numpy()
    return candidates[int(np.nanargmax(values))]


def start_values_many(objective: Objective, starts: Floats, fixed: Floats, free: Mask) -> Floats:
    """The same for the members of a batch that has rows of its own, (B, P)."""
    candidates = np.stack([_candidates(objective, start, fixed, free) for start in starts], axis=1)
    if len(candidates) == 1:
        return candidates[0]
    values = np.stack([objective.evaluate(at, 0).value.cpu().numpy() for at in candidates])
    return candidates[np.nanargmax(values, axis=0), np.arange(len(starts))]


def _candidates(objective: Objective, start: Floats, fixed: Floats, free: Mask) -> Floats:
    form = objective.form
    if not free.any():
        return np.concatenate([start, fixed])[None]
    if isinstance(form, LoadingForm):
        grid = np.array([[-1.5], [-0.4], [0.4], [1.5]])
    elif isinstance(form, ProbitForm):
        grid = np.array([[-0.9], [-0.3], [0.3], [0.9]])
    else:
        grid = np.array([[0.0, -1.0], [0.0, -0.3], [0.0, 0.3], [0.0, 1.0]])
    grid = np.unique(np.where(free, grid, fixed), axis=0)
    rows = np.column_stack([np.tile(start, (len(grid), 1)), grid])
    if isinstance(form, FreeForm):
        rows[:, : objective.p] *= np.array([[outcome_scale(math.exp(g[0]))] for g in grid])
    return rows


@dataclass(frozen=True)
class _Searched(Inner):
    """Wider in sigma than along a path: here a bound decides what is reported."""

    upper: ClassVar[tuple[float, ...]] = (math.log(10.0), Inner.upper[1])


@dataclass(frozen=True, slots=True)
class Found:
    """The maximum of the closed model."""

    solution: Solution  # the interior's, whose status names the face where there is one
    face: Fit | None  # the fit on that face
    faces: dict[str, float]  # log-likelihoods compared
    starts: tuple[tuple[Floats, Solution], ...]  # where Newton started, and where that led


def search_free(
    objective: Objective,
    start: Independent,
    fit_face: Callable[[Solution], Fit],
    params: Floats | None = None,
    n_starts: int = 2,
    **options: Any,
) -> Found:
    """Maximise the free model over its interior and its faces.

    Parameters
    ----------
    fit_face : callable
        Fits the face at whose bound a search ended.
    params : ndarray, optional
        The user's start values; otherwise Newton starts with each sign of rho.
    n_starts : int
        More than two: that many points spread over sigma and rho, as one batch.
    """
    form = objective.form
    assert isinstance(form, FreeForm)
    inner = objective.with_form(_Searched(form.integration))
    if params is not None:
        starts = np.asarray(params, dtype=float)[None]
    elif n_starts > 2:
        starts = _spread(start.params, inner.p, n_starts)
    else:
        starts = _candidates(inner, start.params, np.zeros(2), np.ones(2, dtype=bool))
        values = inner.evaluate(starts, 0).value.cpu().numpy()
        starts = np.stack([starts[i + int(np.argmax(values[i : i + 2]))] for i in (0, 2)])
    found = [solution for part in maximize_many(inner, starts, **options) for solution in part]
    best = max(found, key=comparable)
    tried = tuple(zip(starts, found, strict=True))
    faces = {"independent": start.value}
    for last in (False, True):
        if not best.status.boundary:
            break
        face = fit_face(best)
        faces[_label(face.model.normalization)] = face.solution.value
        if last or face.solution.value >= best.value:
            return Found(best, face, faces, tried)
        best = maximize(objective, best.params, **options)  # closer to the face
    faces["free"] = best.value
    return Found(best, None, faces, tried)


def _spread(coef: Floats, p: int, count: int) -> Floats:
    """Independent coefficients with points spread over sigma (0.2 to 6) and rho (-0.97 to 0.97)."""
    lower, upper = [math.log(0.2), -2.1], [math.log(6.0), 2.1]
    power = math.ceil(math.log2(count))
    points = qmc.Sobol(d=2, rng=np.random.default_rng(0)).random_base2(power)[:count]
    dependence = qmc.scale(points, lower, upper)
    rows = np.column_stack([np.tile(coef, (count, 1)), dependence])
    rows[:, :p] *= np.array([[outcome_scale(math.exp(v))] for v in dependence[:, 0]])
    return rows


def _label(normalization: Normalization) -> str:
    if isinstance(normalization, str):
        return normalization
    return ", ".join(f"{name} = {value:g}" for name, value in normalization.items())
