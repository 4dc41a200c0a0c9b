"""Weighted logistic loss against an adversary who chooses the weights of groups.

    min over beta, max over v:  (1/m) sum_t v_t sum_{i in t} loss_i(beta) + penalty/2 |beta|^2
    subject to  low_t <= v_t <= high_t  and  sum_t a_t v_t = m

with a_t of the m rows in group t. The game is convex in beta and linear in v, so it has a saddle
point, and any (beta, v) bounds its value from both sides: the adversary's best answer to beta from
above, the weighted logit of v from below. Their difference, the duality gap, certifies a solution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit

from ..kernel.links import LOGIT
from ..optimize.binary import fit_binary
from .base import columns

Floats = NDArray[np.float64]

_SMOOTHEST, _ROUGHEST = 1.0, 1e-12


@dataclass(frozen=True, slots=True)
class WeightBox:
    """The adversary's choices, each with a mean of one over the rows."""

    count: Floats  # (T,) rows of each group
    center: Floats  # (T,) estimated weights
    low: Floats  # (T,)
    high: Floats  # (T,)


@dataclass(frozen=True, slots=True)
class Saddle:
    """A solution of the game."""

    params: Floats  # (p,)
    weights: Floats  # (T,) the adversary's
    value: float  # the worst-case loss of params
    gap: float  # value less the smallest loss under weights
    converged: bool


def worst_weights(loss: Floats, box: WeightBox) -> Floats:
    """The adversary's best answer to the groups' mean losses, a fractional knapsack.

    Every group starts at its lower bound; what is left of the total goes to the groups with the
    largest losses.

    Examples
    --------
    >>> import numpy as np
    >>> box = WeightBox(np.ones(3), np.ones(3), np.full(3, 0.5), np.full(3, 2.0))
    >>> worst_weights(np.array([0.1, 0.9, 0.5]), box)
    array([0.5, 2. , 0.5])
    """
    order = np.argsort(-loss, kind="stable")
    room = (box.count * (box.high - box.low))[order]
    left = box.count.sum() - box.count @ box.low
    given = np.clip(left - (np.cumsum(room) - room), 0.0, room)
    weights = box.low.copy()
    weights[order] += given / box.count[order]
    return weights


def smoothed_weights(loss: Floats, box: WeightBox, smoothing: float) -> Floats:
    """The answer of an adversary who also pays smoothing/2 * sum a_t (v_t - center_t)^2.

    It is clip(center + (loss - price)/smoothing, low, high); the total is piecewise linear in
    price, whose value is found among its sorted kinks.
    """
    kinks = np.concatenate(
        [loss + smoothing * (box.center - box.high), loss + smoothing * (box.center - box.low)]
    )
    turn = np.concatenate([box.count, -box.count])
    order = np.argsort(kinks, kind="stable")
    kinks, slope = kinks[order], np.cumsum(turn[order])  # slope * -1/smoothing after each kink
    fall = np.concatenate([[0.0], np.cumsum(slope[:-1] * np.diff(kinks))]) / smoothing
    excess = box.count @ box.high - box.count.sum()
    price = np.interp(excess, fall, kinks)
    return np.clip(box.center + (loss - price) / smoothing, box.low, box.high)


def solve_game(
    y: Floats,
    X: Floats,
    codes: NDArray[np.int64],
    box: WeightBox,
    *,
    penalty: float = 0.0,
    tol: float = 1e-8,
    maxiter: int = 100,
) -> Saddle:
    """Solve the game by smoothing the adversary, less and less, until the duality gap is below tol.

    With the smoothed adversary the worst-case loss is convex with a Lipschitz gradient, and a
    semismooth Newton method minimises it from the solution for the previous smoothing.

    Parameters
    ----------
    y, X : ndarray
        (m,) 0/1 and (m, p).
    codes : ndarray
        (m,) group of each row, 0 to T - 1.
    box : WeightBox
    penalty : float
    tol : float
        Largest duality gap, relative to one plus the loss.
    maxiter : int
        Newton steps for each smoothing.
    """
    game = _Game(y, X, codes, box, penalty)
    params = game.respond(box.center)
    smoothing = _SMOOTHEST
    best = game.certify(params, box.center, tol)
    while not best.converged and smoothing >= _ROUGHEST:
        params = game.minimize(params, smoothing, maxiter)
        found = game.certify(params, game.smoothed(params, smoothing), tol)
        best = found if found.gap < best.gap else best
        smoothing *= 0.1
    return best


@dataclass(frozen=True, slots=True)
class _Game:
    y: Floats
    X: Floats
    codes: NDArray[np.int64]
    box: WeightBox
    penalty: float

    def losses(self, params: Floats) -> Floats:
        """(T,) mean loss of each group."""
        rows = np.logaddexp(0.0, -(2.0 * self.y - 1.0) * (self.X @ params))
        return np.bincount(self.codes, rows, len(self.box.count)) / self.box.count

    def value(self, loss: Floats, weights: Floats, params: Floats) -> float:
        ridge = 0.5 * self.penalty * (params @ params)
        return float((self.box.count * weights) @ loss / len(self.y) + ridge)

    def smoothed(self, params: Floats, smoothing: float) -> Floats:
        return smoothed_weights(self.losses(params), self.box, smoothing)

    def respond(self, weights: Floats) -> Floats:
        """The weighted logit."""
        fit = fit_binary(
            columns(self.X), torch.as_tensor(self.y), LOGIT,
            weight=torch.as_tensor(weights[self.codes]), penalty=self.penalty,
        )  # fmt: skip
        return fit.params.numpy()

    def certify(self, params: Floats, weights: Floats, tol: float) -> Saddle:
        loss = self.losses(params)
        above = self.value(loss, worst_weights(loss, self.box), params)
        reply = self.respond(weights)
        below = self.value(self.losses(reply), weights, reply)
        gap = above - below
        return Saddle(params, weights, above, gap, gap <= tol * (1.0 + abs(above)))

    def minimize(self, params: Floats, smoothing: float, maxiter: int) -> Floats:
        """Semismooth Newton with halved steps."""

        def objective(params: Floats) -> tuple[float, Floats]:
            loss = self.losses(params)
            weights = smoothed_weights(loss, self.box, smoothing)
            away = float(self.box.count @ (weights - self.box.center) ** 2 / len(self.y))
            return self.value(loss, weights, params) - 0.5 * smoothing * away, weights

        current, weights = objective(params)
        for _ in range(maxiter):
            score, hessian = self._derivatives(params, weights, smoothing)
            step = -np.linalg.solve(hessian, score)
            gain = -float(score @ step)
            if gain < 1e-15 * (1.0 + abs(current)):
                break
            size = 1.0
            for _ in range(40):
                trial, trial_weights = objective(params + size * step)
                if trial <= current - 1e-4 * size * gain:
                    break
                size *= 0.5
            else:
                break  # rounding hides what is left to gain
            params, current, weights = params + size * step, trial, trial_weights
        return params

    def _derivatives(
        self, params: Floats, weights: Floats, smoothing: float
    ) -> tuple[Floats, Floats]:
        m, p = self.X.shape
        prob = expit(self.X @ params)
        by_row = weights[self.codes]
        slopes = (prob - self.y)[:, None] * self.X
        score = by_row @ slopes / m + self.penalty * params
        curve = (self.X * (by_row * prob * (1.0 - prob))[:, None]).T @ self.X
        # Weights strictly inside their bounds answer to the losses; their price keeps the total.
        inside = (weights > self.box.low) & (weights < self.box.high)
        if inside.any():
            sums = np.zeros((len(inside), p))
            np.add.at(sums, self.codes, slopes)
            count, moved = self.box.count[inside], sums[inside]
            mean = moved.sum(axis=0) / count.sum()
            centred = moved / np.sqrt(count)[:, None] - np.sqrt(count)[:, None] * mean
            curve = curve + centred.T @ centred / smoothing
        return score, curve / m + self.penalty * np.eye(p)
