"""Monte Carlo experiments: a batch is a loop, and the table is its arithmetic."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from statsmodels.discrete.discrete_model import Logit
from statsmodels.tools.sm_exceptions import ModelWarning

from statsmodels_mnar import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection, monte_carlo
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.montecarlo import MonteCarlo, fit_many

FORMULAS = ("y ~ x1 + x2", "s ~ x1 + x2 + z")


def model_of(cls=GreeneSelectionLogit, **options):
    return lambda data: cls.from_formula(*FORMULAS, data, **options)


MODELS = {
    "loading": model_of(normalization="loading"),
    "sigma = 1.5": model_of(normalization={"sigma": 1.5}),
    "rho = 0.5": model_of(normalization={"rho": 0.5}),
    "free": model_of(normalization="free"),
    "probit": model_of(ProbitSelection),
    "BiasCorr": model_of(BiasCorrLogit, normalization={"sigma": 1.0}),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("loading", "BiasCorr") else pytest.mark.full)
        for name in MODELS
    ],
)
def test_a_batch_of_models_equals_their_own_fits(name):
    frames = [simulate_greene(300, sigma=1.5, rho=0.5, rng=seed).data for seed in range(4)]
    together = list(fit_many([MODELS[name](frame) for frame in frames]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        alone = [MODELS[name](frame).fit() for frame in frames]
    for batch, single in zip(together, alone, strict=True):
        assert batch.status is single.status
        assert batch.llf == pytest.approx(single.llf, abs=1e-7)
        np.testing.assert_allclose(batch.params, single.params, atol=1e-4)
        np.testing.assert_allclose(batch.bse, single.bse, rtol=1e-3)
        assert batch.cov_type == single.cov_type


def test_models_that_differ_are_refused():
    data = simulate_greene(300).data
    with pytest.raises(ValueError, match="models must be of one class"):
        list(fit_many([MODELS["loading"](data), MODELS["probit"](data)]))


def test_the_table_by_hand():
    estimates = pd.DataFrame(
        {
            "parameter": "b", "estimator": "one", "replicate": range(4),
            "estimate": [1.0, 2.0, 3.0, 2.0], "std_error": 0.6,
            "conf_low": [-0.2, 0.8, 1.8, 0.8], "conf_high": [2.2, 3.2, 4.2, 3.2], "truth": 1.5,
        }
    )  # fmt: skip
    row = MonteCarlo(estimates, {}, 4, 0.05, 0.0).table.loc[("one", "b")]
    error = np.array([-0.5, 0.5, 1.5, 0.5])
    assert row["bias"] == pytest.approx(0.5)
    assert row["bias_mcse"] == pytest.approx(error.std(ddof=1) / 2)
    assert row["rmse"] == pytest.approx(np.sqrt((error**2).mean()))
    assert row["coverage"] == pytest.approx(0.75)
    assert row["coverage_mcse"] == pytest.approx(np.sqrt(0.75 * 0.25 / 4))
    assert row["rejection"] == pytest.approx(0.75)  # 1/0.6 is not beyond 1.96


@pytest.mark.full
def test_an_experiment_tells_the_naive_logit_from_the_corrected_one():
    def naive(data):
        return Logit.from_formula("y ~ x1 + x2", data[data.s == 1]).fit(disp=False)

    run = monte_carlo(
        lambda rng: simulate_greene(1_500, rng=rng),
        {"naive": naive, "Greene": MODELS["loading"]},
        n_rep=40,
        rng=0,
        truth={"loading": 1.5},
    )
    table = run.table
    assert table.loc[("Greene", "x1"), "coverage"] > 0.85
    assert table.loc[("naive", "x1"), "coverage"] < 0.3
    assert abs(table.loc[("naive", "x1"), "bias"]) > 10 * table.loc[("naive", "x1"), "bias_mcse"]
    assert table.loc[("Greene", "loading"), "truth"] == 1.5
    assert table.loc[("Greene", "x1"), "rejection"] == 1.0
    assert "Greene: 0 failed" in str(run)
    again = monte_carlo(
        lambda rng: simulate_greene(1_500, rng=rng), {"Greene": MODELS["loading"]}, 3, rng=0
    )
    first = run.estimates.query("estimator == 'Greene' and replicate < 3")
    np.testing.assert_allclose(again.estimates.estimate, first.estimate)


def test_other_quantities_and_failures():
    def fragile(data):
        if data.x1.iloc[0] > 0:
            raise ValueError("no")
        return MODELS["loading"](data).fit()

    run = monte_carlo(
        lambda rng: simulate_greene(400, rng=rng), {"fragile": fragile}, 8, rng=1,
        quantities=lambda results: pd.DataFrame(
            {"estimate": [results.error_corr], "std_error": np.nan, "conf_low": np.nan,
             "conf_high": np.nan}, index=["error_corr"]),
    )  # fmt: skip
    assert 0 < run.failed["fragile"]["ValueError: no"] < 8
    assert len(run.estimates) == 8 - run.failed["fragile"].total()
    assert np.isnan(run.table.coverage.iloc[0])


def test_a_data_set_without_a_model_is_counted():
    def unlucky(rng):
        simulated = simulate_greene(300, rng=rng)
        if simulated.data.x1.iloc[0] > 0.5:
            simulated.data["y"] += 2.0  # no outcome that a model could read
        return simulated

    run = monte_carlo(unlucky, {"Greene": MODELS["loading"]}, 8, rng=3)
    assert 0 < run.failed["Greene"].total() < 8
    assert run.estimates.replicate.nunique() == 8 - run.failed["Greene"].total()


def test_bad_arguments():
    def simulator(rng):
        return simulate_greene(300, rng=rng)

    with pytest.raises(ValueError, match="n_rep=1"):
        monte_carlo(simulator, MODELS, 1)
    with pytest.raises(ValueError, match="estimators must be a dict"):
        monte_carlo(simulator, {}, 5)
    with pytest.raises(ValueError, match="alpha=2"):
        monte_carlo(simulator, MODELS, 5, alpha=2)
