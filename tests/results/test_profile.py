"""Profile likelihoods against separate fits, and the coverage of their intervals.

The long run, about 12 minutes on one core, prints its tables:

    pytest tests/results/test_profile.py -m slow -s
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit, ndtr
from scipy.stats import chi2

from statsmodels_mnar import (
    BiasCorrLogit,
    GreeneSelectionLogit,
    ProbitSelection,
    Status,
    WeakIdentificationWarning,
    monte_carlo,
)
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.montecarlo import MonteCarlo

CUT = chi2.ppf(0.95, 1)
V = math.pi**2 / 3
FORMULAS = ("y ~ x1 + x2", "s ~ x1 + x2 + z")


def model(n=1_200, normalization="free", *, sigma=1.5, rho=1.0, rng=1, cls=GreeneSelectionLogit):
    sim = simulate_greene(n, sigma=sigma, rho=rho, rng=rng)
    options = {} if cls is ProbitSelection else {"normalization": normalization}
    return cls.from_formula(sim.formula, sim.select_formula, sim.data, **options)


def widened(results, level=0.95):
    """Cut of sets of the dependence of weak and skewed fits."""
    return (1 + min(0.2, 60 / results.nobs_selected)) * chi2.ppf(level, 1)


def fit(*args, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakIdentificationWarning)
        return model(*args, **keywords).fit()


@pytest.fixture(scope="module")
def loading():
    return fit(normalization="loading")


@pytest.fixture(scope="module")
def interior():
    results = fit(800, sigma=1.0, rho=0.6, rng=46)
    assert results.status is Status.CONVERGED
    return results


def refit(results, normalization):
    """Log-likelihood of the same data under another normalization, by the model's own interface."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakIdentificationWarning)
        return results.model.sibling(normalization).fit().llf


# -- values ----------------------------------------------------------------------------------------


def test_loading_profile_equals_fits_with_the_loading_fixed(loading):
    grid = [-0.5, 0.4, 1.1, 2.5]
    found = loading.profile("loading", grid=grid)
    np.testing.assert_allclose(found.grid, grid)
    expected = [refit(loading, {"sigma": abs(v), "rho": np.sign(v)}) for v in grid]
    np.testing.assert_allclose(found.values, expected, atol=1e-7, rtol=0)


def test_profile_of_a_coefficient_equals_scipys_constrained_maximum(loading):
    """SLSQP on an objective of its own: the loading form by Gauss-Legendre nodes."""
    model = loading.model
    X, W, s = model.exog, model.exog_select, model.endog_select == 1
    q = 2 * model.endog[s] - 1
    x, w = np.polynomial.legendre.leggauss(120)

    def negative(theta):
        a, b = X[s] @ theta[:3], W @ theta[3:7]
        low = np.maximum(-b[s], -9.0)[:, None]
        half = (9.0 - low) / 2
        u = low + half * (x + 1)
        joint = (half * expit(q[:, None] * (a[:, None] + theta[7] * u)) * np.exp(-u * u / 2)) @ w
        total = np.log(joint / math.sqrt(2 * math.pi)).sum() + np.log(ndtr(-b[~s])).sum()
        return -total / len(W)

    values = [0.7, 1.3]
    found = loading.profile("x1", grid=values)
    for value, ours in zip(values, found.values, strict=True):
        start = np.asarray(loading.params).copy()
        start[1] = value
        best = minimize(
            negative, start, method="SLSQP", options={"ftol": 1e-15, "maxiter": 300},
            constraints={"type": "eq", "fun": lambda t, value=value: t[1] - value},
        )  # fmt: skip
        assert ours == pytest.approx(-best.fun * len(W), abs=1e-6)


@pytest.mark.full  # at the corner below by default
@pytest.mark.parametrize(("param", "values"), [("rho", [-0.4, 0.3, 0.9]), ("sigma", [0.4, 8.0])])
def test_rho_and_sigma_profiles_equal_fits_with_one_of_them_fixed(interior, param, values):
    found = interior.profile(param, grid=values)
    expected = [refit(interior, {param: v}) for v in values]
    # The profile may be better: it compares the faces, a fit takes the one it runs into.
    assert (found.values >= np.array(expected) - 1e-6).all()
    np.testing.assert_allclose(found.values[-1], expected[-1], atol=1e-6, rtol=0)
    aliases = {"rho": ("athrho", np.arctanh), "sigma": ("lnsigma", np.log)}
    name, transform = aliases[param]
    same = interior.profile(name, grid=transform(np.array(values)))
    np.testing.assert_allclose(same.values, found.values, atol=1e-7, rtol=0)
    with np.errstate(divide="ignore"):
        ends = transform(np.array(found.interval))
    np.testing.assert_allclose(same.interval, ends, atol=1e-3)


@pytest.mark.parametrize("corr", [pytest.param(0.1, marks=pytest.mark.full), 0.3])
def test_error_corr_of_the_free_model_is_the_best_of_a_scan_over_sigma(interior, corr):
    ours = interior.profile("error_corr", grid=[corr]).values[0]

    def at(sigma):
        return refit(interior, {"sigma": sigma, "rho": corr / (sigma / math.sqrt(sigma**2 + V))})

    low = corr * math.sqrt(V / (1 - corr**2))
    loading = refit(interior, {"sigma": low, "rho": 1.0})
    probit = refit(interior, {"sigma": math.inf, "rho": corr})
    scan = [at(sigma) for sigma in np.geomspace(1.2 * low, 9.0, 4)]
    best = max(loading, probit, *scan)
    assert ours >= best - 1e-6
    assert ours <= interior.llf + 1e-6
    assert ours - best < 5e-3  # the scan is coarse, the likelihood flat along it


@pytest.mark.full
def test_closed_model_is_profiled_wherever_its_maximum_lies():
    """Started from a face, the free model has the profile that its interior has."""
    free = fit(rho=0.6, sigma=2.0, rng=3)
    assert free.status.boundary
    own = fit(normalization="loading", rho=0.6, sigma=2.0, rng=3)
    grid = [0.2, 0.5, 0.8]
    closed, face = (results.profile("error_corr", grid=grid) for results in (free, own))
    assert (closed.values >= face.values - 1e-7).all()
    assert (closed.values > face.values + 1e-3).any()
    assert set(face.form) == {"loading"}
    width = [np.diff(p.interval).item() for p in (closed, face)]
    assert width[0] > width[1]


def test_probit_profile_of_rho_equals_fits_with_rho_fixed():
    results = fit(cls=ProbitSelection, sigma=3.0, rho=0.5)
    found = results.profile("rho", grid=[-0.2, 0.6])
    expected = [refit(results, {"rho": v}) for v in (-0.2, 0.6)]
    np.testing.assert_allclose(found.values, expected, atol=1e-7, rtol=0)
    same = results.profile("error_corr", grid=[-0.2, 0.6])
    np.testing.assert_allclose(same.interval, found.interval, atol=1e-8)


# -- intervals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "param",
    [
        pytest.param("loading", marks=pytest.mark.full),
        "error_corr",
        "x1",
        pytest.param("select_z", marks=pytest.mark.full),
    ],
)
def test_interval_ends_lie_on_the_cut(loading, param):
    found = loading.profile(param)
    at_ends = loading.profile(param, grid=found.interval).values
    cut = widened(loading) if param in ("error_corr", "loading") else CUT
    np.testing.assert_allclose(2 * (loading.llf - at_ends), cut, atol=1e-3)
    assert found.interval[0] < found.estimate < found.interval[1]
    assert found.open == (False, False)
    assert found.cut == pytest.approx(loading.llf - cut / 2)


@pytest.mark.full
def test_interval_of_error_corr_in_the_free_model_lies_on_the_cut(interior):
    found = interior.profile("error_corr", alpha=0.1)
    at_ends = interior.profile("error_corr", grid=found.interval).values
    np.testing.assert_allclose(2 * (interior.llf - at_ends), widened(interior, 0.9), atol=1e-3)
    assert found.level == pytest.approx(0.9)


def test_interval_of_a_coefficient_is_walds_in_large_samples():
    results = fit(20_000, normalization="loading", rng=5)
    for name in ("x1", "select_z"):
        ours = np.array(results.profile(name, grid=[results.params[name]]).interval)
        wald = results.conf_int().loc[name].to_numpy()
        np.testing.assert_allclose(ours, wald, atol=0.04 * np.diff(wald).item())


def test_flat_profiles_have_open_ends_and_say_so(interior):
    rho, sigma = interior.profile("rho", grid=[0.5]), interior.profile("sigma", grid=[1.0])
    assert rho.interval[1] == 1.0 and rho.open == (False, True)
    assert sigma.interval[1] == math.inf and sigma.open[1]
    assert "never falls below the cut on the way to 1." in str(rho)
    assert "never falls below the cut on the way to inf." in str(sigma)
    outcome = interior.profile("x1", grid=[1.0, 4.0, 400.0])  # it grows with sigma
    assert outcome.interval[1] == math.inf and outcome.open[1]
    assert outcome.grid.tolist() == [1.0, 4.0]
    assert "1 values of grid need a sigma above 50" in str(outcome)


def test_fixed_sigma_caps_the_error_correlation():
    """Data with an error correlation of 0.8 under sigma = 1, which allows 0.483."""
    results = fit(normalization={"sigma": 1.0}, sigma=2.4, rho=1.0, rng=2)
    assert results.status is Status.RHO_PLUS
    found = results.profile("error_corr")
    cap = 1 / math.sqrt(1 + V)
    assert found.interval[1] == pytest.approx(cap) and found.open[1]
    assert found.estimate == pytest.approx(cap)
    assert found.values[-1] == pytest.approx(results.llf, abs=1e-7)
    inner = results.profile("error_corr", grid=[0.2])
    rho = 0.2 / cap
    assert inner.values[0] == pytest.approx(refit(results, {"sigma": 1.0, "rho": rho}), abs=1e-7)


def test_fixed_rho_bounds_the_error_correlation_by_zero_and_rho():
    results = fit(normalization={"rho": 0.7}, sigma=1.5, rho=0.7, rng=2)
    found = results.profile("error_corr")
    assert 0.0 < found.interval[0] < results.error_corr
    assert found.interval[1] <= 0.7
    sigma = results.profile("sigma", grid=[0.8]).values[0]
    assert sigma == pytest.approx(refit(results, {"sigma": 0.8, "rho": 0.7}), abs=1e-7)


@pytest.mark.parametrize("rho", [0.5, pytest.param(-0.5, marks=pytest.mark.full)])
def test_sigma_that_ran_to_zero_has_an_interval_from_there(rho):
    """Data of the other sign: the independent model."""
    results = fit(500, normalization={"rho": rho}, sigma=1.0, rho=-np.sign(rho), rng=2)
    assert results.status is Status.SIGMA_ZERO
    found = results.profile("x1", grid=[results.params["x1"]])
    assert found.values[0] == pytest.approx(results.llf, abs=1e-7) and not found.note
    sigma = results.profile("sigma")
    low, high = sigma.interval
    assert (low, sigma.estimate, sigma.open) == (0.0, 0.0, (True, False))
    fixed = refit(results, {"sigma": high, "rho": rho})
    assert 2 * (results.llf - fixed) == pytest.approx(widened(results), abs=1e-3)
    corr = results.profile("error_corr", grid=[0.0, rho / 2, rho])
    ends = sorted([0.0, rho * high / math.sqrt(high**2 + V)])
    np.testing.assert_allclose(corr.interval, ends, atol=1e-4)
    report = results.identification_report()
    assert report.profile.interval == pytest.approx(corr.interval, abs=1e-4)


def test_sigma_that_ran_to_infinity_at_a_fixed_rho():
    results = fit(500, normalization={"rho": 0.5}, rng=3)
    assert results.status is Status.SIGMA_INFINITE
    found = results.profile("error_corr", grid=[0.0, 0.25, results.error_corr])
    sigma = 0.25 * math.sqrt(V / (0.5**2 - 0.25**2))  # where rho = 0.5 gives 0.25
    others = ("independent", {"sigma": sigma, "rho": 0.5}, {"sigma": math.inf, "rho": 0.5})
    expected = [refit(results, other) for other in others]
    np.testing.assert_allclose(found.values, expected, atol=1e-7, rtol=0)
    assert found.interval[1] == 0.5 and found.open == (False, True)
    report = results.identification_report()
    assert report.profile.interval == pytest.approx(found.interval, abs=1e-4)
    assert "to 0.50 agree with the data" in report.verdict()[0]


def test_a_fixed_rho_of_zero_has_no_error_correlation_to_profile():
    results = fit(500, normalization={"rho": 0.0}, rng=3)
    assert results.identification_report().profile is None
    with pytest.raises(
        ValueError, match=r"'error_corr' is not estimated.*\['sigma', 'lnsigma', 'I"
    ):
        results.profile("error_corr")


@pytest.fixture(scope="module")
def corner():
    """The free model's maximum at sigma = infinity and rho = 1, the probit face's bound."""
    data = simulate_greene(120, rng=9).data
    model = GreeneSelectionLogit.from_formula("y ~ x1", "s ~ x1 + z", data, normalization="free")
    with pytest.warns(WeakIdentificationWarning, match="perfectly correlated"):
        results = model.fit()
    assert results.model.normalization == {"sigma": math.inf, "rho": pytest.approx(1.0)}
    return results


@pytest.mark.parametrize(("param", "value"), [("rho", 0.5), ("sigma", 2.0)])
def test_corner_of_the_free_model_is_profiled_as_the_free_model(corner, param, value):
    found = corner.profile(param, grid=[value])
    assert found.values[0] == pytest.approx(refit(corner, {param: value}), abs=1e-6)
    low, high = found.interval
    assert high == (1.0 if param == "rho" else math.inf) and found.open == (False, True)
    assert 2 * (corner.llf - refit(corner, {param: low})) == pytest.approx(
        widened(corner), abs=1e-3
    )


def test_report_at_the_corner_has_the_interval_of_the_closed_model(corner):
    report = corner.identification_report()
    low, high = report.profile.interval
    assert high == 1.0 and report.profile.estimate == pytest.approx(1.0)
    assert "rho = +1" in report.face
    sigma = low * math.sqrt(V / (1 - low**2))
    faces = {"sigma": sigma, "rho": 1.0}, {"sigma": math.inf, "rho": low}
    ratios = [2 * (corner.llf - refit(corner, face)) for face in faces]
    assert min(ratios) == pytest.approx(
        widened(corner), abs=0.01
    )  # a face is the best there, or nearly
    assert min(ratios) >= widened(corner) - 1e-3


def test_coefficient_at_the_corner(corner):
    estimate = float(corner.params["select_z"])
    found = corner.profile("select_z", grid=[estimate])
    assert found.values[0] == pytest.approx(corner.llf, abs=1e-6)
    assert found.interval[0] < estimate < found.interval[1]


def test_independence_at_the_corner_is_tested_against_the_free_model_with_rho_zero(corner):
    statistic = corner.test_independence("lr").statistic
    assert statistic == pytest.approx(2 * (corner.llf - refit(corner, {"rho": 0.0})), abs=1e-6)


def test_probit_rho_at_its_bound_has_an_interval():
    data = simulate_greene(120, rng=9).data
    with pytest.warns(WeakIdentificationWarning, match="perfectly correlated"):
        results = ProbitSelection.from_formula("y ~ x1", "s ~ x1 + z", data).fit()
    assert results.status is Status.RHO_PLUS
    found = results.profile("rho", grid=[0.3])
    assert found.values[0] == pytest.approx(refit(results, {"rho": 0.3}), abs=1e-7)
    low, high = found.interval
    assert high == 1.0 and found.open == (False, True)
    assert 2 * (results.llf - refit(results, {"rho": low})) == pytest.approx(
        widened(results), abs=1e-3
    )
    assert results.identification_report().profile.interval == pytest.approx((low, high), abs=1e-4)


# -- the object ------------------------------------------------------------------------------------


def test_default_grid_reaches_beyond_the_cut_and_the_table_shows_it(loading):
    found = loading.profile("error_corr")
    table = found.summary_frame()
    assert len(table) >= 15
    assert list(table.columns) == ["loglik", "lr", "inside", "form", "status"]
    assert not table["inside"].iloc[[0, -1]].any() and table["inside"].any()
    assert (table["status"] == "converged").all()
    np.testing.assert_allclose(found.params["sigma"], np.abs(found.params["sigma"]))
    peak = found.params.iloc[int(np.argmax(found.values))]
    assert peak["x1"] == pytest.approx(loading.params["x1"], abs=0.05)
    assert "95% interval [" in str(found)


def test_frequency_weights_count_rows():
    sim = simulate_greene(800, rng=3)
    twice = pd.concat([sim.data, sim.data], ignore_index=True)
    formulas = (sim.formula, sim.select_formula)
    long = GreeneSelectionLogit.from_formula(*formulas, twice, normalization="loading").fit()
    short = GreeneSelectionLogit.from_formula(
        *formulas, sim.data, normalization="loading", freq_weights=np.full(800, 2)
    ).fit()
    intervals = [r.profile("error_corr", grid=[r.error_corr]).interval for r in (long, short)]
    np.testing.assert_allclose(*intervals, atol=1e-4)


def test_progress_is_shown(loading, capsys):
    loading.profile("loading", grid=[1.0], progress=True)
    assert "profile" in capsys.readouterr().err


# -- refusals --------------------------------------------------------------------------------------


def test_what_has_no_likelihood_ratio_is_refused(loading):
    with pytest.raises(ValueError, match=r"cov_type='HC0'.*conf_int"):
        loading.get_robustcov_results("HC0").profile("x1")
    sim = simulate_greene(500, rng=1)
    formulas = (sim.formula, sim.select_formula, sim.data)
    weighted = GreeneSelectionLogit.from_formula(
        *formulas, normalization="loading", prob_weights=np.linspace(1, 2, 500)
    ).fit()
    with pytest.raises(ValueError, match="sampling weights"):
        weighted.profile("x1")
    penalised = model(500, "loading").fit(penalty=0.01)
    with pytest.raises(ValueError, match="penalised"):
        penalised.profile("x1")
    descended = model(500).fit(method="sgd", tol=0.1)
    with pytest.raises(ValueError, match="not at a maximum"):
        descended.profile("x1")
    with pytest.raises(ValueError, match="bootstrap"):
        BiasCorrLogit.from_formula(*formulas).fit().profile("x1")


def test_bad_arguments_are_named(loading):
    with pytest.raises(ValueError, match=r"param='rho' is not estimated.*'loading'"):
        loading.profile("rho")
    with pytest.raises(ValueError, match="param='nothing'"):
        loading.profile("nothing")
    with pytest.raises(ValueError, match=r"grid has the value 1\.2"):
        loading.profile("error_corr", grid=[0.1, 1.2])
    with pytest.raises(ValueError, match=r"grid has the value 80; sigma .* between 0\.001 and 50"):
        fit(500, normalization={"rho": 0.7}).profile("sigma", grid=[80.0])
    with pytest.raises(ValueError, match="grid must be numbers"):
        loading.profile("x1", grid=[np.nan])
    with pytest.raises(ValueError, match="alpha=2"):
        loading.profile("x1", alpha=2)


# -- coverage --------------------------------------------------------------------------------------


def intervals(results) -> pd.DataFrame:
    """Of the dependence, by profile and by Wald; one that is not there covers nothing."""
    profile = results.profile("error_corr", grid=[results.error_corr]).interval
    table = results.dependence
    wald = table.iloc[:, 2:].set_axis(["conf_low", "conf_high"], axis=1).loc[["error_corr", "rho"]]
    wald = wald.fillna({"conf_low": np.inf, "conf_high": -np.inf})
    frame = pd.concat([pd.DataFrame([profile], columns=wald.columns), wald])
    frame.index = ["profile error_corr", "wald error_corr", "wald rho"]
    frame["estimate"] = [results.error_corr, results.error_corr, results.rho]
    return frame.assign(std_error=np.nan, face=results.status.boundary)


def coverage(n_sets: int, seed: int, sigma: float, rho: float, n: int = 2_000) -> MonteCarlo:
    """Intervals of the free form on many data sets."""
    corr = rho * sigma / math.sqrt(sigma**2 + V)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakIdentificationWarning)
        return monte_carlo(
            lambda rng: simulate_greene(n, sigma=sigma, rho=rho, rng=rng),
            {
                "free": lambda data: GreeneSelectionLogit.from_formula(
                    *FORMULAS, data, normalization="free"
                )
            },
            n_sets,
            seed,
            truth={"profile error_corr": corr, "wald error_corr": corr, "wald rho": rho},
            quantities=intervals,
        )


@pytest.mark.full
def test_few_data_sets_are_covered():
    found = coverage(3, seed=1, sigma=1.0, rho=0.6, n=600)
    profile = found.estimates[found.estimates.parameter == "profile error_corr"]
    assert found.table.loc[("free", "profile error_corr"), "coverage"] >= 0.6
    assert (profile.conf_high - profile.conf_low).between(0.1, 1.2).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "rho", "seed", "most"),
    [(1.0, 0.6, 20240601, 0.985), (1.5, 1.0, 20240602, 0.99)],  # interior, and on the edge
)
def test_profile_interval_covers_where_walds_of_rho_does_not(sigma, rho, seed, most):
    found = coverage(300, seed=seed, sigma=sigma, rho=rho)
    assert not found.failed["free"]
    shares = found.table.loc["free", "coverage"]
    profile = found.estimates[found.estimates.parameter == "profile error_corr"]
    length = (profile.conf_high - profile.conf_low).mean()
    print(f"\n300 data sets of 2,000 rows, sigma {sigma:g}, rho {rho:g}")
    print(shares.round(3).to_string())
    print(f"on a face {profile.face.mean():.3f}, length of the profile interval {length:.3f}")
    assert 0.92 <= shares["profile error_corr"] <= most
    assert not 0.92 <= shares["wald rho"] <= 0.98


@pytest.mark.parametrize("normalization", [{"sigma": 1.5}, {"rho": 0.6}])
def test_a_coefficient_held_under_a_fixed_dependence_is_an_offset(normalization):
    """With sigma or rho fixed: the fit that has b * x1 as an offset in place of x1."""
    sim = simulate_greene(600, sigma=1.5, rho=0.6, rng=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakIdentificationWarning)
        results = GreeneSelectionLogit.from_formula(
            *FORMULAS, sim.data, normalization=normalization
        ).fit()
        profile = results.profile("x1", grid=[0.6, 1.1])
        for value, found in zip(profile.grid, profile.values, strict=True):
            held = GreeneSelectionLogit.from_formula(
                "y ~ x2", FORMULAS[1], sim.data, normalization=normalization,
                offset=(value * sim.data.x1).to_numpy(),
            ).fit()  # fmt: skip
            assert found == pytest.approx(held.llf, abs=1e-6)  # a millionth of the cut's unit
