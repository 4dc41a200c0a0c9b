"""Estimates, intervals and tests over data sets simulated from the loading form.

The long run, about 2 minutes on one core, prints its tables:

    pytest tests/models/test_monte_carlo.py -m slow -s
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from statsmodels_mnar import GreeneSelectionLogit

OUTCOME = ("const", "x1", "x2")
SELECT = ("const", "x1", "x2", "z")  # z moves selection only
BETA = np.array([0.2, 0.8, -0.5])
GAMMA = np.array([0.3, 0.4, -0.3, 1.0])
LOADING = 0.8
TESTS = ("lr", "wald", "score")
NAMES = [*OUTCOME, *(f"select_{name}" for name in SELECT), "loading"]


def simulate(n: int, loading: float, rng: np.random.Generator) -> GreeneSelectionLogit:
    """n rows from the loading form: P(y = 1) = L(x'beta + loading u), s = 1 if w'gamma + u > 0."""
    x1, x2, z, u = rng.standard_normal((4, n))
    exog = pd.DataFrame({"const": 1.0, "x1": x1, "x2": (x2 > 0.5).astype(float)})
    exog_select = exog.assign(z=z)
    p = expit(exog.to_numpy() @ BETA + loading * u)
    y = pd.Series((rng.random(n) < p).astype(float), name="y")
    selected = exog_select.to_numpy() @ GAMMA + u > 0
    return GreeneSelectionLogit(
        y.where(selected), exog, exog_select=exog_select, normalization="loading"
    )


def replicate(n_sets: int, loading: float, seed: int, n: int = 2_000) -> pd.DataFrame:
    """Fit ``n_sets`` data sets; one row each of estimates, standard errors and test p-values."""
    rows = []
    for rng in np.random.default_rng(seed).spawn(n_sets):
        results = simulate(n, loading, rng).fit()
        row: dict[tuple[str, str], float] = {("fit", "converged"): float(results.converged)}
        row |= {("estimate", name): results.params[name] for name in NAMES}
        row |= {("error", name): results.bse[name] for name in NAMES}
        row |= {("pvalue", test): results.test_independence(test).pvalue for test in TESTS}
        rows.append(row)
    return pd.DataFrame(rows, columns=pd.MultiIndex.from_tuples(rows[0]))


def recovery(sets: pd.DataFrame, loading: float) -> pd.DataFrame:
    """Truth, mean estimate, its distance in Monte Carlo errors, and coverage of 95% intervals."""
    truth = pd.Series([*BETA, *GAMMA, loading], index=NAMES)
    estimate, error = sets["estimate"], sets["error"]
    spread = estimate.std()
    inside = (estimate - truth).abs() <= 1.959964 * error
    return pd.DataFrame(
        {
            "truth": truth,
            "mean": estimate.mean(),
            "mc_errors": (estimate.mean() - truth) / (spread / np.sqrt(len(sets))),
            "sd": spread,
            "mean_se": error.mean(),
            "coverage": inside.mean(),
        }
    )


def rejections(sets: pd.DataFrame, level: float = 0.05) -> pd.Series:
    """Share of data sets in which each test rejects."""
    return (sets["pvalue"] < level).mean()


def test_few_data_sets_recover_the_truth():
    """Twelve sets can show an error of a tenth: wrong signs, a lost constant, a factor of two."""
    table = recovery(replicate(12, LOADING, seed=1), LOADING)
    assert table["mc_errors"].abs().max() < 4.0, table
    ratio = table["mean_se"] / table["sd"]
    assert ratio.between(0.5, 2.0).all(), table
    assert table["coverage"].mean() >= 0.85, table


def test_few_data_sets_reject_dependence_only_where_there_is_some():
    strong = rejections(replicate(6, 3.0, seed=2))
    none = rejections(replicate(6, 0.0, seed=3))
    assert (strong == 1.0).all(), strong
    assert (none <= 0.5).all(), none


@pytest.mark.slow
def test_estimates_are_centred_and_intervals_cover():
    sets = replicate(500, LOADING, seed=20240501)
    table = recovery(sets, LOADING)
    print(f"\n500 data sets of 2,000 rows, loading {LOADING}\n{table.round(4).to_string()}")
    print(f"tests reject: {rejections(sets).to_dict()}")
    assert sets["fit", "converged"].all()
    assert table["mc_errors"].abs().max() < 3.0
    assert table["coverage"].between(0.92, 0.98).all()


@pytest.mark.slow
def test_independence_tests_have_their_size():
    sets = replicate(1_000, 0.0, seed=20240502)
    shares = rejections(sets)
    print(f"\n1,000 data sets of 2,000 rows, loading 0\n{recovery(sets, 0.0).round(4).to_string()}")
    print(f"tests reject at 5%: {shares.to_dict()}")
    assert shares.between(0.03, 0.07).all()
