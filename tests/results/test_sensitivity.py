"""Sensitivity tables against separate fits and hand computations."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import chi2, norm
from statsmodels.tools.sm_exceptions import ConvergenceWarning

from statsmodels_mnar import (
    BiasCorrLogit,
    GreeneSelectionLogit,
    ProbitSelection,
    WeakIdentificationWarning,
)
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.results.inference import widened

V = math.pi**2 / 3


def fit(normalization, n=1_200, cls=GreeneSelectionLogit, rng=1, cov_type=None, **truth):
    sim = simulate_greene(n, rng=rng, **truth)
    options = {} if normalization is None else {"normalization": normalization}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakIdentificationWarning)
        return cls.from_formula(sim.formula, sim.select_formula, sim.data, **options).fit(
            cov_type=cov_type
        )


@pytest.fixture(scope="module")
def loading():
    return fit("loading")


def at_correlation(corr):
    """The point of the loading form with this error correlation."""
    if corr == 0:
        return "independent"
    return {"sigma": abs(corr) * math.sqrt(V / (1 - corr**2)), "rho": math.copysign(1.0, corr)}


@pytest.mark.parametrize("target", ["coef", "margeff", "prevalence"])
def test_each_value_equals_a_separate_fit(loading, target):
    grid = [-0.5, 0.0, 0.6]
    variable = None if target == "prevalence" else "x1"
    table = loading.sensitivity(error_corr=grid, target=target, variable=variable).table
    for corr in grid:
        other = fit(at_correlation(corr))
        if target == "coef":
            expected = other.params["x1"], other.bse["x1"]
        elif target == "margeff":
            effects = other.get_margeff()
            j = list(effects.names).index("x1")
            expected = effects.margeff[j], effects.margeff_se[j]
        else:
            found = other.get_prediction(average=True)
            expected = found.predicted[0], found.se[0]
        shown = table.loc[corr, ["estimate", "se"]].astype(float)
        np.testing.assert_allclose(shown, expected, rtol=1e-6)
        assert table.loc[corr, "loglik"] == pytest.approx(other.llf, abs=1e-8)


def scipys_maximum(results, sigma):
    """Largest log-likelihood by BFGS on integrals of its own.

    Without a sigma of the loading form, by Gauss-Legendre; with one over rho, by Gauss-Hermite.
    """
    model = results.model
    X, W, s = model.exog, model.exog_select, model.endog_select == 1
    q = 2 * model.endog[s] - 1
    p, k = X.shape[1], W.shape[1]
    x, w = np.polynomial.legendre.leggauss(120)
    e, v = np.polynomial.hermite_e.hermegauss(80)

    def negative(theta):
        a, b = X[s] @ theta[:p], W @ theta[p : p + k]
        if sigma is None:
            low = np.maximum(-b[s], -9.0)[:, None]
            half = (9.0 - low) / 2
            u = low + half * (x + 1)
            index = q[:, None] * (a[:, None] + theta[-1] * u)
            joint = (half * expit(index) * norm.pdf(u)) @ w
        else:
            rho = math.tanh(theta[-1])
            index = q[:, None] * (a[:, None] + sigma * e)
            given = norm.cdf((b[s][:, None] + rho * e) / math.sqrt(1 - rho**2))
            joint = (expit(index) * given) @ v / math.sqrt(2 * math.pi)
        return -(np.log(joint).sum() + norm.logcdf(-b[~s]).sum()) / len(W)

    apart = results._fit_info.independent.params
    best = minimize(negative, np.append(apart, 0.3), options={"gtol": 1e-7})
    return -best.fun * len(W)


CASES = [
    ("loading", "error_corr", None),
    ("independent", "error_corr", None),
    ({"sigma": 2.0, "rho": 1.0}, "error_corr", None),
    ({"sigma": 1.5}, "rho", 1.5),
    ({"sigma": 1.5}, "error_corr", 1.5),
    ({"sigma": 1.5, "rho": 0.0}, "rho", 1.5),
]


@pytest.mark.parametrize(
    ("normalization", "held", "sigma"),
    [pytest.param(*case, marks=() if i in (0, 3) else pytest.mark.full)
     for i, case in enumerate(CASES)],
)  # fmt: skip
def test_support_is_measured_from_the_maximum_along_the_path(normalization, held, sigma):
    results = fit(normalization, n=500, rng=4, sigma=1.5, rho=0.6)
    table = results.sensitivity(**{held: np.linspace(-0.5, 0.6, 7)}, variable="x1").table
    top = scipys_maximum(results, sigma)
    assert top >= table["loglik"].max() - 1e-5
    expected = 2 * (top - table["loglik"]) <= chi2.ppf(0.95, 1)
    assert expected.nunique() == 2
    assert (table["supported"] == expected).all()


def test_independence_that_the_data_reject_is_not_supported():
    results = fit("independent", n=500, rng=3)
    grid = [-0.3, 0.0, 0.3, 0.6, 0.9]
    table = results.sensitivity(error_corr=grid, variable="x1").table
    assert table["supported"].tolist() == [False, False, False, False, True]


@pytest.mark.parametrize(
    "cls", [GreeneSelectionLogit, pytest.param(ProbitSelection, marks=pytest.mark.full)]
)
def test_support_of_a_fixed_probit_dependence_agrees_with_the_profile(cls):
    results = fit({"sigma": math.inf, "rho": 0.0}, n=500, rng=4, cls=cls, sigma=3.0, rho=0.6)
    grid = np.linspace(-0.8, 0.95, 8)
    table = results.sensitivity(rho=grid, variable="x1").table
    profiled = fit("probit", n=500, rng=4, cls=cls, sigma=3.0, rho=0.6)
    plain = chi2.sf(chi2.ppf(0.95, 1) / widened(profiled), 1)  # of the set that is not widened
    low, high = profiled.profile("rho", alpha=plain).interval
    assert (table["supported"] == ((grid >= low) & (grid <= high))).all()
    assert table["supported"].nunique() == 2


def test_support_of_rho_is_not_claimed_where_sigma_is_held_at_an_estimate():
    """The profile has rho = 0.6 inside, a likelihood ratio with sigma held would not."""
    results = fit("free", n=1_500, rng=0)
    assert results.status.converged
    table = results.sensitivity(rho=[0.6], variable="x1").table
    assert "supported" not in table
    assert 2 * (results.llf - table["loglik"].iloc[0]) > chi2.ppf(0.95, 1)
    assert results.profile("rho", grid=[0.6]).summary_frame()["inside"].all()


def test_a_fit_that_is_not_at_a_maximum_is_refused():
    sim = simulate_greene(500, rng=1)
    model = GreeneSelectionLogit.from_formula(
        sim.formula, sim.select_formula, sim.data, normalization="loading"
    )
    with pytest.warns(ConvergenceWarning):
        cut = model.fit(maxiter=1)
    for keywords in ({"error_corr": [0.1], "variable": "x1"}, {"delta": [0.0]}):
        target = "coef" if "variable" in keywords else "prevalence"
        with pytest.raises(ValueError, match=r"needs a fit at a maximum \(not converged"):
            cut.sensitivity(**keywords, target=target)


@pytest.mark.parametrize(
    ("normalization", "cls", "held", "value", "fixed"),
    [
        ({"sigma": 1.5}, GreeneSelectionLogit, "rho", 0.4, {"sigma": 1.5, "rho": 0.4}),
        (
            {"sigma": 1.5}, GreeneSelectionLogit, "error_corr", 0.3,
            {"sigma": 1.5, "rho": 0.3 * math.sqrt(1.5**2 + V) / 1.5},
        ),
        (None, ProbitSelection, "rho", -0.3, {"rho": -0.3}),
        (None, ProbitSelection, "error_corr", 0.3, {"rho": 0.3}),
        ("free", GreeneSelectionLogit, "error_corr", 0.3, "path"),
    ],
)  # fmt: skip
def test_paths_of_the_other_forms(normalization, cls, held, value, fixed):
    truth = {"sigma": 1.5, "rho": 0.6}
    results = fit(normalization, cls=cls, **truth)
    if fixed == "path":  # the form the free fit ended in: its face, or the loading face
        probit = results.model.normalization == "probit"
        fixed = {"sigma": math.inf, "rho": value} if probit else at_correlation(value)
    found = results.sensitivity(**{held: [value]}, variable="x1")
    other = fit(fixed, cls=cls, **truth)
    assert found.table["estimate"].iloc[0] == pytest.approx(other.params["x1"], abs=1e-6)
    assert found.table["loglik"].iloc[0] == pytest.approx(other.llf, abs=1e-8)
    assert found.fitted == pytest.approx(getattr(results, held))


def test_robust_errors_stay_robust_and_support_is_not_claimed():
    results = fit("loading", cov_type="HC0")
    table = results.sensitivity(error_corr=[0.3], variable="x1").table
    other = fit(at_correlation(0.3), cov_type="HC0")
    assert table["se"].iloc[0] == pytest.approx(other.bse["x1"], rel=1e-6)
    assert "supported" not in table
    codes = np.arange(1_200) // 4
    clustered = results.get_robustcov_results("cluster", groups=codes)
    ours = clustered.sensitivity(error_corr=[0.3], variable="x1").table["se"].iloc[0]
    theirs = other.get_robustcov_results("cluster", groups=codes).bse["x1"]
    assert ours == pytest.approx(theirs, rel=1e-6)


def test_tipping_points_are_where_refits_change(loading):
    found = loading.sensitivity(error_corr=np.linspace(-0.3, 0.9, 5), variable="Intercept")
    tipping = found.tipping
    assert tipping["change"].tolist() == [
        "no longer different from zero above it",
        "the sign changes",
        "different from zero above it",
    ]
    z = norm.ppf(0.975)
    for at, change in zip(tipping["at"], tipping["change"], strict=True):
        sides = [fit(at_correlation(at + step)) for step in (-1e-3, 1e-3)]
        t = [side.params["Intercept"] / side.bse["Intercept"] for side in sides]
        if change == "the sign changes":
            assert t[0] * t[1] < 0
        else:
            assert (abs(t[0]) < z) != (abs(t[1]) < z)
    assert f"Tipping point at error_corr = {tipping['at'][1]:.4f}: the sign changes." in str(found)


def test_no_tipping_point_is_said(loading):
    found = loading.sensitivity(error_corr=[0.0, 0.3], variable="x1")
    assert found.tipping.empty
    assert "No tipping point for error_corr from 0 to 0.3." in str(found)
    assert found.summary_frame() is found.table


def test_worst_case_bounds_by_hand(loading):
    found = loading.sensitivity(error_corr=[0.2], target="prevalence")
    data = simulate_greene(1_200, rng=1).data
    ones, unlabelled = data["y"].sum(), (data["s"] == 0).sum()
    assert found.bounds == pytest.approx((ones / 1_200, (ones + unlabelled) / 1_200))
    assert found.tipping is None
    assert "Worst-case bounds" in str(found)


def test_delta_shifts_the_log_odds_of_unlabelled_rows(loading):
    delta = [-40.0, -1.0, 0.0, 2.0, 40.0]
    found = loading.sensitivity(delta=delta, target="prevalence")
    data = simulate_greene(1_200, rng=1).data
    missing = (data["s"] == 0).to_numpy()

    def by_hand(params, shift):
        p = loading.model.predict(params, which="mean-selected")[missing]
        return (data["y"].sum() + expit(logit(p) + shift).sum()) / 1_200

    params = np.asarray(loading.params)
    # The two sets of estimating equations, of the parameters and of the mean, stacked.
    scores = loading.model.score_obs(params)
    influence = -scores @ np.linalg.inv(loading.model.hessian(params))
    p = loading.model.predict(params, which="mean-selected")
    for shift in delta:
        estimate = by_hand(params, shift)
        assert found.table.loc[shift, "estimate"] == pytest.approx(estimate, abs=1e-12)
        steps = 1e-4 * np.eye(len(params))
        slope = np.array(
            [(by_hand(params + h, shift) - by_hand(params - h, shift)) / 2e-4 for h in steps]
        )
        own = np.where(missing, expit(logit(p) + shift), data["y"].fillna(0.0))
        se = np.linalg.norm((own - estimate) / 1_200 + influence @ slope)
        assert found.table.loc[shift, "se"] == pytest.approx(se, rel=1e-4, abs=1e-12)
    middle = found.table.loc[0.0]
    assert middle["ci_lower"] < middle["estimate"] < middle["ci_upper"]
    np.testing.assert_allclose(found.table["estimate"].iloc[[0, -1]], found.bounds, atol=1e-9)
    p1, p0 = (
        np.asarray(loading.predict(which=f"mean-{w}"))[missing] for w in ("selected", "unselected")
    )
    assert found.fitted == pytest.approx(np.mean(logit(p0) - logit(p1)))
    assert found.fitted < 0  # errors that agree in sign: the unselected have fewer ones


@pytest.mark.slow
def test_delta_intervals_cover_the_population():
    rng = np.random.default_rng(0)
    truth = np.mean(expit(-0.5 + rng.standard_normal(2_000_000)))
    inside = []
    for _ in range(300):
        x, z, u = rng.standard_normal((3, 500))
        data = pd.DataFrame({"x": x, "z": z, "s": (0.3 + 0.5 * x + z + u > 0) * 1})
        data["y"] = np.where(data.s == 1, rng.uniform(size=500) < expit(-0.5 + x), np.nan)
        results = GreeneSelectionLogit.from_formula(
            "y ~ x", "s ~ x + z", data, normalization="independent"
        ).fit()
        row = results.sensitivity(delta=[0.0], target="prevalence").table.iloc[0]
        inside.append(row["ci_lower"] < truth < row["ci_upper"])
    print(f"coverage {np.mean(inside):.3f}")
    assert 0.91 < np.mean(inside) < 0.985  # three standard errors of 0.0126


@pytest.mark.parametrize(
    ("cls", "normalization"),
    [
        (GreeneSelectionLogit, "loading"),
        pytest.param(GreeneSelectionLogit, "free", marks=pytest.mark.full),
        pytest.param(ProbitSelection, "probit", marks=pytest.mark.full),
    ],
)
def test_it_runs_where_the_likelihood_is_flat_in_the_dependence(cls, normalization):
    """A rare outcome: from some error correlation on, all of them fit as well."""
    rng = np.random.default_rng(2)
    x, z, u = rng.standard_normal((3, 300))
    data = pd.DataFrame({"x": x, "z": z, "s": (0.2 + 0.5 * x + 0.15 * z + u > 0) * 1})
    ones = rng.uniform(size=300) < expit(-3.5 + x + 1.5 * u)
    data["y"] = np.where(data.s == 1, ones, np.nan)
    model = cls.from_formula("y ~ x", "s ~ x + z", data, normalization=normalization)
    results = model._quietly().fit()
    assert "separation" not in results.status.value + str(results.summary())
    assert results.converged and results.status.boundary
    for held in ({"error_corr": [0.0, 0.5, 0.9]}, {"delta": [0.0]}):
        table = results.sensitivity(**held, target="prevalence").table
        assert np.isfinite(table[["estimate", "se", "ci_lower"]]).all(axis=None)
    found = results.sensitivity(error_corr=[0.5, 0.9], variable="x")
    assert np.isfinite(found.table["se"]).all() and "supported" in found.table


def test_weights_count_in_prevalence_and_bounds():
    sim = simulate_greene(1_200, rng=1)
    weights = np.where(np.arange(1_200) % 2, 1, 3)
    results = GreeneSelectionLogit.from_formula(
        sim.formula, sim.select_formula, sim.data, normalization="loading", freq_weights=weights
    ).fit()
    found = results.sensitivity(delta=[0.0], target="prevalence")
    y = sim.data["y"].fillna(0.0)
    assert found.bounds[0] == pytest.approx(np.average(y, weights=weights))
    p = np.asarray(results.predict(which="mean-selected"))
    filled = np.where(sim.data["s"] == 1, y, p)
    assert found.table["estimate"].iloc[0] == pytest.approx(np.average(filled, weights=weights))


def test_biascorr_shifts_labels_and_refuses_the_dependence():
    sim = simulate_greene(600, rng=1)
    results = BiasCorrLogit.from_formula(sim.formula, sim.select_formula, sim.data).fit()
    found = results.sensitivity(delta=[-1.0, 0.0], target="prevalence")
    assert found.table["estimate"].is_monotonic_increasing
    with pytest.raises(ValueError, match=r"error_corr.*sbar_path"):
        results.sensitivity(error_corr=[0.1], variable="x1")


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"rho": [0.1], "delta": [0.0]}, "give one of rho"),
        ({"error_corr": [1.0], "variable": "x1"}, "error_corr has the value 1"),
        ({"error_corr": [np.nan], "variable": "x1"}, "error_corr must be numbers"),
        ({"rho": [0.1], "variable": "x1"}, "rho cannot vary in this form"),
        ({"error_corr": [0.1], "variable": "z"}, "variable='z' must be one of"),
        ({"error_corr": [0.1], "variable": "x1", "target": "effect"}, "target='effect'"),
        ({"error_corr": [0.1], "variable": "x1", "which": "p11"}, "which='p11' is for"),
        ({"error_corr": [0.1], "variable": "x1", "target": "prevalence"}, "variable='x1'"),
        ({"delta": [0.1], "variable": "x1"}, "target='coef' needs rho or error_corr"),
        ({"error_corr": [0.1], "variable": "x1", "alpha": 0.0}, "alpha=0.0"),
    ],
)
def test_bad_combinations_are_named(loading, keywords, message):
    with pytest.raises(ValueError, match=message):
        loading.sensitivity(**keywords)


def test_caps_of_a_fixed_sigma_are_named():
    results = fit({"sigma": 1.0}, sigma=0.6)
    with pytest.raises(ValueError, match=r"error_corr has the value 0\.5.*0\.4828"):
        results.sensitivity(error_corr=[0.5], variable="x1")


def test_two_ways_of_clusters_that_are_the_same_are_one_way(loading):
    """By inclusion and exclusion: V1 + V2 - V12 = V1 where the second way is the first."""
    clusters = np.arange(int(loading.nobs)) // 20
    errors = []
    for groups in (clusters, np.column_stack([clusters, clusters])):
        robust = loading.get_robustcov_results("cluster", groups=groups)
        errors.append(robust.sensitivity(delta=[0.5], target="prevalence").table.iloc[0])
    pd.testing.assert_series_equal(errors[0], errors[1], check_names=False, rtol=1e-9)


def test_without_arguments_the_share_is_followed_over_error_correlations():
    sim = simulate_greene(600, rng=1)
    results = GreeneSelectionLogit.from_formula(sim.formula, sim.select_formula, sim.data).fit()
    found = results.sensitivity()
    assert found.target == "the prevalence"
    assert (found.table.index[0], found.table.index[-1]) == (-0.8, 0.8)
    same = results.sensitivity(error_corr=found.table.index, target="prevalence")
    pd.testing.assert_frame_equal(found.table, same.table)
    assert results.profile().param == "error_corr"
