"""One contract for every baseline: built and called like the selection models."""

import pickle

import numpy as np
import pandas as pd
import pytest
from statsmodels.tools.sm_exceptions import ConvergenceWarning

from statsmodels_mnar import GreeneSelectionLogit
from statsmodels_mnar.baselines import (
    IPWLogit,
    NaiveLogit,
    OracleLogit,
    RFLearn,
    RobustBiasAware,
)
from statsmodels_mnar.datasets import simulate_mar
from statsmodels_mnar.errors import DesignError, NoVariationError, PerfectSeparationError

ALL = [NaiveLogit, OracleLogit, IPWLogit, RFLearn, RobustBiasAware]
CORRECTIONS = [IPWLogit, RFLearn, RobustBiasAware]


@pytest.fixture(scope="module")
def simulated():
    return simulate_mar(800, rng=3)


def build(cls, simulated, data=None, **options):
    formula = simulated.oracle_formula if cls is OracleLogit else simulated.formula
    data = simulated.data if data is None else data
    return cls.from_formula(formula, simulated.select_formula, data, **options)


def arrays(cls, simulated):
    data = simulated.data
    constant = np.ones(len(data))
    X = np.column_stack([constant, data.x1, data.x2])
    W = np.column_stack([constant, data.x1, data.x2, data.z])
    return cls(data.y_full if cls is OracleLogit else data.y, X, data.s, W)


@pytest.mark.parametrize("cls", ALL)
def test_formulas_and_arrays_give_the_same_fit(cls, simulated):
    by_formula, by_array = build(cls, simulated).fit(), arrays(cls, simulated).fit()
    np.testing.assert_allclose(by_formula.params, by_array.params, rtol=1e-10)
    assert list(by_formula.params.index) == ["Intercept", "x1", "x2"]
    np.testing.assert_allclose(by_formula.predict(), by_array.predict(), rtol=1e-10)


@pytest.mark.parametrize("cls", ALL)
def test_prediction_needs_only_the_outcome_columns(cls, simulated):
    results = build(cls, simulated).fit()
    new = simulated.data[["x1", "x2"]].iloc[10:20]
    found = results.predict(new)
    pd.testing.assert_series_equal(found, results.predict().iloc[10:20])
    assert found.between(0, 1, inclusive="neither").all()
    index = results.predict(new, which="linear")
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-index)))


@pytest.mark.parametrize("cls", [NaiveLogit, *CORRECTIONS])
def test_unlabelled_outcomes_are_not_read(cls, simulated):
    data = simulated.data.assign(y=lambda d: d.y.where(d.s == 1, 1 - d.y_full))
    np.testing.assert_array_equal(
        build(cls, simulated, data).fit().params, build(cls, simulated).fit().params
    )


@pytest.mark.parametrize("cls", ALL)
def test_rows_with_missing_covariates_are_dropped(cls, simulated):
    data = simulated.data.copy()
    data.loc[[0, 5], "x1"] = np.nan
    data.loc[7, "z"] = np.nan
    results = build(cls, simulated, data).fit()
    assert results.nobs == len(data) - 3
    np.testing.assert_allclose(
        results.params, build(cls, simulated, data.drop([0, 5, 7])).fit().params
    )


@pytest.mark.parametrize("cls", ALL)
def test_results_can_be_pickled_and_summarised(cls, simulated):
    results = build(cls, simulated).fit()
    again = pickle.loads(pickle.dumps(results))
    pd.testing.assert_series_equal(again.predict(), results.predict())
    text = str(results.summary())
    assert cls.__name__ in text and f"{results.params['x1']:.4f}" in text


@pytest.mark.parametrize("cls", ALL)
def test_tables_have_the_columns_of_the_selection_models(cls, simulated):
    selection = GreeneSelectionLogit.from_formula(
        simulated.formula, simulated.select_formula, simulated.data, normalization="independent"
    ).fit()
    table = build(cls, simulated).fit().tidy()
    assert list(table.columns) == list(selection.tidy().columns)
    assert table.index.name == selection.tidy().index.name


@pytest.mark.parametrize("cls", [RFLearn, RobustBiasAware])
def test_methods_without_standard_errors_say_nan(cls, simulated):
    results = build(cls, simulated).fit()
    assert results.bse.isna().all() and results.conf_int().isna().all(axis=None)
    assert "no standard errors" in str(results.summary())


@pytest.mark.parametrize("cls", CORRECTIONS)
def test_without_unlabelled_rows_there_is_nothing_to_correct(cls, simulated):
    with pytest.raises(NoVariationError, match="no selection to model"):
        build(cls, simulated, simulated.data.query("s == 1")).fit()


@pytest.mark.parametrize("cls", ALL)
def test_separated_outcomes_are_refused_and_a_penalty_helps(cls, simulated):
    data = simulated.data.assign(y_full=lambda d: (d.x1 > 0).astype(float))
    data["y"] = data.y_full.where(data.s == 1)
    with pytest.raises(PerfectSeparationError, match="x1"):
        build(cls, simulated, data).fit()
    results = build(cls, simulated, data).fit(penalty=0.01)
    assert results.converged and np.isfinite(results.params).all()


@pytest.mark.parametrize("cls", [NaiveLogit, OracleLogit])
def test_collinear_selection_columns_do_not_matter_to_plain_logits(cls, simulated):
    data = simulated.data
    X = np.column_stack([np.ones(len(data)), data.x1])
    results = cls(data.y_full, X, data.s, np.column_stack([X, X])).fit()
    assert results.converged


def test_formulas_find_the_functions_of_the_caller(simulated):
    def double(x):
        return 2 * x

    results = NaiveLogit.from_formula("y ~ double(x1) + x2", "s ~ x1 + z", simulated.data).fit()
    np.testing.assert_allclose(
        2 * results.params["double(x1)"], build(NaiveLogit, simulated).fit().params["x1"]
    )


def test_fits_that_did_not_converge_warn(simulated):
    with pytest.warns(ConvergenceWarning, match="NaiveLogit did not converge") as caught:
        results = build(NaiveLogit, simulated).fit(method="sgd", tol=1e-12, maxiter=3)
    assert not results.converged
    assert caught[0].filename == __file__  # the line that called fit
    with pytest.warns(ConvergenceWarning, match="RFLearn"):
        build(RFLearn, simulated).fit(radius=0.2, tol=-1.0)


def test_the_oracle_refuses_missing_outcomes(simulated):
    with pytest.raises(DesignError, match="outcome of every row"):
        OracleLogit.from_formula(simulated.formula, simulated.select_formula, simulated.data)


@pytest.mark.parametrize(
    ("cls", "options", "fit", "match"),
    [
        (NaiveLogit, {}, {"method": "bfgs"}, "method='bfgs'"),
        (NaiveLogit, {}, {"cov_type": "HC3"}, "cov_type='HC3'"),
        (NaiveLogit, {}, {"penalty": -1.0}, r"penalty=-1\.0"),
        (NaiveLogit, {}, {"method": "sgd", "penalty": 1.0}, "penalty"),
        (IPWLogit, {"selection_model": "tree"}, {}, "selection_model='tree'"),
        (IPWLogit, {"trim": 1.5}, {}, r"trim=1\.5"),
        (IPWLogit, {}, {"cov_type": "nonrobust"}, "cov_type='nonrobust'"),
        (RFLearn, {"bins": 1}, {}, "bins=1"),
        (RFLearn, {"target": "test"}, {}, "target='test'"),
        (RFLearn, {"groups": [1, 2]}, {}, "groups has 2 values"),
        (RFLearn, {}, {"radius": -0.1}, r"radius=-0\.1"),
        (RFLearn, {}, {"floor": 0.0}, r"floor=0\.0"),
        (RobustBiasAware, {"clip": 1.0}, {}, r"clip=1\.0"),
    ],
)
def test_bad_options_are_named(cls, options, fit, match, simulated):
    with pytest.raises(ValueError, match=match):
        build(cls, simulated, **options).fit(**fit)


def test_unknown_predictions_and_wrong_designs_are_refused(simulated):
    results = arrays(NaiveLogit, simulated).fit()
    with pytest.raises(ValueError, match="which='p11'"):
        results.predict(which="p11")
    with pytest.raises(ValueError, match="3 columns"):
        results.predict(np.ones((4, 2)))
