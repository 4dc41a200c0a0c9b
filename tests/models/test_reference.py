"""Estimates and standard errors against R, gretl and heckprobit (tests/reference)."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

from statsmodels_mnar import GreeneSelectionLogit, ProbitSelection, Status

from ..formulas import FORMULAS, MROZ


def reference(path, name):
    """Coefficients and errors of a reference file by our parameter names."""
    stored = json.loads((path / name).read_text())
    names = []
    for key in stored["coef"]:
        equation, _, term = key.partition(".")
        term = term.replace("(Intercept)", "Intercept")
        names.append({"S": f"select_{term}", "O": term}.get(equation, "athrho"))
    return stored, names


def assert_agrees(results, stored, names, columns):
    np.testing.assert_allclose(
        results.params[names], list(stored["coef"].values()), rtol=1e-5, atol=1e-9
    )
    for cov_type, column in columns.items():
        errors = results.get_robustcov_results(cov_type).bse[names]
        np.testing.assert_allclose(errors, stored[column], rtol=1e-4)


def test_logit_with_sigma_fixed(logit_data, reference_dir):
    stored, names = reference(reference_dir, "mle_greene_sigma1_logit_n5000.json")
    model = GreeneSelectionLogit.from_formula(*FORMULAS, logit_data, normalization={"sigma": 1.0})
    results = model.fit()
    assert results.llf == pytest.approx(stored["loglik"], abs=1e-7)
    assert results.solution.score_norm < 1e-8
    assert_agrees(results, stored, names, {"nonrobust": "se_hessian", "OPG": "se_opg"})
    assert results.rho == pytest.approx(stored["rho"], rel=1e-5)
    assert results.dependence.loc["rho", "std err"] == pytest.approx(stored["se_rho"], rel=1e-4)
    assert results.sigma == 1.0
    assert np.isnan(results.dependence.loc["sigma", "std err"])


PROBIT_ERRORS = {"nonrobust": "se_hessian", "OPG": "se_opg", "HC0": "se_sandwich_HC0"}


def test_probit_selection(probit_data, reference_dir):
    stored, names = reference(reference_dir, "mle_probit_probit_n5000.json")
    results = ProbitSelection.from_formula(*FORMULAS, probit_data).fit()
    assert results.llf == pytest.approx(-3604.6128556198, abs=1e-6)
    assert_agrees(results, stored, names, PROBIT_ERRORS)


def test_probit_selection_on_mroz(mroz_data, reference_dir):
    stored, names = reference(reference_dir, "mle_probit_mroz.json")
    results = ProbitSelection.from_formula(*MROZ, mroz_data).fit()
    assert results.llf == pytest.approx(-749.4071898674, abs=1e-6)
    assert_agrees(results, stored, names, PROBIT_ERRORS)
    assert results.dependence.loc["rho", "std err"] == pytest.approx(
        stored["se_rho_hessian"], rel=1e-4
    )


def test_free_logit_ends_on_the_face_rho_one(logit_data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a face is a normal result
        model = GreeneSelectionLogit.from_formula(*FORMULAS, logit_data, normalization="free")
        results = model.fit()
    assert results.status is Status.RHO_PLUS
    assert results.converged
    assert results.llf == pytest.approx(-4014.92386, abs=1e-4)
    assert results.rho == 1.0
    assert results.sigma == pytest.approx(0.3998, abs=1e-4)
    assert np.isfinite(results.bse).all()
    text = str(results.summary())
    assert "boundary, rho = +1" in text
    assert "rises to the boundary rho = +1" in text


@pytest.mark.full
def test_free_logit_on_mroz_ends_at_the_probit_limit(mroz_data):
    results = GreeneSelectionLogit.from_formula(*MROZ, mroz_data, normalization="free").fit()
    assert results.status is Status.SIGMA_INFINITE
    assert "(probit scale)" in str(results.summary())
    assert results.llf == pytest.approx(-749.40719, abs=1e-5)
    assert np.isinf(results.sigma)
    probit = ProbitSelection.from_formula(*MROZ, mroz_data).fit()
    np.testing.assert_allclose(results.params, probit.params, rtol=1e-6)
    np.testing.assert_allclose(results.bse, probit.bse, rtol=1e-6)
    assert "sigma = infinity" in str(results.summary())


def test_loading_form(logit_data):
    model = GreeneSelectionLogit.from_formula(*FORMULAS, logit_data, normalization="loading")
    results = model.fit()
    assert results.llf == pytest.approx(-4014.923861, abs=1e-5)
    assert results.status is Status.CONVERGED
    assert results.solution.n_iter <= 15


def test_face_with_sigma_fixed_is_named(logit_data):
    """At sigma = 0.05 the error correlation is capped at 0.03: far too little for these data."""
    few = logit_data.iloc[:1_500]
    model = GreeneSelectionLogit.from_formula(*FORMULAS, few, normalization={"sigma": 0.05})
    results = model.fit()
    assert results.status is Status.RHO_PLUS
    assert results.params.index[-1] == "select_z"
    assert results.error_corr == pytest.approx(0.05 / np.sqrt(0.05**2 + np.pi**2 / 3))
    assert "cannot exceed 0.028" in str(results.summary())
