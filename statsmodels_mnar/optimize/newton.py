"""Trust-region Newton with the exact Hessian, for B problems at once.

Each iteration maximises the quadratic model within a ball in the coordinates of unit-size columns
(Conn, Gould and Toint 2000, chapter 7). Dependence parameters have bounds; one that is held at a
bound by an outward score makes the result a boundary, not a convergence. Members that have ended
drop out of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .batches import resampled
from .objective import Evaluation, Likelihood, Objective
from .solution import Callback, Solution, Status, Step, boundary_status

_RADIUS, _MAX_RADIUS, _MIN_RADIUS = 2.0, 100.0, 1e-9
_SINGULAR = 1e-11  # smallest eigenvalue of the information per row, columns of unit size
_DECREMENT = 1e-9  # log-likelihood still to be gained, by the quadratic model
_MANY_ZEROS = 0.2  # share of zero weights above which each member gets rows of its own
_STEP = 1e-3  # length of Newton's step, columns of unit size: under separation it never shrinks
WITHIN = 1e-6  # standard errors between a converged fit and the maximum: what the package promises
_AIM = 1e-8  # what Newton's step must come to: the rest is for what the quadratic model leaves out
_ROUNDING = 16 * 2.0**-52  # relative error of one row's score: a few operations of each node


def newton_batch(
    objective: Likelihood,
    starts: np.ndarray,
    *,
    free: np.ndarray | None = None,
    weights: Tensor | None = None,
    maxiter: int = 100,
    gtol: float = 1e-8,
    aim: float = _AIM,
    callback: Callback | None = None,
) -> list[Solution]:
    """Maximise the objective from every row of ``starts``.

    Parameters
    ----------
    starts : ndarray
        (B, P).
    free : ndarray of bool, optional
        (P,) or (B, P), False where a parameter stays at its start value.
    weights : Tensor, optional
        (B, n) row weights of each member, in the order of the sorted rows.
    gtol : float
        Converged when the largest score of unit-size columns, per unit of weight, is below this,
        the Hessian is negative definite and Newton's next step below ``aim``.
    aim : float
        In standard errors; a larger one, on a part of the rows say, loosens the other rules too.

    Notes
    -----
    The length of the next step m is measured by the information I: d = sqrt(m'Im). No parameter
    moves by more than d of its standard errors (Cauchy-Schwarz), whatever the units of the columns
    and however flat the top. What the package promises of a converged fit is ``WITHIN``, a hundred
    times as much: two searches of one likelihood, whose paths part by rounding, end that near to
    its maximum and so to each other. Where rounding of the score alone makes a longer step (see
    :func:`judge`), or d is no longer halved by one, the search ends as near as it can come. The
    last step is taken without another evaluation: value and Hessian are those one step before.
    """
    theta = objective.as_theta(starts)
    if not torch.isfinite(theta).all():
        raise ValueError("start has values that are not finite")
    mask = free_mask(free, theta)
    # From one point the rows' terms are the same for all members, whatever their weights.
    one_start = weights is not None and np.array_equal(starts, np.tile(starts[0], (len(starts), 1)))
    search = _Search(objective, theta, mask, weights, one_start=one_start)
    if weights is not None and float((weights == 0.0).double().mean()) > _MANY_ZEROS:
        search.leave_out_zeros()
    for iteration in range(maxiter + 1):
        search.finish(iteration, gtol, aim, last=iteration == maxiter)
        if callback is not None:
            callback(search.latest)
        if not search.member:
            break
        search.step()
    return [search.done[m] for m in range(len(theta))]


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


class _Search:
    """The members still running; every tensor has them along its first axis."""

    def __init__(
        self,
        objective: Likelihood,
        theta: Tensor,
        free: Tensor,
        weights: Tensor | None,
        *,
        one_start: bool = False,
    ) -> None:
        self.objective = objective
        self.theta, self.free, self.weights = theta, free, weights
        self.member: list[int] = list(range(len(theta)))
        self.radius = theta.new_full((len(theta),), _RADIUS)
        self.distance = torch.full_like(self.radius, torch.inf)  # of the latest near-maximum
        self.lower, self.upper = bounds(objective)
        self.scale = torch.as_tensor(objective.scale, device=theta.device)
        self.theta = torch.where(free, theta.clamp(self.lower, self.upper), theta)
        self.at = objective.evaluate(self.theta[:1] if one_start else self.theta, 2, weights)
        self.traces: list[list[Step]] = [[] for _ in self.member]
        self.done: dict[int, Solution] = {}
        self.latest = Step(0, float("nan"), float("nan"))
        self.score: Tensor = self.theta  # of the quadratic model, as are those below
        self.information: Tensor = self.theta
        self.spectrum: Spectrum | None = None

    def leave_out_zeros(self) -> None:
        """Give each member its own rows, those of positive weight."""
        assert self.weights is not None
        assert isinstance(self.objective, Objective)
        rows = resampled(self.objective.rows, self.weights)
        self.objective, self.weights = self.objective.with_rows(rows), None
        self.scale = torch.as_tensor(self.objective.scale, device=self.theta.device)

    def finish(self, iteration: int, gtol: float, aim: float, *, last: bool) -> None:
        """Record the iteration, and take out the members that have ended."""
        self.score, self.information, side = self._model()
        information, total = self.information, self.objective.totals(self.weights)
        self.spectrum = spectrum = Spectrum.of(self.score, information)
        slack = max(1.0, aim**2 / _DECREMENT)
        standing = judge(self.score, information, self.at.value, total, gtol, slack, spectrum)
        maximum, distance = standing.maximum, standing.distance
        exhausted = (distance <= standing.rounding) | (distance > 0.5 * self.distance)
        # Newton's steps square the distance, once they are short: the step after the next is known.
        squared = (distance <= WITHIN) & (distance**3 <= aim * self.distance**2)
        settled = maximum & ((distance <= aim) | squared | exhausted)
        refined = settled & (distance <= max(WITHIN, aim))
        ending = torch.where(refined[:, None], self._moved(standing.move), self.theta)
        self.distance = torch.where(maximum, distance, torch.inf)
        finite = torch.isfinite(self.at.value)
        values, norms = self.at.value.tolist(), standing.norm.tolist()
        ended: list[int] = []
        for i, m in enumerate(self.member):
            self.latest = Step(iteration, values[i], norms[i])
            self.traces[m].append(self.latest)
            status: Status | None = None
            if not finite[i]:
                status = Status.NONFINITE
            elif settled[i]:
                status = boundary_status(
                    self.objective.form.names, side[i, self.objective.n_coef :].cpu().numpy()
                )
                status = status or Status.CONVERGED
            elif standing.flat[i]:
                status = flat_status(information[i], self.objective.n_coef, total_of(total, i))
            elif self.radius[i] < _MIN_RADIUS:
                status = Status.STALLED
            elif last:
                status = Status.MAXITER
            if status is not None:
                ended.append(i)
                self.done[m] = self._solution(i, m, ending[i], norms[i], iteration, status)
        if ended:
            gone = set(ended)
            self._keep([i for i in range(len(self.member)) if i not in gone])

    def step(self) -> None:
        """One trust-region step of every member."""
        score, information = self.score, self.information
        move = trust_region_step(score, information, self.radius, self.spectrum)
        trial = self._moved(move)
        move = (trial - self.theta) * self.scale
        bent = (information @ move[..., None])[..., 0]
        promised = (move * (score - 0.5 * bent)).sum(-1)
        new = self.objective.evaluate(trial, 2, self.weights)
        # Rounding of a sum of n terms, and nodes that change with the members' parameters: below
        # that the ratio of gains says nothing.
        noise = 1e-12 * self.at.value.abs().clamp(min=1.0)
        ratio = (new.value - self.at.value + noise) / (promised + noise)
        assert new.score is not None
        assert new.hessian is not None
        finite = (
            torch.isfinite(new.value)
            & torch.isfinite(new.score).all(-1)
            & torch.isfinite(new.hessian).all(-1).all(-1)
        )
        # A step cut off at a bound may lead down, in the model as in truth.
        ratio = torch.where(finite & (promised >= 0.0), ratio, -torch.inf)
        length = torch.linalg.vector_norm(move, dim=-1)
        at_edge = length > 0.9 * self.radius
        grown = torch.where((ratio > 0.75) & at_edge, 2.0 * self.radius, self.radius)
        shrunk = 0.25 * torch.minimum(length, self.radius)
        self.radius = torch.where(ratio < 0.25, shrunk, grown).clamp(max=_MAX_RADIUS)
        accept = ratio > 1e-4
        self.theta = torch.where(accept[:, None], trial, self.theta)
        self.at = _where(accept, new, self.at)

    def _moved(self, move: Tensor) -> Tensor:
        """The parameters after a step in unit-size columns, within their bounds."""
        trial = self.theta + move / self.scale
        return torch.where(self.free, trial.clamp(self.lower, self.upper), self.theta)

    def _model(self) -> tuple[Tensor, Tensor, Tensor]:
        return scaled_model(self.objective, self.theta, self.free, self.at)

    def _keep(self, index: Sequence[int]) -> None:
        self.member = [self.member[i] for i in index]
        keep = torch.as_tensor(list(index), dtype=torch.int64, device=self.theta.device)
        self.theta, self.free, self.radius = self.theta[keep], self.free[keep], self.radius[keep]
        self.distance = self.distance[keep]
        self.at = self.at[keep]
        self.score, self.information = self.score[keep], self.information[keep]
        self.spectrum = None if self.spectrum is None else self.spectrum.members(keep)
        self.weights = None if self.weights is None else self.weights[keep]
        if self.objective.batched:
            self.objective = self.objective.members(keep)
            self.scale = torch.as_tensor(self.objective.scale, device=self.theta.device)

    def _solution(
        self, i: int, m: int, theta: Tensor, norm: float, n_iter: int, status: Status
    ) -> Solution:
        assert self.at.hessian is not None
        assert self.at.score is not None
        return Solution(
            params=theta.cpu().numpy().copy(),
            value=float(self.at.value[i]),
            score_norm=norm,
            hessian=self.at.hessian[i].cpu().numpy().copy(),
            score=self.at.score[i].cpu().numpy().copy(),
            n_iter=n_iter,
            trace=tuple(self.traces[m]),
            status=status,
        )


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
    maximum = (
        (norm <= slack * gtol)
        & (gain <= slack * _DECREMENT * (1.0 + 1e-6 * value.abs()))
        & (torch.linalg.vector_norm(step, dim=-1) <= slack * _STEP)
        & (eigenvalue[:, 0] > _SINGULAR * total)
    )
    # A negative curvature is a saddle point or a minimum, which the next step leaves.
    flat = (norm <= 1e-2 * gtol) & (eigenvalue[:, 0].abs() <= _SINGULAR * total)
    return Standing(
        norm,
        maximum,
        flat,
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


def total_of(total: Tensor | float, i: int) -> float:
    """Sum of the row weights of one member."""
    return float(total[i]) if isinstance(total, Tensor) and total.ndim else float(total)


def _where(accept: Tensor, new: Evaluation, old: Evaluation) -> Evaluation:
    assert new.score is not None
    assert old.score is not None
    assert new.hessian is not None
    assert old.hessian is not None
    return Evaluation(
        torch.where(accept, new.value, old.value),
        torch.where(accept[:, None], new.score, old.score),
        torch.where(accept[:, None, None], new.hessian, old.hessian),
    )


def trust_region_step(
    score: Tensor, information: Tensor, radius: Tensor, spectrum: Spectrum | None = None
) -> Tensor:
    """Maximise score'm - m'(information)m/2 over |m| <= radius, for each member.

    Parameters
    ----------
    score : Tensor
        (B, P).
    information : Tensor
        (B, P, P), symmetric, of any signature.
    radius : Tensor
        (B,).

    Notes
    -----
    With eigenvalues e_j and the score's coordinates c_j the step is c_j/(e_j + shift), where the
    shift is 0 or makes the length the radius. Newton's iteration on 1/length, which is nearly
    linear in the shift, rises to that root from the left (More and Sorensen 1983).
    """
    eigenvalue, vector, along = spectrum or Spectrum.of(score, information)
    if score.device.type == "cpu" and bool((eigenvalue[:, 0] > 0.0).all()):
        step = along / eigenvalue
        # Newton's own steps, all within their radius; elsewhere asking costs more than it saves.
        if bool((torch.linalg.vector_norm(step, dim=-1) <= radius).all()):
            return (vector @ step[..., None])[..., 0]
    # Smallest eigenvalue that counts, beside the others and beside the score over the radius.
    tiny = 1e-14 * torch.maximum(
        eigenvalue.abs().amax(-1), torch.linalg.vector_norm(along, dim=-1) / radius
    ).clamp(min=1e-280)
    shift = torch.where(eigenvalue[:, 0] > tiny, 0.0, tiny - eigenvalue[:, 0])
    for _ in range(12):
        scaled = eigenvalue + shift[:, None]
        length = torch.linalg.vector_norm(along / scaled, dim=-1)
        slope = (along**2 / scaled**3).sum(-1) / length.clamp(min=1e-300) ** 3
        excess = 1.0 / radius - 1.0 / length.clamp(min=1e-300)
        # Every step is inside its radius; elsewhere than on a CPU asking costs more than it saves.
        if excess.device.type == "cpu" and not (excess > 0).any():
            break
        shift = shift + torch.where(excess > 0, excess / slope.clamp(min=1e-300), 0.0)
    step = along / (eigenvalue + shift[:, None])
    length = torch.linalg.vector_norm(step, dim=-1)
    step = step * torch.clamp(radius / length.clamp(min=1e-300), max=1.0)[:, None]
    # The hard case: an indefinite model rises to the edge, but the score has no part along its
    # worst direction. Either way along it is as good.
    rest = torch.sqrt((radius**2 - (step[:, 1:] ** 2).sum(-1)).clamp(min=0.0))
    to_edge = torch.where(step[:, 0] < 0.0, -rest, rest)
    step[:, 0] = torch.where(eigenvalue[:, 0] < -tiny, to_edge, step[:, 0])
    return (vector @ step[..., None])[..., 0]
