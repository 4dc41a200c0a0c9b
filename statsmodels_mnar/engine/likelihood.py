"""What every objective is to an optimiser, wherever its rows are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .forms import Form


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The penalised log-likelihood at B parameter vectors."""

    value: Tensor  # (B,)
    score: Tensor | None = None  # (B, P)
    hessian: Tensor | None = None  # (B, P, P)

    def __getitem__(self, members: Tensor) -> Evaluation:
        score, hessian = (v if v is None else v[members] for v in (self.score, self.hessian))
        return Evaluation(self.value[members], score, hessian)

    @classmethod
    def joined(cls, parts: list[Evaluation], order: Tensor) -> Evaluation:
        """Parts one after the other, then taken in this order."""

        def join(values: list[Any]) -> Any:
            return None if values[0] is None else torch.cat(values)[order]

        return cls(*(join([getattr(p, name) for p in parts]) for name in cls.__slots__))


class Likelihood:
    """What every objective is to an optimiser: a form on a number of columns, and a penalty."""

    def __init__(
        self, form: Form, penalty: float, p: int, k: int, scale: np.ndarray, ridge: np.ndarray,
        total_weight: float, device: torch.device,
    ) -> None:  # fmt: skip
        if not (np.isfinite(penalty) and penalty >= 0):
            raise ValueError(f"penalty={penalty!r} must be a nonnegative number")
        self.form = form
        self.penalty = float(penalty)
        self.p, self.k = p, k
        self.n_coef = p + k
        self.n_params = self.n_coef + len(form.names)
        self.total_weight = total_weight
        ones = np.ones((*scale.shape[:-1], len(form.names)))
        self.scale = np.concatenate([scale, ones], axis=-1)  # (P,) or (B, P)
        self.ridge = np.zeros((*scale.shape[:-1], self.n_params, self.n_params))
        self.ridge[..., : self.n_coef, : self.n_coef] = ridge  # (P, P) or (B, P, P)
        self.device = device

    @property
    def batched(self) -> bool:
        """Whether the members of a batch have rows of their own."""
        return False

    @property
    def n_members(self) -> int:
        """Members with rows of their own."""
        raise NotImplementedError

    def members(self, index: Tensor) -> Any:
        """Some members of a batch that have rows of their own."""
        raise NotImplementedError

    def totals(self, weights: Tensor | None = None) -> Tensor:
        """Sum of the weights of each member's rows, (B,) or a number for all of them."""
        return torch.tensor(self.total_weight, dtype=torch.float64, device=self.device)

    def with_form(self, form: Form) -> Any:
        """The same rows under another form or integration."""
        raise NotImplementedError

    def sample(self, count: int) -> Any:
        """The objective on so many of the rows, always the same ones."""
        raise NotImplementedError

    def members_at_once(self, theta: np.ndarray) -> int:
        """Members of a batch near theta, (P,), that are best evaluated together."""
        raise NotImplementedError

    def evaluate(
        self, theta: Tensor | np.ndarray, order: int = 2, weights: Tensor | None = None
    ) -> Evaluation:
        """Value and derivatives up to ``order`` at theta, (B, P)."""
        raise NotImplementedError

    def as_theta(self, theta: Tensor | np.ndarray) -> Tensor:
        """One parameter vector or several, checked, as (B, P) on the device."""
        theta = torch.as_tensor(theta, dtype=torch.float64, device=self.device)
        theta = theta[None] if theta.ndim == 1 else theta
        if theta.ndim != 2 or theta.shape[1] != self.n_params:
            raise ValueError(
                f"theta must have {self.n_params} columns ({self.p} outcome, {self.k} selection "
                f"and {list(self.form.names)}), got shape {tuple(theta.shape)}"
            )
        return theta

    def _penalised(self, theta: Tensor, at: Evaluation, total: Tensor) -> Evaluation:
        """Less the ridge, for rows of this total weight, (B,) or (1,)."""
        if self.penalty == 0.0:
            return at
        alpha = self.penalty * total
        ridge = torch.as_tensor(self.ridge, device=theta.device)
        pull = (ridge @ theta[..., None])[..., 0]
        value = at.value - 0.5 * alpha * (theta * pull).sum(-1)
        score = None if at.score is None else at.score - alpha[:, None] * pull
        hessian = None if at.hessian is None else at.hessian - alpha[:, None, None] * ridge
        return replace(at, value=value, score=score, hessian=hessian)
