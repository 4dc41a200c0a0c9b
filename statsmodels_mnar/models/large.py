"""Models of data that do not fit into memory: from a source of chunks to rows in partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from ..design import Design
from ..design.chunks import Look, Recipe
from ..design.partitioned import PartitionedDesign
from ..design.sources import DaskSource, Source
from ..errors import DesignError
from ..kernel.rows import Rows
from ..large.execution import DaskPartitions, LocalPartitions, Partitions, Store
from ..large.partitions import PartitionedRows
from .facts import describe

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


def _rows(frame: pd.DataFrame, recipe: Recipe, device: torch.device) -> Rows:
    """A partition's rows on the device; there may be none."""
    return rows_of(recipe.design(frame), device)


def rows_of(design: Design, device: torch.device) -> Rows:
    """The rows of part of the data: they may be none, and their weights all zero."""
    if design.nobs == 0:
        p, k = design.X.shape[1], design.W.shape[1]
        one = np.zeros(1)
        return Rows.build(np.zeros((1, p)), np.zeros((1, k)), one, one, device=device).take(
            np.empty(0, dtype=np.int64)
        )
    rows = Rows.build(
        design.X, design.W, design.y, design.s, offset=design.offset,
        offset_select=design.offset_select, key=design.kept, device=device,
    )  # fmt: skip
    if design.weights is None:
        return rows
    weight = torch.as_tensor(design.weights, device=device)[rows.order]
    return replace(rows, weight=weight, total_weight=float(design.weights.sum()))


def constants(rows: Rows) -> Rows:
    """The rows with a constant alone in both equations."""
    one = torch.ones_like(rows.weight)[None]
    return replace(rows, X=one, W=one, scale=np.ones(2), ridge=np.eye(2))
