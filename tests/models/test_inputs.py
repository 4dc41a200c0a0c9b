"""What the public classes refuse, warn about, and take in its stead."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from statsmodels.tools.sm_exceptions import ConvergenceWarning

from statsmodels_mnar import (
    GreeneSelectionLogit,
    NoExclusionRestrictionWarning,
    NoVariationError,
    PerfectSeparationError,
    ProbitSelection,
    Quadrature,
    Simulation,
    SingularDesignError,
    Status,
)

MODELS = [GreeneSelectionLogit, ProbitSelection]
OUTCOME, SELECT = "y ~ x1 + x2", "s ~ x1 + x2 + z"


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    """1,500 rows from the loading form with loading 0.8."""
    rng = np.random.default_rng(5)
    n = 1500
    frame = pd.DataFrame(rng.standard_normal((n, 3)), columns=["x1", "x2", "z"])
    u = rng.standard_normal(n)
    frame["s"] = (0.4 + 0.5 * frame.x1 + frame.z + u > 0).astype(int)
    p = expit(0.2 + 0.7 * frame.x1 - 0.4 * frame.x2 + 0.8 * u)
    frame["y"] = (rng.random(n) < p).astype(float).where(frame.s == 1)
    frame["g"] = rng.integers(0, 40, n)
    frame["h"] = rng.integers(0, 30, n)
    frame["w"] = rng.integers(1, 4, n)
    return frame


def model(data, formula=OUTCOME, select=SELECT, cls=GreeneSelectionLogit, **options):
    if cls is GreeneSelectionLogit:
        options = {"normalization": "loading"} | options
    return cls.from_formula(formula, select, data, **options)


@pytest.fixture(scope="module")
def results(data):
    return model(data).fit()


# -- designs that cannot identify the model ----------------------------------------------------


@pytest.mark.parametrize("cls", MODELS)
@pytest.mark.parametrize(
    ("formula", "select", "text"),
    [
        ("y ~ x1 + copy", SELECT, "the outcome equation has collinear columns on the labelled"),
        (OUTCOME, "s ~ x1 + copy + z", "the selection equation has collinear columns: "),
    ],
    ids=["outcome", "selection"],
)
def test_rank_deficiency(data, cls, formula, select, text):
    doubled = data.assign(copy=1.0 + 2.0 * data.x1)
    with pytest.raises(SingularDesignError, match=f"{text}.*(copy|x1).*ridge penalty"):
        model(doubled, formula, select, cls).fit()


def test_rank_is_that_of_the_labelled_rows(data):
    only_there = data.assign(copy=np.where(data.s == 1, data.x1, data.x2))
    with pytest.raises(SingularDesignError, match=r"outcome equation.*on the labelled rows"):
        model(only_there, "y ~ x1 + copy").fit()


@pytest.mark.parametrize("cls", MODELS)
def test_level_never_seen_among_labelled_rows(data, cls):
    level = np.where((data.s == 0) & (data.x2 > 0), "never", np.where(data.x2 > 0.3, "a", "b"))
    with pytest.raises(SingularDesignError, match=r"C\(level\)\[T.never\].*no labelled row has"):
        model(data.assign(level=level), "y ~ x1 + C(level)", cls=cls).fit()


SEPARATED = {
    "outcome, complete": ("y ~ x1 + d", SELECT, "outcome"),
    "outcome, one side": ("y ~ x1 + c", SELECT, "outcome"),
    "selection, complete": (OUTCOME, "s ~ x1 + e + z", "selection"),
    "selection, one side": (OUTCOME, "s ~ x1 + f + z", "selection"),
}


@pytest.fixture(scope="module")
def separated(data):
    rng = np.random.default_rng(6)
    noise = rng.random(len(data))
    return data.assign(
        c=((data.y == 1) & (data.x1 > 0)).astype(float),
        d=np.where(data.y == 1, 1.0, -1.0) * noise,
        e=np.where(data.s == 1, 1.0, -1.0) * noise,
        f=((data.s == 1) & (data.x1 > 0)).astype(float),
    )


IN_TURN = [
    pytest.param(cls, case, marks=() if i % 2 == j else pytest.mark.full)
    for i, case in enumerate(SEPARATED)
    for j, cls in enumerate(MODELS)
]


@pytest.mark.parametrize(("cls", "case"), IN_TURN)
def test_perfect_separation_names_the_column_and_remedies(separated, cls, case):
    formula, select, equation = SEPARATED[case]
    column = (formula if equation == "outcome" else select)[9]
    text = f"the {equation} equation is perfectly separated by {column}: .*ridge penalty, drop"
    with pytest.raises(PerfectSeparationError, match=text):
        model(separated, formula, select, cls).fit()


@pytest.mark.parametrize(("cls", "case"), IN_TURN)
def test_a_penalty_lets_separated_data_through(separated, cls, case):
    formula, select, _ = SEPARATED[case]
    found = model(separated, formula, select, cls).fit(penalty=0.01)
    assert found.converged
    assert np.isfinite(found.params).all()
    assert np.isfinite(found.bse).all()
    assert "Ridge penalty alpha = 0.01" in str(found.summary())


def test_separation_by_the_free_model(separated):
    with pytest.raises(PerfectSeparationError, match="separated by c"):
        model(separated, "y ~ x1 + c", normalization="free").fit()


@pytest.mark.parametrize("cls", MODELS)
def test_no_exclusion_restriction_warns(data, cls):
    with pytest.warns(NoExclusionRestrictionWarning, match="no variable that the outcome") as seen:
        model(data, OUTCOME, "s ~ x1 + x2", cls).fit()
    assert seen[0].filename == __file__


@pytest.mark.parametrize("cls", MODELS)
def test_one_value_only(data, cls):
    labelled = data[data.s == 1]
    with pytest.raises(NoVariationError, match=r"all .* rows are selected"):
        model(labelled, cls=cls).fit()
    with pytest.raises(NoVariationError, match=r"none of the .* rows is selected"):
        model(data[data.s == 0], cls=cls).fit()
    with pytest.raises(NoVariationError, match="the outcome y is 1 on all"):
        model(data.assign(y=data.y.where(data.y.isna(), 1.0)), cls=cls).fit()


@pytest.mark.parametrize("cls", MODELS)
def test_outcomes_that_are_not_binary(data, cls):
    with pytest.raises(ValueError, match=r"outcome.*y.*0"):
        model(data.assign(y=3.0 * data.y), cls=cls)
    with pytest.raises(ValueError, match=r"selection indicator.*s.*0"):
        model(data.assign(s=2 - data.s), cls=cls)
    exog = data[["x1", "x2"]]
    with pytest.raises(ValueError, match=r"outcome.*y.*0"):
        cls(data.y * 0.5, exog, data.s, data[["x1", "x2", "z"]])


# -- keywords ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", MODELS)
def test_misspelled_keywords(data, cls):
    exog, exog_select = data[["x1", "x2"]], data[["x1", "x2", "z"]]
    with pytest.raises(TypeError, match="normalisation"):
        cls(data.y, exog, data.s, exog_select, normalisation="loading")
    with pytest.raises(TypeError, match="normalisation"):
        cls.from_formula(OUTCOME, SELECT, data, normalisation="loading")
    with pytest.raises(TypeError, match="max_iter"):
        model(data, cls=cls).fit(max_iter=5)
    with pytest.raises(
        TypeError, match=r"'lr'.*'newton' takes \['dependence', 'gtol', 'n_starts'\]"
    ):
        model(data, cls=cls).fit(lr=0.1)


@pytest.mark.parametrize(
    ("normalization", "text"),
    [
        ("sigma", "normalization='sigma' is unknown"),
        ({"tau": 1.0}, "tau"),
        ({}, "fixes nothing"),
        ({"sigma": 0.0}, "must be positive.*'independent'"),
        ({"sigma": -1.0}, "must be positive"),
        ({"sigma": np.nan}, "must be positive"),
        ({"rho": 1.5}, "between -1 and 1"),
        ({"rho": 1.0}, "normalization='loading'"),
    ],
)
def test_bad_normalizations(data, normalization, text):
    with pytest.raises(ValueError, match=text):
        model(data, normalization=normalization)


@pytest.mark.parametrize("normalization", ["free", "loading", {"sigma": 1.0}, {"rho": 2.0}])
def test_bad_normalizations_of_the_probit(data, normalization):
    with pytest.raises(ValueError, match="normalization"):
        model(data, cls=ProbitSelection, normalization=normalization)


@pytest.mark.parametrize("integration", ["monte-carlo", "", 3, None])
def test_bad_integrations(data, integration):
    with pytest.raises((ValueError, TypeError), match="integration"):
        model(data, normalization="free", integration=integration)


def test_probit_is_not_simulated(data):
    with pytest.raises(ValueError, match="computed by quadrature"):
        model(data, cls=ProbitSelection, integration="simulation")


def test_bad_methods(data):
    with pytest.raises(ValueError, match="method='nm' is unknown"):
        model(data).fit(method="nm")
    with pytest.raises(ValueError, match="leave normalization out, or use 'free'"):
        model(data).fit(method="sgd")
    with pytest.raises(ValueError, match="ProbitSelection does not have them"):
        model(data, cls=ProbitSelection).fit(method="sgd")


@pytest.mark.parametrize(
    ("start", "text"),
    [
        (np.zeros(3), r"params must be 8 numbers \(Intercept, x1.*got shape \(3,\)"),
        (np.full(8, np.nan), "start_params has values that are not finite"),
        (np.zeros((8, 1)), r"got shape \(8, 1\)"),
    ],
)
def test_bad_start_params(data, start, text):
    with pytest.raises(ValueError, match=text):
        model(data).fit(start_params=start)


def test_good_start_params_change_nothing_but_the_path(data, results):
    found = model(data).fit(start_params=results.params)
    assert found.solution.n_iter <= 1
    np.testing.assert_allclose(found.params, results.params, rtol=1e-7)
    far = model(data).fit(start_params=np.append(np.zeros(7), -2.0))
    np.testing.assert_allclose(far.params, results.params, rtol=1e-5, atol=1e-6)


def test_negative_penalty(data):
    with pytest.raises(ValueError, match="penalty"):
        model(data).fit(penalty=-1.0)


@pytest.mark.parametrize("maxiter", [0, -1, 2.5, "many"])
def test_bad_maxiter(data, maxiter):
    with pytest.raises(ValueError, match=r"maxiter=.* must be a positive integer"):
        model(data).fit(maxiter=maxiter)


def test_what_needs_removed_data_says_so(data):
    found = model(data).fit()
    lr = found.test_independence("lr").statistic
    found.remove_data()
    assert found.test_independence("lr").statistic == lr
    for needs_data in (
        lambda: found.test_independence("score"),
        lambda: found.get_robustcov_results("HC0"),
        lambda: found.predict(),
        found.model.fit,
    ):
        with pytest.raises(ValueError, match="data have been removed from this model"):
            needs_data()


# -- tests of independence -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "fit_options", "method"),
    [
        ({"normalization": "loading"}, {}, "lr"),
        ({"normalization": "loading"}, {"cov_type": "HC0"}, "wald"),
        ({"normalization": "loading"}, {"penalty": 0.01}, "wald"),
        ({"cls": ProbitSelection}, {}, "lr"),
        ({"cls": ProbitSelection, "normalization": {"rho": 0.4}}, {}, "score"),
        ({"normalization": {"rho": 0.4, "sigma": 1.0}}, {}, "score"),
        ({"normalization": {"rho": 0.9}}, {"cov_type": "HC0"}, "score"),
        ({"normalization": "independent"}, {}, "score"),
        ({"normalization": "independent"}, {"cov_type": "HC1"}, "score"),
    ],
)
def test_the_default_test_of_independence_is_valid(data, options, fit_options, method):
    found = model(data, **options).fit(**fit_options)
    test = found.test_independence()
    assert test.method == method
    assert str(test) in str(found.summary())
    if method == "score":
        with pytest.raises(ValueError, match="needs rho or the loading estimated"):
            found.test_independence("wald")
    if method != "lr":
        with pytest.raises(ValueError, match="method='lr' needs"):
            found.test_independence("lr")


def test_tests_of_independence_agree_on_clear_data(data, results):
    tests = {method: results.test_independence(method) for method in ("lr", "wald", "score")}
    assert all(test.statistic > 10.0 for test in tests.values())
    assert all(test.pvalue < 1e-3 for test in tests.values())
    # The score test needs the two naive fits only, whatever the normalization.
    other = model(data, normalization={"sigma": 1.0}).fit().test_independence("score")
    assert other.statistic == pytest.approx(tests["score"].statistic, rel=1e-8)
    with pytest.raises(ValueError, match="method='z' is unknown"):
        results.test_independence("z")


# -- covariance ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cov_type", ["HC2", "HC3"])
def test_leverage_corrections_are_refused(data, results, cov_type):
    with pytest.raises(ValueError, match=r"linear regression only.*'HC0', 'HC1' or 'cluster'"):
        model(data).fit(cov_type=cov_type)
    with pytest.raises(ValueError, match="linear regression only"):
        results.get_robustcov_results(cov_type)


@pytest.mark.parametrize("cov_type", ["hc0", "robust", "HAC"])
def test_unknown_covariances(data, results, cov_type):
    with pytest.raises(ValueError, match=f"cov_type='{cov_type}' is unknown; use one of"):
        model(data).fit(cov_type=cov_type)
    with pytest.raises(ValueError, match="is unknown"):
        results.get_robustcov_results(cov_type)


def test_unexpected_cov_kwds(data):
    with pytest.raises(ValueError, match=r"unexpected keys \['groups'\] for cov_type='HC0'"):
        model(data).fit(cov_type="HC0", cov_kwds={"groups": data.g})
    with pytest.raises(ValueError, match=r"unexpected keys \['group'\]"):
        model(data).fit(cov_type="cluster", cov_kwds={"group": data.g})


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        (None, "needs cov_kwds={'groups'"),
        (np.arange(10), "groups has 10 values"),
        ("nothing", "groups='nothing' is not a column"),
        (np.zeros(1500), "fewer than two clusters"),
        (np.zeros((1500, 3)), "3 ways of clustering"),
    ],
)
def test_bad_groups(results, groups, text):
    with pytest.raises(ValueError, match=text):
        results.get_robustcov_results("cluster", groups=groups)


def test_groups_with_missing_values(results, data):
    groups = data.g.astype(float).where(data.index > 4)
    for values in (groups, groups.to_numpy()):
        with pytest.raises(ValueError, match="groups is missing for 5 rows"):
            results.get_robustcov_results("cluster", groups=values)


def test_groups_in_every_shape_agree(results, data):
    by_array = results.get_robustcov_results("cluster", groups=data.g.to_numpy())
    shuffled = data.g.sample(frac=1.0, random_state=np.random.default_rng(0))
    names = data.g.map("group {}".format)
    for groups in ("g", data.g, shuffled, names, data.g.tolist()):
        found = results.get_robustcov_results("cluster", groups=groups)
        np.testing.assert_allclose(found.bse, by_array.bse, rtol=1e-12)


def test_groups_follow_the_kept_rows(data):
    holes = data.assign(x2=data.x2.where(data.index % 7 != 0)).set_index(data.index * 10)
    whole = holes.dropna(subset=["x2"])
    wanted = model(whole).fit(cov_type="cluster", cov_kwds={"groups": whole.g.to_numpy()})
    shuffled = holes.g.sample(frac=1.0, random_state=np.random.default_rng(0))
    found = model(holes).fit(cov_type="cluster", cov_kwds={"groups": "g"})
    np.testing.assert_allclose(found.bse, wanted.bse, rtol=1e-9)
    for groups in ("g", holes.g, shuffled, holes.g.to_numpy(), whole.g.to_numpy()):
        found = found.get_robustcov_results("cluster", groups=groups)
        np.testing.assert_allclose(found.bse, wanted.bse, rtol=1e-9)


def test_one_row_clusters_are_hc0(results, data):
    hc0 = results.get_robustcov_results("HC0")
    alone = results.get_robustcov_results(
        "cluster", groups=np.arange(len(data)), use_correction=False
    )
    np.testing.assert_allclose(alone.bse, hc0.bse, rtol=1e-10)
    n, k = len(data), len(hc0.params)
    hc1 = results.get_robustcov_results("HC1")
    np.testing.assert_allclose(hc1.bse, hc0.bse * np.sqrt(n / (n - k)), rtol=1e-12)


def test_clusters_of_copies_are_the_rows_themselves(results, data):
    hc0 = results.get_robustcov_results("HC0")
    twice = pd.concat([data, data], ignore_index=True)
    groups = np.tile(np.arange(len(data)), 2)
    found = model(twice).fit(
        cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False}
    )
    np.testing.assert_allclose(found.bse, hc0.bse, rtol=1e-6)
    for method in ("wald", "score"):
        assert found.test_independence(method).statistic == pytest.approx(
            hc0.test_independence(method).statistic, rel=1e-6
        )


def test_two_way_clusters(results, data):
    """Cameron, Gelbach and Miller: the two one-way matrices less that of the intersection."""
    options = {"use_correction": False}
    both = results.get_robustcov_results("cluster", groups=["g", "h"], **options).cov_params()
    first, second, pair = (
        results.get_robustcov_results("cluster", groups=groups, **options).cov_params()
        for groups in (data.g, data.h, data.g * 100 + data.h)
    )
    np.testing.assert_allclose(both, first + second - pair, atol=1e-14)
    for groups in (data[["g", "h"]], data[["g", "h"]].to_numpy(), (data.g, data.h)):
        found = results.get_robustcov_results("cluster", groups=groups, **options)
        np.testing.assert_allclose(found.cov_params(), both, rtol=1e-10)
    assert "40 and 30 two-way clusters" in str(found.summary())


def test_column_names_need_a_frame(data):
    arrays = GreeneSelectionLogit(
        data.y, data[["x1", "x2"]], data.s, data[["x1", "x2", "z"]], normalization="loading"
    )
    with pytest.raises(ValueError, match="names a column, but the model has no data frame"):
        arrays.fit(cov_type="cluster", cov_kwds={"groups": "g"})


# -- weights and offsets -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def weighted_and_repeated(data):
    """By model: the fit to counted rows, and that to rows written as often as they count."""
    few = data.iloc[:700]
    repeated = few.loc[few.index.repeat(few.w)].reset_index(drop=True)
    return {
        cls: (model(few, cls=cls, freq_weights="w").fit(), model(repeated, cls=cls).fit())
        for cls in MODELS
    }


@pytest.mark.parametrize("cls", MODELS)
@pytest.mark.parametrize("cov_type", ["nonrobust", "OPG", "HC0", "HC1"])
def test_freq_weights_are_repeated_rows(weighted_and_repeated, cls, cov_type):
    found, wanted = (r.get_robustcov_results(cov_type) for r in weighted_and_repeated[cls])
    np.testing.assert_allclose(found.params, wanted.params, rtol=1e-6)
    np.testing.assert_allclose(found.bse, wanted.bse, rtol=1e-6)
    for name in ("llf", "llnull", "llindep", "nobs", "nobs_selected", "aic", "bic", "df_resid"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-10), name
    for method in ("wald", "score"):
        assert found.test_independence(method).statistic == pytest.approx(
            wanted.test_independence(method).statistic, rel=1e-5
        )


def test_freq_weights_of_clusters_are_repeated_rows(weighted_and_repeated):
    found, wanted = (
        r.get_robustcov_results("cluster", groups="g")
        for r in weighted_and_repeated[GreeneSelectionLogit]
    )
    np.testing.assert_allclose(found.bse, wanted.bse, rtol=1e-6)


def test_prob_weights_imply_a_robust_covariance(data, results):
    weighted = model(data, prob_weights="w")
    found = weighted.fit()
    assert found.cov_type == "HC0"
    assert found.nobs == len(data)
    for cov_type in ("nonrobust", "OPG"):
        with pytest.raises(ValueError, match="not valid with prob_weights; use 'HC0'"):
            weighted.fit(cov_type=cov_type)
        with pytest.raises(ValueError, match="not valid with prob_weights; use 'HC0'"):
            found.get_robustcov_results(cov_type)
    with pytest.raises(ValueError, match="method='lr' needs a likelihood"):
        found.test_independence("lr")
    # Only relative sizes matter, and equal weights are no weights.
    scaled = model(data, prob_weights=10.0 * data.w).fit()
    np.testing.assert_allclose(scaled.params, found.params, rtol=1e-6)
    np.testing.assert_allclose(scaled.bse, found.bse, rtol=1e-6)
    equal = model(data, prob_weights=np.full(len(data), 2.5)).fit()
    np.testing.assert_allclose(equal.bse, results.get_robustcov_results("HC0").bse, rtol=1e-6)


def test_bad_weights(data):
    with pytest.raises(ValueError, match="freq_weights"):
        model(data, freq_weights=data.w * 0.5)
    with pytest.raises(ValueError, match="prob_weights"):
        model(data, prob_weights=-data.w)
    with pytest.raises(ValueError, match=r"freq_weights.*prob_weights"):
        model(data, freq_weights="w", prob_weights="w")


@pytest.mark.parametrize(
    "cls", [GreeneSelectionLogit, pytest.param(ProbitSelection, marks=pytest.mark.full)]
)
def test_an_offset_of_the_fitted_part_leaves_a_zero_coefficient(data, cls):
    data = data.iloc[:800]
    free = model(data, cls=cls).fit()
    offset = free.params["x1"] * data.x1
    offset_select = free.params["select_z"] * data.z
    found = model(data, cls=cls, offset=offset, offset_select=offset_select).fit()
    assert found.llf == pytest.approx(free.llf, abs=1e-8)
    assert found.params["x1"] == pytest.approx(0.0, abs=1e-6)
    assert found.params["select_z"] == pytest.approx(0.0, abs=1e-6)
    rest = [name for name in free.params.index if name not in ("x1", "select_z")]
    np.testing.assert_allclose(found.params[rest], free.params[rest], rtol=1e-5)
    np.testing.assert_allclose(found.bse, free.bse, rtol=1e-5)
    np.testing.assert_allclose(found.fittedvalues, free.fittedvalues, rtol=1e-6)
    named = data.assign(known=offset, known_select=offset_select)
    by_name = model(named, cls=cls, offset="known", offset_select="known_select").fit()
    np.testing.assert_allclose(by_name.params, found.params, rtol=1e-12)
    without = model(data, "y ~ x2", cls=cls, offset=offset).fit()
    assert without.llf == pytest.approx(free.llf, abs=1e-8)
    assert len(without.params) == len(free.params) - 1


# -- optimisers ------------------------------------------------------------------------------------


QUASI_NEWTON = {
    "loading": {"normalization": "loading"},
    "sigma": {"normalization": {"sigma": 2.0}},
    "rho": {"normalization": {"rho": 0.5}},
    "probit": {"cls": ProbitSelection},
}


@pytest.mark.parametrize(
    ("options", "method"),
    [  # each model by one method, in turn; a fixed rho, which is dear, only in full
        pytest.param(
            options,
            method,
            marks=() if i % 2 == j and name != "rho" else pytest.mark.full,
            id=f"{name}-{method}",
        )
        for i, (name, options) in enumerate(QUASI_NEWTON.items())
        for j, method in enumerate(["bfgs", "lbfgs"])
    ],
)
def test_quasi_newton_agrees_with_newton(data, method, options):
    newton = model(data, **options).fit()
    found = model(data, **options).fit(method=method)
    assert found.converged
    np.testing.assert_allclose(found.params, newton.params, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.bse, newton.bse, rtol=1e-3)
    assert found.llf == pytest.approx(newton.llf, abs=1e-6)


@pytest.mark.parametrize(
    ("cls", "method"),
    [
        (GreeneSelectionLogit, "newton"),
        (ProbitSelection, "bfgs"),
        (GreeneSelectionLogit, "lbfgs"),
        pytest.param(ProbitSelection, "newton", marks=pytest.mark.full),
        pytest.param(GreeneSelectionLogit, "bfgs", marks=pytest.mark.full),
        pytest.param(ProbitSelection, "lbfgs", marks=pytest.mark.full),
    ],
)
def test_too_few_iterations_warn(data, cls, method):
    with pytest.warns(ConvergenceWarning, match="limit on iterations.*a larger maxiter"):
        found = model(data, cls=cls).fit(method=method, maxiter=1)
    assert not found.converged
    assert found.status is Status.MAXITER
    assert not found.mle_retvals["converged"]
    assert "not converged" in str(found.summary())


def test_simulation_is_near_quadrature(data):
    data = data.iloc[:500]
    sigma = {"normalization": {"sigma": 1.5}}
    exact = model(data, **sigma).fit()
    rough = model(data, integration=Simulation(n_draws=500), **sigma).fit()
    assert rough.llf == pytest.approx(exact.llf, abs=0.5)
    assert (np.abs(rough.params - exact.params) < 0.2 * exact.bse).all()
    assert "500 halton draws" in str(rough.summary())
    hermite = model(data, integration=Quadrature(rule="gauss-hermite", n_nodes=64), **sigma).fit()
    np.testing.assert_allclose(hermite.params, exact.params, rtol=1e-3, atol=1e-4)


def test_sgd_runs_and_says_that_it_stopped_early(data):
    found = model(data.iloc[:300], normalization="free", integration="simulation").fit(
        method="sgd", lr=0.01, weight_decay=1e-4, tol=5e-4, redraw=True
    )
    assert found.status is Status.STOPPED
    assert not found.converged
    assert np.isnan(found.bse).all()
    text = str(found.summary())
    assert "stopped early" in text
    assert "not at a maximum" in text


def test_redraw_needs_simulation(data):
    with pytest.raises(ValueError, match="redraw=True needs integration='simulation'"):
        model(data, normalization="free").fit(method="sgd", redraw=True)


@pytest.mark.parametrize("disp", [True, False])
def test_progress_goes_to_stderr_if_asked_for(data, capsys, disp):
    model(data).fit(disp=disp)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert ("newton" in shown.err and "log-lik" in shown.err) is disp


@pytest.mark.parametrize(
    ("normalization", "disp"),
    [
        ("loading", True),
        pytest.param("free", False, marks=pytest.mark.full),
        pytest.param("loading", False, marks=pytest.mark.full),
        pytest.param("free", True, marks=pytest.mark.full),
    ],
)
def test_an_interrupted_fit_leaves_the_model_usable(data, results, normalization, disp):
    steps = []

    def interrupt(step):
        steps.append(step)
        if len(steps) == 2:
            raise KeyboardInterrupt

    interrupted = model(data, normalization=normalization)
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(callback=interrupt, disp=disp)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of weak identification, which is not the matter here
        found = interrupted.fit()
    assert found.converged
    if normalization == "loading":
        np.testing.assert_allclose(found.params, results.params, rtol=1e-12)


def test_callback_sees_a_rising_likelihood(data, results):
    steps = []
    model(data).fit(callback=steps.append)
    values = [step.value for step in steps]
    assert (np.diff(values) > -1e-9).all()
    assert values[-1] == pytest.approx(results.llf, abs=1e-9)
    assert steps[-1].score_norm < 1e-8
