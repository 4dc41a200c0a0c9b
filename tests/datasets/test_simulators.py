"""Simulators: their truth is the truth, and the naive logit errs as documented."""

import doctest

import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar import GreeneSelectionLogit
from statsmodels_mnar.baselines import IPWLogit, NaiveLogit, OracleLogit
from statsmodels_mnar.datasets import (
    simulate_credit,
    simulate_deterministic,
    simulate_greene,
    simulate_mar,
    simulators,
)
from statsmodels_mnar.errors import PerfectSeparationError

ALL = [simulate_greene, simulate_mar, simulate_deterministic, simulate_credit]


def fit(cls, simulated, **options):
    formula = simulated.oracle_formula if cls is OracleLogit else simulated.formula
    return cls.from_formula(formula, simulated.select_formula, simulated.data, **options).fit()


def off(results, truth):
    """Distance from the truth in standard errors, for the parameters both have."""
    names = [name for name in results.params.index if name in truth]
    known = pd.Series({name: truth[name] for name in names})
    return ((results.params[names] - known) / results.bse[names]).abs()


@pytest.mark.parametrize("simulate", ALL)
def test_the_analyst_sees_the_outcome_of_labelled_rows_only(simulate):
    simulated = simulate(500, rng=1)
    outcome = simulated.formula.split("~")[0].strip()
    select = simulated.select_formula.split("~")[0].strip()
    data = simulated.data
    labelled = data[select] == 1
    assert 0 < labelled.sum() < len(data) == 500
    assert data[outcome].isna().equals(~labelled)
    full = data[f"{outcome}_full"]
    pd.testing.assert_series_equal(data[outcome][labelled], full[labelled], check_names=False)
    assert set(full) == {0.0, 1.0}


@pytest.mark.parametrize("simulate", ALL)
def test_a_seed_or_its_generator_give_the_same_data(simulate):
    first = simulate(100, rng=5).data
    pd.testing.assert_frame_equal(first, simulate(100, rng=np.random.default_rng(5)).data)
    assert not first.equals(simulate(100, rng=6).data)


def test_docstrings_run():
    assert doctest.testmod(simulators).failed == 0


@pytest.mark.parametrize("loading", [1.5, -1.0])
def test_greenes_model_recovers_its_loading(loading):
    simulated = simulate_greene(20_000, loading=loading, rng=2)
    results = fit(GreeneSelectionLogit, simulated, normalization="loading")
    assert simulated.truth["loading"] == loading
    assert len(off(results, simulated.truth)) == 8
    assert off(results, simulated.truth).max() < 3.5
    naive = fit(NaiveLogit, simulated)
    assert off(naive, simulated.truth).max() > 5


def test_loading_is_a_name_for_sigma_and_rho():
    pd.testing.assert_frame_equal(
        simulate_greene(50, loading=-1.3).data, simulate_greene(50, sigma=1.3, rho=-1.0).data
    )
    assert "loading" not in simulate_greene(50, rho=0.5).truth


def test_missing_at_random_is_mended_by_weights():
    simulated = simulate_mar(20_000, rng=3)
    assert off(fit(IPWLogit, simulated), simulated.truth).max() < 3.5
    assert off(fit(OracleLogit, simulated), simulated.truth).max() < 3.5
    naive = fit(NaiveLogit, simulated)
    assert naive.params["Intercept"] > -0.3 and naive.params["x1"] < 0.95


def test_deterministic_selection_has_no_answer_but_extrapolation():
    simulated = simulate_deterministic(20_000, curvature=0.0, rng=4)
    assert off(fit(NaiveLogit, simulated), simulated.truth).max() < 3.5
    with pytest.raises(PerfectSeparationError, match="selection"):
        fit(IPWLogit, simulated)
    curved = simulate_deterministic(20_000, curvature=0.5, rng=4)
    naive, oracle = fit(NaiveLogit, curved), fit(OracleLogit, curved)
    assert naive.params["x1"] > oracle.params["x1"] + 0.1
    low = curved.data.x1 < -1
    assert naive.predict()[low].mean() < curved.data.y_full[low].mean() - 0.1
    right = NaiveLogit.from_formula("y ~ x1 + x2 + I(x1 ** 2)", "s ~ x1", curved.data).fit()
    assert off(right, curved.truth).max() < 3.5


def test_credit_hides_the_risk_of_the_rejected():
    simulated = simulate_credit(20_000, rng=5)
    data = simulated.data
    rejected = data.approved == 0
    naive = fit(NaiveLogit, simulated)
    greene = fit(GreeneSelectionLogit, simulated, normalization="loading")
    assert off(greene, simulated.truth).max() < 3.5
    assert naive.params["debt_ratio"] < 0.5 * simulated.truth["debt_ratio"]
    fact = data.default_full[rejected].mean()
    assert naive.predict()[rejected].mean() < 0.5 * fact
    guess = greene.predict(data, which="mean-unselected")[rejected].mean()
    assert abs(guess - fact) < 0.03


def test_overrides_are_decisions_against_the_cutoff():
    simulated = simulate_credit(20_000, approval=0.4, rng=6)
    data = simulated.data
    assert (data.score > 0).mean() == pytest.approx(0.4, abs=0.001)
    assert data.override.equals(data.approved != (data.score > 0))
    assert data.override[data.score.abs() < 0.5].mean() > 1.5 * data.override.mean() > 0.1
    strict = simulate_credit(20_000, approval=0.4, strictness=50.0, rng=6).data
    assert strict.override.mean() < 0.02


@pytest.mark.parametrize(
    ("simulate", "options", "match"),
    [
        (simulate_greene, {"sigma": -1.0}, "sigma=-1"),
        (simulate_greene, {"rho": 2.0}, "rho=2"),
        (simulate_credit, {"approval": 1.0}, "approval=1"),
        (simulate_credit, {"strictness": 0.0}, "strictness=0"),
    ],
)
def test_impossible_truths_are_refused(simulate, options, match):
    with pytest.raises(ValueError, match=match):
        simulate(10, **options)
