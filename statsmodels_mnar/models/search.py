"""The global maximum: every dependence is tried, and all forms that close the model are compared.

With the dependence held, the log-likelihood of labelled and unlabelled rows is concave in the
coefficients: its factors are log-concave in the indices and the error, and so is the integral
(Prekopa). Local maxima can therefore differ in the dependence only. A grid over the dependence,
each value with its coefficients fitted, shows where they are; Newton climbs from each top of that
profile. Where rows are many a sample of them shows the tops, and Newton goes on with all rows.

The free model is closed by faces: |rho| = 1 (the loading form) and sigma -> infinity (a probit
outcome). Each is searched as above, the interior is searched from the maxima found there, and the
highest point of all is the fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from ..kernel.forms import CorrelationForm, FreeForm, outcome_scale
from ..kernel.links import LOGIT, mills
from ..kernel.rows import Rows
from ..optimize.maximize import maximize, maximize_many
from ..optimize.objective import Objective
from ..optimize.solution import Climb, Solution, Status
from ..post.dependence import Normalization
from ..post.paths import Inner, InnerCorrelation, comparable, ended_well
from ..types import Floats, Mask

# atanh of the error correlations (of rho, where sigma is fixed) that are tried.
_GRID = (-1.9, -1.2, -0.6, 0.0, 0.6, 1.2, 1.9)
_FAR = 3.0  # the same, tried besides: a profile may rise again on its way to a corner
_WIDEST = 2.4  # of a grid of the user's own size
_LNSIGMA = (math.log(0.1), math.log(10.0))  # of the grid where only sigma is free
_HELD_STEPS = 3  # of Newton at most, at each value of the grid: enough to rank them
_ROUGH = {"maxiter": _HELD_STEPS, "aim": 0.3}  # standard errors: the rest is foreseen
_FORESEEN = 0.05  # log-likelihood that one more step gains, near enough to what is foreseen
_MOST_COPIED = 2**19  # rows of a part, which is a copy of them
_SMALL_GAIN = 1.0  # the same after the last step that is taken
_NEAR = 0.03  # standard errors to a maximum of a part of the rows
_COARSE = 1e-3  # tolerance of the integrals meanwhile: 0.001 in the log-likelihood of 400 rows
_SAMPLE = 1024  # rows on which the grid is tried, where there are four times as many
_LARGER = 8  # times as many rows on which its tops are climbed
_RARE = 100  # labels of the rarer kind that a sample should have
_SAME = 0.02  # atanh of the error correlation: closer maxima of one form are one
_LEVEL = 1e-3  # log-likelihood: a corner that is lower by less than this belongs to a flat top
_SAME_HUMP = 0.25  # the same across the forms of the free model, which share their humps
_HOPELESS = 12.0  # log-likelihood by which a sample's maximum may fall behind on all rows


@dataclass(frozen=True, slots=True)
class Found:
    """Maxima of one form, the highest first, and the climbs that led to them."""

    maxima: tuple[Solution, ...]
    climbs: tuple[Climb, ...]
    start: Floats  # (P,) of the best climb


def search(
    objective: Objective,
    coef: Floats,
    fixed: Floats,
    free: Mask,
    n_starts: int | None = None,
    rarest: float = 0.5,
    **options: Any,
) -> Found:
    """Maximise a form with at most one free dependence parameter over all of its values.

    Parameters
    ----------
    coef : ndarray
        (p + k,) coefficients of the two equations fitted apart.
    fixed, free : ndarray
        (d,) values of fixed dependence parameters, and which are not fixed.
    n_starts : int, optional
        Values of the dependence that are tried; by default seven.
    rarest : float
        Share of the rows with the rarer label, for the size of a sample.
    **options
        Of :func:`~statsmodels_mnar.optimize.maximize.maximize_many`.
    """
    estimated = np.concatenate([np.ones(len(coef), dtype=bool), free])
    starts = tops(objective, coef, fixed, free, n_starts, rarest)
    found = _climb(objective, starts, estimated, options)
    return Found(distinct(objective, found), _climbs(objective, starts, found), starts[0])


def _climbs(objective: Objective, starts: Floats, found: list[Solution]) -> tuple[Climb, ...]:
    def corr(params: Floats) -> float:
        return math.tanh(objective.form.atcorr(params[objective.n_coef :]))

    return tuple(
        Climb(corr(start), corr(end.params), end.value, end.status, end.n_iter)
        for start, end in zip(starts, found, strict=True)
    )


def tops(
    objective: Objective,
    coef: Floats,
    fixed: Floats,
    free: Mask,
    n_starts: int | None = None,
    rarest: float = 0.5,
) -> Floats:
    """(m, P) start values, one for each top of the profile over the grid, the highest first."""
    starts = grid_starts(objective, coef, fixed, free, n_starts)
    if len(starts) == 1:
        return starts
    estimated = np.concatenate([np.ones(len(coef), dtype=bool), free])
    count = max(_SAMPLE, math.ceil(_RARE / max(rarest, 1e-6)))
    n = objective.rows.n
    # Penalised columns make every row dearer.
    worth = 4 if objective.smoothing is None else 2
    small = _coarse(objective.sample(count) if n > worth * count else objective)
    held = np.concatenate([np.ones(len(coef), dtype=bool), np.zeros_like(free)])
    far = _far(objective, free)
    if far is not None:
        ends = _moved(objective, starts[[0, -1]], [-far, far])
        starts = np.concatenate([ends[:1], starts, ends[1:]])
    starts = _foreseen(small, starts, coef)
    at = len(coef) + int(np.argmax(free))
    fitted = _profile(small, starts, held, at)
    inside = max(fitted if far is None else fitted[1:-1], key=lambda tried: tried.value).params
    if far is not None:
        fitted = _to_the_bounds(small, fitted, held, at)
    values = np.array([tried.value for tried in fitted])
    order = [i for i in _local_maxima(values) if np.isfinite(fitted[i].params).all()]
    order.sort(key=lambda i: -values[i])
    if not order:
        return starts[[int(np.argmax(values))]]
    begin = np.stack([_between(objective, fitted, i, at) for i in order])
    # Most of the way to a maximum is the same on a part of the rows.
    part = _LARGER * count
    most = _MOST_COPIED if isinstance(objective.rows, Rows) else part
    while 2 * part < n and part <= most:
        larger = objective.sample(part)
        climbed = _climb(larger, begin, estimated, {"maxiter": 50, "aim": _NEAR})
        kept = [solution for solution in climbed if ended_well(solution)]
        ahead = [s.params for s in distinct(larger, kept) if not _hopeless(s, kept, n / part)]
        begin = np.stack(ahead) if ahead else begin
        part *= _LARGER
    return begin if small.rows.n == n else _not_only_corners(objective, begin, inside)


def _not_only_corners(objective: Objective, starts: Floats, inside: Floats) -> Floats:
    """Add the best fit inside to starts that a sample sends to a corner.

    One row that contradicts a perfect correlation takes all rows away from the corner, and a
    sample may not have it; from there the climb on all rows would not find its way back.
    """
    if any(abs(objective.form.atcorr(start[objective.n_coef :])) <= _FAR for start in starts):
        return starts
    return np.vstack([starts, inside])


def _foreseen(objective: Objective, starts: Floats, coef: Floats) -> Floats:
    """Starts whose outcome coefficients allow for the selection at their dependence.

    Given selection at the index b, the selection error has the mean m = phi(b)/PHI(b) and the
    variance v = 1 - m (m + b). The outcome's index that leaves a labelled row's probability as it
    was without dependence is therefore about a sqrt(1 - c^2 (1 - v)) - c m in units of the total
    error, c the error correlation; the coefficients are its regression on the columns.
    """
    rows, form, p = objective.rows, objective.form, objective.p
    if not isinstance(rows, Rows) or rows.batched:
        return starts
    labelled = rows.tilt > 0
    X, weight = rows.X[:, labelled], rows.weight[labelled]
    beta, gamma = (torch.as_tensor(v, device=rows.device) for v in (coef[:p], coef[p:]))
    offset = rows.offset[labelled]
    a = beta @ X + offset
    b = gamma @ rows.W[:, labelled] + rows.offset_select[labelled]
    m = mills(b)
    v = (1.0 - m * (m + b)).clamp(min=0.0)
    values = starts[:, objective.n_coef :]
    corr = np.array([[math.tanh(form.atcorr(value))] for value in values])
    unit = np.array([[form.outcome_units(value)] for value in values])
    c, units = (torch.as_tensor(v, device=rows.device) for v in (corr, unit))
    error = math.sqrt(form.link.variance)
    index = units * (a * torch.sqrt(1.0 - c**2 * (1.0 - v)) - error * c * m)  # (G, n)
    likely = weight / (2.0 + a.abs().exp())  # as the information of a logit
    found, failed = torch.linalg.solve_ex((X * likely) @ X.mT, (X * likely) @ (index - offset).mT)
    new = found.mT.cpu().numpy()
    if failed or not np.isfinite(new).all():
        return starts
    return np.column_stack([new, starts[:, p:]])


class _Tried(NamedTuple):
    """A value of the dependence with its coefficients fitted."""

    params: Floats  # (P,)
    value: float
    slope: float  # of the profile

    @classmethod
    def of(cls, solution: Solution, held: Mask, at: int) -> _Tried:
        """From a fit of Newton's, by what its quadratic model foresees of the next step."""
        assert solution.score is not None
        coef, score, hessian = held.nonzero()[0], solution.score, solution.hessian
        alone = cls(solution.params, comparable(solution), float(score[at]))
        try:
            step = np.linalg.solve(-hessian[np.ix_(coef, coef)], score[coef])
        except np.linalg.LinAlgError:
            return alone
        gain = 0.5 * float(step @ score[coef])
        if not 0.0 <= gain < _SMALL_GAIN or not np.isfinite(solution.value):
            return alone
        params = solution.params.copy()
        if not ended_well(solution):  # those that have include the step
            params[coef] += step
        return cls(params, solution.value + gain, float(score[at] + hessian[at, coef] @ step))


def _profile(objective: Objective, starts: Floats, held: Mask, at: int) -> list[_Tried]:
    """Fit the coefficients at each start, well enough to rank them.

    By plain Newton steps, which the concave problem and good starts allow, and by the trust region
    for those that such a step would not raise. ``at`` is the position of the free dependence.
    """
    coef = held.nonzero()[0]
    theta, found = starts.copy(), dict[int, _Tried]()
    running, before = np.arange(len(starts)), np.full(len(starts), -np.inf)
    for left in reversed(range(_HELD_STEPS + 1)):
        now = objective.evaluate(theta[running], 2)
        assert now.score is not None
        assert now.hessian is not None
        value, score, hessian = (v.cpu().numpy() for v in (now.value, now.score, now.hessian))
        information = torch.as_tensor(-hessian[:, coef[:, None], coef])
        solved, failed = torch.linalg.solve_ex(information, torch.as_tensor(score[:, coef]))
        step = solved.numpy()
        gain = 0.5 * (step * score[:, coef]).sum(-1)
        sound = (failed.numpy() == 0) & (gain >= 0.0) & (value >= before[running])
        theta[np.ix_(running, coef)] += np.where(sound[:, None], step, 0.0)
        slope = score[:, at] + (hessian[:, at, coef] * step).sum(-1)
        ended = sound & (gain <= (_SMALL_GAIN if left == 0 else _FORESEEN))
        for i, member in zip(np.flatnonzero(ended), running[ended].tolist(), strict=True):
            found[member] = _Tried(theta[member], float(value[i] + gain[i]), float(slope[i]))
        before[running] = value
        running = running[sound & ~ended]
        if not len(running):
            break
    rest = [i for i in range(len(starts)) if i not in found]
    if rest:
        climbed = _climb(objective, starts[rest], held, _ROUGH)
        found |= {i: _Tried.of(each, held, at) for i, each in zip(rest, climbed, strict=True)}
    return [found[i] for i in range(len(starts))]


def _between(objective: Objective, fitted: list[_Tried], i: int, at: int) -> Floats:
    """Where the cubic through a top of the profile and its neighbour has its maximum.

    By the values and the slopes of the two; ``at`` is the position of the free dependence.
    """
    here = fitted[i]
    j = i + (1 if here.slope > 0 else -1)
    if not 0 <= j < len(fitted) or not np.isfinite(fitted[j].params).all():
        return here.params
    form, n_coef = objective.form, objective.n_coef
    first, last = (here, fitted[j]) if i < j else (fitted[j], here)
    x0, x1, s0, s1 = first.params[at], last.params[at], first.slope, last.slope
    if not (s0 > 0.0 > s1 and x1 > x0):
        return here.params
    # In the coordinate in which the grid is even, where the form has one: atanh of the correlation.
    even = form.at_corr(np.zeros(1)) is not None
    u0, u1 = x0, x1
    if even:
        u0, u1 = (form.atcorr(tried.params[n_coef:]) for tried in (first, last))
        s0, s1 = (
            tried.slope / form.corr_slope(tried.params[n_coef:])[0] for tried in (first, last)
        )
    width = u1 - u0
    rise = (last.value - first.value) / width
    # Derivative of the cubic at u0 + share * width: s0 + (6 rise - 4 s0 - 2 s1) share + ...
    c, b, a = s0, 6.0 * rise - 4.0 * s0 - 2.0 * s1, 3.0 * (s0 + s1) - 6.0 * rise
    root = math.sqrt(max(b * b - 4.0 * a * c, 0.0))
    share = 2.0 * c / (root - b) if root > b else 0.5
    if not 0.0 < share < 1.0:
        return here.params
    u = u0 + share * width
    found = first.params.copy()
    value = form.at_corr(np.array([u])) if even else None
    found[at] = u if value is None else value[0]
    units = _units(objective)
    scales = [units(tried.params[n_coef:]) for tried in (first, last)]
    coefs = [tried.params[:n_coef].copy() for tried in (first, last)]
    for coef, scale in zip(coefs, scales, strict=True):
        coef[: objective.p] /= scale
    found[:n_coef] = (1.0 - share) * coefs[0] + share * coefs[1]
    found[: objective.p] *= units(found[n_coef:])
    return found


def _to_the_bounds(objective: Objective, fitted: list[_Tried], held: Mask, at: int) -> list[_Tried]:
    """The fits over the grid, and those on to a bound where they rise towards it.

    A profile may fall and rise again on its way to a corner. From the bound itself Newton needs a
    few steps; from the grid it would creep there.
    """
    ends = {-1: fitted[:3], 1: fitted[:-4:-1]}
    at_bound: dict[int, list[_Tried]] = {-1: [], 1: []}
    for side, inward in ends.items():
        first, second, third = (tried.value for tried in inward)
        if first > second or second > third:
            for value in objective.form.to_bound():
                near = [*inward[:1], *at_bound[side]][-1]
                start = _moved(objective, near.params[None], [side * value])
                climbed = _climb(objective, start, held, {"maxiter": _HELD_STEPS + 1})
                at_bound[side] += [_Tried.of(each, held, at) for each in climbed]
    return [*reversed(at_bound[-1]), *fitted, *at_bound[1]]


def _units(objective: Objective) -> Callable[[Floats], float]:
    """What outcome coefficients are multiplied by as the dependence changes.

    Beside an offset, whose unit does not change, they are left as they are.
    """
    if isinstance(objective.rows, Rows) and bool(objective.rows.offset.any()):
        return lambda values: 1.0
    return objective.form.outcome_units


def _moved(objective: Objective, params: Floats, values: list[float]) -> Floats:
    """(m, P) with the one dependence parameter at these values, coefficients in their units."""
    starts = params.copy()
    units = _units(objective)
    scales = [units(np.array([v])) / units(s[-1:]) for v, s in zip(values, starts, strict=True)]
    starts[:, : objective.p] *= np.array(scales)[:, None]
    starts[:, -1] = values
    return starts


def tops_many(
    objective: Objective, coefs: Floats, fixed: Floats, free: Mask
) -> tuple[Floats, Mask]:
    """Start values of the members of a batch that have rows of their own.

    Returns
    -------
    starts : ndarray
        (B, P): the value of the grid whose coefficients, once fitted, are the most likely.
    single : ndarray of bool
        (B,) whether the profile over the grid has that top only, inside; others need a search of
        their own.
    """
    grids = np.stack([grid_starts(objective, coef, fixed, free) for coef in coefs], axis=1)
    if len(grids) == 1:
        return grids[0], np.ones(len(coefs), dtype=bool)
    held = np.concatenate([np.ones(coefs.shape[1], dtype=bool), np.zeros_like(free)])
    fitted = [_climb(objective, starts, held, {"maxiter": _HELD_STEPS}) for starts in grids]
    far = _far(objective, free)
    if far is not None:
        lower, upper = (
            _held_at(objective, end, [value] * len(end), held)
            for end, value in ((fitted[0], -far), (fitted[-1], far))
        )
        fitted = [lower, *fitted, upper]
    values = np.array([[comparable(s) for s in at] for at in fitted])
    best = np.argmax(values, axis=0)
    single = [
        _local_maxima(own) == [top] and 0 < top < len(fitted) - 1
        for own, top in zip(values.T, best, strict=True)
    ]
    starts = np.stack([fitted[i][b].params for b, i in enumerate(best)])
    return starts, np.array(single)


def _held_at(
    objective: Objective, near: list[Solution], values: list[float], held: Mask
) -> list[Solution]:
    """Fits with the dependence at each value, from a fit near by."""
    starts = _moved(objective, np.stack([solution.params for solution in near]), values)
    return _climb(objective, starts, held, {"maxiter": _HELD_STEPS + 1})


def _far(objective: Objective, free: Mask) -> float | None:
    """The dependence tried beyond the grid, in forms whose corner lies there."""
    far = objective.form.at_corr(np.array([_FAR]))
    return None if far is None or not free.any() else float(far[0])


def _coarse(objective: Objective) -> Objective:
    """With as few nodes as tell the values of a grid apart."""
    return objective.with_form(objective.form.coarse(_COARSE))


def _climb(
    objective: Objective, starts: Floats, free: Mask, options: dict[str, Any]
) -> list[Solution]:
    parts = maximize_many(objective, starts, free=free, **options)
    return [at_corner(objective, solution) for part in parts for solution in part]


def at_corner(objective: Objective, solution: Solution) -> Solution:
    """Name the corner of the probit form at which the likelihood has become flat.

    Where no row is near the kink that the likelihood has there, it no longer depends on rho.
    """
    side = objective.form.corner(solution.params[objective.n_coef :])
    if solution.status is not Status.FLAT or not side:
        return solution
    return replace(solution, status=Status.RHO_PLUS if side > 0 else Status.RHO_MINUS)


def _local_maxima(values: Floats) -> list[int]:
    padded = np.concatenate([[-np.inf], values, [-np.inf]])
    inner = padded[1:-1]
    return np.flatnonzero((inner >= padded[:-2]) & (inner > padded[2:])).tolist()


def _hopeless(solution: Solution, others: list[Solution], ratio: float) -> bool:
    """Whether a maximum of a sample falls behind by so much that all rows will not turn it round.

    The shortfall grows with the rows, its error with their root only.
    """
    behind = max(comparable(other) for other in others) - comparable(solution)
    return behind * ratio - 4.0 * math.sqrt(max(behind, 0.0)) * ratio > _HOPELESS


def grid_starts(
    objective: Objective, coef: Floats, fixed: Floats, free: Mask, n_starts: int | None = None
) -> Floats:
    """(G, P) the grid over the free dependence, each with coefficients in its units."""
    form = objective.form
    if not free.any():
        return np.concatenate([coef, fixed])[None]
    u = np.array(_GRID) if n_starts is None else np.linspace(-_WIDEST, _WIDEST, n_starts)
    one = form.at_corr(u)
    if one is not None:
        grid = one[:, None]
    else:
        lnsigma = np.linspace(*_LNSIGMA, len(u)) if free[0] else np.full(len(u), fixed[0])
        grid = np.column_stack([lnsigma, u if free[1] else np.full(len(u), fixed[1])])
    rows = np.column_stack([np.tile(coef, (len(grid), 1)), grid])
    units = _units(objective)
    rows[:, : objective.p] *= np.array([[units(values)] for values in grid])
    return rows


def distinct(objective: Objective, found: list[Solution]) -> tuple[Solution, ...]:
    """The climbs that ended at different places, the highest first.

    Those that did not end at a maximum are left out, unless none did.
    """
    found = sorted(found, key=comparable, reverse=True)
    at = [solution for solution in found if ended_well(solution)]
    kept: list[Solution] = []
    for solution in at or found[:1]:
        if not any(_same_top(objective, other, solution) for other in kept):
            kept.append(solution)
    if at and comparable(found[0]) > comparable(at[0]) + 1e-6:
        kept.insert(0, found[0])  # higher than every maximum, though it has not converged
    return tuple(kept)


def _same_top(objective: Objective, higher: Solution, lower: Solution) -> bool:
    """Whether two climbs ended at one maximum, which may reach to a corner that is as high."""
    u, v = _atcorr(objective, higher), _atcorr(objective, lower)
    level = lower.status.boundary and comparable(higher) - comparable(lower) < _LEVEL
    return abs(u - v) <= _SAME or (level and u * v > 0.0)


def _atcorr(objective: Objective, solution: Solution) -> float:
    return objective.form.atcorr(solution.params[objective.n_coef :])


# -- the interior of the free model ----------------------------------------------------------------


@dataclass(frozen=True)
class _Searched(Inner):
    """Wider in sigma than along a path: here a bound decides what is reported."""

    upper: ClassVar[tuple[float, ...]] = (math.log(10.0), Inner.upper[1])


@dataclass(frozen=True, slots=True)
class Place:
    """A maximum of a face, where the search of the interior begins."""

    coef: Floats  # (p + k,) in the face's units
    sigma: float  # infinite on the probit face
    atcorr: float

    @classmethod
    def of(cls, model: Any, solution: Solution) -> Place:
        spec = model.parametrized
        n_coef = len(solution.params) - len(spec.form.names)
        values = solution.params[n_coef:]
        sigma = spec.form.dependence(values).sigma
        return cls(solution.params[:n_coef], sigma, spec.form.atcorr(values))


def humps(found: list[tuple[Any, Solution]]) -> tuple[tuple[Any, Solution], ...]:
    """Models and their maxima that differ in the error correlation; the first is kept as such.

    The forms of the free model share their humps: of each, the highest point is shown.
    """
    kept = found[:1]
    for model, solution in sorted(found[1:], key=lambda pair: -comparable(pair[1])):
        at = Place.of(model, solution).atcorr
        if ended_well(solution) and all(
            abs(at - Place.of(*other).atcorr) > _SAME_HUMP for other in kept
        ):
            kept.append((model, solution))
    return tuple(kept)


def label(normalization: Normalization) -> str:
    """A normalization in words."""
    if isinstance(normalization, str):
        return normalization
    return ", ".join(f"{name} = {value:g}" for name, value in normalization.items())


def search_interior(
    objective: Objective,
    places: list[Place],
    faces: float,
    n_starts: int | None = None,
    **options: Any,
) -> Found:
    """Climb the interior of the free model from the maxima of its faces.

    Parameters
    ----------
    faces : float
        Largest log-likelihood on a face; an interior no higher than that is not refined.

    Notes
    -----
    Without a penalty in the coordinates of the error correlation, in which the likelihood is close
    to a ridge along one axis; with one, which holds in the coefficients' own units, in those.
    """
    form = objective.form
    assert isinstance(form, FreeForm)
    starts = np.stack([_interior_start(objective, place) for place in places])
    if n_starts is not None:
        starts = np.concatenate([starts, _spread(objective, places[0], n_starts)])
    if objective.penalised:
        found = _climb(search_bounds(objective), starts, _all(starts), options)
    else:
        narrow = objective.with_form(InnerCorrelation(form.integration))
        inner = np.stack([_to_correlation(objective, start) for start in starts])
        found = _climb(narrow, inner, _all(inner), options)
    if not objective.penalised:
        found = [_in_own_units(objective, solution) for solution in found]
    maxima = distinct(objective, found)
    if comparable(maxima[0]) > faces:  # from there in the form's own parameters and bounds
        maxima = (maximize(objective, maxima[0].params, **options), *maxima[1:])
    return Found(maxima, _climbs(objective, starts, found), starts[0])


def search_bounds(objective: Objective) -> Objective:
    """The free form within the bounds of a search; other forms as they are."""
    form = objective.form
    if isinstance(form, FreeForm):
        return objective.with_form(_Searched(form.integration))
    return objective


def _all(starts: Floats) -> Mask:
    return np.ones(starts.shape[1], dtype=bool)


def _interior_start(objective: Objective, place: Place) -> Floats:
    """Close to a face, at the same error correlation."""
    corr = math.tanh(float(np.clip(place.atcorr, -2.5, 2.5)))
    share = max(abs(corr) + 0.15 * (1.0 - abs(corr)), 0.05)  # of the normal error, near |rho| = 1
    if math.isinf(place.sigma):
        share = abs(corr) + 0.8 * (1.0 - abs(corr))
    sigma = math.sqrt(LOGIT.variance) * share / math.sqrt(1.0 - share**2)
    coef = place.coef.copy()
    own = math.sqrt(LOGIT.variance)
    standard = own if math.isinf(place.sigma) else 1.0 / outcome_scale(place.sigma)
    coef[: objective.p] *= standard * outcome_scale(sigma)
    return np.append(coef, [math.log(sigma), math.atanh(corr / share)])


def _spread(objective: Objective, place: Place, count: int) -> Floats:
    """Coefficients of one place with points spread over sigma (0.2 to 6) and rho (-0.97, 0.97)."""
    from scipy.stats import qmc

    power = math.ceil(math.log2(count))
    points = qmc.Sobol(d=2, rng=np.random.default_rng(0)).random_base2(power)[:count]
    at = qmc.scale(points, [math.log(0.2), -2.1], [math.log(6.0), 2.1])
    rows = np.tile(_interior_start(objective, place), (count, 1))
    scales = [outcome_scale(math.exp(v)) / outcome_scale(math.exp(rows[0, -2])) for v in at[:, 0]]
    rows[:, : objective.p] *= np.array(scales)[:, None]
    rows[:, -2:] = at
    return rows


def _to_correlation(objective: Objective, start: Floats) -> Floats:
    """Parameters of the free form -> coefficients standardized, (mix, atcorr)."""
    lnsigma, athrho = start[-2:]
    sigma, rho = math.exp(lnsigma), math.tanh(athrho)
    share = sigma / math.sqrt(sigma**2 + LOGIT.variance)
    corr = rho * share
    q = float(np.clip((share - abs(corr)) / (1.0 - abs(corr)), 1e-6, 1.0 - 1e-6))
    found = np.append(start[:-2], [math.log(q / (1.0 - q)), math.atanh(corr)])
    found[: objective.p] /= outcome_scale(sigma)
    low, high = InnerCorrelation.lower, InnerCorrelation.upper
    found[-2:] = np.clip(found[-2:], low, high)
    return found


def _in_own_units(objective: Objective, solution: Solution) -> Solution:
    """A solution in (mix, atcorr) at the free form's parameters; the Hessian is still in those."""
    params = solution.params
    values = CorrelationForm().free_values(torch.as_tensor(params[-2:])[None])[0].numpy()
    coef = params[:-2].copy()
    coef[: objective.p] *= outcome_scale(math.exp(values[0]))
    return replace(solution, params=np.append(coef, values))
