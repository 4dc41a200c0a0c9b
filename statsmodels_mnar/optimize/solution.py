"""What an optimiser returns, how it ended in words, and how exact the integration was there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from ..types import Floats
from .objective import Likelihood


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
        "estimate fit as well, and the data do not distinguish them"
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


# -- what the error of the integration means for the estimates -------------------------------------


TOLERATED_LLF = 1e-3  # a likelihood ratio is off by twice that
TOLERATED_SHIFT = 1e-2  # standard errors
TOLERATED_BY_DRAWS = 0.1  # the same of a simulation, whose error the user has chosen


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The log-likelihood at the solution by the rule of the fit and by a finer one; print it.

    Attributes
    ----------
    rule, finer : str
        How the likelihood was integrated, and what that was held against.
    difference : float
        Log-likelihood by ``rule`` less that by ``finer``.
    shift : float
        How far the estimates are from the maximum by ``finer``: no linear combination of them moves
        by more than that many of its (nonrobust) standard errors. NaN where the fit is not at a
        maximum.
    simulated : bool
        Whether ``rule`` is a number of draws.
    replaced : Accuracy or None
        That of the rule asked for, where it was too coarse and the fit was repeated by ``rule``.
    """

    rule: str
    finer: str
    difference: float
    shift: float
    simulated: bool = False
    replaced: Accuracy | None = None

    @property
    def sufficient(self) -> bool:
        """Whether the error is too small to matter: 0.001 in the log-likelihood, 0.01 SE.

        Draws are sufficient up to 0.1 standard errors, whatever the log-likelihood.
        """
        if self.simulated:
            return not self.shift > TOLERATED_BY_DRAWS
        return abs(self.difference) <= TOLERATED_LLF and not self.shift > TOLERATED_SHIFT

    def __str__(self) -> str:
        off = f"{self.rule} against {self.finer}: log-likelihood {self.difference:+.1e}"
        if math.isnan(self.shift):
            return off
        return f"{off}, estimates off by at most {self.shift:.1e} standard errors"

    @property
    def note(self) -> str | None:
        """What a user must know, or None."""
        if self.replaced is not None:
            text = f"Too coarse an integration: {self.replaced}. "
            if self.sufficient:
                return f"{text}The fit was repeated by {self.rule}: these are its numbers."
            return (
                f"{text}The fit was repeated by {self.rule}, which is still too coarse: {self}. "
                "Use a smaller tol, and see whether columns have extreme values."
            )
        if self.sufficient:
            return None
        if self.simulated:
            return f"Too few draws: {self}. Use more of them, or integration='quadrature'."
        return f"Too coarse an integration: {self}. Use integration='quadrature'."


def measure(
    finer: Likelihood,
    solution: Solution,
    free: NDArray[np.bool_],
    *,
    maximum: bool,
) -> tuple[float, float]:
    """Difference and shift of :class:`Accuracy`, by one evaluation of the score.

    Parameters
    ----------
    finer : Likelihood
        The objective of the solution by a finer rule.
    free : ndarray of bool
        (P,) the parameters that are estimated.
    maximum : bool
        Whether the solution is a maximum in these; otherwise the shift is NaN.
    """
    at = finer.evaluate(solution.params, 1)
    assert at.score is not None
    difference = solution.value - float(at.value[0])
    if not maximum:
        return difference, math.nan
    score = at.score[0].cpu().numpy()[free]
    information = -solution.hessian[np.ix_(free, free)]
    return difference, _newton_length(score, information)


def _newton_length(score: Floats, information: Floats) -> float:
    """sqrt(score' information^(-1) score); NaN where that is not positive definite."""
    scale = np.sqrt(np.abs(np.diag(information)))
    try:
        root = np.linalg.cholesky(information / np.outer(scale, scale))
    except np.linalg.LinAlgError:
        return math.nan
    return float(np.linalg.norm(np.linalg.solve(root, score / scale)))
