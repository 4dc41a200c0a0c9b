"""From the terms of a block of rows to sums: score, Hessian, and derivatives by level.

A row enters only through a = x'beta + offset and b = w'gamma + offset, so with the row terms g and
h the score is X'g_a, W'g_b, sum g and the Hessian X'diag(h_aa)X and so on. Indicators of factors
are summed by level, not multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..kernel.rows import Apart, Block, Factors, RowTerms, pairs, times
from .levels import by_level


def add_score(score: Tensor, first: Tensor, block: Block) -> None:
    """Add a block's weighted first derivatives, (d, B, n), to the score, (B, P)."""
    p, c = _ends(block)
    if block.kind == "closed":
        score[:, p:c] += times(first[0], block.W.mT)
        return
    score[:, :p] += times(first[0], block.X.mT)
    score[:, p:c] += times(first[1], block.W.mT)
    score[:, c:] += first[2:].sum(-1).mT


def add_hessian(hessian: Tensor, second: Tensor, block: Block) -> None:
    """Add a block's weighted second derivatives to the upper triangle; the lower is not read."""
    p, c = _ends(block)
    X, W = wide(block.X, block.factors, "X"), wide(block.W, block.factors, "W")
    if block.kind == "closed":
        hessian[:, p:c, p:c] += gram(W, second[0], W)
        return
    d = hessian.shape[-1] - c
    by_a, by_b, own = second.split([2 + d, 1 + d, d * (d + 1) // 2])
    hessian[:, :p, :p] += gram(X, by_a[0], X)
    hessian[:, :p, p:c] += gram(X, by_a[1], W)
    hessian[:, p:c, p:c] += gram(W, by_b[0], W)
    hessian[:, :p, c:] += block.X @ by_a[2:].permute(1, 2, 0)
    hessian[:, p:c, c:] += block.W @ by_b[1:].permute(1, 2, 0)
    for sums, (i, j) in zip(own.sum(-1), pairs(d), strict=True):
        hessian[:, c + i, c + j] += sums


@dataclass(frozen=True, slots=True)
class Wide:
    """Columns of which the last may be indicators of factors."""

    dense: Tensor  # (p, n) or (B, p, n)
    codes: tuple[tuple[Tensor, int], ...] = ()  # (n,) level of each row, and how many there are


def wide(columns: Tensor, factors: Factors, name: str) -> Wide:
    """Tell the indicators of factors from other columns."""
    own = [(first, last) for of, first, last in factors if of == name]
    if not own or columns.ndim != 2:  # members of a batch have rows of their own
        return Wide(columns)
    codes = tuple((columns[first:last].argmax(0), last - first) for first, last in own)
    return Wide(columns[: own[0][0]], codes)


def gram(left: Wide, h: Tensor, right: Wide) -> Tensor:
    """Sum over rows of h times left column times right column, (B, ., .); h is (B, n)."""
    weighted = left.dense * h[:, None]
    top = [weighted @ right.dense.mT]
    if not left.codes and not right.codes:
        return top[0]
    top += [_by_level(weighted, *level) for level in right.codes]
    rows = [torch.cat(top, dim=-1)]
    for codes, count in left.codes:
        crossed = _by_level(right.dense * h[:, None], codes, count).mT
        parts = [crossed, *(_by_pair(h, codes, count, *level) for level in right.codes)]
        rows.append(torch.cat(parts, dim=-1))
    return torch.cat(rows, dim=-2)


def _by_level(values: Tensor, codes: Tensor, count: int) -> Tensor:
    """Sums of the rows of each level, (B, p, count)."""
    return values.new_zeros(*values.shape[:-1], count).index_add_(-1, codes, values)


def _by_pair(h: Tensor, codes: Tensor, count: int, others: Tensor, number: int) -> Tensor:
    """Sums of h over the rows of each pair of levels, (B, count, number)."""
    if codes is others:
        return torch.diag_embed(_by_level(h, codes, count))
    sums = _by_level(h, codes * number + others, count * number)
    return sums.reshape(len(h), count, number)


def add_levels(
    levels: tuple[Tensor, ...], first: Tensor, second: Tensor, block: Block, apart: Apart
) -> None:
    """Add a block's derivatives in the effects of its levels; see `levels.LevelSums`."""
    pull, bend, cross = levels
    p, c = _ends(block)
    level, outcome = block.level, apart.equation == "outcome"
    assert level is not None
    if block.kind == "closed":
        if not outcome:
            pull += by_level(first[0], level, apart.count)
            bend += by_level(second[0], level, apart.count)
            cross[:, p:c] += by_level(block.W * second[0][:, None], level, apart.count)
        return
    d = cross.shape[1] - c
    by_a, by_b, _ = second.split([2 + d, 1 + d, d * (d + 1) // 2])
    own, ab, aa, bb = (first[0] if outcome else first[1]), by_a[1], by_a[0], by_b[0]
    dependence = by_a[2:] if outcome else by_b[1:]
    pull += by_level(own, level, apart.count)
    bend += by_level(aa if outcome else bb, level, apart.count)
    cross[:, :p] += by_level(block.X * (aa if outcome else ab)[:, None], level, apart.count)
    cross[:, p:c] += by_level(block.W * (ab if outcome else bb)[:, None], level, apart.count)
    cross[:, c:] += by_level(dependence.transpose(0, 1), level, apart.count)


def row_scores(block: Block, terms: RowTerms, n_params: int) -> Tensor:
    """(n, P) of one block at the first parameter vector."""
    assert terms.first is not None
    first = terms.first[:, 0]
    if block.kind == "closed":
        p, c = _ends(block)
        scores = first.new_zeros(len(block.key), n_params)
        scores[:, p:c] = (first[0] * block.W).mT
        return scores
    return torch.cat([first[0] * block.X, first[1] * block.W, first[2:]]).mT


def level_scores(block: Block, terms: RowTerms, tangent: Tensor, apart: Apart) -> Tensor:
    """(n, P) scores of the effects of the rows' levels, along the effects' tangent."""
    assert terms.first is not None
    assert block.level is not None
    own = terms.first[0, 0]
    if block.kind == "closed" and apart.equation == "outcome":
        return own.new_zeros(len(block.key), len(tangent))
    if block.kind != "closed" and apart.equation == "select":
        own = terms.first[1, 0]
    return (own * tangent[:, block.level]).mT


def _ends(block: Block) -> tuple[int, int]:
    """Where beta and gamma end."""
    p = block.X.shape[-2]
    return p, p + block.W.shape[-2]
