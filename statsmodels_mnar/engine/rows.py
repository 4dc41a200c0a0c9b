"""What the likelihood reads of the data, and what it returns for each row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Kind = Literal["closed", "hard", "soft"]
_BY_ROW = ("X", "W", "offset", "offset_select", "sign", "floor", "gain", "tilt", "key")


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive rows of one kind.

    The outcome factor of a row is F(u) = floor + gain * L(sign * u), which covers an observed label
    (floor 0, gain 1), a pseudolabel with soft selection s' (floor 1 - s', gain s') and a soft
    pseudolabel (floor 1 - s'/2 (1 + \\|q\\|), gain s'\\|q\\|, with q = 2y' - 1).
    """

    kind: Kind  # "closed": s' = 0, PHI(-b); "hard": floor = 0, gain = 1, tilt = 1; "soft": the rest
    X: Tensor  # (p, n)
    W: Tensor  # (k, n)
    offset: Tensor  # (n,) added to the outcome index
    offset_select: Tensor  # (n,) added to the selection index
    sign: Tensor  # (n,) +1 or -1
    floor: Tensor  # (n,)
    gain: Tensor  # (n,)
    tilt: Tensor  # (n,) 2s' - 1
    key: Tensor  # (n,) int64, owner of the row's draws
    start: int  # position of the first row in Rows


@dataclass(frozen=True, slots=True)
class RowTerms:
    """Log-likelihood of rows and its derivatives in (a, b, dependence parameters).

    ``second`` lists the upper triangle row by row: aa, ab, ..., bb, ...
    """

    value: Tensor  # (B, n)
    first: Tensor | None = None  # (d, B, n)
    second: Tensor | None = None  # (d (d + 1)/2, B, n)


def pairs(d: int) -> list[tuple[int, int]]:
    """The upper triangle in the order of :attr:`RowTerms.second`."""
    return list(combinations_with_replacement(range(d), 2))


def log_derivatives(value: Tensor, first: list[Tensor], raw: list[Tensor]) -> RowTerms:
    """Turn I'/I and I''/I into the derivatives of log I."""
    second = [h - first[i] * first[j] for h, (i, j) in zip(raw, pairs(len(first)), strict=True)]
    return RowTerms(value, torch.stack(first), torch.stack(second))


@dataclass(frozen=True)
class Rows:
    """The rows on one device, sorted by kind so that every block runs one kernel."""

    X: Tensor  # (p, n), columns first: sums over rows then run along contiguous memory
    W: Tensor  # (k, n)
    offset: Tensor  # (n,)
    offset_select: Tensor  # (n,)
    sign: Tensor  # (n,)
    floor: Tensor  # (n,)
    gain: Tensor  # (n,)
    tilt: Tensor  # (n,)
    key: Tensor  # (n,)
    weight: Tensor  # (n,)
    order: Tensor  # (n,) original position of each sorted row
    segments: tuple[tuple[Kind, int, int], ...]
    scale: np.ndarray  # (p + k,) root mean square of the columns
    total_weight: float

    @property
    def n(self) -> int:
        return self.X.shape[1]

    @property
    def device(self) -> torch.device:
        return self.X.device

    @classmethod
    def build(
        cls,
        X: np.ndarray,
        W: np.ndarray,
        y: np.ndarray,
        s: np.ndarray,
        *,
        weights: np.ndarray | None = None,
        offset: np.ndarray | None = None,
        offset_select: np.ndarray | None = None,
        key: np.ndarray | None = None,
        device: torch.device | None = None,
    ) -> Rows:
        """Check the arrays and move them to the device.

        Parameters
        ----------
        X, W : ndarray
            (n, p) and (n, k), designs of the outcome and the selection equation.
        y : ndarray
            (n,) labels or pseudolabels in [0, 1]; not read where s = 0.
        s : ndarray
            (n,) selection values s' in [0, 1].
        weights : ndarray, optional
            (n,) nonnegative weights of the rows' log-likelihoods.
        offset, offset_select : ndarray, optional
            (n,) known parts of the two indices.
        key : ndarray, optional
            (n,) integers that own the draws; the position by default.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.ones((3, 1))
        >>> Rows.build(X, X, y=np.array([1.0, 0.0, np.nan]), s=np.array([1.0, 1.0, 0.0])).segments
        (('closed', 0, 1), ('hard', 1, 3))
        """
        X, W = _matrix("X", X), _matrix("W", W)
        n = X.shape[0]
        if W.shape[0] != n:
            raise ValueError(f"W has {W.shape[0]} rows, but X has {n}")
        s = _vector("s", s, n)
        if np.any((s < 0) | (s > 1)):
            raise ValueError("s has values outside [0, 1]; selection values are probabilities")
        y = _finite("y", np.where(s > 0, _shaped("y", y, n), 0.5))
        if np.any((y < 0) | (y > 1)):
            raise ValueError("y has values outside [0, 1] on rows with s > 0; code it as 0 and 1")
        weights = np.ones(n) if weights is None else _vector("weights", weights, n)
        if np.any(weights < 0) or not np.any(weights > 0):
            raise ValueError("weights must not be negative and not all zero")
        zero = np.broadcast_to(0.0, n)
        offset = zero if offset is None else _vector("offset", offset, n)
        offset_select = (
            zero if offset_select is None else _vector("offset_select", offset_select, n)
        )
        key = np.arange(n) if key is None else np.asarray(key)
        if key.shape != (n,) or not np.issubdtype(key.dtype, np.integer):
            raise ValueError(f"key must be {n} integers, got {key.dtype} of shape {key.shape}")

        q = 2.0 * y - 1.0
        hard = (s == 1.0) & (np.abs(q) == 1.0)
        kind = np.where(s == 0.0, 0, np.where(hard, 1, 2))
        order = np.argsort(kind, kind="stable")
        sign = np.where(q < 0, -1.0, 1.0)
        gain = s * np.abs(q)
        # floor + gain = 1 - s + s(1 + |q|)/2, the factor's supremum
        floor = (1.0 - s) + 0.5 * s * (1.0 - np.abs(q))
        edges = np.concatenate([[0], np.cumsum(np.bincount(kind, minlength=3))])
        names: tuple[Kind, ...] = ("closed", "hard", "soft")
        segments = tuple(
            (name, int(edges[i]), int(edges[i + 1]))
            for i, name in enumerate(names)
            if edges[i + 1] > edges[i]
        )
        columns = np.sqrt(np.concatenate([_mean_square(X), _mean_square(W)]))

        def tensor(value: np.ndarray, dtype: torch.dtype = torch.float64) -> Tensor:
            return torch.as_tensor(value[order], dtype=dtype, device=device)

        return cls(
            X=tensor(X).mT.contiguous(),
            W=tensor(W).mT.contiguous(),
            offset=tensor(offset),
            offset_select=tensor(offset_select),
            sign=tensor(sign),
            floor=tensor(floor),
            gain=tensor(gain),
            tilt=tensor(2.0 * s - 1.0),
            key=tensor(key, torch.int64),
            weight=tensor(weights),
            order=torch.as_tensor(order, device=device),
            segments=segments,
            scale=np.where(columns > 0, columns, 1.0),
            total_weight=float(weights.sum()),
        )

    def take(self, positions: np.ndarray) -> Rows:
        """Some of the sorted rows, which keep their keys and the columns' scale."""
        positions = np.sort(positions)
        index = torch.as_tensor(positions, device=self.device)
        segments: list[tuple[Kind, int, int]] = []
        for kind, first, last in self.segments:
            low, high = np.searchsorted(positions, [first, last]).tolist()
            if high > low:
                segments.append((kind, low, high))
        weight = self.weight[index]
        return replace(
            self,
            **{name: getattr(self, name)[..., index] for name in _BY_ROW},
            weight=weight,
            order=self.order[index].argsort().argsort(),
            segments=tuple(segments),
            total_weight=float(weight.sum()),
        )

    def blocks(self, size: int) -> Iterator[Block]:
        """The rows in blocks of at most ``size``, each of one kind."""
        for kind, first, last in self.segments:
            for start in range(first, last, size):
                cut = slice(start, min(start + size, last))
                parts = {name: getattr(self, name)[..., cut] for name in _BY_ROW}
                yield Block(kind=kind, start=start, **parts)

    def unsort(self, values: Tensor) -> Tensor:
        """Put values of the sorted rows, along the last axis, back into the user's order."""
        return torch.empty_like(values).index_copy_(-1, self.order, values)


def _mean_square(design: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", design, design) / max(design.shape[0], 1)


def _matrix(name: str, value: np.ndarray) -> np.ndarray:
    value = _numbers(name, value)
    if value.ndim != 2 or 0 in value.shape:
        raise ValueError(f"{name} must be a matrix with rows and columns, got shape {value.shape}")
    return _finite(name, value)


def _vector(name: str, value: np.ndarray, n: int) -> np.ndarray:
    return _finite(name, _shaped(name, value, n))


def _shaped(name: str, value: np.ndarray, n: int) -> np.ndarray:
    value = _numbers(name, value)
    if value.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), got {value.shape}")
    return value


def _numbers(name: str, value: np.ndarray) -> np.ndarray:
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers ({error})") from error


def _finite(name: str, value: np.ndarray) -> np.ndarray:
    if not np.isfinite(value).all():
        where = np.argwhere(~np.isfinite(value))[0].tolist()
        raise ValueError(f"{name} is not finite at position {where}; drop or fill such rows")
    return value
