"""GreeneSelectionLogit with a cloglog outcome: likelihood, derivatives, reference fit, methods."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime

from statsmodels_mnar import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection, from_json

from ..reference.cloglog import log_likelihood

REFERENCE = Path(__file__).parents[1] / "reference"
MADE = json.loads((REFERENCE / "mle_cloglog_n600.json").read_text())
FORMULAS = ("y ~ x", "s ~ x + z")


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return pd.read_csv(REFERENCE / "cloglog_n600.csv")


@pytest.fixture(scope="module")
def model(data):
    return GreeneSelectionLogit.from_formula(*FORMULAS, data, link="cloglog")


@pytest.fixture(scope="module")
def results(model):
    return model.fit()


def test_log_likelihood_equals_adaptive_quadrature(model, data):
    rng = np.random.default_rng(1)
    for theta in (MADE["true"], *rng.normal(0.0, 0.7, (4, 6))):
        expected = log_likelihood(np.asarray(theta), data)
        assert model.loglike(theta) == pytest.approx(expected, rel=1e-9)
    assert model.loglike(MADE["true"]) == pytest.approx(MADE["at_true"], abs=1e-8)


@pytest.mark.parametrize("loading", [0.0, -1.1, 6.0])
def test_score_and_hessian_equal_numerical_derivatives(model, loading):
    theta = np.array([*MADE["true"][:5], loading])
    steps = 1e-5 * np.eye(6)
    slope = [(model.loglike(theta + h) - model.loglike(theta - h)) / 2e-5 for h in steps]
    curve = [(model.score(theta + h) - model.score(theta - h)) / 2e-5 for h in steps]
    np.testing.assert_allclose(model.score(theta), slope, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(model.hessian(theta), curve, rtol=1e-6, atol=1e-5)


def test_fit_equals_the_reference(results):
    # The reference's BFGS stops at a score of 1e-10, its errors are differences of differences.
    np.testing.assert_allclose(results.params, MADE["params"], atol=2e-6)
    np.testing.assert_allclose(results.bse, MADE["bse"], rtol=2e-4)
    assert results.llf == pytest.approx(MADE["llf"], abs=1e-8)


def test_arrays_give_the_same_fit(data, results):
    X = np.column_stack([np.ones(len(data)), data.x])
    W = np.column_stack([X, data.z])
    found = GreeneSelectionLogit(data.y, X, data.s, W, link="cloglog").fit()
    np.testing.assert_allclose(found.params, results.params, atol=1e-8)


def test_the_error_correlation_is_that_of_the_latent_errors(results):
    """The outcome's own error is Gumbel's, with variance pi^2/6."""
    rng = np.random.default_rng(2)
    u = rng.standard_normal(400_000)
    error = results.params["loading"] * u - rng.gumbel(size=len(u))
    expected = np.corrcoef(error, u)[0, 1]
    assert results.error_corr == pytest.approx(expected, abs=4 / np.sqrt(len(u)))


def test_it_recovers_the_truth():
    """Estimates from 40,000 rows within four standard errors, the loading among them."""
    rng = np.random.default_rng(3)
    x, z, u = rng.standard_normal((3, 40_000))
    true = np.array([-0.6, 0.7, 0.2, 0.4, 0.9, -0.8])
    s = true[2] + true[3] * x + true[4] * z + u > 0
    y = rng.random(len(x)) < -np.expm1(-np.exp(true[0] + true[1] * x + true[5] * u))
    data = pd.DataFrame({"y": np.where(s, y, np.nan), "s": s.astype(int), "x": x, "z": z})
    data["y"] = data["y"].astype(float)
    found = GreeneSelectionLogit.from_formula(*FORMULAS, data, link="cloglog").fit()
    assert found.converged
    assert (np.abs(found.params - true) < 4 * found.bse).all()
    share = found.get_prediction(average=True)
    assert abs(share.predicted[0] - y.mean()) < 4 * np.hypot(share.se[0], 0.5 / np.sqrt(len(y)))


def test_the_summary_names_the_scale(results, data):
    assert "(cloglog scale)" in str(results.summary())
    plain = GreeneSelectionLogit.from_formula(*FORMULAS, data).fit()
    assert "scale" not in str(plain.summary())


def test_predictions_are_means_over_the_error(results, data):
    a = results.params["Intercept"] + results.params["x"] * data.x.to_numpy()
    u, weight = np.polynomial.hermite_e.hermegauss(80)
    weight = weight / weight.sum()
    F = -np.expm1(-np.exp(a[:, None] + results.params["loading"] * u))
    np.testing.assert_allclose(results.predict(), F @ weight, rtol=1e-8)
    joint = sum(results.predict(which=which) for which in ("p11", "p10", "p01", "p00"))
    np.testing.assert_allclose(joint, 1.0, rtol=1e-9)


def test_marginal_effects_and_their_errors_equal_numerical_ones(results, data):
    def average(params, shift=0.0):
        design = np.column_stack([np.ones(len(data)), data.x + shift])
        return results.model.predict(params, design).mean()

    def effect(params):
        return (average(params, 1e-4) - average(params, -1e-4)) / 2e-4

    found = results.get_margeff()
    at = np.asarray(results.params)
    assert found.margeff[0] == pytest.approx(effect(at), rel=1e-6)
    slope = approx_fprime(at, effect, 1e-5)
    expected = np.sqrt(slope @ results.cov_params().to_numpy() @ slope)
    assert found.margeff_se[0] == pytest.approx(expected, rel=1e-3)


def test_tests_of_independence_agree(results):
    """Score and likelihood ratio are the same to first order; the score reads the link."""
    lr, score = (results.test_independence(method).statistic for method in ("lr", "score"))
    assert lr == pytest.approx(2 * (results.llf - results.llindep))
    assert 0.6 < score / lr < 1.6


def test_profile_and_sensitivity_hold_the_error_correlation(results):
    profile = results.profile("error_corr")
    low, high = profile.interval
    assert low < results.error_corr < high
    held_at = [0.0, results.error_corr]
    table = results.sensitivity(error_corr=held_at, target="prevalence").table
    assert table["estimate"].iloc[1] == pytest.approx(
        results.get_prediction(average=True).predicted[0], abs=1e-6
    )
    held = results.model.sibling("independent").fit()
    assert table["estimate"].iloc[0] == pytest.approx(
        held.get_prediction(average=True).predicted[0], abs=1e-6
    )


def test_a_bootstrap_spreads_as_the_standard_errors_say(results):
    draws = results.bootstrap(60, rng=4)
    # of 60 replicates: the relative error of a standard deviation is 9%
    np.testing.assert_allclose(np.asarray(draws.bse)[2:5], np.asarray(results.bse)[2:5], rtol=0.4)


@pytest.mark.parametrize("how", ["json", "pickle"])
def test_it_survives_a_file(results, model, how, data):
    if how == "json":
        other = from_json(results.to_json(), model)
        assert json.loads(results.to_json())["link"] == "cloglog"
        plain = GreeneSelectionLogit.from_formula(*FORMULAS, data)
        with pytest.raises(ValueError, match="link='logit', the file 'cloglog'"):
            from_json(results.to_json(), plain)
    else:
        other = pickle.loads(pickle.dumps(results))
    assert other.model.link is results.model.link
    np.testing.assert_array_equal(other.predict(data), results.predict(data))
    assert str(other.summary()) == str(results.summary())


@pytest.mark.parametrize("normalization", ["free", "probit", {"sigma": 1.0}, {"rho": 0.5}])
def test_other_normalizations_are_refused_with_what_to_do(data, normalization):
    with pytest.raises(ValueError, match=r"link='cloglog'.*use normalization='loading'"):
        GreeneSelectionLogit.from_formula(
            *FORMULAS, data, link="cloglog", normalization=normalization
        )


def test_draws_and_descent_are_refused(data, model):
    with pytest.raises(ValueError, match="leave out integration"):
        GreeneSelectionLogit.from_formula(*FORMULAS, data, link="cloglog", integration="simulation")
    with pytest.raises(ValueError, match="method='sgd'"):
        model.fit(method="sgd")


def test_unknown_links_and_models_without_them_are_refused(data):
    with pytest.raises(ValueError, match=r"link='cauchit'.*'logit' or 'cloglog'"):
        GreeneSelectionLogit.from_formula(*FORMULAS, data, link="cauchit")
    with pytest.raises(ValueError, match="ProbitSelection"):
        GreeneSelectionLogit.from_formula(*FORMULAS, data, link="probit")
    with pytest.raises(ValueError, match="BiasCorrLogit takes 'logit'"):
        BiasCorrLogit.from_formula(*FORMULAS, data, link="cloglog")
    with pytest.raises(TypeError, match="link"):
        ProbitSelection.from_formula(*FORMULAS, data, link="cloglog")
