"""Effects of a factor with many levels, eliminated from the likelihood of all other parameters.

A factor's effects u, one for each of q levels, meet in the likelihood only with the other
parameters t: no row has two of them. The information of all is therefore an arrow,

    [ A   C ]      A of t, (P, P), D of u, diagonal, penalty included, and C between them,
    [ C'  D ]

and given t the penalised likelihood is a sum of q concave functions of one effect each. Its maximum
over u is a function of t alone, with the score s - C D^(-1) g and the information A - C D^(-1) C'
(s and g the scores of t and u): the Schur complement, whose inverse is the covariance of t. Every
search, covariance and profile of t works on this function without knowing of the effects. Time and
memory are those of rows and levels, never of their product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..types import Floats

_EXACT = 1e-11  # squared standard errors of all effects together, left to go
_MOST = 60  # passes over the rows
_LONGEST = 2.0  # step of an effect
_REMEMBERED = 2**24  # numbers kept for the start of the next evaluation


@dataclass(frozen=True, slots=True)
class LevelSums:
    """Sums over the rows at given effects, for B members, without the effects' penalty."""

    value: Tensor  # (B,)
    score: Tensor  # (B, P) of the other parameters
    hessian: Tensor  # (B, P, P)
    pull: Tensor  # (B, q) score of the effects
    bend: Tensor  # (B, q) their second derivatives, which are not positive
    cross: Tensor  # (B, P, q) second derivatives in a parameter and an effect


@dataclass(frozen=True, slots=True)
class Eliminated:
    """What is left of the sums without the effects, at the effects that maximise them."""

    value: Tensor  # (B,)
    score: Tensor  # (B, P)
    hessian: Tensor  # (B, P, P)
    effects: Tensor  # (B, q)
    information: Tensor  # (B, q) D
    tangent: Tensor  # (B, P, q) move of each effect with each parameter, -D^(-1) C'

    @property
    def log_information(self) -> Tensor:
        """log|D|, (B,)."""
        return self.information.log().sum(-1)


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """The effects at one parameter vector, as arrays."""

    theta: Floats  # (P,)
    values: Floats  # (q,)
    information: Floats  # (q,)
    tangent: Floats  # (P, q)

    def covariance_trace(self, cov: Floats) -> float:
        """Sum of the variances, for the covariance (P, P) of the other parameters."""
        return float((1.0 / self.information).sum() + np.sum(cov * (self.tangent @ self.tangent.T)))


def schur(sums: LevelSums, effects: Tensor, precision: float) -> Eliminated:
    """Eliminate the effects by one Newton step from these."""
    pull, information = sums.pull - precision * effects, precision - sums.bend
    step = pull / information
    tangent = sums.cross / information[:, None]
    value = sums.value - 0.5 * precision * effects.square().sum(-1) + 0.5 * (pull * step).sum(-1)
    score = sums.score + (sums.cross @ step[..., None])[..., 0]
    hessian = sums.hessian + tangent @ sums.cross.mT
    return Eliminated(value, score, hessian, effects + step, information, tangent)


def eliminate(sums: Callable[[Tensor], LevelSums], start: Tensor, precision: float) -> Eliminated:
    """Maximise over the effects by Newton, level by level, from ``start``, (B, q).

    Far from a maximum Newton's steps may go to and fro around it; the signs of the scores bracket
    it, and a step out of the bracket is halved to its middle.
    """
    effects = start
    low, high = (torch.full_like(start, end) for end in (-torch.inf, torch.inf))
    for left in reversed(range(_MOST)):
        at = sums(effects)
        pull, information = at.pull - precision * effects, precision - at.bend
        step = pull / information
        if left == 0 or float((pull * step).sum(-1).amax()) <= _EXACT:
            return schur(at, effects, precision)
        low = torch.where(pull > 0.0, effects, low)
        high = torch.where(pull < 0.0, effects, high)
        moved = effects + step.clamp(-_LONGEST, _LONGEST)
        effects = torch.where((moved >= low) & (moved <= high), moved, 0.5 * (low + high))
    raise AssertionError  # the loop returns


@dataclass(slots=True, eq=False)
class Memory:
    """Where the last evaluations ended: the next one starts on the tangent of the nearest."""

    theta: Tensor | None = None  # (M, P)
    ended: Eliminated | None = None
    key: object = None  # what else they depend on

    def known(self, theta: Tensor, key: object) -> Eliminated | None:
        """What the last evaluation found, if it was this one."""
        same = self.theta is not None and key == self.key and torch.equal(self.theta, theta)
        return self.ended if same else None

    def start(self, theta: Tensor, count: int, members: int) -> Tensor:
        """(B, q) effects near those of each member of theta, (1, P) or (B, P)."""
        if self.theta is None or self.ended is None:
            return theta.new_zeros(members, count)
        nearest = torch.cdist(theta, self.theta).argmin(dim=1)
        move = (theta - self.theta[nearest])[:, None]
        ended = self.ended
        effects = ended.effects[nearest] + ((move @ ended.tangent[nearest])[:, 0].clamp(-1.0, 1.0))
        return effects.expand(members, -1).contiguous()

    def keep(self, theta: Tensor, ended: Eliminated, key: object = None) -> None:
        """Remember these members, as many as memory allows."""
        self.key = key
        theta = theta.expand(len(ended.value), -1)
        most = max(1, _REMEMBERED // max(ended.tangent[0].numel(), 1))
        self.theta = theta[:most]
        self.ended = Eliminated(*(getattr(ended, name)[:most] for name in Eliminated.__slots__))
