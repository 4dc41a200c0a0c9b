"""The pairs bootstrap: what is resampled, and what is repeated."""

from __future__ import annotations

import numpy as np
import pytest

from statsmodels_mnar import BiasCorrLogit, GreeneSelectionLogit, Simulation
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.results.bootstrap import _resampled

SIGMA_ONE = {"normalization": {"sigma": 1.0}}


@pytest.fixture(scope="module")
def simulated():
    return simulate_greene(400, rng=0)


def fit(simulated, cls=GreeneSelectionLogit, options=SIGMA_ONE, **fit_options):
    formulas = (simulated.formula, simulated.select_formula)
    return cls.from_formula(*formulas, simulated.data, **options).fit(**fit_options)


def test_standard_errors_are_close_to_the_sandwich(simulated):
    results = fit(simulated, cov_type="HC0")
    replicates = results.bootstrap(120, rng=1)
    ratio = replicates.bse / results.bse
    assert ((ratio > 0.75) & (ratio < 1.35)).all()  # 120 replicates: about 6.5% a standard error
    assert len(replicates.replicates) + replicates.failed.total() == 120
    assert (replicates.bias.abs() < 3 * replicates.bse).all()
    assert replicates.summary().shape == (len(results.params), 5)


def test_the_same_seed_gives_the_same_replicates(simulated):
    results = fit(simulated)
    first, second = (results.bootstrap(3, rng=5).replicates for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_counts_are_observations_and_clusters_stay_together():
    rng = np.random.default_rng(0)
    counts = np.array([5.0, 1.0, 0.0, 4.0])
    draws = np.array([_resampled(counts, "freq_weights", (), rng) for _ in range(4_000)])
    assert (draws.sum(1) == 10).all()
    np.testing.assert_allclose(draws.mean(0), counts, atol=0.15)
    np.testing.assert_allclose(draws.var(0), counts * (1 - counts / 10), atol=0.2)
    codes = np.array([0, 0, 1, 1, 1, 2])
    one = np.ones(6)
    for _ in range(20):
        drawn = _resampled(one, None, (codes,), rng)
        assert len(set(drawn[:2])) == 1
        assert len(set(drawn[2:5])) == 1


def test_two_ways_of_clustering_are_refused(simulated):
    groups = np.arange(800).reshape(400, 2) % 20
    results = fit(simulated, cov_type="cluster", cov_kwds={"groups": groups})
    with pytest.raises(ValueError, match="one way"):
        results.bootstrap(5)


def test_sbar_path_repeats_the_options_of_the_fit(simulated):
    options = {"soft_selection": 0.3, "integration": Simulation(20, "random", redraw=True)}
    results = fit(simulated, BiasCorrLogit, options, method="sgd", weight_decay=0.5, tol=1e-3)
    path = results.sbar_path([0.3])
    np.testing.assert_allclose(path.iloc[0], results.params[:3], rtol=1e-12)


def test_clusters_are_forgotten_with_the_covariance_that_used_them(simulated):
    results = fit(
        simulated, BiasCorrLogit, cov_type="cluster", cov_kwds={"groups": np.arange(400) % 20}
    )
    assert len(results._results._groups) == 1
    stacked = results.get_robustcov_results("stacked")
    assert stacked._results._groups == ()
    with pytest.raises(ValueError, match="unexpected keys"):
        results.get_robustcov_results("stacked", group=1)
