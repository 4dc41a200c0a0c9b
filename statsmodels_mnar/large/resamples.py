"""Bootstrap weights of rows in partitions, drawn where the rows are."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..kernel.forms import Form
from ..kernel.rows import Rows
from ..optimize.batches import reweighted
from .execution import Partitions
from .partitions import PartitionedObjective, PartitionedRows, Session


def row_weights(
    own: np.ndarray, size: int, rng: np.random.Generator, *, weighted: bool, counts: bool
) -> np.ndarray:
    """Weights of one resample of rows, (n,).

    Parameters
    ----------
    own : ndarray
        (n,) the rows' own weights.
    size : int
        Observations drawn with replacement.
    weighted : bool
        Standard exponential weights in place of draws (Rubin's Bayesian bootstrap; w observations
        have a gamma weight), which leave no row out.
    counts : bool
        A row of weight w is w observations.
    """
    if weighted:
        return rng.standard_gamma(own) if counts else own * rng.standard_exponential(len(own))
    if counts and len(own):
        return rng.multinomial(size, own / max(own.sum(), 1.0)).astype(float)
    return own * np.bincount(rng.integers(len(own), size=size), minlength=len(own))


def cluster_weights(count: int, rng: np.random.Generator, *, weighted: bool) -> np.ndarray:
    """How often each of ``count`` clusters is drawn, or its exponential weight, (count,)."""
    if weighted:
        return rng.standard_exponential(count)
    return np.bincount(rng.integers(count, size=count), minlength=count).astype(float)


@dataclass(frozen=True, slots=True)
class Codes:
    """The cluster of each row of a partition, kept where the rows are."""

    values: np.ndarray  # (n,) int64, in the order of the sorted rows

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def pack(self) -> tuple[None, np.ndarray]:
        return None, self.values.view(np.float64)

    @classmethod
    def unpack(cls, header: None, numbers: np.ndarray) -> Codes:
        return cls(numbers.view(np.int64))


@dataclass(frozen=True)
class Clusters:
    """The clusters of all rows, whichever partitions theirs are in."""

    codes: Partitions  # of Codes
    count: int


@dataclass(frozen=True)
class Resamples:
    """B resamples of all rows; a partition draws its own weights from these, always the same."""

    seeds: tuple[int, ...]  # B
    drawn: np.ndarray | None  # (B, partitions) observations drawn in each, where rows are drawn
    weighted: bool
    counts: bool
    clusters: Clusters | None

    def __len__(self) -> int:
        return len(self.seeds)

    def members(self, which: np.ndarray) -> Resamples:
        """Return the replicates at the given positions."""
        drawn = None if self.drawn is None else self.drawn[which]
        return replace(self, seeds=tuple(self.seeds[i] for i in which), drawn=drawn)

    def rows(self, rows: PartitionedRows) -> PartitionedRows:
        """A batch in which each member has its own weights and shares everything else."""
        if self.clusters is not None:
            pairs = rows.parts.zip(self.clusters.codes)
            parts = pairs.derive(_by_cluster, self.seeds, self.clusters.count, self.weighted)
        else:
            places = range(len(rows.parts))
            own = [(i, None if self.drawn is None else self.drawn[:, i]) for i in places]
            parts = rows.parts.derive(_by_row, self.seeds, self.weighted, self.counts, each=own)
        # Replicates are not worth a checkpoint.
        return replace(rows, parts=parts, total_weight=math.nan, session=Session())


def draw_resamples(
    rows: PartitionedRows,
    count: int,
    rng: np.random.Generator,
    *,
    weighted: bool = False,
    counts: bool = False,
    clusters: Clusters | None = None,
) -> Resamples:
    """Resamples of all rows, or of clusters of rows.

    Drawing n of n rows with replacement is drawing how many fall into each partition, and then so
    many within each: the bootstrap of the whole, not of its parts. Every partition draws all
    clusters, from the same seed.

    Parameters
    ----------
    weighted, counts : bool
        As in :func:`row_weights`.
    """
    seeds = tuple(int(seed) for seed in rng.integers(2**63, size=count))
    drawn = None
    if clusters is None and not weighted:
        sizes = np.array(rows.sizes, dtype=float)
        if counts:
            sizes = np.array([float(total) for total in rows.parts.map(_total_weight)])
        drawn = rng.multinomial(int(sizes.sum()), sizes / sizes.sum(), size=count)
    return Resamples(seeds, drawn, weighted, counts, clusters)


def _total_weight(rows: Rows) -> float:
    return rows.total_weight


def _by_row(
    rows: Rows,
    place: tuple[int, np.ndarray | None],
    seeds: tuple[int, ...],
    weighted: bool,
    counts: bool,
) -> Rows:
    number, drawn = place
    own = rows.weight.cpu().numpy()
    members = []
    for b, seed in enumerate(seeds):
        rng = np.random.default_rng([seed, number])
        size = 0 if drawn is None else int(drawn[b])
        members.append(row_weights(own, size, rng, weighted=weighted, counts=counts))
    return reweighted(rows, torch.as_tensor(np.stack(members), device=rows.device))


def _by_cluster(
    pair: tuple[Rows, Codes], seeds: tuple[int, ...], count: int, weighted: bool
) -> Rows:
    rows, codes = pair
    own = rows.weight.cpu().numpy()
    draws = (cluster_weights(count, np.random.default_rng(s), weighted=weighted) for s in seeds)
    members = np.stack([own * by_cluster[codes.values] for by_cluster in draws])
    return reweighted(rows, torch.as_tensor(members, device=rows.device))


class ResampledObjective(PartitionedObjective):
    """The objective of B members that have weights, and perhaps labels, of their own.

    Parameters
    ----------
    build : callable
        Positions of some members -> their rows.
    which : ndarray
        (B,) positions of these members.
    """

    def __init__(
        self,
        build: Callable[[np.ndarray], PartitionedRows],
        which: np.ndarray,
        form: Form,
        *,
        penalty: float = 0.0,
        totals: Tensor | None = None,
    ) -> None:
        super().__init__(build(which), form, penalty=penalty)
        self.build, self.which, self._totals = build, which, totals

    @property
    def batched(self) -> bool:
        return True

    @property
    def n_members(self) -> int:
        return len(self.which)

    def with_form(self, form: Form) -> ResampledObjective:
        return ResampledObjective(
            self.build, self.which, form, penalty=self.penalty, totals=self._totals
        )

    def members(self, index: Tensor) -> ResampledObjective:
        totals = None if self._totals is None else self._totals[index]
        return ResampledObjective(
            self.build, self.which[index.cpu().numpy()], self.form, penalty=self.penalty,
            totals=totals,
        )  # fmt: skip

    def totals(self, weights: Tensor | None = None) -> Tensor:
        if self._totals is None:
            self._totals = self.rows.sum(_totals)[0]
        return self._totals


def _totals(rows: Rows) -> tuple[Tensor]:
    return (rows.weight.sum(-1),)
