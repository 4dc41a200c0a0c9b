"""Penalties of terms, by the marginal likelihood that Laplace's approximation gives (REML).

A term has coefficients b and subtracts lambda/2 b'Sb from the log-likelihood, as if they were
normal with precision lambda S. With H the information at the penalised maximum, penalties included,
the log marginal likelihood is

    V = l - sum lambda_j/2 b'S_j b + sum (rank_j log lambda_j + log|S_j|_+)/2 - log|H|/2 + const,

all coefficients and the dependence being integrated out. In rho_j = log lambda_j its slope is

    2 dV/drho_j = rank_j - lambda_j tr(V_j S_j) - c_j - lambda_j b'S_j b,

V = H^(-1) and c_j = tr(V dH/drho_j), the change of H with the estimates. The generalised
Fellner-Schall update multiplies lambda_j by the ratio at which this is zero (Wood and Fasiolo 2017,
who leave c_j out); its fixed point is a stationary point of V. Here the logarithm of that ratio is
the residual of a secant iteration in each rho_j, which needs fewer steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..types import Floats
from .binary import BinaryObjective
from .objective import Objective
from .solution import Solution

_SLOPE = 2e-4  # of the marginal likelihood in log lambda, at which an update ends
_MOST_UPDATES = 60
_LONGEST = 3.0  # step of log lambda
_RANGE = math.log(1e7)  # of log lambda about the penalty that weighs as much as the data
_NOTHING = 0.05  # effective degrees of freedom of what is penalised, below which zero is tried
_HALVINGS = 8
# Of the marginal likelihood, whose log determinant follows estimates 1e-6 standard errors from the
# maximum.
_ROUNDING = 1e-6
_NEAR = 0.5  # steps of log lambda whose estimates begin on the tangent of the last ones
_STEP = 1e-3  # of the differences that give c_j, in the largest change of a unit-size column


@dataclass(frozen=True, slots=True, eq=False)
class Penalised:
    """The coefficients that a term penalises."""

    first: int  # position of the first among all coefficients
    matrix: Floats  # (q, q) S
    rank: int
    fixed: float | None = None  # lambda, where it is not estimated

    @property
    def cut(self) -> slice:
        """Their positions among all parameters."""
        return slice(self.first, self.first + len(self.matrix))

    @property
    def log_determinant(self) -> float:
        """log|S|_+, of the part that has full rank."""
        values = np.linalg.eigvalsh(self.matrix)
        return float(np.log(values[-self.rank :]).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Penalties:
    """What a fit found for its terms."""

    values: Floats  # (m,) lambda
    estimated: NDArray[np.bool_]  # (m,)
    vanished: NDArray[np.bool_]  # (m,) the variance went to zero
    marginal: float  # log marginal likelihood
    n_updates: int
    converged: bool


def total_penalty(blocks: Sequence[Penalised], values: Floats, n_coef: int) -> Floats:
    """Sum of lambda_j S_j over the terms, (n_coef, n_coef)."""
    found = np.zeros((n_coef, n_coef))
    for block, value in zip(blocks, values, strict=True):
        found[block.cut, block.cut] += value * block.matrix
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Marginal:
    """The marginal likelihood at given penalties."""

    value: float
    slope: Floats  # (m,) in log lambda
    used: Floats  # (m,) rank_j - lambda_j tr(V_j S_j), effective degrees of freedom of what shrinks
    ratio: Floats  # (m,) logarithm of the Fellner-Schall ratio
    moves: Floats  # (m, P) derivatives of the estimates in log lambda


def marginal(
    objective: Objective | BinaryObjective,
    solution: Solution,
    free: NDArray[np.bool_],
    blocks: Sequence[Penalised],
    values: Floats,
    *,
    exact: bool = True,
) -> Marginal | None:
    """Laplace's log marginal likelihood at a penalised maximum; None where there is no maximum.

    Parameters
    ----------
    objective : Objective
        With these penalties.
    free : ndarray of bool
        (P,) the parameters that were estimated.
    exact : bool
        With the term c_j, for which the information is evaluated at two more points a term.
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
    pulls = [value * block.matrix @ theta[block.cut]
             for block, value in zip(blocks, values, strict=True)]  # fmt: skip
    shrunk = np.array([float(theta[b.cut] @ pull) for b, pull in zip(blocks, pulls, strict=True)])
    used = rank - np.array(
        [v * float(np.sum(full[b.cut, b.cut] * b.matrix))
         for b, v in zip(blocks, values, strict=True)]
    )  # fmt: skip
    change = np.zeros(len(blocks))
    moves = np.stack([-full[:, b.cut] @ pull for b, pull in zip(blocks, pulls, strict=True)])
    if exact:
        change = _changes(objective, theta, moves, full)
    log_determinant = 2.0 * float(np.log(np.diag(root) * scale).sum())
    size = sum(b.rank * math.log(v) + b.log_determinant
               for b, v in zip(blocks, values, strict=True))  # fmt: skip
    flat = float(free.sum()) - rank.sum()
    value = solution.value + 0.5 * (size - log_determinant + flat * math.log(2.0 * math.pi))
    left = used - change
    # Far from the fixed point c_j can outweigh the rest; the update without it points the way.
    left = np.where(left > 0.0, left, np.maximum(used, 1e-12))
    ratio = np.log(left / np.maximum(shrunk, 1e-300))
    slope = 0.5 * (used - change - shrunk)
    return Marginal(value, slope, used, np.clip(ratio, -_LONGEST, _LONGEST), moves)


def _changes(
    objective: Objective | BinaryObjective, theta: Floats, moves: Floats, inverse: Floats
) -> Floats:
    """tr(V dH) as the estimates move along each direction, by central differences."""
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
    found[moving] = np.einsum("mij,ij->m", difference, inverse)
    return found


def references(hessian: Floats, blocks: Sequence[Penalised], penalty: Floats) -> Floats:
    """The penalty of each term that weighs as much as the data do, (m,).

    Parameters
    ----------
    hessian : ndarray
        (P, P) with the penalties.
    penalty : ndarray
        (m,) those penalties.
    """
    found = []
    for block, own in zip(blocks, penalty, strict=True):
        information = -hessian[block.cut, block.cut] - own * block.matrix
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
    *,
    slope: float = _SLOPE,
    most: int = _MOST_UPDATES,
) -> tuple[Solution, Penalties]:
    """Maximise the marginal likelihood over the penalties that are not fixed.

    Parameters
    ----------
    objective : Objective
        With the penalties ``values``, of which ``solution`` is the maximum.
    maximize : callable
        An objective and start values -> its maximum near them.
    slope : float
        Ends when no slope of the marginal likelihood in log lambda is larger.

    Returns
    -------
    solution : Solution
        The maximum at the penalties found.
    found : Penalties
    """
    open_ = np.array([block.fixed is None for block in blocks])
    middle = np.log(references(solution.hessian, blocks, values))
    low, high = middle - _RANGE, middle + _RANGE
    rho = np.where(open_, np.clip(np.log(np.maximum(values, 1e-300)), low, high),
                   np.log(np.maximum(values, 1e-300)))  # fmt: skip

    def evaluate(rho: Floats, start: Floats) -> tuple[Solution, Marginal | None]:
        own = smoothed(objective, blocks, np.exp(rho))
        there = maximize(own, start)
        return there, marginal(own, there, free, blocks, np.exp(rho))

    at = marginal(objective, solution, free, blocks, values)
    if not np.allclose(rho, np.log(np.maximum(values, 1e-300)), rtol=0.0, atol=1e-12):
        solution, at = evaluate(rho, solution.params)
    before: tuple[Floats, Floats] | None = None
    tried = ~open_  # terms whose zero variance was tried in vain
    updates, done = 0, False
    while at is not None:
        vanished = open_ & (rho >= high - 1e-9) & (at.slope > -slope)
        active = open_ & ~vanished
        done = bool((np.abs(at.slope[active]) <= slope).all())
        if done or updates >= most:
            break
        updates += 1
        leap = active & ~tried & (at.used < _NOTHING) & (at.slope > 0)
        if leap.any():
            step = np.where(leap, high - rho, 0.0)
            tried = tried | leap
        else:
            step = np.where(active, _secant(rho, at.ratio, before), 0.0)
        step = np.clip(rho + step, low, high) - rho
        halvings = _HALVINGS
        while True:
            step = np.where(open_, step, 0.0)
            near = step * (np.abs(step) < _NEAR)  # beyond, the tangent leads astray
            there, new = evaluate(rho + step, solution.params + near @ at.moves)
            if new is not None and new.value >= at.value - _ROUNDING * (1.0 + abs(at.value) * 1e-3):
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
        before = (rho, at.ratio)
        rho, solution, at = rho + step, there, new
    values = np.where(open_, np.exp(rho), values)
    vanished = open_ & (rho >= high - 1e-9)
    value = math.nan if at is None else at.value
    return solution, Penalties(values, open_, vanished, value, updates, done)


def _secant(rho: Floats, ratio: Floats, before: tuple[Floats, Floats] | None) -> Floats:
    """Step towards the root of the ratio in each log lambda."""
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
    return objective.smoothed(total_penalty(blocks, values, objective.n_coef))


def curvature(
    objective: Objective,
    solution: Solution,
    free: NDArray[np.bool_],
    blocks: Sequence[Penalised],
    found: Penalties,
    maximize: Callable[[Objective, Floats], Solution],
    step: float = 0.05,
) -> Floats:
    """Covariance of log lambda, (m, m): the inverse of minus the second derivatives of V.

    By differences of its slopes. NaN for penalties that are fixed or have vanished.
    """
    m = len(blocks)
    open_ = np.flatnonzero(found.estimated & ~found.vanished)
    cov = np.full((m, m), np.nan)
    if not len(open_):
        return cov
    second = np.zeros((len(open_), len(open_)))
    for i, j in enumerate(open_):
        slopes = []
        for sign in (1.0, -1.0):
            values = found.values.copy()
            values[j] *= math.exp(sign * step)
            own = smoothed(objective, blocks, values)
            there = maximize(own, solution.params)
            at = marginal(own, there, free, blocks, values)
            if at is None:
                return cov
            slopes.append(at.slope[open_])
        second[i] = (slopes[0] - slopes[1]) / (2.0 * step)
    information = -0.5 * (second + second.T)
    try:
        np.linalg.cholesky(information)
    except np.linalg.LinAlgError:
        return cov
    cov[np.ix_(open_, open_)] = np.linalg.inv(information)
    return cov


def without(found: Penalties, term: int, blocks: Sequence[Penalised], hessian: Floats) -> Floats:
    """Return the penalties with one term's variance at zero, (m,)."""
    values = found.values.copy()
    limit = references(hessian, blocks, found.values)[term] * math.exp(_RANGE)
    values[term] = max(limit, values[term])
    return values
