"""Data in chunks: blocks of a frame, parquet files read in batches, dask DataFrames."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from statsmodels_mnar.design.frames import as_frame, owned
from statsmodels_mnar.errors import DesignError

Reader = Callable[[], pd.DataFrame]


class Source(Protocol):
    """Chunks of a data set, in order."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def names(self) -> tuple[str, ...]:
        """Of the chunks, for errors."""

    def readers(self, columns: Sequence[str]) -> list[Reader]:
        """A function for each chunk that reads these columns of it."""

    def delayed(self, columns: Sequence[str]) -> list[Any]:
        """The same as dask's delayed values."""


def find_source(data: Any, partition_rows: int, *, split: bool) -> Source | None:
    """The chunks of data that may not fit into memory; None for data that are in it.

    Parameters
    ----------
    data : DataFrame, path, pyarrow Dataset or dask DataFrame
        A path is that of a parquet file or of a folder of them.
    partition_rows : int
        Rows of a chunk, about.
    split : bool
        Whether frames in memory are cut into chunks too.
    """
    if isinstance(data, str | os.PathLike):
        return _arrow_source(_open_parquet(data), partition_rows)
    if _is(data, "pyarrow", "Dataset"):
        return _arrow_source(data, partition_rows)
    if is_dask(data):
        return DaskSource(data)
    return _frame_source(owned(as_frame(data)), partition_rows) if split else None


def is_dask(data: Any) -> bool:
    """Whether it is a dask DataFrame."""
    return _is(data, "dask", "DataFrame")


def _is(data: Any, package: str, name: str) -> bool:
    """By name, so that the package need not be there."""
    return any(
        kind.__module__.partition(".")[0].removesuffix("_expr") == package and kind.__name__ == name
        for kind in type(data).__mro__
    )


@dataclass(frozen=True)
class ReadSource:
    """Chunks that readers of their own can read."""

    columns: tuple[str, ...]
    names: tuple[str, ...]
    read: tuple[Callable[[list[str]], pd.DataFrame], ...]

    def readers(self, columns: Sequence[str]) -> list[Reader]:
        return [partial(read, list(columns)) for read in self.read]

    def delayed(self, columns: Sequence[str]) -> list[Any]:
        from dask import delayed

        return [delayed(read, pure=False)(list(columns)) for read in self.read]


def _frame_source(frame: pd.DataFrame, partition_rows: int) -> ReadSource:
    edges = _edges(len(frame), partition_rows)
    return ReadSource(
        columns=tuple(frame.columns),
        names=tuple(f"rows {low} to {high - 1} of the data" for low, high in edges),
        read=tuple(partial(_block, frame, low, high) for low, high in edges),
    )


def _block(frame: pd.DataFrame, low: int, high: int, columns: list[str]) -> pd.DataFrame:
    return frame[columns].iloc[low:high]


def _edges(n: int, size: int) -> list[tuple[int, int]]:
    """Chunks of nearly equal size, none larger than asked for."""
    count = max(-(-n // size), 1)
    cuts = np.linspace(0, n, count + 1).round().astype(int).tolist()
    return list(pairwise(cuts))


def _open_parquet(path: Any) -> Any:
    if not Path(path).exists():
        raise DesignError(f"data={str(path)!r} does not exist; give a parquet file or a folder.")
    try:
        from pyarrow import dataset
    except ImportError as error:
        raise DesignError(
            "reading parquet needs pyarrow; pip install statsmodels-mnar[dask]"
        ) from error
    return dataset.dataset(path, format="parquet", partitioning="hive")


@dataclass(frozen=True)
class _Piece:
    """Consecutive rows of one file."""

    fragment: Any  # pyarrow's, of whole row groups
    schema: Any  # of the data set, whose partitioning may add columns
    low: int
    high: int

    def __call__(self, columns: list[str]) -> pd.DataFrame:
        table = self.fragment.to_table(schema=self.schema, columns=columns)
        return table.slice(self.low, self.high - self.low).to_pandas()


def _arrow_source(data: Any, partition_rows: int) -> ReadSource:
    """Runs of row groups of about ``partition_rows``; larger row groups are cut."""
    pieces: list[tuple[str, _Piece]] = []
    for fragment in data.get_fragments():
        name, seen = os.path.basename(getattr(fragment, "path", "") or "data"), 0
        for part, rows in _runs(fragment, partition_rows):
            for low, high in _edges(rows, partition_rows):
                label = f"{name}, rows {seen + low} to {seen + high - 1}"
                pieces.append((label, _Piece(part, data.schema, low, high)))
            seen += rows
    if not pieces:
        raise DesignError("data is a data set without files.")
    return ReadSource(
        columns=tuple(data.schema.names),
        names=tuple(name for name, _ in pieces),
        read=tuple(piece for _, piece in pieces),
    )


def _runs(fragment: Any, partition_rows: int) -> list[tuple[Any, int]]:
    """Parts of a file that are read at once, and their rows."""
    groups = getattr(fragment, "row_groups", None)
    if groups is None:  # not parquet
        return [(fragment, fragment.count_rows())]
    runs: list[tuple[list[int], int]] = []
    for group in groups:
        if runs and runs[-1][1] + group.num_rows <= partition_rows:
            ids, rows = runs.pop()
            runs.append(([*ids, group.id], rows + group.num_rows))
        else:
            runs.append(([group.id], group.num_rows))
    return [(fragment.subset(row_group_ids=ids), rows) for ids, rows in runs]


@dataclass(frozen=True)
class DaskSource:
    """The partitions of a dask DataFrame."""

    frame: Any

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.frame.columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"partition {i}" for i in range(self.frame.npartitions))

    def readers(self, columns: Sequence[str]) -> list[Reader]:
        return [partial(_compute, part) for part in self.delayed(columns)]

    def delayed(self, columns: Sequence[str]) -> list[Any]:
        # Not optimised any further: that would merge partitions when few columns are read.
        return list(self.frame[list(columns)].simplify().to_delayed(optimize_graph=False))


def _compute(part: Any) -> pd.DataFrame:
    return part.compute(scheduler="synchronous")
