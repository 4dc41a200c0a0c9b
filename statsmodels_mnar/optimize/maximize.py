"""One door to the optimisers, and trust-region Newton with the exact Hessian behind it.

Newton climbs B problems at once. Each iteration maximises the quadratic model within a ball in the
coordinates of unit-size columns (Conn, Gould and Toint 2000, chapter 7). Dependence parameters have
bounds; one that is held at a bound by an outward score makes the result a boundary, not a
convergence. Members that have ended drop out of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..kernel.forms import FreeForm, outcome_scale
from ..kernel.integration import is_integer, is_number
from ..kernel.rows import Rows
from ..kernel.threads import one_thread
from .batches import cubic_step, resampled
from .first_order import quasi_newton, sgd
from .objective import Evaluation, Likelihood, Objective
from .solution import (
    DECREMENT,
    WITHIN,
    Callback,
    Solution,
    Spectrum,
    Status,
    Step,
    boundary_status,
    bounds,
    flat_status,
    free_mask,
    judge,
    scaled_model,
)

_RADIUS, _MAX_RADIUS, _MIN_RADIUS = 2.0, 100.0, 1e-9
_MANY_ZEROS = 0.2  # share of zero weights above which each member gets rows of its own
_LARGER = 8  # times as many rows of the next part of them
_MOST_COPIED = 2**19  # rows of a part, which is a copy of them
NEAR = 1.0  # standard errors to a maximum of a part of the rows
_AIM = 1e-8  # what Newton's step must come to: the rest is for what the quadratic model leaves out
_CHANGE = 5e-8  # share of its size by which the Hessian may change in a last step
_MANY = 2**15  # rows for which another evaluation costs more than digits of the Hessian are worth
_BENT = 1e-6  # the share there
REFIT = {"aim": WITHIN, "bent": 1e-2}  # options of refits of which only the parameters are needed

Method = Literal["newton", "bfgs", "lbfgs", "sgd"]


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimiser, and what it can do."""

    name: str
    options: frozenset[str]  # keywords of ``fit`` besides maxiter and callback
    search: Callable[..., Solution]  # (objective, start, free=..., **options)
    batched: bool = False  # climbs many problems at once, and every top of a profile
    at_maximum: bool = True  # its solution is a maximum, where there are standard errors
    free_only: bool = False  # moves sigma and rho both, from a start of its own if need be
    penalised: bool = True  # takes ``penalty``; others have a weight decay
    in_partitions: bool = True  # needs sums over the rows only


def _by_newton(
    objective: Likelihood, start: np.ndarray, *, free: np.ndarray | None = None, **options: Any
) -> Solution:
    return maximize_batch(objective, np.asarray(start)[None], free=free, **options)[0]


def _by_quasi_newton(method: str) -> Callable[..., Solution]:
    def found(
        objective: Likelihood, start: np.ndarray, *, free: np.ndarray | None = None, **options: Any
    ) -> Solution:
        def search(searched: Likelihood, starts: np.ndarray) -> list[Solution]:
            return [quasi_newton(searched, starts[0], method=method, free=free, **options)]

        return _in_easy_units(search, objective, np.asarray(start, dtype=float)[None], free)[0]

    return found


def _by_descent(
    objective: Likelihood,
    start: np.ndarray | None,
    *,
    free: np.ndarray | None = None,
    **options: Any,
) -> Solution:
    if free is not None and not np.all(free):
        raise ValueError("method='sgd' moves all parameters; use 'newton' to fix sigma or rho")
    if not isinstance(objective, Objective):
        raise ValueError("method='sgd' draws batches of rows, which must be in memory")
    return sgd(objective, start, **options)


OPTIMIZERS: dict[str, Optimizer] = {
    each.name: each
    for each in (
        Optimizer(
            "newton", frozenset({"gtol", "n_starts", "dependence"}), _by_newton, batched=True
        ),
        Optimizer("bfgs", frozenset({"gtol"}), _by_quasi_newton("bfgs")),
        Optimizer("lbfgs", frozenset({"gtol"}), _by_quasi_newton("lbfgs")),
        Optimizer(
            "sgd",
            frozenset({"lr", "weight_decay", "tol", "batch_size", "rng", "redraw"}),
            _by_descent,
            at_maximum=False,
            free_only=True,
            penalised=False,
            in_partitions=False,
        ),
    )
}


def as_optimizer(method: Any) -> Optimizer:
    """Return the optimiser of this name."""
    if not isinstance(method, str) or method not in OPTIMIZERS:
        raise ValueError(f"method={method!r} is unknown; use one of {list(OPTIMIZERS)}")
    return OPTIMIZERS[method]


def check_options(
    method: str,
    options: dict[str, Any],
    penalty: float,
    maxiter: int | None = None,
    callback: Any = None,
) -> None:
    """Refuse what the method does not take, misspelled keywords among them."""
    optimizer = as_optimizer(method)
    unknown = set(options) - optimizer.options
    if unknown:
        raise TypeError(
            f"fit got unexpected option(s) {sorted(unknown)}; method={method!r} takes "
            f"{sorted(optimizer.options)}"
        )
    if maxiter is not None and not (is_integer(maxiter) and maxiter > 0):
        raise ValueError(f"maxiter={maxiter!r} must be a positive integer")
    n_starts = options.get("n_starts", 2)
    if not (is_integer(n_starts) and n_starts >= 2):
        raise ValueError(f"n_starts={n_starts!r} must be an integer of at least 2")
    if not (is_number(penalty) and 0 <= penalty < np.inf):
        raise ValueError(f"penalty={penalty!r} must be a nonnegative number")
    gtol = options.get("gtol")
    if gtol is not None and not (is_number(gtol) and 0 < gtol < np.inf):
        raise ValueError(f"gtol={gtol!r} must be a positive number")
    if callback is not None and not callable(callback):
        raise ValueError(f"callback={callback!r} must be a function of a Step")
    if penalty and not optimizer.penalised:
        raise ValueError(f"penalty={penalty!r}: method={method!r} takes weight_decay instead")


def stops_early(method: Any) -> bool:
    """Whether this is the name of an optimiser that stops before a maximum."""
    return isinstance(method, str) and method in OPTIMIZERS and not OPTIMIZERS[method].at_maximum


@one_thread()
def maximize(
    objective: Likelihood,
    start: np.ndarray | None,
    *,
    method: Method = "newton",
    free: np.ndarray | None = None,
    **options: Any,
) -> Solution:
    """Maximise the objective by the named method.

    Parameters
    ----------
    start : ndarray
        (P,) start values; ``None`` only for "sgd", which has its own.
    method : {"newton", "bfgs", "lbfgs", "sgd"}
    free : ndarray of bool, optional
        (P,) False where a parameter stays at its start value.
    **options
        Of :func:`newton_batch`, :func:`quasi_newton` or :func:`sgd`.

    Examples
    --------
    >>> import numpy as np
    >>> from statsmodels_mnar.kernel.forms import FreeForm
    >>> from statsmodels_mnar.kernel.rows import Rows
    >>> from statsmodels_mnar.optimize.objective import Objective
    >>> X = np.ones((4, 1))
    >>> y, s = np.array([1.0, 1.0, 0.0, np.nan]), np.array([1.0, 1.0, 1.0, 0.0])
    >>> start = np.array([0.0, 0.0, 0.0, 0.0])  # sigma = 1 and rho = 0, both fixed
    >>> free = np.array([True, True, False, False])
    >>> found = maximize(Objective(Rows.build(X, X, y, s), FreeForm()), start, free=free)
    >>> found.status.name, found.params.round(3).tolist()
    ('CONVERGED', [0.835, 0.674, 0.0, 0.0])
    """
    optimizer = as_optimizer(method)
    if optimizer.at_maximum:
        if start is None:
            raise ValueError(f"start is needed for method={method!r}")
        _refuse_redraw(objective, method)
    return optimizer.search(objective, start, free=free, **options)


@one_thread()
def maximize_batch(
    objective: Likelihood,
    starts: np.ndarray,
    *,
    free: np.ndarray | None = None,
    weights: Tensor | None = None,
    **options: Any,
) -> list[Solution]:
    """Newton from every row of ``starts``; see :func:`newton_batch` for the parameters."""
    _refuse_redraw(objective, "newton")

    def search(searched: Likelihood, starts: np.ndarray) -> list[Solution]:
        return newton_batch(searched, starts, free=free, weights=weights, **options)

    return _in_easy_units(search, objective, starts, free, weights)


def maximize_many(
    objective: Likelihood,
    starts: np.ndarray,
    *,
    free: np.ndarray | None = None,
    weights: Tensor | None = None,
    chunk: int | None = None,
    **options: Any,
) -> Iterator[list[Solution]]:
    """:func:`maximize_batch` for any number of members, some at a time.

    Parameters
    ----------
    starts : ndarray
        (B, P), or (1, P) for all of them.
    chunk : int, optional
        Members of one batch; by default as many as keep the work arrays small.

    Yields
    ------
    list of Solution
        Of the next members, in order; a caller can show progress, or stop.
    """
    count = len(starts) if weights is None else len(weights)
    count = objective.n_members if objective.batched else count
    starts = np.broadcast_to(starts, (count, objective.n_params)).copy()
    size = chunk or objective.members_at_once(starts[0])
    for first in range(0, count, size):
        cut = slice(first, min(first + size, count))
        part = objective
        if objective.batched:
            part = objective.members(torch.arange(cut.start, cut.stop, device=objective.device))
        yield maximize_batch(
            part,
            starts[cut],
            free=free if free is None or np.ndim(free) == 1 else np.asarray(free)[cut],
            weights=None if weights is None else weights[cut],
            **options,
        )


def parts(objective: Any, first: int = 8_192) -> Iterator[Any]:
    """The objective on growing parts of the rows, from ``first`` on, while there are many more."""
    n = objective.rows.n
    most = _MOST_COPIED if isinstance(objective.rows, Rows) else first
    while 2 * first < n and first <= most:
        yield objective.sample(first)
        first *= _LARGER


def _in_easy_units(
    search: Callable[[Likelihood, np.ndarray], list[Solution]],
    objective: Likelihood,
    starts: np.ndarray,
    free: np.ndarray | None,
    weights: Tensor | None = None,
) -> list[Solution]:
    """Search with the outcome coefficients in units of the total error's standard deviation."""
    form, p = objective.form, objective.p
    if not isinstance(form, FreeForm) or not has_easy_units(objective, free):
        return search(objective, starts)
    starts = objective.as_theta(starts).cpu().numpy().copy()
    starts[:, :p] /= _outcome_scales(starts)
    found = search(objective.with_form(replace(form, standardized=True)), starts)
    params = np.stack([solution.params for solution in found])
    params[:, :p] *= _outcome_scales(params)
    at = objective.evaluate(params, 2, weights)
    assert at.hessian is not None
    ends = zip(found, params, at.value.tolist(), at.hessian.cpu().numpy(), strict=True)
    return [
        replace(solution, params=own, value=value, hessian=hessian)
        for solution, own, value, hessian in ends
    ]


def has_easy_units(objective: Likelihood, free: np.ndarray | None) -> bool:
    """Whether outcome coefficients are searched in units of the total error's standard deviation.

    Not where sigma is absent or fixed, or where a coefficient is fixed or penalised in its own
    units.
    """
    searched = np.ones(objective.n_params, dtype=bool) if free is None else np.asarray(free)
    sigma_and_coef = searched[..., : objective.p].all() and searched[..., -2].any()
    return isinstance(objective.form, FreeForm) and not objective.penalised and bool(sigma_and_coef)


def _outcome_scales(theta: np.ndarray) -> np.ndarray:
    """(B, 1) for parameters of the free form, (B, P)."""
    return np.array([[outcome_scale(sigma)] for sigma in np.exp(theta[:, -2])])


def _refuse_redraw(objective: Likelihood, method: str) -> None:
    simulation = objective.form.simulation
    if simulation is not None and simulation.redraw:
        raise ValueError(
            f"redraw=True changes the likelihood at each step, which method={method!r} cannot "
            "follow; use method='sgd' or redraw=False"
        )


# -- Newton with the exact Hessian, for many problems at once --------------------------------------


def newton_batch(
    objective: Likelihood,
    starts: np.ndarray,
    *,
    free: np.ndarray | None = None,
    weights: Tensor | None = None,
    maxiter: int = 100,
    gtol: float = 1e-8,
    aim: float = _AIM,
    bent: float | None = None,
    third: Tensor | None = None,
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
    bent : float, optional
        Share of its size by which the Hessian may change in the last step, after which it is not
        computed again. By default 1e-6 of many rows and 5e-8 of others.
    third : Tensor, optional
        :func:`~statsmodels_mnar.optimize.batches.third_derivatives` at the start, if all members
        begin at the same. They improve the first step.

    Notes
    -----
    The length of the next step m is measured by the information I: d = sqrt(m'Im). No parameter
    moves by more than d of its standard errors (Cauchy-Schwarz), whatever the units of the columns
    and however flat the top. What the package promises of a converged fit is ``WITHIN``, a hundred
    times as much: two searches of one likelihood, whose paths part by rounding, end that near to
    its maximum and so to each other. Where rounding of the score alone makes a longer step (see
    :func:`judge`), or d is no longer halved by one, the search ends as near as it can come. The
    last step is taken without another evaluation: the value is what the quadratic model makes of
    it, and the Hessian that one step before. Newton's steps square the distance: from d to q d,
    where q = (d/e)^2 if d came after e. The Hessian changes by about as large a share in that step.
    So the search also ends where q is below ``bent`` and both d and the score, times q, are small
    enough.
    """
    theta = objective.as_theta(starts)
    if not torch.isfinite(theta).all():
        raise ValueError("start has values that are not finite")
    mask = free_mask(free, theta)
    # From one point the rows' terms are the same for all members, whatever their weights.
    one_start = weights is not None and np.array_equal(starts, np.tile(starts[0], (len(starts), 1)))
    search = _Search(objective, theta, mask, weights, one_start=one_start)
    copied = isinstance(objective, Objective) and objective.rows.apart is None
    zeros = 0.0 if weights is None else float((weights == 0.0).double().mean())
    if copied and zeros > _MANY_ZEROS:
        search.leave_out_zeros()
    for iteration in range(maxiter + 1):
        search.finish(iteration, gtol, aim, bent, last=iteration == maxiter)
        if callback is not None:
            callback(search.latest)
        if not search.member:
            break
        search.step(third if iteration == 0 else None)
    return [search.done[m] for m in range(len(theta))]


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
        self.before = self.distance  # of the latest evaluation, a maximum near or not
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

    def finish(
        self, iteration: int, gtol: float, aim: float, bent: float | None, *, last: bool
    ) -> None:
        """Record the iteration, and take out the members that have ended."""
        self.score, self.information, side = self._model()
        information, total = self.information, self.objective.totals(self.weights)
        self.spectrum = spectrum = Spectrum.of(self.score, information)
        slack = max(1.0, aim**2 / DECREMENT)
        standing = judge(self.score, information, self.at.value, total, gtol, slack, spectrum)
        maximum, distance = standing.maximum, standing.distance
        exhausted = (distance <= standing.rounding) | (distance > 0.5 * self.distance)
        # Newton's steps square the distance, once they are short: the step after the next is known.
        # The Hessian changes by about the distance over the root of the rows.
        short = distance <= (_CHANGE * total.sqrt()).clamp(min=WITHIN)
        squared = short & (distance**3 <= aim * self.before**2)
        shrinks = torch.where(self.before < torch.inf, (distance / self.before) ** 2, 1.0)
        norm = standing.norm * shrinks
        foreseen = standing.curved & (norm <= gtol) & (distance * shrinks <= aim)
        foreseen &= (shrinks <= _BENT) & (total >= _MANY) if bent is None else shrinks <= bent
        norm = torch.where(foreseen, norm, standing.norm)
        settled = foreseen | (maximum & ((distance <= aim) | squared | exhausted))
        refined = foreseen | (settled & (squared | (distance <= max(WITHIN, aim))))
        ending = torch.where(refined[:, None], self._moved(standing.move), self.theta)
        ended_at = self.at.value + torch.where(refined, 0.5 * distance**2, 0.0)
        self.distance = torch.where(maximum, distance, torch.inf)
        self.before = torch.where(standing.curved, distance, torch.inf)
        names, n_coef = self.objective.form.names, self.objective.n_coef
        values, norms, totals = ended_at.tolist(), norm.tolist(), total.expand_as(norm).tolist()
        finite, at_end = torch.isfinite(self.at.value).tolist(), settled.tolist()
        flat, stalled = standing.flat.tolist(), (self.radius < _MIN_RADIUS).tolist()
        sides = side[:, n_coef:].cpu().numpy()
        ends: dict[int, Status] = {}
        for i, m in enumerate(self.member):
            self.latest = Step(iteration, values[i], norms[i])
            self.traces[m].append(self.latest)
            if not finite[i]:
                ends[i] = Status.NONFINITE
            elif at_end[i]:
                ends[i] = boundary_status(names, sides[i]) or Status.CONVERGED
            elif flat[i]:
                ends[i] = flat_status(information[i], n_coef, totals[i])
            elif stalled[i]:
                ends[i] = Status.STALLED
            elif last:
                ends[i] = Status.MAXITER
        if ends:
            self._end(ends, ending, values, norms, iteration)
            self._keep([i for i in range(len(self.member)) if i not in ends])

    def step(self, third: Tensor | None = None) -> None:
        """One trust-region step of every member, by a cubic model where there is one."""
        score, information = self.score, self.information
        move = trust_region_step(score, information, self.radius, self.spectrum)
        if third is not None:
            total = self.objective.totals(self.weights)
            move, better = cubic_step(score, information, total, third, move, self.radius)
            # What is left of a better step is not what the next one of Newton's is judged by.
            self.before = torch.where(better, torch.inf, self.before)
        trial = self._moved(move)
        move = (trial - self.theta) * self.scale
        bent = (information @ move[..., None])[..., 0]
        promised = (move * (score - 0.5 * bent)).sum(-1)
        new = self.objective.evaluate(trial, 2, self.weights)
        # Rounding of a sum of n terms, nodes that change with the members' parameters, and rounding
        # of indices whose parts cancel (beside a large offset): below that the ratio of gains says
        # nothing.
        indices = 2.0**-52 * self.objective.totals(self.weights) * self._sizes()
        noise = 1e-12 * self.at.value.abs().clamp(min=1.0) + indices
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

    def _sizes(self) -> Tensor:
        """Sum of the sizes of the indices' terms, for each member."""
        coef = slice(None, self.objective.n_coef)
        return (self.theta * self.scale)[:, coef].abs().sum(-1)

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
        self.distance, self.before = self.distance[keep], self.before[keep]
        self.at = self.at[keep]
        self.score, self.information = self.score[keep], self.information[keep]
        self.spectrum = None if self.spectrum is None else self.spectrum.members(keep)
        self.weights = None if self.weights is None else self.weights[keep]
        if self.objective.batched:
            self.objective = self.objective.members(keep)
            self.scale = torch.as_tensor(self.objective.scale, device=self.theta.device)

    def _end(
        self,
        ends: dict[int, Status],
        theta: Tensor,
        values: list[float],
        norms: list[float],
        n_iter: int,
    ) -> None:
        """Record the solutions of members that have ended, by their places."""
        assert self.at.hessian is not None
        assert self.at.score is not None
        places = list(ends)
        at = (theta, self.at.score, self.at.hessian)
        params, scores, hessians = (v[places].cpu().numpy() for v in at)
        apart = [0.0] * len(values) if self.at.apart is None else self.at.apart.tolist()
        for own, (i, status) in enumerate(ends.items()):
            m = self.member[i]
            self.done[m] = Solution(
                params=params[own].copy(),
                value=values[i],
                score_norm=norms[i],
                hessian=hessians[own].copy(),
                score=scores[own].copy(),
                n_iter=n_iter,
                trace=tuple(self.traces[m]),
                status=status,
                apart=apart[i],
            )


def _where(accept: Tensor, new: Evaluation, old: Evaluation) -> Evaluation:
    assert new.score is not None
    assert old.score is not None
    assert new.hessian is not None
    assert old.hessian is not None
    apart = None
    if new.apart is not None and old.apart is not None:
        apart = torch.where(accept, new.apart, old.apart)
    return Evaluation(
        torch.where(accept, new.value, old.value),
        torch.where(accept[:, None], new.score, old.score),
        torch.where(accept[:, None, None], new.hessian, old.hessian),
        apart,
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
