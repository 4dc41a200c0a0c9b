"""Penalised terms in formulas and arrays: what they read, what they refuse, and their columns."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar import (
    BiasCorrLogit,
    DesignError,
    Execution,
    GreeneSelectionLogit,
    GroupEffects,
    MissingOutcomeWarning,
    Smooth,
)
from statsmodels_mnar.baselines import NaiveLogit
from statsmodels_mnar.design import design_from_arrays, design_from_formula, rebuild
from statsmodels_mnar.learn import masking_study


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 120
    frame = pd.DataFrame({"x": rng.normal(size=n), "v": rng.normal(size=n)})
    frame["g"] = rng.choice(list("abcdef"), n)
    frame["k"] = rng.integers(0, 5, n)
    frame["odd name"] = frame["g"]
    frame["s"] = (rng.random(n) < 0.6).astype(int)
    frame["y"] = (rng.random(n) < 0.5).astype(float)
    frame.loc[frame.s == 0, "y"] = np.nan
    return frame


def names(design, equation="select"):
    return [term.name for term in design.penalised if term.equation == equation]


@pytest.mark.parametrize(
    ("formula", "found", "ordinary"),
    [
        ("s ~ x + re(g)", ["re(g)"], ["Intercept", "x"]),
        ("s ~ re(g) + smooth(x, df=6) + v", ["smooth(x)", "re(g)"], ["Intercept", "v"]),
        ("s ~ re(g)", ["re(g)"], ["Intercept"]),
        ("s ~ 0 + re(g) + x", ["re(g)"], ["x"]),
        ("s ~ x - 1 + re(k, sd=2)", ["re(k)"], ["x"]),
        ("s ~ re(Q('odd name')) + x:v", ["re(odd name)"], ["Intercept", "x:v"]),
        ("s ~ re(`odd name`) + np.log(v + 9)", ["re(odd name)"], ["Intercept", "np.log(v + 9)"]),
    ],
)
def test_terms_are_taken_out_of_formulas(data, formula, found, ordinary):
    design = design_from_formula("y ~ x", formula, data, env={"np": np})
    assert names(design) == found
    first = design.penalised[0].start
    assert list(design.select_names[:first]) == ordinary
    assert design.W.shape[1] == len(design.select_names)
    for term in design.penalised:
        assert design.select_names[term.columns] == tuple(term.names)


def test_options_may_be_names_of_the_caller(data):
    design = design_from_formula("y ~ x", "s ~ re(g, sd=size)", data, env={"size": 0.5})
    assert design.penalised[0].fixed == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("term", "words"),
    [
        ("re(x)", r"looks like a measurement.*smooth\(x\)"),
        ("re(one)", "one level"),
        ("re(row)", r"every one of the 120 rows has a level of row of its own"),
        ("smooth(k)", r"5 different values, fewer than the df=10.*smooth\(k, df=5\).*C\(k\)"),
        ("smooth(three)", r"3 different values.*Use C\(three\)"),
        ("smooth(g)", r"not numeric.*re\(g\)"),
        ("smooth(big)", "infinite"),
        ("re(nobody)", "'nobody', which is not a column"),
        ("smooth(np.log(v))", "reads an expression; compute"),
        ("re(g, sd=-1)", "sd=-1 must be a positive number"),
        ("re(g, sd='a')", "sd='a' must be a positive number"),
        ("smooth(x, df=3)", "df=3 must be an integer of at least 4"),
        ("smooth(x, penalty=-1)", "penalty=-1 must be a nonnegative"),
        ("smooth(x, k=5)", r"the option 'k'; smooth\(\) takes df and penalty"),
        ("re(g, x)", "needs one column"),
        ("x:re(g)", "joined by '\\+' only"),
        ("x * smooth(v)", "joined by '\\+' only"),
        ("re(g) + re(g)", r"re\(g\) twice"),
        ("x - re(g)", "cannot be subtracted; leave it out"),
    ],
)
def test_bad_terms_are_refused_with_the_remedy(data, term, words):
    frame = data.assign(one=1, row=np.arange(120), three=data.k % 3, big=np.inf)
    with pytest.raises(DesignError, match=words):
        design_from_formula("y ~ x", f"s ~ {term}", frame, env={"np": np})


def test_a_level_for_every_labelled_row_is_refused_in_the_outcome(data):
    frame = data.assign(row=np.where(data.s == 1, np.arange(120), 0))
    with pytest.raises(DesignError, match="on which the equation is observed has a level"):
        design_from_formula("y ~ re(row)", "s ~ x", frame)


def test_missing_levels_drop_their_rows_from_both_equations(data):
    frame = data.copy()
    frame.loc[[3, 5], "g"] = None
    design = design_from_formula("y ~ x", "s ~ re(g)", frame)
    assert design.nobs == 118
    assert design.dropped.missing == 2


def test_a_column_in_both_equations_has_effects_of_its_own_in_each(data):
    design = design_from_formula("y ~ re(g)", "s ~ re(g)", data)
    assert names(design, "outcome") == names(design) == ["re(g)"]


def test_levels_are_indicators_and_new_ones_are_zero(data):
    design = design_from_formula("y ~ x", "s ~ x + re(g)", data)
    term = design.penalised[0]
    np.testing.assert_array_equal(
        design.W[:, term.columns], (data.g.to_numpy()[:, None] == np.array(list("abcdef")))
    )
    new = rebuild(design.select_spec, pd.DataFrame({"x": [0.0, 1.0, 2.0], "g": ["b", "zz", None]}))
    assert new["re(g)[b]"].tolist()[:2] == [1.0, 0.0]
    assert new.iloc[1, 2:].eq(0.0).all()
    assert new.iloc[2].isna().all()


@pytest.mark.parametrize("kind", ["category", "string", "object", "boolean"])
def test_levels_of_any_type_are_found_again(data, kind):
    values = data.g if kind != "boolean" else data.k > 2
    frame = data.assign(g=values.astype(kind))
    design = design_from_formula("y ~ x", "s ~ re(g)", frame)
    again = rebuild(design.select_spec, frame).to_numpy()
    np.testing.assert_array_equal(again, design.W)
    plain = rebuild(design.select_spec, data.assign(g=values)).to_numpy()
    np.testing.assert_array_equal(plain, design.W)


def test_smooth_is_centred_and_straight_beyond_its_knots(data):
    design = design_from_formula("y ~ smooth(x)", "s ~ v", data)
    term = design.penalised[0]
    columns = design.X[:, term.columns]
    np.testing.assert_allclose(columns.mean(axis=0), 0.0, atol=1e-12)
    low, high = term.basis.limits
    assert low < data.x.min() < data.x.max() < high
    at = term.basis.columns(high + np.array([0.0, 1.0, 2.0, 3.0]))
    np.testing.assert_allclose(np.diff(at, n=2, axis=0), 0.0, atol=1e-9)
    inside = term.basis.columns(high + np.array([-1e-6, 1e-6]))
    np.testing.assert_allclose(inside[0], inside[1], atol=1e-4)


def test_straight_lines_alone_are_not_penalised(data):
    design = design_from_formula("y ~ smooth(x, df=7)", "s ~ v", data)
    term = design.penalised[0]
    assert term.rank == np.linalg.matrix_rank(term.penalty, tol=1e-10) == 5
    x = np.linspace(*term.basis.limits, 50)
    line = np.linalg.lstsq(
        np.column_stack([np.ones(50), x]), term.basis.columns(x) @ term.free, rcond=None
    )
    assert line[1] == pytest.approx(0.0, abs=1e-18)


def test_designs_with_terms_can_be_pickled(data):
    design = design_from_formula("y ~ smooth(x)", "s ~ re(g)", data)
    spec = pickle.loads(pickle.dumps(design.outcome_spec))
    np.testing.assert_array_equal(rebuild(spec, data).to_numpy(), design.X)


def test_arrays_give_the_design_of_formulas(data):
    one = np.ones((120, 1))
    found = design_from_arrays(
        data.y, np.hstack([one, data[["v"]]]), data.s, one,
        terms={"x": Smooth(data.x, df=6)}, terms_select={"g": GroupEffects(data.g, sd=0.5)},
    )  # fmt: skip
    expected = design_from_formula("y ~ v + smooth(x, df=6)", "s ~ re(g, sd=0.5)", data)
    np.testing.assert_allclose(found.X, expected.X)
    np.testing.assert_allclose(found.W, expected.W)
    assert found.outcome_names[2:] == expected.outcome_names[2:]
    assert found.penalised[1].fixed == expected.penalised[1].fixed == 4.0


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ([1], "must be a dict"),
        ({"g": [1, 2]}, "must be GroupEffects"),
        ({"g": GroupEffects(np.zeros((3, 2)))}, "one value a row"),
        ({"g": GroupEffects([1, 2])}, "differ in their number of rows"),
        ({"g": Smooth(np.arange(120.0), df=2)}, "df=2"),
    ],
)
def test_bad_terms_of_arrays_are_refused(data, terms, words):
    one = np.ones((120, 1))
    with pytest.raises(DesignError, match=words):
        design_from_arrays(data.y, one, data.s, one, terms_select=terms)


def test_missing_groups_of_arrays_drop_rows_or_raise(data):
    one = np.ones((120, 1))
    groups = data.g.where(data.index != 7)
    with pytest.raises(ValueError, match="missing"):
        design_from_arrays(data.y, one, data.s, one, terms={"g": GroupEffects(groups)})
    design = design_from_arrays(
        data.y, one, data.s, one, terms={"g": GroupEffects(groups)}, missing="drop"
    )
    assert design.nobs == 119


def test_methods_without_penalties_refuse_terms(data):
    formulas = ("y ~ x", "s ~ v + re(g)", data)
    for method in (NaiveLogit, BiasCorrLogit):
        with pytest.raises(DesignError, match=rf"{method.__name__} takes no penalised.*re\(g\)"):
            method.from_formula(*formulas)
    with pytest.raises(DesignError, match=r"masking_study takes no penalised"):
        masking_study(data, "y ~ x", "s ~ v + re(g)", repeats=1)
    with pytest.raises(DesignError, match=r"BiasCorrLogit takes no penalised.*re\(g\)"):
        BiasCorrLogit.from_formula(*formulas, execution=Execution())


def test_checks_look_at_what_no_penalty_holds(data):
    with pytest.raises(DesignError, match=r"the straight line of smooth\(x\)"):
        GreeneSelectionLogit.from_formula("y ~ x + smooth(x)", "s ~ v + x", data).fit()


def test_rows_without_an_outcome_are_still_dropped(data):
    frame = data.copy()
    frame.loc[frame.index[frame.s == 1][0], "y"] = np.nan
    with pytest.warns(MissingOutcomeWarning):
        design = design_from_formula("y ~ smooth(x)", "s ~ re(g)", frame)
    assert design.nobs == 119
