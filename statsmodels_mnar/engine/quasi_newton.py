"""BFGS and L-BFGS through scipy, with the engine's score."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from .objective import Objective
from .solution import Callback, Solution, Status, Step, boundary_status


def quasi_newton(
    objective: Objective,
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
    moving = np.ones(start.size, dtype=bool) if free is None else np.asarray(free, dtype=bool)
    infinite = np.full(objective.n_coef, np.inf)
    lower = np.concatenate([-infinite, objective.form.lower])
    upper = np.concatenate([infinite, objective.form.upper])
    scale, total = objective.scale, objective.total_weight
    trace: list[Step] = []

    def params(x: np.ndarray) -> np.ndarray:
        theta = start.copy()
        theta[moving] = np.clip(x / scale[moving], lower[moving], upper[moving])
        return theta

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        at = objective.evaluate(params(x), 1)
        assert at.score is not None
        score = at.score[0].cpu().numpy() / scale
        return -float(at.value[0]) / total, -score[moving] / total

    def record(x: np.ndarray) -> None:
        value, slope = loss(x)
        step = Step(len(trace) + 1, -value * total, float(np.abs(slope).max(initial=0.0)))
        trace.append(step)
        if callback is not None:
            callback(step)

    bounds = None
    if method == "lbfgs":
        bounds = list(zip(lower[moving] * scale[moving], upper[moving] * scale[moving], strict=True))
    options = {"maxiter": maxiter, "gtol": gtol}
    if method == "lbfgs":
        options |= {"ftol": 1e-16, "maxcor": 20}
    result = optimize.minimize(
        loss, (start * scale)[moving], jac=True, method=scipy_name, bounds=bounds,
        callback=record, options=options,
    )  # fmt: skip
    theta = params(result.x)
    at = objective.evaluate(theta, 2)
    assert at.score is not None and at.hessian is not None
    score = at.score[0].cpu().numpy() / scale
    side = np.where(moving & (theta <= lower) & (score < 0), -1, 0)
    side += np.where(moving & (theta >= upper) & (score > 0), 1, 0)
    inner = moving & (side == 0)
    norm = float(np.abs(score[inner]).max(initial=0.0)) / total
    status = boundary_status(objective.form.names, side[objective.n_coef :])
    if norm > 10 * gtol:
        status = Status.MAXITER if result.nit >= maxiter else Status.STALLED
    elif status is None:
        status = Status.CONVERGED
    return Solution(
        params=theta,
        value=float(at.value[0]),
        score_norm=norm,
        hessian=at.hessian[0].cpu().numpy(),
        n_iter=int(result.nit),
        trace=tuple(trace),
        status=status,
    )
