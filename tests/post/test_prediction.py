"""Delta-method intervals of predictions."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.tools.sm_exceptions import ModelWarning

from statsmodels_mnar import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.post.prediction import WHICH, Prediction

from ..numerical import jacobian


@pytest.fixture(scope="module")
def fitted():
    simulated = simulate_greene(2_000, rng=3)
    model = GreeneSelectionLogit.from_formula(
        simulated.formula, simulated.select_formula, simulated.data, normalization="loading"
    )
    return simulated.data, model.fit()


def test_intervals_of_probabilities_are_walds_of_the_log_odds():
    p, se = np.array([0.02, 0.5, 0.9]), np.array([0.01, 0.05, 0.08])
    low, high = Prediction(p, se, pd.RangeIndex(3), probability=True).conf_int().T
    odds = np.log([low / (1 - low), high / (1 - high)])
    np.testing.assert_allclose(odds.mean(0), np.log(p / (1 - p)), atol=1e-12)
    slope = jacobian(lambda v: np.log(v / (1 - v)), p).diagonal()
    np.testing.assert_allclose(odds[1] - odds[0], 2 * 1.959964 * slope * se, rtol=1e-5)


def test_equations_apart_have_the_errors_of_statsmodels():
    """At independence P(y = 1) is a logit's, whose delta-method errors statsmodels has."""
    simulated = simulate_greene(1_000, rng=1)
    data = simulated.data
    results = GreeneSelectionLogit.from_formula(
        simulated.formula, simulated.select_formula, data, normalization="independent"
    ).fit()
    frame = results.get_prediction(data.iloc[:20]).summary_frame()
    logit = sm.Logit.from_formula(simulated.formula, data[data.s == 1]).fit(disp=False)
    expected = logit.get_prediction(data.iloc[:20]).summary_frame()
    np.testing.assert_allclose(frame["predicted"], expected["predicted"], rtol=1e-6)
    np.testing.assert_allclose(frame["se"], expected["se"], rtol=1e-5)
    assert frame.index.equals(data.index[:20])


@pytest.mark.parametrize("which", ["mean", "mean-unselected", "p10", "prob-select"])
def test_intervals_stay_inside_the_unit_interval(fitted, which):
    data, results = fitted
    extreme = data.iloc[:4].assign(x1=[-12.0, 12.0, 0.0, 3.0])
    frame = results.get_prediction(extreme, which=which).summary_frame(alpha=0.01)
    inside = frame[["ci_lower", "ci_upper"]].to_numpy()
    assert ((inside >= 0) & (inside <= 1)).all()
    assert (frame.ci_lower <= frame.predicted).all()
    assert (frame.predicted <= frame.ci_upper).all()


def test_average_is_the_prevalence_and_its_error_is_smaller_than_a_rows(fitted):
    data, results = fitted
    average = results.get_prediction(data, average=True)
    assert average.predicted[0] == pytest.approx(results.predict(data).mean(), rel=1e-12)
    rows = results.get_prediction(data.iloc[:50])
    assert average.se[0] < np.median(rows.se)
    weights = np.r_[1.0, np.zeros(len(data) - 1)]
    alone = results.get_prediction(data, agg_weights=weights)
    assert alone.se[0] == pytest.approx(rows.se[0], rel=1e-8)
    with pytest.raises(ValueError, match="agg_weights"):
        results.get_prediction(data, agg_weights=weights[:5])


def test_linear_predictions_have_the_errors_of_contrasts(fitted):
    data, results = fitted
    frame = results.get_prediction(data.iloc[:5], which="linear").summary_frame()
    design = np.zeros((5, len(results.params)))
    design[:, :3] = np.column_stack([np.ones(5), data[["x1", "x2"]].iloc[:5]])
    expected = results.t_test(design)
    np.testing.assert_allclose(frame["se"], expected.sd, rtol=1e-6)
    np.testing.assert_allclose(frame[["ci_lower", "ci_upper"]], expected.conf_int(), rtol=1e-6)


def test_missing_covariates_stay_missing(fitted):
    data, results = fitted
    holed = data.iloc[:3].assign(x1=[0.1, np.nan, 0.2])
    frame = results.get_prediction(holed).summary_frame()
    assert frame.isna().all(axis=1).tolist() == [False, True, False]
    assert isinstance(frame, pd.DataFrame)


def test_jacobian_of_a_known_function():
    slope = jacobian(lambda v: np.array([v[0] ** 2, v[0] * np.sin(v[1])]), np.array([3.0, 0.5]))
    expected = [[6.0, 0.0], [np.sin(0.5), 3.0 * np.cos(0.5)]]
    np.testing.assert_allclose(slope, expected, rtol=1e-8, atol=1e-8)


def test_new_data_bring_their_own_offsets():
    simulated = simulate_greene(800, rng=5)
    data = simulated.data.assign(known=0.4 * simulated.data.x1, shift=0.2)
    model = GreeneSelectionLogit.from_formula(
        simulated.formula,
        simulated.select_formula,
        data,
        offset="known",
        offset_select="shift",
        normalization="loading",
    )
    results = model.fit()
    for which in ("mean", "p10"):
        np.testing.assert_allclose(results.predict(data, which=which), results.predict(which=which))
    frame = results.get_prediction(data.iloc[:4]).summary_frame()
    np.testing.assert_allclose(frame["predicted"], results.predict()[:4])
    results.predict(data.drop(columns="shift"))  # the mean does not read the selection offset
    with pytest.raises(ValueError, match="offset column 'known'"):
        results.predict(data.drop(columns="known"))


OTHERS = ("free", "sigma", "probit", "biascorr")


@pytest.fixture(scope="module")
def another(request, fitted):
    data = fitted[0].iloc[:800]
    model, options = {
        "free": (GreeneSelectionLogit, {}),
        "sigma": (GreeneSelectionLogit, {"normalization": {"sigma": 1.0}}),
        "probit": (ProbitSelection, {}),
        "biascorr": (BiasCorrLogit, {"normalization": "loading"}),
    }[request.param]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return model.from_formula("y ~ x1 + x2", "s ~ x1 + x2 + z", data, **options).fit()


@pytest.mark.parametrize(
    ("another", "which"),
    [  # every probability by one model, in turn
        pytest.param(name, which, marks=() if i % len(OTHERS) == j else pytest.mark.full)
        for j, name in enumerate(OTHERS)
        for i, which in enumerate(WHICH)
    ],
    indirect=["another"],
)
def test_errors_equal_a_numerical_delta_method(another, fitted, which):
    rows = fitted[0].iloc[:6]
    designs = another.model.design_for(rows, which)
    slopes = jacobian(
        lambda v: another.model.predict(v, *designs, which=which), np.asarray(another.params)
    )
    cov = slopes @ np.asarray(another.cov_params()) @ slopes.T
    found = another.get_prediction(rows, which=which)
    np.testing.assert_allclose(found.se, np.sqrt(np.diag(cov)), rtol=1e-5)
    average = another.get_prediction(rows, which=which, average=True)
    assert average.se[0] == pytest.approx(np.sqrt(cov.mean()), rel=1e-5)


def test_means_do_not_pass_over_missing_rows_in_silence(fitted):
    data, results = fitted
    holed = data.iloc[:4].assign(x1=[0.1, np.nan, 0.2, 0.3]).set_axis(list("abcd"))
    with pytest.raises(ValueError, match=r"1 row\(s\) cannot be averaged.*'b'.*weight 0"):
        results.get_prediction(holed, average=True)
    found = results.get_prediction(holed, agg_weights=[1, 0, 1, 1])
    whole = results.get_prediction(holed.drop(index="b"), average=True)
    np.testing.assert_allclose(found.predicted, whole.predicted)
    np.testing.assert_allclose(found.se, whole.se)
    with pytest.raises(ValueError, match="not negative"):
        results.get_prediction(holed, agg_weights=[1, 0, -1, 1])


def test_another_covariance_takes_the_place_of_the_fits(fitted):
    data, results = fitted
    rows = data.iloc[:3]
    own = results.get_prediction(rows, which="p11")
    bootstrap = results.bootstrap(5, rng=0)
    found = results.get_prediction(rows, which="p11", cov=bootstrap)
    same = results.get_prediction(rows, which="p11", cov=bootstrap.cov.to_numpy())
    np.testing.assert_allclose(found.se, same.se)
    assert not np.allclose(found.se, own.se, rtol=1e-3)
    np.testing.assert_array_equal(found.predicted, own.predicted)


def test_only_the_designs_that_are_needed_are_built(fitted):
    data, results = fitted
    for which, needless in (("mean", "z"), ("linear", "z")):
        found = results.predict(data.drop(columns=[needless, "y", "s"]).iloc[:3], which=which)
        np.testing.assert_allclose(found, results.predict(which=which)[:3])
    few = GreeneSelectionLogit.from_formula(
        "y ~ x1 + x2", "s ~ x1 + z", data, normalization="loading"
    ).fit()
    for which in ("prob-select", "linear-select"):
        found = few.predict(data[["x1", "z"]].iloc[:3], which=which)
        np.testing.assert_allclose(found, few.predict(which=which)[:3])
        frame = few.get_prediction(data[["x1", "z"]].iloc[:3], which=which).summary_frame()
        np.testing.assert_allclose(frame["predicted"], found)
    with pytest.raises(ValueError, match="x2"):
        few.predict(data[["x1", "z"]], which="mean")


def test_arrays_predict_like_formulas_and_keep_missing_rows(fitted):
    data, results = fitted
    X = sm.add_constant(data[["x1", "x2"]])
    W = sm.add_constant(data[["x1", "x2", "z"]])
    by_array = GreeneSelectionLogit(data["y"], X, data["s"], W, normalization="loading").fit()
    assert by_array.model.k_outcome == 3
    holed = X.iloc[:4].astype("Float64").set_axis(list("abcd"))
    holed.iloc[2, 1] = pd.NA
    for which in ("mean", "mean-unselected"):
        expected = results.predict(data.iloc[:4], which=which)
        found = by_array.predict(holed, W.iloc[:4], which=which)
        assert found.index.tolist() == list("abcd")
        assert found.isna().tolist() == [False, False, True, False]
        np.testing.assert_allclose(found.iloc[[0, 1, 3]], expected.iloc[[0, 1, 3]], rtol=1e-6)
        frame = by_array.get_prediction(holed, W.iloc[:4], which=which).summary_frame()
        assert frame.index.tolist() == list("abcd")
        assert frame.isna().any(axis=1).tolist() == [False, False, True, False]
    one = by_array.get_prediction(X.iloc[0])  # one row as a Series
    assert one.predicted[0] == pytest.approx(results.predict(data.iloc[:1]).iloc[0], rel=1e-6)
    assert len(one.summary_frame()) == 1
    with pytest.raises(ValueError, match="offset must be one number or 4"):
        by_array.predict(X.iloc[:4], offset=[1.0, 2.0])
