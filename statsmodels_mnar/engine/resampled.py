"""Bootstrap weights of rows in partitions, drawn where the rows are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .forms import Form
from .objective import Evaluation, Objective
from .partitioned import PartitionedObjective, PartitionedRows
from .rows import Rows


@dataclass(frozen=True)
class Resamples:
    """B resamples of all rows; a partition draws its own weights from these, always the same."""

    seeds: tuple[int, ...]  # B
    drawn: np.ndarray | None  # (B, partitions) observations drawn in each; None: random weights
    counts: bool  # a row of weight w is w observations

    def __len__(self) -> int:
        return len(self.seeds)

    def members(self, index: np.ndarray) -> Resamples:
        """Some of them."""
        drawn = None if self.drawn is None else self.drawn[index]
        return replace(self, seeds=tuple(self.seeds[i] for i in index), drawn=drawn)

    def weights(self, rows: Rows, partition: int) -> Tensor:
        """(B, n) in the order of the sorted rows."""
        own = rows.weight.cpu().numpy()
        by_member = [self._one(own, b, partition) for b in range(len(self))]
        return torch.as_tensor(np.stack(by_member), device=rows.device)

    def _one(self, own: np.ndarray, member: int, partition: int) -> np.ndarray:
        rng = np.random.default_rng([self.seeds[member], partition])
        if self.drawn is None:
            return (
                rng.standard_gamma(own) if self.counts else own * rng.standard_exponential(len(own))
            )
        size = int(self.drawn[member, partition])
        if self.counts:
            return rng.multinomial(size, own / max(own.sum(), 1.0)).astype(float)
        return own * np.bincount(rng.integers(len(own), size=size), minlength=len(own))


def draw_resamples(
    rows: PartitionedRows, count: int, rng: np.random.Generator, *, weighted: bool, counts: bool
) -> Resamples:
    """Resamples of all rows.

    Drawing n of n rows with replacement is drawing how many fall into each partition, and then so
    many within each: the bootstrap of the whole, not of its parts.

    Parameters
    ----------
    weighted : bool
        Exponential weights (the Bayesian bootstrap) in place of draws.
    counts : bool
        The rows' weights count observations.
    """
    seeds = tuple(int(seed) for seed in rng.integers(2**63, size=count))
    if weighted:
        return Resamples(seeds, None, counts)
    sizes = np.array(rows.sizes, dtype=float)
    if counts:
        sizes = np.array([float(total) for total in rows.parts.map(_total_weight)])
    drawn = rng.multinomial(int(sizes.sum()), sizes / sizes.sum(), size=count)
    return Resamples(seeds, drawn, counts)


def _total_weight(rows: Rows) -> float:
    return rows.total_weight


class ResampledObjective(PartitionedObjective):
    """The objective under B sets of row weights, one for each member of a batch."""

    def __init__(
        self, rows: PartitionedRows, form: Form, resamples: Resamples, *, penalty: float = 0.0
    ) -> None:
        super().__init__(rows, form, penalty=penalty)
        self.resamples = resamples
        self._totals: Tensor | None = None

    @property
    def batched(self) -> bool:
        return True

    @property
    def n_members(self) -> int:
        return len(self.resamples)

    def with_form(self, form: Form) -> ResampledObjective:
        return ResampledObjective(self.rows, form, self.resamples, penalty=self.penalty)

    def members(self, index: Tensor) -> ResampledObjective:
        some = self.resamples.members(index.cpu().numpy())
        return ResampledObjective(self.rows, self.form, some, penalty=self.penalty)

    def totals(self, weights: Tensor | None = None) -> Tensor:
        if self._totals is None:
            self._totals = self._sum(_totals, self.resamples)[0]
        return self._totals

    def evaluate(
        self, theta: Tensor | np.ndarray, order: int = 2, weights: Tensor | None = None
    ) -> Evaluation:
        theta = self.as_theta(theta)
        at = Evaluation(*self._sum(_evaluate, self.resamples, self.form, theta, order))
        return self._penalised(theta, at, self.totals())

    def _sum(self, function: Any, *args: Any) -> tuple[Tensor, ...]:
        parts = list(self.rows.parts.map(function, *args, each=range(len(self.rows.parts))))
        return tuple(torch.stack(values).sum(0) for values in zip(*parts, strict=True))


def _totals(rows: Rows, partition: int, resamples: Resamples) -> tuple[Tensor]:
    return (resamples.weights(rows, partition).sum(-1),)


def _evaluate(
    rows: Rows, partition: int, resamples: Resamples, form: Form, theta: Tensor, order: int
) -> tuple[Tensor, ...]:
    at = Objective(rows, form).evaluate(theta, order, resamples.weights(rows, partition))
    return tuple(v for v in (at.value, at.score, at.hessian) if v is not None)
