"""Newton, quasi-Newton and the paper's descent: where they end, and what they say about it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import optimize

from statsmodels_mnar.kernel.forms import FreeForm, LoadingForm, ProbitForm
from statsmodels_mnar.kernel.integration import Simulation
from statsmodels_mnar.kernel.rows import Rows
from statsmodels_mnar.optimize.first_order import paper_start, sgd
from statsmodels_mnar.optimize.maximize import maximize, maximize_batch, trust_region_step
from statsmodels_mnar.optimize.objective import Objective
from statsmodels_mnar.optimize.solution import WITHIN, Status
from tests.problems import mroz, simulated


@pytest.fixture(scope="module")
def logit_rows(reference_dir):
    return Rows.build(*simulated(reference_dir, "logit_n5000"))


@pytest.fixture(scope="module")
def small():
    """300 rows with a clear interior maximum once sigma is fixed."""
    rng = np.random.default_rng(11)
    n = 300
    x, z, e = rng.standard_normal((3, n))
    s = (0.3 + 0.5 * x + z + e > 0).astype(float)
    y = (0.2 + x + 0.8 * e + rng.logistic(size=n) > 0).astype(float)
    X, W = np.column_stack([np.ones(n), x]), np.column_stack([np.ones(n), x, z])
    return {"X": X, "W": W, "y": np.where(s == 1, y, np.nan), "s": s}


def sigma_fixed(target):
    free = np.ones(target.n_params, dtype=bool)
    free[-2] = False
    return free


# -- Newton ----------------------------------------------------------------------------------------


def test_sigma_fixed_reaches_the_reference_maximum(logit_rows):
    target = Objective(logit_rows, FreeForm())
    found = maximize(target, np.zeros(target.n_params), free=sigma_fixed(target))
    assert found.status is Status.CONVERGED
    assert found.value == pytest.approx(-4015.07422112853, abs=1e-7)
    assert found.score_norm < 1e-8
    assert found.params[-2] == 0.0  # exactly: it was not free
    assert found.params[-1] == pytest.approx(0.503550596754566, abs=1e-7)
    assert [step.iteration for step in found.trace] == list(range(found.n_iter + 1))
    assert found.trace[-1].value == found.value
    at = target.evaluate(found.params)
    # The Hessian is that before the last step, which is shorter than 1e-8 standard errors.
    np.testing.assert_allclose(found.hessian, at.hessian[0], rtol=1e-6)
    scaled = at.score[0].numpy() / target.scale / 5_000
    np.testing.assert_allclose(np.delete(scaled, -2), 0.0, atol=1e-8)


def test_loading_form_converges_in_few_steps(logit_rows):
    target = Objective(logit_rows, LoadingForm())
    found = maximize(target, np.zeros(target.n_params))
    assert found.status is Status.CONVERGED
    assert found.n_iter <= 15
    assert found.score_norm < 1e-8
    assert found.value == pytest.approx(-4014.923861, abs=1e-5)


def test_probit_form_reaches_the_heckprobit_maximum(reference_dir):
    target = Objective(Rows.build(*simulated(reference_dir, "probit_n5000")), ProbitForm())
    found = maximize(target, np.zeros(target.n_params))
    assert found.status is Status.CONVERGED
    assert found.value == pytest.approx(-3604.6128556198, abs=1e-8)
    assert found.params[-1] == pytest.approx(0.710870222168876, abs=1e-6)


def test_probit_form_reaches_the_heckprobit_maximum_of_mroz(shared):
    target = Objective(Rows.build(*mroz(shared)), ProbitForm())
    found = maximize(target, np.zeros(target.n_params))
    assert found.status is Status.CONVERGED
    assert found.value == pytest.approx(-749.4071898674, abs=1e-8)


@pytest.mark.full
def test_free_form_reports_the_face_of_the_simulated_data(logit_rows):
    target = Objective(logit_rows, FreeForm())
    found = maximize(target, np.zeros(target.n_params))
    assert found.status is Status.RHO_PLUS
    assert found.status.boundary
    assert not found.status.converged
    assert math.tanh(found.params[-1]) == pytest.approx(0.9999)
    # just below the maximum on the face itself, where it goes on to
    assert -4014.9239 < found.value < -4014.923861


def test_free_form_reports_the_face_of_mroz(shared):
    target = Objective(Rows.build(*mroz(shared)), FreeForm())
    found = maximize(target, np.zeros(target.n_params))
    assert found.status is Status.SIGMA_INFINITE
    assert math.exp(found.params[-2]) == pytest.approx(50.0)
    assert -749.4073 < found.value < -749.4071898


@pytest.mark.parametrize("sign", [1.0, pytest.param(-1.0, marks=pytest.mark.full)])
def test_sigma_fixed_runs_into_rho_one_where_the_dependence_is_stronger(sign):
    """The probit's error is the selection's: beyond the 0.48 that sigma = 1 can give."""
    rng = np.random.default_rng(0)
    x, z, e = rng.standard_normal((3, 2_000))
    X, W = np.column_stack([np.ones(2_000), x]), np.column_stack([np.ones(2_000), x, z])
    s, y = (0.5 * x + z + e > 0).astype(float), (x + sign * 4 * e > 0).astype(float)
    target = Objective(Rows.build(X, W, y, s), FreeForm())
    found = maximize(target, np.zeros(7), free=sigma_fixed(target))
    assert found.status is (Status.RHO_PLUS if sign > 0 else Status.RHO_MINUS)


def many_rows(n: int = 40_000) -> Rows:
    rng = np.random.default_rng(4)
    x, z, u = rng.standard_normal((3, n))
    s = (0.3 + 0.5 * x + z + u > 0).astype(float)
    y = (0.2 + x + 0.8 * u + rng.logistic(size=n) > 0).astype(float)
    X, W = np.column_stack([np.ones(n), x]), np.column_stack([np.ones(n), x, z])
    return Rows.build(X, W, y, s)


@pytest.mark.parametrize("form", [LoadingForm(), ProbitForm()])
def test_the_last_step_of_many_rows_is_foreseen(form):
    """What was not evaluated is as an evaluation there finds it."""
    target = Objective(many_rows(), form)
    start = np.array([0.2, 0.9, 0.3, 0.5, 0.9, 0.5])
    found = maximize(target, start)
    assert found.status is Status.CONVERGED
    at = target.evaluate(found.params, 2)
    assert found.value == pytest.approx(at.value.item(), abs=1e-8)
    inverse = np.linalg.inv(-at.hessian[0].numpy())
    score = at.score[0].numpy()
    assert math.sqrt(score @ inverse @ score) < WITHIN
    errors, expected = (np.sqrt(np.diag(np.linalg.inv(-h))) for h in (found.hessian, at.hessian[0]))
    np.testing.assert_allclose(errors, expected, rtol=1e-6)
    loose = maximize(target, start, bent=1e-2, aim=WITHIN)
    assert loose.n_iter <= found.n_iter
    distance = (
        (loose.params - found.params) @ -at.hessian[0].numpy() @ (loose.params - found.params)
    )
    assert math.sqrt(distance) < WITHIN


@pytest.mark.parametrize("n", [8, 300])
@pytest.mark.parametrize("equation", ["outcome", "select"])
def test_separation_is_not_called_convergence(n, equation):
    rng = np.random.default_rng(3)
    x, z = rng.standard_normal((2, n))
    X, W = np.column_stack([np.ones(n), x]), np.column_stack([np.ones(n), z])
    s, y = (rng.random((2, n)) < 0.7).astype(float)
    if equation == "outcome":
        y = (x > 0).astype(float)
    else:
        s = (z > 0).astype(float)
    target = Objective(Rows.build(X, W, y, s), FreeForm())
    free = np.array([True] * 4 + [False] * 2)
    found = maximize(target, np.zeros(6), free=free, maxiter=200)
    assert found.status is Status.SINGULAR


def test_separation_with_a_free_loading_is_separation_and_a_flat_rho_is_not():
    """A flat direction is named by what it is: coefficients, or the dependence given them."""
    rng = np.random.default_rng(2)
    x, z, u = rng.standard_normal((3, 300))
    X, W = np.column_stack([np.ones(300), x]), np.column_stack([np.ones(300), x, z])
    s = (0.2 + 0.5 * x + 0.15 * z + u > 0).astype(float)
    rare = (rng.random(300) < 1.0 / (1.0 + np.exp(3.5 - x - 1.5 * u))).astype(float)
    for form in (LoadingForm(), ProbitForm()):
        start = np.array([-1.5, 0.3, 0.2, 0.5, 0.2, 1.0])
        found = maximize(Objective(Rows.build(X, W, rare, s), form), start)
        assert found.status in (Status.FLAT, Status.LOADING_INFINITE, Status.RHO_PLUS)
        apart = Objective(Rows.build(X, W, (x > 0).astype(float), s), form)
        found = maximize(apart, np.zeros(6), maxiter=300)
        assert not found.status.boundary and not found.status.converged


def test_collinear_columns_are_not_called_convergence(small):
    X = np.column_stack([small["X"], small["X"] @ [1.0, 2.0]])
    target = Objective(Rows.build(**{**small, "X": X}), LoadingForm())
    assert maximize(target, np.zeros(target.n_params)).status is Status.SINGULAR


def test_too_few_iterations_are_reported(small):
    target = Objective(Rows.build(**small), LoadingForm())
    for method in ("newton", "bfgs", "lbfgs"):
        found = maximize(target, np.zeros(6), method=method, maxiter=2)
        assert found.status is Status.MAXITER
        assert found.n_iter == 2


def test_start_where_nothing_is_finite_is_reported(small):
    target = Objective(Rows.build(**small), LoadingForm())
    found = maximize(target, np.array([1e200, 0, 0, 0, 1e200, 0.0]))
    assert found.status is Status.NONFINITE


def test_newton_leaves_a_saddle_point():
    """A score that is zero by symmetry where the curvature is negative is no place to end.

    The index speaks against the labels of both rows by three, so the likelihood rises with the
    loading's size, whichever its sign.
    """
    X, W = np.ones((2, 1)), np.ones((2, 1))
    rows = Rows.build(
        X,
        W,
        np.array([1.0, 0.0]),
        np.ones(2),
        offset=np.array([-3.0, 3.0]),
        offset_select=np.zeros(2),
    )
    target = Objective(rows, LoadingForm())
    free = np.array([False, False, True])
    start = np.array([0.0, 8.0, 0.0])  # b = 8: surely selected, a loading only adds variance
    at = target.evaluate(start)
    assert abs(at.score[0, 2].item()) < 1e-10
    assert at.hessian[0, 2, 2].item() > 0.01
    found = maximize(target, start, free=free)
    assert abs(found.params[2]) > 1.0
    assert found.value > at.value.item() + 1.0


def test_every_path_up_a_flat_top_ends_at_its_highest_point():
    """Within 1e-9 of the largest log-likelihood lnsigma spans 1e-3: gains cannot tell the end."""
    rng = np.random.default_rng(15)
    n = 400
    x, z, u = rng.standard_normal((3, n))
    s = (0.3 + 0.5 * x + z + u > 0).astype(float)
    e = 0.6 * u + 0.8 * rng.standard_normal(n)
    y = (0.2 + x + 1.5 * e + rng.logistic(size=n) > 0).astype(float)
    X, W = np.column_stack([np.ones(n), x]), np.column_stack([np.ones(n), x, z])
    target = Objective(Rows.build(X, W, np.where(s == 1, y, np.nan), s), FreeForm())
    starts = np.zeros((2, target.n_params))
    starts[:, -2:] = [[0.7, 1.2], [0.0, 0.5]]
    found = maximize_batch(target, starts)
    assert all(solution.status is Status.CONVERGED for solution in found)
    errors = np.sqrt(np.diag(np.linalg.inv(-found[0].hessian)))
    assert errors[-2] > 10.0
    assert found[0].n_iter != found[1].n_iter
    assert np.max(np.abs(found[0].params - found[1].params) / errors) < WITHIN
    for solution in found:
        at = target.evaluate(solution.params)
        assert newton_distance(at) < WITHIN
        assert at.value.item() == pytest.approx(solution.value, rel=1e-12)  # rounding of the sum
        # Along this ridge the curvature changes tenfold within a standard error: 10 * WITHIN.
        np.testing.assert_allclose(solution.hessian, at.hessian[0], rtol=1e-5, atol=1e-5)


def newton_distance(at):
    """Length of Newton's next step in standard errors, by what an objective returns."""
    score, information = at.score[0].numpy(), -at.hessian[0].numpy()
    return np.sqrt(score @ np.linalg.solve(information, score))


def test_rounding_ends_a_search_that_cannot_come_nearer(small, monkeypatch):
    """A score with noise of 1e-4 standard errors: Newton stops halving the distance, and ends."""
    target = Objective(Rows.build(**small), LoadingForm())
    exact = maximize(target, np.zeros(target.n_params))
    errors = np.sqrt(np.diag(np.linalg.inv(-exact.hessian)))
    rng, evaluate = np.random.default_rng(0), target.evaluate

    def noisy(*args, **options):
        at = evaluate(*args, **options)
        noise = 1e-5 / errors * rng.standard_normal(len(errors))
        return replace(at, score=at.score + torch.as_tensor(noise))

    monkeypatch.setattr(target, "evaluate", noisy)
    found = maximize(target, np.zeros(target.n_params), gtol=1e-5)
    assert found.status is Status.CONVERGED
    assert found.n_iter <= exact.n_iter + 5
    assert np.max(np.abs(found.params - exact.params) / errors) < 1e-3


def test_the_limit_on_iterations_is_no_convergence(small):
    """Near the maximum by every other measure, and yet not within what is promised."""
    target = Objective(Rows.build(**small), LoadingForm())
    exact = maximize(target, np.zeros(target.n_params))
    cut = maximize(target, np.zeros(target.n_params), maxiter=exact.n_iter - 1)
    assert cut.status is Status.MAXITER


def test_callback_sees_every_iteration(small):
    target = Objective(Rows.build(**small), LoadingForm())
    for method in ("newton", "bfgs"):
        seen = []
        found = maximize(target, np.zeros(6), method=method, callback=seen.append)
        assert tuple(seen) == found.trace


@pytest.mark.parametrize("form", [FreeForm(), LoadingForm(), ProbitForm()], ids=["f", "l", "p"])
def test_members_of_a_batch_end_where_they_end_alone(small, form):
    """Starts, weights and fixed parameters of their own; a bootstrap in small."""
    rows = Rows.build(**small)
    target = Objective(rows, form, penalty=0.01)
    rng = np.random.default_rng(0)
    weights = torch.as_tensor(rng.multinomial(300, np.full(300, 1 / 300), 3).astype(float))
    starts = 0.2 * rng.standard_normal((3, target.n_params))
    free = np.ones((3, target.n_params), dtype=bool)
    free[:, -1] = False
    free[1, 1] = False
    if isinstance(form, FreeForm):
        free[:, -2] = False
    batch = maximize_batch(target, starts, free=free, weights=weights)
    assert len({found.n_iter for found in batch}) >= 1
    for i, found in enumerate(batch):
        own = {**small, "weights": rows.unsort(weights[i]).numpy()}
        alone = maximize(Objective(Rows.build(**own), form, penalty=0.01), starts[i], free=free[i])
        assert found.status is alone.status is Status.CONVERGED
        assert found.value == pytest.approx(alone.value, abs=1e-8)
        np.testing.assert_allclose(found.params, alone.params, atol=1e-6)
        np.testing.assert_allclose(found.hessian, alone.hessian, rtol=1e-5, atol=1e-3)
        np.testing.assert_array_equal(found.params[~free[i]], starts[i][~free[i]])


def test_hessians_of_a_weighted_batch_have_its_weights(small):
    target = Objective(Rows.build(**small), FreeForm())
    weights = torch.full((1, 300), 2.0, dtype=torch.float64)
    free = sigma_fixed(target)
    (twice,) = maximize_batch(target, np.zeros((1, 7)), free=free, weights=weights)
    (once,) = maximize_batch(target, np.zeros((1, 7)), free=free)
    np.testing.assert_allclose(twice.params, once.params, atol=1e-7)
    np.testing.assert_allclose(twice.hessian, 2 * once.hessian, rtol=1e-5, atol=1e-4)


def test_a_fixed_outcome_coefficient_stays_where_it_is_while_sigma_moves(small):
    """The search in units of the error's standard deviation must not move it."""
    target = Objective(Rows.build(**small), FreeForm())
    free = np.ones(7, dtype=bool)
    free[1] = False
    start = np.array([0.0, 0.7, 0.0, 0.0, 0.0, 0.0, 0.3])
    for method in ("newton", "lbfgs"):
        found = maximize(target, start, free=free, method=method, maxiter=5)
        assert found.params[1] == 0.7
        assert found.value == pytest.approx(target.evaluate(found.params, 0).value.item())


def test_an_offset_is_the_same_in_every_search(small):
    """beta fixed by a column or taken out by an offset: one likelihood, one maximum."""
    X, known = small["X"], 0.9 * small["X"][:, 1]
    rows = Rows.build(X[:, :1], small["W"], small["y"], small["s"], offset=known)
    target = Objective(rows, FreeForm())
    found = maximize(target, np.zeros(6), free=sigma_fixed(target))
    whole = Objective(Rows.build(**small), FreeForm())
    free = sigma_fixed(whole)
    free[1] = False
    other = maximize(whole, np.array([0, 0.9, 0, 0, 0, 0, 0]), free=free)
    assert found.status is other.status is Status.CONVERGED
    np.testing.assert_allclose(found.params, np.delete(other.params, 1), atol=1e-6)
    assert found.value == pytest.approx(other.value, abs=1e-9)


def test_the_scale_of_a_column_makes_no_difference(small):
    target = Objective(Rows.build(**small), LoadingForm())
    units = np.array([1.0, 1e-4, 1.0, 1e5, 1.0])
    scaled = {**small, "X": small["X"] * units[:2], "W": small["W"] * units[2:]}
    found = maximize(target, np.zeros(6))
    other = maximize(Objective(Rows.build(**scaled), LoadingForm()), np.zeros(6))
    assert found.n_iter == other.n_iter
    np.testing.assert_allclose(found.params[:5], other.params[:5] * units, rtol=1e-6, atol=1e-9)


# -- the trust-region step -------------------------------------------------------------------------


def gain(score, information, step):
    return score @ step - 0.5 * step @ information @ step


@pytest.mark.parametrize("case", ["definite", "indefinite", "negative", "hard", "zero"])
@pytest.mark.parametrize("radius", [0.05, 1.0, 30.0])
def test_trust_region_step_is_the_best_of_the_ball(case, radius):
    rng = np.random.default_rng(7)
    basis = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    eigenvalues = {
        "definite": [0.1, 1.0, 3.0, 50.0],
        "indefinite": [-2.0, 0.5, 3.0, 50.0],
        "negative": [-9.0, -4.0, -2.0, -1e-3],
        "hard": [-2.0, 0.5, 3.0, 50.0],
        "zero": [0.0, 0.0, 0.0, 0.0],
    }[case]
    information = basis @ np.diag(eigenvalues) @ basis.T
    along = rng.standard_normal(4)
    if case == "hard":
        along[0] = 0.0  # the score has no part along the direction of negative curvature
    score = basis @ along
    step = trust_region_step(
        torch.as_tensor(score)[None],
        torch.as_tensor(information)[None],
        torch.tensor([radius], dtype=torch.float64),
    )[0].numpy()
    assert np.linalg.norm(step) <= radius * (1 + 1e-9)
    best = -np.inf
    for start in rng.standard_normal((12, 4)):
        found = optimize.minimize(
            lambda m: -gain(score, information, m),
            radius * start / np.linalg.norm(start) / 2,
            jac=lambda m: information @ m - score,
            constraints={
                "type": "ineq",
                "fun": lambda m: 1 - m @ m / radius**2,
                "jac": lambda m: -2 * m / radius**2,
            },
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        inside = found.x / max(1.0, np.linalg.norm(found.x) / radius)
        best = max(best, gain(score, information, inside))
    assert gain(score, information, step) >= best - 1e-7 * (1 + abs(best))


def test_trust_region_step_at_a_zero_score_is_finite():
    zero = torch.zeros(1, 3, dtype=torch.float64)
    one = torch.ones(1, dtype=torch.float64)
    for information in (torch.zeros(1, 3, 3), torch.eye(3)[None]):
        assert torch.equal(trust_region_step(zero, information.double(), one), zero)


# -- quasi-Newton ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["bfgs", pytest.param("lbfgs", marks=pytest.mark.full)])
def test_quasi_newton_agrees_with_newton(small, method):
    for form in (LoadingForm(), ProbitForm(), FreeForm()):
        target = Objective(Rows.build(**small), form)
        free = sigma_fixed(target) if isinstance(form, FreeForm) else None
        start = np.zeros(target.n_params)
        newton = maximize(target, start, free=free)
        found = maximize(target, start, free=free, method=method)
        assert found.status is newton.status is Status.CONVERGED
        assert found.value == pytest.approx(newton.value, abs=1e-8)
        np.testing.assert_allclose(found.params, newton.params, atol=1e-4)


@pytest.mark.parametrize("method", [pytest.param("bfgs", marks=pytest.mark.full), "lbfgs"])
def test_quasi_newton_reports_the_boundary(small, method):
    strong = {**small, "y": np.where(small["W"][:, 2] > 0, 0.0, 1.0)}
    target = Objective(Rows.build(**strong), FreeForm(), penalty=0.01)
    start = np.zeros(target.n_params)
    newton = maximize(target, start, free=sigma_fixed(target))
    found = maximize(target, start, free=sigma_fixed(target), method=method)
    assert newton.status.boundary
    assert found.status is newton.status


@pytest.mark.parametrize("method", ["bfgs", "lbfgs"])
def test_quasi_newton_does_not_call_separation_convergence(small, method):
    separated = {**small, "y": (small["X"][:, 1] > 0).astype(float)}
    target = Objective(Rows.build(**separated), FreeForm())
    free = np.array([True] * 5 + [False] * 2)
    found = maximize(target, np.zeros(7), free=free, method=method)
    assert not found.status.converged
    assert not found.status.boundary


# -- the paper's descent ---------------------------------------------------------------------------


def natural_loss(data, natural, form):
    """Mean negative log-likelihood in (beta, gamma, sigma, rho), for autograd: rho unfactorised."""
    beta, gamma, sigma, rho = natural[:2], natural[2:5], natural[-2], natural[-1]
    X, W = torch.as_tensor(data["X"]), torch.as_tensor(data["W"])
    s, y = torch.as_tensor(data["s"]), torch.as_tensor(np.nan_to_num(data["y"]))
    e = form.simulation.nodes(torch.arange(len(s))).e[0]  # (R, n)
    a, b = X @ beta, W @ gamma
    L = torch.sigmoid((2 * y - 1) * (a + sigma * e))
    selected = torch.log((L * torch.special.ndtr((b + rho * e) / torch.sqrt(1 - rho**2))).mean(0))
    rows = torch.where(s == 1, selected, torch.special.log_ndtr(-b))
    return -rows.mean()


def test_one_step_of_the_descent_is_the_papers(small):
    form = FreeForm(Simulation(n_draws=50, kind="random", rng=4))
    target = Objective(Rows.build(**small), form)
    found = sgd(target, lr=0.05, weight_decay=0.3, maxiter=2)
    natural = torch.tensor([0, 0, 0, 0, 0, 0.01, 0.01], dtype=torch.float64)
    for _ in range(2):
        leaf = natural.clone().requires_grad_()
        (slope,) = torch.autograd.grad(natural_loss(small, leaf, form), leaf)
        slope[:5] += 0.3 * natural[:5]
        natural = natural - 0.05 * slope
    expected = natural.numpy()
    np.testing.assert_allclose(found.params[:5], expected[:5], rtol=1e-10, atol=1e-13)
    assert math.exp(found.params[-2]) == pytest.approx(expected[-2], rel=1e-9)
    assert math.tanh(found.params[-1]) == pytest.approx(expected[-1], rel=1e-9)
    assert found.status is Status.MAXITER


def test_the_paper_starts_at_zero_with_sigma_and_rho_of_a_hundredth(small):
    start = paper_start(5)
    np.testing.assert_allclose(start[:5], 0.0)
    assert math.exp(start[5]) == pytest.approx(0.01)
    assert math.tanh(start[6]) == pytest.approx(0.01)
    target = Objective(Rows.build(**small), FreeForm(Simulation(n_draws=20)))
    default, given = sgd(target, maxiter=3), sgd(target, start, maxiter=3)
    np.testing.assert_array_equal(default.params, given.params)
    assert default.trace[0].value == pytest.approx(target.evaluate(start, 0).value.item())


def test_the_descent_stops_at_the_first_small_relative_change(small):
    target = Objective(Rows.build(**small), FreeForm(Simulation(n_draws=20)))
    found = sgd(target, lr=0.1, tol=2e-3)
    assert found.status is Status.STOPPED
    losses = -np.array([step.value for step in found.trace]) / 300
    change = np.abs(np.diff(losses)) / losses[:-1]
    assert change[-1] < 2e-3 <= change[:-1].min()
    assert found.n_iter == len(found.trace) == len(losses)


def test_redrawn_steps_have_new_draws_and_a_seed_repeats_them(small):
    rows = Rows.build(**small)

    def run(rng, redraw):
        form = FreeForm(Simulation(n_draws=10, kind="random", rng=rng, redraw=redraw))
        return sgd(
            Objective(rows, form), np.array([0.1] * 5 + [0.5, 0.5]), lr=0.1, maxiter=4
        ).params

    np.testing.assert_array_equal(run(1, True), run(1, True))
    assert not np.allclose(run(1, True), run(2, True), rtol=1e-6)
    assert not np.allclose(run(1, True), run(1, False), rtol=1e-6)


def test_mini_batches_visit_every_row_once_an_epoch(small):
    """With a step length that moves nothing, the mean of the losses is the loss."""
    target = Objective(Rows.build(**small), FreeForm(Simulation(n_draws=20)))
    whole = sgd(target, lr=1e-12, maxiter=1)
    parts = sgd(target, lr=1e-12, maxiter=1, batch_size=100, rng=3)
    assert parts.trace[0].value == pytest.approx(whole.trace[0].value, rel=1e-9)
    runs = [sgd(target, lr=0.1, maxiter=2, batch_size=64, rng=rng).params for rng in (5, 5, 6)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.allclose(runs[0], runs[2], rtol=1e-6)


def test_a_step_that_diverges_is_reported(small):
    target = Objective(Rows.build(**small), FreeForm())
    found = sgd(target, lr=1e160, maxiter=20)
    assert found.status is Status.NONFINITE


def test_sigma_and_rho_stay_in_range(small):
    target = Objective(Rows.build(**small), FreeForm(Simulation(n_draws=20)))
    found = sgd(target, np.array([0.1] * 5 + [0.0, 0.5]), lr=1e3, maxiter=1)
    assert math.exp(found.params[-2]) >= 1e-6 * (1 - 1e-12)
    assert abs(math.tanh(found.params[-1])) <= 0.9999 + 1e-12


# -- one door --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "options", "message"),
    [
        (LoadingForm(), {"method": "simplex"}, "method='simplex' is unknown"),
        (LoadingForm(), {"method": "sgd"}, "needs sigma and rho free"),
        (LoadingForm(), {"start": None}, "start is needed for method='newton'"),
        (LoadingForm(), {"start": np.zeros(4)}, "theta must have 6 columns"),
        (LoadingForm(), {"start": np.full(6, np.nan)}, "start has values that are not finite"),
        (LoadingForm(), {"method": "bfgs", "start": np.full(6, np.nan)}, "start must be 6 finite"),
        (LoadingForm(), {"free": np.ones(5, dtype=bool)}, r"free must be booleans of shape \(6,\)"),
        (LoadingForm(), {"free": np.ones(6)}, "free must be booleans"),
        (FreeForm(), {"method": "sgd", "free": np.arange(7) > 2}, "moves all parameters"),
        (FreeForm(), {"method": "sgd", "lr": 0.0}, "lr=0.0"),
        (FreeForm(), {"method": "sgd", "tol": math.nan}, "tol=nan"),
        (FreeForm(), {"method": "sgd", "weight_decay": -1.0}, "weight_decay=-1.0"),
        (FreeForm(), {"method": "sgd", "batch_size": 301}, "batch_size=301"),
        (FreeForm(Simulation(redraw=True)), {}, "redraw=True .* method='newton'"),
        (FreeForm(Simulation(redraw=True)), {"method": "bfgs"}, "redraw=True .* method='bfgs'"),
    ],
)
def test_bad_options_are_named(small, form, options, message):
    target = Objective(Rows.build(**small), form)
    options = {"start": np.zeros(target.n_params), **options}
    with pytest.raises(ValueError, match=message):
        maximize(target, **options)


def test_descent_refuses_a_penalty_that_it_would_not_use(small):
    with pytest.raises(ValueError, match=r"penalty=0\.1 is not used by 'sgd'; pass weight_decay"):
        maximize(Objective(Rows.build(**small), FreeForm(), penalty=0.1), None, method="sgd")
