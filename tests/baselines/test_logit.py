"""The naive and the oracle's logit against statsmodels and the paper."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import expit

from statsmodels_mnar.baselines import NaiveLogit, OracleLogit
from statsmodels_mnar.datasets import load_experiment, simulate_greene


@pytest.fixture(scope="module")
def simulated():
    return simulate_greene(1_500, rng=4)


def both(simulated, **fit):
    select = simulated.select_formula
    naive = NaiveLogit.from_formula(simulated.formula, select, simulated.data).fit(**fit)
    oracle = OracleLogit.from_formula(simulated.oracle_formula, select, simulated.data).fit(**fit)
    return naive, oracle


def test_estimates_are_those_of_statsmodels(simulated):
    naive, oracle = both(simulated)
    seen = sm.Logit.from_formula("y ~ x1 + x2", simulated.data.query("s == 1")).fit(disp=False)
    full = sm.Logit.from_formula("y_full ~ x1 + x2", simulated.data).fit(disp=False)
    for ours, theirs in ((naive, seen), (oracle, full)):
        np.testing.assert_allclose(ours.params, theirs.params, rtol=1e-6)
        np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-5)
        np.testing.assert_allclose(ours.conf_int(), theirs.conf_int(), rtol=1e-5)
        np.testing.assert_allclose(ours.pvalues, theirs.pvalues, rtol=1e-4, atol=1e-12)
        np.testing.assert_allclose(ours.llf, theirs.llf, rtol=1e-10)
        np.testing.assert_allclose(
            ours.predict(simulated.data), theirs.predict(simulated.data), rtol=1e-6
        )


def test_robust_standard_errors_are_those_of_statsmodels(simulated):
    naive, _ = both(simulated, cov_type="HC0")
    theirs = sm.Logit.from_formula("y ~ x1 + x2", simulated.data.query("s == 1")).fit(
        disp=False, cov_type="HC0"
    )
    np.testing.assert_allclose(naive.cov_params(), theirs.cov_params(), rtol=1e-5)


def test_the_papers_descent_step_by_step(simulated):
    data = simulated.data.query("s == 1")
    X = np.column_stack([np.ones(len(data)), data.x1, data.x2])
    y = data.y.to_numpy()
    beta, previous = np.zeros(3), np.inf
    while True:
        loss = -np.mean(np.where(y == 1, np.log(expit(X @ beta)), np.log(expit(-X @ beta))))
        if abs(previous - loss) < 1e-3 * previous:
            break
        previous, beta = loss, beta + 0.05 * X.T @ (y - expit(X @ beta)) / len(y)
    naive, _ = both(simulated, method="sgd", lr=0.05, tol=1e-3)
    np.testing.assert_allclose(naive.params, beta, rtol=1e-10)
    assert naive.bse.isna().all() and naive.cov_type is None


@pytest.mark.parametrize(
    ("name", "nobias", "ssbias"), [("german", 72.67, 69.33), ("drug", 69.08, 66.78)]
)
def test_the_papers_cells(shared, name, nobias, ssbias):
    experiment = load_experiment(name, shared / "data")
    for cls, y, cell in (
        (OracleLogit, experiment.y, nobias),
        (NaiveLogit, experiment.seen, ssbias),
    ):
        results = cls(y, experiment.X, experiment.s, experiment.W).fit(method="sgd", tol=5e-4)
        assert experiment.accuracy(results.params.to_numpy()) == pytest.approx(cell, abs=0.005)
