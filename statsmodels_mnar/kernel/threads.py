"""Threads: one of torch's for each of ours.

torch divides every operation among its OpenMP threads and waits for all of them after each. Beside
another busy process one of them is usually waiting for a core, so that thousands of short
operations cost a time slice each: two threads were 10 to 35 times slower than one. After a fork the
child waits for threads that it does not have, without end.

So the package works with one of torch's threads, and divides whole blocks of rows among threads of
its own: whoever has a core takes the next block, nobody waits within one. How many there are is
what the user's setting says. Sums are added in the order of the blocks, so the number of threads
does not change a bit of them.

``torch.set_num_threads`` sets the number for the calling thread and for threads that use torch for
the first time later. :func:`one_thread` puts the latter back at once: no other thread of the user's
sees a change, and the calling one is as before when the call ends.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")
Given = ParamSpec("Given")


class _Own(threading.local):
    """State that each thread has for itself."""

    users: int | None = None  # the user's number of threads, while ours is one
    depth = 0


_own = _Own()
_lock = threading.Lock()  # of changes of the number, and of the pool
_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_per_thread = "OpenMP" in torch.__config__.parallel_info().partition("ATen parallel backend:")[2]


class one_thread:
    """torch works with one thread in the calling thread, for as long as the block or call lasts.

    A context, or a decorator of functions.

    Examples
    --------
    >>> import torch
    >>> before = torch.get_num_threads()
    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """

    def __enter__(self) -> None:
        if _own.depth == 0:
            number = torch.get_num_threads()
            if number > 1 and _per_thread:
                _set_here(1)
                _own.users = number
        _own.depth += 1

    def __call__(self, function: Callable[Given, Result]) -> Callable[Given, Result]:
        # Not contextlib's: warnings are attributed to the first caller outside this package.
        @wraps(function)
        def call(*args: Given.args, **options: Given.kwargs) -> Result:
            with self:
                return function(*args, **options)

        return call

    def __exit__(self, *error: object) -> None:
        _own.depth -= 1
        if _own.depth == 0 and _own.users is not None:
            number, _own.users = _own.users, None
            _set_here(number)


def one_thread_a_step(
    function: Callable[Given, Iterator[Result]],
) -> Callable[Given, Iterator[Result]]:
    """:class:`one_thread` for a generator, while it runs and not while its caller does."""

    @wraps(function)
    def steps(*args: Given.args, **options: Given.kwargs) -> Iterator[Result]:
        found = function(*args, **options)
        ends = object()
        try:
            while True:
                with one_thread():
                    item = next(found, ends)
                if item is ends:
                    return
                yield item  # type: ignore[misc]
        finally:
            close = getattr(found, "close", None)
            if close is not None:
                close()

    return steps


@contextmanager
def users_threads() -> Iterator[None]:
    """Restore the user's number of threads while code of the user's is called."""
    number, depth = _own.users, _own.depth
    if number is None:
        yield
        return
    _own.users, _own.depth = None, 0
    _set_here(number)
    try:
        yield
    finally:
        number = torch.get_num_threads()  # it may have been changed
        _set_here(1)
        _own.users, _own.depth = number, depth


def _set_here(number: int) -> None:
    """Set torch's number of threads for the calling thread alone."""
    read, done = threading.Event(), threading.Event()

    def keep() -> None:  # a new thread has the number for new threads
        theirs = torch.get_num_threads()
        read.set()
        done.wait()
        torch.set_num_threads(theirs)

    with _lock:
        keeper = threading.Thread(target=keep, daemon=True)
        try:
            keeper.start()
        except RuntimeError:  # the process is ending: no threads will come
            torch.set_num_threads(number)
            return
        read.wait()
        try:
            torch.set_num_threads(number)
        finally:
            done.set()
            keeper.join()


def available() -> int:
    """Threads that divide the blocks of rows: the user's number, on cores that there are."""
    if not _per_thread:  # torch has threads of its own, whose number cannot be changed
        return 1
    number = torch.get_num_threads() if _own.users is None else _own.users
    return min(number, _cores())


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def in_threads(
    worker: Callable[[], Callable[[Item], Result]], items: Sequence[Item], *, threads: int
) -> Iterable[Result]:
    """Return what a worker makes of the items, in their order.

    Parameters
    ----------
    worker : callable
        Called by each thread that takes part, it returns the function of an item, which may keep
        memory of its own.
    threads : int
        The calling thread included.

    Examples
    --------
    >>> list(in_threads(lambda: lambda item: item * item, [1, 2, 3], threads=2))
    [1, 4, 9]
    """
    threads = min(threads, len(items))
    if threads <= 1:
        return map(worker(), items)
    found: dict[int, Result] = {}
    errors: dict[int, BaseException] = {}
    left = iter(range(len(items)))
    taking = threading.Lock()

    def work() -> None:
        run = worker()
        while not errors:
            with taking:
                place = next(left, None)
            if place is None:
                return
            try:
                found[place] = run(items[place])
            except BaseException as error:  # raised in the calling thread, Ctrl-C too
                errors[place] = error

    helpers = _helpers(threads - 1, work)
    work()
    for helper in helpers:
        if not helper.cancel():
            helper.result()
    if errors:
        raise errors[min(errors)]
    return [found[place] for place in range(len(items))]


def _helpers(count: int, work: Callable[[], None]) -> list[Future[None]]:
    """Start so many threads of a pool that lives as long as the process."""
    global _pool, _pool_size
    with _lock:
        if _pool is None or _pool_size < count:
            if _pool is not None:
                _pool.shutdown(wait=False)
            _pool = ThreadPoolExecutor(count, "statsmodels_mnar", initializer=helper_thread)
            _pool_size = count
        try:
            return [_pool.submit(work) for _ in range(count)]
        except RuntimeError:  # the process is ending: the calling thread does it all
            return []


def helper_thread() -> None:
    """Make the calling thread one of ours: one of torch's threads, and no helpers of its own."""
    one_thread().__enter__()
    if _own.users is not None:
        _own.users = 1


def _forget() -> None:
    """Start afresh in the child of a fork, which has neither the threads nor the lock's holder."""
    global _lock, _pool, _pool_size
    _lock, _pool, _pool_size = threading.Lock(), None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def as_users(function: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Return a function of the user's that runs with the user's number of threads."""
    if function is None:
        return None

    def call(*args: Any, **options: Any) -> Any:
        with users_threads():
            return function(*args, **options)

    return call
