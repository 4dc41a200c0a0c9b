"""Checks on a design: rank, levels, exclusion, variation, separation."""

import ast
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from statsmodels.tools import sm_exceptions

import statsmodels_mnar.design as package
from statsmodels_mnar import errors
from statsmodels_mnar.design import (
    check_design,
    check_exclusion,
    check_levels,
    check_outcome_varies,
    check_rank,
    check_selection_varies,
    check_separation,
    design_from_arrays,
    design_from_formula,
    find_separation,
)
from statsmodels_mnar.design.checks import in_span


def test_a_good_design_passes(data):
    check_design(design_from_formula("y ~ bs(x, df=4) + C(g)", "s ~ x * C(g) + z", data))


def test_errors_are_value_errors_and_those_of_statsmodels():
    assert issubclass(errors.DesignError, ValueError)
    assert issubclass(errors.PerfectSeparationError, sm_exceptions.PerfectSeparationError)
    assert issubclass(errors.MissingDataError, sm_exceptions.MissingDataError)
    for name in errors.__all__:
        kind = errors.DesignError if name.endswith("Error") else sm_exceptions.ModelWarning
        assert issubclass(getattr(errors, name), kind)


# ---- rank and levels -----------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_collinear_columns_are_named_whatever_their_units(data, scale):
    data["sum"] = scale * (data["x"] + data["z"])
    design = design_from_formula("y ~ x", "s ~ x + z + sum", data)
    with pytest.raises(errors.SingularDesignError, match="selection equation") as caught:
        check_rank(design)
    message = str(caught.value)
    assert all(name in message for name in ("x", "z", "sum"))
    assert "Intercept" not in message


def test_the_outcome_design_is_judged_on_labelled_rows(data):
    data["twin"] = np.where(data["s"] == 1, 2 * data["x"], data["z"])
    design = design_from_formula("y ~ x + twin", "s ~ x + twin", data)
    with pytest.raises(errors.SingularDesignError, match=r"outcome equation .* labelled .*twin"):
        check_rank(design)
    check_rank(replace(design, X=design.X[:, :2], outcome_names=("Intercept", "x")))


def test_dummy_trap_is_found(data):
    dummies = pd.get_dummies(data["g"], dtype=float)
    design = design_from_formula("y ~ x", "s ~ a + b + c", data.join(dummies))
    with pytest.raises(errors.SingularDesignError, match=r"combination of (\w+, ){2}\w+\. "):
        check_rank(design)


def test_a_year_and_its_square_are_not_collinear(data):
    data["year"] = 2000.0 + data["count"].astype(float)
    check_rank(design_from_formula("y ~ x", "s ~ year + I(year ** 2)", data))


def test_more_columns_than_rows_is_singular():
    X = np.random.default_rng(0).normal(size=(6, 4))
    design = design_from_arrays([0, 1, 0, np.nan, np.nan, np.nan], X)
    with pytest.raises(errors.SingularDesignError, match="outcome"):
        check_rank(design)


def test_levels_never_seen_among_labelled_rows_are_named(data):
    data.loc[data["s"] == 0, "g"] = "only unlabelled"
    design = design_from_formula("y ~ C(g) + x", "s ~ z", data)
    with pytest.raises(errors.SingularDesignError, match=r"C\(g\)\[T\.only unlabelled\].*Merge"):
        check_levels(design)
    check_levels(design_from_formula("y ~ x", "s ~ C(g)", data))


# ---- exclusion -----------------------------------------------------------------------------------


@pytest.mark.parametrize("select", ["x", "1", "I(2 * x + 1)", "x + C(g)"])
def test_no_exclusion_restriction_warns(data, select):
    design = design_from_formula("y ~ x + C(g)", f"s ~ {select}", data)
    with pytest.warns(errors.NoExclusionRestrictionWarning, match="Intercept.*functional form"):
        check_exclusion(design)


@pytest.mark.parametrize("select", ["z", "x + I(x ** 2)", "x + z"])
def test_a_variable_of_its_own_does_not_warn(data, select):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_exclusion(design_from_formula("y ~ x", f"s ~ {select}", data))
        check_exclusion(design_from_formula("y ~ x", "s ~ x", data, offset_select="z"))


def test_a_column_that_differs_on_a_late_row_only_is_no_combination():
    """The first rows are looked at first, which may show that one lies outside the span only."""
    x = np.random.default_rng(0).standard_normal((20_000, 2))
    other = x[:, :1] + 2.0 * x[:, 1:]
    assert in_span(other, x)
    other[-1] += 1.0
    assert not in_span(other, x)
    assert not in_span(np.random.default_rng(1).standard_normal((20_000, 1)), x)


def test_exclusion_is_judged_by_values_not_by_names():
    rng = np.random.default_rng(1)
    y = np.where(rng.random(50) < 0.5, 1.0, np.nan)
    design = design_from_arrays(y, rng.normal(size=50), exog_select=rng.normal(size=50))
    assert design.outcome_names == design.select_names
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_exclusion(design)


# ---- variation -----------------------------------------------------------------------------------


def test_selection_must_vary(data):
    with pytest.raises(errors.NoVariationError, match="all 120 rows are selected"):
        check_selection_varies(design_from_formula("y ~ x", "s ~ z", data[data["s"] == 1]))
    with pytest.raises(errors.NoVariationError, match="none of the 80 rows is selected"):
        check_selection_varies(design_from_formula("y ~ x", "s ~ z", data[data["s"] == 0]))


def test_outcome_must_vary(data):
    data["y"] = np.where(data["s"] == 1, 1.0, 0.0)
    with pytest.raises(errors.NoVariationError, match="outcome y is 1 on all 120 labelled"):
        check_outcome_varies(design_from_formula("y ~ x", "s ~ z", data))


# ---- separation ----------------------------------------------------------------------------------


def separated_by_linear_programme(y, X):
    """The definition, in one programme over all rows, as an independent answer."""
    Z = (2 * y - 1)[:, None] * X
    solution = linprog(-Z.sum(axis=0), A_ub=-Z, b_ub=np.zeros(len(y)), bounds=(-1, 1))
    return -solution.fun > 1e-6


@pytest.mark.parametrize("intercept", [True, pytest.param(False, marks=pytest.mark.full)])
def test_separation_agrees_with_the_linear_programme_on_small_data(intercept):
    rng = np.random.default_rng(11)
    found = []
    for _ in range(300):
        n, p = rng.integers(5, 25 if intercept else 12), rng.integers(1, 4)
        X = rng.integers(-2, 3, size=(n, p)).astype(float)
        if intercept:
            X = np.column_stack([np.ones(n), X])
        y = rng.integers(0, 2, n).astype(float)
        if 0 < y.sum() < n and np.linalg.matrix_rank(X) == X.shape[1]:
            columns = find_separation(y, X)
            assert (columns is not None) == separated_by_linear_programme(y, X)
            found.append(columns is not None)
            if columns is not None:
                keep = ([0] if intercept else []) + columns
                assert separated_by_linear_programme(y, X[:, sorted(keep)])
    assert 15 < sum(found) < len(found) - 15


@pytest.fixture(scope="module")
def large():
    """50,000 rows, 12 columns on very different scales."""
    rng = np.random.default_rng(5)
    n = 50_000
    X = np.column_stack(
        [
            np.ones(n),
            rng.normal(size=(n, 8)),
            rng.integers(0, 2, size=(n, 2)),
            50_000 + 1_000 * rng.exponential(size=n),
        ]
    )
    y = (rng.logistic(size=n) < X[:, 1:5].sum(axis=1) - 2).astype(float)
    return y, X


def test_overlap_is_certified_without_a_linear_programme(large, monkeypatch):
    """The programme is what takes long on so many rows."""

    def solved(*_, **__):
        raise AssertionError("a linear programme was solved")

    monkeypatch.setattr("statsmodels_mnar.design.checks.linprog", solved)
    y, X = large
    assert find_separation(y, X) is None


def test_rare_outcomes_and_one_flipped_row_are_not_separation(large):
    y, X = large
    rare = np.zeros_like(y)
    rare[np.flatnonzero(y)[:20]] = 1
    assert find_separation(rare, X) is None
    almost = (X[:, 1] + 2 * X[:, 2] > 0.1).astype(float)
    middle = np.argsort(X[:, 1] + 2 * X[:, 2])[::25_000][1]
    almost[middle] = 1 - almost[middle]
    extreme = np.argmax(X[:, 1] + 2 * X[:, 2])
    almost[extreme] = 0
    assert find_separation(almost, X) is None


def test_separating_combination_is_named_and_no_other_column(large):
    _, X = large
    y = (X[:, 1] + 2 * X[:, 2] - 0.3 * X[:, 9] > 0.1).astype(float)
    assert find_separation(y, X) == [1, 2, 9]


@pytest.mark.parametrize("column", [9, 11])
def test_single_separating_column_is_named(large, column):
    y, X = large
    threshold = np.median(X[:, column])
    y = np.where(X[:, column] > threshold, 1.0, 0.0 if column == 11 else y)
    names = [f"v{j}" for j in range(12)]
    with pytest.raises(
        errors.PerfectSeparationError, match=rf"selection .* by v{column}: .*ridge.*drop"
    ):
        check_separation(y, X, names, "selection")


def test_a_level_with_one_outcome_separates_without_explicit_intercept(large):
    y, X = large
    level = np.arange(len(y)) % 4
    dummies = np.eye(4)[level]
    y = np.where(level == 2, 1.0, y)
    design = np.column_stack([dummies, X[:, 1:4]])
    assert find_separation(y, design) == [2]
    assert find_separation(np.where(level == 2, 1 - y, large[0]), design[:, [0, 1, 3, 4]]) is None


def test_variables_far_from_zero_do_not_hide_separation():
    year = 2000 + np.arange(40) / 4
    x = np.tile([0.0, 1.0], 20)
    X = np.column_stack([np.ones(40), year, x])
    assert find_separation((year + 3 * x > 2006).astype(float), X) == [1, 2]


def test_the_credit_cards_kind_of_selection_is_found(data):
    data["s"] = (data["z"] > 0).astype(int)
    data["y"] = np.where(data["s"] == 1, (data["x"] > 0) * 1.0, np.nan)
    design = design_from_formula("y ~ g", "s ~ z + x", data)
    with pytest.raises(errors.PerfectSeparationError, match=r"selection equation .* by z:"):
        check_separation(design.s, design.W, design.select_names, "selection")
    rows = design.labelled
    check_separation(design.y[rows], design.X[rows], design.outcome_names, "outcome")


def test_the_design_layer_imports_only_what_it_may():
    allowed = {"numpy", "pandas", "patsy", "formulaic", "scipy", "cloudpickle", "statsmodels"}
    allowed |= {"dask", "pyarrow"}  # inside functions: they are optional
    for path in Path(package.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                if node.level:
                    assert node.level == 1 or node.module in ("errors", "types"), (
                        path.name,
                        node.module,
                    )
                    continue
                names = [node.module]
            else:
                continue
            for name in names:
                top = name.partition(".")[0]
                assert top in allowed | sys.stdlib_module_names, (path.name, name)
