"""Effects of a factor that are no columns of the design: the same fits as with columns."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch

import statsmodels_mnar.design.terms as terms
from statsmodels_mnar import GreeneSelectionLogit, ProbitSelection, from_json
from statsmodels_mnar.datasets import simulate_interviewers
from statsmodels_mnar.optimize.levels import LevelSums, eliminate

from ..numerical import jacobian

EVERYTHING = 10**9
CASES = {
    "selection": (ProbitSelection, "y ~ smooth(x1, df=6) + x2", "s ~ x1 + z + re(interviewer)"),
    "outcome": (GreeneSelectionLogit, "y ~ x2 + re(interviewer)", "s ~ x2 + z"),
}


@pytest.fixture(scope="module")
def data():
    return simulate_interviewers(1_200, groups=40, separated=0.1, rng=1).data


@pytest.fixture(scope="module", params=list(CASES))
def both(request, data):
    """The same model with indicators as columns, and with the effects apart."""
    cls, outcome, select = CASES[request.param]
    found = []
    for many in (EVERYTHING, 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(terms, "MANY", many)
            found.append(cls.from_formula(outcome, select, data).fit())
    return found


def test_effects_apart_are_no_parameters(both):
    columns, apart = both
    assert len(columns.params) - len(apart.params) == 40
    assert [term.apart for term in apart.model.design.penalised].count(True) == 1
    assert not any("re(" in name for name in apart.params.index)


def test_estimates_errors_and_penalties_are_those_of_columns(both):
    columns, apart = both
    names = apart.params.index
    np.testing.assert_allclose((columns.params[names] - apart.params) / apart.bse, 0.0, atol=2e-4)
    np.testing.assert_allclose(columns.bse[names], apart.bse, rtol=2e-4)
    assert apart.llf == pytest.approx(columns.llf, abs=2e-3)
    assert apart.llindep == pytest.approx(columns.llindep, abs=1.0)  # at other penalties
    assert apart.aic == pytest.approx(columns.aic, abs=5e-3)
    one, two = (r._results._fit_info.penalties for r in both)
    np.testing.assert_allclose(one.values, two.values, rtol=1e-3)
    assert two.marginal == pytest.approx(one.marginal, abs=1e-4)


def test_table_effects_and_instrument_are_those_of_columns(both):
    columns, apart = both
    one, two = (r.penalised_terms() for r in both)
    numbers = one.select_dtypes("number").columns
    np.testing.assert_allclose(one[numbers], two[numbers], rtol=5e-3, atol=1e-3)
    term = one.index[-1]
    np.testing.assert_allclose(columns.group_effects(term), apart.group_effects(term), atol=1e-4)
    assert apart.instrument.columns == columns.instrument.columns
    assert apart.instrument.statistic == pytest.approx(columns.instrument.statistic, rel=1e-3)
    assert apart.instrument.df == columns.instrument.df


@pytest.mark.parametrize("which", ["mean", "mean-unselected", "prob-select", "p01"])
def test_predictions_and_their_errors_are_those_of_columns(both, data, which):
    new = data.head(4).assign(interviewer=["i001", "i002", "new", "newer"])
    calls = (
        lambda r: r.get_prediction(average=True, which=which, interval="wald"),
        lambda r: r.get_prediction(new, which=which),
        lambda r: r.get_prediction(new, which=which, average=True, interval="wald"),
        lambda r: r.get_prediction(new, which=which, level="average"),
    )
    for call in calls:
        one, two = (call(r).summary_frame() for r in both)
        np.testing.assert_allclose(one, two, atol=1e-5)


def test_robust_errors_tests_profiles_and_refits_are_those_of_columns(both):
    one, two = ([r.get_robustcov_results(*how).bse["x2"] for how in (("HC0",), ("HC1",))]
                for r in both)  # fmt: skip
    np.testing.assert_allclose(one[0], two[0], rtol=1e-3)
    clustered = [r.get_robustcov_results("cluster", groups="interviewer").bse["x2"] for r in both]
    assert clustered[0] == pytest.approx(clustered[1], rel=1e-3)
    tests = [r.test_independence().statistic for r in both]
    assert tests[0] == pytest.approx(tests[1], rel=1e-3)
    intervals = [r.profile("error_corr").interval for r in both]
    np.testing.assert_allclose(*intervals, atol=0.01)
    draws = [r.bootstrap(3, rng=0).replicates[["x2", "select_z"]] for r in both]
    np.testing.assert_allclose(*draws, atol=1e-3)


def test_score_and_hessian_without_the_effects_are_derivatives(both):
    objective = both[1].model.objective()
    theta = both[1].model.expand(both[1].params) + 0.05
    at = objective.evaluate(theta)
    score = jacobian(lambda t: objective.evaluate(t, 0).value.numpy(), theta)[0]
    hessian = jacobian(lambda t: objective.evaluate(t, 1).score[0].numpy(), theta)
    np.testing.assert_allclose(at.score[0], score, atol=1e-4)
    np.testing.assert_allclose(at.hessian[0], hessian, atol=2e-3)


def test_effects_far_from_their_maximum_are_found():
    """Newton's steps on log(1 + exp(-20 u)) go to and fro; the bracket ends that."""
    sign = torch.tensor([[1.0, -1.0]], dtype=torch.float64)

    def sums(u):
        p = torch.sigmoid(-20.0 * sign * u)
        value = torch.nn.functional.logsigmoid(20.0 * sign * u).sum(-1)
        none = u.new_zeros(1, 1)
        return LevelSums(value, none, none[None], 20.0 * sign * p, -400.0 * p * (1 - p),
                         u.new_zeros(1, 1, 2))  # fmt: skip

    start = torch.tensor([[-3.0, 5.0]], dtype=torch.float64)
    found = eliminate(sums, start, 1.0).effects
    at = sums(found)
    np.testing.assert_allclose(at.pull - found, 0.0, atol=1e-6)


def test_columns_are_not_built_for_many_levels():
    data = simulate_interviewers(3_000, groups=terms.MANY + 50, rng=0).data
    model = ProbitSelection.from_formula("y ~ x2", "s ~ x2 + z + re(interviewer)", data)
    assert model.design.W.shape[1] == 3
    assert model.rows.apart.count == terms.MANY + 50


def test_files_hold_the_effects(both, data):
    expected = both[1]
    found = from_json(expected.to_json())
    term = expected.penalised_terms().index[-1]
    pd.testing.assert_frame_equal(found.penalised_terms(), expected.penalised_terms())
    pd.testing.assert_frame_equal(
        found.group_effects(term), expected.group_effects(term), check_index_type=False
    )
    assert str(found.summary()) == str(expected.summary())
    new = data.head(4).assign(interviewer=["i001", "i002", "new", "newer"])
    for which in ("mean", "prob-select"):
        pages = [r.get_prediction(new, which=which).summary_frame() for r in (found, expected)]
        pd.testing.assert_frame_equal(*pages)
        averages = [r.predict(new, which=which, level="average") for r in (found, expected)]
        np.testing.assert_allclose(*averages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terms, "MANY", 20)
        again = from_json(expected.to_json(), expected.model.smoothed(None))
    mean, same = (r.get_prediction(average=True).summary_frame() for r in (again, expected))
    np.testing.assert_allclose(mean, same, atol=1e-9)


def test_levels_of_files_are_numbers_where_those_of_the_data_are(data, monkeypatch):
    monkeypatch.setattr(terms, "MANY", 20)
    coded = data.assign(interviewer=data.interviewer.str[1:].astype(int))
    expected = ProbitSelection.from_formula("y ~ x2", "s ~ z + re(interviewer)", coded).fit()
    found = from_json(expected.to_json())
    values = [r.predict(coded.head(5), which="prob-select") for r in (found, expected)]
    np.testing.assert_allclose(*values)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("values", [1.0], "must have 40 numbers and has 1"),
        ("information", [0.0] * 40, "must be positive"),
        ("tangent", [[0.0] * 40], "rows and has 1"),
    ],
)
def test_malformed_effects_of_a_file_are_named(both, key, value, words):
    record = json.loads(both[1].to_json())
    record["effects_apart"][key] = value
    with pytest.raises(ValueError, match=f"effects_apart.{key}.*{words}"):
        from_json(json.dumps(record))


def test_files_too_large_to_be_read_are_not_written(both, monkeypatch):
    monkeypatch.setattr("statsmodels_mnar.results.findings.LARGEST_FILE", 1_000)
    with pytest.raises(ValueError, match="Pickle the results instead"):
        both[1].to_json()
