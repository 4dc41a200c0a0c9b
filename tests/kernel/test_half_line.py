"""The half-line kernel against scipy, mpmath, bivariate normal probabilities and autograd."""

from __future__ import annotations

import functools
import itertools
import math

import mpmath
import numpy as np
import pytest
import torch
from scipy import integrate
from scipy.special import expit, log_ndtr, ndtr
from scipy.stats import multivariate_normal

from statsmodels_mnar.kernel import half_line as halfline
from statsmodels_mnar.kernel.forms import LoadingForm, ProbitForm
from statsmodels_mnar.kernel.full_line import full_line
from statsmodels_mnar.kernel.half_line import STEEP, HalfNodes, half_line
from statsmodels_mnar.kernel.integration import Quadrature
from statsmodels_mnar.kernel.links import CLOGLOG, LOGIT, PROBIT

from .conftest import (
    assert_derivatives_close,
    derivatives_by_autograd,
    log_ndtr_for_autograd,
    make_block,
)

CPU = torch.device("cpu")
LINKS = {"logit": LOGIT, "probit": PROBIT, "cloglog": CLOGLOG}


def label_probability(name, z, q):
    """P(y) at z = q * index, q = 2y - 1."""
    if name == "cloglog":
        return np.where(q > 0, -np.expm1(-np.exp(q * z)), np.exp(-np.exp(q * z)))
    return (expit if name == "logit" else ndtr)(z)


LOADINGS = (-9.0, -1.5, 0.0, 0.3, 3.0)


legendre = functools.cache(np.polynomial.legendre.leggauss)


def kernel(a, b, loading, block, link, order=0, tol=1e-10):
    nodes = HalfNodes.build(abs(loading), tol, link, CPU)
    at = torch.tensor([loading], dtype=torch.float64)
    return half_line(a[None], b[None], at, block, nodes, link, order)


def by_quad(a, b, y, s, loading, name):
    q, side = 2 * y - 1, 1.0 if s >= 0.5 else -1.0

    def integrand(u):
        F = (1 - s) + s * label_probability(name, q * (a + loading * u), q)
        return F * math.exp(-0.5 * u * u) / math.sqrt(2 * math.pi)

    low, high = (-b, max(-b, 0.0) + 12.0) if side > 0 else (min(-b, 0.0) - 12.0, -b)
    inner = [
        e for e in (-a / loading if loading else 0.0, -4.0, -1.0, 0.0, 1.0, 4.0) if low < e < high
    ]
    inner += [low + 1.0 / 8, low + 1.0, high - 1.0, high - 1.0 / 8]
    edges = sorted({low, high, *inner})
    return math.fsum(
        integrate.quad(integrand, x, z, epsabs=1e-300, epsrel=1e-11, limit=200)[0]
        for x, z in itertools.pairwise(edges)
    )


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("loading", LOADINGS)
@pytest.mark.parametrize("s", [0.2, 0.4, 0.6, 1.0])
def test_likelihood_equals_adaptive_quadrature(index_grid, name, loading, s):
    a, b, y = index_grid
    block = make_block(y, torch.full_like(y, s))
    value = kernel(a, b, loading, block, LINKS[name]).value[0].exp().numpy()
    expected = [
        by_quad(*row, s, loading, name)
        for row in zip(a.tolist(), b.tolist(), y.tolist(), strict=True)
    ]
    np.testing.assert_allclose(value, expected, rtol=1e-8)


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("loading", LOADINGS)
@pytest.mark.parametrize("s", [0.4, 1.0])
def test_derivatives_equal_autograd(index_grid, name, loading, s):
    a, b, y = index_grid
    block = make_block(y, torch.full_like(y, s))
    link = LINKS[name]
    terms = kernel(a, b, loading, block, link, order=2, tol=1e-13)
    x, w = legendre(2000 if name == "cloglog" else 700)
    x, w = torch.as_tensor(0.5 * (x + 1))[:, None], torch.as_tensor(0.5 * w)[:, None]
    side = 1.0 if s >= 0.5 else -1.0

    def value(a, b, loading):
        """Autograd through the end point too: u = -b + length * x."""
        b, loading = side * b, side * loading
        mode = (-b).clamp(min=0.0).detach()  # far enough: the density has fallen by exp(-36)
        length = (mode**2 + 200.0).sqrt() + b
        u = -b + length * x
        index = block.sign * (a + loading * u)
        if name == "logit":
            log_L = torch.nn.functional.logsigmoid(index)
        elif name == "cloglog":
            hazard = torch.exp(block.sign * index)
            log_L = torch.where(block.sign > 0, torch.log(-torch.expm1(-hazard)), -hazard)
        else:
            log_L = log_ndtr_for_autograd(index)
        log_phi = -0.5 * u * u - 0.5 * math.log(2 * math.pi)
        log_J = torch.logsumexp(log_L + log_phi + torch.log(length * w), dim=0)
        if s == 1.0:
            return log_J
        rest = math.log(1.0 - s) + log_ndtr_for_autograd(b)
        # logaddexp, whose own second derivative is not a number where one side is negligible
        return rest - torch.nn.functional.logsigmoid(rest - math.log(s) - log_J)

    first, second = derivatives_by_autograd(value, a, b, torch.full_like(a, loading))
    expected = value(a, b, torch.full_like(a, loading))
    # The oracle's nodes do not resolve an exponential that falls to nothing close to the end point.
    kept = expected > -300.0 if name == "cloglog" else expected < 1.0
    assert kept.sum() >= 26
    torch.testing.assert_close(terms.value[0, kept], expected[kept], rtol=1e-9, atol=1e-11)
    assert_derivatives_close(terms.first[:, 0, kept], first[:, kept])
    assert_derivatives_close(terms.second[:, 0, kept], second[:, kept])


@pytest.mark.parametrize("rho", [-0.95, -0.3, 0.0, 0.6, 0.99])
def test_probit_form_is_the_bivariate_normal_probability(rho):
    rng = np.random.default_rng(3)
    a, b = rng.uniform(-2.5, 2.5, (2, 40))
    y = (rng.random(40) < 0.5).astype(float)
    expected = [
        multivariate_normal.cdf(
            [q * x, z], cov=[[1, q * rho], [q * rho, 1]], abseps=1e-12, releps=1e-12, maxpts=10**6
        )
        for x, z, q in zip(a, b, 2 * y - 1, strict=True)
    ]
    form = ProbitForm()
    t = np.array([[math.atanh(rho)]])
    block = make_block(torch.as_tensor(y), torch.ones(40, dtype=torch.float64))
    value = form.terms(
        torch.as_tensor(a)[None], torch.as_tensor(b)[None], torch.as_tensor(t), block,
        form.nodes(t, CPU), 0,
    ).value  # fmt: skip
    np.testing.assert_allclose(value[0].exp().numpy(), expected, rtol=1e-8, atol=1e-13)


def test_probit_form_derivatives_equal_finite_differences():
    """Central differences of the first derivatives: the chain rule from loading to athrho."""
    rng = np.random.default_rng(4)
    a, b = torch.as_tensor(rng.uniform(-2, 2, (2, 1, 30)))
    y = torch.as_tensor((rng.random(30) < 0.5).astype(float))
    block = make_block(y, torch.ones_like(y))
    form = ProbitForm(tol=1e-14)
    t0 = 0.8

    def terms(a, b, t, order):
        nodes = form.nodes(np.array([[t]]), CPU)
        return form.terms(a, b, torch.tensor([[t]], dtype=torch.float64), block, nodes, order)

    at = terms(a, b, t0, 2)
    h = 1e-5
    moved = [
        [
            terms(a + i * h * (j == 0), b + i * h * (j == 1), t0 + i * h * (j == 2), 1)
            for i in (1, -1)
        ]
        for j in range(3)
    ]
    for j, (up, down) in enumerate(moved):
        torch.testing.assert_close(
            at.first[j], (up.value - down.value) / (2 * h), rtol=1e-7, atol=1e-8
        )
    pairs = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
    for row, (i, j) in zip(at.second, pairs, strict=True):
        up, down = moved[j]
        torch.testing.assert_close(
            row, (up.first[i] - down.first[i]) / (2 * h), rtol=1e-6, atol=1e-7
        )


@pytest.mark.parametrize("s", [0.3, 1.0])
def test_it_is_the_limit_of_the_full_line_as_rho_goes_to_one(index_grid, s):
    a, b, y = index_grid
    inner = (a.abs() < 3) & (b.abs() < 3)
    a, b, y = a[inner], b[inner], y[inner]
    block = make_block(y, torch.full_like(y, s))
    rho, sigma = -0.99999, 1.2
    nodes = Quadrature().nodes([sigma], [math.atanh(rho)], CPU)
    full = full_line(
        a[None], b[None], torch.tensor([math.log(sigma)]).double(),
        torch.tensor([math.atanh(rho)]).double(), block, nodes, 0,
    )  # fmt: skip
    half = kernel(a, b, -sigma, block, LOGIT)
    torch.testing.assert_close(full.value, half.value, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("loading", [-50.0, -1e-6, 1.0, 50.0])
@pytest.mark.parametrize("s", [0.3, 1.0])
def test_extreme_rows_are_finite(name, loading, s):
    grid = torch.tensor(list(itertools.product((-40.0, 0.0, 40.0), (-40.0, 0.0, 40.0), (0.0, 1.0))))
    a, b, y = grid.double().T
    terms = kernel(a, b, loading, make_block(y, torch.full_like(y, s)), LINKS[name], order=2)
    for part in (terms.value, terms.first, terms.second):
        assert torch.isfinite(part).all()


@pytest.mark.parametrize("loading", [0.0, 0.4, -1.3, 2.7, -4.999])
@pytest.mark.parametrize("tol", [1e-3, 1e-10])
def test_fewer_nodes_serve_shorter_intervals(loading, tol):
    """The longest interval decides: alone, a row has the terms that a fine rule gives it."""
    counts = set()
    for b in (-7.0, -2.0, -0.1, 0.1, 1.5, 3.0, 6.0, 9.5):  # from short intervals to the whole line
        a = torch.linspace(-10.0, 10.0, 41, dtype=torch.float64)
        y = torch.arange(41, dtype=torch.float64) % 2
        at, block = torch.full_like(a, b), make_block(y, torch.ones_like(y))
        nodes = HalfNodes.build(abs(loading), tol, LOGIT, CPU)
        low = -min(b, nodes.width)
        length = math.hypot(max(low, 0.0), nodes.width) - low
        counts.add(len(nodes.rule(length / (2.0 * nodes.width))[0]))
        found = kernel(a, at, loading, block, LOGIT, order=2, tol=tol)
        exact = kernel(a, at, loading, block, LOGIT, order=2, tol=1e-15)
        torch.testing.assert_close(found.value, exact.value, rtol=0.0, atol=tol)
        for one, other in ((found.first, exact.first), (found.second, exact.second)):
            assert ((one - other).abs() / (1.0 + other.abs())).max() < 20.0 * tol
    assert len(counts) > 2


def test_rows_together_are_integrated_as_the_longest_interval_needs():
    a, y = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    b = torch.tensor([-3.0, 0.5, 8.0], dtype=torch.float64)
    block = make_block(y, torch.ones_like(y))
    together = kernel(a, b, 0.8, block, LOGIT, order=2)
    for i in range(3):
        own = make_block(y[:1], torch.ones(1, dtype=torch.float64))
        alone = kernel(a[:1], b[i : i + 1], 0.8, own, LOGIT, order=2)
        torch.testing.assert_close(together.value[:, i], alone.value[:, 0], rtol=1e-10, atol=0.0)
        torch.testing.assert_close(together.second[..., i], alone.second[..., 0], rtol=0, atol=1e-9)


def test_tiny_probabilities_keep_their_relative_accuracy():
    a, b, loading = -35.0, -11.0, -3.0
    one = torch.ones(1, dtype=torch.float64)
    value = kernel(a * one, b * one, loading, make_block(one, one), LOGIT).value.item()
    with mpmath.workdps(40):
        expected = mpmath.log(
            mpmath.quad(
                # scaled up, because mpmath's quad stops at an absolute error
                lambda u: mpmath.exp(130) * mpmath.npdf(u) / (1 + mpmath.exp(-(a + loading * u))),
                [11 + mpmath.mpf(k) / 4 for k in range(60)],
            )
        )
        expected -= 130
    assert value == pytest.approx(float(expected), rel=1e-11)
    assert value < math.log(1e-55) + float(log_ndtr(0.0))


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("loading", [-1.2, 0.7])
def test_half_selected_rows_are_the_limit_of_the_full_line(index_grid, name, loading):
    """With s' = 1/2 the selection factor is PHI(0) on the whole line, whatever b is."""
    a, b, y = index_grid
    s = torch.full_like(y, 0.5)
    terms = kernel(a, b, loading, make_block(y, s), LINKS[name], order=2)
    x, w = np.polynomial.hermite_e.hermegauss(100)
    q = (2 * y - 1).numpy()[:, None]
    L = label_probability(name, q * (a.numpy()[:, None] + loading * x), q)
    expected = np.log(0.5 * (0.5 + 0.5 * L @ (w / w.sum())))
    np.testing.assert_allclose(terms.value[0], expected, rtol=1e-9)
    assert (terms.first[1] == 0).all()  # in b
    assert (terms.second[[1, 3, 4]] == 0).all()  # ab, bb, b loading
    h = 1e-5
    for i, (da, dl) in enumerate([(h, 0.0), (0.0, h)]):
        up, down = (
            kernel(
                a + k * da, b, loading + k * dl, make_block(y, s), LINKS[name], order=1, tol=1e-13
            )
            for k in (1, -1)
        )
        slope = (up.value - down.value) / (2 * h)
        torch.testing.assert_close(terms.first[2 * i], slope, rtol=1e-6, atol=1e-8)
        curve = (up.first[2 * i] - down.first[2 * i]) / (2 * h)
        torch.testing.assert_close(terms.second[5 * i], curve, rtol=1e-6, atol=1e-8)


def steep_rows(loading: float, n: int = 120) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Indices of ordinary rows, half of them near the step at the end point, and labels."""
    rng = np.random.default_rng(5)
    a, b = abs(loading) * rng.normal(size=n), 1.5 * rng.normal(size=n)
    a[::2] = loading * b[::2] + 2.0 * rng.normal(size=n // 2)
    y = (rng.random(n) < 0.5).astype(float)
    return torch.as_tensor(a), torch.as_tensor(b), torch.as_tensor(y)


@pytest.mark.parametrize("loading", [STEEP + 1e-9, -7.0, 18.0, -50.0])
@pytest.mark.parametrize("s", [1.0, 0.7, 0.2])
def test_large_loadings_are_integrated_over_the_index(loading, s):
    """The same value and derivatives as by thousands of nodes in u."""
    a, b, y = steep_rows(loading)
    block = make_block(y, torch.full_like(y, s))
    form, at = LoadingForm(), torch.tensor([[loading]], dtype=torch.float64)
    nodes = form.nodes(at.numpy(), CPU)
    assert nodes.count < 100 < 2 * HalfNodes.build(abs(loading), form.tol, LOGIT, CPU).count
    found = form.terms(a[None], b[None], at, block, nodes, 2)
    exact = kernel(a, b, loading, block, LOGIT, order=2, tol=1e-14)
    for one, other, tol in (
        (found.value, exact.value, form.tol),
        (found.first, exact.first, 1e-8),
        (found.second, exact.second, 1e-6),  # differences of squares, each up to 1/P
    ):
        torch.testing.assert_close(one, other, rtol=tol, atol=tol)


def test_values_of_large_loadings_are_those_of_scipy():
    a, b, y = steep_rows(12.0, 20)
    at = torch.tensor([[12.0]], dtype=torch.float64)
    nodes = LoadingForm().nodes(at.numpy(), CPU)
    found = LoadingForm().terms(a[None], b[None], at, make_block(y, torch.ones(20)), nodes, 0)
    expected = [
        math.log(by_quad(*row, 1.0, 12.0, "logit"))
        for row in zip(a.tolist(), b.tolist(), y.tolist(), strict=True)
    ]
    np.testing.assert_allclose(found.value[0].numpy(), expected, rtol=0, atol=1e-9)


def test_members_with_small_and_large_loadings_share_a_batch():
    a, b, y = steep_rows(6.0)
    block = make_block(y, torch.ones_like(y))
    at = torch.tensor([[0.5], [-30.0], [6.0]], dtype=torch.float64)
    form, three = LoadingForm(), torch.ones(3, 1, dtype=torch.float64)
    together = form.terms(three * a, three * b, at, block, form.nodes(at.numpy(), CPU), 1)
    for m in range(3):
        one = at[m : m + 1]
        alone = form.terms(a[None], b[None], one, block, form.nodes(one.numpy(), CPU), 1)
        torch.testing.assert_close(together.value[m], alone.value[0], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(together.first[:, m], alone.first[:, 0], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("loading", [0.8, 20.0])
def test_ordinary_rows_do_not_enter_log_space(loading, monkeypatch):
    """It finds a mode by bisection, which costs more than all the rest of a small evaluation."""
    a, b = torch.linspace(-1.0, 1.0, 50), torch.linspace(1.0, -0.5, 50)
    block = make_block(torch.ones(50), torch.ones(50))
    monkeypatch.setattr(halfline, "_log_space", None)  # calling it would fail
    at = torch.tensor([[loading]], dtype=torch.float64)
    nodes = LoadingForm().nodes(at.numpy(), CPU)
    terms = LoadingForm().terms(a[None].double(), b[None].double(), at, block, nodes, 2)
    assert torch.isfinite(terms.value).all()
