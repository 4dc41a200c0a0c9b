"""From formulas and data to a design: values, names, rows."""

import dataclasses
import pickle

import numpy as np
import pandas as pd
import patsy
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from statsmodels_mnar.design import Design, Dropped, design_from_formula, rebuild
from statsmodels_mnar.errors import DesignError, MissingDataError, MissingOutcomeWarning


def twice(x):
    return 2 * x


# ---- values and names ----------------------------------------------------------------------------


def test_design_holds_values_names_and_rows(data, engine):
    design = design_from_formula("y ~ x", "s ~ x + z", data)
    assert_array_equal(design.y, data["y"])
    assert_array_equal(design.s, data["s"])
    assert_array_equal(design.X, np.column_stack([np.ones(200), data["x"]]))
    assert_array_equal(design.W, np.column_stack([np.ones(200), data["x"], data["z"]]))
    assert design.outcome_names == ("Intercept", "x")
    assert design.select_names == ("Intercept", "x", "z")
    assert (design.outcome_name, design.select_name) == ("y", "s")
    assert design.nobs == 200
    assert_array_equal(design.labelled, data["s"] == 1)
    assert design.dropped == Dropped(0, 0, 0)
    for array in (design.y, design.s, design.X, design.W):
        assert array.dtype == np.float64
        assert array.flags.c_contiguous or array.flags.f_contiguous
        assert array.flags.writeable


def test_design_is_frozen(data):
    design = design_from_formula("y ~ x", "~ z", data)
    with pytest.raises(dataclasses.FrozenInstanceError):
        design.y = design.s
    assert not hasattr(design, "__dict__")
    assert isinstance(dataclasses.replace(design, s=np.ones(200)), Design)


def test_select_formula_without_left_side_means_outcome_observed(data, engine):
    design = design_from_formula("y ~ x", "~ x + z", data)
    assert_array_equal(design.s, data["y"].notna())
    assert design.select_name == "y_observed"


def test_outcomes_of_unselected_rows_are_ignored(data):
    data["y"] = data["y"].fillna(-9)
    design = design_from_formula("y ~ x", "s ~ x + z", data)
    assert_array_equal(np.isnan(design.y), data["s"] == 0)


PATSY_TERMS = [
    "C(g)",
    "g",
    "bs(x, df=5)",
    "cr(x, df=4)",
    "center(x) + standardize(z)",
    "Q('odd name')",
    "x * C(g, Treatment('b'))",
    "twice(x)",
    "np.exp(x)",
    "flag + count",
    "0 + g",
    "1",
    "I(x ** 2)",
]


NUMBERS = [
    "x", "x + z", "0 + x + z", "x * z * count", "x:z + count - 1", "z + x:count + count",
    "count + z:x + x", "x + z + x:z:count + count:x", "(x + z + count)**2", "x*z - x",
]  # fmt: skip


@pytest.mark.parametrize("rhs", NUMBERS)
def test_what_is_learned_of_numbers_is_what_patsy_learns(data, rhs):
    data = data.assign(count=data["count"].astype(int))
    design = design_from_formula(f"y ~ {rhs}", f"s ~ z + {rhs}", data)
    expected, found = patsy.dmatrix(rhs, data).design_info, design.outcome_spec.info
    assert found.column_names == expected.column_names
    assert found.describe() == expected.describe()
    assert found.terms == expected.terms
    assert found.term_name_slices == expected.term_name_slices
    assert_array_equal(design.X, patsy.dmatrix(rhs, data))
    again = rebuild(pickle.loads(pickle.dumps(design.outcome_spec)), data)
    assert_array_equal(again, design.X)


@pytest.mark.parametrize("rhs", PATSY_TERMS)
def test_designs_are_those_of_patsy_on_all_rows(data, rhs):
    design = design_from_formula(f"y ~ {rhs}", f"s ~ z + {rhs}", data)
    oracle = data.assign(count=data["count"].astype(int), g=data["g"].astype(object))
    for matrix, names, formula in (
        (design.X, design.outcome_names, rhs),
        (design.W, design.select_names, f"z + {rhs}"),
    ):
        expected = patsy.dmatrix(formula, oracle)
        assert names == tuple(expected.design_info.column_names)
        assert_allclose(matrix, expected, rtol=1e-14)


@pytest.mark.parametrize(
    "rhs",
    [
        "C(g)",
        "bs(x, df=5)",
        "center(x)",
        "`odd name`",
        "np.log(`odd name`)",
        "{x + 1}",
        "np.exp(x):flag",
        "twice(x)",
        "1",
    ],
)
def test_designs_are_those_of_formulaic_where_the_user_chose_it(data, rhs, monkeypatch):
    import statsmodels.formula

    formulaic = pytest.importorskip("formulaic")
    monkeypatch.setattr(statsmodels.formula.options, "formula_engine", "formulaic")
    design = design_from_formula(f"y ~ {rhs}", "s ~ z", data)
    expected = formulaic.model_matrix(rhs, data, context={"twice": twice})
    assert design.outcome_spec.engine == "formulaic"
    assert design.outcome_names == tuple(expected.columns)
    assert_allclose(design.X, expected.to_numpy(dtype=float))


def test_levels_and_transforms_are_learned_on_unlabelled_rows_too(data, engine):
    data.loc[data["s"] == 0, "x"] += 100
    data.loc[data["s"] == 0, "g"] = "only unlabelled"
    design = design_from_formula("y ~ center(x) + C(g)", "s ~ z", data)
    assert_allclose(design.X[:, -1].mean(), 0, atol=1e-12)
    assert any("only unlabelled" in name for name in design.outcome_names)


@pytest.mark.parametrize("dtype", ["object", "string", "category", "str"])
def test_text_covariates_of_any_dtype_give_the_same_design(data, dtype, engine):
    plain = design_from_formula("y ~ C(g)", "s ~ g + z", data)
    typed = design_from_formula("y ~ C(g)", "s ~ g + z", data.assign(g=data["g"].astype(dtype)))
    assert typed.outcome_names == plain.outcome_names
    assert_array_equal(typed.X, plain.X)
    assert_array_equal(typed.W, plain.W)


def test_unused_categories_make_no_column(data, engine):
    data["g"] = pd.Categorical(data["g"], categories=["a", "b", "c", "never"])
    design = design_from_formula("y ~ C(g)", "s ~ z", data)
    assert design.outcome_names == ("Intercept", "C(g)[T.b]", "C(g)[T.c]")


@pytest.mark.parametrize(
    ("column", "dtype"), [("flag", "boolean"), ("count", "Float64"), ("count", "Int64")]
)
def test_nullable_covariates_with_missing_values_drop_rows(data, column, dtype, engine):
    data[column] = data[column].astype(dtype)
    data.loc[7, column] = pd.NA
    design = design_from_formula(f"y ~ {column}", "s ~ z", data)
    assert design.nobs == 199
    assert_array_equal(design.X[:, 1], data[column].drop(7).astype(float))


# ---- left-hand sides -----------------------------------------------------------------------------


def test_expression_on_the_left_keeps_missing_outcomes_unlabelled(data, engine):
    grade = data["y"] * 3 + 2
    design = design_from_formula("I(grade > 3) ~ x", "~ x + z", data.assign(grade=grade))
    assert_array_equal(design.y, data["y"])
    assert design.outcome_name == "I(grade > 3)"


def test_tilde_within_the_left_side_is_not_the_formulas(data):
    design = design_from_formula("I(~(y > 0.5)) ~ x", "I(~(s == 0)) ~ z", data)
    assert_array_equal(design.y, 1 - data["y"])
    assert_array_equal(design.s, data["s"])


@pytest.mark.parametrize("dtype", ["boolean", "Int64", "Float64", "float32", "object"])
def test_binary_outcomes_of_any_dtype(data, dtype, engine):
    typed = data["y"].astype("boolean").astype(dtype)
    design = design_from_formula("y ~ x", "~ z", data.assign(y=typed))
    assert_array_equal(design.y, data["y"])


def test_bool_outcome_and_bool_selection(data, engine):
    data = data.assign(y=data["y"] == 1, s=data["s"] == 1)
    design = design_from_formula("y ~ x", "s ~ z", data)
    assert_array_equal(design.s, data["s"].astype(float))
    assert_array_equal(design.y[design.labelled], data.loc[data["s"], "y"].astype(float))


def test_quoted_outcome(data):
    design = design_from_formula("Q('odd y') ~ x", "~ z", data.rename(columns={"y": "odd y"}))
    assert_array_equal(design.y, data["y"])


def test_backquoted_outcome_with_formulaic(data, monkeypatch):
    import statsmodels.formula

    pytest.importorskip("formulaic")
    monkeypatch.setattr(statsmodels.formula.options, "formula_engine", "formulaic")
    design = design_from_formula("`odd y` ~ x", "~ z", data.rename(columns={"y": "odd y"}))
    assert_array_equal(design.y, data["y"])


@pytest.mark.parametrize("dtype", [None, "object", "string", "category"])
def test_text_outcome_raises_and_shows_the_expression_to_write(data, dtype, engine):
    words = data["y"].map({0.0: "bad", 1.0: "good"})  # of pandas' own dtype for text
    words = words if dtype is None else words.astype(dtype)
    data = data.assign(y=words)
    with pytest.raises(ValueError, match=r"'y'.*bad, good.*I\(y == 'good'\)"):
        design_from_formula("y ~ x", "~ z", data)
    design = design_from_formula("I(y == 'good') ~ x", "~ z", data)
    assert_array_equal(np.isnan(design.y), words.isna())


@pytest.mark.parametrize(
    ("values", "shown"), [([1, 2], "1, 2"), ([0, 1, 5], "0, 1, 5"), ([0.25, 0.75], "0.25, 0.75")]
)
def test_outcome_that_is_not_binary_raises_with_its_values(data, values, shown):
    data["y"] = np.where(data["s"] == 1, np.resize(values, 200), np.nan)
    with pytest.raises(DesignError, match=rf"outcome 'y' must be 0/1 .* found {shown}.*I\(y =="):
        design_from_formula("y ~ x", "~ z", data)


def test_long_lists_of_values_are_cut_short(data):
    with pytest.raises(DesignError, match=r"\.\.\. \(120 in all\)"):
        design_from_formula("x ~ z", "s ~ z", data)


def test_selection_that_is_not_binary_raises(data):
    with pytest.raises(DesignError, match=r"selection indicator 's' must be 0/1 .* found 2, 3"):
        design_from_formula("y ~ x", "s ~ z", data.assign(s=data["s"] + 2))


# ---- rows ----------------------------------------------------------------------------------------


def test_rows_with_missing_covariates_drop_from_both_equations_before_evaluation(data, engine):
    data.loc[3, "x"] = np.nan
    data.loc[[4, 5], "z"] = np.nan
    data.loc[6, "g"] = None
    design = design_from_formula("y ~ center(x) + C(g)", "s ~ x + z", data)
    gone = [3, 4, 5, 6]
    assert_array_equal(design.kept, np.delete(np.arange(200), gone))
    assert design.dropped == Dropped(missing=4)
    assert_allclose(design.X[:, -1].mean(), 0, atol=1e-12)
    assert_array_equal(design.W[:, 2], data["z"].drop(gone))


def test_missing_values_in_columns_no_formula_reads_do_not_matter(data):
    data["z"] = np.nan
    assert design_from_formula("y ~ x", "s ~ x + g", data).nobs == 200


def test_missing_selection_indicator_offset_or_weight_drops_the_row(data, engine):
    data["s"] = data["s"].astype("Int64")
    data.loc[0, "s"] = pd.NA
    offset = np.zeros(200)
    offset[1] = np.nan
    weights = pd.Series(1.0, data.index)
    weights[2] = np.nan
    design = design_from_formula("y ~ x", "s ~ z", data, offset=offset, prob_weights=weights)
    assert_array_equal(design.kept, np.arange(3, 200))


def test_selected_rows_without_outcome_are_dropped_with_a_warning_that_counts(data, engine):
    selected = data.index[data["s"] == 1]
    data.loc[selected[:3], "y"] = np.nan
    with pytest.warns(MissingOutcomeWarning, match=r"3 selected row\(s\) \(s = 1\)"):
        design = design_from_formula("y ~ x", "s ~ x + z", data)
    assert design.dropped == Dropped(outcome=3)
    assert design.nobs == 197
    with pytest.raises(MissingDataError, match="3 selected"):
        design_from_formula("y ~ x", "s ~ x + z", data, missing="raise")


@pytest.mark.parametrize("missing", ["raise", "none"])
def test_missing_covariates_raise_with_columns_and_counts(data, missing, engine):
    data.loc[[1, 2], "x"] = np.nan
    data.loc[2, "z"] = np.nan
    with pytest.raises(MissingDataError, match=r"2 of 200 .* x \(2\), z \(1\)"):
        design_from_formula("y ~ center(x)", "s ~ x + z", data, missing=missing)


def test_unknown_missing_raises(data):
    with pytest.raises(DesignError, match=r"missing must be .* got 'delete'"):
        design_from_formula("y ~ x", "~ z", data, missing="delete")


def root(x):
    return np.where(x < 0, np.nan, np.sqrt(np.abs(x)))


def test_terms_that_evaluate_to_nan_drop_their_rows_jointly(data, engine):
    negative = (data["x"] < 0).to_numpy()
    design = design_from_formula("y ~ root(x)", "s ~ z", data)
    assert_array_equal(design.kept, np.flatnonzero(~negative))
    assert_array_equal(design.W[:, 1], data["z"][~negative])
    assert design.dropped == Dropped(missing=negative.sum())
    with pytest.raises(MissingDataError, match=rf"root\(x\) \({negative.sum()}\)"):
        design_from_formula("y ~ root(x)", "s ~ z", data, missing="none")


def test_a_term_that_is_nan_everywhere_raises(data, engine):
    with pytest.raises(MissingDataError, match=r"center\(root\(x\)\) \(200\)"):
        design_from_formula("y ~ center(root(x))", "s ~ z", data)


def test_infinite_values_raise_and_name_the_column(data, engine):
    data.loc[3, "x"] = np.inf
    with pytest.raises(DesignError, match="infinite values in x"):
        design_from_formula("y ~ x + z", "s ~ z", data)
    with pytest.raises(DesignError, match="infinite values in offset"):
        design_from_formula("y ~ z", "s ~ z", data, offset="x")


def test_no_rows_left_raises(data):
    with pytest.raises(DesignError, match="no rows are left"):
        design_from_formula("y ~ x", "s ~ z", data.assign(x=np.nan))


@pytest.mark.parametrize("kind", ["array", "series", "labels", "shuffled"])
def test_subset_selects_as_loc_does(data, kind, engine):
    data.index = [f"r{i}" for i in range(200)]
    mask = data["x"] > 0
    subset = {
        "array": mask.to_numpy(),
        "series": mask,
        "labels": data.index[mask],
        "shuffled": data.index[mask][::-1],
    }[kind]
    design = design_from_formula("y ~ center(x)", "s ~ z", data, subset, offset="z")
    expected = data.loc[subset]
    assert_array_equal(design.index, expected.index)
    assert_array_equal(data.index[design.kept], expected.index)
    assert_array_equal(design.W[:, 1], expected["z"])
    assert_array_equal(design.offset, expected["z"])
    assert_allclose(design.X[:, 1].mean(), 0, atol=1e-12)
    assert design.dropped == Dropped(subset=(~mask).sum())


def test_bad_subset_raises(data):
    with pytest.raises(DesignError, match="subset does not select"):
        design_from_formula("y ~ x", "~ z", data, subset=["no such label"])


def test_duplicate_index_values_keep_rows_apart(data, engine):
    unique = design_from_formula("y ~ x + C(g)", "s ~ z", data.assign(x=data["x"].mask(data.x > 2)))
    data["x"] = data["x"].mask(data["x"] > 2)
    data.index = np.zeros(200, dtype=int)
    design = design_from_formula("y ~ x + C(g)", "s ~ z", data, prob_weights=data["s"] + 1)
    assert unique.dropped.missing > 0
    assert_array_equal(design.X, unique.X)
    assert_array_equal(design.kept, unique.kept)
    assert_array_equal(design.weights, data["s"].to_numpy()[design.kept] + 1)
    assert (design.index == 0).all()


def test_data_are_left_alone(data, engine):
    data.loc[3, "x"] = np.nan
    before = data.copy(deep=True)
    design = design_from_formula("y ~ x + C(g)", "s ~ z + count", data, offset="z")
    design.X[:] = 0
    design.y[:] = 0
    design.offset[:] = 0
    pd.testing.assert_frame_equal(data, before)


def test_mappings_are_taken_as_data():
    data = {"y": [0, 1, None], "x": [1.0, 2.0, 4.0]}
    assert_array_equal(design_from_formula("y ~ x", "~ 1", data).s, [1, 1, 0])


# ---- offsets and weights -------------------------------------------------------------------------


def test_series_are_aligned_where_the_index_is_a_permutation(data):
    data.index = [f"r{i}" for i in range(200)]
    shuffled = data["z"].sample(frac=1, random_state=1)
    design = design_from_formula("y ~ x", "s ~ x", data, offset_select=shuffled)
    assert_array_equal(design.offset_select, data["z"])
    other = pd.Series(shuffled.to_numpy())
    with pytest.raises(DesignError, match=r"index of offset_select.*offset_select\.to_numpy"):
        design_from_formula("y ~ x", "s ~ x", data, offset_select=other)


def test_weights_are_named_apart(data):
    design = design_from_formula("y ~ x", "s ~ z", data, freq_weights="count")
    assert design.weight_kind == "freq_weights"
    assert_array_equal(design.weights, data["count"])
    design = design_from_formula("y ~ x", "s ~ z", data, prob_weights="odd name")
    assert design.weight_kind == "prob_weights"
    assert design.offset is None
    assert design_from_formula("y ~ x", "s ~ z", data).weights is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"freq_weights": "s", "prob_weights": "s"}, "not both"),
        ({"prob_weights": "x"}, "prob_weights must be >= 0"),
        ({"freq_weights": "odd name"}, "whole numbers.*prob_weights"),
        ({"offset": "nothing"}, "offset='nothing' is not a column"),
        ({"offset": [1.0, 2.0]}, r"offset must have one value .* 200 .* \(2,\)"),
        ({"offset_select": "g"}, "offset_select must be numeric"),
    ],
)
def test_bad_offsets_and_weights_raise(data, options, message):
    with pytest.raises(DesignError, match=message):
        design_from_formula("y ~ x", "s ~ z", data, **options)


# ---- scope ---------------------------------------------------------------------------------------


def test_formulas_see_local_names_of_the_caller(data, engine):
    knots = [-0.5, 0.5]

    def thrice(x):
        return 3 * x

    design = design_from_formula("y ~ thrice(x) + bs(x, knots=knots)", "s ~ z", data)
    assert_array_equal(design.X[:, 1], 3 * data["x"])
    assert design.outcome_spec.namespace == {"thrice": thrice, "knots": knots}
    assert design.select_spec.namespace == {}


def test_env_reaches_further_up_or_is_given(data):
    def model(env):
        return design_from_formula("y ~ tenfold(x)", "s ~ z", data, env=env)

    def tenfold(x):
        return 10 * x

    assert_array_equal(model(1).X[:, 1], 10 * data["x"])
    assert_array_equal(model({"tenfold": twice}).X[:, 1], 2 * data["x"])
    with pytest.raises(DesignError, match="'tenfold'"):
        model(-1)


def test_arrays_of_the_caller_are_columns(data, engine):
    data.loc[5, "z"] = np.nan
    outside = np.arange(200.0)
    design = design_from_formula("y ~ outside", "s ~ z", data, subset=data["x"] > 0)
    assert_array_equal(design.X[:, 1], outside[design.kept])
    assert design.outcome_spec.columns == ("outside",)
    assert design.outcome_spec.namespace == {}


# ---- formulas that cannot be read ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "select_formula", "message"),
    [
        ("y ~ nothing", "~ z", "formula 'y ~ nothing' uses 'nothing'"),
        ("y ~ x", "~ Q('no such')", "select_formula .* uses 'no such'"),
        ("nothing ~ x", "~ z", "uses 'nothing'"),
        ("~ x", "~ z", "needs an outcome"),
        ("y + x", "~ z", "formula must have one '~'"),
        ("y ~ x", "x + z", "select_formula must have one '~'"),
        ("y ~ x ~ z", "~ z", "one '~'"),
        ("y ~ x", None, "select_formula must be a string, got NoneType"),
        ("y ~ x +", "~ z", "cannot evaluate 'y ~ x \\+'"),
        ("y ~ log10(x, 1, 2, 3)", "~ z", "log10"),
    ],
)
def test_bad_formulas_raise_and_are_named(data, formula, select_formula, message):
    with pytest.raises(DesignError, match=message):
        design_from_formula(formula, select_formula, data)


def test_failing_user_function_is_named(data, engine):
    def broken(x):
        raise ZeroDivisionError("inside")

    with pytest.raises(DesignError, match=r"(?s)~ broken\(x\).*inside"):
        design_from_formula("y ~ broken(x)", "~ z", data)
    with pytest.raises(DesignError, match=r"cannot evaluate 'broken\(y\)'.*inside"):
        design_from_formula("broken(y) ~ x", "~ z", data)


def test_duplicate_columns_raise(data):
    data = pd.concat([data, data[["x"]]], axis=1)
    with pytest.raises(DesignError, match="more than one column 'x'"):
        design_from_formula("y ~ x", "~ z", data)


def test_terms_that_make_a_missing_category_drop_their_rows(data, engine):
    design = design_from_formula("y ~ pd.cut(x, [-9, 0, 1])", "s ~ z", data)
    assert_array_equal(design.kept, np.flatnonzero(data["x"] <= 1))


def test_outcome_may_be_an_array_of_the_caller(data, engine):
    labels = data.pop("y").to_numpy()
    assert_array_equal(design_from_formula("labels ~ x", "~ z", data).y, labels)


def test_nullable_weights_with_missing_values(data):
    data.loc[4, "count"] = pd.NA
    design = design_from_formula("y ~ x", "s ~ z", data, freq_weights=data["count"])
    assert_array_equal(design.kept, np.delete(np.arange(200), 4))


@pytest.mark.parametrize(
    "formula", ["~ g", "~ 0 + g", "~ x * g", "~ C(g) + x", "~ C(g, Treatment('b'))"]
)
def test_text_as_levels_is_the_design_of_patsy_itself(formula):
    rng = np.random.default_rng(0)
    data = pd.DataFrame(
        {"x": rng.normal(size=60), "k": rng.integers(0, 9, 60), "z": rng.normal(size=60)}
    )
    data["g"] = np.array(["c", "b", "a", "B"], dtype=object)[rng.integers(0, 4, 60)]
    data["y"] = rng.integers(0, 2, 60).astype(float)
    data.loc[::3, "y"] = np.nan
    design = design_from_formula("y " + formula + " + k", "~ x + z", data)
    expected = patsy.dmatrix(formula[1:] + " + k", data, return_type="dataframe")
    assert list(design.outcome_names) == list(expected.columns)
    assert_array_equal(design.X, expected.to_numpy())
    assert design.outcome_spec is not None
    some = data.iloc[[5, 17, 2]]
    again = rebuild(design.outcome_spec, some)
    assert_array_equal(again.to_numpy(), expected.loc[some.index].to_numpy())
    with pytest.raises(DesignError, match="not seen"):
        rebuild(design.outcome_spec, some.assign(g="new"))
