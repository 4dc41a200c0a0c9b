"""The full-line kernel against scipy quadrature, mpmath and autograd."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
import torch
from scipy import integrate
from scipy.special import expit, log_ndtr

from statsmodels_mnar.kernel.full_line import full_line
from statsmodels_mnar.kernel.integration import Nodes, Quadrature, Simulation

from .conftest import SOFT, assert_derivatives_close, derivatives_by_autograd, make_block

SIGMAS = (1e-3, 0.5, 1.0, 3.0, 10.0)
RHOS = (-0.999, -0.9, 0.0, 0.5, 0.99)
CPU = torch.device("cpu")


def nodes_for(sigma: float, rho: float, tol: float = 1e-10) -> Nodes:
    return Quadrature(tol=tol).nodes([sigma], [math.atanh(rho)], CPU)


def kernel(a, b, sigma, rho, block, nodes, order=0):
    lnsigma = torch.tensor([math.log(sigma)], dtype=torch.float64)
    athrho = torch.tensor([math.atanh(rho)], dtype=torch.float64)
    return full_line(a[None], b[None], lnsigma, athrho, block, nodes, order)


def by_quad(a: float, b: float, y: float, s: float, sigma: float, rho: float) -> float:
    """The likelihood of one row by adaptive quadrature on pieces around its kinks."""
    q, root = 2 * y - 1, math.sqrt(1 - rho * rho)

    def log_integrand(e):
        F = (1 - s) + s * expit(q * (a + sigma * e))
        return np.log(F) + log_ndtr((2 * s - 1) * (b + rho * e) / root) - 0.5 * e * e

    kinks = [-a / sigma, -b / rho if rho else 0.0]
    middle = [e for k in kinks for e in (k - 4 * root, k, k + 4 * root) if abs(e) < 20]
    edges = sorted({-20.0, -9.0, -5.0, -2.0, 0.0, 2.0, 5.0, 9.0, 20.0, *middle})
    pieces = [
        integrate.quad(
            lambda e: math.exp(log_integrand(e)), low, high, epsabs=1e-300, epsrel=1e-11, limit=200
        )[0]
        for low, high in itertools.pairwise(edges)
    ]
    return math.fsum(pieces) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize(
    ("rho", "sigma"),
    [  # each value of either by default, all pairs under -m full
        pytest.param(rho, sigma, marks=() if i % 5 == j % 5 else pytest.mark.full)
        for i, rho in enumerate(RHOS)
        for j, sigma in enumerate(SIGMAS)
    ],
)
def test_likelihood_equals_adaptive_quadrature(index_grid, sigma, rho):
    a, b, y = index_grid
    nodes = nodes_for(sigma, rho)
    for s in SOFT:
        block = make_block(y, torch.full_like(y, s), kind="soft" if s < 1 else None)
        value = kernel(a, b, sigma, rho, block, nodes).value[0].exp().numpy()
        expected = [
            by_quad(*row, s, sigma, rho)
            for row in zip(a.tolist(), b.tolist(), y.tolist(), strict=True)
        ]
        np.testing.assert_allclose(value, expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("a", "b", "sigma", "rho"),
    [(0.3, -1.2, 1.0, 0.6), (-4.0, -5.0, 3.0, 0.95), (2.0, 3.0, 8.0, -0.99)],
)
def test_likelihood_equals_mpmath_to_twelve_digits(a, b, sigma, rho):
    def integrand(e):
        z = (b + rho * e) / mpmath.sqrt(1 - mpmath.mpf(rho) ** 2)
        return mpmath.ncdf(z) * mpmath.npdf(e) / (1 + mpmath.exp(-(a + sigma * e)))

    with mpmath.workdps(30):
        expected = mpmath.log(mpmath.quad(integrand, list(range(-16, 17))))
    one = torch.ones(1, dtype=torch.float64)
    value = kernel(a * one, b * one, sigma, rho, make_block(one, one), nodes_for(sigma, rho, 1e-14))
    assert value.value.item() == pytest.approx(float(expected), rel=1e-12)


def direct(nodes: Nodes, block):
    """The plain sum over the nodes, for autograd."""

    def value(a, b, lnsigma, athrho):
        e = nodes.e[0]
        L = torch.sigmoid(block.sign * (a + lnsigma.exp() * e))
        z = block.tilt * (b * athrho.cosh() + e * athrho.sinh())
        F = block.floor + block.gain * L
        total = torch.log(F) + torch.special.log_ndtr(z) + torch.log(nodes.weight[0])
        return torch.logsumexp(total, dim=0)

    return value


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize(
    "s", [0.4, 1.0, *(pytest.param(s, marks=pytest.mark.full) for s in (0.2, 0.6))]
)
def test_derivatives_equal_autograd(index_grid, sigma, rho, s):
    a, b, y = index_grid
    # A wide rule without the log-space path, so that both sides add up the same nodes.
    nodes = nodes_for(sigma, rho)
    block = make_block(y, torch.full_like(y, s))
    terms = kernel(a, b, sigma, rho, block, nodes, order=2)
    ordinary = terms.value[0] > math.log(nodes.floor)
    first, second = derivatives_by_autograd(
        direct(nodes, block),
        a,
        b,
        torch.full_like(a, math.log(sigma)),
        torch.full_like(a, math.atanh(rho)),
    )
    assert_derivatives_close(terms.first[:, 0, ordinary], first[:, ordinary])
    assert_derivatives_close(terms.second[:, 0, ordinary], second[:, ordinary])


@pytest.mark.parametrize("rho", [-0.9, 0.5])
def test_derivatives_of_soft_pseudolabels_equal_autograd(index_grid, rho):
    a, b, y = index_grid
    block = make_block(0.2 + 0.5 * y, torch.full_like(y, 0.4))
    nodes = nodes_for(1.5, rho)
    terms = kernel(a, b, 1.5, rho, block, nodes, order=2)
    ordinary = terms.value[0] > math.log(nodes.floor)
    first, second = derivatives_by_autograd(
        direct(nodes, block),
        a,
        b,
        torch.full_like(a, math.log(1.5)),
        torch.full_like(a, math.atanh(rho)),
    )
    assert_derivatives_close(terms.first[:, 0, ordinary], first[:, ordinary])
    assert_derivatives_close(terms.second[:, 0, ordinary], second[:, ordinary])


@pytest.mark.parametrize("s", [0.4, 1.0])
def test_log_space_path_equals_the_linear_one(index_grid, s):
    """Both paths on the same draws, by making every row look small."""
    a, b, y = index_grid
    block = make_block(y, torch.full_like(y, s))
    draws = Simulation(n_draws=64, kind="mlhs").nodes(block.key)
    everything = Nodes(draws.e, draws.weight, None, math.inf, False)
    linear = kernel(a, b, 1.3, 0.7, block, draws, order=2)
    log = kernel(a, b, 1.3, 0.7, block, everything, order=2)
    torch.testing.assert_close(log.value, linear.value, rtol=1e-12, atol=1e-13)
    assert_derivatives_close(log.first, linear.first, 1e-9)
    assert_derivatives_close(log.second, linear.second, 1e-9)


@pytest.mark.full
def test_recentred_rows_keep_their_relative_accuracy():
    """A selected row that the model thinks impossible: nearly all mass is far from e = 0."""
    a = torch.tensor([-30.0, 2.0, -20.0], dtype=torch.float64)
    b = torch.tensor([-12.0, -25.0, -9.0], dtype=torch.float64)
    one = torch.ones(3, dtype=torch.float64)
    value = kernel(a, b, 2.0, 0.8, make_block(one, one), nodes_for(2.0, 0.8)).value[0]

    def exact(a, b):
        def integrand(e):
            z = (b + mpmath.mpf("0.8") * e) / mpmath.mpf("0.6")
            # scaled up, because mpmath's quad stops at an absolute error
            scale = mpmath.exp(b * b / 2 + 10)
            return scale * mpmath.ncdf(z) * mpmath.npdf(e) / (1 + mpmath.exp(-(a + 2 * e)))

        with mpmath.workdps(40):
            total = mpmath.quad(integrand, list(range(-6, 34, 2)))
            return float(mpmath.log(total) - b * b / 2 - 10)

    expected = [exact(x, z) for x, z in zip(a.tolist(), b.tolist(), strict=True)]
    np.testing.assert_allclose(value.numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("a", "b", "y", "sigma", "rho"),
    [(-9.0, -8.7, 1.0, 42.0, -0.8), (0.8, -9.4, 1.0, 10.8, -0.41), (4.8, -8.0, 0.0, 35.6, 0.65)],
)
@pytest.mark.parametrize("s", [0.9, 0.9999, 1 - 1e-8])
def test_an_unlikely_soft_row_with_two_modes_keeps_both(a, b, y, sigma, rho, s):
    """The floor and the label pull the integrand's mass to places many units apart."""
    one = torch.ones(1, dtype=torch.float64)
    block = make_block(y * one, s * one)
    nodes = nodes_for(sigma, rho)
    value = kernel(a * one, b * one, sigma, rho, block, nodes).value.item()
    assert value < math.log(nodes.floor)
    assert value == pytest.approx(math.log(by_quad(a, b, y, s, sigma, rho)), abs=1e-8)


@pytest.mark.parametrize("sigma", [1e-6, 1.0, 50.0])
@pytest.mark.parametrize("rho", [-0.9999, 0.0, 0.9999])
@pytest.mark.parametrize("s", [0.3, 0.5, 1.0])
def test_extreme_rows_are_finite(sigma, rho, s):
    grid = torch.tensor(list(itertools.product((-40.0, 0.0, 40.0), (-40.0, 0.0, 40.0), (0.0, 1.0))))
    a, b, y = grid.double().T
    block = make_block(y, torch.full_like(y, s))
    terms = kernel(a, b, sigma, rho, block, nodes_for(sigma, rho), order=2)
    for part in (terms.value, terms.first, terms.second):
        assert torch.isfinite(part).all()
    if s == 1.0 and sigma == 1.0:
        assert terms.value.min() < math.log(1e-300)


def test_a_batch_equals_its_members(index_grid):
    a, b, y = index_grid
    block = make_block(y, torch.ones_like(y))
    sigmas, rhos = [0.5, 3.0, 1.0], [0.2, -0.95, 0.99]
    athrho = [math.atanh(r) for r in rhos]
    nodes = Quadrature().nodes(sigmas, athrho, CPU)
    batch = full_line(
        a.expand(3, -1), b.expand(3, -1), torch.tensor(sigmas, dtype=torch.float64).log(),
        torch.tensor(athrho, dtype=torch.float64), block, nodes, 2,
    )  # fmt: skip
    for i, (sigma, rho) in enumerate(zip(sigmas, rhos, strict=True)):
        alone = kernel(a, b, sigma, rho, block, nodes_for(sigma, rho), order=2)
        torch.testing.assert_close(batch.value[i], alone.value[0], rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(batch.second[:, i], alone.second[:, 0], rtol=1e-6, atol=1e-7)
