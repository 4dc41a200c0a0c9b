"""Roots in batches, the words of a profile, and the paths of a closed model."""

from __future__ import annotations

import doctest
import importlib
import math

import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar.kernel.forms import LoadingForm
from statsmodels_mnar.kernel.integration import Quadrature
from statsmodels_mnar.kernel.rows import Rows
from statsmodels_mnar.optimize.objective import Objective
from statsmodels_mnar.post.paths import Closed
from statsmodels_mnar.post.profile import Profile, find_roots, profile

V = math.pi**2 / 3


@pytest.mark.parametrize("module", ["profile", "sensitivity"])
def test_examples_are_true(module):
    found = doctest.testmod(importlib.import_module(f"statsmodels_mnar.post.{module}"))
    assert found.failed == 0


def test_roots_of_nearly_linear_functions_take_few_rounds():
    calls = []

    def function(x, i):
        calls.append(len(x))
        return np.sinh(0.3 * x) - np.array([0.2, 0.4, 0.6])[i]

    ends = np.array([[0.0, 1.0], [0.5, 2.0], [1.0, 3.0]])
    values = np.sinh(0.3 * ends) - np.array([[0.2], [0.4], [0.6]])
    roots = find_roots(function, ends, values, 1e-10)
    np.testing.assert_allclose(roots, np.arcsinh([0.2, 0.4, 0.6]) / 0.3, atol=1e-8)
    assert len(calls) <= 6


@pytest.mark.parametrize("power", [3, 15])
def test_roots_of_stubborn_functions_are_still_found(power):
    ends = np.array([[-0.3, 1.0]])
    roots = find_roots(lambda x, _: x**power, ends, ends**power, 1e-12, rounds=60)
    assert abs(roots[0] ** power) <= 1e-12


def closed(kind: str, sigma: float | None = None, rho: float | None = None) -> Closed:
    """40 rows with a constant in each equation; the estimates are not a maximum of anything."""
    rng = np.random.default_rng(0)
    one = np.ones((40, 1))
    s = (np.arange(40) % 3 > 0).astype(float)
    rows = Rows.build(one, one, np.where(s == 1, rng.random(40) < 0.4, np.nan), s)
    return Closed(
        kind=kind,
        sigma=sigma,
        rho=rho,
        objective=Objective(rows, LoadingForm()),
        integration=Quadrature(),
        names=("a", "b"),
        coef=np.array([0.4, -0.2]),
        errors=np.array([0.3, 0.2]),
        units="logit",
        at=LoadingForm().dependence(np.array([0.8])),
    )


@pytest.mark.parametrize("corr", [-0.7, 0.2, 0.9])
def test_every_branch_holds_the_error_correlation_at_its_value(corr):
    path = closed("free").path("error_corr")
    u = path.inverse(corr)
    assert len(path.branches) == 3
    for branch in path.branches:
        _, at = branch.natural(branch.put(branch.start, u))
        assert at.error_corr == pytest.approx(corr)


@pytest.mark.parametrize(
    ("kind", "sigma", "rho", "param", "value"),
    [
        ("free", None, None, "rho", 0.3),
        ("free", 1.4, None, "rho", -0.3),
        ("free", None, None, "sigma", 0.7),
        ("free", None, 0.6, "sigma", 0.7),
        ("free", 1.4, None, "error_corr", -0.2),
        ("free", None, 0.6, "error_corr", 0.4),
        ("loading", None, None, "error_corr", 0.4),
        ("probit", None, None, "rho", 0.4),
    ],
)
def test_interior_holds_the_quantity_and_what_is_fixed(kind, sigma, rho, param, value):
    path = closed(kind, sigma, rho).path(param)
    u = path.inverse(value)
    assert path.value(u) == pytest.approx(value)
    branch = path.branches[0]
    assert branch.exists(np.array([u])).all()
    _, at = branch.natural(branch.put(branch.start, u))
    assert getattr(at, param) == pytest.approx(value)
    if sigma is not None:
        assert at.sigma == pytest.approx(sigma)
    if rho is not None:
        assert at.rho == pytest.approx(rho)


@pytest.mark.parametrize("rho", [0.6, -0.6])
def test_error_correlation_at_a_fixed_rho_is_inverted_at_its_limits(rho):
    path = closed("free", None, rho).path("error_corr")
    assert path.inverse(0.0) == -math.inf and path.inverse(rho) == math.inf
    assert path.inverse(1.01 * rho) == math.inf
    sigma = math.exp(path.inverse(rho / 3))
    assert rho * sigma / math.sqrt(sigma**2 + V) == pytest.approx(rho / 3)
    assert sorted(path.limits) == sorted([0.0, rho])
    assert not any(math.copysign(1.0, v) < 0 for v in path.limits if v == 0.0)


def test_limits_are_those_of_the_range():
    assert closed("free").path("rho").limits == (-1.0, 1.0)
    assert closed("free").path("sigma").limits == (0.0, math.inf)
    cap = 1.4 / math.sqrt(1.4**2 + V)
    assert closed("free", 1.4).path("error_corr").limits == pytest.approx((-cap, cap))
    assert closed("free", None, 0.6).path("error_corr").limits == pytest.approx((0.0, 0.6))
    assert "error_corr" not in closed("free", None, 0.0).dependence_names()
    with pytest.raises(ValueError, match="param='sigma' is not estimated"):
        closed("free", 1.4).path("sigma")


def test_a_larger_likelihood_than_the_fits_is_said():
    """The estimates of ``closed`` are no maximum, so a point of the profile beats them."""
    model = closed("loading", 0.8, 1.0)
    found = profile(model.path("b"), -100.0, model.names)
    assert found.llf > -100.0
    assert "larger log-likelihood than the fit" in str(found)


def test_open_ends_are_said_in_words():
    nothing = pd.DataFrame()
    found = Profile(
        "rho", 0.5, (0.1, 1.0), (False, True), 0.95, -10.0, -11.92, np.array([0.2]),
        np.array([-11.0]), ("free",), ("converged",), nothing, "",
    )  # fmt: skip
    assert str(found).splitlines() == [
        "Profile likelihood of rho: estimate 0.5, 95% interval [0.1, 1)",
        "Open above: the likelihood never falls below the cut on the way to 1.",
    ]
    assert found.summary_frame().loc[0.2, "lr"] == pytest.approx(2.0)
