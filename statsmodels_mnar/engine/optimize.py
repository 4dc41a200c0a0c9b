"""One door to the optimisers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
from torch import Tensor

from .forms import FreeForm, outcome_scale
from .newton import newton_batch
from .objective import Objective
from .quasi_newton import quasi_newton
from .sgd import sgd
from .solution import Solution

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

    Examples
    --------
    >>> import numpy as np
    >>> from statsmodels_mnar.engine import FreeForm, Objective, Rows
    >>> X = np.ones((4, 1))
    >>> y, s = np.array([1.0, 1.0, 0.0, np.nan]), np.array([1.0, 1.0, 1.0, 0.0])
    >>> start = np.array([0.0, 0.0, 0.0, 0.0])  # sigma = 1 and rho = 0, both fixed
    >>> free = np.array([True, True, False, False])
    >>> found = maximize(Objective(Rows.build(X, X, y, s), FreeForm()), start, free=free)
    >>> found.status.name, found.params.round(3).tolist()
    ('CONVERGED', [0.835, 0.674, 0.0, 0.0])
    """
    if method == "sgd":
        if free is not None and not np.all(free):
            raise ValueError("method='sgd' moves all parameters; use 'newton' to fix sigma or rho")
        return sgd(objective, start, **options)
    if method not in get_args(Method):
        raise ValueError(f"method={method!r} is unknown; use one of {get_args(Method)}")
    if start is None:
        raise ValueError(f"start is needed for method={method!r}")
    _refuse_redraw(objective, method)
    if method == "newton":
        return maximize_batch(objective, np.asarray(start)[None], free=free, **options)[0]

    def search(searched: Objective, starts: np.ndarray) -> list[Solution]:
        return [quasi_newton(searched, starts[0], method=method, free=free, **options)]

    return _in_easy_units(search, objective, np.asarray(start, dtype=float)[None], free)[0]


def maximize_batch(
    objective: Objective,
    starts: np.ndarray,
    *,
    free: np.ndarray | None = None,
    weights: Tensor | None = None,
    **options: Any,
) -> list[Solution]:
    """Newton from every row of ``starts``; see :func:`newton_batch` for the parameters."""
    _refuse_redraw(objective, "newton")

    def search(searched: Objective, starts: np.ndarray) -> list[Solution]:
        return newton_batch(searched, starts, free=free, weights=weights, **options)

    return _in_easy_units(search, objective, starts, free, weights)


def _in_easy_units(
    search: Callable[[Objective, np.ndarray], list[Solution]],
    objective: Objective,
    starts: np.ndarray,
    free: np.ndarray | None,
    weights: Tensor | None = None,
) -> list[Solution]:
    """Search with the outcome coefficients in units of the total error's standard deviation.

    Not where there is no sigma, or where a coefficient is fixed or penalised in its own units.
    """
    form, p = objective.form, objective.p
    own_units = bool(objective.penalty) or not (free is None or np.all(np.asarray(free)[..., :p]))
    if not isinstance(form, FreeForm) or own_units:
        return search(objective, starts)
    starts = objective.as_theta(starts).cpu().numpy().copy()
    starts[:, :p] /= _outcome_scales(starts)
    found = search(objective.with_form(replace(form, standardized=True)), starts)
    params = np.stack([solution.params for solution in found])
    params[:, :p] *= _outcome_scales(params)
    at = objective.evaluate(params, 2, weights)
    assert at.hessian is not None
    return [
        replace(solution, params=own, hessian=hessian)
        for solution, own, hessian in zip(found, params, at.hessian.cpu().numpy(), strict=True)
    ]


def _outcome_scales(theta: np.ndarray) -> np.ndarray:
    """(B, 1) for parameters of the free form, (B, P)."""
    return np.array([[outcome_scale(sigma)] for sigma in np.exp(theta[:, -2])])


def _refuse_redraw(objective: Objective, method: str) -> None:
    simulation = objective.form.simulation
    if simulation is not None and simulation.redraw:
        raise ValueError(
            f"redraw=True changes the likelihood at each step, which method={method!r} cannot "
            "follow; use method='sgd' or redraw=False"
        )
