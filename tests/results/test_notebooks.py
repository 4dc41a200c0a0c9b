"""What statsmodels' results have besides, and what a notebook shows of ours."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import statsmodels_mnar as sm
from statsmodels_mnar import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection

NASTY = "<script>x"


@pytest.fixture(scope="module")
def data():
    return sm.datasets.simulate_greene(800, rng=1).data


@pytest.fixture(scope="module")
def results(data):
    return GreeneSelectionLogit.from_formula("y ~ x1 + x2", "s ~ x1 + x2 + z", data).fit()


def test_score_test_of_columns_left_out_is_close_to_the_likelihood_ratio(data):
    few = ProbitSelection.from_formula("y ~ x1", "s ~ x1 + x2 + z", data).fit()
    more = ProbitSelection.from_formula("y ~ x1 + x2", "s ~ x1 + x2 + z", data).fit()
    statistic, pvalue, df = few.score_test(data["x2"])
    assert df == 1
    assert statistic == pytest.approx(more.compare_lr_test(few)[0], rel=0.15)
    assert pvalue < 0.05


def test_score_test_by_differences(data, results):
    extra = np.random.default_rng(0).standard_normal((len(data), 2))
    larger = GreeneSelectionLogit.from_formula(
        "y ~ x1 + x2 + e1 + e2", "s ~ x1 + x2 + z", data.assign(e1=extra[:, 0], e2=extra[:, 1])
    )
    at = np.insert(np.asarray(results.params), [3, 3], 0.0)
    step = 1e-4 * np.eye(len(at))
    f = larger.loglike
    score = np.array([(f(at + h) - f(at - h)) / 2e-4 for h in step])
    hessian = (
        np.array(
            [
                [f(at + g + h) - f(at + g - h) - f(at - g + h) + f(at - g - h) for h in step]
                for g in step
            ]
        )
        / 4e-8
    )
    expected = score[3:5] @ np.linalg.inv(-hessian)[3:5, 3:5] @ score[3:5]
    assert results.score_test(extra)[0] == pytest.approx(expected, rel=1e-3)


def test_score_test_refuses_what_it_does_not_cover(data, results):
    with pytest.raises(ValueError, match=r"for the 800 rows of the model, got shape \(3,\)"):
        results.score_test([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="use wald_test"):
        results.get_robustcov_results("HC0").score_test(data["x2"])


def test_criteria_have_more_parameters_where_asked(results):
    assert results.info_criteria("aic") == results.aic
    assert results.info_criteria("aic", 2) == pytest.approx(results.aic + 4)
    assert results.info_criteria("bic", 1) == pytest.approx(results.bic + np.log(800))
    with pytest.raises(ValueError, match="crit='hqic' is unknown"):
        results.info_criteria("hqic")


def test_prediction_table_counts_labelled_rows(data, results):
    table = results.pred_table()
    seen = data[data.s == 1]
    said = results.predict(seen, which="mean-selected") > 0.5
    assert table.tolist() == [
        [((seen.y == y) & (said == p)).sum() for p in (False, True)] for y in (0, 1)
    ]
    assert results.pred_table(0.0)[:, 1].sum() == len(seen)


def test_prediction_table_counts_frequency_weights(data):
    twice = data.assign(n=2)
    weighted = ProbitSelection.from_formula(
        "y ~ x1 + x2", "s ~ x1 + x2 + z", twice, freq_weights="n"
    ).fit()
    plain = ProbitSelection.from_formula("y ~ x1 + x2", "s ~ x1 + x2 + z", data).fit()
    np.testing.assert_array_equal(weighted.pred_table(), 2 * plain.pred_table())


@pytest.fixture(scope="module")
def nasty(data):
    renamed = data.rename(columns={"x1": NASTY})
    formula = f"Q('{NASTY}') + x2"
    return GreeneSelectionLogit.from_formula(f"y ~ {formula}", f"s ~ {formula} + z", renamed).fit()


@pytest.mark.parametrize(
    "ask",
    [
        lambda r: r,
        lambda r: r.get_margeff(),
        lambda r: r.get_margeff(at="all"),
        lambda r: r.get_prediction(average=True),
        lambda r: r.get_prediction(),
        lambda r: r.identification,
        lambda r: r.test_independence(),
        lambda r: r.bootstrap(3, rng=0),
        lambda r: r.profile("error_corr"),
        lambda r: r.sensitivity(error_corr=(0.2, 0.5), target="prevalence"),
        lambda r: sm.compare({NASTY: r}),
    ],
    ids=lambda f: None,
)
def test_notebooks_show_tables_with_names_as_text(nasty, ask):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shown = ask(nasty)._repr_html_()
    assert shown.startswith(("<table", "<div", "<pre"))
    assert "<script" not in shown


def test_biascorr_has_a_summary_in_notebooks(data):
    results = BiasCorrLogit.from_formula("y ~ x1 + x2", "s ~ x1 + x2 + z", data).fit()
    assert "BiasCorrLogit" in results._repr_html_()
    with pytest.raises(AttributeError, match="aic is not defined for BiasCorr"):
        results.info_criteria("aic")
