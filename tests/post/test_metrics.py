"""Figures of a score with fractional labels: against scikit-learn, brute force and differences."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import ks_2samp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, roc_auc_score

from statsmodels_mnar.post import metrics

FIGURES = {
    "auc": metrics.auc,
    "auc of counts": lambda s, p, w: metrics.auc(s, p, w, counts=True),
    "ks": metrics.ks,
    "brier": metrics.brier,
    "rate": lambda s, p, w: metrics.rate(p, w),
    "gap": lambda s, p, w: metrics.rate(p, w, s),
    "intercept": lambda s, p, w: metrics.calibration_line(s, p, w)[0],
    "slope": lambda s, p, w: metrics.calibration_line(s, p, w)[1],
}


@pytest.fixture
def rows():
    """A score with ties, hard labels and weights."""
    rng = np.random.default_rng(3)
    score = np.round(rng.random(200), 1) * 0.9 + 0.05
    labels = (rng.random(200) < score).astype(float)
    return score, labels, rng.uniform(0.5, 3.0, 200)


def fractional(labels):
    rng = np.random.default_rng(5)
    return np.where(rng.random(len(labels)) < 0.5, labels, rng.random(len(labels)))


def test_auc_of_hard_labels_is_that_of_scikit_learn(rows):
    score, labels, weights = rows
    found = metrics.auc(score, labels, weights).value
    assert_allclose(found, roc_auc_score(labels, score, sample_weight=weights), rtol=1e-12)


def test_ks_of_hard_labels_is_that_of_scipy(rows):
    score, labels, _ = rows
    expected = ks_2samp(score[labels == 1], score[labels == 0]).statistic
    assert_allclose(metrics.ks(score, labels, np.ones(200)).value, expected, rtol=1e-12)
    assert_allclose(metrics.ks(-score, labels, np.ones(200)).value, expected, rtol=1e-12)


def test_brier_and_calibration_are_those_of_scikit_learn(rows):
    score, labels, weights = rows
    expected = brier_score_loss(labels, score, sample_weight=weights)
    assert_allclose(metrics.brier(score, labels, weights).value, expected, rtol=1e-12)
    line = LogisticRegression(C=np.inf, tol=1e-10).fit(
        np.log(score / (1 - score))[:, None], labels, sample_weight=weights
    )
    intercept, slope = metrics.calibration_line(score, labels, weights)
    assert_allclose(
        [intercept.value, slope.value], [line.intercept_[0], line.coef_[0, 0]], rtol=1e-4
    )


def test_auc_of_fractional_labels_is_the_expected_pair_count():
    rng = np.random.default_rng(1)
    score = np.array([0.2, 0.5, 0.5, 0.1, 0.9])
    p = np.array([0.3, 1.0, 0.6, 0.0, 0.8])
    w = rng.uniform(0.5, 2.0, 5)
    concordant = total = 0.0
    for labels in product([0, 1], repeat=5):  # over all completions
        labels = np.array(labels)
        chance = np.prod(np.where(labels == 1, p, 1 - p))
        for i, j in product(range(5), repeat=2):
            if labels[i] == 1 and labels[j] == 0:
                pair = chance * w[i] * w[j]
                total += pair
                concordant += pair * ((score[i] > score[j]) + 0.5 * (score[i] == score[j]))
    assert_allclose(metrics.auc(score, p, w).value, concordant / total, rtol=1e-12)


def test_auc_of_counts_is_that_of_repeated_rows(rows):
    score, labels, _ = rows
    p = fractional(labels)
    counts = np.random.default_rng(0).integers(0, 4, 200)
    repeated = metrics.auc(score.repeat(counts), p.repeat(counts), np.ones(counts.sum()))
    counted = metrics.auc(score, p, counts.astype(float), counts=True)
    assert_allclose(counted.value, repeated.value, rtol=1e-12)
    sums = np.bincount(np.repeat(np.arange(200), counts), repeated.by_row, minlength=200)
    assert_allclose(counted.by_row, sums, atol=1e-5)  # up to the rows' pairs with themselves


@pytest.mark.parametrize("name", FIGURES)
def test_derivatives_are_those_of_finite_differences(rows, name):
    score, labels, weights = rows
    p = fractional(labels)
    figure = FIGURES[name]
    found = figure(score, p, weights)
    for k in (0, 7, 50, 133):
        unit = np.eye(200)[k] * 1e-6

        def slope(up, down):
            return (figure(score, *up).value - figure(score, *down).value) / 2e-6

        by_label = slope((p + unit, weights), (p - unit, weights))
        by_weight = slope((p, weights + unit), (p, weights - unit))
        assert_allclose(found.by_label[k], by_label, atol=1e-9)
        assert_allclose(found.by_row[k], weights[k] * by_weight, atol=1e-9)


def test_auc_influence_is_delongs_decomposition(rows):
    score, labels, _ = rows
    ones, zeros = score[labels == 1], score[labels == 0]
    kernel = (ones[:, None] > zeros) + 0.5 * (ones[:, None] == zeros)
    delong = kernel.mean(1).var() / len(ones) + kernel.mean(0).var() / len(zeros)
    found = metrics.auc(score, labels, np.ones(200)).by_row
    assert_allclose(found @ found, delong, rtol=1e-12)


def test_calibration_line_is_nan_where_it_has_no_log_odds():
    score = np.array([0.0, 0.4, 0.6, 1.0])
    labels = np.array([0.0, 1, 0, 1])
    assert np.isnan(metrics.calibration_line(score, labels, np.ones(4))[0].value)
    separated = metrics.calibration_line(
        np.array([0.1, 0.2, 0.8, 0.9]), np.array([0.0, 0, 1, 1]), np.ones(4)
    )
    assert np.isnan(separated[1].value)


def test_intervals_stay_in_range():
    low, high = metrics.interval("auc", 0.99, 0.02, 0.05)
    assert 0 < low < 0.99 < high < 1
    assert_allclose(metrics.interval("gini", 0.98, 0.04, 0.05), [2 * low - 1, 2 * high - 1])
    assert metrics.interval("calibration_slope", 1.0, 0.1, 0.05)[1] == pytest.approx(
        1.196, abs=1e-3
    )
