"""What a kernel reads of the rows, and what it returns for each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Literal

import torch
from torch import Tensor

Kind = Literal["closed", "hard", "soft"]


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive rows of one kind, shared by all members of a batch or each member's own.

    The outcome factor of a row is F(u) = floor + gain * L(sign * u), which covers an observed label
    (floor 0, gain 1), a pseudolabel with soft selection s' (floor 1 - s', gain s') and a soft
    pseudolabel (floor 1 - s'/2 (1 + \\|q\\|), gain s'\\|q\\|, with q = 2y' - 1).
    """

    kind: Kind  # "closed": s' = 0, PHI(-b); "hard": floor = 0, gain = 1, tilt = 1; "soft": the rest
    X: Tensor  # (p, n) or (B, p, n)
    W: Tensor  # (k, n) or (B, k, n)
    offset: Tensor  # (n,) or (B, n), as all below; added to the outcome index
    offset_select: Tensor  # added to the selection index
    sign: Tensor  # +1 or -1
    floor: Tensor
    gain: Tensor
    tilt: Tensor  # 2s' - 1
    key: Tensor  # int64, owner of the row's draws
    start: int  # position of the first row in Rows


@dataclass(frozen=True, slots=True)
class RowTerms:
    """Log-likelihood of rows and its derivatives in (a, b, dependence parameters).

    ``second`` lists the upper triangle row by row: aa, ab, ..., bb, ...
    """

    value: Tensor  # (B, n)
    first: Tensor | None = None  # (d, B, n)
    second: Tensor | None = None  # (d (d + 1)/2, B, n)

    def where(self, members: Tensor, other: RowTerms) -> RowTerms:
        """These terms for the members that are True, (B,), and the other's for the rest."""

        def chosen(own: Tensor | None, others: Tensor | None) -> Tensor | None:
            if own is None or others is None:
                return None
            return torch.where(members[:, None], own, others)

        value = torch.where(members[:, None], self.value, other.value)
        return RowTerms(value, chosen(self.first, other.first), chosen(self.second, other.second))


def times(left: Tensor, right: Tensor) -> Tensor:
    """(B, m) times a matrix (m, n) that all members share, or each member's own, (B, m, n)."""
    return left @ right if right.ndim == 2 else (left[:, None] @ right)[:, 0]


def entries(field: Tensor, member: Tensor, row: Tensor) -> Tensor:
    """Entries of a field at these members and rows, (m,)."""
    return field[row] if field.ndim == 1 else field[member, row]


def pairs(d: int) -> list[tuple[int, int]]:
    """The upper triangle in the order of :attr:`RowTerms.second`."""
    return list(combinations_with_replacement(range(d), 2))


def log_derivatives(value: Tensor, first: list[Tensor], raw: list[Tensor]) -> RowTerms:
    """Turn I'/I and I''/I into the derivatives of log I."""
    second = [h - first[i] * first[j] for h, (i, j) in zip(raw, pairs(len(first)), strict=True)]
    return RowTerms(value, torch.stack(first), torch.stack(second))


def outcome_factor(s: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sign, floor and gain of rows with selection values s and labels y; see :class:`Block`."""
    q = 2.0 * y - 1.0
    # floor + gain = 1 - s + s(1 + |q|)/2, the factor's supremum
    return torch.where(q < 0, -1.0, 1.0), (1.0 - s) + 0.5 * s * (1.0 - q.abs()), s * q.abs()
