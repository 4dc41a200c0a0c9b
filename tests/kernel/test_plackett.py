"""Plackett's integral against mpmath, the half line, many more nodes, and at its switches."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch

from statsmodels_mnar.kernel import forms
from statsmodels_mnar.kernel.bivariate import (
    CORNER,
    PlackettNodes,
    near_corner,
    plackett,
    plackett_counts,
)
from statsmodels_mnar.kernel.forms import ProbitForm

from .conftest import make_block

CPU = torch.device("cpu")
GRID = torch.linspace(-6.0, 6.0, 25, dtype=torch.float64)
A, B = (v.reshape(1, -1) for v in torch.meshgrid(GRID, GRID, indexing="ij"))
# And rows near the diagonals, where the density is steep for a large correlation.
A, B = torch.cat([A, B + 0.01 * A, -B + 0.1 * A], 1), torch.cat([B, B, B], 1)
CORRELATIONS = (-4.9, -3.0, -1.4, -0.5, 0.0, 0.2, 0.9, 1.83, 2.6, CORNER)  # atanh of


def of_form(t: float, y: float, order: int, tol: float = 1e-10):
    form, at = ProbitForm(tol), torch.tensor([[t]], dtype=torch.float64)
    n = A.shape[1]
    block = make_block(torch.full((n,), y, dtype=torch.float64), torch.ones(n))
    return form.terms(A, B, at, block, form.nodes(at.numpy(), CPU), order), block, form


@pytest.mark.parametrize("y", [0.0, 1.0])
@pytest.mark.parametrize("t", CORRELATIONS)
def test_it_equals_the_half_line(t, y):
    found, block, _ = of_form(t, y, 2)
    at = torch.tensor([t], dtype=torch.float64)
    half = ProbitForm(1e-13)._by_half_line(A, B, at, block, abs(t), 2)
    likely = half.value[0] > -18.0  # the others are those of the half line
    size = 1.0 + half.first.abs()
    assert ((found.value - half.value).abs()[:, likely] < 5e-10).all()
    assert ((found.first - half.first).abs() / size)[..., likely].max() < 1e-8
    # second derivatives in h and k are of the size of the squares of the first
    square = 1.0 + half.second.abs() + half.first.abs().amax(0) ** 2
    assert ((found.second - half.second).abs() / square)[..., likely].max() < 1e-8


@pytest.mark.parametrize("tol", [1e-5, 1e-10, 1e-13])
def test_nodes_are_enough(tol):
    """Against five times as many, within the rounding of what is subtracted from one."""
    for t in CORRELATIONS:
        at = np.array([t])
        sign = torch.ones(1, dtype=torch.float64)
        few = PlackettNodes.build(at, tol, CPU)
        many = PlackettNodes.build(at, tol**5, CPU)
        assert many.count > 2 * few.count
        for q in (sign, -sign):
            found, small = plackett(A, B, torch.as_tensor(at), q, few, 0)
            exact, _ = plackett(A, B, torch.as_tensor(at), q, many, 0)
            error = (found.value - exact.value).abs()[~small]
            assert error.max() < max(tol, 1e-11)


def test_more_correlation_takes_more_nodes():
    counts = plackett_counts(np.array([0.0, 0.5, -1.0, 2.0, -CORNER]), 1e-10)
    assert (np.diff(counts) >= 0).all()
    assert counts[0] < 16
    assert 48 <= counts[-1] <= 80


@pytest.mark.parametrize(("a", "b", "t", "y"), [(0.4, -0.3, 0.7, 1), (-2.0, -2.5, 1.8, 0)])
def test_a_row_is_the_bivariate_normal_probability(a, b, t, y):
    form, at = ProbitForm(1e-13), torch.tensor([[t]], dtype=torch.float64)
    one = torch.ones(1, dtype=torch.float64)
    value = form.terms(
        a * one[None], b * one[None], at, make_block(y * one, one), form.nodes(at.numpy(), CPU), 0
    ).value.item()
    q = 2 * y - 1
    with mpmath.workdps(30):
        r = q * mpmath.tanh(t)

        def inner(u):  # u of the selection error, below b
            return mpmath.npdf(u) * mpmath.ncdf((q * a - r * u) / mpmath.sqrt(1 - r * r))

        expected = mpmath.log(mpmath.quad(inner, [-30, -8, -4, -2, b]))
    assert value == pytest.approx(float(expected), abs=1e-12)


@pytest.mark.parametrize("t", [0.9, 2.6])
def test_small_probabilities_are_left_to_the_half_line(t, monkeypatch):
    """At the switch the two agree, on both of its sides."""
    found, block, form = of_form(t, 0.0, 1)
    at = torch.tensor([t], dtype=torch.float64)
    nodes = PlackettNodes.build(at.numpy(), form.tol, CPU)
    own, small = plackett(A, B, at, block.sign, nodes, 1)
    assert 0.05 < small.double().mean() < 0.6
    half = form._by_half_line(A, B, at, block, nodes.steepest, 1)
    assert torch.equal(found.value[~small], own.value[~small])
    torch.testing.assert_close(found.value[small], half.value[small], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.first[:, small], half.first[:, small], rtol=1e-8, atol=1e-8)
    monkeypatch.setattr(forms, "_ROWS_APART", 7)
    parts, _, _ = of_form(t, 0.0, 1)
    torch.testing.assert_close(parts.value, found.value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("t", [CORNER, -CORNER])
def test_it_goes_over_into_the_corner(t):
    for y in (0.0, 1.0):
        found, block, _ = of_form(t, y, 1)
        corner = near_corner(A, B, torch.tensor([t], dtype=torch.float64), block.sign, 1)
        likely = corner.value > -15.0
        torch.testing.assert_close(found.value[likely], corner.value[likely], rtol=0, atol=1e-9)


def test_members_have_nodes_of_their_own():
    rng = np.random.default_rng(0)
    a, b = (torch.as_tensor(v) for v in rng.normal(size=(2, 3, 40)))
    t = torch.tensor([[0.1], [-2.0], [1.0]], dtype=torch.float64)
    y = torch.as_tensor((rng.random(40) < 0.5).astype(float))
    form, block = ProbitForm(), make_block(y, torch.ones(40))
    together = form.terms(a, b, t, block, form.nodes(t.numpy(), CPU), 2)
    for m in range(3):
        own = form.terms(
            a[m : m + 1],
            b[m : m + 1],
            t[m : m + 1],
            block,
            form.nodes(t[m : m + 1].numpy(), CPU),
            2,
        )
        torch.testing.assert_close(together.value[m], own.value[0], rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(together.second[:, m], own.second[:, 0], rtol=1e-8, atol=1e-8)


def test_far_rows_stay_finite():
    far = torch.tensor([[-40.0, 40.0, -40.0, 40.0, 0.0]], dtype=torch.float64)
    other = torch.tensor([[-40.0, -40.0, 40.0, 40.0, -40.0]], dtype=torch.float64)
    form = ProbitForm()
    for t in (0.5, -3.0):
        at = torch.tensor([[t]], dtype=torch.float64)
        for y in (0.0, 1.0):
            block = make_block(torch.full((5,), y, dtype=torch.float64), torch.ones(5))
            terms = form.terms(far, other, at, block, form.nodes(at.numpy(), CPU), 2)
            assert all(torch.isfinite(v).all() for v in (terms.value, terms.first, terms.second))
            assert math.isfinite(float(terms.value.sum()))
