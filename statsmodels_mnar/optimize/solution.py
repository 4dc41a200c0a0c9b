"""What an optimiser returns, how it ended in words, and how exact the integration was there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import torch
from numpy.typing import NDArray

from ..kernel.rows import Rows
from ..types import Floats
from .objective import Likelihood, Objective, sample_positions


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
    score: np.ndarray | None = None  # (P,) at the last evaluation, of Newton's


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


_ALL = 2**15  # rows up to which all are looked at
_DRAWN = 2**13  # of more rows, besides the extreme ones
_EXTREME = 512  # rows at each end of either index


def measure(
    own: Objective | None,
    finer: Likelihood,
    solution: Solution,
    free: NDArray[np.bool_],
    *,
    maximum: bool,
) -> tuple[float, float]:
    """Difference and shift of :class:`Accuracy`, by one evaluation of the score.

    Parameters
    ----------
    own : Objective, optional
        That of the solution, from whose rows a part may be taken; None if all are to be read.
    finer : Likelihood
        The objective of the solution by a finer rule.
    free : ndarray of bool
        (P,) the parameters that are estimated.
    maximum : bool
        Whether the solution is a maximum in these; otherwise the shift is NaN.

    Notes
    -----
    The error of a row's integral is a function of its two indices. Of more than 32,768 rows those
    whose indices are the largest and the smallest are looked at, 512 at each end, and 8,192 drawn
    from the others, which stand for them. An error that one in a thousand of these has is missed
    with a probability of 3e-4, one that one in a hundred has never.
    """
    params = solution.params
    if own is None or not isinstance(finer, Objective) or finer.rows.n <= _ALL:
        at = finer.evaluate(params, 1)
        difference, score = solution.value - at.value, at.score
    else:
        part = _telling(own, params)
        at, by_own = (o.with_rows(part).evaluate(params, 1) for o in (finer, own))
        assert at.score is not None
        assert by_own.score is not None
        difference, score = by_own.value - at.value, at.score - by_own.score
    assert score is not None
    if not maximum:
        return float(difference[0]), math.nan
    information = -solution.hessian[np.ix_(free, free)]
    return float(difference[0]), _newton_length(score[0].cpu().numpy()[free], information)


def _telling(objective: Objective, params: Floats) -> Rows:
    """The extreme rows and a sample of the others, with the weight of those for which they stand.

    The penalty's total weight changes with it, but is the same by both rules.
    """
    rows, n = objective.rows, objective.rows.n
    theta = torch.as_tensor(params, device=rows.device)
    a = theta[: objective.p] @ rows.X + rows.offset
    b = theta[objective.p : objective.n_coef] @ rows.W + rows.offset_select
    taken = torch.zeros(n, dtype=torch.bool, device=rows.device)
    for index in (a, b):
        for largest in (True, False):
            taken[index.topk(_EXTREME, largest=largest).indices] = True
    extreme = taken.cpu().numpy()
    others = np.flatnonzero(~extreme)
    taken[torch.as_tensor(others[sample_positions(len(others), _DRAWN)])] = True
    positions = np.flatnonzero(taken.cpu().numpy())
    part = rows.take(positions)
    factor = np.where(extreme[positions], 1.0, len(others) / _DRAWN)
    weight = part.weight * torch.as_tensor(factor, device=rows.device)
    return replace(part, weight=weight, total_weight=float(weight.sum()))


def _newton_length(score: Floats, information: Floats) -> float:
    """sqrt(score' information^(-1) score); NaN where that is not positive definite."""
    scale = np.sqrt(np.abs(np.diag(information)))
    try:
        root = np.linalg.cholesky(information / np.outer(scale, scale))
    except np.linalg.LinAlgError:
        return math.nan
    return float(np.linalg.norm(np.linalg.solve(root, score / scale)))
