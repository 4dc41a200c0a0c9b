"""The free form in the coordinates (mix, atcorr)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from statsmodels_mnar.kernel.forms import (
    CorrelationForm,
    FreeForm,
    LoadingForm,
    ProbitForm,
    _to_free,
    outcome_scale,
)
from statsmodels_mnar.kernel.rows import Rows
from statsmodels_mnar.optimize.objective import Objective

POINTS = [[m, t] for m in (-5.0, -0.7, 0.0, 3.0) for t in (-1.5, -0.2, 0.3, 2.0)]


@pytest.fixture(scope="module")
def rows() -> Rows:
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(60), rng.standard_normal(60)])
    W = np.column_stack([X, rng.standard_normal(60)])
    s = (rng.random(60) < 0.6).astype(float)
    y = np.where(s == 1, rng.random(60) < 0.5, np.nan)
    return Rows.build(X, W, y, s, offset=0.3 * rng.standard_normal(60))


def by_definition(at: torch.Tensor) -> torch.Tensor:
    c = at[1].tanh()
    k = c.abs() + (1 - c.abs()) * at[0].sigmoid()
    sigma = math.pi / math.sqrt(3) * k / (1 - k * k).sqrt()
    return torch.stack([sigma.log(), torch.atanh(c / k)])


@pytest.mark.parametrize("point", POINTS)
def test_map_and_its_derivatives_are_those_of_the_definition(point):
    at = torch.tensor(point, dtype=torch.float64)
    values, slope, curve = _to_free(at[None])
    torch.testing.assert_close(values[0], by_definition(at), rtol=1e-10, atol=1e-12)
    jacobian = torch.autograd.functional.jacobian(by_definition, at)
    torch.testing.assert_close(slope[:, 0], jacobian.flatten(), rtol=1e-8, atol=1e-9)
    second = [
        torch.autograd.functional.hessian(lambda v, i=i: by_definition(v)[i], at) for i in (0, 1)
    ]
    upper = torch.stack([h[i, j] for h in second for i, j in ((0, 0), (0, 1), (1, 1))])
    torch.testing.assert_close(curve[:, 0], upper, rtol=1e-7, atol=1e-8)


def test_zero_correlation_is_rho_zero_at_any_sigma():
    at = torch.tensor([[-2.0, 0.0], [2.0, 0.0]], dtype=torch.float64)
    values = CorrelationForm().free_values(at)
    assert (values[:, 1] == 0.0).all()
    assert values[0, 0] < values[1, 0]


def test_objective_is_the_free_one_at_the_same_point(rows):
    theta = np.array([0.2, -0.4, 0.3, 0.1, 0.5, 0.6, -0.7])
    free = CorrelationForm().free_values(torch.as_tensor(theta[None, -2:])).numpy()[0]
    raw = np.concatenate([theta[:2] * outcome_scale(np.exp(free[0])), theta[2:5], free])
    ours = Objective(rows, CorrelationForm()).evaluate(theta, 0).value
    torch.testing.assert_close(ours, Objective(rows, FreeForm()).evaluate(raw, 0).value)


def test_score_and_hessian_are_finite_differences_of_the_value(rows):
    objective = Objective(rows, CorrelationForm())
    theta = np.array([0.2, -0.4, 0.3, 0.1, 0.5, 0.6, -0.7])
    at, step = objective.evaluate(theta, 2), 1e-5
    moved = [objective.evaluate(theta + sign * step * np.eye(7), 1) for sign in (1, -1)]
    score = (moved[0].value - moved[1].value) / (2 * step)
    torch.testing.assert_close(at.score[0], score, rtol=1e-6, atol=1e-6)
    hessian = (moved[0].score - moved[1].score) / (2 * step)
    torch.testing.assert_close(at.hessian[0], hessian, rtol=1e-6, atol=1e-5)


def test_ends_of_mix_are_the_loading_and_the_probit_form(rows):
    coef, atcorr = np.array([0.2, -0.4, 0.3, 0.1, 0.5]), 0.6

    def values(q: float) -> tuple[float, float]:
        """The form near an end, and its outcome coefficients' scale."""
        theta = np.concatenate([coef, [math.log(q / (1 - q)), atcorr]])
        lnsigma = CorrelationForm().free_values(torch.as_tensor(theta[None, -2:]))[0, 0]
        value = Objective(rows, CorrelationForm()).evaluate(theta, 0).value.item()
        return value, outcome_scale(math.exp(lnsigma))

    near, scale = values(1e-4)
    loading = np.concatenate([coef, [math.pi / math.sqrt(3) * math.sinh(atcorr)]])
    loading[:2] *= scale
    face = Objective(rows, LoadingForm()).evaluate(loading, 0).value.item()
    assert near == pytest.approx(face, abs=2e-2)
    assert abs(values(1e-3)[0] - face) > abs(near - face)

    bare = Rows.build(
        rows.unsort(rows.X).mT.numpy(), rows.unsort(rows.W).mT.numpy(),
        rows.unsort(0.5 * (1 + rows.sign)).numpy(), rows.unsort(rows.gain).numpy(),
    )  # fmt: skip
    theta = np.concatenate([coef, [math.log(1e4), atcorr]])
    near = Objective(bare, CorrelationForm()).evaluate(theta, 0).value.item()
    probit = np.concatenate([coef, [atcorr]])
    probit[:2] *= math.sqrt(3) / math.pi
    face = Objective(bare, ProbitForm()).evaluate(probit, 0).value.item()
    assert near == pytest.approx(face, abs=1e-2)
