"""From arrays to a design."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from statsmodels_mnar.design import Dropped, design_from_arrays
from statsmodels_mnar.errors import DesignError, MissingDataError, MissingOutcomeWarning


@pytest.fixture
def arrays():
    rng = np.random.default_rng(3)
    W = np.column_stack([rng.normal(size=(6, 2)), np.ones(6)])
    return np.array([0, 1, np.nan, 1, np.nan, 0]), W[:, [2, 0]], W


def test_plain_arrays_get_the_names_of_statsmodels(arrays):
    y, X, W = arrays
    design = design_from_arrays(y, X, exog_select=W)
    assert design.outcome_names == ("const", "x1")
    assert design.select_names == ("x1", "x2", "const")
    assert (design.outcome_name, design.select_name) == ("y", "y_observed")
    assert_array_equal(design.y, y)
    assert_array_equal(design.s, [1, 1, 0, 1, 0, 1])
    assert_array_equal(design.X, X)
    assert_array_equal(design.W, W)
    assert design.outcome_spec is None
    assert design.select_spec is None
    assert_array_equal(design.kept, np.arange(6))


def test_pandas_names_and_index_are_kept(arrays):
    y, X, W = arrays
    index = pd.Index(list("abcdef"))
    design = design_from_arrays(
        pd.Series(y, index, name="default"),
        pd.DataFrame(X, index, ["one", "age"]),
        pd.Series([True, True, False, True, False, True], index, name="card"),
        pd.DataFrame(W, index, ["age", "rate", "one"]),
    )
    assert (design.outcome_name, design.select_name) == ("default", "card")
    assert design.outcome_names == ("one", "age")
    assert design.select_names == ("age", "rate", "one")
    assert_array_equal(design.index, index)
    assert_array_equal(design.s, [1, 1, 0, 1, 0, 1])


def test_nullable_and_boolean_inputs(arrays):
    _, X, _ = arrays
    y = pd.Series([0, 1, None, 1, None, 0], dtype="Int64")
    X = pd.DataFrame({"flag": [True, False] * 3, "n": pd.array([1, 2, 3, 4, 5, 6], "Int64")})
    design = design_from_arrays(y, X)
    assert_array_equal(design.y, [0, 1, np.nan, 1, np.nan, 0])
    assert_array_equal(design.X[:, 0], [1, 0] * 3)


def test_selection_design_defaults_to_the_outcome_design(arrays):
    y, X, _ = arrays
    design = design_from_arrays(y, X)
    assert_array_equal(design.W, design.X)
    assert design.select_names == design.outcome_names


def test_column_vectors_and_lists_are_taken(arrays):
    y, X, W = arrays
    design = design_from_arrays(y[:, None], X[:, 1], exog_select=W.tolist())
    assert design.X.shape == (6, 1)
    assert design.outcome_names == ("x1",)
    assert_array_equal(design.y, y)


def test_outcomes_of_unselected_rows_are_ignored(arrays):
    _, X, W = arrays
    design = design_from_arrays([0, 1, 0, 1, 0, 7], X, [1, 1, 1, 1, 0, 0], W)
    assert_array_equal(design.y, [0, 1, 0, 1, np.nan, np.nan])


def test_inputs_are_copied(arrays):
    y, X, W = arrays
    before = y.copy(), X.copy(), W.copy()
    design = design_from_arrays(y, X, exog_select=W)
    for array in (design.y, design.X, design.W):
        array[:] = -1
    for array, old in zip(arrays, before, strict=True):
        assert_array_equal(array, old)


@pytest.mark.parametrize("missing", ["none", "raise"])
def test_missing_covariates_raise_and_name_the_column(arrays, missing):
    y, X, W = arrays
    W[2, 1] = np.nan
    with pytest.raises(MissingDataError, match=r"1 of 6 rows .* x2 \(1\)"):
        design_from_arrays(y, X, exog_select=W, missing=missing)


def test_missing_covariates_drop_jointly(arrays):
    y, X, W = arrays
    W[2, 1] = np.nan
    X = X.copy()
    X[0, 1] = np.nan
    design = design_from_arrays(
        y, X, exog_select=W, missing="drop", offset=np.arange(6), prob_weights=np.arange(1, 7)
    )
    assert_array_equal(design.kept, [1, 3, 4, 5])
    assert_array_equal(design.offset, [1, 3, 4, 5])
    assert_array_equal(design.weights, [2, 4, 5, 6])
    assert design.dropped == Dropped(missing=2)


def test_selected_rows_without_outcome(arrays):
    y, X, W = arrays
    s = [1, 1, 1, 1, 0, 1]
    with pytest.warns(MissingOutcomeWarning, match="1 selected"):
        design = design_from_arrays(y, X, s, W, missing="drop")
    assert_array_equal(design.kept, [0, 1, 3, 4, 5])
    with pytest.raises(MissingDataError, match="1 selected"):
        design_from_arrays(y, X, s, W)


def test_the_same_name_in_both_designs_counts_missing_values_of_both(arrays):
    y, X, W = arrays
    X[0, 1] = np.nan
    W[1, 0] = np.nan
    with pytest.raises(MissingDataError, match=r"x1 \(2\)"):
        design_from_arrays(y, X, exog_select=W)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"exog": np.ones((5, 2))}, "endog has 6, exog has 5"),
        ({"endog_select": [1, 0]}, "endog_select has 2"),
        ({"exog": np.full((6, 1), np.inf)}, "infinite values in"),
        ({"exog": [["a"]] * 6}, "exog must be numeric"),
        ({"exog": pd.DataFrame({"g": list("aabbcc")})}, "exog has columns .* not numeric: g"),
        ({"exog": np.ones((6, 2, 2))}, r"exog must have two dimensions, got shape \(6, 2, 2\)"),
        ({"endog": [0, 1, 2, 0, 1, 2]}, "outcome 'y' must be 0/1 .* found 0, 1, 2"),
        ({"endog": list("aabbaa")}, "outcome 'y' .* levels a, b"),
        ({"endog": np.ones((6, 2))}, r"'y' must be one variable, got shape \(6, 2\)"),
        ({"endog_select": [1, 2, 1, 2, 1, 2], "endog": [0, 1] * 3}, "selection indicator 's'"),
        ({"offset": "name"}, "offset='name' is not a column"),
        ({"missing": "ignore"}, "missing must be"),
    ],
)
def test_bad_arrays_raise(arrays, change, message):
    y, X, W = arrays
    with pytest.raises(DesignError, match=message):
        design_from_arrays(**{"endog": y, "exog": X, "exog_select": W, **change})


def test_pandas_inputs_with_different_indexes_raise(arrays):
    y, X, _ = arrays
    with pytest.raises(DesignError, match="indexes of endog and exog differ"):
        design_from_arrays(pd.Series(y), pd.DataFrame(X, index=range(1, 7)))
