"""Covariance estimators against direct formulas and statsmodels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.stats import sandwich_covariance as sandwich

from statsmodels_mnar.post.covariance import (
    cluster_meat,
    cluster_sums,
    estimate,
    invert,
    joined_sums,
    meat_of_sums,
    row_meat,
)


@pytest.fixture(scope="module")
def logit():
    """A statsmodels logit, whose scores and Hessian are known."""
    rng = np.random.default_rng(0)
    X = sm.add_constant(rng.standard_normal((600, 2)))
    y = (rng.random(600) < 1 / (1 + np.exp(-X @ [0.2, 0.8, -0.5]))).astype(float)
    results = sm.Logit(y, X).fit(disp=False)
    groups = rng.integers(40, size=600), rng.integers(25, size=600)
    return results, groups


@pytest.fixture(scope="module")
def parts(logit):
    """Hessian and scores."""
    results, _ = logit
    return results.model.hessian(results.params), results.model.score_obs(results.params)


def test_nonrobust_and_hc0_equal_statsmodels(logit, parts):
    results, _ = logit
    hessian, scores = parts
    np.testing.assert_allclose(estimate("nonrobust", hessian).matrix, results.cov_params())
    robust = results.model.fit(disp=False, cov_type="HC0").cov_params()
    meat = row_meat(scores)
    np.testing.assert_allclose(estimate("HC0", hessian, meat).matrix, robust, rtol=1e-10)
    expected = robust * 600 / 597
    np.testing.assert_allclose(estimate("HC1", hessian, meat).matrix, expected, rtol=1e-10)


def test_opg_is_the_inverse_outer_product(parts):
    hessian, scores = parts
    expected = np.linalg.inv(scores.T @ scores)
    found = estimate("OPG", hessian, row_meat(scores)).matrix
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_cluster_equals_statsmodels_without_its_small_sample_factor(logit, parts):
    results, (first, second) = logit
    hessian, scores = parts

    def clustered(*groups, **options):
        return estimate("cluster", hessian, cluster_meat(scores, None, groups, **options)).matrix

    expected = sandwich.cov_cluster(results, first, use_correction=False)
    np.testing.assert_allclose(clustered(first, use_correction=False), expected, rtol=1e-10)
    np.testing.assert_allclose(clustered(first), expected * 40 / 39, rtol=1e-10)
    two_way = sandwich.cov_cluster_2groups(results, first, second, use_correction=False)[0]
    np.testing.assert_allclose(clustered(first, second, use_correction=False), two_way, rtol=1e-10)


def test_cluster_sums_of_parts_add_up_to_those_of_all_rows(logit, parts):
    _, scores = parts
    keys = pd.DataFrame({"a": logit[1][0], "b": logit[1][1]})
    whole = meat_of_sums(cluster_sums(scores, None, keys), 600)
    cut = [slice(0, 100), slice(100, 101), slice(101, 600)]
    sums = [cluster_sums(scores[part], None, keys[part]) for part in cut]
    found = meat_of_sums(joined_sums(sums), 600)
    np.testing.assert_allclose(found.matrix, whole.matrix, rtol=1e-12)
    assert found.n_groups == whole.n_groups == (40, 25)


def test_clusters_of_counted_rows_are_those_of_repeated_rows():
    rng = np.random.default_rng(2)
    scores, weights = rng.standard_normal((30, 2)), rng.integers(1, 4, 30)
    groups = rng.integers(0, 6, 30)
    found = cluster_meat(scores, weights.astype(float), [groups])
    expected = cluster_meat(np.repeat(scores, weights, axis=0), None, [np.repeat(groups, weights)])
    np.testing.assert_allclose(found.matrix, expected.matrix, rtol=1e-12)


def test_counts_are_repetitions_and_sampling_weights_are_not():
    rng = np.random.default_rng(1)
    scores, weights = rng.standard_normal((30, 2)), rng.integers(1, 4, 30).astype(float)
    hessian = -np.eye(2) * 20
    repeated = row_meat(np.repeat(scores, weights.astype(int), axis=0))
    counted = row_meat(scores, weights)
    for name in ("OPG", "HC0", "HC1"):
        found, expected = (estimate(name, hessian, meat).matrix for meat in (counted, repeated))
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    sampled = row_meat(scores, weights, sampling=True)
    weighted = weights[:, None] * scores
    found = estimate("HC0", hessian, sampled).matrix
    np.testing.assert_allclose(found, weighted.T @ weighted / 400)


def test_inverse_survives_columns_of_very_different_size():
    rng = np.random.default_rng(2)
    Z, size = rng.standard_normal((50, 3)), np.array([1.0, 1e9, 1e-9])
    X = Z * size
    expected = np.linalg.inv(Z.T @ Z) / np.outer(size, size)
    np.testing.assert_allclose(invert(X.T @ X), expected, rtol=1e-10)
    assert np.isnan(invert(np.zeros((2, 2)))).all()


def test_an_indefinite_matrix_has_no_inverse_that_is_a_covariance():
    saddle = np.array([[2.0, 3.0], [3.0, 1.0]])
    assert np.isnan(invert(saddle)).all() and np.isnan(invert(-saddle)).all()
    bowl = np.array([[2.0, 1.0], [1.0, 1.0]])
    np.testing.assert_allclose(invert(-bowl), -np.linalg.inv(bowl))


@pytest.mark.parametrize("name", ["HC2", "HC3", "hc0", "HAC", "stacked"])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="cov_type"):
        estimate(name, np.eye(2))
