"""The game between a logit and the adversary who weights its rows."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from statsmodels_mnar.baselines.rflearn import (
    WeightBox,
    smoothed_weights,
    solve_game,
    worst_weights,
)


def random_box(rng, n_groups):
    count = rng.integers(1, 9, n_groups).astype(float)
    center = rng.uniform(0.2, 3.0, n_groups)
    center *= count.sum() / (count @ center)
    return WeightBox(
        count,
        center,
        center * rng.uniform(0.3, 1.0, n_groups),
        center * rng.uniform(1.0, 3.0, n_groups),
    )


def random_game(seed, n=120, n_groups=6):
    rng = np.random.default_rng(seed)
    codes = np.r_[np.arange(n_groups), rng.integers(0, n_groups, n - n_groups)]
    X = np.column_stack([np.ones(n), rng.normal(size=(n, 2)) + 0.3 * codes[:, None]])
    y = (rng.random(n) < 1 / (1 + np.exp(-X @ [0.2, 1.0, -0.5]))).astype(float)
    count = np.bincount(codes).astype(float)
    center = rng.uniform(0.5, 2.0, n_groups)
    center *= n / (count @ center)
    return y, X, codes, WeightBox(count, center, 0.5 * center, 1.8 * center)


@pytest.mark.parametrize("seed", range(20))
def test_the_adversarys_answer_solves_the_linear_programme(seed):
    rng = np.random.default_rng(seed)
    box, loss = random_box(rng, 12), rng.exponential(size=12)
    found = worst_weights(loss, box)
    best = linprog(
        -box.count * loss, A_eq=box.count[None], b_eq=[box.count.sum()],
        bounds=np.column_stack([box.low, box.high]),
    )  # fmt: skip
    assert found @ (box.count * loss) == pytest.approx(-best.fun, rel=1e-10)
    assert box.count @ found == pytest.approx(box.count.sum(), rel=1e-12)
    assert (found >= box.low - 1e-12).all() and (found <= box.high + 1e-12).all()


@pytest.mark.parametrize("smoothing", [1.0, 1e-2, 1e-6])
@pytest.mark.parametrize("seed", range(5))
def test_the_smoothed_answer_meets_its_optimality_conditions(seed, smoothing):
    rng = np.random.default_rng(seed)
    box, loss = random_box(rng, 12), rng.exponential(size=12)
    found = smoothed_weights(loss, box, smoothing)
    assert box.count @ found == pytest.approx(box.count.sum(), rel=1e-9)
    gain = loss - smoothing * (found - box.center)  # of one more unit of weight
    rises, falls = found < box.high - 1e-9, found > box.low + 1e-9
    assert gain[rises].max(initial=-np.inf) <= gain[falls].min(initial=np.inf) + 1e-8


def test_rougher_answers_come_close_to_the_worst_case():
    rng = np.random.default_rng(3)
    box, loss = random_box(rng, 12), rng.exponential(size=12)
    np.testing.assert_allclose(
        smoothed_weights(loss, box, 1e-9), worst_weights(loss, box), atol=1e-6
    )


@pytest.mark.parametrize("penalty", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_the_value_is_that_of_a_general_solver(seed, penalty):
    y, X, codes, box = random_game(seed)
    found = solve_game(y, X, codes, box, penalty=penalty)
    assert found.converged and 0 <= found.gap + 1e-12 <= 1e-7

    # The adversary's linear programme by its dual: price, and what each group pays beyond it.
    def losses(beta):
        rows = np.logaddexp(0.0, -(2 * y - 1) * (X @ beta))
        return np.bincount(codes, rows) / box.count

    def unpack(v):
        return v[:3], v[3], v[4:]

    def objective(v):
        beta, price, paid = unpack(v)
        return price + box.count @ paid / len(y) + 0.5 * penalty * beta @ beta

    def slack(v):
        beta, price, paid = unpack(v)
        beyond = losses(beta) - price
        return np.concatenate([paid - box.low * beyond, paid - box.high * beyond])

    start = np.r_[np.zeros(3), 1.0, np.ones(len(box.count))]
    best = minimize(
        objective, start, method="SLSQP", constraints={"type": "ineq", "fun": slack},
        options={"maxiter": 500, "ftol": 1e-12},
    )  # fmt: skip
    assert best.success
    assert found.value == pytest.approx(best.fun, abs=1e-6)


def test_nobody_moves_at_the_saddle_point():
    y, X, codes, box = random_game(7)
    found = solve_game(y, X, codes, box)
    rng = np.random.default_rng(0)

    def loss(beta, weights):
        return np.mean(weights[codes] * np.logaddexp(0.0, -(2 * y - 1) * (X @ beta)))

    value = loss(found.params, found.weights)
    assert value == pytest.approx(found.value, abs=1e-7)
    for _ in range(50):
        assert loss(found.params + 0.1 * rng.normal(size=3), found.weights) >= value - 1e-7
        other = worst_weights(rng.normal(size=len(box.count)), box)
        assert loss(found.params, other) <= value + 1e-7
