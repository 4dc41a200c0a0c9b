"""Quadrature rules and simulation as ways to the same integral."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from statsmodels_mnar.kernel.full_line import full_line
from statsmodels_mnar.kernel.integration import (
    DRAW_KINDS,
    Quadrature,
    Simulation,
    as_integration,
    legendre_count,
    node_sums,
)

from .conftest import make_block

CPU = torch.device("cpu")
SIGMAS, RHOS = (1e-3, 1.0, 4.0, 20.0), (0.0, 0.6, -0.95, 0.999)


def log_likelihoods(nodes, sigma, rho, n=300, s=1.0, reach=4.0):
    """Rows with random indices of at most ``reach``."""
    rng = np.random.default_rng(0)
    a, b = torch.as_tensor(rng.uniform(-reach, reach, (2, 1, n)))
    y = torch.as_tensor((rng.random(n) < 0.5).astype(float))
    lnsigma = torch.tensor([math.log(sigma)], dtype=torch.float64)
    athrho = torch.tensor([math.atanh(rho)], dtype=torch.float64)
    block = make_block(y, torch.full_like(y, s))
    nodes = nodes(block) if callable(nodes) else nodes
    return full_line(a, b, lnsigma, athrho, block, nodes, 0).value[0].numpy()


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("tol", [pytest.param(1e-5, marks=pytest.mark.full), 1e-10, 1e-13])
def test_trapezoid_keeps_its_promise(sigma, rho, tol):
    step = Quadrature(tol=tol).nodes([sigma], [math.atanh(rho)], CPU)
    fine = Quadrature(n_nodes=6 * step.count).nodes([sigma], [math.atanh(rho)], CPU)
    for s in (1.0, 0.4):
        error = log_likelihoods(step, sigma, rho, s=s) - log_likelihoods(fine, sigma, rho, s=s)
        assert np.abs(error).max() < max(tol, 1e-12)  # the sums themselves round


def test_weights_are_those_of_the_standard_normal():
    nodes = [
        Quadrature().nodes([1.0], [0.5], CPU),
        Quadrature(n_nodes=50).nodes([1.0], [0.5], CPU),
        Quadrature(rule="gauss-hermite").nodes([1.0], [0.5], CPU),
    ]
    for rule in nodes:
        for power, moment in ((0, 1.0), (1, 0.0), (2, 1.0), (4, 3.0)):
            assert float((rule.weight * rule.e**power).sum()) == pytest.approx(moment, abs=1e-10)
    drawn = Simulation(n_draws=7).nodes(torch.arange(3))
    assert float((drawn.weight * torch.ones_like(drawn.e)).sum(1)[0, 0]) == pytest.approx(1.0)


def test_nodes_of_a_batch_are_those_of_its_members_padded_with_zero_weight():
    sigma, athrho = [0.5, 4.0, 1.0], [0.1, 2.0, -1.0]
    batch = Quadrature().nodes(sigma, athrho, CPU)
    counts = []
    for i in range(3):
        alone = Quadrature().nodes(sigma[i : i + 1], athrho[i : i + 1], CPU)
        used = batch.weight[i, :, 0] > 0
        torch.testing.assert_close(batch.e[i, used], alone.e[0], rtol=1e-14, atol=1e-15)
        torch.testing.assert_close(batch.weight[i, used], alone.weight[0], rtol=1e-14, atol=0.0)
        counts.append(alone.count)
    assert batch.count == max(counts) > min(counts)


def test_fixed_number_of_nodes():
    for count in (31, 32):
        nodes = Quadrature(n_nodes=count).nodes([1.0], [0.5], CPU)
        assert nodes.count == count
        torch.testing.assert_close(nodes.e, -nodes.e.flip(1), rtol=0.0, atol=1e-14)
        assert nodes.weight.sum().item() == pytest.approx(1.0, abs=1e-10)


def test_gauss_hermite_is_exact_for_polynomials_and_good_at_moderate_dependence():
    nodes = Quadrature("gauss-hermite").nodes([1.0, 1.0], [0.0, 0.5], CPU)
    assert nodes.count == 32
    moments = [(nodes.weight * nodes.e**k).sum(1)[1, 0].item() for k in (0, 2, 4, 6)]
    np.testing.assert_allclose(moments, [1.0, 1.0, 3.0, 15.0], rtol=1e-12)
    one = Quadrature("gauss-hermite", n_nodes=64).nodes([1.0], [math.atanh(0.6)], CPU)
    exact = Quadrature(tol=1e-13).nodes([1.0], [math.atanh(0.6)], CPU)
    np.testing.assert_allclose(
        log_likelihoods(one, 1.0, 0.6), log_likelihoods(exact, 1.0, 0.6), rtol=1e-11
    )


def test_gauss_hermite_fails_where_the_documentation_says_so():
    bad = Quadrature("gauss-hermite").nodes([1.0], [math.atanh(0.99)], CPU)
    exact = Quadrature().nodes([1.0], [math.atanh(0.99)], CPU)
    error = log_likelihoods(bad, 1.0, 0.99) - log_likelihoods(exact, 1.0, 0.99)
    assert np.abs(error).max() > 1e-3


@pytest.mark.parametrize("kind", DRAW_KINDS)
def test_draws_converge_to_the_quadrature_value(kind):
    def values(nodes):
        return log_likelihoods(nodes, 1.0, math.tanh(0.7), reach=1.5)

    exact = values(Quadrature().nodes([1.0], [0.7], CPU))

    def error(n_draws):
        draws = Simulation(n_draws=n_draws, kind=kind)
        return np.sqrt(np.mean((values(lambda block: draws.nodes(block.key)) - exact) ** 2))

    few, many = error(32), error(2_048)
    # 64 times the draws: independent ones gain a factor of 8, stratified ones about 64.
    assert many < few / (5.0 if kind in ("random", "antithetic") else 20.0)
    assert many < (0.05 if kind in ("random", "antithetic") else 2e-3)


def test_node_sums_agree_between_shared_nodes_and_draws():
    nodes = Quadrature(n_nodes=9).nodes([1.0], [0.0], CPU)
    product = torch.rand(1, 9, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = torch.stack([(nodes.weight * nodes.e**j * product).sum(1) for j in range(3)])
    torch.testing.assert_close(node_sums(product, nodes, 3), expected)
    draws = Simulation(n_draws=9, kind="random").nodes(torch.arange(5))
    expected = torch.stack([(draws.e**j * product).mean(1) for j in range(3)])
    torch.testing.assert_close(node_sums(product, draws, 3), expected)


@pytest.mark.parametrize("entire", [False, True])
def test_half_line_rules_grow_with_the_loading_and_the_accuracy(entire):
    counts = [legendre_count(x, 1e-10, entire=entire) for x in (0.0, 1.0, 5.0, 20.0)]
    assert counts == sorted(counts)
    assert legendre_count(1.0, 1e-13, entire=entire) > legendre_count(1.0, 1e-6, entire=entire)


def test_generator_as_rng_gives_one_seed_and_redrawing_other_ones():
    first = Simulation(rng=np.random.default_rng(5))
    assert first == Simulation(rng=np.random.default_rng(5))
    assert isinstance(first.rng, int)
    seeds = {first.again(step).seed for step in range(50)} | {first.seed}
    assert len(seeds) == 51
    assert first.again(3) == first.again(3)


def test_names_stand_for_the_default_objects():
    assert as_integration("quadrature") == Quadrature()
    assert as_integration("simulation") == Simulation()
    assert as_integration(Quadrature(tol=1e-6)).tol == 1e-6
    with pytest.raises(ValueError, match="integration='montecarlo'"):
        as_integration("montecarlo")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Quadrature("simpson"), "rule='simpson'"),
        (lambda: Quadrature(n_nodes=1), "n_nodes=1"),
        (lambda: Quadrature(n_nodes=32.0), "n_nodes=32.0"),
        (lambda: Quadrature(n_nodes=True), "n_nodes=True"),
        (lambda: Quadrature(tol=0.0), "tol=0.0"),
        (lambda: Quadrature(tol=math.nan), "tol=nan"),
        (lambda: Quadrature(tol="small"), "tol='small'"),
        (lambda: Simulation(n_draws=0), "n_draws=0"),
        (lambda: Simulation(n_draws="many"), "n_draws='many'"),
        (lambda: Simulation(n_draws=201, kind="antithetic"), "n_draws=201 must be even"),
        (lambda: Simulation(kind="faure"), "kind='faure'"),
        (lambda: Simulation(rng=-1), "rng=-1"),
        (lambda: Simulation(rng=None), "rng=None"),
        (lambda: Simulation(rng=1.5), "rng=1.5"),
        (lambda: Simulation(redraw="yes"), "redraw='yes'"),
    ],
)
def test_bad_options_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_more_nodes_than_a_machine_holds_are_refused():
    with pytest.raises(ValueError, match=r"athrho=20 need .* nodes"):
        Quadrature().nodes([1.0], [20.0], CPU)
