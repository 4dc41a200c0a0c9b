"""Covariance estimators against direct formulas and statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from statsmodels.stats import sandwich_covariance as sandwich

from statsmodels_mnar.inference.covariance import Ingredients, estimate, invert


@pytest.fixture(scope="module")
def logit():
    """A statsmodels logit, whose scores and Hessian are known."""
    rng = np.random.default_rng(0)
    X = sm.add_constant(rng.standard_normal((600, 2)))
    y = (rng.random(600) < 1 / (1 + np.exp(-X @ [0.2, 0.8, -0.5]))).astype(float)
    results = sm.Logit(y, X).fit(disp=False)
    groups = rng.integers(40, size=600), rng.integers(25, size=600)
    return results, groups


def ingredients(results, **more):
    model = results.model
    return Ingredients(
        hessian=model.hessian(results.params), scores=model.score_obs(results.params), **more
    )


def test_nonrobust_and_hc0_equal_statsmodels(logit):
    results, _ = logit
    parts = ingredients(results)
    np.testing.assert_allclose(estimate("nonrobust", parts).matrix, results.cov_params())
    robust = results.model.fit(disp=False, cov_type="HC0").cov_params()
    np.testing.assert_allclose(estimate("HC0", parts).matrix, robust, rtol=1e-10)
    np.testing.assert_allclose(estimate("HC1", parts).matrix, robust * 600 / 597, rtol=1e-10)


def test_opg_is_the_inverse_outer_product(logit):
    results, _ = logit
    parts = ingredients(results)
    expected = np.linalg.inv(parts.scores.T @ parts.scores)
    np.testing.assert_allclose(estimate("OPG", parts).matrix, expected, rtol=1e-10)


def test_cluster_equals_statsmodels_without_its_small_sample_factor(logit):
    results, (first, second) = logit
    parts = ingredients(results, groups=(first,), use_correction=False)
    expected = sandwich.cov_cluster(results, first, use_correction=False)
    np.testing.assert_allclose(estimate("cluster", parts).matrix, expected, rtol=1e-10)
    with_factor = ingredients(results, groups=(first,))
    np.testing.assert_allclose(
        estimate("cluster", with_factor).matrix, expected * 40 / 39, rtol=1e-10
    )
    both = ingredients(results, groups=(first, second), use_correction=False)
    two_way = sandwich.cov_cluster_2groups(results, first, second, use_correction=False)[0]
    np.testing.assert_allclose(estimate("cluster", both).matrix, two_way, rtol=1e-10)


def test_counts_are_repetitions_and_sampling_weights_are_not():
    rng = np.random.default_rng(1)
    scores, weights = rng.standard_normal((30, 2)), rng.integers(1, 4, 30).astype(float)
    hessian = -np.eye(2) * 20
    repeated = Ingredients(hessian, np.repeat(scores, weights.astype(int), axis=0))
    counted = Ingredients(hessian, scores, weights)
    for name in ("OPG", "HC0", "HC1"):
        np.testing.assert_allclose(
            estimate(name, counted).matrix, estimate(name, repeated).matrix, rtol=1e-10
        )
    sampled = Ingredients(hessian, scores, weights, sampling=True)
    weighted = weights[:, None] * scores
    np.testing.assert_allclose(estimate("HC0", sampled).matrix, weighted.T @ weighted / 400)


def test_inverse_survives_columns_of_very_different_size():
    rng = np.random.default_rng(2)
    Z, size = rng.standard_normal((50, 3)), np.array([1.0, 1e9, 1e-9])
    X = Z * size
    expected = np.linalg.inv(Z.T @ Z) / np.outer(size, size)
    np.testing.assert_allclose(invert(X.T @ X), expected, rtol=1e-10)
    assert np.isnan(invert(np.zeros((2, 2)))).all()


@pytest.mark.parametrize("name", ["HC2", "HC3", "hc0", "HAC", "stacked"])
def test_other_names_are_refused(name, logit):
    with pytest.raises(ValueError, match="cov_type"):
        estimate(name, ingredients(logit[0]))
