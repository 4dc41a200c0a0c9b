"""No fit lies below a point of its model: not of random starts, nor of a submodel.

All 300 sets, about an hour on one core: ``python -m tests.studies.maximum 300``.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from statsmodels_mnar import (
    GreeneSelectionLogit,
    ProbitSelection,
    Status,
    WeakIdentificationWarning,
)
from statsmodels_mnar.models import search
from statsmodels_mnar.optimize.binary import fit_independent
from statsmodels_mnar.optimize.maximize import maximize_batch
from tests.studies.maximum import FORMS, TOLERANCE, shortfalls, simulate


def check(seeds) -> None:
    found = {seed: shortfalls(seed) for seed in seeds}
    below = {
        (seed, form): value
        for seed, forms in found.items()
        for form, value in forms.items()
        if value > TOLERANCE
    }
    assert not below
    assert sum(bool(forms) for forms in found.values()) > 0.6 * len(found)  # others separate


@pytest.mark.full
def test_few_sets_have_no_higher_point():
    check([1, 5, 8])


@pytest.mark.slow
def test_many_sets_have_no_higher_point():
    check(range(300))


@pytest.mark.parametrize("form", ["loading", "probit", "sigma = 1"])
def test_the_profile_is_ranked_as_by_fits_that_have_converged(form):
    """Values of the grid are near those of finished fits, and their slopes those of the profile."""
    for seed in (1, 5):
        y, exog, exog_select = simulate(seed)
        model_class, options = FORMS[form]
        model = model_class(y, exog, exog_select=exog_select, **options)
        objective, spec = model.objective(), model.parametrized
        coef = fit_independent(model.rows, link=model.link).params
        fixed = spec.values(np.zeros(spec.free.sum()))
        starts = search.grid_starts(objective, coef, fixed, spec.free)
        held = np.append(np.ones(len(coef), dtype=bool), np.zeros_like(spec.free))
        at = len(coef) + int(np.argmax(spec.free))
        begin = search._foreseen(objective, starts, coef)
        rough = search._profile(search._coarse(objective), begin, held, at)
        exact = maximize_batch(objective, starts, free=held)
        for found, known in zip(rough, exact, strict=True):
            assert found.value == pytest.approx(known.value, abs=0.02)
            slope = objective.evaluate(known.params, 1).score[0, at].item()
            unit = max(1.0, objective.form.outcome_units(known.params[len(coef) :]))
            assert found.slope == pytest.approx(slope, abs=0.05 + 0.05 * abs(slope) * unit)


def test_what_a_profile_leaves_unfitted_is_no_top_of_it():
    value = np.array([-50.0, -30.0, -20.0, -5.0, -4.0, -9.0, -40.0, -12.0])
    gain = np.array([1.0, 3.0, 0.5, 0.2, 0.1, 0.3, 5.0, 2.0])
    below = search._below_another(value, value + gain)
    # The neighbours of the highest are fitted, and so is the last, which another hump may top.
    assert below.tolist() == [True, True, True, False, False, False, True, False]
    gain[0] = 8.0  # three times as much would make it higher than its neighbour
    assert not search._below_another(value, value + gain)[0]


def test_a_probit_fit_goes_to_the_limit_of_perfect_correlation():
    """The profile of rho still rises beyond 0.9999, where the half line's nodes end."""
    y, exog, exog_select = simulate(19)
    with pytest.warns(WeakIdentificationWarning, match="perfectly correlated"):
        results = ProbitSelection(y, exog, exog_select=exog_select).fit()
    assert results.status is Status.RHO_MINUS

    def held(rho: float) -> float:
        normalization = {"sigma": math.inf, "rho": rho}
        model = GreeneSelectionLogit(y, exog, exog_select=exog_select, normalization=normalization)
        return model.fit(start_params=results.params).llf

    at = [held(rho) for rho in (-0.9999, -1 + 1e-7, -1 + 1e-10)]
    assert at[0] < at[1] < at[2] < results.llf + 1e-9
    assert results.llf - at[0] > 0.01  # what the old bound left out
    assert results.llf - at[2] < 1e-4  # what is left falls with sqrt(1 - rho^2)
