"""Models of one shape on many data sets, fitted as a batch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..kernel.integration import Quadrature
from ..kernel.threads import one_thread_a_step
from ..optimize.batches import stacked
from ..optimize.binary import fit_independents
from ..optimize.maximize import maximize_many
from ..results.selection import Fit, SelectionResultsWrapper
from .base import SelectionModel
from .search import tops_many


@one_thread_a_step
def fit_many(
    models: Sequence[SelectionModel], cov_type: str | None = None
) -> Iterator[SelectionResultsWrapper | str]:
    """Newton fits of models that differ in their data only.

    Members with several maxima, or whose search ends elsewhere than at an interior one, are fitted
    by their own ``fit``, which compares maxima, knows faces and names what is wrong; so are models
    with sigma and rho both free, and those with a number of nodes of their own, which only ``fit``
    checks to be enough.

    Yields
    ------
    results or str
        Of each model in order, or what is wrong with one that has none.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> models = [
    ...     GreeneSelectionLogit.from_formula("y ~ x1 + x2", "s ~ x1 + x2 + z",
    ...                                       simulate_greene(800, rng=seed).data)
    ...     for seed in range(3)]
    >>> [round(float(results.params["x1"]), 2) for results in fit_many(models)]
    [0.72, 0.89, 0.9]
    """
    first = models[0]
    spec = first._parametrized
    alike = {(type(m), m._parametrized, m.k_outcome, m.k_select) for m in models}
    if len(alike) > 1:
        raise ValueError("models must be of one class, normalization and number of columns")
    rule = first.integration
    unchecked = isinstance(rule, Quadrature) and rule != rule.controlled()
    if spec.kind == "free" and (spec.free.all() or unchecked):
        yield from (_fit_alone(model, cov_type) for model in models)
        return
    penalty = first._default_penalty
    objective = first._objective(penalty).with_rows(stacked([m.rows for m in models]))
    plain = stacked([m._plain_rows() for m in models])
    apart = fit_independents(plain, probit=first._probit_outcome, penalty=penalty)
    fixed = spec.values(np.zeros(spec.free.sum()))
    coef = np.stack([independent.params for independent in apart])
    starts, single = tops_many(objective, coef, fixed, spec.free)
    parts = maximize_many(objective, starts, free=first._estimated)
    solutions = (solution for part in parts for solution in part)
    members = zip(models, starts, single, apart, solutions, strict=True)
    for model, start, one_top, independent, solution in members:
        if not (one_top and independent.converged and solution.status.converged):
            yield _fit_alone(model, cov_type)
            continue
        used, faces = start[model._estimated], {"independent": independent.value}
        if not model._results_class._is_likelihood:
            faces = {"independent": math.nan}
        fit = Fit(model, solution, independent, "newton", used, penalty, faces)
        yield SelectionResultsWrapper(
            model._results_class(fit, cov_type or model._default_cov_type(), {})
        )


def _fit_alone(model: Any, cov_type: str | None) -> SelectionResultsWrapper | str:
    try:
        return model._sibling(model.normalization)._quietly().fit(cov_type=cov_type)
    except ValueError as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
