"""Estimates, intervals and tests over data sets simulated from the loading form.

The long run, about a minute on one core, prints the tables of docs/standard-errors.md:

    pytest tests/models/test_monte_carlo.py -m slow -s
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from statsmodels_mnar import GreeneSelectionLogit, monte_carlo
from statsmodels_mnar.datasets import Simulated
from statsmodels_mnar.montecarlo import MonteCarlo, parameters

OUTCOME, SELECT = "y ~ x1 + x2", "~ x1 + x2 + z"  # z moves selection only
BETA = {"Intercept": 0.2, "x1": 0.8, "x2": -0.5}
GAMMA = {"Intercept": 0.3, "x1": 0.4, "x2": -0.3, "z": 1.0}
LOADING = 0.8
TESTS = ("lr", "wald", "score")


def simulate(loading: float, rng: np.random.Generator, n: int = 2_000) -> Simulated:
    """n rows from the loading form: P(y = 1) = L(x'beta + loading u), s = 1 if w'gamma + u > 0."""
    x1, x2, z, u = rng.standard_normal((4, n))
    data = pd.DataFrame({"Intercept": 1.0, "x1": x1, "x2": (x2 > 0.5).astype(float), "z": z})
    p = expit(data[[*BETA]] @ np.array([*BETA.values()]) + loading * u)
    selected = data[[*GAMMA]] @ np.array([*GAMMA.values()]) + u > 0
    data["y"] = (rng.random(n) < p).astype(float).where(selected)
    truth = BETA | {f"select_{name}": value for name, value in GAMMA.items()}
    return Simulated(data, truth | {"loading": loading}, OUTCOME, SELECT)


def quantities(results) -> pd.DataFrame:
    """The parameters and the tests of independence, whose statistics are squares of normals."""
    frame = parameters(results)
    for test in TESTS:
        root = np.sqrt(results.test_independence(test).statistic)
        frame.loc[test] = {"estimate": root, "std_error": 1.0}
    return frame


def replicate(n_sets: int, loading: float, seed: int) -> MonteCarlo:
    return monte_carlo(
        lambda rng: simulate(loading, rng),
        {
            "loading": lambda data: GreeneSelectionLogit.from_formula(
                OUTCOME, SELECT, data, normalization="loading"
            )
        },
        n_sets,
        rng=seed,
        quantities=quantities,
    )


def recovery(run: MonteCarlo) -> pd.DataFrame:
    """The parameters' rows, with the distance of the mean in Monte Carlo errors."""
    table = run.table.loc["loading"].drop(index=list(TESTS))
    return table.assign(mc_errors=table.bias / table.bias_mcse)


def rejections(run: MonteCarlo) -> pd.Series:
    """Share of data sets in which each test rejects at 5%."""
    return run.table.loc["loading"].loc[list(TESTS), "rejection"]


def test_few_data_sets_recover_the_truth():
    """Twelve sets can show an error of a tenth: wrong signs, a lost constant, a factor of two."""
    table = recovery(replicate(12, LOADING, seed=1))
    assert table["mc_errors"].abs().max() < 4.0, table
    ratio = table["mean_se"] / table["sd"]
    assert ratio.between(0.5, 2.0).all(), table
    assert table["coverage"].mean() >= 0.85, table


@pytest.mark.full
def test_few_data_sets_reject_dependence_only_where_there_is_some():
    strong = rejections(replicate(6, 3.0, seed=2))
    none = rejections(replicate(6, 0.0, seed=3))
    assert (strong == 1.0).all(), strong
    assert (none <= 0.5).all(), none


@pytest.mark.slow
def test_estimates_are_centred_and_intervals_cover():
    run = replicate(500, LOADING, seed=20240501)
    table = recovery(run)
    shown = table[["truth", "mean", "mc_errors", "sd", "mean_se", "coverage", "coverage_mcse"]]
    print(f"\n500 data sets of 2,000 rows, loading {LOADING}\n{shown.round(4).to_string()}")
    print(f"tests reject: {rejections(run).to_dict()}")
    assert run.failed["loading"].total() == 0
    assert table["mc_errors"].abs().max() < 3.0
    assert table["coverage"].between(0.92, 0.98).all()


@pytest.mark.slow
def test_independence_tests_have_their_size():
    run = replicate(1_000, 0.0, seed=20240502)
    shares = rejections(run)
    print(f"\n1,000 data sets of 2,000 rows, loading 0; reject at 5%: {shares.to_dict()}")
    assert shares.between(0.03, 0.07).all()
