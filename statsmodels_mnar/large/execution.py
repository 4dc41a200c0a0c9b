"""Where partitions of large data are kept and evaluated: in this process, or by dask's workers.

Partitions are an ordered sequence of items: frames as they are read, rows on a device. What a
function returns for each comes back in the order of the partitions, whoever finished first, so a
sum over them does not depend on timing.
"""

from __future__ import annotations

import os
import tempfile
import threading
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self

import numpy as np

from ..kernel.threads import helper_thread, one_thread
from .guard import check_guarded

# -- where partitions of large data are kept and evaluated: in this process, or by dask's workers --


class Partitions(Protocol):
    """What the objective and the models ask of an executor."""

    names: tuple[str, ...]  # of the files or partitions, for errors

    def __len__(self) -> int: ...

    def map(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
    ) -> Iterator[Any]:
        """``function(item, *args)`` of every partition, in their order.

        With ``each``, its entry for the partition is the first of the arguments.
        """

    def derive(
        self,
        function: Callable[..., Any],
        *args: Any,
        each: Sequence[Any] | None = None,
        keep: bool = False,
    ) -> Self:
        """Partitions of ``function(item, *args)``, made anew when they are asked for.

        With ``keep`` they are made once, now or at first use, and kept where they were made.
        """

    def zip(self, other: Self) -> Self:
        """Partitions of pairs."""


@dataclass(frozen=True, slots=True)
class Task:
    """A call on one partition, whose name stands before the text of an error in its data."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    name: str

    @one_thread()
    def __call__(self, *items: Any) -> Any:
        try:
            return self.function(*items, *self.args)
        except ValueError as error:
            text = str(error)
            if not text.startswith(self.name):
                error.args = (f"{self.name}: {text}", *error.args[1:])
            raise


def _tasks(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    each: Sequence[Any] | None,
    names: tuple[str, ...],
) -> list[Task]:
    if each is None:
        return [Task(function, args, name) for name in names]
    return [Task(function, (own, *args), name) for own, name in zip(each, names, strict=True)]


def _pair(one: Any, two: Any) -> tuple[Any, Any]:
    return one, two


# -- in this process -------------------------------------------------------------------------------


class Packable(Protocol):
    """An item that one array holds."""

    @property
    def nbytes(self) -> int: ...

    def pack(self) -> tuple[Any, np.ndarray]:
        """A small header, and a contiguous array of numbers of eight bytes."""

    @classmethod
    def unpack(cls, header: Any, numbers: np.ndarray) -> Self: ...


class Spool:
    """Arrays in a temporary file without a name.

    However the process ends, by an error, SIGTERM, SIGKILL or a power cut, the system frees the
    file's space: there is no name under which it could be left behind.

    Parameters
    ----------
    folder : str, optional
        Whose disk takes it; by default that of temporary files.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.folder = tempfile.gettempdir() if folder is None else folder
        try:
            self._file = tempfile.TemporaryFile(  # noqa: SIM115 - closed with the spool
                buffering=0, prefix="mnar-", dir=self.folder
            )
        except OSError as error:
            raise ValueError(
                f"rows that do not fit into memory cannot be put into folder={self.folder!r} "
                f"({error}); give Execution a folder that can be written, or more memory"
            ) from error
        weakref.finalize(self, self._file.close)
        self.owner = os.getpid()
        self._end = 0
        self._lock = threading.Lock()  # of the place in the file

    def write(self, numbers: np.ndarray) -> int:
        """Append an array of numbers of eight bytes; returns where it begins."""
        left = np.ascontiguousarray(numbers).reshape(-1).view(np.uint8).data
        with self._lock:
            start = self._end
            self._file.seek(start)
            try:
                while len(left):
                    left = left[self._file.write(left) :]
            except OSError as error:
                raise OSError(
                    error.errno,
                    f"the disk of folder={self.folder!r} has no room for {numbers.nbytes:,} more "
                    f"bytes of rows ({error.strerror}); give Execution another folder, or more "
                    "memory",
                ) from error
            self._end += numbers.nbytes
        return start

    def read(self, start: int, shape: tuple[int, ...]) -> np.ndarray:
        """The array that begins there."""
        # Not a memory map: its pages would stay in the process as long as there is memory.
        numbers = np.empty(shape, dtype=np.float64)
        left, place = numbers.reshape(-1).view(np.uint8).data, start
        while len(left):
            count = self._read_into(left, place)
            if not count:
                raise OSError(f"the temporary file in {self.folder!r} has been truncated")
            left, place = left[count:], place + count
        return numbers

    def _read_into(self, buffer: memoryview, place: int) -> int:
        if hasattr(os, "preadv"):  # which leaves the place in the file alone, for a forked child
            return os.preadv(self._file.fileno(), [buffer], place)
        with self._lock:
            self._file.seek(place)
            return self._file.readinto(buffer) or 0


class Store:
    """Keeps items in memory up to a budget, and the others in a temporary file.

    Parameters
    ----------
    memory : int
        Bytes of all items kept in memory.
    folder : str, optional
        Where the temporary file is made; it goes with the store.
    room : int
        Items of the same size for which memory is left free.
    """

    def __init__(self, memory: int, folder: str | None = None, *, room: int = 0) -> None:
        self.left, self.parent, self.room = memory, folder, room
        self._spool: Spool | None = None

    def put(self, item: Packable) -> Callable[[], Any]:
        """Keep the item, and return a function that gives it back."""
        if item.nbytes * (1 + self.room) <= self.left:
            self.left -= item.nbytes
            return partial(_same, item)
        header, numbers = item.pack()
        if self._spool is None or self._spool.owner != os.getpid():  # a child has its own
            self._spool = Spool(self.parent)
        return partial(_read, type(item), header, self._spool, self._spool.write(numbers),
                       numbers.shape)  # fmt: skip


def _same(item: Any) -> Any:
    return item


def _read(
    kind: type[Packable], header: Any, spool: Spool, start: int, shape: tuple[int, ...]
) -> Any:
    return kind.unpack(header, spool.read(start, shape))


class LocalPartitions:
    """Partitions of this process, one after the other or some threads at a time.

    Parameters
    ----------
    loaders : sequence of callables
        Each makes one item.
    names : sequence of str
        For errors.
    store : Store
        Of what :meth:`derive` keeps.
    threads : int
        Partitions evaluated (and held) at once.

    Examples
    --------
    >>> parts = LocalPartitions([lambda: 1.0, lambda: 2.0], ["one", "two"], Store(0))
    >>> list(parts.derive(lambda item, factor: factor * item, 10.0).map(lambda item: item + 1))
    [11.0, 21.0]
    """

    def __init__(
        self,
        loaders: Sequence[Callable[[], Any]],
        names: Sequence[str],
        store: Store,
        *,
        threads: int = 1,
    ) -> None:
        self._loaders, self.names = list(loaders), tuple(names)
        self.store, self.threads = store, threads

    def __len__(self) -> int:
        return len(self._loaders)

    def _jobs(self, tasks: list[Task]) -> list[Callable[[], Any]]:
        return [partial(_run, *both) for both in zip(tasks, self._loaders, strict=True)]

    def map(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
    ) -> Iterator[Any]:
        """See :class:`Partitions`."""
        jobs = self._jobs(_tasks(function, args, each, self.names))
        if self.threads == 1:
            return (job() for job in jobs)
        return self._threaded(jobs)

    def _threaded(self, jobs: list[Callable[[], Any]]) -> Iterator[Any]:
        with ThreadPoolExecutor(self.threads, initializer=helper_thread) as pool:
            running: deque[Any] = deque()
            try:
                for job in jobs:  # no more items in memory than threads
                    running.append(pool.submit(job))
                    if len(running) == self.threads:
                        yield running.popleft().result()
                while running:
                    yield running.popleft().result()
            finally:
                for future in running:
                    future.cancel()

    def derive(
        self,
        function: Callable[..., Any],
        *args: Any,
        each: Sequence[Any] | None = None,
        keep: bool = False,
    ) -> LocalPartitions:
        """See :class:`Partitions`; what is kept must be :class:`Packable`."""
        made = self._jobs(_tasks(function, args, each, self.names))
        if keep:
            made = [self.store.put(make()) for make in made]
        return LocalPartitions(made, self.names, self.store, threads=self.threads)

    def zip(self, other: LocalPartitions) -> LocalPartitions:
        """Partitions of pairs."""
        pairs = [
            partial(_load_both, *both) for both in zip(self._loaders, other._loaders, strict=True)
        ]
        return LocalPartitions(pairs, self.names, self.store, threads=self.threads)


def _run(task: Task, load: Callable[[], Any]) -> Any:
    return task(load())


def _load_both(one: Callable[[], Any], two: Callable[[], Any]) -> tuple[Any, Any]:
    return one(), two()


# -- on dask's workers -----------------------------------------------------------------------------


@contextmanager
def local_workers(n_workers: int, **options: Any) -> Iterator[Any]:
    """A dask client with worker processes of this machine, which end with the block.

    They end too where the block is left by an error or Ctrl-C, or where this process dies. Each
    worker imports the script that starts it, so a script calls this under
    ``if __name__ == "__main__":``.

    Parameters
    ----------
    n_workers : int
        Processes, of one thread each.
    **options
        Of ``distributed.LocalCluster``.

    Examples
    --------
    >>> with local_workers(2) as client:  # doctest: +SKIP
    ...     execution = Execution(client=client)
    """
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"} | options
    if options["processes"]:
        check_guarded("local_workers", f"with local_workers({n_workers}) as client:")
    with LocalCluster(n_workers=n_workers, **options) as cluster, Client(cluster) as client:
        yield client


class DaskPartitions:
    """Partitions on the workers of a ``distributed`` cluster.

    Items that are kept stay in the memory of the worker that made them, and only what a function
    returns travels. The scheduler knows how each was made, so those of a lost worker are made
    again by another.

    Parameters
    ----------
    client : distributed.Client
    items : sequence of dask Delayed
    names : sequence of str
        For errors.
    """

    def __init__(self, client: Any, items: Sequence[Any], names: Sequence[str]) -> None:
        self.client, self._items, self.names = client, list(items), tuple(names)

    def __len__(self) -> int:
        return len(self._items)

    def _delayed(self, tasks: list[Task]) -> list[Any]:
        from dask import delayed

        label = f"{tasks[0].function.__name__.strip('_')}-{uuid.uuid4().hex}"
        # The arguments are inside the callable, where dask does not look for tasks.
        return [
            delayed(task, traverse=False)(item, dask_key_name=(label, i))
            for i, (task, item) in enumerate(zip(tasks, self._items, strict=True))
        ]

    def map(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
    ) -> Iterator[Any]:
        """See :class:`Partitions`."""
        tasks = self._delayed(_tasks(function, args, each, self.names))
        return self._results(deque(self.client.compute(tasks)))

    def _results(self, waiting: deque[Any]) -> Iterator[Any]:
        try:
            while waiting:
                yield waiting.popleft().result()
        finally:  # an error, or nobody asks any more
            if waiting:
                self.client.cancel(list(waiting))

    def derive(
        self,
        function: Callable[..., Any],
        *args: Any,
        each: Sequence[Any] | None = None,
        keep: bool = False,
    ) -> DaskPartitions:
        """See :class:`Partitions`."""
        made = self._delayed(_tasks(function, args, each, self.names))
        return DaskPartitions(self.client, self.client.persist(made) if keep else made, self.names)

    def zip(self, other: DaskPartitions) -> DaskPartitions:
        """Partitions of pairs."""
        from dask import delayed

        pairs = [delayed(_pair)(*both) for both in zip(self._items, other._items, strict=True)]
        return DaskPartitions(self.client, pairs, self.names)
