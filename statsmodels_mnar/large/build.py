"""From a source of chunks to rows in partitions, and what is known of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from ..design import Design
from ..design.checks import in_span
from ..design.chunks import Columns, Look, PartitionedDesign, Recipe
from ..design.data import Counts
from ..design.sources import DaskSource, Source
from ..design.values import Dropped, warn_dropped
from ..errors import DesignError
from ..kernel.forms import Form
from ..kernel.rows import Apart, Rows
from ..optimize.levels import Effects
from ..optimize.objective import Objective
from ..post.covariance import Meat, cluster_sums, joined_sums, meat_of_sums
from ..types import Floats
from .execution import DaskPartitions, LocalPartitions, Partitions, Store
from .partitions import Clusters, Codes, PartitionedObjective, PartitionedRows


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known of one partition, or of all."""

    labelled: Floats  # (., q) triangular: inner products of (X, W, offset_select, 1)
    unlabelled: Floats  # (., q)
    low: Floats
    high: Floats
    whole: NDArray[np.bool_]
    same: NDArray[np.bool_]
    weight: tuple[float, float]  # of all rows, of labelled ones
    labels: frozenset[float]

    def __add__(self, other: _Facts) -> _Facts:
        return _Facts(
            _triangle(np.vstack([self.labelled, other.labelled])),
            _triangle(np.vstack([self.unlabelled, other.unlabelled])),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.whole & other.whole,
            self.same & other.same,
            (self.weight[0] + other.weight[0], self.weight[1] + other.weight[1]),
            self.labels | other.labels,
        )


def _triangle(matrix: Floats) -> Floats:
    """R of the QR decomposition: fewer rows with the same inner products of the columns."""
    return np.asarray(np.linalg.qr(matrix, mode="r")) if len(matrix) > matrix.shape[1] else matrix


def _facts(rows: Rows) -> _Facts:
    columns = torch.cat([rows.X, rows.W])
    all_columns = torch.cat([columns, rows.offset_select[None], torch.ones_like(columns[:1])])
    seen = rows.tilt > 0
    labelled, unlabelled = (
        _triangle(all_columns[:, rows_].mT.cpu().numpy()) for rows_ in (seen, ~seen)
    )
    ends = np.full(len(columns), np.inf), np.full(len(columns), -np.inf)
    if rows.n:
        ends = columns.amin(-1).cpu().numpy(), columns.amax(-1).cpu().numpy()
    same = [[_equal(x, w) for w in rows.W] for x in rows.X]
    labels = torch.unique(rows.sign[seen]).tolist()
    return _Facts(
        labelled,
        unlabelled,
        *ends,
        (columns % 1.0 == 0.0).all(-1).cpu().numpy(),
        np.array(same, dtype=bool).reshape(len(rows.X), len(rows.W)),
        (float(rows.weight.sum()), float(rows.weight[seen].sum())),
        frozenset(0.5 * (1.0 + sign) for sign in labels),
    )


def _equal(x: torch.Tensor, w: torch.Tensor) -> bool:
    return torch.equal(x[:16], w[:16]) and torch.equal(x, w)


def describe(recipe: Recipe, looks: list[Look], rows: PartitionedRows) -> PartitionedDesign:
    """Check the rows together, and write down what is known of them."""
    assert recipe.specs is not None and recipe.outcome.lhs is not None
    outcome_missing = sum(look.dropped.outcome for look in looks)
    missing = sum(look.n_rows for look in looks) - rows.n - outcome_missing
    dropped = Dropped(missing=missing, outcome=outcome_missing)
    if rows.n == 0:
        raise DesignError(
            f"no rows are left: {dropped.missing} have missing covariates, {dropped.outcome} are "
            "selected without an outcome."
        )
    warn_dropped(dropped, recipe.outcome.lhs, recipe.select_name)
    found = list(rows.parts.map(_facts))
    facts = found[0]
    for one in found[1:]:
        facts += one
    if rows.total_weight == 0:
        raise DesignError(f"{recipe.weight_kind} must be >= 0 and not all zero.")
    outcome, select = recipe.specs
    given = {
        "weights" if role.endswith("weights") else role
        for role, name in recipe.columns_by_role.items()
        if name is not None
    }
    labelled = rows.n - rows.count("closed")
    counted = recipe.weight_kind == "freq_weights"
    counts = Counts(
        rows=rows.n,
        labelled=labelled,
        observations=facts.weight[0] if counted else float(rows.n),
        selected=facts.weight[1] if counted else float(labelled),
        labels=tuple(sorted(facts.labels)),
    )
    return PartitionedDesign(
        outcome_names=outcome.column_names,
        select_names=select.column_names,
        outcome_name=recipe.outcome.lhs,
        select_name=recipe.select_name,
        outcome_spec=outcome,
        select_spec=select,
        weight_kind=recipe.weight_kind,
        given=frozenset(given),
        dropped=dropped,
        counts=counts,
        columns=Columns(facts.low, facts.high, facts.whole, facts.same),
        sketch=_sketch(recipe, facts, "offset_select" in given),
        n_partitions=len(rows.parts),
        penalised=(*outcome.penalised, *select.penalised),
        has_constant=_spans_constant(facts, len(outcome.column_names)),
    )


def _spans_constant(facts: _Facts, p: int) -> bool:
    matrix = np.vstack([facts.labelled, facts.unlabelled])
    return in_span(matrix[:, -1:], matrix[:, :p])


def _sketch(recipe: Recipe, facts: _Facts, offset: bool) -> Design:
    """A design of a few rows on which the checks of rank and span find what they find on all."""
    assert recipe.specs is not None and recipe.outcome.lhs is not None
    outcome, select = recipe.specs
    p, k = len(outcome.column_names), len(select.column_names)
    matrix = np.vstack([facts.labelled, facts.unlabelled])
    s = np.r_[np.ones(len(facts.labelled)), np.zeros(len(facts.unlabelled))]
    return Design(
        y=np.where(s == 1, 0.0, np.nan),
        s=s,
        X=matrix[:, :p],
        W=matrix[:, p : p + k],
        outcome_names=outcome.column_names,
        select_names=select.column_names,
        outcome_name=recipe.outcome.lhs,
        select_name=recipe.select_name,
        index=pd.RangeIndex(len(s)),
        kept=np.arange(len(s)),
        offset_select=matrix[:, p + k] if offset else None,
        penalised=(*outcome.penalised, *select.penalised),
    )


# -- models of data that do not fit into memory: from a source of chunks to rows in partitions -----


_COPIES = 5  # of a partition in work: as read, as designs, as rows, and the kernel's arrays


@dataclass(frozen=True, slots=True)
class Execution:
    """How data in partitions are read, kept and evaluated.

    Parameters
    ----------
    partition_rows : int
        Rows of a partition, about; not for dask DataFrames, which have their own.
    memory : int
        Bytes of rows kept in memory and of the work on a partition, about five times its rows for
        each thread; what is beyond goes to a temporary file. A row takes 8 (p + k + 10) bytes
        for p and k columns.
    folder : str, optional
        Where that file is made. It has no name, and goes however the process ends.
    threads : int
        Partitions evaluated at once in this process.
    client : distributed.Client, optional
        Workers that read, keep and evaluate the partitions. For dask DataFrames by default the
        current client, where there is one.

    Examples
    --------
    >>> from statsmodels_mnar import Execution, GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> sim = simulate_greene(2_000)
    >>> model = GreeneSelectionLogit.from_formula(
    ...     sim.formula, sim.select_formula, sim.data,
    ...     execution=Execution(partition_rows=500))
    >>> model.design.n_partitions
    4
    """

    partition_rows: int = 2**18
    memory: int = 2**29
    folder: str | None = None
    threads: int = 1
    client: Any = None

    def __post_init__(self) -> None:
        for name, least in (("partition_rows", 1), ("memory", 0), ("threads", 1)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name}={value!r} must be an integer of at least {least}")


@dataclass(frozen=True)
class Frames:
    """The columns of the data, in partitions whose index is the place in the whole."""

    source: Source
    execution: Execution
    client: Any  # None: in this process
    store: Store
    starts: tuple[int, ...] | None = None

    def read(self, columns: Sequence[str]) -> Any:
        """Partitions of frames with these columns, read when they are asked for."""
        unknown = [name for name in columns if name not in self.source.columns]
        if unknown:
            raise DesignError(f"data has no column {unknown[0]!r}")
        parts: Partitions
        if self.client is not None:
            parts = DaskPartitions(self.client, self.source.delayed(columns), self.source.names)
        else:
            parts = LocalPartitions(
                self.source.readers(columns), self.source.names, self.store,
                threads=self.execution.threads,
            )  # fmt: skip
        return parts if self.starts is None else parts.derive(_placed, each=self.starts)


def _placed(frame: pd.DataFrame, start: int) -> pd.DataFrame:
    return frame.set_axis(pd.RangeIndex(start, start + len(frame)), axis=0)


@dataclass(frozen=True)
class Partitioned:
    """What a model of large data has in place of its rows."""

    design: PartitionedDesign
    rows: PartitionedRows
    frames: Frames


def build(
    recipe: Recipe, source: Source, execution: Execution, device: torch.device
) -> Partitioned:
    """Look at the data, learn what the formulas learn, and make the rows."""
    client = execution.client
    if client is None and isinstance(source, DaskSource):
        client = _current_client()
    room = _COPIES * execution.threads
    store = Store(execution.memory, execution.folder, room=room)
    frames = Frames(source, execution, client, store)
    looks: list[Look] = list(frames.read(recipe.columns).map(_look, recipe))
    lengths = [look.n_rows for look in looks]
    frames = replace(frames, starts=tuple(np.cumsum([0, *lengths])[:-1].tolist()))
    data = frames.read(recipe.columns)
    recipe = recipe.learn(lambda: data.map(_itself), looks)
    if recipe.outcome.penalised or recipe.select.penalised:
        recipe = recipe.learn_terms(partial(data.map, _on_rows, recipe))
    parts = data.derive(_rows, recipe, device, keep=True)
    rows = PartitionedRows.gathered(parts, standardize=True)
    return Partitioned(describe(recipe, looks, rows), rows, frames)


def _current_client() -> Any:
    try:
        from distributed import default_client

        return default_client()
    except (ImportError, ValueError):  # not installed, or none is running
        return None


def _look(frame: pd.DataFrame, recipe: Recipe) -> Look:
    return recipe.look(frame)


def _itself(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


def _on_rows(frame: pd.DataFrame, recipe: Recipe, function: Callable[..., Any], *args: Any) -> Any:
    return recipe.on_rows(frame, function, *args)


def _rows(frame: pd.DataFrame, recipe: Recipe, device: torch.device) -> Rows:
    """A partition's rows on the device; there may be none."""
    return rows_of(recipe.design(frame), device)


def rows_of(design: Design, device: torch.device) -> Rows:
    """The rows of part of the data: they may be none, and their weights all zero."""
    if design.nobs == 0:
        p, k = design.X.shape[1], design.W.shape[1]
        one, level = np.zeros(1), None if design.levels is None else np.zeros(1, dtype=np.int64)
        return Rows.build(
            np.zeros((1, p)), np.zeros((1, k)), one, one, level=level, device=device
        ).take(np.empty(0, dtype=np.int64))
    rows = Rows.build(
        design.X, design.W, design.y, design.s, offset=design.offset,
        offset_select=design.offset_select, key=design.kept, level=design.levels, device=device,
    )  # fmt: skip
    if design.weights is None:
        return rows
    weight = torch.as_tensor(design.weights, device=device)[rows.order]
    return replace(rows, weight=weight, total_weight=float(design.weights.sum()))


# -- rows in partitions by the values of other columns of the data: clusters -----------------------


def meat_by_keys(
    objective: PartitionedObjective,
    frames: Frames,
    theta: torch.Tensor,
    columns: tuple[str, ...],
    *,
    use_correction: bool,
) -> Meat:
    """Return the meat of clusters, which one or two columns of the data name."""
    pairs = objective.rows.parts.zip(frames.read(columns))
    apart = objective.rows.apart
    effects = None if apart is None else objective.effects(theta)
    parts = list(pairs.map(_score_sums, objective.form, theta, apart, effects))
    return meat_of_sums(joined_sums(parts), objective.rows.n, use_correction=use_correction)


def _score_sums(
    pair: tuple[Rows, pd.DataFrame],
    form: Form,
    theta: torch.Tensor,
    apart: Apart | None,
    effects: Effects | None,
) -> pd.DataFrame:
    """Weighted row scores of a partition, summed over rows with the same keys."""
    rows, keys = replace(pair[0], apart=apart), _keys(pair)
    scores = (
        Objective(rows, form).row_scores(theta, effects).cpu().numpy()
        if rows.n
        else np.empty((0, theta.shape[1]))
    )
    return cluster_sums(scores, rows.unsort(rows.weight).cpu().numpy(), keys)


def find_clusters(rows: PartitionedRows, frames: Frames, column: str) -> Clusters:
    """Clusters of rows that have the same value of a column, in the order of the data."""
    pairs = rows.parts.zip(frames.read([column]))
    values = pd.concat(list(pairs.map(_distinct))).drop_duplicates()
    if len(values) < 2:
        raise ValueError(f"groups={column!r} has fewer than two clusters")
    codes = pairs.derive(_codes, pd.Index(values), keep=True)
    return Clusters(codes, len(values))


def _keys(pair: tuple[Rows, pd.DataFrame]) -> pd.DataFrame:
    """The keys of a partition's rows, in the order of the data."""
    rows, frame = pair
    keys = frame.loc[rows.unsort(rows.key).cpu().numpy()]
    if keys.isna().any(axis=None):
        row = keys.index[keys.isna().any(axis=1)][0]
        raise DesignError(f"groups {list(keys.columns)} are missing in row {row} of the data")
    return keys


def _distinct(pair: tuple[Rows, pd.DataFrame]) -> pd.Series:
    return _keys(pair).iloc[:, 0].drop_duplicates()


def _codes(pair: tuple[Rows, pd.DataFrame], values: pd.Index) -> Codes:
    rows, _ = pair
    codes = values.get_indexer(_keys(pair).iloc[:, 0])
    return Codes(codes[rows.order.cpu().numpy()].astype(np.int64))
