"""Draws for the paper's descent, which redraws R normals for every row at every step.

At R = 200 the Adult experiment asks for 6.3 million draws a step and some 1,200 steps. Both classes
here give fresh draws at each step; neither keeps them keyed to the row, which fixed draws need and
redrawn ones do not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from statsmodels_mnar.kernel.integration import Nodes, Simulation

_FLOOR = 1e-280  # a likelihood below this is evaluated in log space, as with the engine's draws


@dataclass(frozen=True, slots=True)
class FreshDraws(Simulation):
    """All R draws of every row, by a generator seeded for each block of rows.

    Drawn in single precision, in which the paper's code also computes, and used in double.
    """

    redraw: bool = True

    def nodes(self, keys: Tensor) -> Nodes:
        """Draws of a block of rows."""
        seed = int(_stream(self, keys).integers(2**63))
        generator = torch.Generator().manual_seed(seed)
        e = torch.randn((1, self.n_draws, len(keys)), generator=generator).to(keys.device)
        return _equal_weights(e.to(torch.float64))


@dataclass(frozen=True, slots=True)
class SummarizedDraws(Simulation):
    """The mean and the standard deviation of ``of`` draws of every row, as the two nodes m +- sd.

    With h(e) a row's likelihood given its error e, R draws enter through the average of h(e_r). On
    the paper's path sigma and rho stay below 0.06, so h is next to linear in e, and the two nodes
    share the draws' first two moments: what is lost is (sigma, rho)^3 times the third central
    moment over 6, at most 1e-5 of a row's likelihood, a thousandth of the noise that the draws
    themselves bring. The mean and the variance of R independent normals are
    themselves independent, N(0, 1/R) and chi-squared_{R-1}/R, so the draws need not be made.
    """

    n_draws: int = 2
    redraw: bool = True
    of: int = 200

    def nodes(self, keys: Tensor) -> Nodes:
        """The two nodes of a block of rows."""
        rng, n = _stream(self, keys), len(keys)
        mean = rng.standard_normal(n) / np.sqrt(self.of)
        spread = np.sqrt(rng.chisquare(self.of - 1, n) / self.of)
        return _two_nodes(torch.tensor(mean), torch.tensor(spread), keys.device)


def summarize(nodes: Nodes) -> Nodes:
    """The two nodes that stand for given draws, (1, R, n)."""
    e = nodes.e[0]
    return _two_nodes(e.mean(0), e.std(0, correction=0), e.device)


def _two_nodes(mean: Tensor, spread: Tensor, device: torch.device) -> Nodes:
    return _equal_weights(torch.stack([mean - spread, mean + spread])[None].to(device))


def _equal_weights(e: Tensor) -> Nodes:
    return Nodes(e, e.new_full((1, 1, 1), 1.0 / e.shape[1]), None, _FLOOR, False)


def _stream(simulation: Simulation, keys: Tensor) -> np.random.Generator:
    """A generator for the block that starts with the first key."""
    return np.random.default_rng([simulation.seed, int(keys[0])])
