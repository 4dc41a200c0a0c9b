"""Fits with penalised terms against mgcv, GJRM and the truth of simulated interviewers."""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from statsmodels.tools.sm_exceptions import ConvergenceWarning

from statsmodels_mnar import GreeneSelectionLogit, ProbitSelection
from statsmodels_mnar.datasets import simulate_interviewers
from statsmodels_mnar.errors import PerfectSeparationError

REFERENCE = Path(__file__).parents[1] / "reference"
OUTCOME, SELECT = "y ~ smooth(x1) + x2", "s ~ smooth(x1) + x2 + z + re(interviewer)"


@pytest.fixture(scope="module")
def data(shared) -> pd.DataFrame:
    path = shared / "reference" / "penalised" / "interviewers_n4000.csv"
    if not path.is_file():
        pytest.skip("the shared reference data are not here")
    return pd.read_csv(path)


@pytest.fixture(scope="module")
def mgcv() -> pd.Series:
    found = pd.read_csv(REFERENCE / "penalised_mgcv.csv")
    return found.set_index(["case", "name"])["value"]


@pytest.fixture(scope="module")
def apart(data):
    return ProbitSelection.from_formula(OUTCOME, SELECT, data, normalization={"rho": 0.0}).fit()


@pytest.fixture(scope="module")
def joint(data):
    return ProbitSelection.from_formula(OUTCOME, SELECT, data).fit()


def test_penalties_edf_and_coefficients_of_each_equation_are_those_of_mgcv(apart, mgcv):
    table = apart.penalised_terms()
    pairs = [
        ("outcome_probit", 1, "smooth(x1)"),
        ("selection", 1, "select_smooth(x1)"),
        ("selection", 2, "select_re(interviewer)"),
    ]
    for case, number, term in pairs:
        assert table.penalty[term] == pytest.approx(mgcv[case, f"sp_{number}"], rel=1e-3)
        assert table.edf[term] == pytest.approx(mgcv[case, f"edf_{number}"], abs=0.05)
    names = {"x2": "x2", "z": "z", "(Intercept)": "Intercept"}
    for name in ("(Intercept)", "x2", "z"):
        own = f"select_{names[name]}"
        assert apart.params[own] == pytest.approx(mgcv["selection", name], abs=1e-5)
        assert apart.bse[own] == pytest.approx(mgcv["selection", f"se_{name}"], rel=0.01)
    assert apart.params["x2"] == pytest.approx(mgcv["outcome_probit", "x2"], abs=1e-5)
    assert apart.bse["x2"] == pytest.approx(mgcv["outcome_probit", "se_x2"], rel=0.01)


def test_standard_deviation_of_the_groups_and_its_interval_are_those_of_mgcv(apart, mgcv):
    term = apart.penalised_terms().loc["select_re(interviewer)"]
    assert term.sd == pytest.approx(mgcv["selection", "sd"], rel=1e-3)
    assert term.sd_lower == pytest.approx(mgcv["selection", "sd_lower"], rel=1e-2)
    assert term.sd_upper == pytest.approx(mgcv["selection", "sd_upper"], rel=1e-2)


def test_likelihoods_of_the_equations_apart_are_those_of_mgcv(apart, mgcv):
    expected = mgcv["selection", "llf"] + mgcv["outcome_probit", "llf"]
    assert apart.llf == pytest.approx(expected, abs=1e-3)
    # mgcv's has the labelled rows alone, and both integrate flat priors over their fixed effects.
    reml = mgcv["selection", "reml"] + mgcv["outcome_probit", "reml"]
    found = apart._results._fit_info.penalties.marginal
    assert found == pytest.approx(reml, abs=0.05)


def test_curves_are_those_of_mgcv(apart):
    curves = pd.read_csv(REFERENCE / "penalised_curves.csv")
    cases = {"outcome_probit": ("smooth(x1)", ""), "selection": ("select_smooth(x1)", "select_")}
    for case, (term, prefix) in cases.items():
        expected = curves[curves["case"] == case]
        found = apart.smooth_curve(term, expected["x1"]).curve
        index = found.to_numpy() + apart.params[f"{prefix}Intercept"]
        np.testing.assert_allclose(index, expected["index"], atol=1e-3)


def test_logit_outcome_is_that_of_mgcv(data, mgcv):
    model = GreeneSelectionLogit.from_formula(OUTCOME, "s ~ x2 + z", data,
                                              normalization="independent")  # fmt: skip
    results = model.fit()
    term = results.penalised_terms().loc["smooth(x1)"]
    assert term.penalty == pytest.approx(mgcv["outcome_logit", "sp_1"], rel=1e-3)
    assert term.edf == pytest.approx(mgcv["outcome_logit", "edf_1"], abs=0.05)
    assert results.params["x2"] == pytest.approx(mgcv["outcome_logit", "x2"], abs=1e-4)


@pytest.mark.full
def test_few_rows_a_group_and_twenty_basis_functions_are_those_of_mgcv(data, mgcv):
    formula = "s ~ smooth(x1, df=20) + z + re(interviewer)"
    small = data.head(600)
    results = ProbitSelection.from_formula(
        "y ~ x2", formula, small, normalization={"rho": 0.0}
    ).fit()
    table = results.penalised_terms()
    case = "selection_small"
    assert table.sd.iloc[1] == pytest.approx(mgcv[case, "sp_2"] ** -0.5, rel=0.005)
    np.testing.assert_allclose(table.edf, [mgcv[case, f"edf_{j}"] for j in (1, 2)], atol=0.05)
    assert results.params["select_z"] == pytest.approx(mgcv[case, "z"], abs=1e-4)


def test_joint_mode_at_the_penalties_of_gjrm(data):
    """Values of GJRM 0.2-6.8 on this file, from the README beside it; it has the joint mode."""
    results = ProbitSelection.from_formula(
        "y ~ smooth(x1, penalty=241.2697) + x2",
        "s ~ smooth(x1, penalty=220.1754) + x2 + z + re(interviewer, sd=0.4815405**-0.5)".replace(
            "0.4815405**-0.5", repr(0.4815405**-0.5)
        ),
        data,
    ).fit(dependence="joint")
    assert results.llf == pytest.approx(-3244.387, abs=1e-3)
    assert results.rho == pytest.approx(-0.608, abs=1e-3)
    expected = {
        "x2": 0.28754, "select_Intercept": 0.4977976, "select_x2": -0.2633767, "select_z": 0.2351349
    }  # fmt: skip
    for name, value in expected.items():
        assert results.params[name] == pytest.approx(value, abs=1e-4)
    assert results.bse["x2"] == pytest.approx(0.05597, rel=0.01)
    prevalence = results.get_prediction(average=True, interval="wald").summary_frame()
    assert prevalence.predicted.item() == pytest.approx(0.371, abs=5e-4)
    edf = results.penalised_terms().edf.to_numpy()
    np.testing.assert_allclose(edf, [3.840, 4.357, 39.724], atol=0.25)  # of another definition


def test_joint_model_agrees_with_gjrm_and_covers_the_truth(joint, data):
    assert -0.697 < joint.rho < -0.502
    found = joint.get_prediction(average=True).summary_frame().iloc[0]
    assert 0.337 < found.predicted < 0.406
    assert found.ci_lower < data.y_full.mean() < found.ci_upper
    term = joint.penalised_terms().loc["select_re(interviewer)"]
    assert term.sd_lower < 0.8 < term.sd_upper
    assert term.p_zero < 1e-10


def test_separated_groups_have_finite_effects(joint, data):
    effects = joint.group_effects("re(interviewer)")
    never = data.groupby("interviewer").s.mean() == 1.0
    assert never.sum() == 4
    assert np.isfinite(effects.to_numpy()).all()
    assert effects.loc[never[never].index, "effect"].min() > 0.3
    with pytest.raises(PerfectSeparationError):
        ProbitSelection.from_formula("y ~ x2", "s ~ C(interviewer)", data).fit()


@pytest.mark.full
def test_penalties_and_maximum_belong_together(joint):
    """Refitted at the penalties found, the estimates are the same."""
    found = joint._results._fit_info.penalties
    assert found.converged
    again = joint.model.smoothed(found.values, found.adjustment).fit(cov_type="nonrobust")
    np.testing.assert_allclose(again.params, joint.params, atol=1e-6)


@pytest.mark.full
def test_start_values_lead_to_the_same_fit(joint):
    again = joint.model.smoothed(None).fit(start_params=joint.params)
    np.testing.assert_allclose(again.params, joint.params, atol=1e-4)


@pytest.mark.full
def test_terms_in_both_equations_of_the_logit():
    data = simulate_interviewers(1_200, groups=15, rng=2).data
    model = GreeneSelectionLogit.from_formula(
        "y ~ x1 + re(interviewer)", "s ~ x1 + z + re(interviewer)", data
    )
    results = model.fit()
    assert list(results.penalised_terms().index) == ["re(interviewer)", "select_re(interviewer)"]
    assert results.penalised_terms().sd.iloc[1] > 0.3
    assert results.converged


@pytest.mark.full
def test_weights_count_rows():
    data = simulate_interviewers(500, groups=8, rng=4).data
    formulas = ("y ~ x2", "s ~ x2 + z + re(interviewer)")
    twice = pd.concat([data, data], ignore_index=True)
    expected = ProbitSelection.from_formula(*formulas, twice).fit()
    found = ProbitSelection.from_formula(
        *formulas, data.assign(w=2), freq_weights="w"
    ).fit()  # fmt: skip
    np.testing.assert_allclose(found.params, expected.params, atol=1e-4)
    assert found.aic == pytest.approx(expected.aic, abs=1e-3)


def test_sampling_weights_must_have_the_mean_one():
    data = simulate_interviewers(300, groups=6, rng=4).data.assign(w=2.0, one=1.0)
    formulas = ("y ~ x2", "s ~ z + re(interviewer)", data)
    with pytest.raises(ValueError, match=r"mean 2.*Divide the weights by their mean"):
        ProbitSelection.from_formula(*formulas, prob_weights="w").fit()
    weighted = ProbitSelection.from_formula(*formulas, prob_weights="one").fit()
    np.testing.assert_allclose(
        weighted.params, ProbitSelection.from_formula(*formulas).fit().params, atol=1e-6
    )


def test_other_optimisers_are_refused():
    data = simulate_interviewers(300, groups=6, rng=4).data
    model = ProbitSelection.from_formula("y ~ x2", "s ~ z + re(interviewer)", data)
    for method in ("bfgs", "lbfgs"):
        with pytest.raises(ValueError, match="fitted by method='newton'"):
            model.fit(method=method)


@pytest.mark.slow
def test_time_of_the_joint_fit_is_a_tenth_of_gjrms(data):
    """GJRM takes 7.4 s for this file on one thread of the machine on which mgcv takes 1.9 s."""
    model = ProbitSelection.from_formula(OUTCOME, SELECT, data)
    took = []
    for _ in range(3):
        start = time.process_time()
        model.smoothed(None).fit()
        took.append(time.process_time() - start)
    print(f"{min(took):.2f} s of processor time")
    assert min(took) < 0.74


@pytest.mark.full
def test_a_joint_mode_without_a_maximum_says_so_and_has_a_table():
    """Five rows an interviewer: the joint mode runs to perfectly correlated errors."""
    seed = np.random.default_rng([400, 5, 0, 1])
    data = simulate_interviewers(2_000, groups=400, sd=0.6, error_corr=-0.6, rng=seed).data
    select = "s ~ np.sin(1.5 * x1) + x2 + z + re(interviewer)"
    model = ProbitSelection.from_formula("y ~ np.cos(1.5 * x1) + x2", select, data)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = model.fit(dependence="joint")
    assert any(issubclass(each.category, ConvergenceWarning) for each in caught)
    assert np.isnan(results.penalised_terms().sd_upper).all()
