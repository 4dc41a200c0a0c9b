"""Coverage of the pseudo-true beta by BiasCorr's intervals, by kind of covariance.

    python -m tests.models.test_biascorr_coverage 120 199 1

prints the table of docs/biascorr.md: data sets, bootstrap replicates (0 leaves them out), seed.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from statsmodels_mnar import BiasCorrLogit
from statsmodels_mnar.datasets import simulate_greene

KINDS = ("nonrobust", "HC0", "stacked")
TERMS = ["Intercept", "x1", "x2"]


def fit(n: int, rng: np.random.Generator):
    simulated = simulate_greene(n, sigma=1.0, rho=0.6, rng=rng)
    return BiasCorrLogit.from_formula(
        simulated.formula,
        simulated.select_formula,
        simulated.data,
        normalization={"sigma": 1.0},
    ).fit()


def coverage(n_sets: int, n_boot: int, *, n: int = 1_000, n_truth: int = 400_000, rng: int = 0):
    """Shares of data sets whose 95% interval holds the pseudo-true coefficient."""
    generator = np.random.default_rng(rng)
    truth = fit(n_truth, np.random.default_rng(2024)).params[TERMS]
    z = norm.ppf(0.975)
    hits: dict[str, list[pd.Series]] = {}
    for _ in range(n_sets):
        results = fit(n, generator)
        for kind in KINDS:
            error = results.get_robustcov_results(kind).bse[TERMS]
            hits.setdefault(kind, []).append((results.params[TERMS] - truth).abs() <= z * error)
        if n_boot:
            replicates = results.bootstrap(n_boot, rng=generator)
            low, high = (replicates.conf_int().loc[TERMS, side] for side in (0, 1))
            hits.setdefault("bootstrap, percentile", []).append((low <= truth) & (truth <= high))
            error = replicates.bse[TERMS]
            inside = (results.params[TERMS] - truth).abs() <= z * error
            hits.setdefault("bootstrap, normal", []).append(inside)
    return pd.DataFrame({kind: pd.DataFrame(rows).mean() for kind, rows in hits.items()}).T


def test_stacked_intervals_are_wider_than_those_given_the_pseudolabels():
    """The smoke of the Monte Carlo: the first stages' error is not negligible."""
    results = fit(1_000, np.random.default_rng(7))
    stacked = results.bse[TERMS]
    given = results.get_robustcov_results("HC0").bse[TERMS]
    assert (stacked > 1.05 * given).all()


@pytest.mark.slow
def test_coverage_of_the_pseudo_true_parameter():
    table = coverage(200, 0)
    assert (table.loc["stacked"] > 0.91).all()
    assert (table.loc["stacked"] < 0.985).all()


if __name__ == "__main__":
    n_sets, n_boot, seed = (int(v) for v in sys.argv[1:4])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print(coverage(n_sets, n_boot, rng=seed).to_string())
