"""The data on the device, in blocks: what a kernel reads and returns for each row, and its sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from torch import Tensor

from .threads import one_thread


def matrix(name: str, value: np.ndarray) -> np.ndarray:
    value = _numbers(name, value)
    if value.ndim != 2 or 0 in value.shape:
        raise ValueError(f"{name} must be a matrix with rows and columns, got shape {value.shape}")
    return finite(name, value)


def vector(name: str, value: np.ndarray, n: int) -> np.ndarray:
    return finite(name, shaped(name, value, n))


def shaped(name: str, value: np.ndarray, n: int) -> np.ndarray:
    value = _numbers(name, value)
    if value.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), got {value.shape}")
    return value


def _numbers(name: str, value: np.ndarray) -> np.ndarray:
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers ({error})") from error


def finite(name: str, value: np.ndarray) -> np.ndarray:
    if not np.isfinite(value).all():
        where = np.argwhere(~np.isfinite(value))[0].tolist()
        raise ValueError(f"{name} is not finite at position {where}; drop or fill such rows")
    return value


# -- where the tensors live ------------------------------------------------------------------------


def resolve_device(device: str | torch.device = "auto") -> torch.device:
    """The torch device for a name, checked to hold float64.

    Parameters
    ----------
    device : str or torch.device
        "auto" takes the current CUDA device where there is one and the CPU elsewhere.

    Examples
    --------
    >>> resolve_device("cpu")
    device(type='cpu')
    """
    if isinstance(device, str) and device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"device={device!r} is not a torch device; use 'auto', 'cpu', 'cuda' or 'cuda:1'"
        ) from error
    try:
        torch.zeros(1, dtype=torch.float64, device=resolved).item()  # "meta" holds no numbers
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        raise ValueError(
            f"device={str(resolved)!r} cannot hold float64, which the likelihood needs, or is not "
            f"present on this machine; use device='cpu' ({error})"
        ) from error
    return resolved


def block_rows(
    n_wide: int, device: torch.device, memory_budget: int, *, n_arrays: int = 12, n_more: int = 0
) -> int:
    """Rows of one block whose work arrays hold ``n_wide`` float64 values a row.

    On a CPU a block that stays in cache is faster than one that fills the budget; elsewhere only
    the budget counts.

    Parameters
    ----------
    memory_budget : int
        Bytes.
    n_arrays : int
        Work arrays alive at once: about a dozen in the kernels.
    n_more : int
        Other values a row that are in memory meanwhile.
    """
    budget = memory_budget // (8 * max(n_arrays * n_wide + n_more, 1))
    in_cache = 2**18 // max(n_wide, 1) if device.type == "cpu" else budget
    return max(1, min(budget, max(in_cache, 256)))


# -- what a kernel reads of the rows, and what it returns for each ---------------------------------


Kind = Literal["closed", "hard", "soft"]

Factors = tuple[tuple[Literal["X", "W"], int, int], ...]
"""Runs of columns of X or W, first and last, of which a row has at most one 1, and zeros else.

Sums over pairs of such columns need a pass over the rows, not a product of matrices.
"""


@dataclass(frozen=True, slots=True)
class Apart:
    """A factor whose effects are no columns: each row has the effect of its level in one index.

    The effects are normal with this precision, and are eliminated (`optimize.levels`).
    """

    equation: Literal["outcome", "select"]
    count: int  # q levels
    precision: float = 1.0


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
    factors: Factors = ()
    level: Tensor | None = None  # (n,) of the factor whose effects are apart

    def labels(self, *index: Tensor) -> Block:
        """Return the block with the labels of these members, or of these members' rows.

        The designs and offsets stay as they are: a kernel that is given indices does not read them.
        """
        kept: dict[str, Any] = {}
        for name in ("sign", "floor", "gain", "tilt"):
            field = getattr(self, name)
            if len(index) == 2:
                kept[name] = entries(field, *index)[:, None]
            elif field.ndim == 2:
                kept[name] = field[index[0]]
        return replace(self, **kept)


@dataclass(frozen=True, slots=True)
class RowTerms:
    """Log-likelihood of rows and its derivatives in (a, b, dependence parameters).

    ``second`` lists the upper triangle row by row: aa, ab, ..., bb, ...
    """

    value: Tensor  # (B, n)
    first: Tensor | None = None  # (d, B, n)
    second: Tensor | None = None  # (d (d + 1)/2, B, n)

    @classmethod
    def joined(cls, parts: Sequence[RowTerms], order: Tensor) -> RowTerms:
        """Terms of some members after those of others, then taken in this order, (B,)."""

        def join(name: str) -> Any:
            values = [getattr(part, name) for part in parts]
            return None if values[0] is None else torch.cat(values, dim=-2)[..., order, :]

        return cls(join("value"), join("first"), join("second"))


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
    slopes, second = torch.stack(first), torch.stack(raw)
    end = 0
    for i in range(len(first)):  # the rows of the upper triangle
        begin, end = end, end + len(first) - i
        second[begin:end].addcmul_(slopes[i], slopes[i:], value=-1.0)
    return RowTerms(value, slopes, second)


def outcome_factor(s: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sign, floor and gain of rows with selection values s and labels y; see :class:`Block`."""
    q = 2.0 * y - 1.0
    # floor + gain = 1 - s + s(1 + |q|)/2, the factor's supremum
    sign = torch.where(q < 0, -1.0, 1.0).to(q.dtype)  # torch's own choice is float32
    return sign, (1.0 - s) + 0.5 * s * (1.0 - q.abs()), s * q.abs()


# -- the data on the device ------------------------------------------------------------------------


_BLOCK = 4096  # rows at once
BY_ROW = ("X", "W", "offset", "offset_select", "sign", "floor", "gain", "tilt", "key")
_PACKED = ("weight", "order")


@dataclass(frozen=True)
class Rows:
    """The rows on one device, sorted by kind so that every block runs one kernel.

    A batch of B problems may share them, or have its own: then every array but ``order`` may have
    a leading axis of B members, which have the same segments (see ``batches``).
    """

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
    scale: np.ndarray  # (p + k,) or (B, p + k) root mean square of the columns
    ridge: np.ndarray  # (p + k, p + k) or (B, ., .) what a penalty multiplies
    total_weight: float  # NaN where members have rows of their own
    # (p + k, p + k) Q of penalised terms: b'Qb/2 is subtracted, whatever the weights; None: none
    smoothing: np.ndarray | None = None
    adjustment: Any = None  # of the dependence, beside penalised terms: `objective.Adjustment`
    factors: Factors = ()  # the last columns of X and of W
    level: Tensor | None = None  # (n,) level of each row, of the factor that is apart
    apart: Apart | None = None

    @property
    def row_fields(self) -> tuple[str, ...]:
        """Fields with a value for each row, but for weight and order."""
        return BY_ROW if self.level is None else (*BY_ROW, "level")

    @property
    def n(self) -> int:
        return self.X.shape[-1]

    @property
    def shape(self) -> tuple[int, int]:
        """Columns of the two equations, p and k."""
        return self.X.shape[-2], self.W.shape[-2]

    @property
    def batched(self) -> bool:
        """Whether the members of a batch have rows of their own."""
        return self.weight.ndim == 2

    @property
    def device(self) -> torch.device:
        return self.X.device

    @classmethod
    @one_thread()
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
        ridge: np.ndarray | None = None,
        smoothing: np.ndarray | None = None,
        level: np.ndarray | None = None,
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
        ridge : ndarray, optional
            (p + k, p + k) what a penalty multiplies; the identity by default.
        smoothing : ndarray, optional
            (p + k, p + k) of penalised terms: the precision of their coefficients.
        level : ndarray, optional
            (n,) integers, the level of each row of a factor whose effects are apart.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.ones((3, 1))
        >>> Rows.build(X, X, y=np.array([1.0, 0.0, np.nan]), s=np.array([1.0, 1.0, 0.0])).segments
        (('closed', 0, 1), ('hard', 1, 3))
        """
        X, W = matrix("X", X), matrix("W", W)
        n = X.shape[0]
        if W.shape[0] != n:
            raise ValueError(f"W has {W.shape[0]} rows, but X has {n}")
        s = vector("s", s, n)
        if np.any((s < 0) | (s > 1)):
            raise ValueError("s has values outside [0, 1]; selection values are probabilities")
        y = finite("y", np.where(s > 0, shaped("y", y, n), 0.5))
        if np.any((y < 0) | (y > 1)):
            raise ValueError("y has values outside [0, 1] on rows with s > 0; code it as 0 and 1")
        weights = np.ones(n) if weights is None else vector("weights", weights, n)
        if np.any(weights < 0) or not np.any(weights > 0):
            raise ValueError("weights must not be negative and not all zero")
        zero = np.broadcast_to(0.0, n)
        offset = zero if offset is None else vector("offset", offset, n)
        offset_select = zero if offset_select is None else vector("offset_select", offset_select, n)
        key = np.arange(n) if key is None else np.asarray(key)
        if key.shape != (n,) or not np.issubdtype(key.dtype, np.integer):
            raise ValueError(f"key must be {n} integers, got {key.dtype} of shape {key.shape}")

        closed = s == 0.0
        hard = (s == 1.0) & ((y == 0.0) | (y == 1.0))
        kind = np.where(closed, 0, np.where(hard, 1, 2)).astype(np.int8)
        order = np.argsort(kind, kind="stable")
        edges = np.concatenate([[0], np.cumsum(np.bincount(kind, minlength=3))])
        names: tuple[Kind, ...] = ("closed", "hard", "soft")
        segments = tuple(
            (name, int(edges[i]), int(edges[i + 1]))
            for i, name in enumerate(names)
            if edges[i + 1] > edges[i]
        )
        columns = np.sqrt(np.concatenate([_mean_square(X), _mean_square(W)]))

        def tensor(value: np.ndarray, dtype: torch.dtype = torch.float64) -> Tensor:
            return torch.as_tensor(np.take(value.T, order, axis=-1), dtype=dtype, device=device)

        sign, floor, gain = outcome_factor(tensor(s), tensor(y))
        return cls(
            X=tensor(X),
            W=tensor(W),
            offset=tensor(offset),
            offset_select=tensor(offset_select),
            sign=sign,
            floor=floor,
            gain=gain,
            tilt=tensor(2.0 * s - 1.0),
            key=tensor(key, torch.int64),
            weight=tensor(weights),
            order=torch.as_tensor(order, device=device),
            segments=segments,
            scale=np.where(columns > 0, columns, 1.0),
            ridge=np.eye(len(columns)) if ridge is None else ridge,
            total_weight=float(weights.sum()),
            smoothing=smoothing,
            level=None if level is None else tensor(level, torch.int64),
        )

    @one_thread()
    def take(self, positions: np.ndarray) -> Rows:
        """Return the rows at these sorted positions, with their keys and the columns' scale."""
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
            **{name: getattr(self, name)[..., index] for name in self.row_fields},
            weight=weight,
            order=self.order[index].argsort().argsort(),
            segments=tuple(segments),
            total_weight=float(weight.sum()),
        )

    def of_levels(self, chosen: np.ndarray) -> Rows:
        """Return the rows of some levels of the factor that is apart, numbered anew.

        ``chosen``, (q,), says which.
        """
        assert self.level is not None
        assert self.apart is not None
        rows = self.take(np.flatnonzero(chosen[self.level.cpu().numpy()]))
        assert rows.level is not None
        number = torch.as_tensor(np.cumsum(chosen) - 1, device=self.device)
        apart = replace(self.apart, count=int(chosen.sum()))
        return replace(rows, level=number[rows.level], apart=apart)

    @one_thread()
    def as_if(self, labelled: bool, y: float) -> Rows:
        """Return the rows as if all of them were labelled y, or none were selected."""
        s = torch.full_like(self.weight, float(labelled))
        sign, floor, gain = outcome_factor(s, torch.full_like(s, y))
        kind: Kind = "hard" if labelled else "closed"
        return replace(
            self, sign=sign, floor=floor, gain=gain, tilt=2.0 * s - 1.0,
            segments=((kind, 0, self.n),) if self.n else (),
        )  # fmt: skip

    @classmethod
    @one_thread()
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """Rows of the same columns one after the other, sorted by kind again."""
        first = parts[0]
        pieces: dict[str, list[Tensor]] = {
            name: [] for name in (*first.row_fields, "weight", "order")
        }
        starts = np.cumsum([0, *(rows.n for rows in parts)])
        segments: list[tuple[Kind, int, int]] = []
        end = 0
        for kind in get_args(Kind):
            start = end
            for rows, before in zip(parts, starts[:-1].tolist(), strict=True):
                for own, low, high in rows.segments:
                    if own == kind:
                        end += high - low
                        for name, piece in pieces.items():
                            values = getattr(rows, name)[..., low:high]
                            piece.append(values + before if name == "order" else values)
            if end > start:
                segments.append((kind, start, end))
        fields = {name: torch.cat(piece, dim=-1) for name, piece in pieces.items()}
        return replace(
            first,
            **cast(dict[str, Any], fields),
            segments=tuple(segments),
            total_weight=float(fields["weight"].sum()),
        )

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in (*self.row_fields, *_PACKED))

    @property
    def nbytes_of_one(self) -> int:
        """At most, of one member where each has rows of its own."""
        return 8 * self.n * (self.X.shape[-2] + self.W.shape[-2] + len(BY_ROW))

    def pack(self) -> tuple[tuple[object, ...], np.ndarray]:
        """All fields of the rows as one array, and what it takes to cut it again."""
        cut = (self.X.shape[0], self.W.shape[0])
        names = (*self.row_fields, *_PACKED)
        fields = [getattr(self, name).cpu().numpy() for name in names]
        fields = [v.view(np.float64) if v.dtype == np.int64 else v.astype(float) for v in fields]
        header = (
            cut, names, self.segments, self.scale, self.ridge, self.total_weight, self.device
        )  # fmt: skip
        return header, np.concatenate([np.atleast_2d(field) for field in fields])

    @classmethod
    def unpack(cls, header: Any, numbers: np.ndarray) -> Rows:
        """The rows that :meth:`pack` packed; on a CPU they share the array's memory."""
        (p, k), names, segments, scale, ridge, total_weight, device = header
        fields: dict[str, Any] = {"X": numbers[:p], "W": numbers[p : p + k]}
        fields |= zip(names[2:], numbers[p + k :], strict=True)
        for name in {"key", "order", "level"} & set(names):
            fields[name] = fields[name].view(np.int64)
        tensors: dict[str, Any] = {
            name: torch.as_tensor(v, device=device) for name, v in fields.items()
        }
        return cls(
            **tensors, segments=segments, scale=scale, ridge=ridge, total_weight=total_weight
        )

    def members(self, index: Tensor) -> Rows:
        """Return the members at these positions of a batch that has rows of its own."""
        if not self.batched:
            return self
        kept = {}
        for name in BY_ROW:
            field = getattr(self, name)
            own = field.ndim == (3 if name in ("X", "W") else 2)
            kept[name] = field[index] if own else field
        weight = self.weight[index]
        scale = self.scale if self.scale.ndim == 1 else self.scale[index.cpu().numpy()]
        ridge = self.ridge if self.ridge.ndim == 2 else self.ridge[index.cpu().numpy()]
        return replace(self, **kept, weight=weight, scale=scale, ridge=ridge)

    def blocks(self, size: int) -> Iterator[Block]:
        """The rows in blocks of at most ``size``, each of one kind."""
        for kind, first, last in self.segments:
            for start in range(first, last, size):
                cut = slice(start, min(start + size, last))
                parts = {name: getattr(self, name)[..., cut] for name in self.row_fields}
                yield Block(kind=kind, start=start, factors=self.factors, **parts)

    @one_thread()
    def unsort(self, values: Tensor) -> Tensor:
        """Put values of the sorted rows, along the last axis, back into the user's order."""
        return torch.empty_like(values).index_copy_(-1, self.order, values)

    # Rows in one place are one partition: they answer as `large.partitions.PartitionedRows` do.

    def sum(self, function: Callable[..., Any], *args: Any) -> Any:
        """``function(rows, *args)`` added over the partitions."""
        return function(self, *args)

    def map(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """``function(rows, *args)`` of every partition."""
        return [function(self, *args)]

    def through(self, function: Callable[..., Any], *args: Any) -> Single:
        """Return what the function makes of every partition, to be summed over."""
        return Single(function(self, *args))

    def derive(self, function: Callable[..., Rows], *args: Any) -> Rows:
        """Return the rows that the function makes of every partition."""
        return function(self, *args)

    def softened(self, kind: Kind, function: Callable[..., Rows], *args: Any) -> Rows:
        """Return rows with other labels, whose closed rows have become of this kind."""
        return function(self, *args)

    def spread(self, count: int) -> Rows:
        """Return at least so many of the rows; here they all are at hand."""
        return self


@dataclass(frozen=True, slots=True)
class Single:
    """What was made of the one partition that rows in memory are."""

    item: Any

    def sum(self, function: Callable[..., Any], *args: Any) -> Any:
        """``function(item, *args)`` added over the partitions."""
        return function(self.item, *args)


@dataclass(frozen=True, slots=True)
class Moments:
    """Weighted means and variances of the columns of a design; those of parts add up."""

    weight: float
    mean: np.ndarray  # (p,)
    square: np.ndarray  # (p,) weighted sum of squares about the mean

    @classmethod
    def of(cls, X: np.ndarray, weights: np.ndarray | None = None) -> Moments:
        """Return the moments of an (n, p) design."""
        weights = np.ones(len(X)) if weights is None else weights
        total = float(weights.sum())
        mean = weights @ X / (total or 1.0)
        square = np.zeros_like(mean)
        for start in range(0, len(X), _BLOCK):  # which stays in cache
            own = slice(start, start + _BLOCK)
            square += weights[own] @ (X[own] - mean) ** 2
        return cls(total, mean, square)

    def __add__(self, other: Moments) -> Moments:
        total = self.weight + other.weight
        share, apart = other.weight / (total or 1.0), other.mean - self.mean
        square = self.square + other.square + self.weight * share * apart**2
        return Moments(total, self.mean + share * apart, square)

    @property
    def ridge(self) -> np.ndarray:
        """(p, p) matrix R of the ridge: b'Rb = (mean index)^2 + sum of variance_j b_j^2.

        That is |b|^2 for the coefficients of standardized columns and a constant, whatever the
        units and the origin of the columns; on columns that are standardized already, as the
        paper's are, R is the identity.

        Examples
        --------
        >>> import numpy as np
        >>> Moments.of(np.array([[1.0, -1.0], [1.0, 1.0]])).ridge.tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        variance = self.square / (self.weight or 1.0)
        constant = variance <= 1e-20 * self.mean**2
        size = np.where(self.mean == 0.0, 1.0, self.mean**2)
        # Of several constant columns the mean index holds one combination only.
        more = constant & ((np.cumsum(constant) > 1) | (self.mean == 0.0))
        return np.outer(self.mean, self.mean) + np.diag(
            np.where(more, size, np.where(constant, 0.0, variance))
        )


def joint_ridge(outcome: Moments, select: Moments) -> np.ndarray:
    """(p + k, p + k) of both equations."""
    p = len(outcome.mean)
    joint = np.zeros((p + len(select.mean),) * 2)
    joint[:p, :p], joint[p:, p:] = outcome.ridge, select.ridge
    return joint


def _mean_square(design: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", design, design) / max(design.shape[0], 1)


# -- from the terms of a block to sums -------------------------------------------------------------
#
# A row enters only through a = x'beta + offset and b = w'gamma + offset, so with the row terms g
# and h the score is X'g_a, W'g_b, sum g and the Hessian X'diag(h_aa)X and so on. Indicators of
# factors are summed by level, not multiplied.


def by_level(values: Tensor, level: Tensor, count: int) -> Tensor:
    """Sums of the rows of each level, (..., count)."""
    found = values.new_zeros(*values.shape[:-1], count)
    return found.scatter_add_(-1, level.expand_as(values), values)


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
    top += [_by_code(weighted, *level) for level in right.codes]
    rows = [torch.cat(top, dim=-1)]
    for codes, count in left.codes:
        crossed = _by_code(right.dense * h[:, None], codes, count).mT
        parts = [crossed, *(_by_pair(h, codes, count, *level) for level in right.codes)]
        rows.append(torch.cat(parts, dim=-1))
    return torch.cat(rows, dim=-2)


def _by_code(values: Tensor, codes: Tensor, count: int) -> Tensor:
    """Sums of the rows of each level, (B, p, count)."""
    return values.new_zeros(*values.shape[:-1], count).index_add_(-1, codes, values)


def _by_pair(h: Tensor, codes: Tensor, count: int, others: Tensor, number: int) -> Tensor:
    """Sums of h over the rows of each pair of levels, (B, count, number)."""
    if codes is others:
        return torch.diag_embed(_by_code(h, codes, count))
    sums = _by_code(h, codes * number + others, count * number)
    return sums.reshape(len(h), count, number)


def add_levels(
    levels: tuple[Tensor, ...], first: Tensor, second: Tensor, block: Block, apart: Apart
) -> None:
    """Add a block's derivatives in the effects of its levels; see `optimize.levels.LevelSums`."""
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
