"""BFGS and L-BFGS through scipy, with the engine's score."""

from __future__ import annotations

import numpy as np
import torch
from scipy import optimize

from .likelihood import Likelihood
from .newton import bounds, flat_status, free_mask, judge, scaled_model
from .solution import Callback, Solution, Status, Step, boundary_status


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
