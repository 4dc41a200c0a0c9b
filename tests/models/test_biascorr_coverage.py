"""Coverage of the pseudo-true beta by BiasCorr's intervals, by kind of covariance.

    python -m tests.models.test_biascorr_coverage 220 199 1

prints the table of docs/biascorr.md: data sets, bootstrap replicates (0 leaves them out), seed.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar import BiasCorrLogit, monte_carlo
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.montecarlo import parameters

KINDS = ("nonrobust", "HC0", "stacked")
TERMS = ["Intercept", "x1", "x2"]


def simulate(n: int, rng: np.random.Generator):
    return simulate_greene(n, sigma=1.0, rho=0.6, rng=rng)


def biascorr(data: pd.DataFrame) -> BiasCorrLogit:
    return BiasCorrLogit.from_formula(
        "y ~ x1 + x2", "s ~ x1 + x2 + z", data, normalization={"sigma": 1.0}
    )


def coverage(n_sets: int, n_boot: int, *, n: int = 1_000, n_truth: int = 400_000, rng: int = 0):
    """Shares of data sets whose 95% interval holds the pseudo-true coefficient."""
    generator = np.random.default_rng(rng)

    def intervals(results):
        kinds = {kind: parameters(results.get_robustcov_results(kind)) for kind in KINDS}
        if n_boot:
            replicates = results.bootstrap(n_boot, rng=generator)
            for kind in ("percentile", "normal"):
                interval = replicates.conf_int(kind=kind).to_numpy()
                kinds[f"bootstrap, {kind}"] = kinds["HC0"].assign(
                    std_error=replicates.bse, conf_low=interval[:, 0], conf_high=interval[:, 1]
                )
        return pd.concat(
            frame.loc[TERMS].add_suffix(f": {kind}", axis=0) for kind, frame in kinds.items()
        )

    big = biascorr(simulate(n_truth, np.random.default_rng(2024)).data).fit().params
    kinds = [*KINDS, "bootstrap, percentile", "bootstrap, normal"]
    found = monte_carlo(
        lambda rng: simulate(n, rng),
        {"BiasCorr": biascorr},
        n_sets,
        generator,
        truth={f"{term}: {kind}": big[term] for term in TERMS for kind in kinds},
        quantities=intervals,
    )
    shares = found.table.loc["BiasCorr", "coverage"]
    shares.index = pd.MultiIndex.from_tuples(tuple(k.split(": "))[::-1] for k in shares.index)
    return shares.unstack()[TERMS].loc[shares.index.unique(0)]


def test_stacked_intervals_are_wider_than_those_given_the_pseudolabels():
    """The smoke of the Monte Carlo: the first stages' error is not negligible."""
    results = biascorr(simulate(1_000, np.random.default_rng(7)).data).fit()
    stacked = results.bse[TERMS]
    given = results.get_robustcov_results("HC0").bse[TERMS]
    assert (stacked > 1.05 * given).all()


@pytest.mark.full
def test_coverage_counts_every_kind_of_interval():
    table = coverage(4, 19, n_truth=20_000)
    assert list(table.index) == [*KINDS, "bootstrap, percentile", "bootstrap, normal"]
    assert (table.loc["stacked"] >= 0.5).all()


@pytest.mark.slow
def test_coverage_of_the_pseudo_true_parameter():
    table = coverage(200, 0)
    assert (table.loc["stacked"] > 0.91).all()
    assert (table.loc["stacked"] < 0.985).all()


if __name__ == "__main__":
    n_sets, n_boot, seed = (int(v) for v in sys.argv[1:4])
    print(coverage(n_sets, n_boot, rng=seed).round(3).to_string())
