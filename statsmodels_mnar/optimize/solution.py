"""What an optimiser returns, and the words for how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np


class Status(Enum):
    """How a fit ended; the value is the message a user reads.

    Examples
    --------
    >>> from statsmodels_mnar import Status
    >>> Status.RHO_PLUS.value
    'the likelihood rises to the boundary rho = +1'
    >>> Status.RHO_PLUS.boundary, Status.RHO_PLUS.converged
    (True, False)
    """

    CONVERGED = "converged: the score is zero and the Hessian negative definite"
    STOPPED = "stopped by the relative change of the loss, not at a maximum"
    RHO_PLUS = "the likelihood rises to the boundary rho = +1"
    RHO_MINUS = "the likelihood rises to the boundary rho = -1"
    SIGMA_ZERO = "the likelihood rises to the boundary sigma = 0 (no dependence on selection)"
    SIGMA_INFINITE = "the likelihood rises to the boundary sigma = infinity (a probit outcome)"
    LOADING_INFINITE = "the likelihood rises without bound in the loading"
    FLAT = (
        "the likelihood is flat in the dependence of the two equations: the values around the "
        "estimate fit as well, and the data do not tell them apart"
    )
    SINGULAR = (
        "the Hessian is singular where the score vanishes: coefficients run to infinity "
        "(separation) or columns are collinear"
    )
    MAXITER = "not converged: the limit on iterations was reached"
    STALLED = "not converged: no step improves the likelihood"
    NONFINITE = "not converged: the likelihood is not finite (start values, or too long a step)"

    @property
    def boundary(self) -> bool:
        """The maximum lies on a face of the model, or on a flat top: a dependence is held there."""
        return self in _BOUNDARIES

    @property
    def converged(self) -> bool:
        """The maximum is interior."""
        return self is Status.CONVERGED


_BOUNDARIES = {
    Status.RHO_PLUS,
    Status.RHO_MINUS,
    Status.SIGMA_ZERO,
    Status.SIGMA_INFINITE,
    Status.LOADING_INFINITE,
    Status.FLAT,
}

_AT_BOUND = {
    ("lnsigma", -1): Status.SIGMA_ZERO,
    ("lnsigma", 1): Status.SIGMA_INFINITE,
    ("athrho", -1): Status.RHO_MINUS,
    ("athrho", 1): Status.RHO_PLUS,
    ("loading", -1): Status.LOADING_INFINITE,
    ("loading", 1): Status.LOADING_INFINITE,
}


def boundary_status(names: tuple[str, ...], side: np.ndarray) -> Status | None:
    """Status for dependence parameters held at a bound: side -1, 0 or +1 of each."""
    for name, where in zip(names, side, strict=True):
        if where:
            return _AT_BOUND.get((name, int(where)))  # None: a bound that is not a face
    return None


@dataclass(frozen=True, slots=True)
class Step:
    """One line of an optimiser's trace."""

    iteration: int
    value: float
    score_norm: float


@dataclass(frozen=True, slots=True)
class Solution:
    """Where an optimiser ended."""

    params: np.ndarray  # (P,)
    value: float  # penalised log-likelihood
    score_norm: float  # largest |score| of unit-size columns, per unit of weight
    hessian: np.ndarray  # (P, P)
    n_iter: int
    trace: tuple[Step, ...]
    status: Status


@dataclass(frozen=True, slots=True)
class Climb:
    """One search for a maximum, by the error correlations at which it began and ended."""

    start: float
    end: float
    value: float
    status: Status
    n_iter: int


Callback = Callable[[Step], None]
"""Called after each iteration; an optimiser shows progress through it."""
