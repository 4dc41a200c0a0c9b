"""Rows of the grid on which the kernels are checked, and their autograd oracles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from statsmodels_mnar.kernel.rows import Block

INDICES = (-6.0, -2.3, 0.4, 6.0)
SOFT = (0.0, 0.2, 0.4, 0.6, 1.0)


def make_block(y: Tensor, s: Tensor, kind: str | None = None) -> Block:
    """A block for row kernels that are called with ready indices."""
    n = len(y)
    q = 2.0 * y - 1.0
    nothing = torch.zeros(n, dtype=torch.float64)
    hard = bool(((s == 1.0) & (q.abs() == 1.0)).all())
    return Block(
        kind or ("hard" if hard else "soft"),
        nothing[None],
        nothing[None],
        nothing,
        nothing,
        torch.where(q < 0, -1.0, 1.0).to(torch.float64),
        (1.0 - s) + 0.5 * s * (1.0 - q.abs()),
        s * q.abs(),
        2.0 * s - 1.0,
        torch.arange(n),
        0,
    )


@pytest.fixture(scope="session")
def index_grid() -> tuple[Tensor, Tensor, Tensor]:
    """a, b and y over all combinations, each (n,)."""
    grid = np.array(list(itertools.product(INDICES, INDICES, (0.0, 1.0))))
    a, b, y = torch.as_tensor(grid).T
    return a.clone(), b.clone(), y.clone()


def derivatives_by_autograd(
    value: Callable[..., Tensor], *variables: Tensor
) -> tuple[Tensor, Tensor]:
    """First, (d, n), and second, (d(d+1)/2, n), derivatives of each row's value."""
    leaves = [v.clone().requires_grad_() for v in variables]
    first = torch.autograd.grad(value(*leaves).sum(), leaves, create_graph=True)
    second = []
    for i, g in enumerate(first):
        rows = torch.autograd.grad(g.sum(), leaves, retain_graph=True, materialize_grads=True)
        second += [rows[j] for j in range(i, len(leaves))]
    return torch.stack(first).detach(), torch.stack(second).detach()


def log_ndtr_for_autograd(x: Tensor) -> Tensor:
    """log PHI whose second derivative is finite far out, where that of torch's is not."""
    low, high = x.clamp(max=0.0), x.clamp(min=0.0)
    lower = torch.log(0.5 * torch.special.erfcx(-math.sqrt(0.5) * low)) - 0.5 * low * low
    upper = torch.log1p(-0.5 * torch.erfc(math.sqrt(0.5) * high))
    return torch.where(x < 0, lower, upper)


def assert_derivatives_close(actual: Tensor, expected: Tensor, rtol: float = 1e-8) -> None:
    """Equal to ``rtol``, relative to the larger of the derivative and 1e-3."""
    assert torch.isfinite(actual).all()
    error = (actual - expected).abs() / expected.abs().clamp(min=1e-3)
    assert error.max() < rtol, f"largest error {error.max():.2e}"
