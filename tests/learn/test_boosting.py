"""Boosted trees under selection: ordinary boosters at zero loading, and what correction gains."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import clone
from statsmodels.tools.sm_exceptions import ModelWarning

from statsmodels_mnar.errors import NoExclusionRestrictionWarning
from statsmodels_mnar.learn import BoostedSelectionClassifier, SelectionLoss
from statsmodels_mnar.learn.loading import best_loading

SMALL = {"lightgbm": {"num_leaves": 6}, "xgboost": {"max_depth": 3}}


@pytest.fixture(params=SMALL)
def booster(request):
    pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    return request.param


def simulate(n, rng, loading=1.5, instrument=1.0):
    """Steps and an interaction; z moves selection only."""
    rng = np.random.default_rng(rng)
    x, z, u = rng.normal(size=(n, 3)), rng.normal(size=n), rng.normal(size=n)
    a = -0.8 + 1.2 * (x[:, 0] > 0.3) + 0.8 * x[:, 0] * x[:, 1]
    b = 0.1 + 0.7 * (x[:, 0] > -0.2) - 0.3 * x[:, 2] + instrument * z
    full = (rng.random(n) < expit(a + loading * u)).astype(int)
    frame = pd.DataFrame({"x0": x[:, 0], "x1": x[:, 1], "x2": x[:, 2], "z": z})
    return frame, np.where(b + u > 0, full, -1), full


def build(booster, **options):
    options = {"params": SMALL[booster], "n_jobs": 1, **options}
    return BoostedSelectionClassifier(booster, outcome_features=["x0", "x1", "x2"], **options)


@pytest.mark.parametrize("weighted", [False, True])
def test_without_dependence_it_is_the_library_s_own_booster(booster, weighted):
    X, y, _ = simulate(1_500, 0)
    seen = y >= 0
    weight = np.linspace(0.5, 2.0, len(y)) if weighted else None
    model = build(booster, loading=0.0, early_stopping=None, n_estimators=15)
    model.fit(X, y, sample_weight=weight)
    p = model.predict_proba(X)[:, 1]

    own = None if weight is None else weight[seen]
    mean = float(np.average(y[seen], weights=own))
    columns = X[["x0", "x1", "x2"]].to_numpy()
    settings = {**SMALL[booster], "learning_rate": 0.1, "seed": 0}
    if booster == "lightgbm":
        import lightgbm

        settings |= {"objective": "binary", "verbosity": -1, "num_threads": 1}
        data = lightgbm.Dataset(columns[seen], y[seen], weight=own)
        ordinary = lightgbm.train(settings, data, 15)
        expected = ordinary.predict(columns)
        same = ["split_feature", "threshold", "decision_type", "left_child", "right_child"]
        trees, others = (each.trees_to_dataframe() for each in (model.outcome_booster_, ordinary))
        assert trees[same[:3]].equals(others[same[:3]])
    else:
        import xgboost

        settings |= {"objective": "binary:logistic", "nthread": 1, "base_score": mean}
        data = xgboost.DMatrix(columns[seen], y[seen], weight=own)
        ordinary = xgboost.train(settings, data, 15)
        expected = ordinary.predict(xgboost.DMatrix(columns))
        trees, others = (each.trees_to_dataframe() for each in (model.outcome_booster_, ordinary))
        pd.testing.assert_frame_equal(trees[["Node", "Feature"]], others[["Node", "Feature"]])
        np.testing.assert_allclose(trees["Split"], others["Split"])
    np.testing.assert_allclose(p, expected, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X, "unlabelled")[:, 1], expected, atol=1e-6)


def test_correction_finds_the_loading_and_the_prevalence(booster):
    X, y, full = simulate(5_000, 1)
    model = build(booster, learning_rate=0.2).fit(X, y)
    naive = build(booster, learning_rate=0.2, loading=0.0).fit(X, y)
    truth = full.mean()
    wrong = abs(naive.predict_proba(X)[:, 1].mean() - truth)
    assert wrong > 0.08
    assert abs(model.predict_proba(X)[:, 1].mean() - truth) < 0.3 * wrong
    assert 0.9 < model.loading_ < 2.1
    hidden = y < 0
    unseen = model.predict_proba(X[hidden], which="unlabelled")[:, 1].mean()
    assert abs(unseen - full[hidden].mean()) < 0.05
    assert abs(model.selection_proba(X).mean() - (y >= 0).mean()) < 0.02
    path = model.loading_path_
    best = path.loc[path.log_likelihood.idxmax(), "loading"]
    assert abs(best - model.loading_) < 0.3
    table = model.importances()
    assert np.isnan(table.loc["z", "outcome"]) and table["selection"].idxmax() == "z"
    assert model.feature_importances_.sum() == pytest.approx(1.0)

    again = clone(model)
    assert again.get_params()["booster"] == booster and not hasattr(again, "loading_")
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.predict_proba(X), model.predict_proba(X))


def test_rows_of_a_native_booster_give_the_index():
    lightgbm = pytest.importorskip("lightgbm")
    X, y, _ = simulate(800, 2)
    model = build("lightgbm", loading=1.0, early_stopping=None, n_estimators=5).fit(X, y)
    assert isinstance(model.outcome_booster_, lightgbm.Booster)
    columns = ["x0", "x1", "x2"]
    a = model.start_[0] + model.outcome_booster_.predict(X[columns], raw_score=True)
    expected = SelectionLoss().probability(a, None, 1.0)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expected)


def test_monotone_constraints_categories_and_missing_features(booster):
    X, y, _ = simulate(1_500, 3)
    words = pd.Series(np.where(X["x1"] > 0, "high", "low"), dtype="category")
    X = X.assign(x1=words, x2=X["x2"].mask(X["x2"] > 1.5))
    options = {"early_stopping": None, "n_estimators": 20, "loading": 1.0}
    model = build(booster, monotone_constraints={"x0": -1}, **options).fit(X, y)
    line = pd.DataFrame({"x0": np.linspace(-2, 2, 30), "x1": "low", "x2": 0.0, "z": 0.0})
    line["x1"] = line["x1"].astype(pd.CategoricalDtype(["low", "high"]))  # another order
    p = model.predict_proba(line)[:, 1]
    assert (np.diff(p) <= 1e-12).all()
    free = build(booster, **options).fit(X, y).predict_proba(line)[:, 1]
    assert (np.diff(free) > 0).any()
    codes = X.assign(x1=(X["x1"] == "low").astype(float))
    coded = build(
        booster, monotone_constraints=[-1, 0, 0, 0], categorical_features=["x1"], **options
    ).fit(codes, y)
    np.testing.assert_allclose(coded.predict_proba(codes), model.predict_proba(X))
    # A category that was never seen is a missing value.
    unknown = line.assign(x1=pd.Categorical(["other"] * 30))
    missing = line.assign(x1=pd.Categorical([None] * 30, categories=["low", "high"]))
    np.testing.assert_array_equal(model.predict_proba(unknown), model.predict_proba(missing))


def test_native_training_with_two_outputs_learns_both_indices(booster):
    X, y, full = simulate(2_000, 4)
    loss, columns = SelectionLoss(), X.to_numpy()
    fobj = loss.objective(booster, loading=1.5)
    metric = loss.metric(booster, loading=1.5)
    if booster == "lightgbm":
        import lightgbm

        settings = {"objective": fobj, "num_class": 2, "num_threads": 1, "verbosity": -1}
        settings |= {"metric": "None"}
        trained = lightgbm.train(settings, lightgbm.Dataset(columns, y), 20)
        index = trained.predict(columns, raw_score=True)
    else:
        import xgboost

        data = xgboost.DMatrix(columns, y)
        settings = {"num_target": 2, "nthread": 1, "disable_default_eval_metric": True}
        settings |= {"base_score": 0.0, "learning_rate": 0.1}
        trained = xgboost.train(settings, data, 20, obj=fobj, custom_metric=metric)
        index = trained.predict(data, output_margin=True)
    start = loss.rows(np.zeros(2_000), np.zeros(2_000), y, 1.5).value.mean()
    assert loss.rows(*index.T.astype(float), y, 1.5).value.mean() < 0.9 * start
    p = loss.probability(index[:, 0], None, 1.5)
    assert abs(p.mean() - full.mean()) < 0.05


def test_search_finds_the_top_and_stops_at_the_ends():
    top, values = best_loading(lambda x: -((x + 2.0) ** 2), scale=1.8)
    assert top == pytest.approx(-2.0, abs=0.05) and len(values) < 10
    top, _ = best_loading(lambda x: x, scale=1.8)
    assert top == pytest.approx(1.8 * np.sinh(2.0))


def test_without_unlabelled_rows_it_is_an_ordinary_booster(booster):
    X, _, full = simulate(600, 5)
    with pytest.warns(Warning, match="every row has a label"):
        model = build(booster, early_stopping=None, n_estimators=5).fit(X, full)
    assert model.loading_ == 0.0 and model.selection_booster_ is None
    np.testing.assert_array_equal(
        model.predict_proba(X, "unlabelled"), model.predict_proba(X, "population")
    )


def test_a_selection_equation_without_a_variable_of_its_own_is_warned_of():
    pytest.importorskip("lightgbm")
    X, y, _ = simulate(600, 6)
    model = BoostedSelectionClassifier(n_jobs=1, n_estimators=6, early_stopping=2)
    with pytest.warns(NoExclusionRestrictionWarning, match="shape of the errors alone"):
        model.fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"booster": "catboost"}, "booster='catboost' is unknown; use one of"),
        ({"cv": 1}, "cv=1 must be an integer of at least 2"),
        ({"early_stopping": 0}, "early_stopping=0 must be an integer of at least 1"),
        ({"learning_rate": 0.0}, "learning_rate=0.0 must lie between 0 and 1"),
        ({"loading": np.nan}, "loading=nan must lie between -50 and 50"),
        ({"params": {"objective": "binary"}}, "params has 'objective', which the classifier sets"),
        ({"outcome_params": {"eta": 0.1}}, "outcome_params has 'eta'.*argument learning_rate"),
        ({"monotone_constraints": [1]}, r"monotone_constraints has shape \(1,\), but X has 4"),
        ({"monotone_constraints": {"x0": 2}}, "monotone_constraints must be 1, -1 or 0"),
        ({"link": "cloglog"}, "link='cloglog'"),
    ],
)
def test_bad_options_are_refused(options, message):
    pytest.importorskip("lightgbm")
    X, y, _ = simulate(100, 7)
    with pytest.raises(ValueError, match=message):
        BoostedSelectionClassifier(**options).fit(X, y)


def test_labels_that_say_nothing_are_refused():
    pytest.importorskip("lightgbm")
    X, y, _ = simulate(100, 8)
    model = BoostedSelectionClassifier(n_jobs=1)
    with pytest.raises(ValueError, match="all 100 rows are unlabelled"):
        model.fit(X, np.full(100, -1))
    with pytest.raises(ValueError, match="only 1 class"):
        model.fit(X, np.where(y == 1, 1, -1))
    with pytest.raises(ValueError, match="y has 3 classes"):
        model.fit(X, np.arange(100) % 4 - 1)
    one = np.where(np.arange(100) < 50, -1, 0)
    one[60] = 1
    with (
        pytest.warns(NoExclusionRestrictionWarning),
        pytest.raises(ValueError, match="there is only 1 sample of a kind"),
    ):
        model.fit(X, one)


def test_too_few_rows_for_a_leaf_are_warned_of(booster):
    """One column stays a column: scikit-learn's error, and not ours, says what X must be."""
    X, y, _ = simulate(40, 8)
    params = {"lightgbm": {}, "xgboost": {"min_child_weight": 20.0}}[booster]
    with pytest.warns(ModelWarning, match="no tree of the outcome equation has a split"):
        model = build(booster, params=params).fit(X, y)
    assert np.ptp(model.predict_proba(X)[:, 1]) == 0.0
    with pytest.raises(ValueError, match="Expected"):
        build(booster).fit(X["x0"], y)


def test_a_missing_library_is_named(monkeypatch):
    from statsmodels_mnar.learn import ensembles

    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(ensembles, "import_module", absent)
    X, y, _ = simulate(100, 9)
    with pytest.raises(ImportError, match=r"needs the package xgboost.*pip install xgboost"):
        BoostedSelectionClassifier("xgboost").fit(X, y)
