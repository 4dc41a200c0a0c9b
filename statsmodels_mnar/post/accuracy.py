"""What the error of the integration means for the estimates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..optimize.objective import Likelihood
from ..optimize.solution import Solution
from ..types import Floats

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
