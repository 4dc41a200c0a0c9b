"""scikit-learn's own checks, and the contract that all classifiers share."""

from __future__ import annotations

import pickle
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.utils.estimator_checks import (
    check_classifiers_classes,
    check_estimator,
    parametrize_with_checks,
)
from statsmodels.tools.sm_exceptions import ModelWarning

from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.learn import (
    BiasCorrClassifier,
    BoostedSelectionClassifier,
    FuzzyAugmentationClassifier,
    GreeneClassifier,
    IPWClassifier,
    NeuralSelectionClassifier,
    ParcellingClassifier,
    ProbitSelectionClassifier,
    ReclassificationClassifier,
    ScoreBandClassifier,
)
from statsmodels_mnar.learn.classifiers import TwoEquationClassifier

TWO_EQUATIONS = (GreeneClassifier, ProbitSelectionClassifier, BiasCorrClassifier)
ALL = (
    *TWO_EQUATIONS,
    IPWClassifier,
    ReclassificationClassifier,
    FuzzyAugmentationClassifier,
    ParcellingClassifier,
    ScoreBandClassifier,
)
# The one check that must fail: with classes -1 and 1, -1 is the mark of unlabelled rows.
EXPECTED = {"check_classifiers_classes": "-1 marks unlabelled rows by default"}
KNOWS_EXPECTED = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) >= (1, 6)


class _Hiding:
    """Hides the labels of a third of the rows, so that the checks meet the corrections too."""

    def _read(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        data = super()._read(X, y, sample_weight)  # type: ignore[misc]
        labels = data.labels
        # By what is in a row, whatever its place.
        hidden = np.floor(1e3 * np.abs(data.X[:, 0])) % 3 == 0
        y = np.where(hidden & (len(hidden) > 12), np.nan, labels.y)
        return replace(data, labels=replace(labels, y=y))


class HidingGreene(_Hiding, GreeneClassifier):
    pass


class HidingProbit(_Hiding, ProbitSelectionClassifier):
    pass


class HidingBiasCorr(_Hiding, BiasCorrClassifier):
    pass


class HidingIPW(_Hiding, IPWClassifier):
    pass


class HidingParcelling(_Hiding, ParcellingClassifier):
    pass


class HidingScoreBands(_Hiding, ScoreBandClassifier):
    pass


class HidingBoosted(_Hiding, BoostedSelectionClassifier):
    pass


class HidingNeural(_Hiding, NeuralSelectionClassifier):
    pass


HIDING = (
    HidingGreene, HidingProbit, HidingBiasCorr, HidingIPW, HidingParcelling, HidingScoreBands,
)  # fmt: skip
# The checks have few rows: trees need small leaves, and networks little to train.
LEAVES = {
    "lightgbm": {"min_data_in_leaf": 1, "min_data_in_bin": 1, "num_leaves": 7},
    "xgboost": {"max_depth": 3, "min_child_weight": 0.0},
}
GROWN = {"n_estimators": 20, "early_stopping": None, "loading": 0.5, "n_jobs": 1}
TRAINED = {"max_epochs": 40, "loading": 0.5, "learning_rate": 0.02}
FLEXIBLE = [
    (cls, {"booster": name, "params": LEAVES[name], **GROWN})
    for name in LEAVES
    if find_spec(name)
    for cls in (BoostedSelectionClassifier, HidingBoosted)
]
FLEXIBLE += [(cls, TRAINED) for cls in (NeuralSelectionClassifier, HidingNeural)]
WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
# Why a row of weight two is not two rows, as for scikit-learn's own boosters and networks.
NOT_EQUIVALENT = {
    BoostedSelectionClassifier: "LightGBM and XGBoost bin features by rows, and count leaves' rows",
    NeuralSelectionClassifier: "other rows are held out, and make other mini-batches",
}
TOO_WIDE = {
    TwoEquationClassifier: "its data are wider than long, which the selection models refuse",
}


def checks(*estimators: Any) -> Any:
    """All checks of these classifiers."""
    if not KNOWS_EXPECTED:  # -1 is a class then, and all checks pass
        pairs = [
            pair
            for each in estimators
            for pair in check_estimator(each.set_params(missing_label=None), generate_only=True)
        ]
        return pytest.mark.parametrize(("estimator", "check"), pairs)
    return parametrize_with_checks(list(estimators), expected_failed_checks=expected)


def expected(estimator: Any) -> dict[str, str]:
    """Why checks of a classifier must fail."""
    hides = isinstance(estimator, _Hiding)
    fails = dict(EXPECTED) if estimator.missing_label is not None else {}
    for cls, why in {**NOT_EQUIVALENT, **(TOO_WIDE if hides else {})}.items():
        if isinstance(estimator, cls):
            fails[WEIGHTS] = why
    return fails


def run(check: Any, estimator: Any) -> None:
    state = np.random.get_state()  # noqa: NPY002  some checks draw from the global generator
    try:
        check(estimator)
    finally:
        np.random.set_state(state)  # noqa: NPY002


# The checks have labels for all rows, which is warned of.
@pytest.mark.filterwarnings("ignore:.*every row has a label")
@checks(GreeneClassifier())
def test_check_estimator(estimator, check):
    run(check, estimator)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:.*every row has a label")
@checks(*(cls() for cls in ALL[1:]))
def test_check_estimator_of_the_others(estimator, check):
    run(check, estimator)


@pytest.mark.filterwarnings("ignore:.*every row has a label")
def test_minus_one_and_one_are_classes_where_minus_one_is_no_mark():
    check_classifiers_classes("GreeneClassifier", GreeneClassifier(missing_label=None))


@pytest.mark.full
@pytest.mark.skipif(not KNOWS_EXPECTED, reason="needs scikit-learn 1.6, which names failures")
@pytest.mark.filterwarnings("ignore::statsmodels.tools.sm_exceptions.ModelWarning")
@pytest.mark.filterwarnings("ignore::statsmodels.tools.sm_exceptions.ConvergenceWarning")
@checks(*(cls(missing_label=None) for cls in HIDING))
def test_check_estimator_with_labels_missing(estimator, check):
    run(check, estimator)


@pytest.mark.skipif(not KNOWS_EXPECTED, reason="needs scikit-learn 1.6, which names failures")
@pytest.mark.filterwarnings("ignore::statsmodels.tools.sm_exceptions.ModelWarning")
@checks(
    *(
        cls(**options, **({"missing_label": None} if issubclass(cls, _Hiding) else {}))
        for cls, options in FLEXIBLE[:1]
    )
)
def test_check_estimator_of_a_booster(estimator, check):
    run(check, estimator)


@pytest.mark.full
@pytest.mark.skipif(not KNOWS_EXPECTED, reason="needs scikit-learn 1.6, which names failures")
@pytest.mark.filterwarnings("ignore::statsmodels.tools.sm_exceptions.ModelWarning")
@checks(
    *(
        cls(**options, **({"missing_label": None} if issubclass(cls, _Hiding) else {}))
        for cls, options in FLEXIBLE[1:]
    )
)
def test_check_estimator_of_boosters_and_networks(estimator, check):
    run(check, estimator)


@pytest.fixture(scope="module")
def data():
    frame = simulate_greene(900, rng=1).data
    return frame[["x1", "x2", "z"]], frame["y"]


@pytest.fixture(scope="module")
def fitted(data):
    X, y = data
    return {
        cls: cls(outcome_features=["x1", "x2"], missing_label=None).fit(X, y)
        for cls in (GreeneClassifier, ScoreBandClassifier)
    }


MARKS = {
    "NaN": lambda y: y,
    "minus one": lambda y: y.fillna(-1).astype(int),
    "None": lambda y: [None if np.isnan(value) else int(value) for value in y],
    "NA": lambda y: y.astype("Int64"),
    "words": lambda y: y.map({0.0: "no", 1.0: "yes"}),
    "booleans": lambda y: y.map({0.0: False, 1.0: True}).astype("boolean"),
    "a list": lambda y: y.tolist(),
}


@pytest.mark.parametrize("mark", MARKS)
def test_however_unlabelled_rows_are_marked(data, mark):
    """The fit is the same; classes_ are the user's, whatever their type."""
    X, y = data
    marked = MARKS[mark](y)
    model = IPWClassifier(outcome_features=[0, 1]).fit(X, marked)
    plain = IPWClassifier(outcome_features=[0, 1]).fit(X, y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    given = pd.Series(marked).dropna()
    expected = sorted(set(given[given != -1]))
    assert model.classes_.tolist() == expected
    assert set(model.predict(X).tolist()) <= set(expected)


def test_a_mark_of_ones_own(data):
    X, y = data
    marked = y.map({0.0: "no", 1.0: "yes"}).fillna("rejected")
    model = IPWClassifier(missing_label="rejected").fit(X, marked)
    assert model.classes_.tolist() == ["no", "yes"]
    with pytest.raises(ValueError, match=r"3 classes .*name the one that means 'unlabelled'"):
        IPWClassifier().fit(X, marked)


def test_accuracy_is_that_of_the_labelled_rows(data, fitted):
    X, y = data
    model, seen = fitted[GreeneClassifier], y.notna()
    right = model.predict(X)[seen] == y[seen]
    assert model.score(X, y) == pytest.approx(right.mean())
    weights = np.arange(len(y), dtype=float)
    assert model.score(X, y, weights) == pytest.approx(np.average(right, weights=weights[seen]))
    assert np.isnan(model.score(X[~seen], y[~seen]))


@pytest.mark.parametrize(
    "chosen",
    [
        ["x1", "x2"],
        [0, 1],
        [0, -2],
        slice(0, 2),
        [True, True, False],
        lambda X: [name for name in X.columns if name.startswith("x")],
    ],
    ids=["names", "positions", "negative", "slice", "mask", "callable"],
)
def test_features_by_name_position_mask_or_function(data, chosen, fitted):
    X, y = data
    model = ScoreBandClassifier(outcome_features=chosen).fit(X, y)
    np.testing.assert_array_equal(model.coef_, fitted[ScoreBandClassifier].coef_)
    assert model.coef_.shape == (1, 3) and model.coef_[0, 2] == 0
    assert list(model.results_.params.index) == ["const", "x1", "x2"]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (["x1", "nowhere"], "outcome_features has nowhere, not among the columns"),
        ([0, 7], "outcome_features has position 7, but X has 3 columns"),
        ([True, False], "outcome_features is a mask of shape"),
        ([], "outcome_features names no column"),
        (["x1", "x1"], "outcome_features names a column twice: x1"),
    ],
)
def test_wrong_features_are_named(data, chosen, message):
    with pytest.raises(ValueError, match=message):
        IPWClassifier(outcome_features=chosen).fit(*data)
    with pytest.raises(ValueError, match=r"has names \(x1\), but X has none"):
        IPWClassifier(outcome_features=["x1"]).fit(data[0].to_numpy(), data[1])


BAD = {
    "all labels missing": (lambda X, y: (X, y * np.nan), "y has no label: all 900 rows"),
    "one class": (lambda X, y: (X, y.where(y == 1)), r"y has only 1 class \(1.0\)"),
    "three classes": (lambda X, y: (X, y.where(X.x1 < 1, 2.0)), "Only binary .*3 classes"),
    "continuous labels": (lambda X, y: (X, X.x1), "Unknown label type"),
    "infinite labels": (lambda X, y: (X, y.replace(1.0, np.inf)), "y contains infinity"),
    "NaN features": (
        lambda X, y: (X.assign(z=X.z.where(X.z < 2)), y),
        "Input X contains NaN.*impute",
    ),
    "words in X": (lambda X, y: (X.assign(z="a"), y), "could not convert string to float"),
    "too few labels": (lambda X, y: (X, y[:-1]), "X has 900 rows and y 899"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("cls", [GreeneClassifier, ParcellingClassifier])
def test_bad_input_is_named(data, cls, bad):
    make, message = BAD[bad]
    X, y = make(*data)
    with pytest.raises(ValueError, match=message):
        cls().fit(X, y)


def test_bad_weights_and_statistics_are_named(data, fitted):
    X, y = data
    for weights, message in (
        (np.ones(3), "expected"),
        (np.full(900, -1.0), "not negative"),
        (np.zeros(900), "zero on all rows"),
        (y.eq(1).to_numpy(float), "only 1 class .* with a weight above zero"),
    ):
        with pytest.raises(ValueError, match=message):
            IPWClassifier().fit(X, y, weights)
    with pytest.raises(ValueError, match="which='everybody' is unknown"):
        fitted[GreeneClassifier].predict_proba(X, which="everybody")


def test_minus_one_alone_says_what_to_do():
    X = np.random.default_rng(0).standard_normal((40, 1))
    with pytest.raises(ValueError, match="set missing_label=None if -1 is a class"):
        IPWClassifier().fit(X, np.where(X[:, 0] > 0, 1, -1))


@pytest.mark.parametrize("cls", [GreeneClassifier, ProbitSelectionClassifier, IPWClassifier])
def test_without_unlabelled_rows_the_ordinary_classifier_is_fitted(cls):
    """A logit, or a probit, of statsmodels."""
    import statsmodels.api as sm

    data = simulate_greene(600, rng=2).data
    X, y = data[["x1", "x2"]], data["y_full"]
    with pytest.warns(ModelWarning, match=f"{cls.__name__}: every row has a label"):
        model = cls(penalty=0.0).fit(X, y)
    plain = sm.Probit if cls is ProbitSelectionClassifier else sm.Logit
    expected = plain(y, sm.add_constant(X)).fit(disp=False)
    np.testing.assert_allclose(model.coef_[0], expected.params.iloc[1:], rtol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expected.predict(), rtol=1e-6)
    with pytest.raises(ValueError, match="every row was labelled in fit"):
        model.predict_proba(X, which="unlabelled")


@pytest.mark.parametrize("cls", [GreeneClassifier, ScoreBandClassifier])
def test_pickles_and_clones(data, fitted, cls, tmp_path):
    X, _ = data
    model = fitted[cls]
    again = pickle.loads(pickle.dumps(model))
    joblib.dump(model, tmp_path / "model.joblib")
    for copy in (again, joblib.load(tmp_path / "model.joblib")):
        np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    fresh = clone(model)
    assert fresh.get_params() == model.get_params() and not hasattr(fresh, "coef_")
