"""Refits of BiasCorr under other row weights: every replicate goes through Algorithm 1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..kernel.threads import one_thread_a_step
from ..large.partitions import PartitionedRows
from ..large.resamples import ResampledObjective, Resamples
from ..optimize.batches import relabelled, resampled
from ..optimize.maximize import maximize_many
from ..optimize.solution import Solution
from .base import SelectionModel
from .first_stage import FirstStage, can_train_many, soften_many, train_many
from .softening import Softening, soft_range, soften_rows, train_resampled

Floats = NDArray[np.float64]

_SEPARATED = "a first stage has no maximum (separation)"
_HIGH_SOFT_SELECTION = "s-bar is 1/2 or more, so the objective has no maximum"


class BiasCorrRefits(SelectionModel):
    """First stages, s-bar, pseudolabels and Newton for each of B sets of row weights."""

    selection_model: Any
    pseudolabel_model: Any
    soft_selection: Any
    soft_pseudolabels: bool

    @property
    def first_stage(self) -> FirstStage:
        """g_s and g_y of all rows."""
        raise NotImplementedError

    def _batchable(self) -> bool:
        return can_train_many(self.selection_model, self.pseudolabel_model)

    @one_thread_a_step
    def refit_weights(
        self, weights: Floats, start_params: Floats, penalty: float = 0.0, **options: Any
    ) -> Iterator[Solution | str]:
        """Algorithm 1 under B sets of row weights: first stages, s-bar, pseudolabels, Newton.

        ``weights``, ``start_params`` and ``penalty`` are those of the other models.
        """
        rows, objective = self.rows, self._objective(penalty)
        unlabelled = torch.as_tensor(~self.design.labelled, device=rows.device)[rows.order]
        start = self._expand(start_params)[None]
        size = options.pop("chunk", None) or objective.members_at_once(start[0])
        for first in range(0, len(weights), size):
            own = torch.as_tensor(weights[first : first + size], device=rows.device)
            stages = train_many(
                self.design, self.selection_model, self.pseudolabel_model, own, penalty
            )
            s, y = soften_many(
                self.design, stages, own, self.soft_selection,
                soft_pseudolabels=self.soft_pseudolabels,
            )  # fmt: skip
            lowest = s[:, ~self.design.labelled].amin(1)
            labelled = relabelled(rows, unlabelled, s[:, rows.order], y[:, rows.order])
            members = objective.with_rows(resampled(labelled, own[:, rows.order]))
            fits = maximize_many(members, start, free=self._estimated, **options)
            yield from _with_reasons(fits, stages.converged, lowest, penalty)

    @one_thread_a_step
    def _refit_draws(
        self, draws: Resamples, start_params: Floats, penalty: float = 0.0, **options: Any
    ) -> Iterator[Solution | str]:
        """The same for resamples of rows in partitions, by sums over them."""
        plain, form = self._plain_rows(), self._parametrized.form
        start = self._expand(start_params)[None]
        size = options.pop("chunk", None) or self._objective().members_at_once(start[0])
        for first in range(0, len(draws), size):
            own = draws.members(np.arange(first, min(first + size, len(draws))))
            how, converged = train_resampled(own.rows(plain), self.first_stage, len(own), penalty)
            soft = how.soft_selection if self.soft_selection is None else self.soft_selection
            how = replace(how, soft_selection=soft, soft_pseudolabels=self.soft_pseudolabels)
            found = list(plain.parts.map(soft_range, how))
            lowest = torch.stack([low for low, _, _ in found]).amin(0)

            def softened(
                which: NDArray[np.int64], own: Resamples = own, how: Softening = how
            ) -> PartitionedRows:
                some = how.members(which.tolist())
                return own.members(which).rows(plain).softened(how.kind, soften_rows, some)

            members = ResampledObjective(softened, np.arange(len(own)), form, penalty=penalty)
            fits = maximize_many(members, start, free=self._estimated, **options)
            yield from _with_reasons(fits, converged, lowest, penalty)


def _with_reasons(
    fits: Iterator[list[Solution]], converged: torch.Tensor, lowest: torch.Tensor, penalty: float
) -> Iterator[Solution | str]:
    """The solutions, or why there is none.

    Parameters
    ----------
    converged : Tensor
        (B,) the first stages are at a maximum.
    lowest : Tensor
        (B,) smallest soft selection of the unlabelled rows.
    """
    bounded = (lowest < 0.5) | (penalty > 0)
    ends = zip(converged.tolist(), bounded.tolist(), chain.from_iterable(fits), strict=True)
    for good, finite, solution in ends:
        yield _SEPARATED if not good else solution if finite else _HIGH_SOFT_SELECTION
