"""Blocks of rows -> log-likelihood, score, Hessian, row scores and outer products.

theta = (beta, gamma, dependence parameters); a leading axis of B parameter vectors runs through
everything. Rows in memory and in partitions share all but the sums themselves: effects of many
levels are eliminated, and penalties subtracted, where the sums arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import torch
from scipy.interpolate import CubicSpline
from torch import Tensor

from ..kernel.forms import Form, unselected
from ..kernel.integration import Nodes, Workspace
from ..kernel.rows import (
    Apart,
    Block,
    Rows,
    RowTerms,
    add_hessian,
    add_levels,
    add_score,
    block_rows,
    level_scores,
    row_scores,
    times,
)
from ..kernel.threads import available, in_threads, one_thread
from ..types import Floats
from .levels import Effects, Eliminated, LevelSums, Memory, eliminate, schur


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
    """What every objective is to an optimiser: a form on rows, less the penalties.

    The rows are in memory or in partitions; a subclass says how their terms are added.
    """

    rows: Any  # Rows, or PartitionedRows in their place

    def __init__(self, rows: Any, form: Form, *, penalty: float = 0.0) -> None:
        if not (np.isfinite(penalty) and penalty >= 0):
            raise ValueError(f"penalty={penalty!r} must be a nonnegative number")
        self.rows = rows
        self.form = form
        self.penalty = float(penalty)
        self.p, self.k = rows.shape
        self.n_coef = self.p + self.k
        self.n_params = self.n_coef + len(form.names)
        self.total_weight: float = rows.total_weight
        scale, ridge = rows.scale, rows.ridge
        ones = np.ones((*scale.shape[:-1], len(form.names)))
        self.scale = np.concatenate([scale, ones], axis=-1)  # (P,) or (B, P)
        self.ridge = np.zeros((*scale.shape[:-1], self.n_params, self.n_params))
        self.ridge[..., : self.n_coef, : self.n_coef] = ridge  # (P, P) or (B, P, P)
        self.smoothing: np.ndarray | None = None
        if rows.smoothing is not None:
            self.smoothing = np.zeros((self.n_params, self.n_params))
            self.smoothing[: self.n_coef, : self.n_coef] = rows.smoothing
        same = rows.adjustment is not None and rows.adjustment.kind == form.kind
        self.adjustment: Adjustment | None = rows.adjustment if same else None
        self.device: torch.device = rows.device
        self._memory = Memory()  # of eliminated effects

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

    def members_at_once(self, theta: np.ndarray) -> int:
        """Members of a batch near theta, (P,), that are best evaluated together."""
        raise NotImplementedError

    def sums(
        self,
        theta: Tensor,
        order: int,
        weights: Tensor | None = None,
        effects: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Value and derivatives up to ``order`` at theta, (B, P), without penalties.

        At given ``effects`` of the factor that is apart, (B, q), the fields of `LevelSums`.
        """
        raise NotImplementedError

    def expected_sums(self, theta: Tensor, effects: Tensor | None = None) -> tuple[Tensor, ...]:
        """:meth:`sums` over all that a row could show, each weighted by its probability.

        Rows that are labelled 1 or 0, or not selected: minus the Hessian is the expected
        information.
        """
        raise NotImplementedError

    def _changed(self, rows: Any, form: Form) -> Any:
        """The objective of the same kind on other rows, or under another form."""
        raise NotImplementedError

    def _at_hand(self, rows: Rows) -> Objective:
        """The objective on some rows that are in memory."""
        raise NotImplementedError

    def with_rows(self, rows: Any) -> Any:
        """Other rows under the same form."""
        return self._changed(rows, self.form)

    def with_form(self, form: Form) -> Any:
        """Return the objective of the same rows under another form or integration."""
        changed = self._changed(self.rows, form)
        changed._memory = self._memory
        return changed

    def smoothed(
        self,
        smoothing: np.ndarray | None,
        adjustment: Adjustment | None = None,
        precision: float | None = None,
    ) -> Any:
        """Return the objective with other penalties of its terms, and their adjustment.

        ``precision`` is that of the effects that are apart; by default it stays.
        """
        apart = self.rows.apart
        if apart is not None and precision is not None:
            apart = replace(apart, precision=precision)
        rows = replace(self.rows, smoothing=smoothing, adjustment=adjustment, apart=apart)
        changed = self.with_rows(rows)
        changed._memory = self._memory
        return changed

    def sample(self, count: int) -> Any:
        """The objective on so many of the rows, always the same ones."""
        if self.rows.n <= count:
            return self
        rows = self.rows.take(sample_positions(self.rows.n, count))
        adjustment = rows.adjustment
        if adjustment is not None:  # which grows with the rows of a level
            values = adjustment.values * (count / self.rows.n)
            rows = replace(rows, adjustment=replace(adjustment, values=values))
        return self._at_hand(rows)

    def sample_levels(self, count: int) -> Objective:
        """The objective on the rows of so many levels of the factor that is apart."""
        chosen = np.zeros(self.rows.apart.count, dtype=bool)
        chosen[sample_positions(len(chosen), count)] = True
        return self._at_hand(self.rows.of_levels(chosen))

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
        if self.rows.apart is None:
            at = Evaluation(*self.sums(theta, order, weights))
        else:
            found = self._eliminated(theta, weights)
            at = Evaluation(found.value, found.score, found.hessian, found.log_information)
        return self._penalised(theta, at, torch.atleast_1d(self.totals(weights)))

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

    # -- effects of a factor that is apart ---------------------------------------------------------

    def _eliminated(self, theta: Tensor, weights: Tensor | None = None) -> Eliminated:
        apart = self.rows.apart
        members = self.n_members if self.batched else 1 if weights is None else len(weights)
        members = max(len(theta), members)
        theta = theta.expand(members, -1)
        key = (apart, self.form) if weights is None and not self.batched else None
        known = None if key is None else self._memory.known(theta, key)
        if known is not None:
            return known
        start = self._memory.start(theta, apart.count, members)

        def sums(effects: Tensor) -> LevelSums:
            return LevelSums(*self.sums(theta, 2, weights, effects))

        found = eliminate(sums, start, apart.precision)
        self._memory.keep(theta, found, key)
        return found

    @one_thread()
    def effects(self, theta: Tensor | np.ndarray) -> Effects:
        """The effects of the factor that is apart, at theta, (P,)."""
        theta = self.as_theta(theta)[:1]
        found = self._eliminated(theta)
        parts = (found.effects, found.information, found.tangent)
        return Effects(*(part[0].cpu().numpy() for part in (theta, *parts)))

    @one_thread()
    def information_at(self, theta: Floats, effects: Floats) -> tuple[Floats, float]:
        """The information without the effects, penalised, and log|D|, at any effects."""
        at, u = self.as_theta(theta), torch.as_tensor(effects, device=self.device)[None]
        found = schur(LevelSums(*self.sums(at, 2, None, u)), u, self.rows.apart.precision)
        whole = self._penalised(
            at, Evaluation(found.value, found.score, found.hessian), self.totals()[None]
        )
        assert whole.hessian is not None
        return -whole.hessian[0].cpu().numpy(), float(found.log_information[0])

    def expected_information(
        self, theta: Floats, effects: Effects | None
    ) -> tuple[Floats, Effects | None]:
        """Expected information of the parameters, (P, P), without penalties.

        Effects that are apart are eliminated; with them their own expected information.
        """
        at = self.as_theta(theta)
        if effects is None:
            return -self.expected_sums(at)[2][0].cpu().numpy(), None
        u = torch.as_tensor(effects.values, device=self.device)[None]
        found = schur(LevelSums(*self.expected_sums(at, u)), u, self.rows.apart.precision)
        parts = (found.hessian, found.information, found.tangent)
        hessian, information, tangent = (part[0].cpu().numpy() for part in parts)
        return -hessian, Effects(theta, effects.values, information, tangent)

    def plain_value(self, theta: Floats) -> float:
        """The log-likelihood at theta, with the effects, but without any penalty."""
        value = float(self.smoothed(None).evaluate(theta, 0).value[0])
        if self.rows.apart is None:
            return value
        prior = 0.5 * self.rows.apart.precision * float(np.sum(self.effects(theta).values ** 2))
        return value + prior


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


# -- blocks of rows -> log-likelihood, score, Hessian, row scores and outer products ---------------


Found = TypeVar("Found")

_BUDGET = 256 * 2**20  # bytes of work arrays
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
        memory_budget: int = _BUDGET,
        block_size: int | None = None,
    ) -> None:
        if block_size is not None and block_size < 1:
            raise ValueError(f"block_size={block_size!r} must be a positive integer")
        super().__init__(rows, form, penalty=penalty)
        self.memory_budget = memory_budget
        self.block_size = block_size
        self._draws: dict[tuple[int, int], Nodes] = {}
        self._draws_size = 0  # of their blocks
        self._blocks: tuple[int, list[Block]] = (0, [])  # of this size, which are only views

    def with_form(self, form: Form) -> Objective:
        changed: Objective = super().with_form(form)
        if form.simulation == self.form.simulation:
            changed._draws, changed._draws_size = self._draws, self._draws_size
        changed._blocks = self._blocks
        return changed

    @property
    def batched(self) -> bool:
        return self.rows.batched

    @property
    def n_members(self) -> int:
        return len(self.rows.weight)

    def members(self, index: Tensor) -> Objective:
        return self._at_hand(self.rows.members(index))

    def totals(self, weights: Tensor | None = None) -> Tensor:
        return (self.rows.weight if weights is None else weights).sum(-1)

    def _changed(self, rows: Rows, form: Form) -> Objective:
        return Objective(
            rows,
            form,
            penalty=self.penalty,
            memory_budget=self.memory_budget,
            block_size=self.block_size,
        )

    def _at_hand(self, rows: Rows) -> Objective:
        return self._changed(rows, self.form)

    @one_thread()
    def sums(
        self,
        theta: Tensor,
        order: int,
        weights: Tensor | None = None,
        effects: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        if weights is None:
            weights = torch.atleast_2d(self.rows.weight)
        elif weights.ndim != 2 or weights.shape[1] != self.rows.n:
            raise ValueError(
                f"weights must have shape ({len(theta)}, {self.rows.n}), got {tuple(weights.shape)}"
            )
        B = max(len(theta), len(weights))
        if not {len(theta), len(weights)} <= {1, B}:
            raise ValueError(f"{len(weights)} sets of weights do not match {len(theta)} of theta")
        groups = self._groups(theta)
        if len(groups) == 1 or effects is not None:
            return self._sums(theta, order, weights, effects)
        parts = [
            self._at_hand(self.rows.members(index))._sums(
                theta[index], order, weights if len(weights) == 1 else weights[index]
            )
            for index in groups
        ]
        back = torch.cat(groups).argsort()
        return tuple(torch.cat(values)[back] for values in zip(*parts, strict=True))

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

    def _sums(
        self, theta: Tensor, order: int, weights: Tensor, effects: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Value, score and Hessian without penalties and, at given effects, their derivatives."""
        B, P = max(len(theta), len(weights)), theta.shape[1]
        apart = None if effects is None else self.rows.apart

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

    @one_thread()
    def row_values(self, theta: Tensor | np.ndarray) -> Tensor:
        """Unweighted log-likelihood of every row, (B, n), in the user's order."""
        self._check_shared("row_values")
        theta = self.as_theta(theta)
        effects = None if self.rows.apart is None else self._eliminated(theta).effects
        return self.rows.unsort(self._values(theta, effects))

    def _values(self, theta: Tensor, effects: Tensor | None) -> Tensor:
        """(B, n) log-likelihoods of the rows as they are sorted."""

        def values(blocks: Iterable[tuple[Block, RowTerms]]) -> Tensor:
            none = theta.new_zeros(len(theta), 0)
            return torch.cat([none, *(terms.value for _, terms in blocks)], dim=-1)

        return torch.cat(list(self._map_blocks(values, theta, 0, effects=effects)), dim=-1)

    @one_thread()
    def expected_sums(self, theta: Tensor, effects: Tensor | None = None) -> tuple[Tensor, ...]:
        parts = []
        for labelled, y in ((True, 1.0), (True, 0.0), (False, 0.5)):
            case = self._at_hand(self.rows.as_if(labelled, y))
            share = case._values(theta, effects).exp()
            parts.append(case.sums(theta, 2, self.rows.weight * share, effects))
        return tuple(sum(values[1:], values[0]) for values in zip(*parts, strict=True))

    @one_thread()
    def row_scores(self, theta: Tensor | np.ndarray, effects: Effects | None = None) -> Tensor:
        """Unweighted score of every row, (n, P), in the user's order, without the penalty.

        ``effects`` are those of the factor that is apart, by default at theta on these rows.
        """
        self._check_shared("row_scores")

        def scores(blocks: Iterable[tuple[Block, Tensor]]) -> Tensor:
            none = torch.zeros(0, self.n_params, dtype=torch.float64, device=self.device)
            return torch.cat([none, *(scores for _, scores in blocks)])

        found = torch.cat(list(self._map_scores(scores, theta, effects)))
        return self.rows.unsort(found.mT).mT

    @one_thread()
    def opg(
        self,
        theta: Tensor | np.ndarray,
        weights: Tensor | None = None,
        effects: Effects | None = None,
    ) -> Tensor:
        """Weighted sum of the outer products of the row scores, (P, P)."""
        self._check_shared("opg")
        by_row = self.rows.weight if weights is None else weights

        def products(blocks: Iterable[tuple[Block, Tensor]]) -> tuple[Tensor]:
            total = by_row.new_zeros(self.n_params, self.n_params)
            for block, scores in blocks:
                weight = by_row[block.start : block.start + len(block.key)]
                total += scores.mT @ (weight[:, None] * scores)
            return (total,)

        return _added(self._map_scores(products, theta, effects))[0]

    def _map_scores(
        self,
        function: Callable[[Iterable[tuple[Block, Tensor]]], Found],
        theta: Tensor | np.ndarray,
        effects: Effects | None,
    ) -> Iterable[Found]:
        """What a function makes of groups of blocks and their rows' scores, in their order."""
        theta, apart = self.as_theta(theta)[:1], self.rows.apart
        values = tangent = theta.new_zeros(0)
        if apart is not None:
            at = effects or self.effects(theta)
            values, tangent = (
                torch.as_tensor(v, device=self.device) for v in (at.values[None], at.tangent)
            )

        def scored(blocks: Iterable[tuple[Block, RowTerms]]) -> Iterator[tuple[Block, Tensor]]:
            for block, terms in blocks:
                scores = row_scores(block, terms, self.n_params)
                if apart is not None:  # effects move with the parameters
                    scores = scores + level_scores(block, terms, tangent, apart)
                yield block, scores

        return self._map_blocks(
            lambda blocks: function(scored(blocks)), theta, 1,
            effects=None if apart is None else values,
        )  # fmt: skip

    def members_at_once(self, theta: np.ndarray) -> int:
        """As many as keep the work arrays small, and rows of their own within half the budget."""
        if self.rows.apart is not None:
            return at_once(self.n_params, self.rows.apart, self.memory_budget)
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
        most = _GROUPS
        if effects is not None and apart is not None:  # whose sums are as many as rows, at most
            most = min(most, max(1, self.rows.n // apart.count))
        return in_threads(worker, _groups_of(self._blocks[1], most), threads=threads)

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


def at_once(n_params: int, apart: Apart, memory_budget: int = _BUDGET) -> int:
    """Members whose derivatives in the effects, of each parameter and level, fit into memory."""
    return max(1, memory_budget // (64 * n_params * apart.count))


def sample_positions(n: int, count: int) -> np.ndarray:
    """Positions of a sample among n sorted rows."""
    return np.random.default_rng(0).choice(n, count, replace=False)


def _groups_of(blocks: list[Block], most: int) -> list[list[Block]]:
    """The blocks in at most so many runs, whatever the number of threads."""
    if not blocks:
        return [[]]
    length = -(-len(blocks) // most)
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
