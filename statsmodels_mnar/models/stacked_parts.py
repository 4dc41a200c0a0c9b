"""BiasCorr's stacked covariance over rows in partitions: three passes of sums."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..kernel.forms import Form
from ..kernel.rows import Kind, Rows
from ..large.partitions import PartitionedRows
from ..optimize.batches import relabelled
from ..optimize.objective import Objective
from ..post.stacked import (
    StackedRows,
    Stages,
    by_outcome,
    derivatives,
    first_sums,
    influence,
    outer_products,
)
from ..types import Floats
from .first_stage import Softening, soften_rows

_STEP = 1e-5  # of a derivative in s' or y'


def stacked_covariance(
    rows: PartitionedRows,
    softening: Softening,
    form: Form,
    theta: Floats,
    estimated: NDArray[np.bool_],
    hessian: Floats,
    how: Stages,
) -> Floats:
    """Covariance of the estimates, (P, P).

    Parameters
    ----------
    rows : PartitionedRows
        As they were observed, before Algorithm 1.
    theta, estimated : ndarray
        The engine's parameters, and which of them are estimated.
    """
    at = torch.as_tensor(theta)[None]
    args = (softening, form, at, torch.as_tensor(estimated), how)
    first = tuple(v.numpy() for v in rows.sum(_first, *args))
    found = derivatives(first, how)
    slope = rows.sum(_by_outcome, *args, found)[0].numpy()
    return rows.sum(_outer, *args, found, slope, hessian)[0].numpy()


def _first(rows: Rows, *args: Any) -> tuple[torch.Tensor, ...]:
    part, how = _part(rows, *args)
    return tuple(torch.as_tensor(v) for v in first_sums(part, how))


def _by_outcome(rows: Rows, *args: Any) -> tuple[torch.Tensor]:
    *most, found = args
    part, how = _part(rows, *most)
    return (torch.as_tensor(by_outcome(part, how, found)),)


def _outer(rows: Rows, *args: Any) -> tuple[torch.Tensor]:
    *most, found, slope, hessian = args
    part, how = _part(rows, *most)
    by_row = influence(part, how, found, slope, hessian)
    return (torch.as_tensor(outer_products(by_row, part.weights, sampling=how.sampling)),)


def _part(
    rows: Rows,
    softening: Softening,
    form: Form,
    theta: torch.Tensor,
    estimated: torch.Tensor,
    how: Stages,
) -> tuple[StackedRows, Stages]:
    """One partition's rows, in their sorted order."""
    rows = replace(rows, order=torch.arange(rows.n, device=rows.device))
    missing = rows.tilt < 0
    s, y = softening.values(rows)
    kinds: tuple[tuple[Kind, int, int], ...] = tuple(
        ("soft" if kind == "closed" else kind, low, high) for kind, low, high in rows.segments
    )
    open_rows = replace(rows, segments=kinds)

    def scores(of: Rows) -> torch.Tensor:
        by_row = Objective(of, form).row_scores(theta.to(rows.device))
        return of.weight[:, None] * by_row[:, estimated.to(rows.device)]

    def slope(ends: list[Rows], width: float) -> Floats:
        moved = (scores(ends[0]) - scores(ends[1])) / width
        return torch.where(missing[:, None], moved, 0.0).cpu().numpy()

    soft = [relabelled(open_rows, missing, (s + e).clamp(0, 1), y) for e in (_STEP, -_STEP)]
    if how.soft_pseudolabels:
        labels = [relabelled(open_rows, missing, s, (y + e).clamp(0, 1)) for e in (_STEP, -_STEP)]
        width = 2.0 * _STEP
    else:
        labels = [relabelled(open_rows, missing, s, torch.full_like(y, v)) for v in (1.0, 0.0)]
        width = 1.0
    select, outcome = (v.cpu().numpy() for v in softening.indices(rows))
    part = StackedRows(
        X=rows.X.mT.cpu().numpy(),
        W=rows.W.mT.cpu().numpy(),
        y=(0.5 * (1.0 + rows.sign)).cpu().numpy(),
        labelled=~missing.cpu().numpy(),
        weights=rows.weight.cpu().numpy(),
        select_index=select,
        outcome_index=outcome,
        scores=scores(soften_rows(rows, softening)).cpu().numpy(),
        by_soft=slope(soft, 2.0 * _STEP),
        by_label=slope(labels, width),
    )
    return part, how
