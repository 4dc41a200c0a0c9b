"""Many independent runs, over a few processes, with their progress shown."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from statsmodels_mnar.datasets import Experiment, load_experiment
from statsmodels_mnar.tools import progress_bar

Record = dict[str, Any]
"""One row of a table of runs."""


@dataclass(frozen=True, slots=True)
class Job:
    """A call that another process can make."""

    function: Callable[..., list[Record]]
    arguments: dict[str, Any]

    def __call__(self) -> list[Record]:
        return self.function(**self.arguments)


class Runner:
    """Runs jobs in this process, or in a pool of others."""

    def __init__(self, pool: ProcessPoolExecutor | None, progress: bool) -> None:
        self._pool, self._progress = pool, progress

    def __call__(self, jobs: Sequence[Job], label: str) -> list[Record]:
        """The records of all jobs, in the order of the jobs."""
        found: dict[int, list[Record]] = {}
        with progress_bar(self._progress, label, len(jobs), unit="run") as bar:
            for number, records in self._results(jobs):
                found[number] = records
                bar.update()
        return [record for number in range(len(jobs)) for record in found[number]]

    def _results(self, jobs: Sequence[Job]) -> Iterator[tuple[int, list[Record]]]:
        if self._pool is None:
            for number, job in enumerate(jobs):
                yield number, job()
            return
        numbers = {self._pool.submit(job): number for number, job in enumerate(jobs)}
        try:
            for future in as_completed(numbers):
                yield numbers[future], future.result()
        finally:  # an error or an interrupt: what has not started need not
            for future in numbers:
                future.cancel()


@contextmanager
def runner(processes: int, progress: bool = True) -> Iterator[Runner]:
    """A runner over ``processes`` processes of one thread each."""
    if processes < 1:
        raise ValueError(f"jobs={processes} must be at least 1")
    if processes == 1:
        yield Runner(None, progress)
        return
    # Spawned, because torch's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=_prepare_process) as pool:
        yield Runner(pool, progress)


def _prepare_process() -> None:
    """One thread, and a silent end on Ctrl-C, in a process of our own; the user's is left alone."""
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@lru_cache(maxsize=8)
def experiment(name: str, data: str | None, eta: float | None = None) -> Experiment:
    """An experiment, read once in each process."""
    return load_experiment(name, data, eta=eta)
