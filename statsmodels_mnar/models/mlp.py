"""A small multi-layer perceptron for pseudolabels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from ..kernel.threads import one_thread


@dataclass(frozen=True, slots=True)
class MLP:
    """Architecture and training of the perceptron that "mlp" stands for.

    Parameters
    ----------
    hidden : tuple of int
        Units of the hidden layers, each followed by a ReLU. The paper states no architecture; its
        first author's later code has layers of 5 and 2 units.
    epochs : int
        Full-batch steps of Adam.
    lr, weight_decay : float
    rng : int
        Seed of the start values; the same seed gives the same network.

    Examples
    --------
    >>> MLP().hidden
    (5, 2)
    """

    hidden: tuple[int, ...] = (5, 2)
    epochs: int = 500
    lr: float = 0.01
    weight_decay: float = 1e-4
    rng: int = 0


@dataclass(frozen=True, slots=True)
class FittedMLP:
    """B trained networks of one architecture; calls give probabilities."""

    weights: tuple[Tensor, ...]  # (B, out, in) of each layer
    biases: tuple[Tensor, ...]  # (B, 1, out)
    center: Tensor  # (B, 1, p) the columns are standardized first
    spread: Tensor  # (B, 1, p)
    loss: Tensor  # (B,)

    @one_thread()
    def __call__(self, X: Tensor) -> Tensor:
        """Probabilities at the rows of X, (n, p), by each network, (B, n)."""
        return torch.sigmoid(_forward((X - self.center) / self.spread, self.weights, self.biases))


def _forward(h: Tensor, weights: tuple[Tensor, ...], biases: tuple[Tensor, ...]) -> Tensor:
    *hidden, (last, bias) = zip(weights, biases, strict=True)
    for w, b in hidden:
        h = torch.relu(h @ w.mT + b)
    return (h @ last.mT + bias)[..., 0]


@one_thread()
def fit_mlp(X: Tensor, y: Tensor, settings: MLP, weight: Tensor | None = None) -> FittedMLP:
    """Train on the rows of X, (n, p), by Adam on the mean cross-entropy.

    No global state is touched: the start values come from a generator of their own, and all members
    have the same.

    Parameters
    ----------
    weight : Tensor, optional
        (B, n) row weights of each member; one member of equal weights by default.

    Examples
    --------
    >>> import torch
    >>> X = torch.tensor([[0.0], [1.0], [2.0], [3.0]], dtype=torch.float64)
    >>> network = fit_mlp(X, (X[:, 0] > 1.5).double(), MLP(hidden=(8,)))
    >>> (network(X) > 0.5).tolist()
    [[False, False, True, True]]
    """
    weight = torch.ones_like(y)[None] if weight is None else weight
    weight = weight / weight.mean(1, keepdim=True)
    by_row = weight[..., None]
    center = (by_row * X).mean(1, keepdim=True)
    spread = (by_row * (X - center) ** 2).mean(1, keepdim=True).sqrt()
    spread = torch.where(spread > 1e-10 * X.abs().amax(0), spread, 1.0)  # of a constant: zero
    Z = (X - center) / spread
    generator = torch.Generator().manual_seed(settings.rng)
    sizes = (X.shape[1], *settings.hidden, 1)
    weights, biases = [], []
    for fan_in, fan_out in pairwise(sizes):
        bound = fan_in**-0.5
        start = torch.rand((fan_out, fan_in + 1), generator=generator, dtype=torch.float64)
        start = (bound * (2.0 * start - 1.0)).to(X.device).repeat(len(weight), 1, 1)
        weights.append(start[..., :-1].clone().requires_grad_())
        biases.append(start[..., -1].clone()[:, None].requires_grad_())
    # Adam works entry by entry, so the sum over members trains each of them as if alone.
    optimizer = torch.optim.Adam(
        [*weights, *biases], lr=settings.lr, weight_decay=settings.weight_decay
    )
    labels = y.expand_as(weight)
    loss = Z.new_zeros(len(weight))
    for _ in range(settings.epochs):
        optimizer.zero_grad()
        logits = _forward(Z, tuple(weights), tuple(biases))
        loss = (
            weight
            * nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
        ).mean(1)
        loss.sum().backward()
        optimizer.step()
    return FittedMLP(
        tuple(w.detach() for w in weights),
        tuple(b.detach() for b in biases),
        center,
        spread,
        loss.detach(),
    )
