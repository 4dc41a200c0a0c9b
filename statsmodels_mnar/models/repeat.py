"""Many refits of one model as a batch: the same rows under other weights, labels or draws.

The middle of a robust covariance in partitions and statsmodels' fits with zeros stand below them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..design import refuse_penalised
from ..kernel.integration import Simulation
from ..kernel.threads import one_thread_a_step
from ..large.build import find_clusters, meat_by_keys
from ..large.partitions import (
    PartitionedObjective,
    PartitionedRows,
    ResampledObjective,
    Resamples,
    draw_resamples,
    in_parts,
)
from ..optimize.batches import rekeyed, third_derivatives
from ..optimize.maximize import REFIT, has_easy_units, maximize_batch, maximize_many
from ..optimize.objective import Objective
from ..optimize.solution import Solution
from ..post.covariance import Meat
from ..results.fitted import SelectionResultsWrapper
from ..types import Floats

if TYPE_CHECKING:
    from .selection import SelectionModel


_AT_ONCE = 64  # at most so many sets of row weights are held in memory
_WORTH = 8  # sets of row weights for each parameter, from which third derivatives are worth it


def batchable(self: SelectionModel) -> bool:
    """Whether every step of a fit can be repeated as a batch."""
    return True


def in_batches(
    weights: Iterable[Floats], objective: Objective, start: Floats, chunk: int | None = None
) -> Iterator[Floats]:
    """Sets of row weights, as many at a time as are best refitted together, (B, n)."""
    draws = iter(weights)
    size = chunk or min(_AT_ONCE, objective.members_at_once(start))
    while drawn := list(islice(draws, size)):
        yield np.stack(drawn)


@one_thread_a_step
def refit_weights(
    self: SelectionModel,
    weights: Iterable[Floats],
    start_params: Floats,
    penalty: float = 0.0,
    *,
    n_sets: int | None = None,
    chunk: int | None = None,
    **options: Any,
) -> Iterator[Solution | str]:
    """Newton fits under B sets of row weights.

    Parameters
    ----------
    weights : iterable of ndarray
        (n,) each, in the order of the model's rows, in place of its own weights.
    start_params : ndarray
        (P,) where all of them start.
    penalty : float
        As in ``fit``.
    n_sets : int, optional
        How many sets there are, if they are resamples of the rows: many begin with a step by the
        third derivatives too.
    chunk : int, optional
        Sets that are refitted together.
    **options
        Of :func:`maximize_batch`: maxiter, gtol.

    Yields
    ------
    Solution or str
        In the order of the weights, each with its own status, or why there is none.
    """
    rows, objective, free = self.rows, self.objective(penalty), self.estimated
    start, options = self.expand(start_params), REFIT | options
    many = n_sets is not None and n_sets >= _WORTH * len(start)
    if many and rows.apart is None and not has_easy_units(objective, free):
        options["third"] = third_derivatives(objective, start, free)
    for drawn in in_batches(weights, objective, start, chunk):
        by_row = torch.as_tensor(drawn, device=rows.device)[:, rows.order]
        starts = np.tile(start, (len(drawn), 1))
        yield from maximize_batch(objective, starts, free=free, weights=by_row, **options)


def refit_resampled(
    self: SelectionModel,
    n_rep: int,
    rng: np.random.Generator,
    start_params: Floats,
    penalty: float = 0.0,
    *,
    weighted: bool = False,
    groups: str | None = None,
    **options: Any,
) -> Iterator[Solution | str]:
    """Newton fits to resamples of rows in partitions, drawn where the rows are.

    Parameters
    ----------
    groups : str, optional
        Column of the data whose clusters are drawn, not rows.
    """
    rows, counts = in_parts(self.plain_rows()), self.design.weight_kind == "freq_weights"
    clusters = None
    if groups is not None:
        assert self._frames is not None
        clusters = find_clusters(rows, self._frames, groups)
    draws = draw_resamples(rows, n_rep, rng, weighted=weighted, counts=counts, clusters=clusters)
    return self._refit_resamples(draws, start_params, penalty, **options)


@one_thread_a_step
def _refit_resamples(
    self: SelectionModel,
    draws: Resamples,
    start_params: Floats,
    penalty: float = 0.0,
    **options: Any,
) -> Iterator[Solution | str]:
    """Newton fits to given resamples of rows in partitions."""

    def drawn(which: NDArray[np.int64]) -> PartitionedRows:
        return draws.members(which).rows(in_parts(self.rows))

    form, members = self.parametrized.form, np.arange(len(draws))
    objective = ResampledObjective(drawn, members, form, penalty=penalty)
    start = self.expand(start_params)[None]
    for chunk in maximize_many(objective, start, free=self.estimated, **(REFIT | options)):
        yield from chunk


@one_thread_a_step
def refit_draws(
    self: SelectionModel, n_sets: int, start_params: Floats, penalty: float = 0.0, **options: Any
) -> Iterator[Solution]:
    """Newton fits of ``n_sets`` sets of draws, from ``start_params``; ``penalty`` is fit's."""
    simulation = self.parametrized.form.simulation
    if not isinstance(simulation, Simulation):
        raise ValueError(
            "the model is integrated by quadrature, which has no simulation error; it needs "
            "integration='simulation'"
        )
    rows, objective = self.rows, self.objective(penalty)
    start = self.expand(start_params)[None]
    # Draws belong to keys, so keys that no row of the data has give independent draws.
    span = int(rows.key.max()) + 1
    size = options.pop("chunk", None) or objective.members_at_once(start[0])
    for first in range(0, n_sets, size):
        sets = torch.arange(first + 1, min(first + size, n_sets) + 1, device=rows.device)
        redrawn = objective.with_rows(rekeyed(rows, rows.key + span * sets[:, None]))
        for chunk in maximize_many(redrawn, start, free=self.estimated, **options):
            yield from chunk


def meat_in_partitions(
    self: SelectionModel,
    objective: PartitionedObjective,
    theta: Floats,
    cov_type: str,
    groups: tuple[str, ...],
    use_correction: bool,
) -> Meat:
    """Meat of rows in partitions, at all parameters of the form."""
    counts, at = self.design.counts, objective.as_theta(theta)
    sampling = self.design.weight_kind == "prob_weights"
    if cov_type != "cluster":
        matrix = objective.opg(at, sampling=sampling).cpu().numpy()
        return Meat(matrix, float(counts.rows) if sampling else counts.observations)
    self.check_rows_at_hand()
    assert self._frames is not None
    return meat_by_keys(objective, self._frames, at, groups, use_correction=use_correction)


def fit_zeros(
    self: SelectionModel,
    keep_index: Any = None,
    start_params: Any = None,
    return_auxiliary: bool = False,
    k_params: int | None = None,
    **fit_kwds: Any,
) -> SelectionResultsWrapper:
    """Fit with some outcome coefficients held at zero (statsmodels' protected interface)."""
    refuse_penalised(self.design, "A fit with coefficients held at zero")
    keep = np.arange(self.k_outcome)[keep_index]
    kept = np.concatenate([keep, np.arange(self.k_outcome, self.nparams)])
    design = replace(
        self.design,
        X=self.design.X[:, keep],
        outcome_names=tuple(self.design.outcome_names[i] for i in keep),
        outcome_spec=None,
    )
    small = self.rebuilt(design)
    if start_params is not None:
        fit_kwds["start_params"] = np.asarray(start_params)[kept]
    part = small.fit(**fit_kwds)
    return SelectionResultsWrapper(part._results._embed(self, kept))
