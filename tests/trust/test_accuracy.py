"""Numerical accuracy at hard points, against mpmath and between rules that share nothing."""

from __future__ import annotations

import itertools
import json
import math

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy.special import log_ndtr, ndtr

from statsmodels_mnar import Execution, GreeneSelectionLogit, ProbitSelection, Quadrature
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.kernel.forms import FreeForm, LoadingForm, ProbitForm
from statsmodels_mnar.kernel.rows import Rows
from statsmodels_mnar.optimize.objective import Objective
from statsmodels_mnar.post.prediction import jet, probability

FORMULAS = ("y ~ x1 + x2 + x3", "s ~ x1 + x2 + x3 + z")
HARD = (-40.0, -8.0, -1.0, 0.0, 3.0, 40.0)
SIGMAS = (1e-8, 0.3, 1.0, 8.0, 50.0)
RHOS = (-0.9999, -0.95, 0.0, 0.6, 0.999)


# -- one row by mpmath -----------------------------------------------------------------------------


def integral(log_integrand, low, high):
    """log of an integral whose integrand may be of any size, between these ends."""
    grid = mpmath.linspace(low, high, 121)
    heights = [log_integrand(e) for e in grid]
    top = max(heights)
    near = [e for e, height in zip(grid, heights, strict=True) if height > top - 90]
    step = grid[1] - grid[0]
    ends = (max(near[0] - step, low), min(near[-1] + step, high))
    pieces = mpmath.linspace(*ends, 13)
    return top + mpmath.log(mpmath.quad(lambda e: mpmath.exp(log_integrand(e) - top), pieces))


def log_logistic(x):
    return -mpmath.log1p(mpmath.exp(-x)) if x > 0 else x - mpmath.log1p(mpmath.exp(x))


def log_normal(x):
    return mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2)


def log_density(e):
    return -e * e / 2 - mpmath.log(2 * mpmath.pi) / 2


def free_by_mpmath(a, b, y, lnsigma, athrho):
    """log P(y, s = 1) of Greene's model."""
    sign, sigma = 2 * y - 1, mpmath.exp(lnsigma)
    cosh, sinh = mpmath.cosh(athrho), mpmath.sinh(athrho)
    return integral(
        lambda e: (
            log_logistic(sign * (a + sigma * e)) + log_normal(b * cosh + e * sinh) + log_density(e)
        ),
        -60,
        60,
    )


def loading_by_mpmath(a, b, y, loading):
    sign = 2 * y - 1
    return integral(lambda u: log_logistic(sign * (a + loading * u)) + log_density(u), -b, 60)


def probit_by_mpmath(a, b, y, athrho):
    sign, cosh, sinh = 2 * y - 1, mpmath.cosh(athrho), mpmath.sinh(athrho)
    return integral(lambda u: log_normal(sign * (a * cosh + sinh * u)) + log_density(u), -b, 60)


def row(form, a, b, y, *dependence):
    """Value, score and Hessian of one selected row whose columns are its indices."""
    one = np.ones((1, 1))
    rows = Rows.build(a * one, b * one, np.array([y]), np.ones(1))
    theta = np.array([1.0, 1.0, *dependence])
    at = Objective(rows, form).evaluate(theta)
    scale = np.array([a, b, *np.ones(len(dependence))])
    first, second = at.score[0].numpy() / scale, at.hessian[0].numpy() / np.outer(scale, scale)
    return at.value.item(), first, second


POINTS = [
    # a, b, y, lnsigma, athrho: impossible in either index or both, |rho| near one, any sigma
    (12.0, -30.0, 1.0, 0.7, -1.1),
    (-25.0, -15.0, 1.0, math.log(8.0), 3.0),
    (-700.0, -1.0, 1.0, 0.0, 0.5),
    (2.0, -37.0, 0.0, math.log(30.0), -2.0),
    (-9.0, -9.0, 1.0, math.log(1e-3), 4.0),
]


@pytest.mark.parametrize(
    "point",
    [POINTS[0], *(pytest.param(point, marks=pytest.mark.full) for point in POINTS[1:])],
    ids=str,
)
def test_value_and_derivatives_of_hard_rows_are_those_of_mpmath(point):
    a, b, y, *dependence = point
    value, first, second = row(FreeForm(), a, b, y, *dependence)
    with mpmath.workdps(26):
        at = [mpmath.mpf(v) for v in (a, b, *dependence)]
        step = mpmath.mpf(10) ** -8

        def exact(i, move):
            moved = [v + move * step * (i == j) for j, v in enumerate(at)]
            return free_by_mpmath(moved[0], moved[1], y, *moved[2:])

        middle = exact(-1, 0)
        near = [(exact(i, 1), exact(i, -1)) for i in range(4)]
        slopes = [float((up - down) / (2 * step)) for up, down in near]
        curves = [float((up - 2 * middle + down) / step**2) for up, down in near]
    assert value == pytest.approx(float(middle), rel=1e-11, abs=1e-10)
    np.testing.assert_allclose(first, slopes, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(np.diag(second), curves, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("a", "b", "loading"),
    [(-40.0, 2.0, 1.0), (-700.0, -1.0, 3.0), (5.0, -37.0, -50.0), (-30.0, -12.0, 50.0)],
)
def test_the_loading_form_at_hard_rows_is_that_of_mpmath(a, b, loading):
    value, *_ = row(LoadingForm(), a, b, 1.0, loading)
    with mpmath.workdps(30):
        expected = loading_by_mpmath(*map(mpmath.mpf, (a, b)), 1.0, mpmath.mpf(loading))
    assert value == pytest.approx(float(expected), rel=1e-11, abs=1e-10)


@pytest.mark.parametrize(
    ("a", "b", "rho"), [(-37.0, 2.0, 0.5), (-20.0, -20.0, -0.9), (6.0, -30.0, 0.999)]
)
def test_the_probit_form_at_hard_rows_is_that_of_mpmath(a, b, rho):
    value, *_ = row(ProbitForm(), a, b, 1.0, math.atanh(rho))
    with mpmath.workdps(30):
        at = [mpmath.mpf(v) for v in (a, b)]
        expected = probit_by_mpmath(*at, 1.0, mpmath.atanh(mpmath.mpf(rho)))
    assert value == pytest.approx(float(expected), rel=1e-11, abs=1e-10)


# -- rules against each other ----------------------------------------------------------------------


def hard_rows():
    """Every pair of hard indices with each label, as rows with two columns of coefficient one."""
    a, b, y = np.array(list(itertools.product(HARD, HARD, (0.0, 1.0)))).T
    return Rows.build(a[:, None], b[:, None], y, np.ones(len(a)))


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("rho", RHOS)
def test_coarse_and_fine_steps_agree_on_every_hard_row(sigma, rho):
    theta = np.array([1.0, 1.0, math.log(sigma), math.atanh(rho)])
    found = [Objective(hard_rows(), FreeForm(Quadrature(tol=tol))) for tol in (1e-10, 1e-14)]
    values = [objective.row_values(theta)[0].numpy() for objective in found]
    scores = [objective.row_scores(theta).numpy() for objective in found]
    np.testing.assert_allclose(*values, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(*scores, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("loading", [0.0, 1e-6, -0.7, 5.0, -50.0])
@pytest.mark.parametrize("form", [LoadingForm, ProbitForm])
def test_coarse_and_fine_half_line_rules_agree_on_every_hard_row(form, loading):
    dependence = loading if form is LoadingForm else math.asinh(loading)
    theta = np.array([1.0, 1.0, dependence])
    found = [Objective(hard_rows(), form(tol)) for tol in (1e-10, 1e-14)]
    values = [objective.row_values(theta)[0].numpy() for objective in found]
    scores = [objective.row_scores(theta).numpy() for objective in found]
    np.testing.assert_allclose(*values, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(*scores, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_at_rho_zero_the_two_equations_separate(sigma):
    """P(y, s = 1) = P(y) PHI(b), where P(y) comes from the half-line rule on the whole line."""
    theta = np.array([1.0, 1.0, math.log(sigma), 0.0])
    rows = hard_rows()
    joint = Objective(rows, FreeForm()).row_values(theta)[0].numpy()
    a, b, y = np.array(list(itertools.product(HARD, HARD, (0.0, 1.0)))).T
    alone = Rows.build(a[:, None], np.full((len(a), 1), 1e4), y, np.ones(len(a)))
    outcome = Objective(alone, LoadingForm()).row_values(np.array([1.0, 1.0, sigma]))[0].numpy()
    np.testing.assert_allclose(joint, outcome + log_ndtr(b), rtol=1e-9, atol=1e-9)


# -- defaults --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "partitions"),
    [
        *((number, False) for number in range(5)),
        (0, True),
        *(pytest.param(number, True, marks=pytest.mark.full) for number in range(1, 5)),
    ],
)
def test_reference_values_by_the_default_of_the_models(reference_dir, number, partitions):
    stored = json.loads((reference_dir / "greene_logit_logit_n5000_first500.json").read_text())
    at = stored["parameter_sets"][number]
    data = pd.read_csv(reference_dir / "logit_n5000.csv").head(500)
    execution = Execution(partition_rows=120) if partitions else None
    for normalization in ("free", {"sigma": at["sigma"], "rho": at["rho"]}):
        model = GreeneSelectionLogit.from_formula(
            *FORMULAS, data, normalization=normalization, execution=execution
        )
        params = [*at["beta"], *at["gamma"], math.log(at["sigma"]), math.atanh(at["rho"])]
        value = model.loglike(params[: model.nparams])
        assert value == pytest.approx(at["loglik"], rel=1e-10)


def test_fits_by_the_default_are_accurate_to_the_digits_of_the_references(reference_dir):
    """The finer rule of the check moves no digit of what is compared with R and Stata."""
    for cls, name, options in (
        (GreeneSelectionLogit, "logit_n5000", {"normalization": {"sigma": 1.0}}),
        (ProbitSelection, "probit_n5000", {}),
    ):
        data = pd.read_csv(reference_dir / f"{name}.csv")
        results = cls.from_formula(*FORMULAS, data, **options).fit()
        assert abs(results.accuracy.difference) < 1e-8
        assert results.accuracy.shift < 1e-4


# -- sums ------------------------------------------------------------------------------------------


def test_a_sum_over_a_million_rows_loses_no_digits():
    rng = np.random.default_rng(0)
    n = 1_000_000
    x = rng.standard_normal(n)
    X = np.column_stack([np.ones(n), x])
    s = (rng.random(n) < 0.5).astype(float)
    y = np.where(s == 1, (rng.random(n) < 0.5).astype(float), np.nan)
    objective = Objective(Rows.build(X, X, y, s), LoadingForm())
    theta = np.array([0.3, -0.5, 0.2, 0.4, 0.5])
    value = objective.evaluate(theta, 0).value.item()
    by_row = objective.row_values(theta)[0].numpy()
    exact = math.fsum(by_row.tolist())
    assert abs(value - exact) < 1e-14 * math.fsum(np.abs(by_row).tolist())


def test_a_score_of_large_parts_that_cancel_keeps_its_digits():
    """At a maximum the score is zero, though its parts are not."""
    sim = simulate_greene(50_000, rng=1)
    model = GreeneSelectionLogit.from_formula(
        sim.formula, sim.select_formula, sim.data, normalization="loading"
    )
    params = np.array([-0.3, 0.8, -0.6, 0.3, 0.6, 0.2, 0.9, 0.4])
    by_row = model.score_obs(params)
    exact = np.array([math.fsum(column) for column in by_row.T.tolist()])
    np.testing.assert_allclose(model.score(params), exact, atol=1e-13 * np.abs(by_row).sum(0).max())


# -- predictions and effects -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "dependence"),
    [
        (FreeForm(), (0.0, 0.8)),
        (FreeForm(), (math.log(20.0), -3.0)),
        (LoadingForm(), (-5.0,)),
        (ProbitForm(), (2.0,)),
    ],
)
def test_probabilities_add_up_at_hard_rows(form, dependence):
    a, b = np.array(list(itertools.product(HARD, HARD))).T
    at = np.array(dependence)
    p = {name: probability(form, name, a, b, at) for name in ("p11", "p10", "p01", "p00")}
    np.testing.assert_allclose(p["p11"] + p["p01"], ndtr(b), rtol=1e-9)
    np.testing.assert_allclose(p["p10"] + p["p00"], ndtr(-b), rtol=1e-9)
    mean = probability(form, "mean", a, None, at)
    np.testing.assert_allclose(p["p11"] + p["p10"], mean, rtol=1e-9)


RARE = [(-40.0, 3.0), (-100.0, 10.0), (-700.0, 1.0), (-700.0, 20.0), (-5_000.0, 2.0)]


@pytest.mark.parametrize(
    ("form", "a", "sigma"),
    [  # every outcome by one of the forms, in turn
        pytest.param(form, *rare, id=f"{name}-{rare}", marks=() if i % 2 == j else pytest.mark.full)
        for i, rare in enumerate(RARE)
        for j, (name, form) in enumerate([("free", FreeForm()), ("loading", LoadingForm())])
    ],
)
def test_the_log_of_a_rare_outcome_and_its_slope_keep_their_digits(form, a, sigma):
    """Log-probabilities of -700, and below what a float can hold as a probability."""
    dependence = np.array([math.log(sigma), 0.4] if isinstance(form, FreeForm) else [sigma])
    found = jet(form, "mean", np.array([a]), None, dependence, 2, log=True)
    with mpmath.workdps(30):

        def exact(at):
            width = 60 + sigma
            return integral(lambda e: log_logistic(at + sigma * e) + log_density(e), -width, width)

        step = mpmath.mpf(10) ** -8
        low, middle, high = (exact(mpmath.mpf(a) + move * step) for move in (-1, 0, 1))
        slope, curve = (high - low) / (2 * step), (high - 2 * middle + low) / step**2
    assert found.value[0] == pytest.approx(float(middle), rel=1e-11)
    assert found.first[0, 0] == pytest.approx(float(slope), rel=1e-8)
    assert found.second[0, 0, 0] == pytest.approx(float(curve), rel=1e-6, abs=1e-8)
    assert np.isfinite(found.first).all() and np.isfinite(found.second).all()


def test_effects_on_the_log_are_finite_where_the_outcome_is_all_but_impossible():
    sim = simulate_greene(1_000, rng=1)
    model = GreeneSelectionLogit.from_formula(
        sim.formula, sim.select_formula, sim.data, normalization={"sigma": 2.0}
    )
    results = model.fit()
    far = {"x1": -400.0}
    effects = results.get_margeff(method="eydx", atexog=far, dummy=False)
    assert np.isfinite(effects.margeff).all() and np.isfinite(effects.margeff_se).all()
    # There log P = a + const, so that the effect of x1 on log P is its coefficient.
    at = effects.names.index("x1")
    assert effects.margeff[at] == pytest.approx(results.params["x1"], rel=1e-6)
    X = np.array([[1.0, -400.0, 0.0]])
    frame = results.get_prediction(X, transform=False).summary_frame()
    assert np.isfinite(frame.to_numpy()).all()
    assert 0.0 <= frame["ci_lower"].item() <= frame["predicted"].item() <= frame["ci_upper"].item()
