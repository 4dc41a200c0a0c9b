"""Inverse-probability weighting against statsmodels, finite differences and simulation."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import expit, ndtr
from scipy.stats import norm

from statsmodels_mnar.baselines import IPWLogit, NaiveLogit
from statsmodels_mnar.datasets import simulate_deterministic, simulate_mar
from statsmodels_mnar.errors import PerfectSeparationError


@pytest.fixture(scope="module")
def simulated():
    return simulate_mar(900, rng=6)


def build(simulated, **options):
    return IPWLogit.from_formula(
        simulated.formula, simulated.select_formula, simulated.data, **options
    )


def test_estimates_are_a_weighted_glm_of_statsmodels(simulated):
    data = simulated.data
    prob = sm.Probit.from_formula("s ~ x1 + x2 + z", data).fit(disp=False).predict()
    seen = data[data.s == 1].assign(w=1 / prob[data.s == 1])
    theirs = sm.GLM.from_formula(
        "y ~ x1 + x2", seen, family=sm.families.Binomial(), var_weights=seen.w / seen.w.mean()
    ).fit(cov_type="HC0", tol=1e-12)
    ours = build(simulated).fit(cov_type="HC0")
    np.testing.assert_allclose(ours.params, theirs.params, rtol=1e-5)
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-5)
    np.testing.assert_allclose(ours.weights, seen.w / seen.w.mean(), rtol=1e-5)
    np.testing.assert_allclose(ours.prob_select, prob, rtol=1e-5)
    w = seen.w
    assert ours.effective_nobs == pytest.approx(w.sum() ** 2 / (w**2).sum(), rel=1e-5)


def moments(theta, data, link, stabilized, trim):
    """(n, q) stacked estimating equations, written without the package."""
    cdf, pdf = (ndtr, norm.pdf) if link == "probit" else (expit, lambda v: expit(v) * expit(-v))
    X = np.column_stack([np.ones(len(data)), data.x1, data.x2])
    W = np.column_stack([X, data.z])
    s, y = data.s.to_numpy(), data.y.fillna(0.0).to_numpy()
    beta, gamma, alpha = theta[:3], theta[3:7], theta[7:]
    parts, p = [], cdf(W @ gamma)
    parts.append(((s - p) * pdf(W @ gamma) / (p * (1 - p)))[:, None] * W)
    weight = 1 / np.maximum(p, trim)
    if stabilized:
        q = cdf(X @ alpha)
        parts.append(((s - q) * pdf(X @ alpha) / (q * (1 - q)))[:, None] * X)
        weight = weight * q
    parts.insert(0, (s * weight * (y - expit(X @ beta)))[:, None] * X)
    return np.hstack(parts)


@pytest.mark.parametrize(
    ("link", "stabilized", "trim"),
    [("probit", False, 0.0), ("logit", False, 0.0), ("probit", True, 0.0), ("logit", True, 0.3)],
)
def test_stacked_covariance_is_that_of_the_stacked_moments(simulated, link, stabilized, trim):
    data = simulated.data
    results = build(simulated, selection_model=link, stabilized=stabilized, trim=trim).fit()
    stage = sm.Probit if link == "probit" else sm.Logit
    pieces = [results.params, stage.from_formula("s ~ x1 + x2 + z", data).fit(disp=False).params]
    if stabilized:
        pieces.append(stage.from_formula("s ~ x1 + x2", data).fit(disp=False).params)
    theta = np.concatenate(pieces)

    def total(theta):
        return moments(theta, data, link, stabilized, trim).sum(axis=0)

    rows = moments(theta, data, link, stabilized, trim)
    np.testing.assert_allclose(total(theta), 0.0, atol=1e-3)  # both are at the same solution
    steps = 1e-6 * np.eye(len(theta))
    jacobian = np.column_stack([(total(theta + h) - total(theta - h)) / 2e-6 for h in steps])
    influence = np.linalg.solve(jacobian, rows.T)
    np.testing.assert_allclose(results.cov_params(), (influence @ influence.T)[:3, :3], rtol=1e-4)


def test_trimming_bounds_the_weights(simulated):
    results = build(simulated, trim=0.4).fit()
    plain = build(simulated).fit()
    assert results.weights.max() / results.weights.min() <= 1 / 0.4
    assert plain.weights.max() / plain.weights.min() > 1 / 0.4


def test_deterministic_selection_has_no_weights():
    with pytest.raises(PerfectSeparationError, match="selection equation"):
        build(simulate_deterministic(500)).fit()


def coverage(replications, n, seed):
    """Shares of 95% intervals that hold the truth: stacked, HC0, and the naive logit's."""
    held = np.zeros((3, 3))
    for child in np.random.default_rng(seed).spawn(replications):
        simulated = simulate_mar(n, rng=child)
        model = build(simulated)
        naive = NaiveLogit(model.design.y, model.design.X).fit()
        truth = np.array([simulated.truth[name] for name in ("Intercept", "x1", "x2")])
        fits = (model.fit(), model.fit(cov_type="HC0"), naive)
        for row, results in zip(held, fits, strict=True):
            row += np.abs(results.params.to_numpy() - truth) < 1.96 * results.bse.to_numpy()
    return held / replications


@pytest.mark.full
def test_intervals_hold_the_truth_where_the_naive_do_not():
    stacked, _, naive = coverage(60, 1_000, seed=1)
    assert (stacked > 0.86).all()  # 0.95 less three Monte Carlo errors
    assert naive[0] < 0.5


@pytest.mark.slow
def test_coverage_of_stacked_intervals():
    stacked, _, _ = coverage(1_000, 2_000, seed=2)
    np.testing.assert_allclose(stacked, 0.95, atol=0.025)
