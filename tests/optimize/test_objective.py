"""The objective: reference values, derivatives, and the invariances of a sum over rows."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from statsmodels_mnar.kernel.forms import FreeForm, LoadingForm, ProbitForm, outcome_scale
from statsmodels_mnar.kernel.integration import Quadrature, Simulation
from statsmodels_mnar.kernel.rows import Rows
from statsmodels_mnar.optimize import objective as objective_module
from statsmodels_mnar.optimize.batches import resampled
from statsmodels_mnar.optimize.objective import Objective
from tests.problems import mroz, parameter_sets, simulated

FORMS = {
    "free": FreeForm(),
    "standardized": FreeForm(standardized=True),
    "hermite": FreeForm(Quadrature("gauss-hermite")),
    "simulation": FreeForm(Simulation(n_draws=24, kind="sobol")),
    "loading": LoadingForm(),
    "probit": ProbitForm(),
}
EVERY_FORM = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
TIGHT = [
    FreeForm(Quadrature(tol=1e-14)),
    FreeForm(Quadrature(tol=1e-14), standardized=True),
    FreeForm(Simulation(n_draws=24, kind="sobol")),
    LoadingForm(tol=1e-14),
    ProbitForm(tol=1e-14),
]


@pytest.fixture(scope="module")
def arrays():
    """Eighty rows of every kind: labelled, unlabelled, soft on both sides, soft pseudolabels."""
    rng = np.random.default_rng(0)
    n = 80
    x = rng.standard_normal((n, 3))
    s = rng.choice([0.0, 0.3, 0.5, 0.8, 1.0], n, p=[0.25, 0.1, 0.1, 0.1, 0.45])
    y = (rng.random(n) < 0.5).astype(float)
    y[::7] = rng.uniform(0.1, 0.9, len(y[::7]))
    y[s == 0] = np.nan
    X = np.column_stack([np.ones(n), 3.0 * x[:, 0]])
    W = np.column_stack([np.ones(n), x[:, 0], 0.1 * x[:, 2]])
    return {"X": X, "W": W, "y": y, "s": s}


def theta_for(form, n_members=1):
    coef = np.array([0.2, -0.4, 0.3, 0.5, -2.0])
    dependence = [0.3, -0.7] if len(form.names) == 2 else [0.8]
    theta = np.concatenate([coef, dependence])
    wiggle = 0.3 * np.random.default_rng(1).standard_normal((n_members, theta.size))
    wiggle[0] = 0.0
    return theta + wiggle


# -- reference values ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize(("tol", "rtol"), [(1e-10, 1e-9), (1e-13, 1e-12)])
@pytest.mark.parametrize("name", ["mroz", "logit_n5000_first500"])
def test_reference_log_likelihoods(request, reference_dir, name, number, tol, rtol):
    if name == "mroz":
        data = mroz(request.getfixturevalue("shared"))
    else:
        data = [part[:500] for part in simulated(reference_dir, "logit_n5000")]
    theta, total, by_row = parameter_sets(reference_dir / f"greene_logit_{name}.json")[number]
    target = Objective(Rows.build(*data), FreeForm(Quadrature(tol=tol)))
    np.testing.assert_allclose(target.row_values(theta)[0].numpy(), by_row, rtol=rtol)
    assert target.evaluate(theta, 0).value.item() == pytest.approx(total, rel=rtol)


# -- derivatives -----------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [0.0, 0.3])
@pytest.mark.parametrize("form", TIGHT, ids=lambda form: type(form).__name__)
def test_score_and_hessian_equal_central_differences(arrays, form, penalty):
    weights = np.random.default_rng(2).uniform(0.0, 2.0, 80)
    offsets = {"offset": np.linspace(-1, 1, 80), "offset_select": np.linspace(0.5, -0.5, 80)}
    rows = Rows.build(**arrays, weights=weights, **offsets)
    target = Objective(rows, form, penalty=penalty)
    theta = theta_for(form)[0]
    at = target.evaluate(theta)
    # Error h^2/6 f''' of about 1e-9, and 1e-16 n/h of rounding.
    h = 1e-5
    moved = np.stack([theta + sign * h * e for e in np.eye(theta.size) for sign in (1, -1)])
    near = target.evaluate(moved, 1)
    slope = (near.value[::2] - near.value[1::2]) / (2 * h)
    curve = (near.score[::2] - near.score[1::2]) / (2 * h)
    torch.testing.assert_close(at.score[0], slope, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(at.hessian[0], curve, rtol=1e-6, atol=1e-6)
    assert torch.equal(at.hessian[0], at.hessian[0].mT)


@EVERY_FORM
def test_lower_orders_return_the_same_numbers(arrays, form):
    target = Objective(Rows.build(**arrays), form, penalty=0.1)
    theta = theta_for(form)
    full, first, value = (target.evaluate(theta, order) for order in (2, 1, 0))
    assert first.hessian is None
    assert value.score is None
    assert full.value == first.value == value.value
    torch.testing.assert_close(full.score, first.score, rtol=1e-13, atol=1e-13)


@EVERY_FORM
def test_row_quantities_add_up_and_come_in_the_users_order(arrays, form):
    weights = np.random.default_rng(3).uniform(0.0, 2.0, 80)
    target = Objective(Rows.build(**arrays, weights=weights), form)
    theta = theta_for(form)
    values, scores = target.row_values(theta)[0].numpy(), target.row_scores(theta).numpy()
    at = target.evaluate(theta, 1)
    assert at.value.item() == pytest.approx(weights @ values, rel=1e-13)
    np.testing.assert_allclose(weights @ scores, at.score[0], rtol=1e-11, atol=1e-11)
    opg = scores.T @ (weights[:, None] * scores)
    np.testing.assert_allclose(target.opg(theta), opg, rtol=1e-11, atol=1e-11)
    other = torch.ones(80, dtype=torch.float64)
    np.testing.assert_allclose(target.opg(theta, other), scores.T @ scores, rtol=1e-11, atol=1e-11)
    for i in (0, 7, 33):  # alone, under its own key
        one = {name: value[i : i + 1] for name, value in arrays.items()}
        alone = Objective(Rows.build(**one, key=np.array([i])), form)
        assert alone.row_values(theta).item() == pytest.approx(values[i], rel=1e-12)
        np.testing.assert_allclose(alone.row_scores(theta)[0], scores[i], rtol=1e-10, atol=1e-12)


# -- invariances -----------------------------------------------------------------------------------


def assert_same(left, right, rtol=1e-11, atol=1e-10):
    for name in ("value", "score", "hessian"):
        torch.testing.assert_close(getattr(left, name), getattr(right, name), rtol=rtol, atol=atol)


@EVERY_FORM
def test_order_of_rows_and_size_of_blocks_make_no_difference(arrays, form):
    theta = theta_for(form)
    whole = Objective(Rows.build(**arrays), form)
    at = whole.evaluate(theta)
    shuffled = np.random.default_rng(4).permutation(80)
    again = {name: value[shuffled] for name, value in arrays.items()}
    turned = Objective(Rows.build(**again, key=shuffled), form)
    assert_same(turned.evaluate(theta), at)
    torch.testing.assert_close(turned.row_values(theta)[0], whole.row_values(theta)[0, shuffled])
    for size in (1, 13):
        assert_same(Objective(Rows.build(**arrays), form, block_size=size).evaluate(theta), at)
    small = Objective(Rows.build(**arrays), form, memory_budget=20_000)
    assert_same(small.evaluate(theta), at)


@EVERY_FORM
def test_integer_weights_are_repetitions(arrays, form):
    count = np.random.default_rng(5).integers(0, 4, 80)
    repeated = {name: np.repeat(value, count, axis=0) for name, value in arrays.items()}
    theta = theta_for(form)
    weighted = Objective(Rows.build(**arrays, weights=count.astype(float)), form, penalty=0.2)
    longer = Rows.build(**repeated, key=np.repeat(np.arange(80), count))
    assert_same(weighted.evaluate(theta), Objective(longer, form, penalty=0.2).evaluate(theta))


@EVERY_FORM
def test_members_of_a_batch_are_evaluated_as_alone(arrays, form):
    rows = Rows.build(**arrays)
    target = Objective(rows, form, penalty=0.1)
    theta = theta_for(form, 3)
    weights = torch.rand(3, 80, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    batch = target.evaluate(theta, 2, weights)
    for i in range(3):
        alone = target.evaluate(theta[i], 2, weights[i : i + 1])
        # The rule has as many nodes as its most demanding member needs: equal to its tolerance.
        assert_same(batch[torch.tensor([i])], alone, rtol=1e-7, atol=1e-7)
        own = rows.unsort(weights[i]).numpy()
        built = Objective(Rows.build(**arrays, weights=own), form, penalty=0.1)
        assert_same(alone, built.evaluate(theta[i]))


@EVERY_FORM
def test_an_offset_is_a_column_with_coefficient_one(arrays, form):
    offset, offset_select = np.linspace(-1, 1, 80), np.linspace(2, -1, 80)
    theta = theta_for(form)[0]
    rows = Rows.build(**arrays, offset=offset, offset_select=offset_select)
    at = Objective(rows, form).evaluate(theta, 0)
    one = 1.0
    if getattr(form, "standardized", False):  # whose coefficients are in other units
        one /= outcome_scale(math.exp(theta[-2]))
    wide = {
        **arrays,
        "X": np.column_stack([arrays["X"], offset]),
        "W": np.column_stack([arrays["W"], offset_select]),
    }
    longer = np.concatenate([theta[:2], [one], theta[2:5], [1.0], theta[5:]])
    expected = Objective(Rows.build(**wide), form).evaluate(longer, 0)
    torch.testing.assert_close(at.value, expected.value, rtol=1e-13, atol=0.0)


def test_standardized_coefficients_are_the_free_ones_in_other_units(arrays):
    rows = Rows.build(**arrays, offset=np.linspace(-1, 1, 80))
    theta = theta_for(FreeForm())[0]
    other = theta.copy()
    other[:2] /= outcome_scale(math.exp(theta[-2]))
    free = Objective(rows, FreeForm()).evaluate(theta, 0)
    standardized = Objective(rows, FreeForm(standardized=True)).evaluate(other, 0)
    torch.testing.assert_close(free.value, standardized.value, rtol=1e-13, atol=0.0)


def test_the_penalty_is_the_papers_weight_decay(arrays):
    rows = Rows.build(**arrays, weights=np.full(80, 2.0))
    theta = theta_for(FreeForm())[0]
    bare = Objective(rows, FreeForm()).evaluate(theta)
    ridge = Objective(rows, FreeForm(), penalty=0.5).evaluate(theta)
    coef = np.append(theta[:5], [0.0, 0.0])
    assert (bare.value - ridge.value).item() == pytest.approx(160 * 0.25 * coef @ coef)
    np.testing.assert_allclose((bare.score - ridge.score)[0], 80 * coef, atol=1e-11)
    expected = np.diag([80.0] * 5 + [0.0] * 2)
    np.testing.assert_allclose((bare.hessian - ridge.hessian)[0], expected, atol=1e-11)


def test_soft_rows_with_certain_selection_are_hard_rows(arrays):
    """The soft kernel at s' = 1 - 1e-15 meets the hard one."""
    s = np.where(np.isnan(arrays["y"]), 0.0, 1.0)
    y = np.where(np.nan_to_num(arrays["y"]) > 0.5, 1.0, 0.0)
    hard = Rows.build(arrays["X"], arrays["W"], y, s)
    soft = Rows.build(arrays["X"], arrays["W"], y, np.where(s == 1, 1 - 1e-15, 0.0))
    assert {kind for kind, *_ in soft.segments} == {"closed", "soft"}
    for form in (FreeForm(), LoadingForm(), ProbitForm()):
        theta = 0.3 * theta_for(form)  # likelihoods above 1e-5, beside which the floor is nothing
        at, expected = (Objective(rows, form).evaluate(theta) for rows in (soft, hard))
        assert_same(at, expected, rtol=1e-9, atol=1e-8)


def test_draws_are_kept_between_evaluations_only_where_they_fit(arrays, monkeypatch):
    form = FORMS["simulation"]
    theta = theta_for(form)
    kept = Objective(Rows.build(**arrays), form)
    first = kept.evaluate(theta)
    assert kept._draws
    assert_same(kept.evaluate(theta), first, 0.0, 0.0)
    monkeypatch.setattr(objective_module, "_DRAW_CACHE", 0)
    fresh = Objective(Rows.build(**arrays), form)
    assert_same(fresh.evaluate(theta), first, 0.0, 0.0)
    assert not fresh._draws


def test_draws_are_kept_for_one_size_of_blocks_and_for_every_form(arrays):
    form = FORMS["simulation"]
    theta = theta_for(form)
    target = Objective(Rows.build(**arrays), form, block_size=7)
    target.evaluate(theta)
    shared = target.with_form(dataclasses.replace(form, standardized=True))
    assert shared._draws is target._draws
    assert not target.with_form(LoadingForm())._draws
    bytes_kept = sum(nodes.e.nbytes for nodes in target._draws.values())
    target.block_size = 11
    target.evaluate(theta)
    assert sum(nodes.e.nbytes for nodes in target._draws.values()) == bytes_kept


def test_members_are_so_many_that_their_rows_fit_into_half_the_budget(arrays):
    rows = Rows.build(**{name: np.concatenate([v] * 100) for name, v in arrays.items()})
    theta = theta_for(LoadingForm())
    one = rows.nbytes_of_one
    assert resampled(rows, rows.weight[None]).nbytes <= one < 1.1 * rows.nbytes
    for members in (1, 3):
        target = Objective(rows, LoadingForm(), memory_budget=(2 * members + 1) * one)
        assert target.members_at_once(theta) == members
    assert Objective(rows, LoadingForm(), memory_budget=1).members_at_once(theta) == 1


# -- bad input -------------------------------------------------------------------------------------


def test_bad_arguments_are_named(arrays):
    rows = Rows.build(**arrays)
    target = Objective(rows, FreeForm())
    for theta in (np.zeros(6), np.zeros((2, 8)), np.zeros((1, 1, 7))):
        with pytest.raises(ValueError, match=r"theta must have 7 columns \(2 outcome, 3 selection"):
            target.evaluate(theta)
    with pytest.raises(ValueError, match=r"theta has values of .* that are not finite"):
        target.evaluate(np.array([0, 0, 0, 0, 0, np.nan, 0.0]))
    for shape in ((80,), (1, 79)):
        with pytest.raises(ValueError, match=r"weights must have shape \(1, 80\)"):
            target.evaluate(np.zeros(7), 0, torch.ones(shape, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"3 sets of weights do not match 2 of theta"):
        target.evaluate(np.zeros((2, 7)), 0, torch.ones(3, 80, dtype=torch.float64))
    for penalty in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="penalty="):
            Objective(rows, FreeForm(), penalty=penalty)
    with pytest.raises(ValueError, match="block_size=0"):
        Objective(rows, FreeForm(), block_size=0)


def test_another_form_or_other_rows_keep_the_options(arrays):
    rows = Rows.build(**arrays)
    target = Objective(rows, FreeForm(), penalty=0.2, block_size=11)
    other = target.with_form(LoadingForm()).with_rows(rows.take(np.arange(30)))
    assert (other.penalty, other.block_size, other.rows.n) == (0.2, 11, 30)
    assert other.form == LoadingForm()
    assert dataclasses.is_dataclass(other.form)
