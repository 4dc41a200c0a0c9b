"""A batch of fits is so many single fits: one contract for every form and way of batching."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from statsmodels_mnar.kernel.forms import FreeForm, LoadingForm, ProbitForm
from statsmodels_mnar.kernel.integration import Quadrature, Simulation
from statsmodels_mnar.kernel.links import LOGIT, PROBIT
from statsmodels_mnar.kernel.rows import Rows
from statsmodels_mnar.models.first_stage import MLP, fit_mlp
from statsmodels_mnar.optimize.batches import (
    cubic_step,
    rekeyed,
    relabelled,
    resampled,
    stacked,
    third_derivatives,
)
from statsmodels_mnar.optimize.binary import fit_binaries, fit_binary
from statsmodels_mnar.optimize.maximize import maximize, maximize_batch, maximize_many
from statsmodels_mnar.optimize.objective import Objective
from statsmodels_mnar.optimize.solution import WITHIN, Solution, Status

N = 200


def simulate(seed: int, loading: float = 0.8) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, z, u = rng.standard_normal((3, N))
    s = (0.3 + 0.5 * x + z + u > 0).astype(float)
    y = (rng.random(N) < 1 / (1 + np.exp(-(0.2 + x + loading * u)))).astype(float)
    one = np.ones(N)
    X, W = np.column_stack([one, x]), np.column_stack([one, x, z])
    return {"X": X, "W": W, "y": np.where(s == 1, y, np.nan), "s": s}


def soft(seed: int) -> dict[str, np.ndarray]:
    """As BiasCorr trains: unlabelled rows have pseudolabels and a soft selection value."""
    data = simulate(seed)
    missing = data["s"] == 0
    guess = (data["X"][:, 1] > 0).astype(float)
    return data | {
        "y": np.where(missing, guess, data["y"]),
        "s": np.where(missing, 0.35, data["s"]),
    }


DATA = {"hard": simulate, "soft": soft}
FORMS = {  # and the dependence parameters that stay fixed
    "free": (FreeForm(), {}),
    "sigma = 1": (FreeForm(), {-2: 0.0}),
    "rho = 0.5": (FreeForm(), {-1: np.arctanh(0.5)}),
    "hermite": (FreeForm(Quadrature("gauss-hermite", 24)), {-2: 0.0}),
    "simulation": (FreeForm(Simulation(30)), {-2: 0.0}),
    "loading": (LoadingForm(), {}),
    "probit": (ProbitForm(), {}),
}
# A probit outcome has no soft rows.
PROBLEMS = [(name, kind) for name in FORMS for kind in DATA if (name, kind) != ("probit", "soft")]


def problem(data: dict[str, np.ndarray], name: str, **keywords) -> tuple[Objective, dict]:
    form, fixed = FORMS[name]
    objective = Objective(Rows.build(**data), form, **keywords)
    start, free = np.zeros(objective.n_params), np.ones(objective.n_params, dtype=bool)
    for place, value in fixed.items():
        start[place], free[place] = value, False
    if free[-1]:
        start[-1] = 0.3
    return objective, {"start": start, "free": free}


def assert_same(batch: Solution, alone: Solution) -> None:
    assert batch.status is alone.status
    assert batch.value == pytest.approx(alone.value, rel=1e-11)  # rounding of sums
    # Each within WITHIN standard errors of the maximum, in the metric of the information.
    difference = batch.params - alone.params
    assert np.sqrt(max(0.0, -difference @ alone.hessian @ difference)) <= 2 * WITHIN


def compared(B: int) -> range:
    """Members fitted again alone."""
    return range(B) if B < 10 else range(1, B, 7)


def drawn(B: int, rng: np.random.Generator) -> np.ndarray:
    """Counts of rows drawn with replacement, (B, N)."""
    return rng.multinomial(N, np.full(N, 1 / N), B).astype(float)


def in_turn(first: int) -> list[Any]:
    """Every problem by every number of members; by default each form once, of 3 members."""
    found = []
    for form, name in enumerate(FORMS):
        kinds = [kind for kind in DATA if (name, kind) in PROBLEMS]
        usual = kinds[(form + first) % len(kinds)], 3
        for case in product(kinds, (1, 3, 50)):
            marks = () if case == usual else pytest.mark.full
            found.append(pytest.param(name, *case, marks=marks))
    return found


@pytest.mark.parametrize(("name", "kind", "B"), in_turn(0))
def test_weighted_members_end_where_they_end_alone(name, kind, B):
    data = DATA[kind](0)
    objective, at = problem(data, name, penalty=1e-3)
    weights = drawn(B, np.random.default_rng(1))
    by_row = torch.as_tensor(weights)[:, objective.rows.order]
    found = [
        solution
        for part in maximize_many(objective, at["start"][None], free=at["free"], weights=by_row)
        for solution in part
    ]
    assert len(found) == B
    for b in compared(B):
        rows = Rows.build(**data, weights=weights[b])
        alone = maximize(objective.with_rows(rows), at["start"], free=at["free"])
        assert_same(found[b], alone)
    if B == 50:
        assert len({solution.n_iter for solution in found}) > 1


@pytest.mark.parametrize(("name", "kind", "B"), in_turn(1))
def test_data_sets_of_their_own_end_where_they_end_alone(name, kind, B):
    sets = [DATA[kind](seed) for seed in range(B)]
    objective, at = problem(sets[0], name)
    alone = [objective.with_rows(Rows.build(**data)) for data in sets]
    together = objective.with_rows(stacked([o.rows for o in alone]))
    parts = maximize_many(together, at["start"][None], free=at["free"], chunk=20)
    found = [solution for part in parts for solution in part]
    statuses = {solution.status for solution in found}
    for b in compared(B):
        solution, again = found[b], maximize(alone[b], at["start"], free=at["free"])
        if name == "free" and solution.status.boundary:
            # A flat ridge: where on it the search meets the bound hangs on the last digit.
            assert again.status.boundary
            assert solution.value == pytest.approx(again.value, abs=1e-6)
        else:
            assert_same(solution, again)
    if B == 50 and name == "sigma = 1" and kind == "hard":
        assert {Status.CONVERGED, Status.RHO_PLUS} <= statuses


@pytest.mark.parametrize(
    ("name", "kind"), [("loading", "hard"), ("loading", "soft"), ("probit", "hard")]
)
def test_a_first_step_by_third_derivatives_leads_to_the_same_maximum_sooner(name, kind):
    data = DATA[kind](0)
    objective, at = problem(data, name, penalty=1e-3)
    best = maximize(objective, at["start"], free=at["free"]).params
    third = third_derivatives(objective, best, at["free"])
    assert third is not None
    by_row = torch.as_tensor(drawn(20, np.random.default_rng(1)))[:, objective.rows.order]
    options = {"free": at["free"], "weights": by_row}
    starts = np.tile(best, (20, 1))
    plain = maximize_batch(objective, starts, **options)
    better = maximize_batch(objective, starts, third=third, **options)
    for one, other in zip(better, plain, strict=True):
        assert_same(one, other)
    assert sum(s.n_iter for s in better) < sum(s.n_iter for s in plain)


@pytest.mark.parametrize("name", ["loading", "probit", "sigma = 1"])
def test_third_derivatives_are_those_of_the_hessian(name):
    objective, at = problem(simulate(0), name, penalty=1e-3)
    theta = maximize(objective, at["start"], free=at["free"]).params
    third = third_derivatives(objective, theta, at["free"])
    rng = np.random.default_rng(0)
    move = 1e-4 * np.where(at["free"], rng.standard_normal(len(theta)), 0.0)
    ends = objective.evaluate(np.stack([theta + move, theta - move])).hessian
    scale, free = torch.as_tensor(objective.scale), torch.as_tensor(at["free"])
    expected = (ends[0] - ends[1]) / (2.0 * N * scale[:, None] * scale)
    found = third @ (torch.as_tensor(move) * scale)
    kept = free[:, None] & free
    # The differences are between points a twentieth of a standard error apart.
    error = (found - expected)[kept].abs().max() / expected[kept].abs().max()
    assert error < 0.05
    assert (found[~kept] == 0.0).all()


def test_there_are_no_third_derivatives_where_the_log_likelihood_is_not_concave():
    objective, _ = problem(simulate(0), "free")
    assert third_derivatives(objective, np.array([9.0, 9.0, 9.0, 9.0, 9.0, 0.0, 0.0])) is None


def test_a_cubic_step_is_that_of_newton_where_the_cubic_model_has_no_top_near_it():
    # The top of g m - m^2/2 + c m^3/6, at m = (1 - sqrt(1 - 2 c g))/c, has gone where 2 c g > 1.
    third = torch.ones(1, 1, 1, dtype=torch.float64)
    score = torch.tensor([[0.1], [0.4], [0.6], [0.1]], dtype=torch.float64)
    total = torch.ones(4, dtype=torch.float64)
    radius = torch.tensor([1.0, 1.0, 1.0, 0.101], dtype=torch.float64)
    step, better = cubic_step(score, torch.ones(4, 1, 1).double(), total, third, score, radius)
    tops = 1.0 - torch.sqrt(1.0 - 2.0 * score)
    assert better.tolist() == [True, True, False, False]
    torch.testing.assert_close(step[:2], tops[:2], rtol=1e-3, atol=0.0)
    assert torch.equal(step[2:], score[2:])


def test_a_member_that_fails_stops_no_other():
    data = simulate(0)
    objective, at = problem(data, "loading")
    weights = drawn(3, np.random.default_rng(2))
    weights[1] *= ~((data["s"] == 1) & (data["y"] == 0))  # one outcome only
    by_row = torch.as_tensor(weights)[:, objective.rows.order]
    starts = np.tile(at["start"], (3, 1))
    found = maximize_batch(objective, starts, weights=by_row)
    assert [s.status.converged for s in found] == [True, False, True]


def test_resampled_rows_are_the_rows_drawn():
    data = soft(3)
    rows = Rows.build(**data)
    weights = torch.as_tensor(drawn(4, np.random.default_rng(0)))[:, rows.order]
    own = resampled(rows, weights)
    assert own.batched
    assert own.n < 0.75 * N
    theta = torch.as_tensor(np.random.default_rng(1).standard_normal((4, 7)) * 0.3)
    shared = Objective(rows, FreeForm()).evaluate(theta, 2, weights)
    batch = Objective(own, FreeForm()).evaluate(theta, 2)
    torch.testing.assert_close(batch.value, shared.value, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(batch.hessian, shared.hessian, rtol=1e-10, atol=1e-9)
    some = torch.tensor([2, 0])
    part = Objective(own.members(some), FreeForm()).evaluate(theta[some], 1)
    torch.testing.assert_close(part.score, shared.score[some], rtol=1e-10, atol=1e-10)


def test_labels_of_their_own():
    data = soft(4)
    rows = Rows.build(**data)
    rng = np.random.default_rng(0)
    missing = data["s"] < 1
    s = np.where(missing, rng.uniform(0.1, 0.45, (3, 1)), data["s"])
    y = np.where(missing, rng.integers(0, 2, (3, N)), data["y"])
    order = rows.order
    batch = Objective(
        relabelled(
            rows,
            torch.as_tensor(missing)[order],
            torch.as_tensor(s)[:, order],
            torch.as_tensor(y)[:, order],
        ),
        FreeForm(),
    )
    theta = np.random.default_rng(1).standard_normal((3, 7)) * 0.3
    at = batch.evaluate(theta, 2)
    for b in range(3):
        alone = Objective(Rows.build(**(data | {"y": y[b], "s": s[b]})), FreeForm())
        single = alone.evaluate(theta[b], 2)
        assert at.value[b] == pytest.approx(single.value.item(), rel=1e-12)
        torch.testing.assert_close(at.hessian[b], single.hessian[0], rtol=1e-10, atol=1e-9)


def test_draws_of_their_own_are_those_of_other_keys():
    data = simulate(5)
    rows, form = Rows.build(**data), FreeForm(Simulation(16))
    keys = rows.key + N * torch.arange(1, 4)[:, None]
    theta = np.random.default_rng(1).standard_normal((3, 7)) * 0.3
    batch = Objective(rekeyed(rows, keys), form).evaluate(theta, 1)
    for b in range(3):
        shifted = Rows.build(**data, key=np.arange(N) + N * (b + 1))
        single = Objective(shifted, form).evaluate(theta[b], 1)
        assert batch.value[b] == pytest.approx(single.value.item(), rel=1e-13)
        torch.testing.assert_close(batch.score[b], single.score[0], rtol=1e-11, atol=1e-11)


def test_what_needs_one_set_of_rows_refuses_many():
    rows = Rows.build(**simulate(0))
    own = resampled(rows, torch.ones(2, N, dtype=torch.float64))
    for ask in ("row_values", "row_scores", "opg"):
        with pytest.raises(ValueError, match=f"{ask} needs rows that all members share"):
            getattr(Objective(own, FreeForm()), ask)(np.zeros(7))


def test_one_hard_member_slows_no_other(monkeypatch):
    """A member near |rho| = 1 needs many nodes; the others keep their few."""
    objective = Objective(Rows.build(**simulate(0)), FreeForm())
    theta = np.zeros((3, 7))
    theta[1, -1] = np.arctanh(0.9999)
    asked = []
    nodes = FreeForm.nodes
    monkeypatch.setattr(
        FreeForm,
        "nodes",
        lambda self, at, device: (asked.append(len(at)), nodes(self, at, device))[1],
    )
    together = objective.evaluate(theta, 2)
    assert sorted(asked) == [1, 2]
    for b in range(3):
        alone = objective.evaluate(theta[b], 2)
        torch.testing.assert_close(together.hessian[b], alone.hessian[0], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("link", [LOGIT, PROBIT])
@pytest.mark.parametrize("penalty", [0.0, 0.01])
def test_binary_regressions_of_a_batch_are_single_ones(link, penalty):
    rng = np.random.default_rng(0)
    X = torch.as_tensor(np.vstack([np.ones(N), rng.standard_normal((2, N))]))
    y = torch.as_tensor((rng.random(N) < 0.5 + 0.2 * np.sign(X[1].numpy())).astype(float))
    offset = torch.as_tensor(0.1 * rng.standard_normal(N))
    weight = torch.as_tensor(drawn(20, rng))
    weight[3] *= y  # one class: no maximum without a penalty
    fits = fit_binaries(X, y, link, weight, offset=offset, penalty=penalty)
    assert fits.converged.tolist() == [penalty > 0 or b != 3 for b in range(20)]
    for b in range(20):
        alone = fit_binary(X, y, link, weight=weight[b], offset=offset, penalty=penalty)
        if alone.converged:
            torch.testing.assert_close(fits.params[b], alone.params, rtol=1e-8, atol=1e-10)
            torch.testing.assert_close(fits.hessian[b], alone.hessian, rtol=1e-8, atol=1e-8)
            assert fits.value[b] == pytest.approx(alone.value, rel=1e-12)


@pytest.mark.parametrize("link", [LOGIT, PROBIT])
@pytest.mark.parametrize("penalty", [0.0, 0.05])
def test_a_last_step_that_is_not_evaluated_ends_at_the_maximum(link, penalty):
    """Coefficients and value are those of a fit whose last step gains nothing."""
    rng, n = np.random.default_rng(2), 20_000
    X = torch.as_tensor(np.vstack([np.ones(n), rng.standard_normal((2, n))]))
    y = torch.as_tensor((rng.random(n) < 0.4 + 0.3 * np.sign(X[1].numpy())).astype(float))
    exact = fit_binary(X, y, link, penalty=penalty)
    early = fit_binary(X, y, link, penalty=penalty, gain=1e-6)
    assert early.converged
    torch.testing.assert_close(early.params, exact.params, rtol=0.0, atol=1e-8)
    assert early.value == pytest.approx(exact.value, abs=1e-8)


def test_networks_of_a_batch_are_single_ones():
    rng = np.random.default_rng(0)
    X = torch.as_tensor(rng.standard_normal((N, 3)))
    y = (X[:, 0] * X[:, 1] > 0).double()
    weight = torch.as_tensor(drawn(3, rng))
    settings = MLP(epochs=50)
    together = fit_mlp(X, y, settings, weight)(X)
    for b in range(3):
        used = weight[b] > 0
        alone = fit_mlp(X[used], y[used], settings, weight[b : b + 1, used])(X)
        torch.testing.assert_close(together[b], alone[0], rtol=1e-7, atol=1e-9)
