"""One door to the optimisers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from .forms import FreeForm, outcome_scale
from .newton import newton_batch
from .objective import Objective
from .quasi_newton import quasi_newton
from .sgd import sgd
from .solution import Solution, Status

Method = Literal["newton", "bfgs", "lbfgs", "sgd"]


def maximize(
    objective: Objective,
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
    """
    if method == "sgd":
        if free is not None and not np.all(free):
            raise ValueError("method='sgd' moves all parameters; use 'newton' to fix sigma or rho")
        return sgd(objective, start, **options)
    if method not in get_args(Method):
        raise ValueError(f"method={method!r} is unknown; use one of {get_args(Method)}")
    if start is None:
        raise ValueError(f"start is needed for method={method!r}")
    if method == "newton":
        return maximize_batch(objective, np.asarray(start)[None], free=free, **options)[0]
    return quasi_newton(objective, start, method=method, free=free, **options)


def maximize_batch(objective: Objective, starts: np.ndarray, **options: Any) -> list[Solution]:
    """Newton from every row of ``starts``, in the coordinates in which the search is easiest."""
    form = objective.form
    if not isinstance(form, FreeForm) or objective.penalty:
        return newton_batch(objective, starts, **options)
    searched = objective.with_form(replace(form, standardized=True))
    p = objective.p
    starts = np.array(starts, dtype=float)
    starts[:, :p] /= np.array([[outcome_scale(np.exp(row[-2]))] for row in starts])
    solutions = []
    for found in newton_batch(searched, starts, **options):
        params = found.params.copy()
        params[:p] *= outcome_scale(np.exp(params[-2]))
        hessian = found.hessian
        if found.status is not Status.NONFINITE:
            at = objective.evaluate(params, 2)
            assert at.hessian is not None
            hessian = at.hessian[0].cpu().numpy()
        solutions.append(replace(found, params=params, hessian=hessian))
    return solutions
