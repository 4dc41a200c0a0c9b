"""Data in chunks: blocks of a frame, parquet files read in batches, dask DataFrames."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from ..errors import DesignError
from .values import as_frame, is_arrow_dataset, is_dask, levels_by_chance, owned, with_sorted_levels

Reader = Callable[[], pd.DataFrame]


class Source(Protocol):
    """Chunks of a data set, in order."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the chunks, for errors."""

    def readers(self, columns: Sequence[str]) -> list[Reader]:
        """A function for each chunk that reads these columns of it."""

    def delayed(self, columns: Sequence[str]) -> list[Any]:
        """Return the chunks as dask's delayed values."""


def find_source(data: Any, partition_rows: int) -> Source:
    """Return the chunks of data that may not fit into memory; frames are cut into blocks.

    Parameters
    ----------
    data : DataFrame, path, pyarrow Dataset or dask DataFrame
        A path is that of a parquet file or of a folder of them.
    partition_rows : int
        Rows of a chunk, about.
    """
    if isinstance(data, str | os.PathLike):
        return _arrow_source(_open_parquet(data), partition_rows)
    if is_arrow_dataset(data):
        return _arrow_source(data, partition_rows)
    if is_dask(data):
        return DaskSource(data)
    return _frame_source(owned(as_frame(data)), partition_rows)


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
        import pyarrow
        from pyarrow import dataset
    except ImportError as error:
        raise DesignError(
            "reading parquet needs pyarrow; pip install statsmodels-mnar[dask]"
        ) from error
    try:
        return dataset.dataset(path, format="parquet", partitioning="hive")
    except (pyarrow.ArrowException, OSError) as error:
        # A schema that is given keeps pyarrow from opening the files, so they can be tried in turn.
        found = dataset.dataset(path, format="parquet", schema=pyarrow.schema([]))
        for fragment in found.get_fragments():
            _schema_of(fragment)
        raise DesignError(
            f"data={str(path)!r} cannot be read as parquet ({_words(error)})."
        ) from error


def _words(error: Exception) -> str:
    return " ".join(str(error).split())


def _name_of(fragment: Any) -> str:
    return os.path.basename(getattr(fragment, "path", "") or "data")


def _schema_of(fragment: Any) -> Any:
    """The schema that a file itself has."""
    import pyarrow

    try:
        if hasattr(fragment, "ensure_complete_metadata"):
            fragment.ensure_complete_metadata()
        return fragment.physical_schema
    except (pyarrow.ArrowException, OSError) as error:
        raise DesignError(
            f"{_name_of(fragment)} is among the files of data, but cannot be read as one of them "
            f"({_words(error)}). Move it elsewhere if it does not belong there; write it again if "
            "it does."
        ) from error


@dataclass(frozen=True)
class _File:
    """A file, before its rows are read."""

    name: str
    schema: Any  # of pyarrow, as the file has it
    fragment: Any  # pyarrow's

    def kind(self, column: str) -> Any:
        """The type of a column in this file, pyarrow's null where it holds nothing else."""
        import pyarrow
        from pyarrow import types

        kind = self.schema.field(column).type
        if types.is_null(kind) or not self._only_null(column):
            return kind
        return pyarrow.null()

    def _only_null(self, column: str) -> bool:
        groups = getattr(self.fragment, "row_groups", None)
        for group in groups or ():
            if (group.statistics or {}).get(column):  # a smallest and a largest value
                return False
        table = self.fragment.to_table(columns=[column])
        return bool(table.column(0).null_count == len(table))


@dataclass(frozen=True)
class _State:
    """What changes in a file when it is written to after it was opened."""

    size: int
    time: int | None  # of the last change, in nanoseconds
    machine: str  # copies of a file on other machines have times of their own

    @classmethod
    def of(cls, fragment: Any) -> _State | None:
        """Return the state of a fragment's file as it is now; None where it cannot be looked at."""
        if not getattr(fragment, "path", ""):
            return None
        try:
            info = fragment.filesystem.get_file_info(fragment.path)
        except (OSError, NotImplementedError):
            return None
        return None if info.size is None else cls(info.size, info.mtime_ns, platform.node())

    def is_that_of(self, fragment: Any) -> bool:
        now = _State.of(fragment)
        if now is None or now.machine == self.machine:
            return now == self
        return now.size == self.size


@dataclass(frozen=True)
class _Piece:
    """Consecutive rows of one file."""

    name: str  # of the file
    fragment: Any  # pyarrow's, of whole row groups
    schema: Any  # the file's, and what the partitioning of the data set adds
    low: int
    high: int
    state: _State | None  # of the file when it was opened

    def __call__(self, columns: Mapping[str, Any]) -> pd.DataFrame:
        """The columns, each of the type that it has in the whole data set."""
        import pyarrow

        if self.state is not None and not self.state.is_that_of(self.fragment):
            raise DesignError(
                f"{self.name} was written to or removed after it was opened, so that its rows need "
                "not be those that were read before. Build the model again, and write new data to "
                "another file."
            )
        try:
            table = self.fragment.to_table(schema=self.schema, columns=list(columns))
            table = table.slice(self.low, self.high - self.low)
            for i, (name, kind) in enumerate(columns.items()):
                own = table.column(i)
                if own.type != kind:
                    table = table.set_column(i, name, _converted(own, kind))
            if any(self.schema.field(name).type != kind for name, kind in columns.items()):
                table = table.replace_schema_metadata()  # pandas' types of the file's own columns
            return with_sorted_levels(table.to_pandas(), levels_by_chance(self.schema))
        except (pyarrow.ArrowException, OSError) as error:
            raise DesignError(
                f"{self.name}: its rows cannot be read ({_words(error)}). The file may be damaged; "
                "write it again."
            ) from error


def _converted(values: Any, kind: Any) -> Any:
    import pyarrow

    if values.null_count == len(values):  # of any type
        return pyarrow.chunked_array([pyarrow.nulls(len(values), kind)])
    return values.cast(kind, safe=False)  # large integers become the nearest number


@dataclass(frozen=True)
class ArrowSource:
    """Files of a data set, whose schemas are compared before anything is read."""

    files: tuple[_File, ...]
    pieces: tuple[_Piece, ...]
    names: tuple[str, ...]
    added: Mapping[str, Any]  # types of columns that the names of folders hold
    chosen: Mapping[str, Any]  # types that the data set has and its first file has not

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of any file."""
        found = [name for file in self.files for name in file.schema.names]
        return tuple(dict.fromkeys([*found, *self.added]))

    def readers(self, columns: Sequence[str]) -> list[Reader]:
        kinds = self._kinds(columns)
        return [partial(piece, kinds) for piece in self.pieces]

    def delayed(self, columns: Sequence[str]) -> list[Any]:
        from dask import delayed

        kinds = self._kinds(columns)
        return [delayed(piece, pure=False)(kinds) for piece in self.pieces]

    def _kinds(self, columns: Sequence[str]) -> dict[str, Any]:
        """The type of each column in all files; an error where they do not agree."""
        return {name: self._kind(name) for name in columns}

    def _kind(self, column: str) -> Any:
        holders = [file for file in self.files if column in file.schema.names]
        if not holders:
            return self.added[column]
        for file in self.files:
            count = file.schema.names.count(column)
            if count == 0:
                alike = [name for name in file.schema.names if name.lower() == column.lower()]
                hint = f" (it has {alike[0]!r})" if alike else ""
                raise DesignError(
                    f"{file.name} has no column {column!r}{hint}, which is read and which "
                    f"{holders[0].name} has. All files of data need the same columns: rename or "
                    "add it, with missing values if need be, or leave the file out."
                )
            if count > 1:
                raise DesignError(f"{file.name} has more than one column {column!r}; rename them.")
        kind = holders[0].schema.field(column).type
        if any(file.schema.field(column).type != kind for file in holders[1:]):
            kind, first = holders[0].kind(column), holders[0]
            for file in holders[1:]:
                common = common_kind(kind, file.kind(column))
                if common is None:
                    raise DesignError(
                        f"the column {column!r} is {file.kind(column)} in {file.name}, but {kind} "
                        f"in {first.name}. Write the files with one type for it."
                    )
                if common != kind:
                    kind, first = common, file
        return self.chosen.get(column, kind)


def common_kind(one: Any, two: Any) -> Any:
    """The type of pyarrow that holds the values of both; None where they mean different things.

    Examples
    --------
    >>> import pyarrow
    >>> str(common_kind(pyarrow.float32(), pyarrow.int64()))
    'double'
    >>> common_kind(pyarrow.string(), pyarrow.int64()) is None
    True
    """
    import pyarrow
    from pyarrow import types

    if one == two or types.is_null(two):
        return one
    if types.is_null(one):
        return two
    both = (one, two)

    def all_of(*tests: Callable[[Any], bool]) -> bool:
        return all(any(test(kind) for test in tests) for kind in both)

    if all_of(types.is_integer, types.is_boolean):
        return pyarrow.int64() if pyarrow.uint64() not in both else pyarrow.float64()
    if all_of(types.is_integer, types.is_boolean, types.is_floating, types.is_decimal):
        return pyarrow.float64()
    if all_of(types.is_dictionary) and _texts(one.value_type) and _texts(two.value_type):
        ordered = one.ordered and two.ordered
        return pyarrow.dictionary(pyarrow.int32(), pyarrow.string(), ordered)
    if all(_texts(kind.value_type if types.is_dictionary(kind) else kind) for kind in both):
        return pyarrow.string()
    if all_of(types.is_timestamp) and one.tz == two.tz:
        return one if _UNITS.index(one.unit) >= _UNITS.index(two.unit) else two
    return None


_UNITS = ("s", "ms", "us", "ns")


def _texts(kind: Any) -> bool:
    from pyarrow import types

    view = getattr(types, "is_string_view", lambda _: False)  # pyarrow 16 and newer
    return types.is_string(kind) or types.is_large_string(kind) or view(kind)


def _arrow_source(data: Any, partition_rows: int) -> ArrowSource:
    """Runs of row groups of about ``partition_rows``; larger row groups are cut."""
    import pyarrow

    files, pieces, names = [], [], []
    for fragment in data.get_fragments():
        state = _State.of(fragment)  # before its rows are counted
        file = _File(_name_of(fragment), _schema_of(fragment), fragment)
        files.append(file)
        seen = 0
        for part, rows in _runs(fragment, partition_rows):
            for low, high in _edges(rows, partition_rows):
                names.append(f"{file.name}, rows {seen + low} to {seen + high - 1}")
                pieces.append((file, part, low, high, state))
            seen += rows
    if not files:
        raise DesignError(
            "data is a pyarrow data set without files; name a parquet file or a folder of them."
        )
    own = {name for file in files for name in file.schema.names}
    added = {field.name: field.type for field in data.schema if field.name not in own}
    more = [pyarrow.field(name, kind) for name, kind in added.items()]
    schemas = {id(file): pyarrow.schema([*file.schema, *more], file.schema.metadata)
               for file in files}  # fmt: skip
    first = files[0].schema
    chosen = {
        field.name: field.type
        for field in data.schema
        if field.name in first.names and first.field(field.name).type != field.type
    }
    return ArrowSource(
        files=tuple(files),
        pieces=tuple(
            _Piece(file.name, part, schemas[id(file)], low, high, state)
            for file, part, low, high, state in pieces
        ),
        names=tuple(names),
        added=added,
        chosen=chosen,
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
