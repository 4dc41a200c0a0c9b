"""Penalties of terms: the objective, the marginal likelihood, its slope, and its maximum."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import log_ndtr, logsumexp

from statsmodels_mnar import GreeneSelectionLogit, ProbitSelection
from statsmodels_mnar.datasets import simulate_interviewers
from statsmodels_mnar.optimize.binary import BinaryObjective
from statsmodels_mnar.optimize.maximize import maximize
from statsmodels_mnar.optimize.objective import Adjustment
from statsmodels_mnar.optimize.penalties import (
    Outer,
    choose,
    curvature,
    marginal,
    shrunk_directions,
    smoothed,
    total_penalty,
)

from ..numerical import jacobian

FORMULAS = ("y ~ smooth(x1, df=6) + x2", "s ~ x1 + z + re(interviewer)")


def problem(n=500, groups=8, cls=ProbitSelection, formulas=FORMULAS, **options):
    data = simulate_interviewers(n, groups=groups, rng=3).data
    model = cls.from_formula(*formulas, data, **options)
    return model, model.blocks_of()


@pytest.fixture(scope="module")
def probit():
    model, blocks = problem()
    values = np.array([20.0, 3.0])
    objective = smoothed(model.objective(), blocks, values)
    solution = maximize(objective, np.zeros(objective.n_params))
    return objective, solution, blocks, values


def climb(objective, start):
    return maximize(objective, start)


@pytest.mark.parametrize("cls", [ProbitSelection, GreeneSelectionLogit])
def test_penalised_score_and_hessian_are_derivatives(cls):
    model, blocks = problem(200, 5, cls)
    objective = smoothed(model.objective(), blocks, np.array([5.0, 2.0]))
    theta = np.random.default_rng(0).normal(0.0, 0.3, objective.n_params)
    at = objective.evaluate(theta)
    score = jacobian(lambda t: objective.evaluate(t, 0).value.numpy(), theta)[0]
    hessian = jacobian(lambda t: objective.evaluate(t, 1).score[0].numpy(), theta)
    np.testing.assert_allclose(at.score[0], score, atol=1e-5)
    np.testing.assert_allclose(at.hessian[0], hessian, atol=1e-4)


def test_the_penalty_is_what_is_subtracted(probit):
    objective, solution, blocks, values = probit
    whole = total_penalty(blocks, values, objective.n_coef)
    coef = solution.params[: objective.n_coef]
    plain = objective.smoothed(None).evaluate(solution.params, 0).value[0].item()
    assert solution.value == pytest.approx(plain - 0.5 * coef @ whole @ coef, rel=1e-12)


def test_without_penalties_the_objective_is_the_same_to_the_last_bit():
    model, _ = problem(formulas=("y ~ x1", "s ~ x1 + z"))
    objective = model.objective()
    theta = np.full(objective.n_params, 0.1)
    one, two = objective.evaluate(theta), replace_rows(objective).evaluate(theta)
    assert objective.smoothing is None
    for name in ("value", "score", "hessian"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def replace_rows(objective):
    return objective.with_rows(replace(objective.rows, smoothing=None))


def test_a_sample_has_the_same_penalty(probit):
    objective, solution, _, _ = probit
    part = objective.sample(100)
    plain = [o.smoothed(None).evaluate(solution.params, 0).value for o in (part, objective)]
    own = [o.evaluate(solution.params, 0).value for o in (part, objective)]
    assert (plain[0] - own[0]).item() == pytest.approx((plain[1] - own[1]).item())


def test_slope_is_the_derivative_of_the_marginal_likelihood(probit):
    objective, solution, blocks, values = probit
    free = np.ones(objective.n_params, dtype=bool)

    def value(rho):
        own = smoothed(objective, blocks, np.exp(rho))
        there = maximize(own, solution.params)
        return np.array([marginal(own, there, free, blocks, np.exp(rho), exact=False).value])

    rho = np.log(values)
    found = marginal(objective, solution, free, blocks, values)
    steps = 1e-3 * np.eye(2)
    slope = [(value(rho + h) - value(rho - h))[0] / 2e-3 for h in steps]
    np.testing.assert_allclose(found.slope, slope, atol=2e-5)
    # Without the term for the change of the information it is the slope of something else.
    rough = marginal(objective, solution, free, blocks, values, exact=False)
    assert np.abs(rough.slope - slope).max() > 1e-2


def groupwise_integrals(model, theta, block, sd, nodes=1601):
    """Log of the integral of the selection equation's likelihood over the effects of groups."""
    design, p = model.design, model.k_outcome
    gamma = theta[p : p + model.k_select].copy()
    cut = slice(block.first - p, block.first - p + len(block.matrix))
    gamma[cut] = 0.0
    base, group = design.W @ gamma, design.W[:, cut].argmax(axis=1)
    u = np.linspace(-8.0, 8.0, nodes)  # the trapezoidal rule, in units of sd
    log_weight = -0.5 * u**2 - 0.5 * np.log(2.0 * np.pi) + np.log(u[1] - u[0])
    rows = log_ndtr((2.0 * design.s - 1.0)[:, None] * (base[:, None] + sd * u))
    sums = np.stack([rows[group == g].sum(axis=0) for g in range(len(block.matrix))])
    return logsumexp(sums + log_weight, axis=1)


@pytest.mark.parametrize(("n", "groups", "off"), [(3000, 6, 0.01), (120, 12, 0.15)])
def test_marginal_likelihood_is_the_integral_over_the_groups(n, groups, off):
    """Exact for large groups; for ten rows a group Laplace is off by about 0.01 each."""
    formulas = ("y ~ x2", "s ~ x2 + z + re(interviewer)")
    model, blocks = problem(n, groups, formulas=formulas, normalization={"rho": 0.0})
    sd = 0.6
    values = np.array([sd**-2])
    objective = smoothed(model.objective(), blocks, values)
    free = np.zeros(objective.n_params, dtype=bool)
    free[blocks[0].cut] = True
    start = np.zeros(objective.n_params)
    start[model.k_outcome] = 0.4
    solution = maximize(objective, start, free=free)
    found = marginal(objective, solution, free, blocks, values)
    outcome = solution.params.copy()
    outcome[blocks[0].cut] = 0.0
    others = objective.smoothed(None).evaluate(outcome, 0).value.item()
    selection = log_ndtr(
        (2 * model.design.s - 1) * (model.design.W @ outcome[model.k_outcome : -1])
    )
    exact = groupwise_integrals(model, solution.params, blocks[0], sd).sum()
    expected = others - selection.sum() + exact
    assert found.value == pytest.approx(expected, abs=off)
    assert abs(found.value - expected) > 1e-7  # it is an approximation


def test_chosen_penalties_maximise_the_marginal_likelihood(probit):
    objective, solution, blocks, values = probit
    free = np.ones(objective.n_params, dtype=bool)
    there, found = choose(objective, solution, free, blocks, values, climb)
    assert found.converged
    assert found.n_updates <= 12

    def value(rho):
        own = smoothed(objective, blocks, np.exp(rho))
        at = maximize(own, there.params)
        return marginal(own, at, free, blocks, np.exp(rho), exact=False).value

    rho = np.log(found.values)
    best = value(rho)
    assert best == pytest.approx(found.marginal, abs=1e-6)
    for j in range(2):
        if not found.vanished[j]:
            for step in (-0.1, 0.1):
                assert value(rho + step * np.eye(2)[j]) < best
    cov = curvature(objective, there, free, blocks, found, climb)
    second = [(value(rho + 0.1 * e) - 2 * best + value(rho - 0.1 * e)) / 0.01 for e in np.eye(2)]
    kept = ~found.vanished
    information = np.linalg.inv(cov[np.ix_(kept, kept)])
    np.testing.assert_allclose(np.diag(information), -np.array(second)[kept], rtol=0.05)


# -- the dependence by the marginal likelihood -----------------------------------------------------


@pytest.mark.parametrize("cls", [ProbitSelection, GreeneSelectionLogit])
def test_slope_in_the_dependence_is_that_with_the_penalised_directions_integrated_out(cls):
    model, blocks = problem(400, 20, cls)
    values = np.array([20.0, 3.0])
    objective = smoothed(model.objective(), blocks, values)
    outer, held = Outer(objective.n_coef, -3.0, 3.0), np.ones(objective.n_params, dtype=bool)
    held[-1] = False
    directions = shrunk_directions(blocks, objective.n_params)
    assert directions.shape == (objective.n_params, 4 + 20)  # of five columns of the spline, four
    np.testing.assert_allclose(directions.T @ directions, np.eye(24), atol=1e-12)

    def at(value):
        start = np.zeros(objective.n_params)
        start[-1] = value
        return maximize(objective, start, free=held)

    def likelihood(value):
        there = at(value)
        return there.value - 0.5 * np.linalg.slogdet(directions.T @ -there.hessian @ directions)[1]

    found = marginal(objective, at(-0.5), held, blocks, values, outer)
    expected = (likelihood(-0.499) - likelihood(-0.501)) / 2e-3
    assert found.slope[-1] == pytest.approx(expected, abs=2e-4)
    joint = (at(-0.499).value - at(-0.501).value) / 2e-3
    assert abs(found.slope[-1] - joint) > 0.1  # what the joint mode would follow


@pytest.mark.parametrize(
    ("cls", "outcome"),
    [(ProbitSelection, "y ~ x2"), (GreeneSelectionLogit, "y ~ x2 + smooth(x1, df=5)")],
)
def test_a_fit_maximises_the_likelihood_without_the_penalised_directions(cls, outcome):
    data = simulate_interviewers(500, groups=25, rng=8).data
    results = cls.from_formula(outcome, "s ~ x2 + z + re(interviewer)", data).fit()._results
    model, penalties = results.model, results._fit_info.penalties
    assert penalties.converged
    objective = smoothed(model.objective(), model.blocks_of(), penalties.values)
    assert objective.adjustment is None
    directions = shrunk_directions(model.blocks_of(), objective.n_params)
    held = np.ones(objective.n_params, dtype=bool)
    held[-1] = False

    def likelihood(step):
        start = results.solution.params.copy()
        start[-1] += step
        there = maximize(objective, start, free=held)
        return there.value - 0.5 * np.linalg.slogdet(directions.T @ -there.hessian @ directions)[1]

    se = results.bse[-1]
    step = 0.05
    low, top, high = (likelihood(at * se) for at in (-step, 0.0, step))
    assert (high - low) / (2.0 * step) == pytest.approx(0.0, abs=2e-3)  # standard errors off
    assert (2.0 * top - low - high) / step**2 == pytest.approx(1.0, rel=0.02)  # its curvature
    joint = maximize(objective, results.solution.params)
    assert abs(joint.params[-1]) > abs(results.solution.params[-1]) + 0.2 * se


def test_the_dependence_follows_the_exact_integral_over_small_groups():
    """Of 60 groups of eight rows, all other coefficients held: log of the integral by dependence.

    Laplace's approximation, which the fit maximises, keeps within 0.15 of its changes, which are
    up to eight; the joint mode is off by more than one.
    """
    data = simulate_interviewers(480, groups=60, rng=2).data
    model = ProbitSelection.from_formula("y ~ x2", "s ~ x2 + z + re(interviewer)", data)
    (block,), sd = model.blocks_of(), 0.6
    objective = smoothed(model.objective(), (block,), np.array([sd**-2]))
    plain = objective.smoothed(None)
    start = np.zeros(objective.n_params)
    start[:2], start[2:5] = (-0.4, 0.4), (0.4, -0.2, 0.25)
    free = np.zeros(objective.n_params, dtype=bool)
    free[block.cut] = True
    u = np.linspace(-6.0, 6.0, 121)
    log_weight = -0.5 * u**2 - 0.5 * np.log(2.0 * np.pi) + np.log(u[1] - u[0])
    group = model.design.W[:, block.first - model.k_outcome :].argmax(axis=1)
    exact, laplace, joint = [], [], []
    for athrho in (-1.2, -0.7, -0.3, 0.0):
        start[-1] = athrho
        at = np.tile(start, (len(u), 1))
        at[:, block.cut] = sd * u[:, None]
        rows = plain.row_values(at).numpy()
        sums = np.stack([rows[:, group == g].sum(axis=1) for g in range(60)])
        exact.append(logsumexp(sums + log_weight, axis=1).sum())
        there = maximize(objective, start, free=free)
        inner = -there.hessian[block.cut, block.cut]
        laplace.append(there.value - 0.5 * np.linalg.slogdet(inner)[1])
        joint.append(there.value)
    exact, laplace, joint = (np.diff(v) for v in (exact, laplace, joint))
    assert np.abs(laplace - exact).max() < 0.15
    assert np.abs(joint - exact).max() > 1.0


def test_an_adjustment_and_its_derivatives():
    knots = np.linspace(-2.0, 2.0, 17)
    for unit in (None, 1.8):
        values = np.cos(0.5 * np.pi * knots)
        found = Adjustment("loading" if unit else "probit", knots, values, unit)
        place = (lambda u: u) if unit is None else (lambda u: 1.8 * np.sinh(u))
        theta = place(np.array([-2.5, -0.7, 0.0, 1.1, 3.0]))
        value, slope, bend = found.at(theta)
        assert value[2] == 0.0
        np.testing.assert_allclose(value[[1, 3]], np.cos(0.5 * np.pi * np.array([-0.7, 1.1])) - 1.0,
                                   atol=1e-3)  # fmt: skip
        assert slope[[0, 4]].tolist() == bend[[0, 4]].tolist() == [0.0, 0.0]  # beyond the knots
        steps = np.array([1e-4, -1e-4])[:, None]
        ends = [found.at(theta + step) for step in steps]
        np.testing.assert_allclose(slope, (ends[0][0] - ends[1][0]) / 2e-4, atol=1e-6)
        np.testing.assert_allclose(bend, (ends[0][1] - ends[1][1]) / 2e-4, atol=1e-4)


def test_the_choice_is_an_option_of_models_with_terms():
    model, _ = problem(300, 6)
    with pytest.raises(ValueError, match="dependence='mode' is unknown"):
        model.fit(dependence="mode")
    plain, _ = problem(formulas=("y ~ x1", "s ~ x1 + z"))
    with pytest.raises(ValueError, match=r"for models with re\(\) or smooth\(\) terms"):
        plain.fit(dependence="joint")


def test_fixed_penalties_stay(probit):
    objective, solution, blocks, values = probit
    held = [replace(blocks[0], fixed=values[0]), blocks[1]]
    free = np.ones(objective.n_params, dtype=bool)
    _, found = choose(objective, solution, free, held, values, climb)
    assert found.values[0] == values[0]
    assert found.estimated.tolist() == [False, True]
    assert found.values[1] != values[1]


def test_a_variance_that_goes_to_zero_ends_there():
    data = simulate_interviewers(600, groups=10, sd=0.0, rng=5).data
    place = np.argsort(np.lexsort((data.z, data.x2, data.s)))
    data["interviewer"] = place % 10  # groups that are as alike as they can be
    model = ProbitSelection.from_formula("y ~ x2", "s ~ x2 + z + re(interviewer)", data)
    results = model.fit()._results
    found = results._fit_info.penalties
    assert found.converged
    assert found.vanished.all()
    term = results.penalised_terms().loc["select_re(interviewer)"]
    assert term.sd == 0.0
    assert term.p_zero == 1.0
    assert term.edf < 1e-3
    plain = ProbitSelection.from_formula("y ~ x2", "s ~ x2 + z", data).fit()
    assert results.llf == pytest.approx(plain.llf, abs=1e-3)
    assert results.aic == pytest.approx(plain.aic, abs=1e-2)
    assert "estimated as zero" in str(results.summary())


def test_log_determinant_is_that_of_the_penalised_part():
    model, blocks = problem()
    block = blocks[0]
    values = np.linalg.eigvalsh(block.matrix)
    assert values[0] == pytest.approx(0.0, abs=1e-12)
    assert block.log_determinant == pytest.approx(math.log(np.prod(values[1:])))
    assert model.design.penalised[0].rank == block.rank == len(values) - 1


@pytest.mark.parametrize("cls", [ProbitSelection, GreeneSelectionLogit])
def test_indicators_are_summed_by_level(cls):
    """The Hessian by levels is that of the products of columns, in both equations."""
    formulas = ("y ~ x2 + re(interviewer) + re(h)", "s ~ smooth(x1) + re(interviewer) + z")
    data = simulate_interviewers(400, groups=7, rng=1).data
    data["h"] = np.random.default_rng(0).choice(list("abc"), 400)
    model = cls.from_formula(*formulas, data)
    objective = model.objective()
    assert objective.rows.factors == ()  # few levels are columns like others
    plain = objective
    factors = (("X", 2, 9), ("X", 9, 12), ("W", 11, 18))
    assert [t.columns.start for t in model.design.penalised if t.kind == "re"] == [2, 9, 11]
    objective = objective.with_rows(replace(objective.rows, factors=factors))
    theta = np.random.default_rng(0).normal(0.0, 0.3, (2, objective.n_params))
    found, expected = (o.evaluate(theta).hessian for o in (objective, plain))
    np.testing.assert_allclose(found, expected, atol=1e-10)
    weights = torch.as_tensor(np.random.default_rng(1).exponential(size=(2, 400)))
    found, expected = (o.evaluate(theta, 2, weights).hessian for o in (objective, plain))
    np.testing.assert_allclose(found, expected, atol=1e-10)
    for one, two in zip(
        BinaryObjective.of(objective.rows, model.link, 0.0),
        BinaryObjective.of(plain.rows, model.link, 0.0),
        strict=True,
    ):
        at = np.full((1, one.n_coef), 0.1)
        np.testing.assert_allclose(one.evaluate(at).hessian, two.evaluate(at).hessian, atol=1e-10)
