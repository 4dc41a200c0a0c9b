"""One door to the optimisers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from .forms import FreeForm, outcome_scale
from .likelihood import Likelihood
from .newton import newton_batch
from .objective import Objective
from .quasi_newton import quasi_newton
from .sgd import sgd
from .solution import Solution
from .threads import one_thread

Method = Literal["newton", "bfgs", "lbfgs", "sgd"]


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
        if not isinstance(objective, Objective):
            raise ValueError("method='sgd' draws batches of rows, which must be in memory")
        return sgd(objective, start, **options)
    if method not in get_args(Method):
        raise ValueError(f"method={method!r} is unknown; use one of {get_args(Method)}")
    if start is None:
        raise ValueError(f"start is needed for method={method!r}")
    _refuse_redraw(objective, method)
    if method == "newton":
        return maximize_batch(objective, np.asarray(start)[None], free=free, **options)[0]

    def search(searched: Likelihood, starts: np.ndarray) -> list[Solution]:
        return [quasi_newton(searched, starts[0], method=method, free=free, **options)]

    return _in_easy_units(search, objective, np.asarray(start, dtype=float)[None], free)[0]


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


def _in_easy_units(
    search: Callable[[Likelihood, np.ndarray], list[Solution]],
    objective: Likelihood,
    starts: np.ndarray,
    free: np.ndarray | None,
    weights: Tensor | None = None,
) -> list[Solution]:
    """Search with the outcome coefficients in units of the total error's standard deviation.

    Not where sigma is absent or fixed, or where a coefficient is fixed or penalised in its own
    units.
    """
    form, p = objective.form, objective.p
    searched = np.ones(objective.n_params, dtype=bool) if free is None else np.asarray(free)
    sigma_and_coef = searched[..., :p].all() and searched[..., -2].any()
    if not isinstance(form, FreeForm) or objective.penalty or not sigma_and_coef:
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
