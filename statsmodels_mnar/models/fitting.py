"""What surrounds a fit: options, progress, warnings."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from statsmodels.tools.sm_exceptions import ConvergenceWarning

from ..engine.journal import Journal
from ..engine.partitioned import PartitionedRows, Session
from ..engine.solution import Callback, Solution, Status, Step
from ..errors import IntegrationAccuracyWarning, WeakIdentificationWarning
from ..results.selection import Fit, SelectionResults

_OPTIONS: dict[str, set[str]] = {
    "newton": {"gtol", "n_starts"},
    "bfgs": {"gtol"},
    "lbfgs": {"gtol"},
    "sgd": {"lr", "weight_decay", "tol", "batch_size", "rng", "redraw"},
}


def named(face: Fit, status: Status) -> Fit:
    """A converged fit on a face, by the name of the boundary."""
    if not face.solution.status.converged:
        return face
    return replace(face, solution=replace(face.solution, status=status), start_params=None)


def check_options(
    method: str, options: dict[str, Any], penalty: float, maxiter: int | None = None
) -> None:
    """Refuse what the method does not take, misspelled keywords among them."""
    if method not in _OPTIONS:
        raise ValueError(f"method={method!r} is unknown; use one of {list(_OPTIONS)}")
    unknown = set(options) - _OPTIONS[method]
    if unknown:
        raise TypeError(
            f"fit got unexpected option(s) {sorted(unknown)}; method={method!r} takes "
            f"{sorted(_OPTIONS[method])}"
        )
    if maxiter is not None and not (isinstance(maxiter, int | np.integer) and maxiter > 0):
        raise ValueError(f"maxiter={maxiter!r} must be a positive integer")
    n_starts = options.get("n_starts", 2)
    if not (isinstance(n_starts, int | np.integer) and n_starts >= 2):
        raise ValueError(f"n_starts={n_starts!r} must be an integer of at least 2")
    if method == "sgd" and penalty:
        raise ValueError(f"penalty={penalty!r}: method='sgd' takes weight_decay instead")


def both(first: Callback | None, second: Callback | None) -> Callback | None:
    if first is None or second is None:
        return first or second

    def call(step: Step) -> None:
        first(step)
        second(step)

    return call


class Progress:
    """A tqdm bar over iterations where ``disp`` asks for it."""

    def __init__(self, disp: bool, method: str, total: int | None) -> None:
        self.disp, self.method, self.total = bool(disp), method, total

    def __enter__(self) -> Callback | None:
        if not self.disp:
            return None
        from tqdm.auto import tqdm

        self.bar = tqdm(total=self.total, desc=self.method, unit="it")

        def show(step: Step) -> None:
            self.bar.set_postfix_str(f"log-lik {step.value:.6f}, |score| {step.score_norm:.1e}")
            self.bar.update()

        return show

    def __exit__(self, *error: object) -> None:
        if self.disp:
            self.bar.close()


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
        journal = None if checkpoint is None else Journal(checkpoint, rows.fingerprint)
        self.during = Session(journal, self._watch if disp else None)

    def _watch(self, results: Iterable[Any], sizes: list[int]) -> Iterator[Any]:
        from tqdm.auto import tqdm

        options = {"unit": " rows", "unit_scale": True, "desc": self.text}
        with tqdm(total=sum(sizes), **options) as bar:
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


def warn_about(results: SelectionResults) -> None:
    """Say what a user must know before reading a number."""
    solution: Solution = results.solution
    if solution.status in (Status.MAXITER, Status.STALLED, Status.NONFINITE, Status.SINGULAR):
        free = results.model.normalization == "free"
        simpler = ", or a simpler normalization such as 'loading'" if free else ""
        warnings.warn(
            f"{solution.status.value}. Scaled score {solution.score_norm:.1e} after "
            f"{solution.n_iter} iterations. Try other start_params, a larger maxiter, a ridge "
            f"penalty{simpler}.",
            ConvergenceWarning,
            stacklevel=4,
        )
    coarse = results.accuracy.note if results.accuracy is not None else None
    if coarse is not None:
        warnings.warn(coarse, IntegrationAccuracyWarning, stacklevel=4)
    weak = results.weakness
    if weak is not None:
        warnings.warn(weak, WeakIdentificationWarning, stacklevel=4)
