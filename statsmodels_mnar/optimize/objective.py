"""Blocks of rows -> log-likelihood, score, Hessian, row scores and outer products.

theta = (beta, gamma, dependence parameters); a row enters only through a = x'beta + offset and
b = w'gamma + offset, so with the row terms g and h the score is X'g_a, W'g_b, sum g and the Hessian
X'diag(h_aa)X and so on.

A leading axis of B parameter vectors runs through everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import torch
from scipy.interpolate import CubicSpline
from torch import Tensor

from ..kernel.forms import Form, unselected
from ..kernel.integration import Nodes, Workspace
from ..kernel.rows import Apart, Block, Factors, Rows, RowTerms, block_rows, pairs, times
from ..kernel.threads import available, in_threads, one_thread
from ..types import Floats
from .levels import Effects, Eliminated, LevelSums, Memory, by_level, eliminate, schur


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The penalised log-likelihood at B parameter vectors."""

    value: Tensor  # (B,)
    score: Tensor | None = None  # (B, P)
    hessian: Tensor | None = None  # (B, P, P)
    apart: Tensor | None = None  # (B,) log determinant of the information of eliminated effects

    def __getitem__(self, members: Tensor) -> Evaluation:
        more = (self.score, self.hessian, self.apart)
        return Evaluation(self.value[members], *(v if v is None else v[members] for v in more))

    @classmethod
    def joined(cls, parts: list[Evaluation], order: Tensor) -> Evaluation:
        """Parts one after the other, then taken in this order."""

        def join(values: list[Any]) -> Any:
            return None if values[0] is None else torch.cat(values)[order]

        return cls(*(join([getattr(p, name) for p in parts]) for name in cls.__slots__))


@dataclass(frozen=True, slots=True, eq=False)
class Adjustment:
    """What is added to the log-likelihood as a function of a form's one dependence parameter.

    With it the maximum over all parameters is that of a likelihood with the coefficients integrated
    out (see ``penalties``). A cubic spline in u = atanh of the error correlation, zero at zero and
    constant beyond its knots.
    """

    kind: str  # of the form
    knots: Floats  # (m,) u, ascending
    values: Floats  # (m,)
    unit: float | None  # of a loading, which is unit * sinh(u); None where the parameter is u
    profile: Floats | None = None  # (m,) the log-likelihood to which they were added
    spline: CubicSpline = field(init=False, repr=False)

    def __post_init__(self) -> None:
        flat = ((1, 0.0), (1, 0.0))
        object.__setattr__(self, "spline", CubicSpline(self.knots, self.values, bc_type=flat))

    def at(self, dependence: Floats) -> Floats:
        """Value and two derivatives in the parameter, (3, B)."""
        u, first, second = dependence, np.ones_like(dependence), np.zeros_like(dependence)
        if self.unit is not None:
            size = np.hypot(dependence, self.unit)
            u, first, second = np.arcsinh(u / self.unit), 1.0 / size, -dependence / size**3
        low, high = self.knots[[0, -1]]
        inside = (u >= low) & (u <= high)
        value, slope, bend = (self.spline(np.clip(u, low, high), nu) for nu in range(3))
        slope, bend = np.where(inside, slope, 0.0), np.where(inside, bend, 0.0)
        zero = self.spline(0.0)
        return np.stack([value - zero, slope * first, bend * first**2 + slope * second])


class Likelihood:
    """What every objective is to an optimiser: a form on a number of columns, and a penalty."""

    def __init__(
        self, form: Form, penalty: float, p: int, k: int, scale: np.ndarray, ridge: np.ndarray,
        total_weight: float, device: torch.device, smoothing: np.ndarray | None = None,
        adjustment: Adjustment | None = None,
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
        self.smoothing: np.ndarray | None = None
        if smoothing is not None:
            self.smoothing = np.zeros((self.n_params, self.n_params))
            self.smoothing[: self.n_coef, : self.n_coef] = smoothing
        same = adjustment is not None and adjustment.kind == form.kind
        self.adjustment = adjustment if same else None
        self.device = device

    @property
    def penalised(self) -> bool:
        """Whether coefficients are shrunk in their own units, by a ridge or by their terms."""
        return self.penalty != 0.0 or self.smoothing is not None

    @property
    def batched(self) -> bool:
        """Whether the members of a batch have rows of their own."""
        return False

    @property
    def n_members(self) -> int:
        """Members with rows of their own."""
        raise NotImplementedError

    def members(self, index: Tensor) -> Any:
        """Return members of a batch that have rows of their own."""
        raise NotImplementedError

    def totals(self, weights: Tensor | None = None) -> Tensor:
        """Sum of the weights of each member's rows, (B,) or a number for all of them."""
        return torch.tensor(self.total_weight, dtype=torch.float64, device=self.device)

    def with_form(self, form: Form) -> Any:
        """Return the objective of the same rows under another form or integration."""
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
        """Subtract ridge and penalised terms, for rows of this total weight, (B,) or (1,)."""
        if self.penalty != 0.0:
            at = _less(theta, at, self.penalty * total, self.ridge)
        if self.smoothing is not None:
            at = _less(theta, at, torch.ones_like(at.value), self.smoothing)
        if self.adjustment is not None:
            at = _adjusted(theta, at, self.adjustment)
        return at


def _less(theta: Tensor, at: Evaluation, alpha: Tensor, matrix: np.ndarray) -> Evaluation:
    """Subtract alpha/2 theta'(matrix)theta."""
    quadratic = torch.as_tensor(matrix, device=theta.device)
    pull = (quadratic @ theta[..., None])[..., 0]
    value = at.value - 0.5 * alpha * (theta * pull).sum(-1)
    score = None if at.score is None else at.score - alpha[:, None] * pull
    hessian = None if at.hessian is None else at.hessian - alpha[:, None, None] * quadratic
    return replace(at, value=value, score=score, hessian=hessian)


def _adjusted(theta: Tensor, at: Evaluation, adjustment: Adjustment) -> Evaluation:
    """Add what depends on the last parameter alone."""
    more = adjustment.at(theta[:, -1].detach().cpu().numpy())
    value, slope, bend = torch.as_tensor(more, device=theta.device)
    score, hessian = at.score, at.hessian
    if score is not None:
        score = score.clone()
        score[:, -1] += slope
    if hessian is not None:
        hessian = hessian.clone()
        hessian[:, -1, -1] += bend
    return Evaluation(at.value + value, score, hessian, at.apart)


# -- from the terms of rows to score and Hessian ---------------------------------------------------


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


def _level_scores(block: Block, terms: RowTerms, tangent: Tensor, apart: Apart) -> Tensor:
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


# -- blocks of rows -> log-likelihood, score, Hessian, row scores and outer products ---------------


Found = TypeVar("Found")

_GROUPS = 64  # of blocks whose sums are kept until they are added in their order
_DRAW_CACHE = 512 * 2**20  # bytes of draws kept between evaluations
_SMALL_WORK = 2**17  # values at nodes, of members and rows, that cost no more than another call


class Objective(Likelihood):
    """Sum of weighted row log-likelihoods, less the ridge penalty.

    Parameters
    ----------
    rows : Rows
    form : Form
    penalty : float
        alpha >= 0; n * alpha/2 * (beta, gamma)' R (beta, gamma) is subtracted, n the sum of the
        weights and R the rows' ridge: the paper's weight decay where that is the identity.
    memory_budget : int
        Bytes of the work arrays of a block. Members of a batch are so many that their own rows take
        no more than half of it. Draws that are kept between evaluations come on top.
    block_size : int, optional
        Rows of a block; by default chosen from the budget and the cache.

    Examples
    --------
    >>> import numpy as np
    >>> from statsmodels_mnar.kernel.forms import LoadingForm
    >>> from statsmodels_mnar.kernel.rows import Rows
    >>> from statsmodels_mnar.optimize.objective import Objective
    >>> X = np.ones((3, 1))
    >>> rows = Rows.build(X, X, y=np.array([1.0, 0.0, np.nan]), s=np.array([1.0, 1.0, 0.0]))
    >>> at = Objective(rows, LoadingForm()).evaluate(np.zeros(3))
    >>> round(at.value.item(), 6)  # two rows of PHI(0) L(0) and one of PHI(0)
    -3.465736
    >>> tuple(at.hessian.shape)
    (1, 3, 3)
    """

    def __init__(
        self,
        rows: Rows,
        form: Form,
        *,
        penalty: float = 0.0,
        memory_budget: int = 256 * 2**20,
        block_size: int | None = None,
    ) -> None:
        if block_size is not None and block_size < 1:
            raise ValueError(f"block_size={block_size!r} must be a positive integer")
        p, k = rows.X.shape[-2], rows.W.shape[-2]
        super().__init__(
            form, penalty, p, k, rows.scale, rows.ridge, rows.total_weight, rows.device,
            rows.smoothing, rows.adjustment,
        )  # fmt: skip
        self.rows = rows
        self.memory_budget = memory_budget
        self.block_size = block_size
        self._draws: dict[tuple[int, int], Nodes] = {}
        self._draws_size = 0  # of their blocks
        self._blocks: tuple[int, list[Block]] = (0, [])  # of this size, which are only views
        self._memory = Memory()  # of eliminated effects

    def with_form(self, form: Form) -> Objective:
        """Return the objective of the same rows under another form or integration."""
        changed = self._changed(self.rows, form)
        if form.simulation == self.form.simulation:
            changed._draws, changed._draws_size = self._draws, self._draws_size
        changed._blocks, changed._memory = self._blocks, self._memory
        return changed

    @property
    def batched(self) -> bool:
        return self.rows.batched

    @property
    def n_members(self) -> int:
        return len(self.rows.weight)

    def members(self, index: Tensor) -> Objective:
        return self.with_rows(self.rows.members(index))

    def totals(self, weights: Tensor | None = None) -> Tensor:
        return (self.rows.weight if weights is None else weights).sum(-1)

    def sample(self, count: int) -> Objective:
        if self.rows.n <= count:
            return self
        rows = self.rows.take(sample_positions(self.rows.n, count))
        adjustment = rows.adjustment
        if adjustment is not None:  # which grows with the rows of a level
            values = adjustment.values * (count / self.rows.n)
            rows = replace(rows, adjustment=replace(adjustment, values=values))
        return self.with_rows(rows)

    def sample_levels(self, count: int) -> Objective:
        """The objective on the rows of so many levels of the factor that is apart."""
        apart, level = self.rows.apart, self.rows.level
        assert apart is not None
        assert level is not None
        chosen = np.zeros(apart.count, dtype=bool)
        chosen[sample_positions(apart.count, count)] = True
        found, codes = np.cumsum(chosen) - 1, level.cpu().numpy()
        rows = self.rows.take(np.flatnonzero(chosen[codes]))
        assert rows.level is not None
        own = torch.as_tensor(found, device=rows.device)[rows.level]
        apart = replace(apart, count=int(chosen.sum()))
        return self.with_rows(replace(rows, level=own, apart=apart))

    def with_rows(self, rows: Rows) -> Objective:
        """Other rows under the same form."""
        return self._changed(rows, self.form)

    def smoothed(
        self,
        smoothing: np.ndarray | None,
        adjustment: Adjustment | None = None,
        precision: float | None = None,
    ) -> Objective:
        """Return the objective with other penalties of its terms, and their adjustment.

        ``precision`` is that of the effects that are apart; by default it stays.
        """
        apart = self.rows.apart
        if apart is not None and precision is not None:
            apart = replace(apart, precision=precision)
        changed = self.with_rows(
            replace(self.rows, smoothing=smoothing, adjustment=adjustment, apart=apart)
        )
        changed._memory = self._memory
        return changed

    def _changed(self, rows: Rows, form: Form) -> Objective:
        return Objective(
            rows,
            form,
            penalty=self.penalty,
            memory_budget=self.memory_budget,
            block_size=self.block_size,
        )

    @one_thread()
    def evaluate(
        self, theta: Tensor | np.ndarray, order: int = 2, weights: Tensor | None = None
    ) -> Evaluation:
        """Value and derivatives up to ``order`` at theta, (B, P).

        Parameters
        ----------
        weights : Tensor, optional
            (B, n) weights in place of the rows' own, in the order of the sorted rows. Where theta
            is one vector, the rows' terms are computed once for all of them.
        """
        theta = self.as_theta(theta)
        if weights is None:
            weights = self.rows.weight if self.rows.batched else self.rows.weight[None]
        elif weights.ndim != 2 or weights.shape[1] != self.rows.n:
            raise ValueError(
                f"weights must have shape ({len(theta)}, {self.rows.n}), got {tuple(weights.shape)}"
            )
        B = max(len(theta), len(weights))
        if not {len(theta), len(weights)} <= {1, B}:
            raise ValueError(f"{len(weights)} sets of weights do not match {len(theta)} of theta")
        groups = self._groups(theta)
        if len(groups) == 1 or self.rows.apart is not None:
            return self._evaluate(theta, order, weights)
        parts = [
            self.with_rows(self.rows.members(index))._evaluate(
                theta[index], order, weights if len(weights) == 1 else weights[index]
            )
            for index in groups
        ]
        return Evaluation.joined(parts, torch.cat(groups).argsort())

    def _groups(self, theta: Tensor) -> list[Tensor]:
        """Members whose integrals take about as many nodes: one near |rho| = 1 slows no other.

        Where the additional work is small, calls cost more than nodes, and members whose form
        shares the nodes of the most demanding one go together with it.
        """
        if len(theta) == 1:
            return [torch.zeros(1, dtype=torch.int64, device=theta.device)]
        sizes = self.form.sizes(self._dependence(theta))
        largest = None
        for size in np.unique(sizes)[::-1]:
            if self.form.shares_nodes and largest is not None:
                among = sizes == size
                if among.sum() * self.rows.n * (largest - size) <= _SMALL_WORK:
                    sizes[among] = largest
                    continue
            largest = size
        return [
            torch.as_tensor(np.flatnonzero(sizes == size), device=theta.device)
            for size in np.unique(sizes)
        ]

    def _dependence(self, theta: Tensor) -> np.ndarray:
        """The dependence parameters on the host, where the nodes are chosen, (B, d)."""
        dependence = theta[:, self.n_coef :].detach().cpu().numpy()
        if not np.isfinite(dependence).all():
            raise ValueError(f"theta has values of {list(self.form.names)} that are not finite")
        return dependence

    def _evaluate(self, theta: Tensor, order: int, weights: Tensor) -> Evaluation:
        members = max(len(theta), len(weights))
        if self.rows.apart is not None:
            found = self._eliminated(theta, weights, members)
            at = Evaluation(found.value, found.score, found.hessian, found.log_information)
        else:
            at = Evaluation(*self._sums(theta, order, weights))
        return self._penalised(theta, at, weights.sum(-1))

    def _sums(
        self, theta: Tensor, order: int, weights: Tensor, effects: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Value, score and Hessian without penalties and, at given effects, their derivatives."""
        B, P = max(len(theta), len(weights)), theta.shape[1]
        apart = self.rows.apart

        def sums(blocks: Iterable[tuple[Block, RowTerms]]) -> tuple[Tensor, ...]:
            value = theta.new_zeros(B)
            score = theta.new_zeros(B, P) if order >= 1 else None
            hessian = theta.new_zeros(B, P, P) if order >= 2 else None
            levels: tuple[Tensor, ...] = ()
            if apart is not None:
                shapes = ((B,), (B,), (B, P))
                levels = tuple(theta.new_zeros(*shape, apart.count) for shape in shapes)
            for block, terms in blocks:
                weight = weights[:, block.start : block.start + block.X.shape[-1]]
                value += (weight * terms.value).sum(-1)
                if score is not None and terms.first is not None:
                    first = weight * terms.first
                    add_score(score, first, block)
                if hessian is not None and terms.second is not None:
                    second = weight * terms.second
                    add_hessian(hessian, second, block)
                    if apart is not None:
                        add_levels(levels, first, second, block, apart)
            return tuple(v for v in (value, score, hessian, *levels) if v is not None)

        total = _added(self._map_blocks(sums, theta, order, members=B, effects=effects))
        if order < 2:
            return total
        value, score, hessian, *levels = total
        return value, score, hessian.triu() + hessian.triu(1).mT, *levels

    # -- effects of a factor that is apart ---------------------------------------------------------

    def _eliminated(self, theta: Tensor, weights: Tensor, members: int) -> Eliminated:
        apart = self.rows.apart
        assert apart is not None
        theta = theta.expand(members, -1)
        own = weights.data_ptr() == self.rows.weight.data_ptr()
        key = (apart, self.form, self.rows.weight.data_ptr()) if own else None
        known = self._memory.known(theta, key) if own else None
        if known is not None:
            return known
        start = self._memory.start(theta, apart.count, members)

        def sums(effects: Tensor) -> LevelSums:
            return LevelSums(*self._sums(theta, 2, weights, effects))

        found = eliminate(sums, start, apart.precision)
        self._memory.keep(theta, found, key)
        return found

    @one_thread()
    def effects(self, theta: Tensor | np.ndarray) -> Effects:
        """The effects of the factor that is apart, at theta, (P,)."""
        theta = self.as_theta(theta)[:1]
        found = self._eliminated(theta, self.rows.weight[None], 1)
        parts = (found.effects, found.information, found.tangent)
        return Effects(*(part[0].cpu().numpy() for part in (theta, *parts)))

    @one_thread()
    def level_sums(self, theta: Floats, effects: Floats) -> LevelSums:
        """Sums over the rows at theta, (P,), and any effects, (q,), without penalties."""
        u = torch.as_tensor(effects, device=self.device)[None]
        return LevelSums(*self._sums(self.as_theta(theta), 2, self.rows.weight[None], u))

    @one_thread()
    def information_at(self, theta: Floats, effects: Floats) -> tuple[Floats, float]:
        """The information without the effects, penalised, and log|D|, at any effects."""
        at, u = self.as_theta(theta), torch.as_tensor(effects, device=self.device)[None]
        assert self.rows.apart is not None
        found = schur(self.level_sums(theta, effects), u, self.rows.apart.precision)
        whole = self._penalised(
            at, Evaluation(found.value, found.score, found.hessian), self.totals()[None]
        )
        assert whole.hessian is not None
        return -whole.hessian[0].cpu().numpy(), float(found.log_information[0])

    def plain_value(self, theta: Floats) -> float:
        """The log-likelihood at theta, with the effects, but without any penalty."""
        if self.rows.apart is None:
            return float(self.smoothed(None).evaluate(theta, 0).value[0])
        prior = 0.5 * self.rows.apart.precision * float(np.sum(self.effects(theta).values ** 2))
        return float(self.smoothed(None).evaluate(theta, 0).value[0]) + prior

    @one_thread()
    def row_values(self, theta: Tensor | np.ndarray) -> Tensor:
        """Unweighted log-likelihood of every row, (B, n), in the user's order."""
        self._check_shared("row_values")
        theta = self.as_theta(theta)

        def values(blocks: Iterable[tuple[Block, RowTerms]]) -> Tensor:
            none = theta.new_zeros(len(theta), 0)
            return torch.cat([none, *(terms.value for _, terms in blocks)], dim=-1)

        effects = self._effects_of(theta)
        found = self._map_blocks(values, theta, 0, effects=effects)
        return self.rows.unsort(torch.cat(list(found), dim=-1))

    @one_thread()
    def row_scores(self, theta: Tensor | np.ndarray) -> Tensor:
        """Unweighted score of every row, (n, P), in the user's order, without the penalty."""
        self._check_shared("row_scores")
        theta = self.as_theta(theta)[:1]

        effects, apart = self._effects_of(theta), self.rows.apart
        tangent = None if self._memory.ended is None else self._memory.ended.tangent[0]

        def own(block: Block, terms: RowTerms) -> Tensor:
            found = row_scores(block, terms, self.n_params)
            if apart is not None and tangent is not None:  # effects move with the parameters
                found = found + _level_scores(block, terms, tangent, apart)
            return found

        def scores(blocks: Iterable[tuple[Block, RowTerms]]) -> Tensor:
            none = theta.new_zeros(0, self.n_params)
            return torch.cat([none, *(own(*both) for both in blocks)])

        found = torch.cat(list(self._map_blocks(scores, theta, 1, effects=effects)))
        return self.rows.unsort(found.mT).mT

    def _effects_of(self, theta: Tensor) -> Tensor | None:
        """(B, q) effects at theta; None where none are apart."""
        if self.rows.apart is None:
            return None
        return self._eliminated(theta, self.rows.weight[None], len(theta)).effects

    @one_thread()
    def opg(self, theta: Tensor | np.ndarray, weights: Tensor | None = None) -> Tensor:
        """Weighted sum of the outer products of the row scores, (P, P)."""
        self._check_shared("opg")
        theta = self.as_theta(theta)[:1]
        by_row = self.rows.weight if weights is None else weights

        def products(blocks: Iterable[tuple[Block, RowTerms]]) -> tuple[Tensor]:
            total = theta.new_zeros(self.n_params, self.n_params)
            for block, terms in blocks:
                scores = row_scores(block, terms, self.n_params)
                weight = by_row[block.start : block.start + len(block.key)]
                total += scores.mT @ (weight[:, None] * scores)
            return (total,)

        return _added(self._map_blocks(products, theta, 1))[0]

    def members_at_once(self, theta: np.ndarray) -> int:
        """As many as keep the work arrays small, and rows of their own within half the budget."""
        if self.rows.apart is not None:  # whose derivatives are as many as levels and parameters
            return max(1, self.memory_budget // (64 * self.n_params * self.rows.apart.count))
        count = int(self.form.sizes(self._dependence(self.as_theta(theta)))[0])
        in_cache = block_rows(count, self.rows.device, self.memory_budget) // 64
        in_budget = self.memory_budget // (2 * self.rows.nbytes_of_one)
        return max(1, min(in_cache, in_budget))

    def _check_shared(self, what: str) -> None:
        if self.rows.batched:
            raise ValueError(f"{what} needs rows that all members share; ask one member at a time")

    # -- one block ---------------------------------------------------------------------------------

    def _map_blocks(
        self,
        function: Callable[[Iterable[tuple[Block, RowTerms]]], Found],
        theta: Tensor,
        order: int,
        members: int = 1,
        effects: Tensor | None = None,
    ) -> Iterable[Found]:
        """What a function makes of groups of blocks and their row terms, in their order.

        Parameters
        ----------
        members : int
            Of a batch for which the function makes sums.
        effects : Tensor, optional
            (B, q) of the factor that is apart.
        """
        apart = self.rows.apart
        beta, gamma, dependence = theta.split([self.p, self.k, len(self.form.names)], dim=1)
        simulation = self.form.simulation
        nodes = None
        if simulation is None:
            nodes = self.form.nodes(self._dependence(theta), self.rows.device)
        count = simulation.n_draws if simulation is not None else nodes.count  # type: ignore[union-attr]
        size = self.block_size or block_rows(
            len(theta) * count,
            self.rows.device,
            self.memory_budget,
            n_arrays=12 if simulation is None else 24,  # draws, and their products with the others
            n_more=2 * members * (max(self.p, self.k) + 10),  # weighted columns and terms
        )
        if size != self._draws_size:  # draws of other blocks are of no use
            self._draws, self._draws_size = {}, size

        def terms_of(block: Block, work: Workspace) -> RowTerms:
            b = times(gamma, block.W) + block.offset_select
            if effects is not None and apart is not None and apart.equation == "select":
                b = b + effects[:, block.level]
            if block.kind == "closed":
                return unselected(b, order)
            a = times(beta, block.X) + block.offset
            if effects is not None and apart is not None and apart.equation == "outcome":
                a = a + effects[:, block.level]
            own: Any = self._block_draws(block) if nodes is None else nodes
            return self.form.terms(a, b, dependence, block, replace(own, work=work), order)

        def worker() -> Callable[[list[Block]], Found]:
            work = Workspace()  # of one thread in this evaluation
            return lambda group: function((block, terms_of(block, work)) for block in group)

        threads = available() if self._divided(size) else 1
        if self._blocks[0] != size:
            self._blocks = (size, list(self.rows.blocks(size)))
        return in_threads(worker, _groups_of(self._blocks[1]), threads=threads)

    def _divided(self, size: int) -> bool:
        """Whether rows are worth several threads: not those of a block, nor elsewhere than here."""
        wide = self.rows.n - sum(
            high - low for kind, low, high in self.rows.segments if kind == "closed"
        )
        return self.rows.device.type == "cpu" and wide > size

    def _block_draws(self, block: Block) -> Nodes:
        """Draws of a block, kept between evaluations where they fit."""
        simulation = self.form.simulation
        assert simulation is not None
        place = (block.start, block.key.shape[-1])
        nodes = self._draws.get(place)
        if nodes is None:
            nodes = simulation.nodes(block.key)
            if self.rows.key.numel() * simulation.n_draws * 8 <= _DRAW_CACHE:
                self._draws[place] = nodes
        return nodes


def sample_positions(n: int, count: int) -> np.ndarray:
    """Positions of a sample among n sorted rows."""
    return np.random.default_rng(0).choice(n, count, replace=False)


def _groups_of(blocks: list[Block]) -> list[list[Block]]:
    """The blocks in at most ``_GROUPS`` runs, whatever the number of threads."""
    if not blocks:
        return [[]]
    length = -(-len(blocks) // _GROUPS)
    return [blocks[i : i + length] for i in range(0, len(blocks), length)]


def _added(parts: Iterable[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Sums of the groups, added in their order."""
    total: tuple[Tensor, ...] | None = None
    for part in parts:
        if total is None:
            total = part
        else:
            for whole, own in zip(total, part, strict=True):
                whole += own
    assert total is not None
    return total
