"""Penalties of terms, by the marginal likelihood that Laplace's approximation gives (REML).

A term has coefficients b and subtracts lambda/2 b'Sb from the log-likelihood, as if they were
normal with precision lambda S. With H the information at the penalised maximum, penalties included,
the log marginal likelihood is

    V = l - sum lambda_j/2 b'S_j b + sum (rank_j log lambda_j + log|S_j|_+)/2 - log|H|/2 + const,

all coefficients being integrated out: REML. The dependence t is either one of them, at the joint
mode, as in GJRM. Or it is outside (`Outer`) and maximises the marginal likelihood too, with the
penalised directions U integrated out, which is maximum likelihood with random effects:

    l - sum lambda_j/2 b'S_j b - log|U'HU|/2.

Where levels have few rows, effects at a mode take up noise, for which the joint mode makes up by
too strong a dependence; without any variance both are the maximum of the likelihood. Once the
penalties are known, the last term, as a function of t, is added to the log-likelihood
(`adjustment_of`), whose maximum over all parameters is then the estimate.

In rho_j = log lambda_j the slope of V is

    2 dV/drho_j = rank_j - lambda_j tr(V_j S_j) - c_j - lambda_j b'S_j b,

V = H^(-1) and c_j = tr(V dH/drho_j), the change of H with the estimates. The generalised
Fellner-Schall update multiplies lambda_j by the ratio at which this is zero (Wood and Fasiolo 2017,
who leave c_j out); its fixed point is a stationary point of V. Here the logarithm of that ratio is
the residual of a secant iteration in each rho_j, which needs fewer steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..types import Floats
from .binary import BinaryObjective
from .levels import Effects
from .objective import Adjustment, Likelihood, Objective
from .solution import Solution, ended_well

_SLOPE = 2e-4  # of the marginal likelihood in log lambda, at which an update ends
_MOST_UPDATES = 60
_LONGEST = 3.0  # step of log lambda
_RANGE = math.log(1e7)  # of log lambda about the penalty that weighs as much as the data
_NOTHING = 0.05  # effective degrees of freedom of what is penalised, below which zero is tried
_HALVINGS = 8
# Of the marginal likelihood, whose log determinant follows estimates 1e-6 standard errors from the
# maximum.
_ROUNDING = 1e-6
_FARTHEST = 1.0  # step of the dependence
_NEAR = 0.5  # steps of log lambda whose estimates begin on the tangent of the last ones
_KNOTS = np.array([-3.0, -2.3, -1.7, -1.2, -0.8, -0.4, 0.0, 0.4, 0.8, 1.2, 1.7, 2.3, 3.0])
_CLOSE = 0.15  # distance of the knots about the estimate, in atanh of the error correlation
_ASINH = np.array([math.asinh(1.0)])
_STEP = 1e-3  # of the differences that give c_j, in the largest change of a unit-size column


@dataclass(frozen=True, slots=True, eq=False)
class Penalised:
    """The coefficients that a term penalises.

    Effects that are apart (`levels`) are none of the parameters; their matrix is empty.
    """

    first: int  # position of the first among all coefficients
    matrix: Floats  # (q, q) S
    rank: int
    fixed: float | None = None  # lambda, where it is not estimated

    @property
    def apart(self) -> bool:
        """Whether these are effects that are apart."""
        return len(self.matrix) == 0

    @property
    def cut(self) -> slice:
        """Their positions among all parameters."""
        return slice(self.first, self.first + len(self.matrix))

    @property
    def log_determinant(self) -> float:
        """log|S|_+, of the part that has full rank."""
        if self.apart or self.rank == len(self.matrix):  # the identity
            return 0.0
        values = np.linalg.eigvalsh(self.matrix)
        return float(np.log(values[-self.rank :]).sum())

    @property
    def directions(self) -> Floats:
        """(q, rank) what is penalised, orthonormal."""
        if self.apart or self.rank == len(self.matrix):
            return np.eye(len(self.matrix))
        return np.linalg.eigh(self.matrix)[1][:, -self.rank :]


@dataclass(frozen=True, slots=True, eq=False)
class Penalties:
    """What a fit found for its terms."""

    values: Floats  # (m,) lambda
    estimated: NDArray[np.bool_]  # (m,)
    vanished: NDArray[np.bool_]  # (m,) the variance went to zero
    marginal: float  # log marginal likelihood
    n_updates: int
    converged: bool
    adjustment: Adjustment | None = None  # of the dependence; None where it is at a joint mode


def total_penalty(blocks: Sequence[Penalised], values: Floats, n_coef: int) -> Floats:
    """Sum of lambda_j S_j over the terms, (n_coef, n_coef)."""
    found = np.zeros((n_coef, n_coef))
    for block, value in zip(blocks, values, strict=True):
        found[block.cut, block.cut] += value * block.matrix
    return found


class Outer(NamedTuple):
    """The dependence parameter over which the marginal likelihood is maximised."""

    position: int  # among all parameters
    low: float  # between which it is sought
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class Marginal:
    """The marginal likelihood at given penalties, and a given dependence if that is outer.

    The coordinates are log lambda of each term and then, if it is outer, the dependence.
    """

    value: float
    slope: Floats  # (m,) or (m + 1,), the last of the likelihood that the dependence maximises
    used: Floats  # (m,) rank_j - lambda_j tr(V_j S_j), effective degrees of freedom of what shrinks
    step: Floats  # logarithm of the Fellner-Schall ratio, and Newton's step of the dependence
    moves: Floats  # (., P) derivatives of the estimates


def marginal(
    objective: Likelihood | BinaryObjective,
    solution: Solution,
    free: NDArray[np.bool_],
    blocks: Sequence[Penalised],
    values: Floats,
    outer: Outer | None = None,
    *,
    exact: bool = True,
) -> Marginal | None:
    """Laplace's log marginal likelihood at a penalised maximum; None where there is no maximum.

    Parameters
    ----------
    objective : Objective
        With these penalties, and without an adjustment of the dependence.
    free : ndarray of bool
        (P,) the parameters that are integrated out.
    outer : Outer, optional
        The dependence, where it is not.
    exact : bool
        With the terms tr(V dH), for which the information is evaluated at two more points a
        coordinate; without them there is no slope in the dependence.
    """
    information = -solution.hessian[np.ix_(free, free)]
    scale = np.sqrt(np.abs(np.diag(information)))
    if not np.isfinite(information).all() or (scale == 0).any():
        return None
    try:
        root = np.linalg.cholesky(information / np.outer(scale, scale))
    except np.linalg.LinAlgError:
        return None
    inverse = np.linalg.inv(root) / scale
    full = np.zeros((len(free), len(free)))
    full[np.ix_(free, free)] = inverse.T @ inverse
    theta = solution.params
    rank = np.array([float(block.rank) for block in blocks])
    effects = _effects_at(objective, theta, blocks)
    pulls = [_pull(block, value, theta, effects)
             for block, value in zip(blocks, values, strict=True)]  # fmt: skip
    shrunk = np.array(
        [float((effects.values if b.apart and effects else theta[b.cut]) @ pull)
         for b, pull in zip(blocks, pulls, strict=True)]
    )  # fmt: skip
    used = rank - np.array(
        [v * (effects.covariance_trace(full) if b.apart and effects
              else float(np.sum(full[b.cut, b.cut] * b.matrix)))
         for b, v in zip(blocks, values, strict=True)]
    )  # fmt: skip
    moves = np.stack(
        [-full @ (effects.tangent @ pull) if b.apart and effects else -full[:, b.cut] @ pull
         for b, pull in zip(blocks, pulls, strict=True)]
    )  # fmt: skip
    if outer is not None:
        along = full @ solution.hessian[:, outer.position]
        along[outer.position] = 1.0
        moves = np.vstack([moves, along])
    if not np.isfinite(theta + moves).all():  # the information is singular
        return None
    change = np.zeros(len(moves))
    if exact and effects is not None:
        assert isinstance(objective, Likelihood)
        own = [-pull / effects.information if b.apart else np.zeros(len(effects.values))
               for b, pull in zip(blocks, pulls, strict=True)]  # fmt: skip
        own += [np.zeros(len(effects.values))] * (outer is not None)
        frees = [_directions_of(free)] * len(blocks)
        frees += [shrunk_directions(blocks, len(theta))] * (outer is not None)
        change = _changes_apart(objective, theta, moves, effects, own, frees)
    elif exact:
        inverses = np.broadcast_to(full, (len(moves), *full.shape))
        if outer is not None:
            inverses = np.concatenate([inverses[:-1], _inverse_of_shrunk(solution, blocks)[None]])
        change = _changes(objective, theta, moves, inverses)
    log_determinant = 2.0 * float(np.log(np.diag(root) * scale).sum()) + solution.apart
    size = sum(b.rank * math.log(v) + b.log_determinant
               for b, v in zip(blocks, values, strict=True))  # fmt: skip
    flat = float(free.sum()) - sum(b.rank for b in blocks if not b.apart)
    value = solution.value + 0.5 * (size - log_determinant + flat * math.log(2.0 * math.pi))
    left = used - change[: len(blocks)]
    # Far from the fixed point c_j can outweigh the rest; the update without it points the way.
    left = np.where(left > 0.0, left, np.maximum(used, 1e-12))
    step = np.clip(np.log(left / np.maximum(shrunk, 1e-300)), -_LONGEST, _LONGEST)
    slope = 0.5 * (used - change[: len(blocks)] - shrunk)
    if outer is not None:
        score = objective.evaluate(theta, 1).score
        assert score is not None
        rise = float(moves[-1] @ score[0].cpu().numpy()) - 0.5 * change[-1]
        bend = abs(float(moves[-1] @ solution.hessian @ moves[-1]))
        slope = np.append(slope, rise)
        step = np.append(step, rise / max(bend, 1e-12))
    return Marginal(value, slope, used, step, moves)


def _effects_at(
    objective: Likelihood | BinaryObjective, theta: Floats, blocks: Sequence[Penalised]
) -> Effects | None:
    """The effects that are apart; None without any."""
    if not any(block.apart for block in blocks):
        return None
    assert isinstance(objective, Likelihood)
    return objective.effects(theta)


def _pull(block: Penalised, value: float, theta: Floats, effects: Effects | None) -> Floats:
    """lambda S b."""
    if block.apart and effects is not None:
        return value * effects.values
    pull: Floats = value * block.matrix @ theta[block.cut]
    return pull


def _directions_of(free: NDArray[np.bool_]) -> Floats:
    """(P, r) unit vectors of these parameters."""
    return np.eye(len(free))[:, free]


def _changes_apart(
    objective: Likelihood,
    theta: Floats,
    moves: Floats,
    effects: Effects,
    own: Sequence[Floats],
    directions: Sequence[Floats],
) -> Floats:
    """Changes of log|H| with effects apart, as estimates and effects move, by differences.

    Parameters
    ----------
    moves : ndarray
        (m, P) of the parameters.
    own : sequence of ndarray
        (q,) moves of the effects beside those that follow the parameters.
    directions : sequence of ndarray
        (P, r) of the parameters that are integrated out with the effects, for each move.
    """
    found = np.zeros(len(moves))
    for i, (move, more, along) in enumerate(zip(moves, own, directions, strict=True)):
        shift = move @ effects.tangent + more
        length = max(np.abs(move * objective.scale).max(), np.abs(shift).max())
        if length == 0.0:
            continue
        step = _STEP / length
        ends = []
        for sign in (step, -step):
            information, apart = objective.information_at(
                theta + sign * move, effects.values + sign * shift
            )
            ends.append(apart + np.linalg.slogdet(along.T @ information @ along)[1])
        found[i] = (ends[0] - ends[1]) / (2.0 * step)
    return found


def shrunk_directions(blocks: Sequence[Penalised], n_params: int) -> Floats:
    """(P, r) the directions U that penalties hold, but for effects that are apart."""
    own = [block for block in blocks if not block.apart]
    found = np.zeros((n_params, sum(block.rank for block in own)))
    first = 0
    for block in own:
        found[block.cut, first : first + block.rank] = block.directions
        first += block.rank
    return found


def _inverse_of_shrunk(solution: Solution, blocks: Sequence[Penalised]) -> Floats:
    """U (U'HU)^(-1) U', (P, P)."""
    directions = shrunk_directions(blocks, len(solution.params))
    inner = directions.T @ -solution.hessian @ directions
    found: Floats = directions @ np.linalg.solve(inner, directions.T)
    return found


def _changes(
    objective: Likelihood | BinaryObjective, theta: Floats, moves: Floats, inverses: Floats
) -> Floats:
    """tr(V dH) as the estimates move along each direction, by central differences.

    ``inverses`` are the V of each, (., P, P).
    """
    found = np.zeros(len(moves))
    length = np.abs(moves * objective.scale).max(axis=1)
    moving = np.flatnonzero(length > 0)
    if not len(moving):
        return found
    steps = _STEP / length[moving]
    shifts = steps[:, None] * moves[moving]
    at = objective.evaluate(np.concatenate([theta + shifts, theta - shifts]), 2)
    assert at.hessian is not None
    hessian = at.hessian.cpu().numpy()
    difference = (hessian[len(moving) :] - hessian[: len(moving)]) / (2.0 * steps)[:, None, None]
    found[moving] = np.einsum("mij,mij->m", difference, inverses[moving])
    return found


def references(
    objective: Likelihood | BinaryObjective,
    solution: Solution,
    blocks: Sequence[Penalised],
    penalty: Floats,
) -> Floats:
    """The penalty of each term that weighs as much as the data do, (m,).

    Parameters
    ----------
    solution : Solution
        With the penalties.
    penalty : ndarray
        (m,) those penalties.
    """
    found = []
    effects = _effects_at(objective, solution.params, blocks)
    for block, own in zip(blocks, penalty, strict=True):
        if block.apart and effects is not None:
            data, prior = float((effects.information - own).sum()), float(block.rank)
        else:
            information = -solution.hessian[block.cut, block.cut] - own * block.matrix
            data, prior = float(np.trace(information)), float(np.trace(block.matrix))
        found.append(max(data, 1e-8 * own * prior, 1e-12) / prior)
    return np.array(found)


Target = TypeVar("Target", Objective, BinaryObjective)


def choose(
    objective: Target,
    solution: Solution,
    free: NDArray[np.bool_],
    blocks: Sequence[Penalised],
    values: Floats,
    maximize: Callable[[Target, Floats], Solution],
    outer: Outer | None = None,
    *,
    slope: float = _SLOPE,
    most: int = _MOST_UPDATES,
) -> tuple[Solution, Penalties]:
    """Maximise the marginal likelihood over the penalties that are not fixed, and the dependence.

    Parameters
    ----------
    objective : Objective
        With the penalties ``values``, of which ``solution`` is the maximum.
    free : ndarray of bool
        (P,) the parameters that are integrated out.
    maximize : callable
        An objective and start values -> its maximum near them in the free parameters.
    outer : Outer, optional
        The dependence, where it is not integrated out; ``solution`` has it held.
    slope : float
        Ends when no slope of the marginal likelihood in log lambda is larger, nor that in the
        dependence times its standard error.

    Returns
    -------
    solution : Solution
        The maximum at the penalties found.
    found : Penalties
    """
    m = len(blocks)
    estimated = np.array([block.fixed is None for block in blocks])
    open_ = estimated if outer is None else np.append(estimated, True)
    middle = np.log(references(objective, solution, blocks, values))
    low, high = middle - _RANGE, middle + _RANGE
    rho = np.log(np.maximum(values, 1e-300))
    given = rho.copy()
    rho = np.where(estimated, np.clip(rho, low, high), rho)
    if outer is not None:
        low, high = np.append(low, outer.low), np.append(high, outer.high)
        rho = np.append(rho, solution.params[outer.position])

    def evaluate(rho: Floats, start: Floats) -> tuple[Solution, Marginal | None]:
        own, values = smoothed(objective, blocks, np.exp(rho[:m])), np.exp(rho[:m])
        if outer is not None:
            start = start.copy()
            start[outer.position] = rho[-1]
        there = maximize(own, start)
        return there, marginal(own, there, free, blocks, values, outer)

    at = marginal(objective, solution, free, blocks, values, outer)
    if not np.allclose(rho[:m], given, rtol=0.0, atol=1e-12):
        solution, at = evaluate(rho, solution.params)
    before: tuple[Floats, Floats] | None = None
    tried = ~open_  # terms whose zero variance was tried in vain
    tried[m:] = True
    updates, done = 0, False
    while at is not None:
        ended = open_ & (rho >= high - 1e-9) & (at.slope > -slope)
        ended[m:] |= (rho[m:] <= low[m:] + 1e-9) & (at.slope[m:] < slope)
        active = open_ & ~ended
        done = bool((_sizes(at, m)[active] <= slope).all())
        if done or updates >= most:
            break
        updates += 1
        leap = active & ~tried & (at.slope > 0)
        leap[:m] &= at.used < _NOTHING
        if leap.any():
            step = np.where(leap, high - rho, 0.0)
            tried = tried | leap
        else:
            step = _secant(rho, at.step, before)
            # Newton's step of the dependence knows its curvature; the secant only corrects it.
            newton = at.step[m:]
            share = np.divide(step[m:], newton, out=np.ones_like(newton), where=newton != 0.0)
            step[m:] = newton * np.clip(share, 0.5, 2.0)
            step = np.where(active, step, 0.0)
            step[m:] = np.clip(step[m:], -_FARTHEST, _FARTHEST)
        step = np.clip(rho + step, low, high) - rho
        halvings = _HALVINGS
        while True:
            step = np.where(open_, step, 0.0)
            near = step * (np.abs(step) < _NEAR)  # beyond, the tangent leads astray
            there, new = evaluate(rho + step, solution.params + near @ at.moves)
            if new is not None and _better(new, at, active, m):
                break
            halvings -= 1
            if halvings == 0 or leap.any():
                new = None
                break
            step = 0.5 * step
        if new is None:
            if leap.any():
                continue
            break
        before = (rho, at.step)
        rho, solution, at = rho + step, there, new
    values = np.where(estimated, np.exp(rho[:m]), values)
    vanished = estimated & (rho[:m] >= high[:m] - 1e-9)
    value = math.nan if at is None else at.value
    return solution, Penalties(values, estimated, vanished, value, updates, done)


def _sizes(at: Marginal, m: int) -> Floats:
    """Slopes in log lambda, and that in the dependence times its standard error."""
    size = np.abs(at.slope)
    size[m:] = np.sqrt(np.abs(at.slope[m:] * at.step[m:]))
    return size


def _better(new: Marginal, old: Marginal, active: NDArray[np.bool_], m: int) -> bool:
    """Whether the marginal likelihood has risen or, with an outer dependence, the slopes fell.

    Penalties and dependence then do not maximise the same function.
    """
    if new.value >= old.value - _ROUNDING * (1.0 + abs(old.value) * 1e-3):
        return True
    if len(new.slope) == m:
        return False
    return bool(_sizes(new, m)[active].max() < _sizes(old, m)[active].max())


def _secant(rho: Floats, ratio: Floats, before: tuple[Floats, Floats] | None) -> Floats:
    """Step towards the root of the ratio in each coordinate."""
    if before is None:
        return ratio
    moved, change = rho - before[0], ratio - before[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = change / moved
    usable = np.isfinite(slope) & (slope < -0.02)
    step = np.where(usable, -ratio / np.where(usable, slope, -1.0), 2.0 * ratio)
    return np.clip(step, -_LONGEST, _LONGEST)


def smoothed(objective: Target, blocks: Sequence[Penalised], values: Floats) -> Target:
    """Return the objective with these penalties."""
    whole = total_penalty(blocks, values, objective.n_coef)
    if isinstance(objective, BinaryObjective):
        return objective.smoothed(whole)
    own = [value for block, value in zip(blocks, values, strict=True) if block.apart]
    return objective.smoothed(whole, precision=own[0] if own else None)


def at_dependence(objective: Objective, params: Floats, places: Floats) -> Floats:
    """Copies of the parameters with the dependence at each place, in the units there, (m, P)."""
    form, last = objective.form, objective.n_coef
    units = np.array([form.outcome_units(np.array([place])) for place in places])
    found = np.tile(params, (len(places), 1))
    found[:, : objective.p] *= (units / form.outcome_units(params[last:]))[:, None]
    found[:, last] = places
    return found


def adjustment_of(
    objective: Objective,
    solution: Solution,
    blocks: Sequence[Penalised],
    climb: Callable[[Objective, Floats], list[Solution]],
    times: float = 1.0,
) -> Adjustment | None:
    """What integrating out the penalised directions adds to the log-likelihood, by the dependence.

    Parameters
    ----------
    objective : Objective
        Of a form with one dependence parameter that `at_corr` knows, without an adjustment.
    solution : Solution
        The maximum at the dependence near which the adjustment is to be the most exact.
    climb : callable
        (B, P) starts, whose dependence stays -> the maxima in the other parameters.
    times : float
        By what sums over levels are multiplied, where the objective is that of a part of them.
    """
    form, last = objective.form, objective.n_coef
    reach = _CLOSE * np.arange(-2.0, 3.0)
    low, high = _KNOTS[[0, -1]] - reach[[0, -1]]
    near = np.clip(form.atcorr(solution.params[last:]), low, high) + reach
    far = _KNOTS[np.abs(_KNOTS[:, None] - near).min(axis=1) > 0.6 * _CLOSE]
    knots = np.sort(np.concatenate([far, near]))
    places, unit = form.at_corr(knots), form.at_corr(_ASINH)
    assert places is not None
    assert unit is not None
    starts = at_dependence(objective, solution.params, places)
    directions = shrunk_directions(blocks, len(solution.params))
    values, profile = [], []
    for found in climb(objective, starts):
        sign, size = np.linalg.slogdet(directions.T @ -found.hessian @ directions)
        if sign <= 0.0 or not ended_well(found):
            return None
        values.append(-0.5 * (size + times * found.apart))
        profile.append(times * found.value)
    size_of = None if form.kind == "probit" else float(unit[0])
    return Adjustment(form.kind, knots, np.array(values), size_of, np.array(profile))


def tilted(adjustment: Adjustment, objective: Objective, solution: Solution) -> Adjustment:
    """Return the adjustment with a line added, so that its sum with the objective is flat there.

    Of one that comes from a part of the levels: the whole has its maximum where it was found.
    """
    score = objective.evaluate(solution.params, 1).score
    assert score is not None
    at = solution.params[objective.n_coef :]
    slope = -float(score[0, -1]) - float(adjustment.at(at)[1, 0])
    by_u = slope / float(objective.form.corr_slope(at)[0])
    return replace(adjustment, values=adjustment.values + by_u * adjustment.knots)


def curvature(
    objective: Objective,
    solution: Solution,
    free: NDArray[np.bool_],
    blocks: Sequence[Penalised],
    found: Penalties,
    maximize: Callable[[Objective, Floats], Solution],
    outer: Outer | None = None,
    step: float = 0.05,
) -> Floats:
    """Covariance of log lambda, (m, m): the inverse of minus the second derivatives of V.

    By differences of its slopes, the dependence among the coordinates if it is outer. NaN for
    penalties that are fixed or have vanished.
    """
    m = len(blocks)
    open_ = np.flatnonzero(found.estimated & ~found.vanished)
    cov = np.full((m, m), np.nan)
    if not len(open_):
        return cov
    moving = open_ if outer is None else np.append(open_, m)
    second = np.zeros((len(moving), len(moving)))
    for i, j in enumerate(moving):
        slopes = []
        for sign in (1.0, -1.0):
            values, start = found.values.copy(), solution.params.copy()
            if j < m:
                values[j] *= math.exp(sign * step)
            elif outer is not None:
                start[outer.position] += sign * step
            own = smoothed(objective, blocks, values)
            there = maximize(own, start)
            at = marginal(own, there, free, blocks, values, outer)
            if at is None:
                return cov
            slopes.append(at.slope[moving])
        # (i, j) is how slope j changes with coordinate i.
        second[i] = (slopes[0] - slopes[1]) / (2.0 * step)
    information = -0.5 * (second + second.T)
    try:
        np.linalg.cholesky(information)
    except np.linalg.LinAlgError:
        return cov
    cov[np.ix_(open_, open_)] = np.linalg.inv(information)[: len(open_), : len(open_)]
    return cov


def without(
    found: Penalties,
    term: int,
    blocks: Sequence[Penalised],
    objective: Objective,
    solution: Solution,
) -> Floats:
    """Return the penalties with one term's variance at zero, (m,)."""
    values = found.values.copy()
    limit = references(objective, solution, blocks, found.values)[term] * math.exp(_RANGE)
    values[term] = max(limit, values[term])
    return values
