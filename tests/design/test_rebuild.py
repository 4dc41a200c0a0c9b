"""Designs on new data through the stored spec, in this process and in a fresh one."""

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula
from numpy.testing import assert_allclose, assert_array_equal

import statsmodels_mnar.design as package
from statsmodels_mnar.design import design_from_formula, rebuild
from statsmodels_mnar.errors import DesignError
from tests.patience import PATIENCE

TERMS = {
    "patsy": "bs(x, df=5) + center(x):C(g) + Q('odd name') + standardize(z) + flag + count",
    "formulaic": "bs(x, df=5) + center(x):C(g) + `odd name` + scale(z) + flag + count",
}


def assert_same_design(rebuilt, design):
    assert tuple(rebuilt.columns) == design.outcome_names
    assert_array_equal(rebuilt.to_numpy(), design.X)


def test_rebuilding_on_the_data_gives_the_design_again(data, engine):
    design = design_from_formula(f"y ~ {TERMS[engine]}", "s ~ z", data)
    assert_same_design(rebuild(design.outcome_spec, data), design)


def test_rebuilding_part_of_the_data_gives_part_of_the_design(data, engine):
    design = design_from_formula(f"y ~ {TERMS[engine]}", "s ~ z", data)
    some = data[data["g"] == "b"].iloc[::-1]
    assert_allclose(rebuild(design.outcome_spec, some), design.X[some.index], rtol=1e-13)


def test_only_the_columns_of_that_equation_are_needed(data, engine):
    design = design_from_formula("y ~ x", "s ~ x + z", data)
    assert rebuild(design.outcome_spec, data[["x"]]).shape == (200, 2)
    with pytest.raises(DesignError, match=r"lacks the column\(s\) z"):
        rebuild(design.select_spec, data[["x"]])


def test_rows_with_missing_covariates_are_nan_and_the_index_is_kept(data, engine):
    design = design_from_formula("y ~ center(x) + C(g)", "s ~ z", data)
    new = data.set_axis(np.repeat(["a", "b"], 100))
    new.iloc[3, new.columns.get_loc("x")] = np.nan
    new.iloc[5, new.columns.get_loc("g")] = None
    rebuilt = rebuild(design.outcome_spec, new)
    assert_array_equal(rebuilt.index, new.index)
    assert_array_equal(np.flatnonzero(rebuilt.isna().all(axis=1)), [3, 5])
    rest = np.delete(np.arange(200), [3, 5])
    assert_array_equal(rebuilt.to_numpy()[rest], design.X[rest])


def test_rows_on_which_a_term_is_nan_are_nan(data, engine):
    def root(x):
        return np.where(x < 0, np.nan, np.sqrt(np.abs(x)))

    design = design_from_formula("y ~ root(x)", "s ~ z", data)
    rebuilt = rebuild(design.outcome_spec, {"x": [4.0, -1.0]})
    assert_array_equal(rebuilt, [[1, 2], [np.nan, np.nan]])


def test_no_complete_row_and_no_row_at_all(data, engine):
    design = design_from_formula("y ~ center(x) + C(g)", "s ~ 1", data)
    missing = pd.DataFrame({"x": [np.nan, 1.0], "g": ["a", None]})
    assert rebuild(design.outcome_spec, missing).isna().all(axis=None)
    assert rebuild(design.outcome_spec, missing[:0]).shape == (0, 4)
    assert_array_equal(rebuild(design.select_spec, missing), [[1], [1]])


def test_scalars_and_a_row_are_data_too(data, engine):
    design = design_from_formula("y ~ x + C(g)", "s ~ z", data)
    expected = [[1, 0, 1, 0.5]]
    assert_array_equal(rebuild(design.outcome_spec, {"x": 0.5, "g": "c"}), expected)
    assert_array_equal(rebuild(design.outcome_spec, pd.Series({"x": 0.5, "g": "c"})), expected)


@pytest.mark.parametrize("term", ["g", "C(g)", "C(g):x"])
@pytest.mark.parametrize("dtype", ["object", "category"])
def test_unseen_levels_raise_and_are_named(data, engine, term, dtype):
    design = design_from_formula(f"y ~ {term}", "s ~ z", data.assign(g=data["g"].astype(dtype)))
    new = pd.DataFrame({"g": ["a", "new level"], "x": [1.0, 1.0]}).astype({"g": dtype})
    with pytest.raises(ValueError, match=r"(?s)g.*new level.*not seen"):
        rebuild(design.outcome_spec, new)


def test_categories_may_be_fewer_or_in_another_order(data, engine):
    typed = data.assign(g=pd.Categorical(data["g"], categories=["c", "b", "a"]))
    design = design_from_formula("y ~ g", "s ~ z", typed)
    assert design.outcome_names == ("Intercept", "g[T.b]", "g[T.a]")
    new = pd.DataFrame({"g": pd.Categorical(["b", "a"], categories=["a", "b"])})
    assert_array_equal(rebuild(design.outcome_spec, new), [[1, 1, 0], [1, 0, 1]])


def test_data_outside_the_knots_raise_with_the_remedy(data):
    design = design_from_formula("y ~ bs(x, df=4)", "s ~ z", data)
    with pytest.raises(DesignError, match=r"(?s)outermost knots.*lower_bound"):
        rebuild(design.outcome_spec, {"x": [99.0]})


def test_the_engine_is_the_one_the_design_was_built_with(data, engine, monkeypatch):
    design = design_from_formula(f"y ~ {TERMS[engine]}", "s ~ z", data)
    other = {"patsy": "formulaic", "formulaic": "patsy"}[engine]
    monkeypatch.setattr(statsmodels.formula.options, "formula_engine", other)
    assert_same_design(rebuild(design.outcome_spec, data), design)
    spec = pickle.loads(pickle.dumps(design.outcome_spec))
    assert_same_design(rebuild(spec, data), design)


def test_formula_functions_keep_the_value_they_had(data, engine):
    power = 2

    def raised(x, power):
        return x**power

    design = design_from_formula("y ~ raised(x, power)", "s ~ z", data)
    power = 3
    assert_array_equal(rebuild(design.outcome_spec, {"x": [2.0]}), [[1, 4]])
    assert power == 3


def test_term_slices_cover_the_columns(data, engine):
    spec = design_from_formula("y ~ C(g) + x", "s ~ z", data).outcome_spec
    assert spec.term_slices["C(g)"] == slice(1, 3)
    assert spec.term_slices["x"] == slice(3, 4)


def test_deepcopy_needs_no_pickling(data):
    design = design_from_formula("y ~ bs(x, df=4)", "s ~ z", data)
    copied = copy.deepcopy(design)
    assert_array_equal(copied.X, design.X)
    assert copied.X is not design.X
    assert_same_design(rebuild(copied.outcome_spec, data), design)


# ---- pickling ------------------------------------------------------------------------------------

MODULE = """
import numpy as np
import patsy

def twice(x):
    return 2 * x

class Largest:
    def __init__(self):
        self.peak = -np.inf
    def memorize_chunk(self, x):
        self.peak = max(self.peak, np.max(x))
    def memorize_finish(self):
        pass
    def transform(self, x):
        return x / self.peak

by_largest = patsy.stateful_transform(Largest)
"""

LOAD = """
import pickle, sys
from statsmodels_mnar.design import rebuild
with open(sys.argv[1], "rb") as file:
    design, data = pickle.load(file)
design_again = rebuild(design.outcome_spec, data)
with open(sys.argv[2], "wb") as file:
    pickle.dump(design_again, file)
"""


@pytest.fixture
def importable(tmp_path, monkeypatch):
    """A module of the user's that a fresh process can import."""
    (tmp_path / "users_module_of_test_rebuild.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    import users_module_of_test_rebuild as module

    yield module
    del sys.modules[module.__name__]


def rebuild_in_fresh_process(design, data, folder):
    (folder / "in.pkl").write_bytes(pickle.dumps((design, data)))
    root = Path(package.__file__).parents[2]
    subprocess.run(
        [sys.executable, "-c", LOAD, folder / "in.pkl", folder / "out.pkl"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(folder)])},
        check=True,
        timeout=PATIENCE,
    )
    return pickle.loads((folder / "out.pkl").read_bytes())


@pytest.mark.full  # by default the results of a whole fit go to a fresh process
def test_a_fresh_process_rebuilds_the_same_matrix(data, engine, importable, tmp_path):
    twice, module = importable.twice, importable
    terms = f"{TERMS[engine]} + twice(x) + module.twice(z) + np.exp(z)"
    design = design_from_formula(f"y ~ {terms}", "s ~ z", data)
    assert {"twice", "module"} <= set(design.outcome_spec.namespace)
    assert_same_design(rebuild_in_fresh_process(design, data, tmp_path), design)
    assert twice is not None
    assert module is not None


@pytest.mark.full
def test_local_functions_reach_a_fresh_process_by_value(data, engine, tmp_path):
    pytest.importorskip("cloudpickle")

    def shifted(x):
        return x + np.float64(7)

    design = design_from_formula("y ~ shifted(x) + C(g)", "s ~ z", data)
    assert_same_design(rebuild_in_fresh_process(design, data, tmp_path), design)


def test_every_spline_and_contrast_survives_pickling(data, importable):
    by_largest = importable.by_largest
    terms = "cr(x, df=4) + cc(z, df=4) + te(cr(x, 3), cr(z, 3)) + C(g, Sum) + C(count, Poly)"
    design = design_from_formula(f"y ~ {terms} + by_largest(x) + scale(x):flag", "s ~ z", data)
    spec = pickle.loads(pickle.dumps(design.outcome_spec))
    assert_same_design(rebuild(spec, data), design)
    some = data[::7]
    assert_array_equal(rebuild(spec, some), rebuild(design.outcome_spec, some))
    assert by_largest


def test_without_cloudpickle_functions_that_cannot_be_imported_are_named(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)

    def local(x):
        return x

    design = design_from_formula("y ~ local(x)", "s ~ z", data)
    with pytest.raises(pickle.PicklingError, match=r"local'.*Move it to a module.*cloudpickle"):
        pickle.dumps(design)
    assert_array_equal(rebuild(design.outcome_spec, data), design.X)


def test_the_pickle_holds_no_data(data):
    long = pd.concat([data] * 50, ignore_index=True)
    sizes = [
        len(pickle.dumps(design_from_formula("y ~ bs(x, df=5) + g", "s ~ z", d).outcome_spec))
        for d in (data, long)
    ]
    assert sizes[1] < sizes[0] + 200


@pytest.mark.parametrize(
    ("rhs", "factors"),
    [
        ("x + g + count", {"g"}),
        ("C(count):x + C(z > 0) + I(x > 0)", {"count"}),
        ("{sum} + C(x.round(0))", {"count"}),
        ("{odd}", {"odd level"}),
        ("{odd_c} + g:x", {"odd level", "g"}),
    ],
)
def test_factors_are_the_columns_that_enter_by_their_levels(data, engine, rhs, factors):
    data["odd level"] = np.where(data["x"] > 0, "up", "down")
    terms = {
        "patsy": {"sum": "C(count, Sum)", "odd": "Q('odd level')", "odd_c": "C(Q('odd level'))"},
        "formulaic": {
            "sum": "C(count, contr.sum)", "odd": "`odd level`", "odd_c": "C(`odd level`)",
        },
    }[engine]  # fmt: skip
    design = design_from_formula(f"y ~ {rhs.format(**terms)}", "~ z", data)
    found = design.outcome_spec.factors
    assert found == factors
    assert pickle.loads(pickle.dumps(design.outcome_spec)).factors == found
