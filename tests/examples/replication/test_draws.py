"""Two nodes stand for 200 draws: the same loss, slope and path; the right distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.stats import chi2, kstest, norm

from examples.replication.draws import FreshDraws, SummarizedDraws, summarize
from statsmodels_mnar import BiasCorrLogit
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.kernel.forms import FreeForm
from statsmodels_mnar.kernel.rows import Rows
from statsmodels_mnar.optimize.objective import Objective


@dataclass(frozen=True, slots=True)
class SameDraws(FreshDraws):
    """The draws of FreshDraws, summarized."""

    def nodes(self, keys):
        return summarize(FreshDraws.nodes(self, keys))


@pytest.fixture(scope="module")
def data():
    return simulate_greene(1_500, rng=5).data


def designs(data):
    one = np.ones(len(data))
    return np.column_stack([one, data.x1, data.x2]), np.column_stack(
        [one, data.x1, data.x2, data.z]
    )


@pytest.mark.parametrize("size", [0.01, 0.06])
def test_loss_and_slope_are_those_of_the_draws(data, size):
    """The remainder is of third order in (sigma, rho); 0.06 is the largest on the paper's path."""
    X, W = designs(data)
    soft = np.where(data.s == 1, 1.0, 0.3)
    rows = Rows.build(X, W, y=data.y_full.to_numpy(), s=soft)
    theta = np.r_[-0.4, 0.7, -0.5, 0.2, 0.4, 0.2, 0.6, np.log(size), np.arctanh(size)]
    full, two = (
        Objective(rows, FreeForm(kind(200, "random", rng=1))).evaluate(theta, 1)
        for kind in (FreshDraws, SameDraws)
    )
    assert float(two.value[0]) == pytest.approx(float(full.value[0]), rel=3.0 * size**3)
    # Slopes of a mean loss of order one, so absolute; in lnsigma and athrho.
    gap = (two.score - full.score).abs().max() / len(data)
    assert float(gap) < 3.0 * size**3


def test_nodes_have_the_distribution_of_mean_and_spread():
    """Against the theory and against draws that are made."""
    keys = torch.arange(4_000)
    made = summarize(FreshDraws(50, "random", rng=2).nodes(keys))
    drawn = SummarizedDraws(rng=2, of=50).nodes(keys)
    for nodes in (made, drawn):
        low, high = nodes.e[0].numpy()
        mean, spread = 0.5 * (high + low), 0.5 * (high - low)
        assert kstest(mean * np.sqrt(50), norm.cdf).pvalue > 1e-3
        assert kstest(spread**2 * 50, chi2(49).cdf).pvalue > 1e-3
        assert abs(np.corrcoef(mean, spread)[0, 1]) < 4 / np.sqrt(4_000)


def test_steps_and_blocks_have_draws_of_their_own():
    for draws in (FreshDraws(4, "random", rng=3), SummarizedDraws(rng=3)):
        assert draws.redraw
        first = draws.nodes(torch.arange(5)).e
        assert torch.equal(first, draws.nodes(torch.arange(5)).e)
        assert not torch.isclose(first, draws.nodes(torch.arange(5, 10)).e).any()
        assert not torch.isclose(first, draws.again(1).nodes(torch.arange(5)).e).any()


def test_descent_takes_the_same_path(data):
    """The paper's optimiser with each draw, and with their summary: the same end."""
    X, W = designs(data)
    fits = [
        BiasCorrLogit(
            data.y, X, data.s, W, soft_selection=0.3, integration=kind(200, "random", rng=4)
        ).fit(method="sgd", tol=1e-3)
        for kind in (FreshDraws, SameDraws)
    ]
    assert fits[0].solution.n_iter == fits[1].solution.n_iter > 50
    np.testing.assert_allclose(*(np.asarray(fit.params) for fit in fits), atol=1e-5)
