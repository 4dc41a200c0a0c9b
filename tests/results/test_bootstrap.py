"""Bootstrap, jackknife and other draws: what is resampled, and what is repeated."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from statsmodels_mnar import (
    MLP,
    BiasCorrLogit,
    GreeneSelectionLogit,
    ProbitSelection,
    Simulation,
    WeakIdentificationWarning,
)
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.results.bootstrap import bca_levels, resampled
from statsmodels_mnar.results.refits import _refit_alone

SIGMA_FIXED = {"normalization": {"sigma": 1.5}}


LOADING = {"normalization": "loading"}


@pytest.fixture(scope="module")
def simulated():
    return simulate_greene(400, sigma=1.5, rho=0.5, rng=1)


def fit(simulated, cls=GreeneSelectionLogit, options=SIGMA_FIXED, **fit_options):
    formulas = (simulated.formula, simulated.select_formula)
    return cls.from_formula(*formulas, simulated.data, **options).fit(**fit_options)


def test_standard_errors_are_close_to_the_sandwich(simulated):
    results = fit(simulated, options=LOADING, cov_type="HC0")
    replicates = results.bootstrap(120, rng=1)
    ratio = replicates.bse / results.bse
    assert ((ratio > 0.75) & (ratio < 1.35)).all()  # 120 replicates: about 6.5% a standard error
    assert len(replicates.replicates) + replicates.failed.total() == 120
    assert (replicates.bias.abs() < 3 * replicates.bse).all()
    assert replicates.summary_frame().shape == (len(results.params), 5)


def test_the_same_seed_gives_the_same_replicates(simulated):
    results = fit(simulated)
    first, second = (results.bootstrap(3, rng=5).replicates for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_counts_are_observations_and_clusters_stay_together():
    rng = np.random.default_rng(0)
    counts = np.array([5.0, 1.0, 0.0, 4.0])
    draws = np.array(
        [resampled(counts, "freq_weights", None, rng, weighted=False) for _ in range(4_000)]
    )
    assert (draws.sum(1) == 10).all()
    np.testing.assert_allclose(draws.mean(0), counts, atol=0.15)
    np.testing.assert_allclose(draws.var(0), counts * (1 - counts / 10), atol=0.2)
    codes = np.array([0, 0, 1, 1, 1, 2])
    one = np.ones(6)
    for _ in range(20):
        drawn = resampled(one, None, codes, rng, weighted=False)
        assert len(set(drawn[:2])) == 1
        assert len(set(drawn[2:5])) == 1


def test_random_weights_have_mean_and_variance_one():
    """Those of the counts of a draw with replacement, which they stand for."""
    rng = np.random.default_rng(0)
    own, clusters = np.ones(40_000), np.arange(40_000) // 2
    for kind, codes in ((None, None), ("freq_weights", None), (None, clusters)):
        for weighted in (True, False):
            drawn = resampled(own, kind, codes, rng, weighted=weighted)
            assert drawn.mean() == pytest.approx(1.0, abs=0.03)
            assert drawn.var() == pytest.approx(1.0, abs=0.1)  # five standard errors


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


# -- a batch is a loop ---------------------------------------------------------------------------

LOOPED = {
    "sigma = 1.5": (GreeneSelectionLogit, SIGMA_FIXED, {}),
    "loading": (GreeneSelectionLogit, LOADING, {}),
    "probit": (ProbitSelection, {}, {}),
    "simulation": (GreeneSelectionLogit, SIGMA_FIXED | {"integration": Simulation(50)}, {}),
    "BiasCorr": (BiasCorrLogit, SIGMA_FIXED, {}),
    "BiasCorr, penalty": (BiasCorrLogit, SIGMA_FIXED, {"penalty": 1e-3}),
    "BiasCorr, logit g_s, row-wise": (
        BiasCorrLogit,
        SIGMA_FIXED | {"selection_model": "logit", "soft_selection": "rowwise"},
        {},
    ),
    "BiasCorr, soft labels": (
        BiasCorrLogit,
        LOADING | {"soft_pseudolabels": True},
        {},
    ),
    "BiasCorr, given s-bar, MLP": (
        BiasCorrLogit,
        SIGMA_FIXED | {"soft_selection": 0.3, "pseudolabel_model": MLP(epochs=30)},
        {},
    ),
}


TURNS = (1, 3, 5, 6, 7, 8)  # the others differ from one of these by the normalization only


@pytest.mark.parametrize(
    ("name", "kind"),
    [  # each model by one kind of weights, in turn
        pytest.param(name, kind, marks=() if i in TURNS and i % 2 == j else pytest.mark.full)
        for i, name in enumerate(LOOPED)
        for j, kind in enumerate(["pairs", "weighted"])
    ],
)
def test_a_batch_equals_a_loop_that_refits_everything(simulated, name, kind):
    cls, options, fit_options = LOOPED[name]
    results = fit(simulated, cls, options, **fit_options)._results
    batch = results.bootstrap(5, kind, rng=2)
    rng = np.random.default_rng(2)
    alone = {"method": "newton", "penalty": results._fit_info.penalty, "cov_type": "nonrobust"}
    alone |= {"start_params": results.params}
    assert len(batch.replicates) == 5
    for replicate in batch.replicates.to_numpy():
        weights = resampled(np.ones(400), None, None, rng, weighted=kind == "weighted")
        looped = _refit_alone(results.model, weights, alone)
        if isinstance(looped, str):  # the loop goes on on the face; the batch holds the bound
            assert "boundary rho = +1" in looped
            assert replicate[-1] > 4.9
            continue
        np.testing.assert_allclose(replicate, looped.params[results.model.estimated], atol=1e-6)


def test_clusters_with_exponential_weights_stay_together(simulated):
    rng = np.random.default_rng(0)
    codes = np.arange(400) % 10
    weights = resampled(np.ones(400), None, codes, rng, weighted=True)
    assert len(set(weights)) == 10
    results = fit(simulated)
    named = results.bootstrap(3, "cluster", rng=0, groups=codes)
    fitted = fit(simulated, cov_type="cluster", cov_kwds={"groups": codes})
    np.testing.assert_array_equal(named.replicates, fitted.bootstrap(3, rng=0).replicates)
    assert fitted.bootstrap(3, rng=0).kind == "cluster"


@pytest.mark.full
def test_standard_errors_agree_with_the_robust_ones(simulated):
    """Exponential weights, so that 300 replicates of 400 rows all have a maximum."""
    codes = np.repeat(np.arange(100), 4)
    clusters = {"cov_type": "cluster", "cov_kwds": {"groups": codes}}
    results = fit(simulated, options=LOADING, **clusters)
    ratio = results.bootstrap(300, "weighted", rng=0).bse / results.bse
    assert ratio.between(0.85, 1.25).all(), ratio


@pytest.mark.slow
def test_pairs_on_the_reference_data_agree_with_the_sandwich(reference_dir):
    data = pd.read_csv(reference_dir / "logit_n5000.csv")
    data["y"] = data.y.where(data.s == 1)
    model = GreeneSelectionLogit.from_formula(
        "y ~ x1 + x2 + x3", "s ~ x1 + x2 + x3 + z", data, normalization={"sigma": 1.0}
    )
    results = model.fit(cov_type="HC0")
    draws = results.bootstrap(999, rng=0)
    ratio = draws.bse / results.bse
    print(f"bootstrap over HC0\n{ratio.round(3).to_string()}\n{draws.failed} {draws.boundary}")
    assert ratio.between(0.9, 1.1).all()


@pytest.mark.slow
def test_clusters_on_clustered_data_agree_with_the_robust_errors():
    """150 clusters of 20 rows that share a covariate and an error."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(150), 20)
    x = 0.7 * rng.standard_normal(150)[codes] + 0.7 * rng.standard_normal(3000)
    common = 0.6 * rng.standard_normal(150)[codes]
    z, u = rng.standard_normal((2, 3000))
    data = pd.DataFrame({"x": x, "z": z, "s": (0.3 + 0.5 * x + z + common + u > 0).astype(int)})
    p = 1 / (1 + np.exp(-(x + common + 0.8 * u)))
    data["y"] = np.where(data.s == 1, rng.random(3000) < p, np.nan)
    model = GreeneSelectionLogit.from_formula("y ~ x", "s ~ x + z", data, **LOADING)
    results = model.fit(cov_type="cluster", cov_kwds={"groups": codes})
    ratio = results.bootstrap(999, rng=0).bse / results.bse
    print(f"bootstrap over cluster-robust\n{ratio.round(3).to_string()}")
    assert ratio.between(0.85, 1.15).all()
    assert (results.bse / model.fit().bse).max() > 1.3  # clustering matters here


@pytest.mark.full
def test_effects_of_replicates_on_a_boundary():
    """Most replicates of this free fit run to sigma = infinity, where coefficients are larger."""
    simulated = simulate_greene(1_500, rng=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakIdentificationWarning)
        results = fit(simulated, options={"normalization": "free"})
    draws = results.bootstrap(30, rng=0)
    assert draws.boundary.total() > 5
    effects = results.get_margeff()
    with pytest.raises(ValueError, match="replicates lie on a boundary"):
        results.get_margeff(cov=draws)
    own = draws.apply(lambda at: pd.Series(at.get_margeff().margeff, index=effects.names))
    ratio = own.bse / effects.margeff_se
    assert ratio.between(0.6, 1.6).all()  # 30 replicates: 13% a standard error
    np.testing.assert_allclose(own.estimate, effects.margeff)
    with pytest.raises(ValueError, match="apply needs the replicates of a fit"):
        own.apply(lambda at: 1.0)


def test_failures_are_counted_and_shown():
    data = simulate_greene(150, rng=3).data
    rare = [*data.index[data.s == 0][:2], *data.index[data.s == 1][:2]]
    data["rare"] = data.index.isin(rare).astype(float)  # a resample may separate selection by it
    model = GreeneSelectionLogit.from_formula(
        "y ~ x1", "s ~ x1 + z + rare", data, normalization={"sigma": 0.5}
    )
    draws = model.fit().bootstrap(40, rng=0)
    assert 0 < draws.failed.total() < 40
    assert draws.n_rep == 40 == len(draws.replicates) + draws.failed.total()
    assert f"failed: {draws.failed.total()}" in str(draws.summary())


def test_bca_levels_by_hand():
    """Efron and Tibshirani (1993), equation 14.10."""
    draws = np.arange(100.0)
    np.testing.assert_allclose(bca_levels(draws, 49.5, 0.0, 0.1), [0.05, 0.95])
    low, high = bca_levels(draws, 59.5, 0.05, 0.1)
    z0 = 0.2533471031
    expected = [z0 + (z0 + z) / (1 - 0.05 * (z0 + z)) for z in (-1.6448536270, 1.6448536270)]
    np.testing.assert_allclose(norm.ppf([low, high]), expected, rtol=1e-8)


def test_intervals_and_summary(simulated):
    results = fit(simulated)
    draws = results.bootstrap(60, rng=0)
    low, high = draws.conf_int().to_numpy().T
    np.testing.assert_allclose(low, draws.replicates.quantile(0.025))
    basic = draws.conf_int(kind="basic").to_numpy()
    np.testing.assert_allclose(basic[:, 0], 2 * results.params - high)
    normal = draws.conf_int(kind="normal")
    np.testing.assert_allclose(normal.mean(axis=1), draws.estimate - draws.bias)
    assert (draws.conf_int(kind="bca")[0] < draws.conf_int(kind="bca")[1]).all()
    with pytest.raises(ValueError, match="kind='student' is unknown"):
        draws.conf_int(kind="student")
    text = str(draws.summary())
    assert "Bootstrap of GreeneSelectionLogit, pairs" in text
    assert "failed: 0" in text
    assert draws.plot("x1").get_xlabel() == "x1"
    with pytest.raises(ValueError, match="param='x9'"):
        draws.plot("x9")


def test_acceleration_is_the_skewness_of_the_influence(simulated):
    results = fit(simulated)._results
    draws = results.bootstrap(3, rng=0)
    left_out = results.jackknife().replicates  # the jackknife's version of it
    spread = left_out.mean() - left_out
    expected = (spread**3).sum() / (6 * (spread**2).sum() ** 1.5)
    np.testing.assert_allclose(draws.acceleration, expected, atol=0.01)


def test_bad_arguments_of_the_bootstrap(simulated):
    results = fit(simulated)
    with pytest.raises(ValueError, match="n_rep=1 "):
        results.bootstrap(1)
    with pytest.raises(ValueError, match="kind='blocks' is unknown"):
        results.bootstrap(5, "blocks")
    with pytest.raises(ValueError, match="kind='cluster' resamples one way"):
        results.bootstrap(5, "cluster")
    with pytest.raises(ValueError, match="groups='village' is not a column"):
        results.bootstrap(5, groups="village")
    with pytest.raises(TypeError, match="unexpected"):
        results.bootstrap(5, progres=True)
    with pytest.raises(TypeError, match="refits take no"):
        results.bootstrap(5, cov_type="HC0")
    with pytest.raises(ValueError, match="method='newtn' is unknown"):
        results.bootstrap(5, method="newtn")
    with pytest.raises(ValueError, match="maxiter=-1 must be"):
        results.jackknife(maxiter=-1)
    removed = fit(simulated)
    removed.remove_data()
    for refits in (removed.bootstrap, removed.jackknife):
        with pytest.raises(ValueError, match="data have been removed"):
            refits()


def test_an_interrupted_bootstrap_leaves_the_results_usable(simulated, monkeypatch):
    results = fit(simulated)
    before = str(results.summary())
    solve = type(results.model).refit_weights

    def interrupted(self, *args, **kwds):
        yield next(solve(self, *args, **kwds))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(results.model), "refit_weights", interrupted)
        with pytest.raises(KeyboardInterrupt):
            results.bootstrap(50, rng=0)
    assert len(results.bootstrap(3, rng=0).replicates) == 3
    assert str(results.summary()) == before


def test_estimators_without_a_batch_go_through_joblib(simulated):
    joblib = pytest.importorskip("joblib", reason="pip install joblib")
    tree = pytest.importorskip("sklearn.tree").DecisionTreeClassifier(max_depth=2, random_state=0)
    results = fit(simulated, BiasCorrLogit, SIGMA_FIXED | {"pseudolabel_model": tree})
    serial = results.bootstrap(3, rng=0)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        threaded = results.bootstrap(3, rng=0)
    np.testing.assert_array_equal(serial.replicates, threaded.replicates)
    with pytest.raises(ValueError, match="kind='bca' needs the influence"):
        serial.conf_int(kind="bca")


# -- jackknife -----------------------------------------------------------------------------------


def test_jackknife_of_rows_clusters_and_counts():
    small = simulate_greene(120, rng=1)
    results = fit(small)
    jackknife = results.jackknife()
    assert jackknife.replicates.shape == (120, 8)
    without = small.data.drop(index=17)
    model = GreeneSelectionLogit.from_formula(
        small.formula, small.select_formula, without, **SIGMA_FIXED
    )
    np.testing.assert_allclose(jackknife.replicates.loc[17], model.fit().params, atol=2e-5)
    spread = jackknife.replicates - jackknife.replicates.mean()
    np.testing.assert_allclose(jackknife.cov, 119 / 120 * spread.T @ spread)
    np.testing.assert_allclose(jackknife.bias, 119 * (jackknife.replicates.mean() - results.params))

    codes = np.arange(120) % 12
    clusters = results.jackknife(groups=codes)
    assert clusters.replicates.shape == (12, 8)
    assert "over clusters" in str(clusters.summary())

    counts = GreeneSelectionLogit.from_formula(
        small.formula, small.select_formula, small.data, freq_weights=np.full(120, 2), **SIGMA_FIXED
    )
    repeated = GreeneSelectionLogit.from_formula(
        small.formula, small.select_formula, pd.concat([small.data] * 2, ignore_index=True),
        **SIGMA_FIXED,
    )  # fmt: skip
    np.testing.assert_allclose(
        counts.fit().jackknife().bse, repeated.fit().jackknife().bse, rtol=1e-5
    )


# -- other draws ---------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::statsmodels_mnar.IntegrationAccuracyWarning")
def test_simulation_error_is_the_spread_over_seeds(simulated):
    options = SIGMA_FIXED | {"integration": Simulation(40, "random")}
    results = fit(simulated, options=options)
    error = results.simulation_error(12)
    seeds = [
        fit(simulated, options=SIGMA_FIXED | {"integration": Simulation(40, "random", rng=seed)})
        for seed in range(1, 13)
    ]
    spread = np.std([np.asarray(r.params)[:7] for r in seeds], axis=0, ddof=1)
    ratio = error.bse.iloc[:7] / spread
    assert ratio.between(0.4, 2.5).all()  # two estimates of a spread from 12 numbers each
    text = str(results.summary())
    assert "sim. error" in text
    assert "40 draws are too few" in text
    assert error.draws_needed > 40
    np.testing.assert_allclose(error.ratio, error.bse / results.bse)


def test_simulation_error_needs_simulation(simulated):
    with pytest.raises(ValueError, match="integrated by quadrature"):
        fit(simulated).simulation_error()
    with pytest.raises(ValueError, match="n_sets=1 "):
        fit(simulated).simulation_error(1)


def weak_data(seed, n=300, constant=-1.0):
    """A weak instrument and a strong dependence: many maxima lie at its bound."""
    rng = np.random.default_rng(seed)
    x, z, u = rng.standard_normal((3, n))
    data = pd.DataFrame({"x": x, "z": z, "s": (0.2 + 0.5 * x + 0.15 * z + u > 0) * 1})
    ones = rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-(constant + x + 1.5 * u)))
    return data.assign(y=np.where(data.s == 1, ones, np.nan))


@pytest.mark.parametrize("seed", [2, pytest.param(3, marks=pytest.mark.full)])
def test_replicates_at_a_bound_are_counted_and_said(seed):
    """With seed 2 the fit is interior, with seed 3 its loading is infinite."""
    model = GreeneSelectionLogit.from_formula(
        "y ~ x", "s ~ x + z", weak_data(seed), normalization="loading"
    )
    results = model._quietly().fit()
    found = results.bootstrap(n_rep=20, rng=0)
    assert found.failed.total() == 0
    if results.status.boundary:
        assert found.n_boundary == 20 and found.held == results.status.value
        assert "its refits stay there" in str(found.summary())
    else:
        at_bound = (found.replicates["loading"].abs() > 49.0).sum()
        assert 0 < at_bound <= found.n_boundary < 20 and found.held is None
        assert f"at its bound: {found.n_boundary}" in str(found.summary())
