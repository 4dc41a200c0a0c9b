"""Batches of problems on the same rows: other weights, labels or draws for each member."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from ..kernel.rows import BY_ROW, Kind, Rows, outcome_factor
from ..kernel.threads import one_thread


@one_thread()
def resampled(rows: Rows, weights: Tensor) -> Rows:
    """Each member's rows of positive weight, padded with rows of weight zero.

    Parameters
    ----------
    weights : Tensor
        (B, n) in the order of the sorted rows.

    Examples
    --------
    >>> import numpy as np, torch
    >>> X, s = np.ones((4, 1)), np.array([1.0, 1.0, 1.0, 0.0])
    >>> rows = Rows.build(X, X, y=np.array([1.0, 0.0, 1.0, np.nan]), s=s)
    >>> drawn = torch.tensor([[1.0, 3.0, 0.0, 0.0], [2.0, 0.0, 1.0, 1.0]]).double()
    >>> resampled(rows, drawn).weight.tolist()
    [[1.0, 3.0, 0.0], [2.0, 1.0, 1.0]]
    """
    index: list[Tensor] = []
    segments: list[tuple[Kind, int, int]] = []
    end = 0
    for kind, first, last in rows.segments:
        drawn = weights[:, first:last] > 0
        width = int(drawn.sum(1).max())
        if width:
            # Stable: the drawn rows come first, each kind of row in its order.
            found = drawn.to(torch.int8).argsort(dim=1, descending=True, stable=True)
            index.append(found[:, :width] + first)
            segments.append((kind, end, end + width))
            end += width
    return _gathered(rows, torch.cat(index, dim=1), weights, tuple(segments))


def _gathered(
    rows: Rows, index: Tensor, weights: Tensor, segments: tuple[tuple[Kind, int, int], ...]
) -> Rows:
    """Row ``index[b, i]`` becomes row i of member b."""
    weight = weights.gather(1, index)
    taken = {}
    for name in BY_ROW:
        field = getattr(rows, name)
        if field.ndim == (2 if name in ("X", "W") else 1):
            field = field[..., index]
            taken[name] = field.movedim(0, 1).contiguous() if field.ndim == 3 else field
        else:
            along = index[:, None].expand(-1, field.shape[1], -1) if field.ndim == 3 else index
            taken[name] = field.gather(-1, along)
    return replace(
        rows,
        **taken,
        weight=weight,
        order=torch.arange(index.shape[1], device=index.device),
        segments=segments,
        total_weight=math.nan,
    )


@one_thread()
def stacked(members: Sequence[Rows]) -> Rows:
    """Data sets of the same columns as one batch, padded with rows of weight zero."""
    counts = [{kind: last - first for kind, first, last in rows.segments} for rows in members]
    segments: list[tuple[Kind, int, int]] = []
    end = 0
    for kind in get_args(Kind):
        width = max(count.get(kind, 0) for count in counts)
        if width:
            segments.append((kind, end, end + width))
            end += width
    first = members[0]
    fields: dict[str, Any] = {}
    for name in (*BY_ROW, "weight"):
        shape = (len(members), *getattr(first, name).shape[:-1], end)
        fields[name] = getattr(first, name).new_zeros(shape)
    fields["sign"] += 1.0
    fields["gain"] += 1.0  # padding that any kernel can evaluate
    fields["tilt"] += 1.0
    places = {kind: start for kind, start, _ in segments}
    for m, rows in enumerate(members):
        for kind, low, high in rows.segments:
            to = slice(places[kind], places[kind] + high - low)
            for name, field in fields.items():
                field[m, ..., to] = getattr(rows, name)[..., low:high]
    return replace(
        first,
        **fields,
        order=torch.arange(end, device=first.device),
        segments=tuple(segments),
        scale=np.stack([rows.scale for rows in members]),
        ridge=np.stack([rows.ridge for rows in members]),
        total_weight=math.nan,
    )


@one_thread()
def relabelled(rows: Rows, unlabelled: Tensor, s: Tensor, y: Tensor) -> Rows:
    """Unlabelled rows with each member's own soft selection and pseudolabels.

    Parameters
    ----------
    unlabelled : Tensor
        (n,) which rows, in the order of the sorted rows. Their kind must stay what it is.
    s, y : Tensor
        (B, n), or (n,) for one member, values of which only the unlabelled rows' are read.
    """
    sign, floor, gain = outcome_factor(s, y)
    return replace(
        rows,
        sign=torch.where(unlabelled, sign, rows.sign),
        floor=torch.where(unlabelled, floor, rows.floor),
        gain=torch.where(unlabelled, gain, rows.gain),
        tilt=torch.where(unlabelled, 2.0 * s - 1.0, rows.tilt),
        weight=rows.weight.expand(len(s), -1) if s.ndim == 2 else rows.weight,
        total_weight=math.nan if s.ndim == 2 else rows.total_weight,
    )


def reweighted(rows: Rows, weight: Tensor) -> Rows:
    """Each member with weights of its own, (B, n) in the order of the sorted rows."""
    return replace(rows, weight=weight, total_weight=math.nan)


def rekeyed(rows: Rows, keys: Tensor) -> Rows:
    """Each member with draws of its own: keys (B, n) in the order of the sorted rows."""
    weight = rows.weight.expand(len(keys), -1)
    return replace(rows, key=keys, weight=weight, total_weight=math.nan)
