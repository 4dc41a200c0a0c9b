"""The classifiers give the numbers of the statsmodels classes, and work where scikit-learn does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from statsmodels_mnar import MLP, BiasCorrLogit, GreeneSelectionLogit, ProbitSelection
from statsmodels_mnar.baselines import (
    FuzzyAugmentation,
    IPWLogit,
    Parcelling,
    Reclassification,
    ScoreBandAugmentation,
)
from statsmodels_mnar.datasets import load_adult, simulate_greene
from statsmodels_mnar.errors import NoExclusionRestrictionWarning
from statsmodels_mnar.learn import (
    BiasCorrClassifier,
    FuzzyAugmentationClassifier,
    GreeneClassifier,
    IPWClassifier,
    LabelledKFold,
    ParcellingClassifier,
    ProbitSelectionClassifier,
    ReclassificationClassifier,
    ScoreBandClassifier,
    labelled_scorer,
    population_scorer,
)

FORMULAS = ("y ~ x1 + x2", "s ~ x1 + x2 + z")
SAME: dict[str, tuple[Any, dict[str, Any], Any, dict[str, Any]]] = {
    "Greene": (GreeneClassifier, {}, GreeneSelectionLogit, {}),
    "Greene free": (
        GreeneClassifier, {"normalization": {"sigma": 1.0}},
        GreeneSelectionLogit, {"normalization": {"sigma": 1.0}},
    ),
    "probit": (ProbitSelectionClassifier, {}, ProbitSelection, {}),
    **{
        f"BiasCorr {select} {label if isinstance(label, str) else 'mlp'}": (
            BiasCorrClassifier, {"selection_model": select, "pseudolabel_model": label},
            BiasCorrLogit, {"selection_model": select, "pseudolabel_model": label},
        )
        for select in ("probit", "logit")
        for label in ("logit", MLP(epochs=50))
    },
    "IPW": (IPWClassifier, {"stabilized": True}, IPWLogit, {"stabilized": True}),
    "reclassification": (ReclassificationClassifier, {}, Reclassification, {}),
    "fuzzy": (FuzzyAugmentationClassifier, {"odds_ratio": 2.0}, FuzzyAugmentation,
              {"odds_ratio": 2.0}),
    "parcelling": (ParcellingClassifier, {"factor": 1.5}, Parcelling, {"factor": 1.5}),
    "score bands": (ScoreBandClassifier, {"n_bands": 5}, ScoreBandAugmentation, {"n_bands": 5}),
}  # fmt: skip
STATISTICS = {"population": "mean", "unlabelled": "mean-unselected", "labelled": "mean-selected"}


@pytest.fixture(scope="module")
def data():
    return simulate_greene(600, rng=3).data


# All four settings of the paper are met by -m full.
RARE = ("Greene free", "BiasCorr probit mlp", "BiasCorr logit mlp", "BiasCorr logit logit")


@pytest.mark.parametrize(
    "name", [pytest.param(k, marks=pytest.mark.full) if k in RARE else k for k in SAME]
)
def test_numbers_are_those_of_the_statsmodels_class(name, data):
    """Coefficients, index and probabilities within 1e-8."""
    cls, options, model, how = SAME[name]
    X, y = data[["x1", "z", "x2"]], data["y"]
    classifier = cls(outcome_features=["x1", "x2"], selection_features=["x1", "x2", "z"], **options)
    classifier.fit(X, y)
    results = model.from_formula(*FORMULAS, data, **how).fit(penalty=1e-4)
    params = np.asarray(results.params)
    np.testing.assert_allclose(classifier.intercept_, params[:1], atol=1e-8)
    np.testing.assert_allclose(classifier.coef_[0, [0, 2]], params[1:3], atol=1e-8)
    assert classifier.coef_[0, 1] == 0.0
    index = np.asarray(results.predict(data, which="linear"))
    np.testing.assert_allclose(classifier.decision_function(X), index, atol=1e-8)
    two_equations = hasattr(classifier, "select_coef_")
    for which, statistic in STATISTICS.items():
        expected = results.predict(data, which=statistic) if two_equations else results.predict()
        np.testing.assert_allclose(
            classifier.predict_proba(X, which=which)[:, 1], expected, atol=1e-8
        )
    if two_equations:
        found = [*classifier.select_intercept_, *classifier.select_coef_[0, [0, 2, 1]]]
        np.testing.assert_allclose(found, params[3:7], atol=1e-8)
    assert (classifier.predict(X) == (classifier.predict_proba(X)[:, 1] > 0.5)).all()


@pytest.mark.parametrize(
    "cls",
    [
        GreeneClassifier,
        pytest.param(ProbitSelectionClassifier, marks=pytest.mark.full),
        pytest.param(BiasCorrClassifier, marks=pytest.mark.full),
        IPWClassifier,
        ReclassificationClassifier,
        FuzzyAugmentationClassifier,
        ScoreBandClassifier,
    ],
)
def test_a_weight_of_two_is_a_row_twice_and_zero_is_none(cls, data):
    weights = np.arange(len(data)) % 3
    X, y = data[["x1", "x2", "z"]], data["y"]
    rows = np.repeat(np.arange(len(data)), weights)
    weighted = cls(outcome_features=["x1", "x2"]).fit(X, y, weights)
    repeated = cls(outcome_features=["x1", "x2"]).fit(X.iloc[rows], y.iloc[rows])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-5, atol=1e-7)


def test_groups_cluster_the_standard_errors(data):
    X, y, groups = data[["x1", "x2", "z"]], data["y"], np.arange(len(data)) // 3
    model = GreeneClassifier(outcome_features=["x1", "x2"]).fit(X, y, groups=groups)
    direct = GreeneSelectionLogit.from_formula(*FORMULAS, data).fit(
        penalty=1e-4, cov_type="cluster", cov_kwds={"groups": groups}
    )
    np.testing.assert_allclose(model.results_.bse, direct.bse, rtol=1e-6)


@pytest.mark.parametrize("penalty", [0.0, 1e-4])
def test_no_exclusion_restriction_is_warned_of_once(penalty, data):
    with pytest.warns(NoExclusionRestrictionWarning) as caught:
        GreeneClassifier(penalty=penalty).fit(data[["x1", "x2", "z"]], data["y"])
    assert [w.category for w in caught].count(NoExclusionRestrictionWarning) == 1
    assert caught[0].filename == __file__


def test_collinear_dummies_and_constant_columns_do_no_harm(data):
    """As one-hot encoding makes them; the coefficient of the constant is zero."""
    extra = data[["x1", "z"]].assign(
        one=1.0, none=0.0, low=(data.x1 < 0).astype(float), high=(data.x1 >= 0).astype(float)
    )
    outcome = [name for name in extra if name != "z"]
    model = GreeneClassifier(outcome_features=outcome).fit(extra, data["y"])
    assert np.isfinite(model.coef_).all()
    np.testing.assert_allclose(model.coef_[0, 3], 0.0, atol=1e-6)
    np.testing.assert_allclose(model.coef_[0, 4], -model.coef_[0, 5], atol=1e-4)


def test_metadata_reach_fit_scores_and_folds(data):
    X, y = data[["x1", "x2", "z"]], data["y"]
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(data))
    groups = np.arange(len(data)) // 3
    with sklearn.config_context(enable_metadata_routing=True):
        ipw = IPWClassifier(outcome_features=["x1", "x2"]).set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_output(transform="pandas")
        search = GridSearchCV(
            make_pipeline(scaler.set_fit_request(sample_weight=False), ipw),
            {"ipwclassifier__trim": [0.0, 0.2]},
            scoring=labelled_scorer("neg_brier_score").set_score_request(sample_weight=True),
            cv=LabelledKFold(3),
        )
        search.fit(X, y, sample_weight=weights, groups=groups)
    best = search.best_estimator_
    direct = IPWClassifier(outcome_features=["x1", "x2"], trim=best[-1].trim)
    direct.fit(best[0].transform(X), y, weights)
    np.testing.assert_allclose(best[-1].coef_, direct.coef_, rtol=1e-10)
    fold = next(iter(LabelledKFold(3).split(X, y, groups)))[1]
    train = np.setdiff1d(np.arange(len(X)), fold)
    best.set_params(ipwclassifier__trim=0.0)
    with sklearn.config_context(enable_metadata_routing=True):
        again = best.fit(X.iloc[train], y.iloc[train], sample_weight=weights[train])
    seen = fold[y.iloc[fold].notna()]
    p = again.predict_proba(X.iloc[seen])[:, 1]
    brier = np.average((p - y.iloc[seen]) ** 2, weights=weights[seen])
    assert search.cv_results_["split0_test_score"][0] == pytest.approx(-brier)


@pytest.mark.full
def test_a_pipeline_on_adult_with_hidden_labels(shared):
    """Scaling, one-hot encoding and a grid search; labels of the rich are hidden more often."""
    adult = load_adult(shared / "data").dropna()
    words = make_column_selector(dtype_exclude="number")
    numbers = make_column_selector(dtype_include="number")
    encode = ColumnTransformer(
        [
            ("words", OneHotEncoder(sparse_output=False), words),
            ("numbers", StandardScaler(), numbers),
        ],
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    greene = GreeneClassifier(outcome_features=lambda X: [c for c in X if c != "z"])

    def hidden(seed):
        """Features, labels of those who are seen, and all labels of 3,000 rows."""
        some, rng = adult.sample(3_000, random_state=seed), np.random.default_rng(seed)
        z, truth = rng.standard_normal(len(some)), some["income"].to_numpy()
        index = 0.4 + 0.02 * (some["age"] - 38) + z - 1.2 * truth
        seen = index + rng.standard_normal(len(some)) > 0
        X = some[["age", "education_num", "hours_per_week", "sex", "relationship"]].assign(z=z)
        return X, pd.Series(truth, index=some.index).where(seen), truth

    # A single sample's prevalence has a standard error of 0.016; the mean of four is near.
    errors, naive = [], []
    for seed in range(4):
        X, y, truth = hidden(seed)
        model = make_pipeline(encode, greene).fit(X, y)
        errors.append(model.predict_proba(X)[:, 1].mean() - truth.mean())
        naive.append(y.mean() - truth.mean())
        estimate = model[-1].results_.get_prediction(average=True).summary_frame()
        assert abs(errors[-1]) < 2.6 * float(estimate["se"].iloc[0])
    assert abs(np.mean(naive)) > 0.08
    assert abs(np.mean(errors)) < 0.15 * abs(np.mean(naive))

    search = GridSearchCV(
        make_pipeline(encode, greene),
        {"greeneclassifier__penalty": [1e-4, 1e-1]},
        scoring={
            "labelled": labelled_scorer("roc_auc"),
            "population": population_scorer("neg_brier_score", model=model),
        },
        refit="population",
        cv=LabelledKFold(3),
    ).fit(X, y)
    assert search.best_params_ == {"greeneclassifier__penalty": 1e-4}
    assert (search.cv_results_["mean_test_labelled"] > 0.8).all()
    assert "z" in search.best_estimator_[-1].feature_names_in_
