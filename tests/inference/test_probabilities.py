"""Joint and conditional probabilities against scipy quadrature and the bivariate normal."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate
from scipy.special import expit, ndtr
from scipy.stats import multivariate_normal

from statsmodels_mnar.engine import FreeForm, LoadingForm, ProbitForm
from statsmodels_mnar.inference.probabilities import WHICH, probability

RNG = np.random.default_rng(0)
A, B = RNG.uniform(-2.5, 2.5, (2, 6))
FORMS = {
    "free": (FreeForm(), np.array([math.log(1.7), math.atanh(-0.8)])),
    "loading": (LoadingForm(), np.array([-1.3])),
    "probit": (ProbitForm(), np.array([0.9])),
}


def by_quad(name, a, b, y, s):
    q, side = 2 * y - 1, 2 * s - 1
    if name == "probit":
        rho = math.tanh(0.9) * q * side
        return multivariate_normal.cdf([q * a, side * b], cov=[[1, rho], [rho, 1]], abseps=1e-12)
    if name == "free":
        rho, sigma = -0.8, 1.7

        def integrand(e):
            z = side * (b + rho * e) / math.sqrt(1 - rho**2)
            return expit(q * (a + sigma * e)) * ndtr(z) * math.exp(-0.5 * e * e)

        low, high = -12.0, 12.0
    else:

        def integrand(u):
            return expit(q * (a - 1.3 * u)) * math.exp(-0.5 * u * u)

        low, high = (-b, 12.0) if s else (-12.0, -b)
    value = integrate.quad(integrand, low, high, epsabs=1e-14, epsrel=1e-12, points=[0.0])[0]
    return value / math.sqrt(2 * math.pi)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("which", ["p11", "p10", "p01", "p00"])
def test_joint_probabilities_equal_quadrature(name, which):
    form, dependence = FORMS[name]
    y, s = int(which[1]), int(which[2])
    expected = [by_quad(name, a, b, y, s) for a, b in zip(A, B, strict=True)]
    actual = probability(form, which, A, B, dependence)
    # scipy's bivariate normal is accurate to about 1e-15 absolutely, not relatively
    np.testing.assert_allclose(actual, expected, rtol=1e-8, atol=1e-15)


@pytest.mark.parametrize("name", FORMS)
def test_probabilities_fit_together(name):
    form, dependence = FORMS[name]
    p = {which: probability(form, which, A, B, dependence) for which in WHICH}
    np.testing.assert_allclose(p["p11"] + p["p10"] + p["p01"] + p["p00"], 1.0, rtol=1e-9)
    np.testing.assert_allclose(p["mean"], p["p11"] + p["p10"], rtol=1e-9)
    np.testing.assert_allclose(p["prob-select"], p["p11"] + p["p01"], rtol=1e-9)
    np.testing.assert_allclose(p["mean-selected"], p["p11"] / (p["p11"] + p["p01"]), rtol=1e-9)
    np.testing.assert_allclose(p["mean-unselected"], p["p10"] / (p["p10"] + p["p00"]), rtol=1e-9)
    np.testing.assert_array_equal(p["linear"], A)
    np.testing.assert_array_equal(p["linear-select"], B)


def test_missing_rows_stay_missing_and_unknown_names_are_refused():
    form, dependence = FORMS["loading"]
    a = A.copy()
    a[2] = np.nan
    result = probability(form, "p11", a, B, dependence)
    assert np.isnan(result[2])
    assert np.isfinite(np.delete(result, 2)).all()
    with pytest.raises(ValueError, match="which"):
        probability(form, "median", A, B, dependence)
