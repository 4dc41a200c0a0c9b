"""The draws belong to a row: not to its place, its block or its device."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from statsmodels_mnar.kernel.integration import DRAW_KINDS, normal_draws, uniform_points

KINDS = pytest.mark.parametrize("kind", DRAW_KINDS)
KEYS = torch.arange(400)


@KINDS
def test_a_row_keeps_its_draws_in_any_block_and_order(kind):
    whole = normal_draws(KEYS, 64, kind, 3)
    shuffled = torch.as_tensor(np.random.default_rng(0).permutation(len(KEYS)))
    assert torch.equal(normal_draws(KEYS[shuffled], 64, kind, 3), whole[shuffled])
    for size in (1, 7, 150):
        blocks = [normal_draws(keys, 64, kind, 3) for keys in KEYS.split(size)]
        assert torch.equal(torch.cat(blocks), whole)


@KINDS
def test_a_key_is_an_identity_and_not_a_position(kind):
    keys = torch.tensor([5, -3, 5, 2**60])
    draws = uniform_points(keys, 16, kind, 0)
    assert torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[3])


@KINDS
def test_the_seed_decides_and_nothing_else_does(kind):
    again = uniform_points(KEYS, 16, kind, 1)
    assert torch.equal(uniform_points(KEYS, 16, kind, 1), again)
    assert not torch.isclose(uniform_points(KEYS, 16, kind, 2), again).any(dim=1).all()


@KINDS
def test_points_are_uniform_and_inside_the_unit_interval(kind):
    """The first point of each row is uniform over rows, and all points are on the whole."""
    points = uniform_points(torch.arange(5_000), 20, kind, 4)
    assert points.shape == (5_000, 20)
    assert points.min() > 0.0
    assert points.max() < 1.0
    # Fixed seed: a p-value below 1e-3 would be an accident once in a thousand seeds.
    first = points[:, 0] * (20 if kind == "mlhs" else 1)
    assert stats.kstest(first.numpy(), "uniform").pvalue > 1e-3
    counts = torch.histc(points, bins=20, min=0.0, max=1.0)
    # Independent points have a standard deviation of about 70 around 5,000; the others less.
    assert (counts - 5_000).abs().max() < 350


@KINDS
def test_rows_are_uncorrelated(kind):
    """Neighbouring keys share no stream: correlations of 400 row means are noise, below 4/sqrt."""
    shift = uniform_points(torch.arange(4_001), 2, kind, 0)[:, 0].numpy()
    assert abs(np.corrcoef(shift[1:], shift[:-1])[0, 1]) < 4 / math.sqrt(4_000)


def test_antithetic_draws_come_in_pairs_of_opposite_sign():
    draws = normal_draws(KEYS, 40, "antithetic", 0)
    # ndtri(1 - u) and -ndtri(u) may differ by rounding
    torch.testing.assert_close(draws[:, :20], -draws[:, 20:], rtol=1e-12, atol=1e-12)
    assert draws.sum(1).abs().max() < 1e-10


def test_mlhs_has_one_point_in_every_stratum():
    points = uniform_points(KEYS, 25, "mlhs", 0)
    assert torch.equal(
        (points * 25).floor(), torch.arange(25.0, dtype=torch.float64).expand(400, 25)
    )


@pytest.mark.parametrize("kind", ["halton", "sobol"])
def test_a_power_of_two_of_a_sequence_is_balanced(kind):
    """Shifted modulo 1 or digitally, 32 points still meet each of 32 equal parts once."""
    points = uniform_points(KEYS, 32, kind, 0)
    parts = ((points - (points[:, :1] if kind == "halton" else 0.0)) % 1.0 * 32 + 1e-9).floor()
    assert torch.equal(
        parts.sort(dim=1).values, torch.arange(32.0, dtype=torch.float64).expand(400, 32)
    )


def test_normal_draws_have_the_moments_of_the_normal():
    draws = normal_draws(torch.arange(2_000), 50, "random", 0)
    # standard errors: 1/sqrt(1e5) = 0.003 of the mean, sqrt(2/1e5) = 0.0045 of the variance
    assert abs(draws.mean().item()) < 0.013
    assert abs(draws.var().item() - 1.0) < 0.018


def test_last_stratum_never_rounds_up_to_one(monkeypatch):
    """An offset within rounding of 1 would give an infinite draw."""
    from statsmodels_mnar.kernel import integration as draws

    monkeypatch.setattr(draws, "_bits", lambda state, number: torch.full((1, 1), 2**52 - 1))
    assert torch.isfinite(normal_draws(torch.tensor([0]), 200, "mlhs", 0)).all()
