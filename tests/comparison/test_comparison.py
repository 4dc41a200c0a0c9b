"""Fits side by side, and the tests between them.

The long run prints the size of the Hausman-type test:

    pytest tests/comparison/test_comparison.py -m slow -s
"""

import warnings
from functools import partialmethod

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import expit
from statsmodels.tools.sm_exceptions import ModelWarning

from statsmodels_mnar import (
    BiasCorrLogit,
    GreeneSelectionLogit,
    ProbitSelection,
    WeakIdentificationWarning,
    compare,
    exclusion_test,
    from_json,
    hausman_test,
    vuong_test,
)
from statsmodels_mnar.baselines import IPWLogit, NaiveLogit
from statsmodels_mnar.comparison import effect_contrast
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.post.tests import dependence_nested, vuong

DATA = simulate_greene(1_500, rng=4).data
FORMULAS = ("y ~ x1 + x2", "s ~ x1 + x2 + z")


def fit(model=GreeneSelectionLogit, data=DATA, select=FORMULAS[1], cov_type=None, **options):
    if model is GreeneSelectionLogit:
        options = {"normalization": "loading"} | options
    return model.from_formula(FORMULAS[0], select, data, **options).fit(cov_type=cov_type)


@pytest.fixture(scope="module")
def results():
    return fit()


@pytest.fixture(scope="module")
def probit():
    return fit(ProbitSelection)


@pytest.fixture(scope="module")
def table():
    return compare(*FORMULAS, DATA, normalization="loading")


# -- tables ----------------------------------------------------------------------------------------


def logit_effects(params, cov):
    """Average effects of x1 (slope) and x2 (0 to 1) over all rows, errors by differences."""
    X = np.column_stack([np.ones(len(DATA)), DATA.x1, DATA.x2])

    def effects(b):
        p = expit(X @ b)
        ends = [expit(b[0] + b[1] * X[:, 1] + b[2] * v) for v in (0, 1)]
        return np.array([(p * (1 - p)).mean() * b[1], (ends[1] - ends[0]).mean(), p.mean()])

    b = np.asarray(params)
    step = 1e-6 * np.eye(3)
    J = np.stack([(effects(b + e) - effects(b - e)) / 2e-6 for e in step], axis=-1)
    return effects(b), np.sqrt(np.diag(J @ np.asarray(cov) @ J.T))


def test_naive_is_the_logit_of_the_labelled_rows(table):
    logit = smf.logit("y ~ x1 + x2", DATA[DATA.s == 1]).fit(disp=0)
    assert_allclose(table.coefficients["naive"]["coef"], logit.params, rtol=1e-6)
    assert_allclose(table.coefficients["naive"]["std err"], logit.bse, rtol=1e-5)
    effects, errors = logit_effects(logit.params, logit.cov_params())
    assert_allclose(table.margeff["naive"]["AME"], effects[:2], rtol=1e-6)
    assert_allclose(table.margeff["naive"]["std err"], errors[:2], rtol=1e-4)
    found = table.fit.loc["naive", ["prevalence", "prevalence std err"]].astype(float)
    assert_allclose(found, [effects[2], errors[2]], rtol=1e-4)
    selection = smf.probit("s ~ x1 + x2 + z", DATA).fit(disp=0)
    assert_allclose(table.fit.llf["naive"], logit.llf + selection.llf, rtol=1e-8)


def test_ipw_is_that_of_the_baselines_over_all_rows(table):
    ipw = IPWLogit.from_formula(*FORMULAS, DATA).fit()
    assert_allclose(table.coefficients["ipw"], np.column_stack([ipw.params, ipw.bse]))
    effects, errors = logit_effects(ipw.params, ipw.cov_params())
    assert_allclose(table.margeff["ipw"]["AME"], effects[:2], rtol=1e-6)
    assert_allclose(table.margeff["ipw"]["std err"], errors[:2], rtol=1e-4)
    assert_allclose(table.fit.prevalence["ipw"], effects[2])
    assert np.isnan(table.fit.llf["ipw"])


@pytest.mark.parametrize("name", ["probit", "greene", "biascorr"])
def test_selection_models_are_their_own_fits(table, name, results, probit):
    own = {"greene": results, "probit": probit, "biascorr": table.results["biascorr"]}[name]
    assert_allclose(table.coefficients[name]["coef"], own.params.iloc[:3], rtol=1e-6)
    assert_allclose(table.coefficients[name]["std err"], own.bse.iloc[:3], rtol=1e-6)
    effects = own.get_margeff()
    assert_allclose(table.margeff[name]["AME"], effects.margeff, rtol=1e-6)
    assert_allclose(table.margeff[name]["std err"], effects.margeff_se, rtol=1e-6)
    prevalence = own.get_prediction(average=True)
    assert_allclose(table.fit.prevalence[name], prevalence.predicted[0], rtol=1e-6)
    assert_allclose(table.fit.loc[name, "prevalence std err"], prevalence.se[0], rtol=1e-6)
    assert np.isnan(table.fit.llf[name]) == (name == "biascorr")


def test_comparison_prints(table):
    text = str(table)
    assert "Average marginal effects" in text
    x1 = table.margeff["greene"].loc["x1"]
    assert f"{x1['AME']:.4f} ({x1['std err']:.4f})" in text
    assert list(table.results) == ["naive", "ipw", "probit", "greene", "biascorr"]
    assert table.results["greene"].params.index[0] == "Intercept"


def test_fitted_results_are_compared_under_their_names(table, results, probit):
    both = compare([results, probit, results])
    names = ["GreeneSelectionLogit", "ProbitSelection", "GreeneSelectionLogit 2"]
    assert list(both.results) == names
    named = compare({"a": NaiveLogit.from_formula(*FORMULAS, DATA).fit(), "b": results})
    assert_allclose(named.margeff["a"], table.margeff["naive"], rtol=1e-5)
    assert_allclose(named.margeff["b"], table.margeff["greene"], rtol=1e-6)


def test_effects_of_variables_of_the_data():
    formulas = "y ~ x1 + I(x1 ** 2) + x2", "s ~ x1 + x2 + z"
    found = compare(*formulas, DATA, ["naive", "ipw", "probit"], variables=["x1"])
    assert found.margeff.index.tolist() == ["x1"]
    own = found.results["probit"].get_margeff(variables=["x1"])
    assert_allclose(found.margeff["probit"]["AME"], own.margeff)
    b = found.results["ipw"].params
    p = expit(b.iloc[0] + b["x1"] * DATA.x1 + b.iloc[2] * DATA.x1**2 + b["x2"] * DATA.x2)
    slope = (p * (1 - p) * (b["x1"] + 2 * b.iloc[2] * DATA.x1)).mean()
    assert_allclose(found.margeff["ipw"]["AME"], slope, rtol=1e-5)


def test_formulas_see_the_callers_functions():
    def double(x):
        return 2 * x

    found = compare("y ~ double(x1)", "s ~ x1 + z", DATA, ["naive", "ipw"])
    plain = compare("y ~ x1", "s ~ x1 + z", DATA, ["naive"])
    assert_allclose(2 * found.margeff["naive"]["AME"], plain.margeff["naive"]["AME"], rtol=1e-6)


def test_counts_are_repeated_rows():
    counts = np.random.default_rng(0).integers(0, 4, len(DATA))
    weighted = compare(*FORMULAS, DATA, ["naive", "probit"], freq_weights=counts)
    repeated = compare(*FORMULAS, DATA.loc[DATA.index.repeat(counts)], ["naive", "probit"])
    assert_allclose(weighted.margeff, repeated.margeff, rtol=1e-5)
    numbers = weighted.fit.columns.drop("status")
    assert_allclose(
        weighted.fit[numbers].astype(float), repeated.fit[numbers].astype(float), rtol=1e-5
    )


def test_a_model_that_the_data_do_not_bear_says_why(monkeypatch):
    few = DATA[(DATA.s == 1) | (DATA.index % 10 == 0)]  # s-bar is above one half
    with pytest.warns(ModelWarning, match="penalty alone holds the selection coefficients"):
        assert compare(*FORMULAS, few, ["biascorr"]).results["biascorr"].converged
    bare = partialmethod(BiasCorrLogit.fit, penalty=0.0)
    monkeypatch.setattr(BiasCorrLogit, "fit", bare)
    found = compare(*FORMULAS, few, ["naive", "biascorr"])
    assert found.fit.status["biascorr"].startswith("failed: ")
    assert "biascorr" not in found.results and "biascorr" in str(found)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: compare(*FORMULAS, DATA, ["nave"]), r"models=\['nave'\]"),
        (lambda r: compare(*FORMULAS, DATA, freq_weights=np.ones(1_500)), "leave it out"),
        (lambda r: compare([r], data=DATA), "neither formulas, data"),
        (
            lambda r: compare([NaiveLogit.from_formula(*FORMULAS, DATA).fit()]),
            "add a selection model",
        ),
        (lambda r: compare([r, "x"]), "got str"),
        (lambda r: compare([r, fit(data=DATA.iloc[1:])]), "other rows"),
    ],
)
def test_compare_refuses(results, call, message):
    with pytest.raises(ValueError, match=message):
        call(results)


def test_compare_says_that_data_were_removed(results):
    bare = fit()
    bare.remove_data()
    for fits in ([bare], [results, bare], [bare, results]):
        with pytest.raises(ValueError, match="data have been removed from this fit"):
            compare(fits)


# -- exclusion -------------------------------------------------------------------------------------


def test_exclusion_test_is_the_wald_test_of_the_instruments():
    data = DATA.assign(v=np.random.default_rng(0).standard_normal(len(DATA)))
    results = fit(data=data, select="s ~ I(2 * x1 - 1) + x2 + z + v")
    test = exclusion_test(results)
    assert test.columns == ("z", "v")
    expected = results.wald_test("select_z = 0, select_v = 0", scalar=True)
    assert_allclose([test.statistic, test.pvalue], [expected.statistic, expected.pvalue])
    assert test.df == 2 and not test.weak
    assert test.fvalue == test.statistic / 2
    assert "z, v" in str(test)


def test_weak_and_absent_instruments():
    data = DATA.assign(v=np.random.default_rng(0).standard_normal(len(DATA)))
    weak = exclusion_test(fit(data=data, select="s ~ x1 + x2 + v"))
    assert weak.weak and "weak" in str(weak)
    with pytest.warns(match="no exclusion restriction"):
        none = fit(select="s ~ x1 + x2", normalization="independent")
    with pytest.raises(ValueError, match="no variable that the outcome equation lacks"):
        exclusion_test(none)
    assert weak == fit(data=data, select="s ~ x1 + x2 + v").instrument
    assert (weak.verdict, none.instrument.verdict) == ("weak", "none")
    assert none.instrument.columns == () and none.instrument.df == 0


def test_instruments_count_by_their_rank_beside_the_outcome_equation():
    """x1 + z and x1 - z beside an outcome with x1 are one instrument, z, and not two."""
    plain = fit().instrument
    mixed = fit(select="s ~ x2 + I(x1 + z) + I(x1 - z)").instrument
    assert mixed.columns == ("I(x1 + z)", "I(x1 - z)")
    assert mixed.df == plain.df == 1
    assert_allclose(mixed.statistic, plain.statistic, rtol=1e-6)


def test_a_selection_offset_is_an_instrument_without_a_test():
    moved = fit(select="s ~ x1 + x2", offset_select="z").instrument
    assert moved.offset and moved.verdict == "unknown" and np.isnan(moved.statistic)


def test_without_a_covariance_the_instrument_is_tested_in_a_probit_of_selection():
    results = fit()._results
    results.cov_params_default = np.full_like(results.cov_params_default, np.nan)
    probit = smf.probit(FORMULAS[1], DATA).fit(disp=0)
    assert_allclose(results.instrument.statistic, probit.tvalues["z"] ** 2, rtol=1e-3)


@pytest.mark.parametrize("cov_type", ["nonrobust", pytest.param("HC0", marks=pytest.mark.full)])
def test_the_summary_says_how_strong_the_instrument_is(results, cov_type):
    results = results.get_robustcov_results(cov_type)
    found = results.wald_test("select_z = 0", scalar=True).statistic
    assert f"Instrument: z, strong (chi2(1) = {found:.2f}" in results.summary().as_text()
    with pytest.warns(match="no exclusion restriction"):
        none = fit(select="s ~ x1 + x2")
    assert "rests on the functional form" in " ".join(none.summary().as_text().split())


def test_the_instrument_outlives_the_data(tmp_path):
    results = fit()
    again = from_json(results.to_json())
    assert again.instrument == results.instrument
    results.save(tmp_path / "fit.pickle", remove_data=True)
    kept = type(results._results).load(tmp_path / "fit.pickle")
    assert kept.instrument == again.instrument
    assert kept.summary().as_text() == again.summary().as_text()


def test_another_covariance_has_tests_of_its_own_in_its_summary():
    results = fit()
    assert "LR test" in results.summary().as_text()
    robust = results.get_robustcov_results("HC0")
    assert str(robust.test_independence()) in robust.summary().as_text()
    assert "LR test" not in robust.summary().as_text()


# -- Hausman ---------------------------------------------------------------------------------------


def test_contrasts_are_those_of_the_two_fits(results, probit):
    naive = fit(normalization="independent").get_margeff().margeff
    found = hausman_test(results).contrasts
    assert_allclose(found["naive"], naive, rtol=1e-6)
    assert_allclose(found["difference"], results.get_margeff().margeff - naive, rtol=1e-5)
    labelled = smf.probit("y ~ x1 + x2", DATA[DATA.s == 1]).fit(disp=0).params
    index = labelled["Intercept"] + labelled["x1"] * DATA.x1 + labelled["x2"] * DATA.x2
    slope = stats.norm.pdf(index).mean() * labelled["x1"]
    assert_allclose(hausman_test(probit).contrasts["naive"]["x1"], slope, rtol=1e-6)


def test_influence_on_the_contrasts_is_that_of_reweighted_rows():
    """A row's weight changed a little, both models refitted, effects over the same rows."""
    data = DATA.iloc[:500]
    one = np.ones(500)

    def difference(weights):
        fits = [
            fit(data=data, prob_weights=weights, normalization=form)
            for form in ("loading", "independent")
        ]
        return np.subtract(*(f.get_margeff(weights=one).margeff for f in fits))

    results = fit(data=data)
    found = effect_contrast(results._results, None).influence
    for k in (0, 2, 77):  # unlabelled, and of both labels
        unit = 0.02 * (np.arange(500) == k)
        moved = (difference(one + unit) - difference(one - unit)) / 0.04
        assert_allclose(found[k], moved, atol=2e-6)
    test = hausman_test(results)
    assert_allclose(test.contrasts["std err"] ** 2, (found**2).sum(0))


def test_clusters_of_doubled_rows_have_the_errors_of_single_ones():
    pairs = pd.concat([DATA, DATA], ignore_index=True)
    model = GreeneSelectionLogit.from_formula(*FORMULAS, pairs, normalization="loading")
    groups = np.tile(np.arange(len(DATA)), 2)
    clustered = hausman_test(model.fit(cov_type="cluster", cov_kwds={"groups": groups}))
    single = hausman_test(fit())
    correction = np.sqrt(1_500 / 1_499)
    expected = single.contrasts["std err"] * correction
    assert_allclose(clustered.contrasts["std err"], expected, rtol=1e-4)


def test_counts_of_hausman_are_repeated_rows():
    rng = np.random.default_rng(0)
    counts = np.where(DATA.x1 > 0.5, rng.integers(5, 12, len(DATA)), rng.integers(0, 2, len(DATA)))
    weighted = hausman_test(fit(freq_weights=counts))
    repeated = hausman_test(fit(data=DATA.loc[DATA.index.repeat(counts)]))
    assert_allclose(weighted.contrasts, repeated.contrasts, rtol=1e-8, atol=1e-12)
    assert_allclose(weighted.statistic, repeated.statistic, rtol=1e-8)


def test_precision_of_the_contrasts_follows_the_clusters():
    """Whole clusters of unequal sizes are single rows of these counts."""
    counts = np.where(DATA.x1 > 0.5, 9, 1)
    rows = DATA.loc[DATA.index.repeat(counts)]
    model = GreeneSelectionLogit.from_formula(
        *FORMULAS, rows.reset_index(drop=True), normalization="loading"
    )
    clustered = hausman_test(model.fit(cov_type="cluster", cov_kwds={"groups": rows.index}))
    sampled = hausman_test(fit(prob_weights=counts.astype(float)))
    correction = 1_500 / 1_499
    # Two fits, each within 1e-6 standard errors of the maximum.
    assert_allclose(clustered.statistic * correction, sampled.statistic, rtol=1e-6)


def test_hausman_finds_selection_and_nothing_where_the_fit_is_naive(results):
    found = hausman_test(results)
    assert found.pvalue < 1e-3 and "chi2(1)" in str(found)
    same = hausman_test(fit(normalization="independent"))
    assert same.statistic == 0 and same.pvalue == 1
    assert hausman_test(results, ["x1"]).contrasts.index.tolist() == ["x1"]


def test_hausman_refuses(results):
    with pytest.raises(ValueError, match="BiasCorr"):
        hausman_test(fit(BiasCorrLogit, normalization={"sigma": 1.0}))
    with pytest.raises(ValueError, match="penalty"):
        hausman_test(results.model.fit(penalty=0.1))
    with pytest.raises(ValueError, match="selection model"):
        hausman_test(NaiveLogit.from_formula(*FORMULAS, DATA).fit())
    constant = GreeneSelectionLogit.from_formula(
        "y ~ 1", FORMULAS[1], DATA, normalization="loading"
    ).fit()
    with pytest.raises(ValueError, match="no effect to contrast"):
        hausman_test(constant)


def rejections(n_sets, first_seed=5_000):
    """Share of data sets with independent equations in which the test rejects at 5%."""
    found = []
    for seed in range(n_sets):
        data = simulate_greene(2_000, sigma=0.0, rho=0.0, rng=first_seed + seed).data
        found.append(hausman_test(fit(data=data)).pvalue < 0.05)
    return np.mean(found)


@pytest.mark.full
def test_hausman_seldom_rejects_independent_equations():
    assert rejections(15) <= 0.2


@pytest.mark.slow
@pytest.mark.parametrize(("n_sets", "first_seed"), [(500, 5_000), (300, 730_000)])
def test_hausman_has_its_size(n_sets, first_seed):
    found = rejections(n_sets, first_seed)
    print(f"\nHausman-type test at 5%: rejects {found:.1%} of {n_sets} data sets")
    assert 0.025 < found < 0.09  # that of the Wald test of the loading is 4 to 6%


# -- Vuong -----------------------------------------------------------------------------------------


def test_vuong_is_the_mean_difference_over_its_error(results, probit):
    m = results.model.loglikeobs(results.params) - probit.model.loglikeobs(probit.params)
    test = vuong_test(results, probit)
    assert_allclose(test.statistic, np.sqrt(len(m)) * m.mean() / m.std(), rtol=1e-8)
    assert_allclose(test.pvalue, 2 * stats.norm.sf(abs(test.statistic)))
    assert_allclose(test.llr, results.llf - probit.llf, rtol=1e-6)
    assert_allclose(vuong_test(probit, results).statistic, -test.statistic)
    assert "GreeneSelectionLogit against ProbitSelection" in str(test)


def test_vuong_corrections_and_weights():
    rng = np.random.default_rng(0)
    first, second = -rng.exponential(size=(2, 50))
    m, spread = first - second, np.sqrt(50) * (first - second).std()
    for correction, cost in (("none", 0), ("aic", 2), ("bic", np.log(50))):
        found = vuong(first, second, (5, 3), correction=correction).statistic
        assert_allclose(found, (m.sum() - cost) / spread)
    counts = rng.integers(0, 4, 50)
    repeated = vuong(first.repeat(counts), second.repeat(counts), (5, 3), correction="bic")
    counted = vuong(first, second, (5, 3), counts=counts.astype(float), correction="bic")
    assert_allclose(counted.statistic, repeated.statistic)
    w = rng.uniform(1, 3, 50)
    scaled = [vuong(first, second, (3, 3), sampling=c * w).statistic for c in (1, 7)]
    assert_allclose(*scaled)  # the scale of sampling weights says nothing
    with pytest.raises(ValueError, match="correction='hqic'"):
        vuong(first, second, (5, 3), correction="hqic")


def test_vuong_favours_the_better_model():
    rng = np.random.default_rng(1)
    first = rng.normal(size=400)
    test = vuong(first, first - 0.3 + rng.normal(size=400), (3, 3), names=("a", "b"))
    assert test.favoured == "a" and "in favour of a" in str(test)


def test_vuong_of_the_same_fit_and_of_other_rows(results, probit):
    same = vuong_test(results, results)
    assert same.statistic == 0 and same.favoured is None and "the same" in str(same)
    with pytest.raises(ValueError, match="same rows"):
        vuong_test(results, fit(ProbitSelection, data=DATA.iloc[1:]))
    with pytest.raises(ValueError, match="no BiasCorr"):
        vuong_test(results, fit(BiasCorrLogit, normalization={"sigma": 1.0}))


def test_vuong_refuses_nested_models(results, probit):
    smaller = GreeneSelectionLogit.from_formula(
        "y ~ x1", FORMULAS[1], DATA, normalization="loading"
    ).fit()
    with pytest.raises(ValueError, match=r"Use first.compare_lr_test\(second\)"):
        vuong_test(results, smaller)
    with pytest.raises(ValueError, match="the first is one of the second"):
        vuong_test(fit(normalization="independent"), results)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakIdentificationWarning)
        free = fit(normalization="free")
    with pytest.raises(ValueError, match="the first is one of the second"):
        vuong_test(probit, free)  # a probit outcome is the free model's sigma = infinity


NESTED = {  # dependence of the smaller model, of the larger one
    ("loading", "free"): True,
    ("probit", "free"): True,
    ("independent", "free"): True,
    ("independent", "loading"): True,
    ("loading", "probit"): False,
    ("independent", "probit"): False,
    (("sigma", 1.0), "free"): True,
    (("sigma", 1.0), "loading"): False,
    ("loading", ("sigma", 1.0)): False,
    ("independent", ("rho", 0.5)): True,
    ("independent", ("sigma", 1.0)): False,
}


@pytest.mark.parametrize(("pair", "expected"), NESTED.items())
def test_one_normalization_within_another(pair, expected):
    kinds = [part if isinstance(part, str) else dict([part]) for part in pair]
    model = GreeneSelectionLogit.from_formula(*FORMULAS, DATA.head(200))
    asked = []
    for kind in kinds:
        spec = model.parametrize(kind, model.integration).kind
        values = kind if isinstance(kind, dict) else {}
        asked.append((spec, values.get("sigma"), values.get("rho")))
        if kind == "independent":
            asked[-1] = (spec, 0.0, 1.0)
    assert dependence_nested(*asked) is expected
    assert not dependence_nested(*asked[::-1])
