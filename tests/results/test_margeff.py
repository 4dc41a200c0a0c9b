"""Marginal effects against differentiated predictions, a numerical delta method and statsmodels."""

from __future__ import annotations

import pickle
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.tools.sm_exceptions import ModelWarning

from statsmodels_mnar import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection
from statsmodels_mnar.datasets import simulate_greene

from ..formulas import FORMULAS
from ..numerical import jacobian

FORMULA, SELECT = "y ~ x1 + x2 + k", "s ~ x1 + x2 + k + z"  # x2 is 0/1, k a count
MODELS = {
    "free": (GreeneSelectionLogit, {"normalization": "free"}),
    "sigma": (GreeneSelectionLogit, {"normalization": {"sigma": 1.0}}),
    "loading": (GreeneSelectionLogit, {"normalization": "loading"}),
    "probit face": (GreeneSelectionLogit, {"normalization": "probit"}),
    "ProbitSelection": (ProbitSelection, {}),
    "BiasCorr": (BiasCorrLogit, {"normalization": "loading"}),
}
WHICH = ("mean", "mean-selected", "mean-unselected", "prob-select")
JOINT = ("p11", "p10", "p01", "p00")
METHODS = ("dydx", "eyex", "dyex", "eydx")
SOME = 150  # rows averaged over, to be quick; the others have no weight
POINTS = ("overall", "mean", "median", "zero")


def simulated_data(n: int = 800, rng: int = 3) -> pd.DataFrame:
    data = simulate_greene(n, rng=rng).data
    generator = np.random.default_rng(rng)
    return data.assign(
        k=generator.poisson(1.5, n).astype(float),
        known=0.3 * generator.standard_normal(n),
        g=generator.choice(["a", "b", "c"], n),
    )


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return simulated_data()


@pytest.fixture(scope="module")
def fitted(request, data):
    model, options = MODELS[request.param]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)  # of weak identification and faces
        results = model.from_formula(FORMULA, SELECT, data, offset="known", **options).fit()
    if request.param == "free":
        assert results.model.param_names[-2:] == ["lnsigma", "athrho"]  # not on a face
    return results


def some(results):
    return np.arange(results.model.design.nobs) < SOME


class ByHand:
    """Effects as functions of the parameters, by differences of the model's own predictions."""

    def __init__(self, results, which, at="overall", method="dydx", discrete=()):
        self.model, self.which, self.method = results.model, which, method
        self.discrete = discrete
        X, W = results.model.exog[:SOME], results.model.exog_select[:SOME]
        offset = results.model.offset[:SOME]
        self.outcome = list(results.model.design.outcome_names)
        self.select = list(results.model.design.select_names)
        if at != "overall":
            centre = {"mean": np.mean, "median": np.median, "zero": lambda v, axis: 0 * v[0]}[at]
            X, W, offset = (np.atleast_1d(centre(v, axis=0)) for v in (X, W, offset))
            X, W = X[None], W[None]
            X[:, 0] = W[:, 0] = 1.0
        self.X, self.W, self.offset = X, W, offset

    def predicted(self, params, name=None, change=None):
        X, W = self.X.copy(), self.W.copy()
        for design, names in ((X, self.outcome), (W, self.select)):
            if name in names:
                j = names.index(name)
                design[:, j] = change(design[:, j])
        p = self.model.predict(
            params, X, W, which=self.which, offset=self.offset, offset_select=0.0
        )
        return np.log(p) if self.method.startswith("ey") else p

    def effect(self, params, name, h=1e-5):
        if (kind := dict(self.discrete).get(name)) == "dummy":
            ends, width = (lambda x: 0 * x, lambda x: 0 * x + 1), 1.0
        elif kind == "count":
            ends, width = (lambda x: x - 1, lambda x: x + 1), 2.0
        else:
            ends, width = (lambda x: x - h, lambda x: x + h), 2 * h
        low, high = (self.predicted(params, name, end) for end in ends)
        rows = (high - low) / width
        if self.method.endswith("ex"):
            source = self.X if name in self.outcome else self.W
            rows = (
                rows
                * source[:, (self.outcome if name in self.outcome else self.select).index(name)]
            )
        return rows.mean()


def check(results, names, by_hand, found, rtol_se=1e-4):
    params = np.asarray(results.params)
    effects = [by_hand.effect(params, name) for name in names]
    np.testing.assert_allclose(found.margeff, effects, rtol=1e-6, atol=1e-8)
    slopes = jacobian(
        lambda v: np.array([by_hand.effect(v, name, h=1e-3) for name in names]), params
    )
    cov = slopes @ np.asarray(results.cov_params()) @ slopes.T
    np.testing.assert_allclose(found.margeff_se, np.sqrt(np.diag(cov)), rtol=rtol_se)
    np.testing.assert_allclose(found.margeff_cov, cov, rtol=5e-4, atol=1e-4 * np.abs(cov).max())


def in_turn(*choices, start=0, every=1):
    """Every model with every choice, of which the default run takes one for a model, in turn."""
    found = []
    for turn, name in enumerate(MODELS, start):
        usual = tuple(values[turn % len(values)] for values in choices)
        for case in product(*choices):
            default = case == usual and turn % every == 0
            found.append(pytest.param(name, *case, marks=() if default else pytest.mark.full))
    return found


@pytest.mark.parametrize(
    ("fitted", "which", "method"), in_turn(WHICH, METHODS), indirect=["fitted"]
)
def test_slopes_are_differentiated_predictions(fitted, which, method):
    found = fitted.get_margeff(method=method, dummy=False, which=which, weights=some(fitted))
    check(fitted, found.names, ByHand(fitted, which, method=method), found)
    expected = {"mean": ("x1", "x2", "k")}.get(which, ("x1", "x2", "k", "z"))
    assert found.names == expected


@pytest.mark.parametrize(("fitted", "which"), in_turn(WHICH, start=3, every=2), indirect=["fitted"])
def test_differences_of_dummies_and_counts_move_both_equations(fitted, which):
    discrete = (("x2", "dummy"), ("k", "count"))
    for method in ("dydx", "eydx"):
        found = fitted.get_margeff(method=method, count=True, which=which, weights=some(fitted))
        check(fitted, found.names, ByHand(fitted, which, "overall", method, discrete), found)


@pytest.mark.parametrize(
    "which",
    [pytest.param(w, marks=() if w == "mean-unselected" else pytest.mark.full) for w in WHICH],
)
def test_effects_at_one_point(loading, which):
    for at in ("mean", "median", "zero"):
        found = loading.get_margeff(at, which=which, weights=some(loading))
        by_hand = ByHand(loading, which, at, discrete=[("x2", "dummy")])
        check(loading, found.names, by_hand, found)


@pytest.mark.parametrize(("fitted", "which"), in_turn(JOINT, every=2), indirect=["fitted"])
def test_joint_probabilities_have_effects_that_add_up(fitted, which):
    found = fitted.get_margeff(which=which, dummy=False, weights=some(fitted))
    check(fitted, found.names, ByHand(fitted, which), found)
    total = sum(fitted.get_margeff(which=w).margeff for w in JOINT)
    np.testing.assert_allclose(total, 0.0, atol=1e-9)


@pytest.fixture(scope="module")
def loading(data):
    return GreeneSelectionLogit.from_formula(
        FORMULA, SELECT, data, normalization="loading", offset="known"
    ).fit()


@pytest.fixture(scope="module")
def independent(data):
    """Two equations without dependence, and statsmodels' logit of the labelled rows."""
    selected = data[data.s == 1]
    results = GreeneSelectionLogit.from_formula(
        FORMULA, SELECT, pd.concat([selected, data[data.s == 0]]), normalization="independent"
    ).fit()
    return results, sm.Logit.from_formula(FORMULA, selected).fit(disp=False)


@pytest.mark.parametrize(("at", "method", "dummy"), [
    ("overall", "dydx", True), ("overall", "eydx", True), ("overall", "eyex", False),
    ("overall", "dyex", False), ("mean", "dydx", True), ("median", "dydx", False),
    ("zero", "dydx", False), ("mean", "eyex", False),
])  # fmt: skip
def test_independent_equations_have_the_effects_of_statsmodels(independent, at, method, dummy):
    results, logit = independent
    labelled = (results.model.design.s == 1).astype(float)
    expected = logit.get_margeff(at, method, dummy=dummy)
    # weights leave the labelled rows, which are statsmodels' sample
    found = results.get_margeff(at, method, dummy=dummy, weights=labelled)
    np.testing.assert_allclose(found.margeff, expected.margeff, rtol=1e-6)
    np.testing.assert_allclose(found.margeff_se, expected.margeff_se, rtol=1e-4)
    np.testing.assert_allclose(found.pvalues, expected.pvalues, rtol=1e-3)
    np.testing.assert_allclose(found.conf_int(0.1), expected.conf_int(0.1), rtol=1e-4, atol=1e-7)
    theirs = expected.summary_frame()
    assert list(found.summary_frame().columns) == list(theirs.columns)
    assert list(found.summary_frame().index) == list(theirs.index)
    header = expected.summary().tables[1].as_text().splitlines()[1]
    assert header.split() == found.summary().tables[1].as_text().splitlines()[1].split()


def test_every_row_has_its_effect(loading):
    for which, method in product(WHICH, ("dydx", "eydx")):
        rows = loading.get_margeff("all", method, which=which)
        overall = loading.get_margeff("overall", method, which=which)
        assert rows.margeff.shape == (800, len(overall.names))
        np.testing.assert_allclose(rows.margeff.mean(0), overall.margeff, rtol=1e-10)
    elastic = loading.get_margeff("all", "eyex", dummy=False)
    np.testing.assert_allclose(
        elastic.margeff.mean(0), loading.get_margeff(method="eyex", dummy=False).margeff, rtol=1e-10
    )
    with pytest.raises(ValueError, match="at='all'"):
        rows.conf_int()
    assert "800 rows" in str(rows)


def test_columns_are_held_where_atexog_says(loading, data):
    found = loading.get_margeff(atexog={"x2": 1.0}, which="mean-selected")
    model = loading.model
    X, W = model.exog.copy(), model.exog_select.copy()
    X[:, 2] = W[:, 2] = 1.0
    moved = [model.predict(
        loading.params, X + d * np.eye(4)[1], W + d * np.eye(5)[1],
        which="mean-selected", offset=model.offset,
    ).mean() for d in (1e-5, -1e-5)]  # fmt: skip
    assert found.margeff[0] == pytest.approx((moved[0] - moved[1]) / 2e-5, rel=1e-7)
    same = loading.get_margeff(atexog={2: 1.0}, which="mean-selected")
    np.testing.assert_array_equal(same.margeff, found.margeff)
    by_row = loading.get_margeff(atexog={"x2": np.ones(len(data))}, which="mean-selected")
    np.testing.assert_array_equal(by_row.margeff, found.margeff)
    with pytest.raises(ValueError, match=r"atexog has 'z'.*x1"):
        loading.get_margeff(atexog={"z": 0.0})  # the mean does not read it
    with pytest.raises(ValueError, match="one number or 800"):
        loading.get_margeff(atexog={"x1": [1.0, 2.0]})


def test_weights_repeat_rows(data):
    counts = np.random.default_rng(0).integers(1, 4, len(data)).astype(float)
    long = data.loc[np.repeat(data.index, counts.astype(int))]
    options = {"normalization": "loading"}
    short = GreeneSelectionLogit.from_formula(
        FORMULA, SELECT, data, freq_weights=counts, **options
    ).fit()
    repeated = GreeneSelectionLogit.from_formula(FORMULA, SELECT, long, **options).fit()
    for at in POINTS:
        expected = repeated.get_margeff(at, which="mean-unselected", dummy=False)
        found = short.get_margeff(at, which="mean-unselected", dummy=False)
        np.testing.assert_allclose(found.margeff, expected.margeff, rtol=1e-6)
        np.testing.assert_allclose(found.margeff_se, expected.margeff_se, rtol=1e-5)
        other = short.get_margeff(
            at, which="mean-unselected", dummy=False, weights=np.ones(len(data))
        )
        assert at == "zero" or not np.allclose(other.margeff, found.margeff, rtol=1e-4)
    expected = repeated.get_prediction(average=True, which="mean-unselected")
    found = short.get_prediction(average=True, which="mean-unselected")
    np.testing.assert_allclose(found.predicted, expected.predicted, rtol=1e-7)
    np.testing.assert_allclose(found.se, expected.se, rtol=1e-5)


# -- variables of the data -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def curved(data):
    """A formula in which no column is a variable."""
    return GreeneSelectionLogit.from_formula(
        "y ~ x1 * x2 + I(x1 ** 2) + g", "s ~ bs(x1, df=4) + z + g", data, normalization="loading"
    ).fit()


@pytest.mark.parametrize("which", [pytest.param("mean", marks=pytest.mark.full), "mean-unselected"])
def test_variables_of_the_data_move_through_the_formulas(curved, data, which):
    found = curved.get_margeff(which=which, variables=["x1", "x2", "g"])
    assert found.names == ("x1", "x2", "g[b - a]", "g[c - a]")
    # no row leaves the range in which the spline is defined
    inner = data.x1.clip(data.x1.min() + 1e-3, data.x1.max() - 1e-3)

    settings = [
        {"x1": inner + 1e-3}, {"x1": inner - 1e-3}, {"x2": 1}, {"x2": 0},
        {"g": "a"}, {"g": "b"}, {"g": "c"},
    ]  # fmt: skip
    designs = [curved.model.design_for(data.assign(**change), which) for change in settings]

    def by_hand(params):
        up, down, one, zero, a, b, c = (
            curved.model.predict(params, *pair, which=which).mean() for pair in designs
        )
        return np.array([(up - down) / 2e-3, one - zero, b - a, c - a])

    params = np.asarray(curved.params)
    np.testing.assert_allclose(found.margeff, by_hand(params), rtol=1e-4)
    slopes = jacobian(by_hand, params)
    cov = slopes @ np.asarray(curved.cov_params()) @ slopes.T
    np.testing.assert_allclose(found.margeff_se, np.sqrt(np.diag(cov)), rtol=1e-4)
    rows = curved.get_margeff("all", which=which, variables="x1").margeff
    assert rows.mean() == pytest.approx(found.margeff[0], rel=1e-9)


def test_a_variable_that_is_a_column_has_the_same_effect_either_way(loading):
    for which, method in (("mean-selected", "dydx"), ("mean", "eydx"), ("p10", "dydx")):
        column = loading.get_margeff(method=method, which=which, count=True)
        variable = loading.get_margeff(
            method=method, which=which, count=True, variables=["x1", "x2", "k"]
        )
        np.testing.assert_allclose(variable.margeff, column.margeff[:3], rtol=1e-6)
        np.testing.assert_allclose(variable.margeff_se, column.margeff_se[:3], rtol=1e-6)
    column = loading.get_margeff(method="eyex", dummy=False)
    variable = loading.get_margeff(method="eyex", variables=["x1"])
    assert variable.margeff[0] == pytest.approx(column.margeff[0], rel=1e-6)


def test_other_data_and_missing_rows(curved, data):
    part = data.iloc[:100]
    whole = curved.get_margeff("all", variables=["x1"], data=data).margeff[:, 0]
    found = curved.get_margeff(variables=["x2"], data=part)
    rows = curved.get_margeff("all", variables=["x2"]).margeff[:100, 0]
    assert found.margeff[0] == pytest.approx(rows.mean(), rel=1e-9)
    assert len(whole) == len(data)
    holed = part.assign(x1=part.x1.where(np.arange(100) != 7))
    with pytest.raises(ValueError, match=r"1 row\(s\) cannot be averaged.*7"):
        curved.get_margeff(variables=["x2"], data=holed)
    kept = curved.get_margeff(variables=["x2"], data=holed, weights=np.arange(100) != 7)
    assert kept.margeff[0] == pytest.approx(np.delete(rows, 7).mean(), rel=1e-9)
    assert np.isnan(curved.get_margeff("all", variables="x2", data=holed).margeff[7, 0])


@pytest.mark.parametrize("engine", ["patsy", "formulaic"])
def test_numbers_that_code_a_factor_move_from_level_to_level(data, engine, monkeypatch):
    if engine == "formulaic":
        pytest.importorskip("formulaic")
    monkeypatch.setattr("statsmodels.formula.options.formula_engine", engine)
    coded = data.assign(c=data.g.map({"a": 1, "b": 2, "c": 5}))
    formulas = ("y ~ x1 + {0}", "s ~ x1 + {0} + z")
    numbers, letters = (
        GreeneSelectionLogit.from_formula(
            *(f.format(term) for f in formulas), coded, normalization="loading"
        ).fit()
        for term in ("C(c)", "g")
    )
    assert numbers.model.design.outcome_spec.engine == engine
    found = numbers.get_margeff(variables=["c"], which="mean-unselected")
    expected = letters.get_margeff(variables=["g"], which="mean-unselected")
    assert found.names == ("c[2 - 1]", "c[5 - 1]")
    np.testing.assert_allclose(found.margeff, expected.margeff, rtol=1e-8)
    np.testing.assert_allclose(found.margeff_se, expected.margeff_se, rtol=1e-8)
    again = pickle.loads(pickle.dumps(numbers)).get_margeff(variables=["c"], data=coded)
    np.testing.assert_allclose(again.margeff, letters.get_margeff(variables="g").margeff, rtol=1e-8)


def test_a_number_is_a_factor_only_where_the_formula_says_so(data):
    results = GreeneSelectionLogit.from_formula(
        "y ~ x1 + k", "s ~ x1 + C(k) + z", data.assign(k=data.k.clip(upper=2)),
        normalization="loading",
    ).fit()  # fmt: skip
    assert results.get_margeff(variables=["k"]).names == ("k",)  # the mean reads y's formula alone
    assert results.get_margeff(variables=["k"], which="prob-select").names == (
        "k[1.0 - 0.0]", "k[2.0 - 0.0]",
    )  # fmt: skip


def test_objects_that_are_numbers_move_as_numbers(data):
    formulas = "y ~ x1 + k", "s ~ x1 + k + z"
    plain = GreeneSelectionLogit.from_formula(*formulas, data, normalization="loading").fit()
    objects = data.astype(object)
    results = GreeneSelectionLogit.from_formula(*formulas, objects, normalization="loading").fit()
    expected = plain.get_margeff(variables=["x1", "k"])
    holes = objects.assign(x1=objects.x1.where(objects.index != 3, None))
    known = np.where(data.index == 3, 0.0, 1.0)
    for found, wanted in (
        (results.get_margeff(variables=["x1", "k"]), expected),
        (plain.get_margeff(variables=["x1", "k"], data=objects), expected),
        (
            plain.get_margeff(variables=["x1"], data=holes, weights=known),
            plain.get_margeff(variables=["x1"], data=data, weights=known),
        ),
    ):
        assert found.names == wanted.names
        np.testing.assert_allclose(found.margeff, wanted.margeff, rtol=1e-6)
    along = results.probabilities_along("x1")
    np.testing.assert_allclose(along, plain.probabilities_along("x1"), rtol=1e-6)
    np.testing.assert_allclose(along.index, plain.probabilities_along("x1").index)


# -- other covariances, other inputs, refusals -----------------------------------------------------


def test_another_covariance(loading):
    own = loading.get_margeff()
    doubled = loading.get_margeff(cov=4.0 * np.asarray(loading.cov_params()))
    np.testing.assert_allclose(doubled.margeff_se, 2.0 * own.margeff_se)
    frame = loading.cov_params().iloc[::-1, ::-1]
    np.testing.assert_allclose(loading.get_margeff(cov=frame).margeff_se, own.margeff_se)
    robust = loading.get_robustcov_results("HC0")
    np.testing.assert_allclose(
        robust.get_margeff().margeff_se, loading.get_margeff(cov=robust.cov_params()).margeff_se
    )
    with pytest.raises(ValueError, match="cov must be a 10 x 10"):
        loading.get_margeff(cov=np.eye(3))
    with pytest.raises(ValueError, match="cov must have the labels"):
        loading.get_margeff(cov=frame.rename(columns={"x1": "w"}, index={"x1": "w"}))


def test_arrays_pair_columns_by_value_and_not_by_position(data):
    X = np.column_stack([np.ones(len(data)), data[["x1", "x2"]]])
    W = np.column_stack([np.ones(len(data)), data[["z", "x2", "x1"]]])
    results = GreeneSelectionLogit(data["y"].to_numpy(), X, data["s"], W, normalization="loading")
    found = results.fit().get_margeff(which="mean-selected")
    named = GreeneSelectionLogit.from_formula(
        "y ~ x1 + x2", "s ~ z + x2 + x1", data, normalization="loading"
    ).fit()
    expected = named.get_margeff(which="mean-selected")
    assert expected.names == ("x1", "x2", "z")
    assert found.names == ("x1", "x2", "select_x1")  # a different column of the same name
    np.testing.assert_allclose(found.margeff, expected.margeff, rtol=1e-6)
    np.testing.assert_allclose(found.margeff_se, expected.margeff_se, rtol=1e-5)
    with pytest.raises(ValueError, match="formulas"):
        results.fit().get_margeff(variables=["x1"])


def test_wrong_choices_are_refused(loading, data):
    for options, message in (
        ({"at": "middle"}, "at='middle'"),
        ({"method": "dxdy"}, "method='dxdy'"),
        ({"which": "linear"}, "which='linear'"),
        ({"which": "median"}, "which='median'"),
        ({"method": "eyex"}, r"\['x2'\]"),
        ({"method": "eyex", "variables": ["x2"]}, r"\['x2'\]"),
        ({"weights": np.ones(3)}, "weights must be 800"),
        ({"weights": -np.ones(800)}, "not negative"),
        ({"variables": ["x1"], "at": "mean"}, "at='mean'"),
        ({"variables": ["q"]}, "variables has 'q'"),
        ({"variables": []}, "variables names no column"),
        ({"variables": ["z"]}, "variables has 'z'"),
        ({"data": data}, "variables="),
    ):
        with pytest.raises(ValueError, match=message):
            loading.get_margeff(**options)


def test_without_its_data_a_fit_needs_new_ones(loading, data):
    again = pickle.loads(pickle.dumps(loading))
    np.testing.assert_allclose(again.get_margeff().margeff, loading.get_margeff().margeff)
    with pytest.raises(ValueError, match="pass data="):
        again.get_margeff(variables=["x1"])
    found = again.get_margeff(variables=["x1"], data=data)
    assert found.margeff[0] == pytest.approx(loading.get_margeff().margeff[0], rel=1e-6)
    again.remove_data()
    with pytest.raises(ValueError, match="removed"):
        again.get_margeff()


# -- what effects are for --------------------------------------------------------------------------


@pytest.mark.full
def test_effects_agree_where_coefficients_do_not(logit_data):
    """The point of reporting effects: normalizations change the coefficients only."""
    coefficients, effects, errors = [], [], []
    for normalization in ("free", {"sigma": 1.0}, "loading"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelWarning)
            results = GreeneSelectionLogit.from_formula(
                *FORMULAS, logit_data, normalization=normalization
            ).fit()
        found = results.get_margeff()
        coefficients.append(results.params["x1"])
        effects.append(found.margeff[0])
        errors.append(found.margeff_se[0])
    assert np.ptp(effects) < 0.02 * np.mean(effects)
    assert np.ptp(errors) < 0.05 * np.mean(errors)
    assert np.ptp(coefficients) > 0.05 * np.mean(coefficients)


def bootstrap_ratio(n_rep):
    data = simulated_data(2_000, rng=8)
    results = GreeneSelectionLogit.from_formula(
        "y ~ x1 + x2", "s ~ x1 + x2 + z", data, normalization="loading"
    ).fit()
    replicates = results.bootstrap(n_rep, rng=1)
    ratios = []
    for which in ("mean", "mean-unselected"):
        effects = []
        for params in replicates.replicates.to_numpy():
            moved = [
                results.model.predict(
                    params,
                    results.model.exog + d * np.eye(3)[1],
                    results.model.exog_select + d * np.eye(4)[1],
                    which=which,
                ).mean()
                for d in (1e-4, -1e-4)
            ]
            effects.append((moved[0] - moved[1]) / 2e-4)
        found = results.get_margeff(which=which)
        ratios.append(np.std(effects, ddof=1) / found.margeff_se[0])
        through_cov = results.get_margeff(which=which, cov=replicates)
        ratios.append(through_cov.margeff_se[0] / found.margeff_se[0])
    return np.array(ratios)


@pytest.mark.full
def test_errors_are_of_the_size_of_a_short_bootstrap():
    np.testing.assert_allclose(bootstrap_ratio(40), 1.0, atol=0.35)  # 3 / sqrt(2 * 40)


@pytest.mark.slow
def test_errors_are_those_of_a_bootstrap():
    np.testing.assert_allclose(bootstrap_ratio(500), 1.0, atol=0.15)
