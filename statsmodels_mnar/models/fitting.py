"""What surrounds a fit: options, progress, warnings."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from statsmodels.tools.sm_exceptions import ConvergenceWarning

from ..engine.solution import Callback, Solution, Status, Step
from ..errors import WeakIdentificationWarning
from ..results.selection import Fit, SelectionResults

_OPTIONS: dict[str, set[str]] = {
    "newton": {"gtol"},
    "bfgs": {"gtol"},
    "lbfgs": {"gtol"},
    "sgd": {"lr", "weight_decay", "tol", "batch_size", "rng", "redraw"},
}


def named(face: Fit, status: Status) -> Fit:
    """A converged fit on a face, by the name of the boundary."""
    if not face.solution.status.converged:
        return face
    return replace(face, solution=replace(face.solution, status=status), start_params=None)


def check_options(method: str, options: dict[str, Any], penalty: float) -> None:
    """Refuse what the method does not take, misspelled keywords among them."""
    if method not in _OPTIONS:
        raise ValueError(f"method={method!r} is unknown; use one of {list(_OPTIONS)}")
    unknown = set(options) - _OPTIONS[method]
    if unknown:
        raise TypeError(
            f"fit got unexpected option(s) {sorted(unknown)}; method={method!r} takes "
            f"{sorted(_OPTIONS[method])}"
        )
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


def warn_about(results: SelectionResults) -> None:
    """Say what a user must know before reading a number."""
    solution: Solution = results.solution
    if solution.status in (Status.MAXITER, Status.STALLED, Status.NONFINITE, Status.SINGULAR):
        warnings.warn(
            f"{solution.status.value}. Scaled score {solution.score_norm:.1e} after "
            f"{solution.n_iter} iterations. Try other start_params, a larger maxiter, a ridge "
            "penalty, or a simpler normalization such as 'loading'.",
            ConvergenceWarning,
            stacklevel=4,
        )
    weak = results.weakness
    if weak is not None:
        warnings.warn(weak, WeakIdentificationWarning, stacklevel=4)
