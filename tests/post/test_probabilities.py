"""Joint and conditional probabilities against scipy quadrature and the bivariate normal."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate
from scipy.special import expit, ndtr
from scipy.stats import multivariate_normal, norm

from statsmodels_mnar.kernel.forms import FreeForm, LoadingForm, ProbitForm
from statsmodels_mnar.kernel.integration import Quadrature
from statsmodels_mnar.post import prediction as probabilities
from statsmodels_mnar.post.prediction import (
    INDICES,
    WHICH,
    Designs,
    Quantity,
    blocks,
    jet,
    probability,
)

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
    whole = jet(form, "p11", a, B, dependence, 2)
    assert np.isnan(whole.first[:, 2]).all()
    assert np.isnan(whole.second[:, :, 2]).all()
    # a quantity of one index does not mind the other
    assert np.isfinite(jet(form, "prob-select", a, B, dependence, 1).value).all()
    with pytest.raises(ValueError, match="which"):
        probability(form, "median", A, B, dependence)


# -- derivatives -----------------------------------------------------------------------------------

PROBABILITIES = [which for which in WHICH if which not in INDICES]


def central(function, at, h=1e-3):
    """Fourth-order differences in each of the (d, n) arguments, (d, ..., n)."""
    slopes = []
    for i in range(len(at)):
        step = np.zeros_like(at)
        step[i] = h
        far, near = (function(at + k * step) - function(at - k * step) for k in (2, 1))
        slopes.append((8.0 * near - far) / (12.0 * h))
    return np.stack(slopes)


@pytest.mark.parametrize("log", [False, True], ids=["P", "log P"])
@pytest.mark.parametrize("which", PROBABILITIES)
@pytest.mark.parametrize("name", FORMS)
def test_derivatives_equal_differences(name, which, log):
    form, dependence = FORMS[name]
    # Beyond this the kernel changes from one rule of its tolerance 1e-10 to another.
    a, b = 0.6 * A, 0.6 * B
    at = np.vstack([a, b, np.repeat(dependence[:, None], len(a), axis=1)])
    exact = type(form)(Quadrature(tol=1e-14)) if name == "free" else type(form)(tol=1e-14)

    def found(v, order):
        return jet(exact, which, v[0], v[1], v[2:, 0], order, log=log)

    here = found(at, 2)
    np.testing.assert_allclose(here.first, central(lambda v: found(v, 0).value, at), atol=1e-8)
    np.testing.assert_allclose(here.second, central(lambda v: found(v, 1).first, at), atol=1e-8)
    np.testing.assert_array_equal(here.second, here.second.swapaxes(0, 1))
    np.testing.assert_allclose(found(at, 1).first, here.first, rtol=1e-12)
    assert found(at, 0).first.size == 0


def test_mean_and_its_derivatives_equal_quadrature():
    sigma, a = 1.7, 0.8
    form, dependence = FORMS["free"]
    here = jet(form, "mean", np.array([a]), None, dependence, 2)

    def by_quad(weight):
        return integrate.quad(
            lambda e: weight(expit(a + sigma * e), e) * norm.pdf(e), -12, 12, epsabs=1e-13
        )[0]

    slope = by_quad(lambda L, e: L * (1 - L))
    by_sigma = by_quad(lambda L, e: L * (1 - L) * sigma * e)
    curve = by_quad(lambda L, e: L * (1 - L) * (1 - 2 * L))
    assert here.value[0] == pytest.approx(by_quad(lambda L, e: L), rel=1e-10)
    assert here.first[0, 0] == pytest.approx(slope, rel=1e-10)
    assert here.first[2, 0] == pytest.approx(by_sigma, rel=1e-10)
    assert here.second[0, 0, 0] == pytest.approx(curve, rel=1e-9)
    assert not here.first[[1, 3]].any()  # neither selection nor rho


@pytest.mark.parametrize("name", FORMS)
def test_derivatives_fit_together(name):
    form, dependence = FORMS[name]
    p = {which: jet(form, which, A, B, dependence, 2) for which in WHICH}
    for array in ("first", "second"):
        part = {which: getattr(value, array) for which, value in p.items()}
        total = part["p11"] + part["p10"] + part["p01"] + part["p00"]
        np.testing.assert_allclose(total, 0.0, atol=1e-9)
        np.testing.assert_allclose(part["mean"], part["p11"] + part["p10"], atol=1e-9)
        np.testing.assert_allclose(part["prob-select"], part["p11"] + part["p01"], atol=1e-9)


def test_far_tails_have_finite_logs_and_slopes():
    a, b = np.array([-40.0, 40.0]), np.array([30.0, -30.0])
    for form, dependence in FORMS.values():
        for which in ("mean-selected", "mean-unselected", "p10"):
            found = jet(form, which, a, b, dependence, 2, log=True)
            assert np.isfinite(found.value).all()
            assert np.isfinite(found.first).all()
            assert np.isfinite(found.second).all()


def test_blocks_of_rows_change_nothing(monkeypatch):
    form, dependence = FORMS["free"]
    rng = np.random.default_rng(2)
    X, W = rng.standard_normal((2, 1000, 2))
    beta, gamma = np.array([0.5, -1.0]), np.array([0.3, 0.8])
    quantity = Quantity(form, "mean-unselected", beta, gamma, dependence, np.ones(2, dtype=bool))
    at = Designs(X, W)
    whole = quantity.value(at)
    monkeypatch.setattr(probabilities, "_rows_at_once", lambda n_nodes: 7)
    np.testing.assert_allclose(quantity.value(at), whole, rtol=1e-13)
    parts = [quantity.value(at[rows]) for rows in blocks(1000, 300)]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-13)
    slopes = quantity.jet(at, 1).first
    gradient = quantity.gradient(at, slopes)
    assert gradient.shape == (1000, 6)
    np.testing.assert_allclose(gradient.sum(0), quantity.summed_gradient(at, slopes), rtol=1e-10)
