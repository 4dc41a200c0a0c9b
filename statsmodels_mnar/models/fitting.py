"""What surrounds a fit: options, progress, warnings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from statsmodels.tools.sm_exceptions import ConvergenceWarning

from ..design.checks import nearly_collinear
from ..errors import DesignError, IntegrationAccuracyWarning, WeakIdentificationWarning, warn
from ..kernel.integration import is_integer, is_number
from ..large.checkpoint import Journal
from ..large.partitions import PartitionedRows, Session
from ..optimize.solution import Callback, Solution, Status, Step
from ..progress import progress_bar
from ..results.fitted import Fit, SelectionResults

_DEPENDENCE = ("lnsigma", "athrho", "loading")  # of one normalization or another

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
    method: str,
    options: dict[str, Any],
    penalty: float,
    maxiter: int | None = None,
    callback: Any = None,
) -> None:
    """Refuse what the method does not take, misspelled keywords among them."""
    if not isinstance(method, str) or method not in _OPTIONS:
        raise ValueError(f"method={method!r} is unknown; use one of {list(_OPTIONS)}")
    unknown = set(options) - _OPTIONS[method]
    if unknown:
        raise TypeError(
            f"fit got unexpected option(s) {sorted(unknown)}; method={method!r} takes "
            f"{sorted(_OPTIONS[method])}"
        )
    if maxiter is not None and not (is_integer(maxiter) and maxiter > 0):
        raise ValueError(f"maxiter={maxiter!r} must be a positive integer")
    n_starts = options.get("n_starts", 2)
    if not (is_integer(n_starts) and n_starts >= 2):
        raise ValueError(f"n_starts={n_starts!r} must be an integer of at least 2")
    if not (is_number(penalty) and 0 <= penalty < math.inf):
        raise ValueError(f"penalty={penalty!r} must be a nonnegative number")
    gtol = options.get("gtol")
    if gtol is not None and not (is_number(gtol) and 0 < gtol < math.inf):
        raise ValueError(f"gtol={gtol!r} must be a positive number")
    if callback is not None and not callable(callback):
        raise ValueError(f"callback={callback!r} must be a function of a Step")
    if method == "sgd" and penalty:
        raise ValueError(f"penalty={penalty!r}: method='sgd' takes weight_decay instead")


def check_names(outcome: Sequence[str], select: Sequence[str]) -> None:
    """Refuse names that two parameters would have: nobody could tell which one is meant."""
    for name, count in Counter([*outcome, *select, *_DEPENDENCE]).items():
        if count > 1:
            other = "a parameter of the model" if name in _DEPENDENCE else "another column"
            raise DesignError(
                f"the column {name!r} has the name of {other}. Rename it, or write I({name}) in "
                "the formula."
            )


def both(first: Callback | None, second: Callback | None) -> Callback | None:
    if first is None or second is None:
        return first or second

    def call(step: Step) -> None:
        first(step)
        second(step)

    return call


@contextmanager
def iterations(show: bool, method: str, total: int | None) -> Iterator[Callback | None]:
    """A bar over the iterations of a fit, and what moves it on."""
    with progress_bar(show, method, total, unit="it") as bar:

        def move(step: Step) -> None:
            bar.set_postfix_str(f"log-lik {step.value:.6f}, |score| {step.score_norm:.1e}")
            bar.update()

        yield move if show else None


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


def warn_about(results: SelectionResults) -> None:
    """Say what a user must know before reading a number."""
    solution: Solution = results.solution
    if solution.status in (Status.MAXITER, Status.STALLED, Status.NONFINITE, Status.SINGULAR):
        free = results.model.normalization == "free"
        simpler = ", or a simpler normalization such as 'loading'" if free else ""
        warn(
            f"{solution.status.value}. Scaled score {solution.score_norm:.1e} after "
            f"{solution.n_iter} iterations. Try other start_params, a larger maxiter, a ridge "
            f"penalty{simpler}.{nearly_collinear(results.model.design.sketch)}",
            ConvergenceWarning,
        )
    if solution.status is Status.FLAT:
        warn(
            f"{solution.status.value}. It is held at an error correlation of "
            f"{results.error_corr:.3f}; look at others with sensitivity(error_corr=...).",
            WeakIdentificationWarning,
        )
    coarse = results.accuracy.note if results.accuracy is not None else None
    if coarse is not None:
        warn(coarse, IntegrationAccuracyWarning)
    for message in (results.weakness, results._doubt()):
        if message is not None:
            warn(message, WeakIdentificationWarning)
