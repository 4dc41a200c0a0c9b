"""What optimisers return: whether it is a maximum, how they ended, how exact the integrals were."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..kernel.rows import Rows
from ..types import Floats
from .objective import Evaluation, Likelihood, Objective, sample_positions


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
    apart: float = 0.0  # log determinant of the information of eliminated effects


def ended_well(solution: Solution) -> bool:
    """Whether a search ended at a maximum, inside or on a face."""
    return solution.status.converged or solution.status.boundary


def comparable(solution: Solution) -> float:
    """The log-likelihood; minus infinity where it is not a number."""
    return solution.value if np.isfinite(solution.value) else -np.inf


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


# -- whether a point is a maximum ------------------------------------------------------------------


WITHIN = 1e-6  # standard errors between a converged fit and the maximum: what the package promises
DECREMENT = 1e-9  # log-likelihood still to be gained, by the quadratic model
_SINGULAR = 1e-11  # smallest eigenvalue of the information per row, columns of unit size
_STEP = 1e-3  # length of Newton's step, columns of unit size: under separation it never shrinks
_LONGEST = 0.5  # the same where the other rules are loose: over more no quadratic model holds
_ROUNDING = 16 * 2.0**-52  # relative error of one row's score: a few operations of each node


def free_mask(free: np.ndarray | None, theta: Tensor) -> Tensor:
    """``free`` as a boolean tensor of theta's shape."""
    if free is None:
        return torch.ones_like(theta, dtype=torch.bool)
    mask = np.asarray(free)
    if mask.dtype != bool or mask.shape not in (theta.shape, theta.shape[1:]):
        raise ValueError(
            f"free must be booleans of shape {tuple(theta.shape[1:])} or {tuple(theta.shape)}, "
            f"got {mask.dtype} of shape {mask.shape}"
        )
    return torch.as_tensor(mask, device=theta.device).expand_as(theta)


def bounds(objective: Likelihood) -> tuple[Tensor, Tensor]:
    """Bounds of all parameters, (P,): none for coefficients."""
    infinite = np.full(objective.n_coef, np.inf)
    lower = np.concatenate([-infinite, objective.form.lower])
    upper = np.concatenate([infinite, objective.form.upper])
    device = objective.device
    return torch.as_tensor(lower, device=device), torch.as_tensor(upper, device=device)


def scaled_model(
    objective: Likelihood, theta: Tensor, free: Tensor, at: Evaluation
) -> tuple[Tensor, Tensor, Tensor]:
    """Score, information and the bounds that hold (-1, 0 or +1), in unit-size columns.

    A parameter that is fixed or held gets a zero score and a large curvature of its own.
    """
    assert at.score is not None
    assert at.hessian is not None
    scale = torch.as_tensor(objective.scale, device=theta.device)
    lower, upper = bounds(objective)
    score = _zero_unless_finite(at.score / scale)
    information = _zero_unless_finite(-at.hessian / (scale[..., :, None] * scale[..., None, :]))
    low = free & (theta <= lower) & (score < 0)
    high = free & (theta >= upper) & (score > 0)
    moving = free & ~low & ~high
    side = high.to(torch.int8) - low.to(torch.int8)
    if score.device.type == "cpu" and moving.all():
        return score, information, side
    both = moving[:, :, None] & moving[:, None, :]
    size = information.diagonal(dim1=-2, dim2=-1).abs().amax(-1).clamp(min=1.0)
    own = torch.diag_embed(torch.where(moving, 0.0, size[:, None]))
    return torch.where(moving, score, 0.0), torch.where(both, information, 0.0) + own, side


def _zero_unless_finite(values: Tensor) -> Tensor:
    return torch.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


class Spectrum(NamedTuple):
    """The information's eigenvalues and vectors, and the score's coordinates along them."""

    value: Tensor  # (B, P), rising
    vector: Tensor  # (B, P, P), in columns
    along: Tensor  # (B, P)

    @classmethod
    def of(cls, score: Tensor, information: Tensor) -> Spectrum:
        value, vector = torch.linalg.eigh(information)
        return cls(value, vector, (vector.mT @ score[..., None])[..., 0])

    def members(self, index: Tensor) -> Spectrum:
        return Spectrum(self.value[index], self.vector[index], self.along[index])


class Standing(NamedTuple):
    """Where each member of a batch stands."""

    norm: Tensor  # (B,) of the score
    maximum: Tensor  # (B,) bool: at one
    flat: Tensor  # (B,) bool: at an end without curvature
    curved: Tensor  # (B,) bool: where the log-likelihood is concave, and no direction is flat
    move: Tensor  # (B, P) Newton's step, in unit-size columns
    distance: Tensor  # (B,) its length in standard errors
    rounding: Tensor  # (B,) the part of that which rounding of the score alone can make


def judge(
    score: Tensor,
    information: Tensor,
    value: Tensor,
    total: Tensor | float,
    gtol: float,
    slack: float = 1.0,
    spectrum: Spectrum | None = None,
) -> Standing:
    """Where each member stands.

    Parameters
    ----------
    score, information : Tensor
        (B, P) and (B, P, P), in unit-size columns.
    value, total : Tensor
        (B,) log-likelihood and the sum of the row weights.
    slack : float
        Factor on every tolerance but that for the curvature.
    spectrum : Spectrum, optional
        That of the score and the information, where it is known.

    Notes
    -----
    The score of column j is a sum of n terms, each with a relative error r of rounding, so its own
    error is at most r times the sum of their sizes, and that at most r sqrt(n I_jj) by
    Cauchy-Schwarz, with the information I_jj for the sum of squares. Through I^-1 the errors of the
    columns make up a distance of at most r sqrt(n sum_j I_jj (I^-1)_jj) if their signs are random.
    """
    norm = score.abs().amax(-1) / total
    eigenvalue, vector, along = spectrum or Spectrum.of(score, information)
    positive = eigenvalue.clamp(min=1e-300)
    step = along / positive
    gain = 0.5 * (along * step).sum(-1)
    inverse = (vector.square() / positive[..., None, :]).sum(-1)  # its diagonal
    inflation = (information.diagonal(dim1=-2, dim2=-1) * inverse).sum(-1)
    curved = eigenvalue[:, 0] > _SINGULAR * total
    maximum = (
        (norm <= slack * gtol)
        & (gain <= slack * DECREMENT * (1.0 + 1e-6 * value.abs()))
        & (torch.linalg.vector_norm(step, dim=-1) <= min(slack * _STEP, _LONGEST))
        & curved
    )
    # A negative curvature is a saddle point or a minimum, which the next step leaves.
    flat = (norm <= 1e-2 * gtol) & (eigenvalue[:, 0].abs() <= _SINGULAR * total)
    return Standing(
        norm,
        maximum,
        flat,
        curved,
        move=(vector @ step[..., None])[..., 0],
        distance=(2.0 * gain.clamp(min=0.0)).sqrt(),
        rounding=_ROUNDING * (total * inflation.clamp(min=0.0)).sqrt(),
    )


def flat_status(information: Tensor, n_coef: int, total: float) -> Status:
    """What a top without curvature is flat in.

    Parameters
    ----------
    information : Tensor
        (P, P) in unit-size columns, coefficients first.
    """
    # Given the dependence the coefficients have curvature, unless they are at fault themselves.
    least = float(torch.linalg.eigvalsh(information[:n_coef, :n_coef])[0])
    return Status.FLAT if least > _SINGULAR * total else Status.SINGULAR


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
