"""Tests between fits and of what they rest on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kernel.forms import single_form
from ..post import tests
from ..post.covariance import influence_covariance, invert, param_influence
from ..post.dependence import ExclusionTest
from ..post.tests import Correction, HausmanTest, VuongTest, is_nested
from ..results.fitted import SelectionResults
from ..types import Floats
from .compare import average_effects, independent_mean, unwrapped


def exclusion_test(results: Any) -> ExclusionTest:
    """Do the variables that only the selection equation has move selection?

    A joint Wald test of the columns of the selection design that lie outside the span of the
    outcome design. Without such columns, or where they are weak, the dependence of the two
    equations is identified by functional form alone. It is ``results.instrument``, and an error
    where there are no such columns.

    Parameters
    ----------
    results : SelectionResults

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.comparison import exclusion_test
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(2_000, rng=0).data
    >>> model = GreeneSelectionLogit.from_formula(
    ...     "y ~ x1 + x2", "s ~ x1 + x2 + z", data)
    >>> exclusion_test(model.fit()).columns
    ('z',)
    """
    results = _selection(results, "exclusion_test")
    found = results.instrument
    if not found.columns:
        raise ValueError(
            "exclusion_test: the selection equation has no variable that the outcome equation lacks"
        )
    return found


def hausman_test(results: Any, variables: Iterable[str] | None = None) -> HausmanTest:
    """Does the correction for selection change the average marginal effects?

    Contrasts the effects on P(y = 1) over all rows of a selection model with those of the logit
    (ProbitSelection: probit) of the labelled rows. Effects, because the scale of logit coefficients
    changes with the model.

    Parameters
    ----------
    results : SelectionResults
        Of GreeneSelectionLogit or ProbitSelection.
    variables : list of str, optional
        As in ``get_margeff``.

    Returns
    -------
    HausmanTest
        ``statistic``, ``pvalue`` and the table ``contrasts`` of the single effects; print it.

    Notes
    -----
    The variance of the contrasts is that of the difference of the two estimators' influence
    functions, valid also where the corrected one is not efficient (robust covariances, clusters,
    sampling weights). One dependence parameter separates the two models, so that under the null
    all contrasts are multiples of its estimate to first order: the test has one degree of freedom,
    in the direction in which that parameter moves the effects.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.comparison import hausman_test
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(5_000, rng=0).data
    >>> model = GreeneSelectionLogit.from_formula(
    ...     "y ~ x1 + x2", "s ~ x1 + x2 + z", data)
    >>> hausman_test(model.fit()).df
    1
    """
    results = _selection(results, "hausman_test")
    if not results._is_likelihood:
        raise ValueError("hausman_test: BiasCorr does not estimate the population's effects")
    if results._fit_info.penalty or results._has_terms or not results.converged:
        raise ValueError("hausman_test needs a fit at its maximum without a penalty")
    parts = effect_contrast(results, None if variables is None else list(variables))
    cov = _covariance(results, parts.influence)
    return tests.contrast(parts.names, parts.naive, parts.corrected, cov, parts.direction)


@dataclass(frozen=True, slots=True, eq=False)
class EffectContrast:
    """Effects of the naive and the corrected fit, and what the rows do to their difference."""

    names: tuple[str, ...]  # V
    naive: Floats  # (V,)
    corrected: Floats  # (V,)
    influence: Floats  # (n, V) of the rows on corrected - naive
    direction: Floats  # (V,) in which they differ under weak dependence, by precision


def effect_contrast(results: SelectionResults, variables: list[str] | None) -> EffectContrast:
    """What :func:`hausman_test` is made of."""
    model = results.model
    design, p = model.design, model.k_outcome
    apart = np.append(results._fit_info.independent.params, 0.0)
    null = model.objective().with_form(single_form(model.link))
    at = null.evaluate(apart, 2)
    assert at.hessian is not None
    hessian = at.hessian[0].cpu().numpy()
    scores = null.row_scores(apart).cpu().numpy()[:, :p]
    scores = scores if design.weights is None else design.weights[:, None] * scores
    # How the outcome coefficients move with the dependence parameter, at independence.
    shift = -(invert(hessian[:-1, :-1]) @ hessian[:-1, -1])[:p]

    names, corrected, slopes = average_effects(
        results, model.quantity(results.params, "mean"), variables
    )
    if not names:
        raise ValueError(
            "hausman_test: the outcome equation has no variable but its constant, so that there is "
            "no effect to contrast; test_independence() needs none"
        )
    naive_mean = independent_mean(apart[:p], model.k_select, model.link)
    _, naive, naive_slopes = average_effects(results, naive_mean, variables)
    naive_slopes = naive_slopes[:, :p]
    naive_influence = param_influence(hessian[:p, :p], scores) @ naive_slopes.T
    return EffectContrast(
        tuple(names),
        naive,
        corrected,
        results._param_influence() @ slopes.T - naive_influence,
        # P(y = 1) itself does not change with the dependence parameter there, to first order.
        naive_slopes @ shift / np.diag(_covariance(results, naive_influence)),
    )


def _covariance(results: SelectionResults, influence: Floats) -> Floats:
    """Return the covariance of estimates from the rows' influence on them."""
    design = results.model.design
    counts = design.weights if design.weight_kind == "freq_weights" else None
    return influence_covariance(influence, counts, results._clusters("hausman_test"))


def vuong_test(first: Any, second: Any, correction: Correction = "none") -> VuongTest:
    """Which of two non-nested models is nearer to the truth, such as logit and probit selection?

    Parameters
    ----------
    first, second : SelectionResults
        Fits of the same rows, neither a special case of the other; positive statistics favour the
        first.
    correction : {"none", "aic", "bic"}
        For different numbers of parameters.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit, ProbitSelection
    >>> from statsmodels_mnar.comparison import vuong_test
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> simulated = simulate_greene(2_000, rng=0)
    >>> formulas = simulated.formula, simulated.select_formula, simulated.data
    >>> logit = GreeneSelectionLogit.from_formula(*formulas).fit()
    >>> vuong_test(logit, ProbitSelection.from_formula(*formulas).fit()).favoured is None
    True
    """
    fits = [_selection(results, "vuong_test") for results in (first, second)]
    for results in fits:
        penalised = results._fit_info.penalty or results._has_terms
        if not results._is_likelihood or penalised or not results.converged:
            raise ValueError(
                "vuong_test needs two likelihoods at their maxima: no BiasCorr, no penalty, no fit "
                "that stopped early"
            )
    one, two = (results.model.design for results in fits)
    if one.nobs != two.nobs or not np.array_equal(one.y, two.y, equal_nan=True):
        raise ValueError("vuong_test needs two fits of the same rows")
    inside = [is_nested(*fits), is_nested(*fits[::-1])]
    if inside[0] != inside[1]:
        place, other = ("first", "second") if inside[0] else ("second", "first")
        raise ValueError(
            f"vuong_test is for models of which none is a special case of the other; the {place} "
            f"is one of the {other}, and its statistic is not normal then. Use "
            f"{other}.compare_lr_test({place})"
        )
    values = [
        results.model.objective().row_values(results.model.expand(results.params))[0]
        for results in fits
    ]
    return tests.vuong(
        values[0].cpu().numpy(),
        values[1].cpu().numpy(),
        (round(fits[0].df_modelwc), round(fits[1].df_modelwc)),
        counts=one.weights if one.weight_kind == "freq_weights" else None,
        sampling=one.weights if one.weight_kind == "prob_weights" else None,
        correction=correction,
        names=(type(fits[0].model).__name__, type(fits[1].model).__name__),
    )


def _selection(results: Any, name: str) -> SelectionResults:
    results = unwrapped(results)
    if not isinstance(results, SelectionResults):
        raise ValueError(f"{name} takes results of a selection model, got {type(results).__name__}")
    results.model.check_rows_at_hand()
    return results
