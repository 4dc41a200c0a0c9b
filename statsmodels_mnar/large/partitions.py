"""Rows in partitions, and the objective as a sum over them.

Only sums over rows travel: value, score and Hessian of an evaluation, the sums of a binary
regression, a sample of a few thousand rows for start values. They are added in the order of the
partitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, get_args

import numpy as np
import torch
from torch import Tensor

from ..kernel.forms import Form
from ..kernel.links import Link
from ..kernel.rows import Apart, Factors, Kind, Moments, Rows, joint_ridge
from ..optimize.batches import reweighted
from ..optimize.binary import (
    _SAMPLE,
    BinaryFit,
    BinaryFits,
    BinarySums,
    climb,
    cut_of,
    equation_of,
    equation_sums,
    equation_weight,
    factors_of,
    fit_binary,
    quadratic_of,
    reach_of,
)
from ..optimize.levels import Effects
from ..optimize.objective import Likelihood, Objective, at_once
from ..optimize.solution import Callback, Step
from ..tools import progress_bar
from .checkpoint import Fingerprint, Journal, Marks, marks_of, signature, sum_of
from .execution import Partitions

_KEPT = 2**15  # numbers of a pass that a checkpoint keeps
_MEMBERS = 16  # of a batch; each costs a pass's arithmetic, all of them together one pass


@dataclass
class Session:
    """What a fit attaches to its rows for as long as it runs."""

    journal: Journal | None = None  # of sums already made
    watch: Callable[[Iterable[Any], list[int]], Iterable[Any]] | None = None  # shows a pass


@dataclass(frozen=True)
class PartitionedRows:
    """Rows in partitions, with what an optimiser must know of all of them."""

    parts: Partitions  # of Rows
    counts: tuple[dict[Kind, int], ...]  # of each partition
    scale: np.ndarray  # (p + k,) root mean square of the columns
    ridge: np.ndarray  # (p + k, p + k) what a penalty multiplies
    shape: tuple[int, int]  # p and k
    total_weight: float
    device: torch.device
    marks: Marks  # of everything that the likelihood reads of them
    tag: str = ""  # how they were derived, for the journal
    session: Session = field(default_factory=Session)
    # Of penalised terms, as in Rows; partitions have the levels of theirs.
    smoothing: np.ndarray | None = None
    adjustment: Any = None
    factors: Factors = ()
    apart: Apart | None = None

    @classmethod
    def gathered(cls, parts: Partitions, *, standardize: bool = False) -> PartitionedRows:
        """Measure the partitions in one pass.

        With ``standardize`` a penalty is one of the coefficients of standardized columns.
        """
        found = list(parts.map(_measure))
        n = sum(one.n for one in found)
        square = sum(one.square for one in found) / max(n, 1)
        columns = np.sqrt(square)
        return cls(
            parts=parts,
            counts=tuple(one.counts for one in found),
            scale=np.where(columns > 0, columns, 1.0),
            ridge=(
                joint_ridge(*(_added(one.moments[i] for one in found) for i in (0, 1)))
                if standardize
                else np.eye(len(columns))
            ),
            shape=found[0].shape,
            total_weight=sum(one.total_weight for one in found),
            device=found[0].device,
            marks={name: sum_of(*(one.marks[name] for one in found)) for name in found[0].marks},
        )

    @property
    def n(self) -> int:
        return sum(self.sizes)

    @property
    def sizes(self) -> list[int]:
        """Rows of each partition."""
        return [sum(count.values()) for count in self.counts]

    def count(self, kind: Kind) -> int:
        """Rows of a kind."""
        return sum(count.get(kind, 0) for count in self.counts)

    def derive(self, function: Callable[..., Rows], *args: Any) -> PartitionedRows:
        """Return rows with other labels or columns, which are made anew in each pass."""
        made = PartitionedRows.gathered(self.parts.derive(function, *args))
        tag = f"{self.tag}{signature(function, args)}"
        return replace(made, tag=tag, session=self.session)

    def softened(self, kind: Kind, function: Callable[..., Rows], *args: Any) -> PartitionedRows:
        """Return rows with other labels, whose closed rows have become of this kind."""
        counts = tuple(
            {kind if own == "closed" else own: n for own, n in count.items()}
            for count in self.counts
        )
        return replace(self.through(function, *args), counts=counts)

    def through(self, function: Callable[..., Any], *args: Any) -> PartitionedRows:
        """Return what the function makes of every partition in each pass, to be summed over."""
        tag = f"{self.tag}{signature(function, args)}"
        return replace(self, parts=self.parts.derive(function, *args), tag=tag)

    @property
    def fingerprint(self) -> Fingerprint:
        """Numbers that identify these rows, the same however they are cut into partitions.

        Rows of one place in the data belong together: exchanging the labels or the covariates of
        two rows changes it.
        """
        kinds = get_args(Kind)
        parts: dict[str, Any] = {
            "the number of rows": [self.n],
            "the numbers of labelled and unlabelled rows": [self.count(kind) for kind in kinds],
            "the numbers of columns of the two equations": list(self.shape),
        }
        return parts | {what: list(self.marks[what]) for what in self.marks}

    def sum(self, function: Callable[..., tuple[Tensor, ...]], *args: Any) -> tuple[Tensor, ...]:
        """``function(rows, *args)`` added over the partitions, in their order."""
        journal, watch = self.session.journal, self.session.watch
        key = "" if journal is None else self.tag + signature(function, args)
        if journal is not None and key in journal:
            return tuple(torch.as_tensor(v, device=self.device) for v in journal[key])
        results: Iterable[Any] = self.map(function, *args)
        if watch is not None:
            results = watch(results, self.sizes)
        total: tuple[Tensor, ...] | None = None
        for part in results:
            total = (
                part if total is None else tuple(a + b for a, b in zip(total, part, strict=True))
            )
        assert total is not None
        if journal is not None:
            journal[key] = tuple(v.cpu().numpy() for v in total)
        return total

    def map(self, function: Callable[..., Any], *args: Any) -> Iterator[Any]:
        """``function(rows, *args)`` of every partition, in their order."""
        if not self.factors and self.apart is None:
            return self.parts.map(function, *args)
        return self.parts.map(_with_factors, function, self.factors, self.apart, *args)

    def take(self, positions: np.ndarray) -> Rows:
        """Return rows by their position in the order that all rows would have in one piece."""
        ends: dict[tuple[Kind, int], int] = {}
        end = 0
        for kind in get_args(Kind):
            for i, count in enumerate(self.counts):
                end += count.get(kind, 0)
                ends[kind, i] = end
        positions = np.sort(positions)
        wanted: list[list[tuple[Kind, np.ndarray]]] = [[] for _ in self.counts]
        for (kind, i), end in ends.items():
            start = end - self.counts[i].get(kind, 0)
            low, high = np.searchsorted(positions, [start, end])
            if high > low:
                wanted[i].append((kind, positions[low:high] - start))
        found = list(self.parts.map(_take, each=wanted))
        return replace(self._joined(found), factors=self.factors, apart=self.apart)

    def of_levels(self, chosen: np.ndarray) -> Rows:
        """Return the rows of some levels of the factor that is apart; see `Rows.of_levels`."""
        return self._joined(self.map(Rows.of_levels, chosen))

    def _joined(self, parts: Iterable[Rows]) -> Rows:
        """Some rows of every partition in one piece."""
        return replace(
            Rows.joined([rows for rows in parts if rows.n]),
            scale=self.scale, ridge=self.ridge, smoothing=self.smoothing,
            adjustment=self.adjustment,
        )  # fmt: skip

    def spread(self, count: int) -> Rows:
        """Return a sample of rows, spread evenly over the partitions."""
        return self.take(np.unique(np.linspace(0, self.n - 1, count).astype(np.int64)))

    # -- binary regressions ------------------------------------------------------------------------

    def fit_binary(self, equation: str, link: Link, penalty: float = 0.0) -> BinaryFit:
        """:func:`fit_binary` of the "outcome" on the labelled rows, or of "select" on all."""
        labelled = self.n - self.count("closed")
        n = labelled if equation == "outcome" else self.n
        first = self.n - n
        quadratic = quadratic_of(self, equation, penalty)
        beta = quadratic.new_zeros(1, len(quadratic))
        if n >= 4 * _SAMPLE:
            some = self.take(first + np.arange(0, n, n // _SAMPLE))
            X, y, weight, offset = equation_of(some, equation)
            sample = fit_binary(
                X, y, link, weight=weight, offset=offset, penalty=1.0,
                ridge=quadratic / float(self.sum(equation_weight, equation)[0]),
                factors=factors_of(some, equation),
            )  # fmt: skip
            beta = sample.params[None] if sample.converged else beta
        fits = self._climb(equation, link, beta, beta.new_ones(1), quadratic)
        return BinaryFit(
            fits.params[0], float(fits.value[0]), fits.hessian[0], bool(fits.converged[0])
        )

    def fit_binaries(
        self, equation: str, link: Link, start: Tensor, penalty: float = 0.0
    ) -> BinaryFits:
        """Fit one equation for each member of a batch, from (B, .) start values."""
        alpha = start.new_zeros(len(start))
        if penalty:
            alpha = penalty * self.sum(equation_weight, equation)[0]
        cut = cut_of(self, equation)
        ridge = torch.as_tensor(self.ridge[cut, cut], device=self.device)
        return self._climb(equation, link, start, alpha, ridge)

    def _climb(
        self, equation: str, link: Link, start: Tensor, alpha: Tensor, ridge: Tensor
    ) -> BinaryFits:
        def evaluate(beta: Tensor, order: int) -> BinarySums:
            return self.sum(equation_sums, equation, link, beta, order)

        return climb(evaluate, reach_of(self, equation), start, alpha, ridge)


def _with_factors(
    rows: Rows, function: Callable[..., Any], factors: Factors, apart: Apart | None, *args: Any
) -> Any:
    """``function(rows, *args)`` of rows that know which of their columns are levels."""
    return function(replace(rows, factors=factors, apart=apart), *args)


@dataclass(frozen=True, slots=True)
class _Measure:
    """Measures of one partition."""

    n: int
    counts: dict[Kind, int]
    square: np.ndarray  # (p + k,) sum of squares of the columns
    moments: tuple[Moments, Moments]  # of the outcome's columns and of selection's
    shape: tuple[int, int]
    total_weight: float
    device: torch.device
    marks: Marks


def _measure(rows: Rows) -> _Measure:
    square = torch.cat([(m * m).sum(-1) for m in (rows.X, rows.W)]).cpu().numpy()
    counts = {kind: high - low for kind, low, high in rows.segments}
    shape = (rows.X.shape[0], rows.W.shape[0])
    weights = rows.weight.cpu().numpy() if rows.weight.ndim == 1 else None
    outcome, select = (Moments.of(m.mT.cpu().numpy(), weights) for m in (rows.X, rows.W))
    return _Measure(
        rows.n,
        counts,
        square,
        (outcome, select),
        shape,
        rows.total_weight,
        rows.device,
        marks_of(rows),
    )


def _added(moments: Iterable[Moments]) -> Moments:
    first, *others = moments
    return sum(others, first)


def _take(rows: Rows, wanted: list[tuple[Kind, np.ndarray]]) -> Rows:
    starts = {kind: low for kind, low, _ in rows.segments}
    positions = [starts[kind] + where for kind, where in wanted]
    return rows.take(np.concatenate(positions) if positions else np.empty(0, dtype=np.int64))


def in_parts(rows: Rows | PartitionedRows) -> PartitionedRows:
    """Return the rows of a model whose data are in partitions, which have the type of others."""
    assert isinstance(rows, PartitionedRows)
    return rows


class PartitionedObjective(Likelihood):
    """:class:`Objective` over rows in partitions.

    Examples
    --------
    >>> import numpy as np
    >>> from statsmodels_mnar.kernel.forms import LoadingForm
    >>> from statsmodels_mnar.kernel.rows import Rows
    >>> from statsmodels_mnar.large.execution import LocalPartitions, Store
    >>> X = np.ones((3, 1))
    >>> rows = Rows.build(X, X, y=np.array([1.0, 0.0, np.nan]), s=np.array([1.0, 1.0, 0.0]))
    >>> parts = LocalPartitions([lambda: rows, lambda: rows], ["one", "two"], Store(0))
    >>> objective = PartitionedObjective(PartitionedRows.gathered(parts), LoadingForm())
    >>> round(objective.evaluate(np.zeros(3)).value.item(), 6)
    -6.931472
    """

    def _changed(self, rows: PartitionedRows, form: Form) -> PartitionedObjective:
        return PartitionedObjective(rows, form, penalty=self.penalty)

    def _at_hand(self, rows: Rows) -> Objective:
        return Objective(rows, self.form, penalty=self.penalty)

    def members_at_once(self, theta: np.ndarray) -> int:
        if self.rows.apart is None:
            return _MEMBERS
        return min(_MEMBERS, at_once(self.n_params, self.rows.apart))

    def sums(
        self,
        theta: Tensor,
        order: int,
        weights: Tensor | None = None,
        effects: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        if weights is not None:
            self._refuse("weights of single rows")
        return self.rows.sum(_sums, self.form, theta, order, effects)

    def expected_sums(self, theta: Tensor, effects: Tensor | None = None) -> tuple[Tensor, ...]:
        """See :meth:`Objective.expected_sums`."""
        return self.rows.sum(_expected_sums, self.form, theta, effects)

    def opg(self, theta: Tensor | np.ndarray, *, sampling: bool = False) -> Tensor:
        """Sum of the outer products of the row scores, (P, P).

        By the weights as counts or, with ``sampling``, by their squares.
        """
        theta, effects = self.as_theta(theta)[:1], None
        if self.rows.apart is not None:
            effects = self.effects(theta)
        return self.rows.sum(_opg, self.form, theta, sampling, effects)[0]

    def row_values(self, theta: Any) -> NoReturn:
        """Raise an error: the rows are not in this process."""
        self._refuse("the log-likelihood of every row")

    def row_scores(self, theta: Any) -> NoReturn:
        """Raise an error: the rows are not in this process."""
        self._refuse("the score of every row")

    def _refuse(self, what: str) -> NoReturn:
        raise _RowsNotAtHandError(
            f"{what} would fill the memory of this process: the rows are in "
            f"{len(self.rows.parts)} partitions. Fit a sample of them from a DataFrame for that."
        )


class _RowsNotAtHandError(ValueError, AttributeError):
    """An AttributeError too, because properties of results lead here and ``hasattr`` asks."""


def _sums(
    rows: Rows, form: Form, theta: Tensor, order: int, effects: Tensor | None
) -> tuple[Tensor, ...]:
    return Objective(rows, form).sums(theta, order, effects=effects)


def _expected_sums(
    rows: Rows, form: Form, theta: Tensor, effects: Tensor | None
) -> tuple[Tensor, ...]:
    return Objective(rows, form).expected_sums(theta, effects)


def _opg(
    rows: Rows, form: Form, theta: Tensor, sampling: bool, effects: Effects | None
) -> tuple[Tensor]:
    weights = rows.weight * rows.weight if sampling else rows.weight
    return (Objective(rows, form).opg(theta, weights, effects),)


# -- what is shown and kept of the passes of a fit -------------------------------------------------


class Passes:
    """A checkpoint and, with ``disp``, a line for each pass over rows in partitions.

    A line has the rows done and to do, rows per second and the time left, and the log-likelihood
    before the pass.
    """

    def __init__(
        self, rows: PartitionedRows, disp: bool, checkpoint: str | Path | None = None
    ) -> None:
        self.session, self.disp, self.text = rows.session, bool(disp), "start values"
        self.before = replace(rows.session)
        if checkpoint is not None and rows.apart is not None:
            _check_kept(checkpoint, rows.apart.count * sum(rows.shape))
        journal = None if checkpoint is None else Journal(checkpoint, rows.fingerprint)
        self.during = Session(journal, self._watch if disp else None)

    def _watch(self, results: Iterable[Any], sizes: list[int]) -> Iterator[Any]:
        with progress_bar(True, self.text, sum(sizes), unit=" rows", unit_scale=True) as bar:
            for result, size in zip(results, sizes, strict=True):
                bar.update(size)
                yield result

    def _show(self, step: Step) -> None:
        self.text = f"iteration {step.iteration + 1}, log-lik {step.value:.6f}"

    def __enter__(self) -> Callback | None:
        self.session.journal, self.session.watch = self.during.journal, self.during.watch
        return self._show if self.disp else None

    def __exit__(self, *error: object) -> None:
        self.session.journal, self.session.watch = self.before.journal, self.before.watch


def _check_kept(checkpoint: str | Path, size: int) -> None:
    """Refuse to keep the sums by level of every pass where they are many."""
    if size > _KEPT:
        raise ValueError(
            f"checkpoint={str(checkpoint)!r} keeps the sums of every pass, which are {size:,} "
            f"numbers here, one for each column and level of re(); from {_KEPT:,} on writing them "
            "takes longer than the passes. Leave checkpoint out"
        )


# -- bootstrap weights, drawn where the rows are ---------------------------------------------------


def row_weights(
    own: np.ndarray, size: int, rng: np.random.Generator, *, weighted: bool, counts: bool
) -> np.ndarray:
    """Weights of one resample of rows, (n,).

    Parameters
    ----------
    own : ndarray
        (n,) the rows' own weights.
    size : int
        Observations drawn with replacement.
    weighted : bool
        Standard exponential weights in place of draws (Rubin's Bayesian bootstrap; w observations
        have a gamma weight), which leave no row out.
    counts : bool
        A row of weight w is w observations.
    """
    if weighted:
        return rng.standard_gamma(own) if counts else own * rng.standard_exponential(len(own))
    if counts and len(own):
        return rng.multinomial(size, own / max(own.sum(), 1.0)).astype(float)
    return own * np.bincount(rng.integers(len(own), size=size), minlength=len(own))


def cluster_weights(count: int, rng: np.random.Generator, *, weighted: bool) -> np.ndarray:
    """How often each of ``count`` clusters is drawn, or its exponential weight, (count,)."""
    if weighted:
        return rng.standard_exponential(count)
    return np.bincount(rng.integers(count, size=count), minlength=count).astype(float)


@dataclass(frozen=True, slots=True)
class Codes:
    """The cluster of each row of a partition, kept where the rows are."""

    values: np.ndarray  # (n,) int64, in the order of the sorted rows

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def pack(self) -> tuple[None, np.ndarray]:
        return None, self.values.view(np.float64)

    @classmethod
    def unpack(cls, header: None, numbers: np.ndarray) -> Codes:
        return cls(numbers.view(np.int64))


@dataclass(frozen=True)
class Clusters:
    """The clusters of all rows, whichever partitions theirs are in."""

    codes: Partitions  # of Codes
    count: int


@dataclass(frozen=True)
class Resamples:
    """B resamples of all rows; a partition draws its own weights from these, always the same."""

    seeds: tuple[int, ...]  # B
    drawn: np.ndarray | None  # (B, partitions) observations drawn in each, where rows are drawn
    weighted: bool
    counts: bool
    clusters: Clusters | None

    def __len__(self) -> int:
        return len(self.seeds)

    def members(self, which: np.ndarray) -> Resamples:
        """Return the replicates at the given positions."""
        drawn = None if self.drawn is None else self.drawn[which]
        return replace(self, seeds=tuple(self.seeds[i] for i in which), drawn=drawn)

    def rows(self, rows: PartitionedRows) -> PartitionedRows:
        """A batch in which each member has its own weights and shares everything else."""
        if self.clusters is not None:
            pairs = rows.parts.zip(self.clusters.codes)
            parts = pairs.derive(_by_cluster, self.seeds, self.clusters.count, self.weighted)
        else:
            places = range(len(rows.parts))
            own = [(i, None if self.drawn is None else self.drawn[:, i]) for i in places]
            parts = rows.parts.derive(_by_row, self.seeds, self.weighted, self.counts, each=own)
        # Replicates are not worth a checkpoint.
        return replace(rows, parts=parts, total_weight=math.nan, session=Session())


def draw_resamples(
    rows: PartitionedRows,
    count: int,
    rng: np.random.Generator,
    *,
    weighted: bool = False,
    counts: bool = False,
    clusters: Clusters | None = None,
) -> Resamples:
    """Resamples of all rows, or of clusters of rows.

    Drawing n of n rows with replacement is drawing how many fall into each partition, and then so
    many within each: the bootstrap of the whole, not of its parts. Every partition draws all
    clusters, from the same seed.

    Parameters
    ----------
    weighted, counts : bool
        As in :func:`row_weights`.
    """
    seeds = tuple(int(seed) for seed in rng.integers(2**63, size=count))
    drawn = None
    if clusters is None and not weighted:
        sizes = np.array(rows.sizes, dtype=float)
        if counts:
            sizes = np.array([float(total) for total in rows.parts.map(_total_weight)])
        drawn = rng.multinomial(int(sizes.sum()), sizes / sizes.sum(), size=count)
    return Resamples(seeds, drawn, weighted, counts, clusters)


def _total_weight(rows: Rows) -> float:
    return rows.total_weight


def _by_row(
    rows: Rows,
    place: tuple[int, np.ndarray | None],
    seeds: tuple[int, ...],
    weighted: bool,
    counts: bool,
) -> Rows:
    number, drawn = place
    own = rows.weight.cpu().numpy()
    members = []
    for b, seed in enumerate(seeds):
        rng = np.random.default_rng([seed, number])
        size = 0 if drawn is None else int(drawn[b])
        members.append(row_weights(own, size, rng, weighted=weighted, counts=counts))
    return reweighted(rows, torch.as_tensor(np.stack(members), device=rows.device))


def _by_cluster(
    pair: tuple[Rows, Codes], seeds: tuple[int, ...], count: int, weighted: bool
) -> Rows:
    rows, codes = pair
    own = rows.weight.cpu().numpy()
    draws = (cluster_weights(count, np.random.default_rng(s), weighted=weighted) for s in seeds)
    members = np.stack([own * by_cluster[codes.values] for by_cluster in draws])
    return reweighted(rows, torch.as_tensor(members, device=rows.device))


class ResampledObjective(PartitionedObjective):
    """The objective of B members that have weights, and perhaps labels, of their own.

    Parameters
    ----------
    build : callable
        Positions of some members -> their rows.
    which : ndarray
        (B,) positions of these members.
    """

    def __init__(
        self,
        build: Callable[[np.ndarray], PartitionedRows],
        which: np.ndarray,
        form: Form,
        *,
        penalty: float = 0.0,
        totals: Tensor | None = None,
    ) -> None:
        super().__init__(build(which), form, penalty=penalty)
        self.build, self.which, self._totals = build, which, totals

    @property
    def batched(self) -> bool:
        return True

    @property
    def n_members(self) -> int:
        return len(self.which)

    def _changed(self, rows: PartitionedRows, form: Form) -> ResampledObjective:
        return ResampledObjective(
            self.build, self.which, form, penalty=self.penalty, totals=self._totals
        )

    def members(self, index: Tensor) -> ResampledObjective:
        totals = None if self._totals is None else self._totals[index]
        return ResampledObjective(
            self.build, self.which[index.cpu().numpy()], self.form, penalty=self.penalty,
            totals=totals,
        )  # fmt: skip

    def totals(self, weights: Tensor | None = None) -> Tensor:
        if self._totals is None:
            self._totals = self.rows.sum(_totals)[0]
        return self._totals


def _totals(rows: Rows) -> tuple[Tensor]:
    return (rows.weight.sum(-1),)
