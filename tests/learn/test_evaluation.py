"""Scores over labelled rows, scores of the population, and folds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.learn import (
    GreeneClassifier,
    LabelledKFold,
    labelled_scorer,
    population_scorer,
)

METRICS = {
    "roc_auc": lambda y, p, w: roc_auc_score(y, p, sample_weight=w),
    "neg_brier_score": lambda y, p, w: -brier_score_loss(y, p, sample_weight=w),
    "neg_log_loss": lambda y, p, w: -log_loss(y, p, sample_weight=w),
    "accuracy": lambda y, p, w: accuracy_score(y, p > 0.5, sample_weight=w),
}


@pytest.fixture(scope="module")
def setting():
    data = simulate_greene(1_500, rng=1).data
    X, y = data[["x1", "x2", "z"]], data["y"]
    greene = GreeneClassifier(outcome_features=["x1", "x2"]).fit(X, y)
    naive = LogisticRegression().fit(X[y.notna()], y.dropna())
    return X, y, greene, naive, data["y_full"]


def test_unlabelled_rows_are_no_errors(setting):
    X, y, greene, *_ = setting
    seen = y.notna()
    expected = roc_auc_score(y[seen], greene.decision_function(X[seen]))
    assert labelled_scorer()(greene, X, y) == pytest.approx(expected)
    coded = y.fillna(-1).astype(int)
    assert labelled_scorer("accuracy")(greene, X, coded) == pytest.approx(greene.score(X, y))
    assert cross_val_score(greene, X, coded, cv=3).mean() > 0.55  # by its own score, too
    with pytest.raises(ValueError, match="no row to score has a label"):
        labelled_scorer()(greene, X[~seen], y[~seen])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("weighted", [False, True])
def test_population_scores_are_those_of_rows_split_by_their_probability(setting, metric, weighted):
    """An unlabelled row is a one and a zero, weighted by the probability of each."""
    X, y, greene, naive, _ = setting
    weights = np.arange(1, len(y) + 1) % 4 if weighted else np.ones(len(y))
    seen = y.notna().to_numpy()
    p_one = greene.predict_proba(X[~seen], which="unlabelled")[:, 1]
    score = naive.predict_proba(X)[:, 1]
    labels = np.concatenate([y[seen], np.ones(len(p_one)), np.zeros(len(p_one))])
    scores = np.concatenate([score[seen], score[~seen], score[~seen]])
    w = weights
    by_row = np.concatenate([w[seen], w[~seen] * p_one, w[~seen] * (1 - p_one)])
    found = population_scorer(metric, model=greene)(naive, X, y, weights if weighted else None)
    # The AUC here forms no pair of a row with itself: of order 1/n.
    tolerance = 1e-3 if metric == "roc_auc" else 1e-10
    assert found == pytest.approx(METRICS[metric](labels, scores, by_row), abs=tolerance)


def test_population_scores_are_near_the_truth_where_those_of_labelled_rows_are_not(setting):
    X, y, greene, naive, full = setting
    truth = -brier_score_loss(full, naive.predict_proba(X)[:, 1])
    found = population_scorer("neg_brier_score", model=greene)(naive, X, y)
    labelled = labelled_scorer("neg_brier_score")(naive, X, y)
    assert abs(found - truth) < 0.01 < abs(labelled - truth)


def test_a_pipeline_can_be_the_model(setting):
    X, y, greene, naive, _ = setting
    scaler = StandardScaler().set_output(transform="pandas")
    piped = make_pipeline(scaler, GreeneClassifier(outcome_features=["x1", "x2"])).fit(X, y)
    one, other = (population_scorer(model=model)(naive, X, y) for model in (greene, piped))
    assert one == pytest.approx(other, abs=1e-6)


def test_what_cannot_score_is_named(setting):
    X, y, greene, naive, _ = setting
    with pytest.raises(ValueError, match="metric='f1' is unknown"):
        population_scorer("f1", model=greene)
    with pytest.raises(ValueError, match="must be a fitted classifier"):
        population_scorer(model=GreeneClassifier())
    with pytest.raises(ValueError, match="none of the model's classes"):
        population_scorer(model=greene)(naive, X, y + 5)
    three = LogisticRegression().fit(X, y.fillna(-1))
    with pytest.raises(ValueError, match="takes -1 or NaN as a class"):
        population_scorer(model=greene)(three, X, y)


@pytest.mark.parametrize("grouped", [False, True])
def test_folds_keep_the_shares(setting, grouped):
    X, y, *_ = setting
    groups = np.arange(len(y)) // 5 if grouped else None
    tested = []
    for train, test in LabelledKFold(5, shuffle=True, random_state=0).split(X, y, groups):
        part = y.iloc[test]
        # One row of rounding; groups of five rows can be balanced less well.
        close = 0.05 if grouped else 1.5 / len(part)
        assert part.isna().mean() == pytest.approx(y.isna().mean(), abs=close)
        assert part.mean() == pytest.approx(y.mean(), abs=2 * close)
        assert not set(train) & set(test)
        if grouped:
            assert not set(groups[train]) & set(groups[test])
        tested.extend(test)
    assert sorted(tested) == list(range(len(y)))


def test_folds_of_words_and_without_labels():
    y = pd.Series(["a", "b", None, "c"] * 6, dtype=object)
    for _, test in LabelledKFold(3).split(y.to_frame(), y):
        assert y.iloc[test].value_counts(dropna=False).tolist() == [2, 2, 2, 2]
    with pytest.raises(ValueError, match="needs y"):
        next(LabelledKFold().split(np.zeros((4, 1))))
    assert repr(LabelledKFold(3)).startswith("LabelledKFold(n_splits=3, shuffle=False")
    assert LabelledKFold(3).get_n_splits() == 3
