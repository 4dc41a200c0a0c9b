"""What results offer and refuse where there are penalised terms."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import ndtr

from statsmodels_mnar import (
    GreeneSelectionLogit,
    ProbitSelection,
    WeakIdentificationWarning,
    compare,
    from_json,
    hausman_test,
    monte_carlo,
    vuong_test,
)
from statsmodels_mnar.datasets import simulate_interviewers
from statsmodels_mnar.post.dependence import ExclusionTest
from statsmodels_mnar.results.shrinkage import boundary_pvalues

FORMULAS = ("y ~ smooth(x1, df=6) + x2", "s ~ smooth(x1, df=6) + x2 + z + re(interviewer)")


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return simulate_interviewers(1_500, groups=25, separated=0.1, rng=1).data


@pytest.fixture(scope="module")
def results(data):
    return ProbitSelection.from_formula(*FORMULAS, data).fit()


@pytest.fixture(scope="module")
def new(data) -> pd.DataFrame:
    return data.head(4).assign(interviewer=["i001", "i002", "new", "newer"])


# -- numbers ---------------------------------------------------------------------------------------


def test_effective_degrees_of_freedom_count_in_criteria(results):
    table = results.penalised_terms()
    names = results.params.index
    ordinary = sum("[" not in name for name in names)
    # The line of a smooth is free; the sum over all parameters is near that of terms and the rest.
    assert results.df_modelwc == pytest.approx(ordinary + table.edf.sum(), abs=0.6)
    assert results.df_modelwc < len(names) - 5
    assert results.aic == pytest.approx(2.0 * (results.df_modelwc - results.llf))


def test_log_likelihood_is_without_penalties(results, data):
    model = results.model
    assert results.llf == pytest.approx(model.loglike(results.params), rel=1e-12)
    assert results._results.solution.value < results.llf - 1.0
    assert results.llf > results.llindep > results.llnull


def test_covariance_has_the_penalties_in_it(results):
    found = np.asarray(results.cov_params())
    np.testing.assert_allclose(found, np.linalg.inv(-results._results._hessian()), atol=1e-10)
    plain = -results.model.hessian(results.params)
    gap = np.linalg.inv(found) - plain
    blocks, penalties = results.model.blocks_of(), results._results._fit_info.penalties.values
    for block, value in zip(blocks, penalties, strict=True):
        np.testing.assert_allclose(gap[block.cut, block.cut], value * block.matrix, atol=1e-5)


def test_sandwich_has_penalised_bread(results, data):
    robust = results.get_robustcov_results("HC0")
    bread = np.linalg.inv(-results._results._hessian())
    scores = results.model.score_obs(results.params)
    np.testing.assert_allclose(robust.cov_params(), bread @ scores.T @ scores @ bread, atol=1e-9)
    clustered = results.get_robustcov_results("cluster", groups="interviewer")
    assert np.isfinite(clustered.bse).all()
    with pytest.raises(ValueError, match=r"OPG.*leaves penalties out"):
        results.get_robustcov_results("OPG")


def test_pvalues_of_a_boundary():
    found = boundary_pvalues(np.array([0.0, 2.706, np.nan]))
    assert found[0] == 1.0
    assert found[1] == pytest.approx(0.05, abs=1e-4)
    assert np.isnan(found[2])


def test_a_curve_is_flat_or_not(data):
    formula = "s ~ smooth(noise) + x2 + z"
    noisy = data.assign(noise=np.random.default_rng(3).normal(size=len(data)))
    model = ProbitSelection.from_formula(
        "y ~ smooth(x1)", formula, noisy, normalization={"rho": 0.0}
    )
    table = model.fit().penalised_terms()
    assert table.p_flat["smooth(x1)"] < 1e-6
    assert table.p_flat["select_smooth(noise)"] > 0.01
    assert table.p_zero["select_smooth(noise)"] > 0.01


def test_curves_and_levels_are_read_off_the_parameters(results, data):
    curve = results.smooth_curve("smooth(x1)", data.x1.head(5))
    index = results.predict(data.head(5), which="linear")
    expected = index - results.params["Intercept"] - results.params["x2"] * data.x2.head(5)
    np.testing.assert_allclose(curve.curve, expected, atol=1e-10)
    levels = results.group_effects("re(interviewer)")
    assert levels.effect.is_monotonic_increasing
    assert levels.effect["i003"] == results.params["select_re(interviewer)[i003]"]
    assert len(levels) == 25


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda r: r.smooth_curve("smooth(x2)"), "not a term that this method takes; those are"),
        (lambda r: r.group_effects("smooth(x1)"), r"select_re\(interviewer\)"),
        (lambda r: r.predict(level="mean"), "level='mean' is unknown"),
        (lambda r: r.bootstrap(3, penalties="free"), "penalties='free' is unknown"),
        (lambda r: r.test_independence("lr"), "shrink their coefficients"),
        (lambda r: hausman_test(r), "without a penalty"),
        (lambda r: vuong_test(r, r), "no penalty"),
        (lambda r: r.model._fit_zeros(np.array([0])), "takes no penalised terms"),
    ],
)
def test_what_has_no_meaning_is_refused(results, call, words):
    with pytest.raises(ValueError, match=words):
        call(results)


def test_fits_without_terms_refuse_questions_about_them(data):
    plain = ProbitSelection.from_formula("y ~ x2", "s ~ x2 + z", data).fit()
    for call in (
        plain.penalised_terms,
        lambda: plain.predict(level="average"),
        lambda: plain.bootstrap(3, penalties="estimated"),
        lambda: plain.plot_smooth("smooth(x1)"),
    ):
        with pytest.raises(ValueError, match=r"re\(|smooth|term"):
            call()


# -- predictions -----------------------------------------------------------------------------------


def test_an_unseen_level_has_effect_zero_and_the_variance_of_effects(results, new):
    index = results.get_prediction(new, which="linear-select")
    by_hand = results.predict(new.assign(interviewer="new"), which="linear-select")
    assert index.predicted[2] == by_hand[new.index[2]]
    sd = results.penalised_terms().sd["select_re(interviewer)"]
    design = results.model.design_for(new, "linear-select")[1].to_numpy()
    cut = slice(results.model.k_outcome, results.model.k_outcome + results.model.k_select)
    cov = np.asarray(results.cov_params())[cut, cut]
    without = np.einsum("ij,jk,ik->i", design, cov, design)
    np.testing.assert_allclose(index.se**2 - without, [0.0, 0.0, sd**2, sd**2], atol=1e-10)


def test_average_over_levels_is_the_integral(results, new):
    sd = results.penalised_terms().sd["select_re(interviewer)"]
    index = results.predict(new.assign(interviewer="new"), which="linear-select")
    expected = ndtr(index / np.sqrt(1.0 + sd**2))
    for rows in (new, new.assign(interviewer="i001")):
        found = results.predict(rows, which="prob-select", level="average")
        np.testing.assert_allclose(found, expected, atol=1e-9)
    inside = results.get_prediction(new, which="prob-select", level="average")
    narrow = results.get_prediction(new, which="prob-select")
    assert (inside.se[2:] < narrow.se[2:]).all()


@pytest.mark.full
def test_average_over_levels_has_derivatives(results, new):
    found = results.get_prediction(new, which="mean-unselected", level="average")
    params, cov = np.asarray(results.params), np.asarray(results.cov_params())
    slopes = []
    for j in range(len(params)):
        ends = []
        for sign in (-1.0, 1.0):
            moved = params.copy()
            moved[j] += sign * 1e-5
            at = results._results._at_params(moved)
            ends.append(np.asarray(at.predict(new, which="mean-unselected", level="average")))
        slopes.append((ends[1] - ends[0]) / 2e-5)
    slope = np.stack(slopes, axis=1)
    np.testing.assert_allclose(found.se**2, np.einsum("ij,jk,ik->i", slope, cov, slope), rtol=1e-5)


def test_an_average_over_unseen_levels_counts_them_as_one(results, new):
    rows = new.assign(interviewer=["a", "b", "c", "d"])
    many = results.get_prediction(rows, which="prob-select", average=True, interval="wald")
    one = results.get_prediction(
        rows.assign(interviewer="a"), which="prob-select", average=True, interval="wald"
    )
    assert many.se == pytest.approx(one.se)
    alone = results.get_prediction(rows, which="prob-select")
    assert many.se[0] == pytest.approx(alone.se.mean(), rel=0.1)


def test_effects_of_a_smooth_are_those_of_its_variable(results, data):
    names = results.get_margeff().names
    assert not any("[" in name for name in names)
    found = results.get_margeff(variables=["x1"], interval="wald")
    step = 1e-4
    ends = [results.predict(data.assign(x1=data.x1 + h)).mean() for h in (-step, step)]
    assert found.margeff[0] == pytest.approx((ends[1] - ends[0]) / (2 * step), abs=1e-5)
    level = results.get_margeff(which="prob-select", variables=["interviewer"], interval="wald")
    assert len(level.names) == 24


# -- files, copies, refits -------------------------------------------------------------------------


def test_files_hold_the_terms(results, data):
    text = results.to_json()
    again = from_json(text)
    assert str(again.summary()) == str(results.summary())
    pd.testing.assert_frame_equal(again.penalised_terms(), results.penalised_terms())
    pd.testing.assert_frame_equal(
        again.group_effects("re(interviewer)"), results.group_effects("re(interviewer)"),
        check_index_type=False,
    )  # fmt: skip
    with_model = from_json(text, results.model.smoothed(None))
    np.testing.assert_allclose(with_model.predict(data), results.predict(data))
    params = with_model.model.expand(results.params)
    at, expected = (r.model.objective().evaluate(params) for r in (with_model, results))
    np.testing.assert_allclose(at.hessian, expected.hessian, rtol=1e-9, atol=1e-9)
    assert with_model.df_modelwc == pytest.approx(results.df_modelwc)


@pytest.mark.parametrize(
    ("old", "new_text", "words"),
    [
        ('"start": 2', '"start": 1', "where the columns of the term begin"),
        ('"kind": "smooth"', '"kind": "line"', "must be one of re, smooth"),
        ('"vanished": false', '"vanished": 0', "must be true or false"),
        ('"kind": "probit"', '"kind": "free"', "must be one of probit, loading"),
        ('"knots": [\n      -3.0', '"knots": [\n      99', "must be at least two rising numbers"),
    ],
)
def test_malformed_terms_of_a_file_are_named(results, old, new_text, words):
    text = results.to_json()
    assert old in text
    with pytest.raises(ValueError, match=words):
        from_json(text.replace(old, new_text, 1))


def test_pickles_and_removed_data_keep_the_table(data):
    results = ProbitSelection.from_formula("y ~ x2", "s ~ x2 + z + re(interviewer)", data).fit()
    table = results.penalised_terms()
    again = pickle.loads(pickle.dumps(results))
    pd.testing.assert_frame_equal(again.penalised_terms(), table)
    expected = results.predict(data.head(3))
    results.remove_data()
    pd.testing.assert_frame_equal(results.penalised_terms(), table)
    np.testing.assert_array_equal(results.predict(data.head(3)), expected)
    assert "Penalised terms" in str(results.summary())


def test_summaries_show_terms_once(results):
    text = str(results.summary())
    assert text.count("select_re(interviewer)") == 1
    assert "[i001]" not in text
    assert "select_re(interviewer)" in str(results.summary2())
    assert not any("[" in str(name) for name in results.tidy().index)
    assert results.summary().as_html().count("Penalised terms<") == 1
    assert "Penalised terms" in results.summary().as_latex()


def test_summaries_say_how_the_dependence_was_estimated():
    small = simulate_interviewers(600, groups=20, rng=0).data
    model = ProbitSelection.from_formula("y ~ x2", "s ~ z + re(interviewer)", small)
    words = {how: " ".join(str(model.fit(dependence=how).summary()).split())
             for how in ("joint", "marginal")}  # fmt: skip
    assert "fewer than 50 rows on average" in words["joint"]
    assert "dependence='marginal'" in words["joint"]
    assert "coefficients are integrated out" in words["marginal"]
    assert "fewer than 50 rows" not in words["marginal"]


@pytest.mark.full
def test_refits_hold_penalties_or_estimate_them(results):
    held = results.bootstrap(8, rng=0)
    assert held.failed.total() == 0
    np.testing.assert_allclose(held.estimate, results.params)
    groups = [name for name in held.bse.index if "re(" in name]
    assert (held.bse[groups] > 0).all()
    anew = results.bootstrap(2, rng=0, penalties="estimated", n_jobs=1)
    assert anew.replicates.shape == (2, len(results.params))
    assert not np.allclose(anew.replicates.iloc[0], held.replicates.iloc[0], atol=1e-3)


@pytest.mark.full
def test_profile_and_sensitivity_hold_penalties(results):
    profile = results.profile("error_corr")
    assert profile.llf == pytest.approx(results._results.solution.value)
    low, high = profile.interval
    assert low < results.error_corr < high
    at = results.sensitivity(error_corr=[-0.5, 0.0], target="prevalence").table
    assert at["estimate"].iloc[0] > at["estimate"].iloc[1]
    free = GreeneSelectionLogit.from_formula("y ~ x2", "s ~ z + re(interviewer)",
                                             simulate_interviewers(600, groups=8, rng=0).data,
                                             normalization="free")  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakIdentificationWarning)
        fitted = free.fit()
    with pytest.raises(ValueError, match="units that change with sigma"):
        fitted.profile("error_corr")


def test_many_levels_are_judged_as_one_instrument_as_their_leave_one_out_rate_is():
    data = simulate_interviewers(3_000, groups=60, rng=3).data
    shuffled = np.random.default_rng(0).permutation(data.interviewer)
    data = data.assign(nobody=shuffled)

    def instrument(terms: str, data: pd.DataFrame) -> ExclusionTest:
        return ProbitSelection.from_formula("y ~ x2", f"s ~ x2 + {terms}", data).fit().instrument

    grouped = instrument("re(interviewer)", data)
    others = data.groupby("interviewer").s
    rate = (others.transform("sum") - data.s) / (others.transform("size") - 1)
    alone = instrument("rate", data.assign(rate=rate))
    assert (grouped.verdict, alone.verdict) == ("strong", "strong")
    assert grouped.fvalue < 10 < grouped.strength
    assert grouped.strength == pytest.approx(alone.strength, rel=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakIdentificationWarning)
        noise = instrument("re(nobody)", data)
    assert noise.verdict == "weak" and "weak" in noise.line


@pytest.mark.full
def test_the_group_is_an_instrument(results):
    found = results.instrument
    assert found.columns == ("z", "re(interviewer)")
    table = results.penalised_terms()
    assert found.df == pytest.approx(table.edf["select_re(interviewer)"] + 1, abs=1.5)
    only = ProbitSelection.from_formula(
        "y ~ x2 + re(interviewer)", "s ~ x2 + z + re(interviewer)",
        simulate_interviewers(800, groups=10, rng=2).data,
    ).fit()  # fmt: skip
    assert only.instrument.columns == ("z",)


def test_independence_is_tested_by_wald_and_score(results):
    wald, score = results.test_independence(), results.test_independence("score")
    assert wald.method == "wald"
    assert score.statistic == pytest.approx(wald.statistic, rel=0.5)
    assert stats.chi2.sf(score.statistic, 1) < 0.01


@pytest.mark.full
def test_imputations_and_influence_take_terms(results):
    assert 0.2 < results.impute(3, rng=0).prevalence().params.iloc[0] < 0.6
    assert np.isfinite(results.get_influence().cooks_distance[0]).all()
    assert np.isfinite(results.population_metrics().summary_frame().iloc[0]).all()
    assert "z" in str(results.identification_report())
    assert list(results.wald_test_terms().table.index) == [
        "Intercept", "x2", "select_Intercept", "select_x2", "select_z"
    ]  # fmt: skip


@pytest.mark.full
def test_comparisons_and_experiments_take_fitted_results(results, data):
    table = compare({"penalised": results, "again": results}, variables=["x2"])
    assert table.margeff["penalised"].loc["x2", "AME"] == pytest.approx(
        table.margeff["again"].loc["x2", "AME"]
    )

    def model(frame):
        return ProbitSelection.from_formula("y ~ x2", "s ~ z + re(interviewer)", frame)

    run = monte_carlo(
        lambda rng: simulate_interviewers(300, groups=6, rng=rng), {"re": model}, 2, rng=0,
        n_jobs=1,
    )  # fmt: skip
    assert run.table.loc[("re", "x2"), "n"] == 2


# -- pictures --------------------------------------------------------------------------------------


@pytest.mark.full
def test_pictures_show_curves_and_levels(results, data):
    ax = results.plot_smooth("smooth(x1)")
    line = ax.get_lines()[-1]
    np.testing.assert_allclose(line.get_ydata(), results.smooth_curve("smooth(x1)").curve)
    levels = results.plot_levels("re(interviewer)")
    assert len(levels.get_yticklabels()) == 25
    many = simulate_interviewers(1_200, groups=80, rng=0).data
    fit = ProbitSelection.from_formula("y ~ x2", "s ~ z + re(interviewer)", many).fit()
    assert "80 levels" in fit.plot_levels("re(interviewer)").get_ylabel()


@pytest.mark.full
def test_the_report_has_the_terms(results, tmp_path):
    page = results.report(tmp_path / "fit.html", figures=True).read_text()
    assert "Penalised terms" in page
    assert "select_re(interviewer): effects of the levels in order" in page
