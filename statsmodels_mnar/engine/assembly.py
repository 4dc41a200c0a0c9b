"""From the terms of rows to score and Hessian.

theta = (beta, gamma, dependence parameters); a row enters only through a = x'beta + offset and
b = w'gamma + offset, so with the row terms g and h the score is X'g_a, W'g_b, sum g and the Hessian
X'diag(h_aa)X and so on.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .blocks import Block, RowTerms, times


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
    """Add to the upper triangle (whole diagonal blocks lie in it twice and are cut)."""
    X, W = block.X, block.W
    p, c = _ends(block)

    def gram(left: Tensor, h: Tensor, right: Tensor) -> Tensor:
        return (left * h[:, None]) @ right.mT  # (B, ., .)

    if block.kind == "closed":
        hessian[:, p:c, p:c] += gram(W, second[0], W).triu()
        return
    dependence = range(c, hessian.shape[-1])
    terms = iter(second)
    hessian[:, :p, :p] += gram(X, next(terms), X).triu()
    hessian[:, :p, p:c] += gram(X, next(terms), W)
    for j in dependence:
        hessian[:, :p, j] += times(next(terms), X.mT)
    hessian[:, p:c, p:c] += gram(W, next(terms), W).triu()
    for j in dependence:
        hessian[:, p:c, j] += times(next(terms), W.mT)
    for i in dependence:
        for j in range(i, hessian.shape[-1]):
            hessian[:, i, j] += next(terms).sum(-1)


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


def _ends(block: Block) -> tuple[int, int]:
    """Where beta and gamma end."""
    p = block.X.shape[-2]
    return p, p + block.W.shape[-2]
