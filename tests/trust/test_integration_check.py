"""The integration is checked at the solution: too coarse a rule is replaced, and said to be."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from statsmodels_mnar import (
    BiasCorrLogit,
    Execution,
    GreeneSelectionLogit,
    IntegrationAccuracyWarning,
    ProbitSelection,
    Quadrature,
    Simulation,
    Status,
)
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.kernel.forms import LoadingForm
from statsmodels_mnar.models import search
from statsmodels_mnar.montecarlo import fit_many
from statsmodels_mnar.optimize import solution as accuracy_module
from statsmodels_mnar.optimize.binary import fit_independent
from statsmodels_mnar.optimize.maximize import maximize

SIGMA_FIXED = {"normalization": {"sigma": 2.0}}
COARSE = Quadrature(rule="gauss-hermite", n_nodes=5)


@pytest.fixture(scope="module")
def simulated():
    return simulate_greene(800, sigma=2.0, rho=0.7, rng=3)


def build(simulated, cls=GreeneSelectionLogit, **options):
    return cls.from_formula(simulated.formula, simulated.select_formula, simulated.data, **options)


def fit_warned(model, **options):
    """A fit that warns about its integration, and the warning's text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = model.fit(**options)
    texts = [str(w.message) for w in caught if w.category is IntegrationAccuracyWarning]
    assert len(texts) == 1
    return results, texts[0]


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (GreeneSelectionLogit, SIGMA_FIXED),
        (GreeneSelectionLogit, {"normalization": "loading"}),
        (GreeneSelectionLogit, SIGMA_FIXED | {"integration": Quadrature("gauss-hermite", 64)}),
        (ProbitSelection, {}),
        (BiasCorrLogit, {"normalization": {"sigma": 1.0}}),
    ],
    ids=["free", "loading", "hermite", "probit", "biascorr"],
)
def test_one_evaluation_tells_that_the_rule_is_fine(simulated, cls, options, monkeypatch):
    calls = []

    def counted(objective, *arguments, **keywords):
        calls.append(objective)
        return accuracy_module.measure(objective, *arguments, **keywords)

    monkeypatch.setattr(search, "measure", counted)
    results = build(simulated, cls, **options).fit()
    assert len(calls) == 1
    found = results.accuracy
    assert found.sufficient
    assert found.replaced is None
    assert found.note is None
    assert abs(found.difference) < 1e-6
    assert found.shift < 1e-4
    assert "integration" not in " ".join(str(results.summary()).splitlines()[-12:])


@pytest.mark.parametrize("rule", [COARSE, Quadrature(n_nodes=9)], ids=str)
def test_too_coarse_a_rule_is_replaced_and_said_to_be(simulated, rule):
    exact = build(simulated, **SIGMA_FIXED).fit()
    results, text = fit_warned(build(simulated, integration=rule, **SIGMA_FIXED))
    np.testing.assert_array_equal(results.params, exact.params)
    np.testing.assert_array_equal(results.bse, exact.bse)
    assert results.llf == exact.llf
    assert results.model.integration == Quadrature()  # for predictions and refits too
    assert results.accuracy.sufficient
    assert results.accuracy.replaced.rule == str(rule)
    assert str(rule) in text and "repeated by trapezoid (tol 1e-10)" in text
    assert " ".join(text.split()[:6]) in " ".join(str(results.summary()).split())


def test_the_figures_are_those_of_the_solution_by_the_coarse_rule(simulated):
    coarse, exact = (
        build(simulated, integration=COARSE, **SIGMA_FIXED),
        build(simulated, **SIGMA_FIXED),
    )
    start = np.append(np.zeros(coarse.nparams - 1), 0.3)
    end = maximize(coarse.objective(), coarse.expand(start), free=coarse.estimated)
    params = end.params[coarse.estimated]
    results, _ = fit_warned(coarse)
    found = results.accuracy.replaced
    expected = coarse.loglike(params) - exact.loglike(params)
    assert found.difference == pytest.approx(expected, rel=1e-4)
    assert abs(expected) > accuracy_module.TOLERATED_LLF


def test_the_shift_is_the_distance_to_the_other_maximum(simulated):
    exact = build(simulated, **SIGMA_FIXED).fit()
    draws = build(simulated, integration=Simulation(200), **SIGMA_FIXED).fit()
    apart = np.asarray(draws.params - exact.params)
    distance = math.sqrt(apart @ -exact.model.hessian(exact.params) @ apart)
    assert draws.accuracy.shift == pytest.approx(distance, rel=0.1)
    # No combination of the estimates moves by more: the largest of them by less.
    assert (np.abs(apart) / exact.bse).max() <= 1.1 * draws.accuracy.shift


def test_a_rule_that_stays_too_coarse_is_said_to_be(simulated, monkeypatch):
    monkeypatch.setattr(accuracy_module, "TOLERATED_LLF", 1e-15)
    results, text = fit_warned(build(simulated, integration=Quadrature(tol=1e-2), **SIGMA_FIXED))
    assert results.accuracy.rule == "trapezoid (tol 1e-05)"
    assert results.accuracy.finer == "trapezoid (tol 1e-08)"
    assert not results.accuracy.sufficient
    assert "still too coarse" in text


def test_a_coarse_search_that_ended_on_a_face_is_repeated(simulated):
    """The face has a rule of its own, but what it was compared with was wrong."""
    exact = build(simulated, normalization="free").fit()
    assert exact.status.boundary
    results, _ = fit_warned(build(simulated, integration=Quadrature("gauss-hermite", 8)))
    assert results.status is exact.status
    assert results.llf == pytest.approx(exact.llf, abs=1e-8)
    assert results.accuracy.replaced.rule == "gauss-hermite (8 nodes)"


def test_a_fixed_sigma_that_runs_to_the_bound_is_repeated():
    simulated = simulate_greene(800, sigma=3.0, rho=0.95, rng=0)
    options = {"normalization": {"sigma": 0.2}}
    exact = build(simulated, **options).fit()
    results, _ = fit_warned(build(simulated, integration=COARSE, **options))
    assert results.status is exact.status is Status.RHO_PLUS
    np.testing.assert_array_equal(results.params, exact.params)


def test_rows_in_partitions_are_checked_too(simulated):
    options = SIGMA_FIXED | {"integration": COARSE}
    whole, _ = fit_warned(build(simulated, **options))
    parts, text = fit_warned(build(simulated, execution=Execution(partition_rows=300), **options))
    np.testing.assert_allclose(parts.params, whole.params, rtol=1e-7)
    assert parts.accuracy.rule == whole.accuracy.rule
    assert parts.accuracy.replaced.difference == pytest.approx(
        whole.accuracy.replaced.difference, rel=1e-6
    )
    assert "trapezoid" in text


def test_biascorr_is_repeated_with_its_first_stages(simulated):
    options = {"normalization": {"sigma": 2.0}}
    exact = build(simulated, BiasCorrLogit, **options).fit()
    results, _ = fit_warned(build(simulated, BiasCorrLogit, integration=COARSE, **options))
    np.testing.assert_allclose(results.params, exact.params, rtol=1e-10)
    np.testing.assert_allclose(results.bse, exact.bse, rtol=1e-10)
    assert results.soft_selection == exact.soft_selection


def test_draws_are_kept_and_their_cost_is_told(simulated):
    exact = build(simulated, **SIGMA_FIXED)
    model = build(simulated, integration=Simulation(200), **SIGMA_FIXED)
    results = model.fit()
    found = results.accuracy
    assert results.model.integration == Simulation(200)
    assert found.simulated and found.sufficient
    expected = results.llf - exact.loglike(results.params)
    assert found.difference == pytest.approx(expected, rel=1e-9)
    few, text = fit_warned(build(simulated, integration=Simulation(10, "random"), **SIGMA_FIXED))
    assert few.accuracy.shift > 0.1
    assert few.accuracy.replaced is None
    assert "Too few draws: 10 random draws" in text
    assert "Too few draws" in str(few.summary())


def test_the_papers_descent_is_not_repeated(simulated):
    results = build(simulated, integration=Simulation(20, "random", redraw=True)).fit(method="sgd")
    assert results.status is Status.STOPPED
    assert math.isnan(results.accuracy.shift)


def test_members_of_a_batch_with_a_rule_of_their_own_are_checked_one_by_one(simulated):
    others = [simulated, simulate_greene(800, sigma=2.0, rho=0.7, rng=4)]
    exact = list(fit_many([build(each, **SIGMA_FIXED) for each in others]))
    coarse = list(fit_many([build(each, integration=COARSE, **SIGMA_FIXED) for each in others]))
    assert exact[0].accuracy is None
    for one, other in zip(exact, coarse, strict=True):
        assert other.accuracy.replaced is not None
        np.testing.assert_allclose(other.params, one.params, rtol=1e-6)


def test_predictions_do_not_depend_on_the_rule_of_the_fit(simulated):
    """A rule that is fine for the rows of the fit need not be so for the rows predicted."""
    model = build(simulated, integration=Quadrature("gauss-hermite", 64), **SIGMA_FIXED)
    results = model.fit()
    X, W = model.exog[:50] * 8.0, model.exog_select[:50] * 8.0
    other = build(simulated, integration=Quadrature(tol=1e-14), **SIGMA_FIXED)
    for which in ("p11", "mean-unselected"):
        own = results.predict(X, W, transform=False, which=which)
        exact = other.predict(results.params, X, W, which=which)
        np.testing.assert_allclose(own, exact, rtol=1e-9)


def test_a_part_of_many_rows_tells_what_all_of_them_do(monkeypatch):
    """By a rule of two digits, whose error is there to be found."""
    simulated = simulate_greene(3_000, sigma=1.0, rho=0.7, rng=3)
    model = GreeneSelectionLogit.from_formula(
        simulated.formula, simulated.select_formula, simulated.data
    )
    own = model.objective().with_form(LoadingForm(1e-2))
    solution = maximize(own, np.append(fit_independent(own.rows).params, 0.5))
    finer, free = model.objective(), np.ones(own.n_params, dtype=bool)
    everything = accuracy_module.measure(own, finer, solution, free, maximum=True)
    monkeypatch.setattr(accuracy_module, "_ALL", 2_000)
    monkeypatch.setattr(accuracy_module, "_DRAWN", 1_000)
    monkeypatch.setattr(accuracy_module, "_EXTREME", 100)
    part = accuracy_module.measure(own, finer, solution, free, maximum=True)
    assert abs(everything[0]) > 1e-9
    assert part[0] == pytest.approx(everything[0], rel=0.5)
    assert part[1] == pytest.approx(everything[1], rel=0.7)
