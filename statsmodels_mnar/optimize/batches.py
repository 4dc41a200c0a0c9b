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
from .objective import Likelihood


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
        # Drawn rows come first, and each kind of row in its order.
        count, row = drawn.cumsum(1), torch.arange(last - first, device=rows.device)
        place = torch.where(drawn, count - 1, count[:, -1:] + row - count)
        width = int(count[:, -1].max())
        if width:
            found = torch.empty_like(place).scatter_(1, place, row.expand_as(place))
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
        wide = name in ("X", "W")
        if field.ndim == (2 if wide else 1):
            field = field.expand(len(index), *field.shape)
        along = index[:, None].expand(-1, field.shape[1], -1) if wide else index
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


# -- a better first step of many problems from one start -------------------------------------------


_APART = 0.05  # standard errors between the two Hessians of a difference
_CUBIC_ROUNDS = 4  # of Newton's iteration for the top of a cubic model
_SETTLED = 0.02  # share of the step by which the last of these may move it
_BETTER = 0.5  # share of Newton's step by which the cubic model's may differ from it


@one_thread()
def third_derivatives(
    objective: Likelihood, start: np.ndarray, free: np.ndarray | None = None
) -> Tensor | None:
    """Third derivatives at ``start``, (P,), per unit of weight and in unit-size columns, (P, P, P).

    They are differences of Hessians, as many as there are parameters. Problems that differ by their
    weights have about the same, so they are worth it for several times as many problems. None where
    the log-likelihood is not concave or not smooth enough.
    """
    theta = objective.as_theta(start)
    moving = torch.ones_like(theta[0]) if free is None else torch.as_tensor(free).to(theta)
    scale = torch.as_tensor(objective.scale, device=theta.device)
    at = objective.evaluate(theta, 2).hessian
    assert at is not None
    kept = moving > 0.0
    information = -at[0][kept][:, kept]
    if torch.linalg.cholesky_ex(information).info != 0:
        return None
    lengths = torch.zeros_like(moving)
    lengths[kept] = _APART * torch.linalg.inv(information).diagonal().clamp(min=0.0).sqrt()
    found = torch.zeros(*at.shape[1:], len(moving), dtype=at.dtype, device=at.device)
    places = torch.nonzero(kept)[:, 0]
    for along in places.split(objective.members_at_once(start)):
        hessian = objective.evaluate(theta + torch.diag(lengths)[along], 2).hessian
        assert hessian is not None
        found[..., along] = ((hessian - at) / lengths[along, None, None]).movedim(0, -1)
    found = (found + found.permute(0, 2, 1) + found.permute(2, 1, 0)) / 3.0  # of equal derivatives
    by_column = moving / scale
    found = torch.einsum("jkl,j,k,l->jkl", found, by_column, by_column, by_column)
    found = found / objective.totals()
    return found if torch.isfinite(found).all() else None


def cubic_step(
    score: Tensor,
    information: Tensor,
    total: Tensor,
    third: Tensor,
    step: Tensor,
    radius: Tensor,
) -> tuple[Tensor, Tensor]:
    """Improve Newton's step by the next term of the log-likelihood's expansion.

    The top is sought of score'm - m'(information)m/2 + total third[m, m, m]/6.

    Parameters
    ----------
    score, information : Tensor
        (B, P) and (B, P, P), in unit-size columns.
    total : Tensor
        (B,) or () sum of the row weights.
    third : Tensor
        (P, P, P) of :func:`third_derivatives`.
    step : Tensor
        (B, P) of Newton's.
    radius : Tensor
        (B,) of the ball in which the step must stay.

    Returns
    -------
    step, better : Tensor
        (B, P) and (B,). The step is Newton's still where the cubic model has no top close to it.
    """

    def length(move: Tensor) -> Tensor:
        return (move * (information @ move[..., None])[..., 0]).sum(-1).clamp(min=0.0).sqrt()

    move = before = step
    bend = information
    for _ in range(_CUBIC_ROUNDS):
        slope = torch.einsum("jkl,bl->bjk", third, total[..., None] * move)
        bend, before = information - slope, move
        pull = score - 0.5 * (slope @ move[..., None])[..., 0]
        move = torch.linalg.solve_ex(bend, pull)[0]
    whole = length(step)
    better = torch.linalg.cholesky_ex(bend).info == 0
    better &= (length(move - before) <= _SETTLED * whole) & (length(move - step) <= _BETTER * whole)
    better &= torch.linalg.vector_norm(move, dim=-1) <= radius
    return torch.where(better[:, None], move, step), better
