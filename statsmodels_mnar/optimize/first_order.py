"""Optimisers of first order: scipy's BFGS, and the paper's early-stopped gradient descent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from scipy import optimize
from torch import Tensor

from ..kernel.forms import FreeForm
from ..kernel.threads import one_thread
from .objective import Likelihood, Objective
from .solution import (
    Callback,
    Solution,
    Status,
    Step,
    boundary_status,
    bounds,
    flat_status,
    free_mask,
    judge,
    scaled_model,
)


def quasi_newton(
    objective: Likelihood,
    start: np.ndarray,
    *,
    method: str = "bfgs",
    free: np.ndarray | None = None,
    maxiter: int = 1000,
    gtol: float = 1e-8,
    callback: Callback | None = None,
) -> Solution:
    """Maximise the objective with scipy's "bfgs" or "lbfgs", in unit-size columns.

    Dependence parameters are kept within the form's bounds: by L-BFGS-B itself, and under BFGS by
    evaluating at the bound.
    """
    scipy_name = {"bfgs": "BFGS", "lbfgs": "L-BFGS-B"}.get(method)
    if scipy_name is None:
        raise ValueError(f"method={method!r} is unknown; use 'bfgs' or 'lbfgs'")
    start = np.array(start, dtype=float)
    if start.shape != (objective.n_params,) or not np.isfinite(start).all():
        raise ValueError(f"start must be {objective.n_params} finite numbers")
    mask = free_mask(free, objective.as_theta(start))
    moving = mask[0].cpu().numpy()
    lower, upper = (bound.cpu().numpy() for bound in bounds(objective))
    scale, total = objective.scale, objective.total_weight
    trace: list[Step] = []

    def params(x: np.ndarray) -> np.ndarray:
        theta = start.copy()
        theta[moving] = np.clip(x / scale[moving], lower[moving], upper[moving])
        return theta

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        theta = params(x)
        at = objective.evaluate(theta, 1)
        assert at.score is not None
        slope = (-at.score[0].cpu().numpy() / scale)[moving] / total
        beyond = x / scale[moving] != theta[moving]  # a clipped coordinate has no effect
        slope[beyond & ((theta <= lower) | (theta >= upper))[moving]] = 0.0
        return -float(at.value[0]) / total, slope

    latest: dict[bytes, tuple[float, np.ndarray]] = {}

    def remembered(x: np.ndarray) -> tuple[float, np.ndarray]:
        """The callback comes after the loss at the same point."""
        if x.tobytes() not in latest:
            latest.clear()
            latest[x.tobytes()] = loss(x)
        return latest[x.tobytes()]

    def record(x: np.ndarray) -> None:
        value, slope = remembered(x)
        step = Step(len(trace) + 1, -value * total, float(np.abs(slope).max(initial=0.0)))
        trace.append(step)
        if callback is not None:
            callback(step)

    options: dict[str, float] = {"maxiter": maxiter, "gtol": gtol}
    limits = None
    if method == "lbfgs":
        limits = optimize.Bounds((lower * scale)[moving], (upper * scale)[moving])
        options |= {"ftol": 1e-16, "maxcor": 20}
    result = optimize.minimize(
        remembered, (start * scale)[moving], jac=True, method=scipy_name, bounds=limits,
        callback=record, options=options,
    )  # fmt: skip
    theta = params(result.x)
    at = objective.evaluate(theta, 2)
    assert at.hessian is not None
    score, information, side = scaled_model(objective, objective.as_theta(theta), mask, at)
    standing = judge(score, information, at.value, total, gtol, slack=10.0)
    status = Status.MAXITER if result.nit >= maxiter else Status.STALLED
    if not torch.isfinite(at.value[0]):
        status = Status.NONFINITE
    elif standing.maximum[0]:
        held = side[0, objective.n_coef :].cpu().numpy()
        status = boundary_status(objective.form.names, held) or Status.CONVERGED
    elif standing.flat[0]:
        status = flat_status(information[0], objective.n_coef, float(total))
    return Solution(
        params=theta,
        value=float(at.value[0]),
        score_norm=float(standing.norm[0]),
        hessian=at.hessian[0].cpu().numpy(),
        n_iter=int(result.nit),
        trace=tuple(trace),
        status=status,
    )


# -- the paper's optimiser: gradient descent on the mean negative log-likelihood -------------------


_SIGMA_MIN, _SIGMA_MAX, _RHO_MAX = 1e-6, 50.0, 0.9999
_START = 0.01  # of sigma and rho, the paper's appendix B


def paper_start(n_coef: int) -> np.ndarray:
    """Zero coefficients and sigma = rho = 0.01, as (beta, gamma, lnsigma, athrho)."""
    return np.concatenate([np.zeros(n_coef), [np.log(_START), np.arctanh(_START)]])


@one_thread()
def sgd(
    objective: Objective,
    start: np.ndarray | None = None,
    *,
    lr: float = 0.01,
    weight_decay: float = 1e-4,
    tol: float = 5e-4,
    maxiter: int = 10_000,
    batch_size: int | None = None,
    rng: int | np.random.Generator = 0,
    callback: Callback | None = None,
) -> Solution:
    """Descend in (beta, gamma, sigma, rho) until the loss changes by less than ``tol``.

    Parameters
    ----------
    objective : Objective
        Of :class:`FreeForm` and without a penalty: ``weight_decay`` takes its place.
    start : ndarray, optional
        All parameters of the form (lnsigma, athrho last); by default the paper's start.
    lr, weight_decay : float
        Step length, and the ridge on beta and gamma.
    tol : float
        Stop when the loss changes by less than ``tol`` times its previous size; the paper takes
        2.5e-4 (Adult) and 5e-4 (German, Drug).
    batch_size : int, optional
        Rows of a step; all of them by default, as in the paper. With mini-batches the loss compared
        is the mean over an epoch.
    rng : int or Generator
        Order of the mini-batches.

    Notes
    -----
    The steps are taken in the user's units of the columns, on purpose: early-stopped descent is not
    invariant to them. Where the integration is a simulation with ``redraw=True`` every step has new
    draws.
    """
    if not isinstance(objective.form, FreeForm):
        raise ValueError("method='sgd' is the paper's optimiser and needs sigma and rho free")
    for name, number in (("lr", lr), ("tol", tol)):
        if not (np.isfinite(number) and number > 0):
            raise ValueError(f"{name}={number!r} must be positive")
    if not (np.isfinite(weight_decay) and weight_decay >= 0):
        raise ValueError(f"weight_decay={weight_decay!r} must not be negative")
    if batch_size is not None and not 1 <= batch_size <= objective.rows.n:
        raise ValueError(f"batch_size={batch_size!r} must lie between 1 and {objective.rows.n}")

    if objective.penalty:
        raise ValueError(f"penalty={objective.penalty} is not used by 'sgd'; pass weight_decay")

    theta = paper_start(objective.n_coef) if start is None else np.asarray(start, dtype=float)
    natural = _to_natural(objective.as_theta(theta)[0])
    generator = np.random.default_rng(rng)
    trace: list[Step] = []
    previous = np.inf
    status = Status.MAXITER
    step = 0
    for iteration in range(maxiter):
        before, losses = natural, []
        for batch in _batches(objective, batch_size, generator):
            at = _redrawn(batch, step).evaluate(_to_engine(natural), 1)
            assert at.score is not None
            slope = -_natural_score(at.score[0], natural) / batch.total_weight
            slope[: objective.n_coef] += weight_decay * natural[: objective.n_coef]
            losses.append(-float(at.value[0]) / batch.total_weight)
            if not np.isfinite(losses[-1]):
                break
            natural = natural - lr * slope
            natural[-2] = natural[-2].clamp(min=_SIGMA_MIN, max=_SIGMA_MAX)
            natural[-1] = natural[-1].clamp(min=-_RHO_MAX, max=_RHO_MAX)
            step += 1
        loss = float(np.mean(losses))
        norm = float(slope.abs().max())
        trace.append(Step(iteration, -loss * objective.total_weight, norm))
        if callback is not None:
            callback(trace[-1])
        if not np.isfinite(loss):
            status = Status.NONFINITE
            break
        if abs(previous - loss) < tol * abs(previous):
            status = Status.STOPPED
            natural = before if batch_size is None else natural  # where the last loss was taken
            break
        previous = loss
    params = _to_engine(natural)
    final = _redrawn(objective, step).evaluate(params, 2)
    assert final.score is not None
    assert final.hessian is not None
    scaled = final.score[0].cpu().numpy() / objective.scale
    return Solution(
        params=params.cpu().numpy(),
        value=float(final.value[0]),
        score_norm=float(np.abs(scaled).max()) / objective.total_weight,
        hessian=final.hessian[0].cpu().numpy(),
        n_iter=len(trace),
        trace=tuple(trace),
        status=status,
    )


def _redrawn(objective: Objective, step: int) -> Objective:
    simulation = objective.form.simulation
    if simulation is None or not simulation.redraw:
        return objective
    assert isinstance(objective.form, FreeForm)
    return objective.with_form(replace(objective.form, integration=simulation.again(step)))


def _batches(
    objective: Objective, size: int | None, rng: np.random.Generator
) -> Iterator[Objective]:
    """The objectives of an epoch's steps: of all rows, or of each mini-batch that has weight."""
    if size is None:
        yield objective
        return
    n = objective.rows.n
    shuffled = rng.permutation(n)
    for first in range(0, n, size):
        batch = objective.with_rows(objective.rows.take(shuffled[first : first + size]))
        if batch.total_weight > 0:
            yield batch


def _to_natural(theta: Tensor) -> Tensor:
    """(..., lnsigma, athrho) -> (..., sigma, rho)."""
    return torch.cat([theta[:-2], theta[-2:-1].exp(), theta[-1:].tanh()])


def _to_engine(natural: Tensor) -> Tensor:
    return torch.cat([natural[:-2], natural[-2:-1].log(), natural[-1:].atanh()])


def _natural_score(score: Tensor, natural: Tensor) -> Tensor:
    """Score in (..., sigma, rho): d lnsigma = d sigma/sigma, d athrho = d rho/(1 - rho^2)."""
    sigma, rho = natural[-2:-1], natural[-1:]
    return torch.cat([score[:-2], score[-2:-1] / sigma, score[-1:] / (1.0 - rho * rho)])
