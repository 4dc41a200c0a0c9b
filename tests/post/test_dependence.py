"""sigma, rho and the error correlation: values, delta-method errors, intervals within range."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from statsmodels_mnar.kernel.forms import FreeForm, LoadingForm, ProbitForm
from statsmodels_mnar.post.dependence import dependence_table

CASES = [
    (FreeForm(), [0.3, -0.8]),
    (FreeForm(), [-2.0, 2.5]),
    (LoadingForm(), [-1.4]),
    (LoadingForm(), [0.05]),
    (ProbitForm(), [0.7]),
]


@pytest.mark.parametrize(("form", "values"), CASES)
def test_errors_equal_a_numerical_delta_method(form, values):
    values = np.array(values)
    root = np.random.default_rng(0).standard_normal((len(values), len(values)))
    cov = 0.01 * root @ root.T
    table = dependence_table(form, values, cov, np.ones(len(values), dtype=bool))
    for name in table.index:
        if form.kind == "loading" and name == "rho":
            assert np.isnan(table.loc[name, "std err"])
            continue
        attribute = "error_corr" if form.kind == "probit" else name
        slope = approx_fprime(values, lambda v, a=attribute: getattr(form.dependence(v), a), 1e-7)
        expected = np.sqrt(slope @ cov @ slope)
        assert table.loc[name, "std err"] == pytest.approx(expected, rel=1e-5)
        low, high = table.loc[name].iloc[2:]
        assert low < table.loc[name, "estimate"] < high


def test_error_correlation_of_simulated_errors():
    rng = np.random.default_rng(1)
    sigma, rho, n = 1.7, -0.6, 400_000
    u, v = rng.standard_normal((2, n))
    outcome_error = sigma * (rho * u + np.sqrt(1 - rho**2) * v) + rng.logistic(size=n)
    at = FreeForm().dependence(np.array([np.log(sigma), np.arctanh(rho)]))
    # 4 standard errors of a correlation of 400,000 pairs
    assert at.error_corr == pytest.approx(np.corrcoef(outcome_error, u)[0, 1], abs=4 / np.sqrt(n))


def test_interval_stays_below_the_cap_of_a_fixed_sigma():
    """With sigma = 1 the error correlation cannot exceed 0.483."""
    cov = np.diag([0.0, 4.0])
    table = dependence_table(FreeForm(), np.array([0.0, 2.0]), cov, np.array([False, True]))
    cap = 1 / np.sqrt(1 + np.pi**2 / 3)
    low, high = table.loc["error_corr"].iloc[2:]
    assert -cap < low < high < cap
    rho = table.loc["rho"].iloc[2:]
    np.testing.assert_allclose([low, high], cap * rho.to_numpy(dtype=float))


def test_a_loading_interval_that_holds_zero_starts_sigma_at_zero():
    table = dependence_table(LoadingForm(), np.array([0.1]), np.array([[1.0]]), np.array([True]))
    assert table.loc["sigma"].iloc[2] == 0.0
    assert table.loc["error_corr"].iloc[2] < 0 < table.loc["error_corr"].iloc[3]
