"""Weights that partitions draw for themselves are a bootstrap of all rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from statsmodels_mnar.kernel.forms import LoadingForm
from statsmodels_mnar.kernel.rows import Rows
from statsmodels_mnar.large.execution import LocalPartitions, Store
from statsmodels_mnar.large.partitions import (
    Clusters,
    Codes,
    PartitionedRows,
    ResampledObjective,
    Resamples,
    draw_resamples,
)
from statsmodels_mnar.optimize.objective import Objective

N, CUTS = 24, (0, 4, 4, 15, 24)  # one partition has no rows
B = 4_000
OWN = np.random.default_rng(5).integers(1, 4, N).astype(float)
GROUPS = np.random.default_rng(6).integers(0, 7, N)  # across partitions


def whole() -> Rows:
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(N), rng.standard_normal(N)])
    s = (rng.random(N) < 0.6).astype(float)
    y = np.where(s == 1, rng.random(N) < 0.5, np.nan)
    return Rows.build(X, X, y, s, weights=OWN, key=np.arange(N))


def partitions(values: list, memory: int = 2**20) -> LocalPartitions:
    loaders = [lambda value=value: value for value in values]
    return LocalPartitions(loaders, [f"part {i}" for i in range(len(values))], Store(memory))


def cut() -> PartitionedRows:
    rows = whole()
    pieces = [
        rows.take(np.flatnonzero((rows.key >= low) & (rows.key < high)))
        for low, high in pairwise(CUTS)
    ]
    return PartitionedRows.gathered(partitions(pieces))


def clusters(rows: PartitionedRows) -> Clusters:
    parts = partitions(list(rows.parts.map(lambda part: part)), memory=0)
    codes = parts.derive(lambda part: Codes(GROUPS[part.key.numpy()]), keep=True)
    return Clusters(codes, 7)


def weights(rows: PartitionedRows, draws: Resamples) -> np.ndarray:
    """(B, N) in the order of the keys."""
    found = np.zeros((len(draws), N))
    for key, weight in draws.rows(rows).parts.map(lambda part: (part.key, part.weight)):
        found[:, key.numpy()] = weight.numpy()
    return found


def draw(rows: PartitionedRows, count: int = B, **how) -> Resamples:
    return draw_resamples(rows, count, np.random.default_rng(1), **how)


@pytest.mark.parametrize(
    ("how", "mean", "covariance"),
    [
        ({}, OWN, np.outer(OWN, OWN) * (np.eye(N) - 1 / N)),
        ({"counts": True}, OWN, np.diag(OWN) - np.outer(OWN, OWN) / OWN.sum()),
        ({"weighted": True}, OWN, np.diag(OWN**2)),
        ({"weighted": True, "counts": True}, OWN, np.diag(OWN)),
    ],
    ids=["pairs", "counts", "exponential", "gamma"],
)
def test_rows_have_the_moments_of_the_bootstrap(how, mean, covariance):
    """Those of a multinomial over all rows, or of exponential weights: partitions do not show."""
    found = weights(rows := cut(), draw(rows, **how))
    np.testing.assert_allclose(found.mean(0), mean, atol=5 * np.sqrt(9 / B))
    np.testing.assert_allclose(np.cov(found.T), covariance, atol=6 * 9 * np.sqrt(8 / B))
    if not how:
        assert ((found / OWN).sum(1) == N).all()
    if how == {"counts": True}:
        assert (found.sum(1) == OWN.sum()).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_clusters_have_one_weight_wherever_their_rows_are(weighted):
    rows = cut()
    found = weights(rows, draw(rows, clusters=clusters(rows), weighted=weighted)) / OWN
    by_cluster = np.stack([found[:, g == GROUPS][:, 0] for g in range(7)], axis=1)
    np.testing.assert_allclose(found, by_cluster[:, GROUPS], rtol=1e-12)
    np.testing.assert_allclose(by_cluster.mean(0), 1.0, atol=5 / np.sqrt(B))
    covariance = np.eye(7) - (0.0 if weighted else 1 / 7)
    np.testing.assert_allclose(np.cov(by_cluster.T), covariance, atol=6 * np.sqrt(8 / B))
    if not weighted:
        assert (np.rint(by_cluster.sum(1)) == 7).all()


def test_every_pass_and_every_choice_of_members_draws_the_same():
    rows = cut()
    for how in ({}, {"counts": True}, {"clusters": clusters(rows)}):
        draws = draw(rows, 5, **how)
        first = weights(rows, draws)
        np.testing.assert_array_equal(first, weights(rows, draws))
        np.testing.assert_array_equal(first[[3, 1]], weights(rows, draws.members(np.array([3, 1]))))
        assert len(np.unique(first, axis=0)) == 5


def test_the_objective_of_the_members_is_that_of_their_weights():
    rows, form = cut(), LoadingForm()
    draws = draw(rows, 4)
    objective = ResampledObjective(
        lambda which: draws.members(which).rows(rows), np.arange(4), form, penalty=0.1
    )
    theta = np.random.default_rng(2).normal(0, 0.3, (4, 5))
    in_memory = whole()
    drawn = torch.as_tensor(weights(rows, draws))[:, in_memory.order]
    expected = Objective(in_memory, form, penalty=0.1).evaluate(theta, 2, drawn)
    found = objective.evaluate(theta)
    torch.testing.assert_close(objective.totals(), drawn.sum(1))
    some = torch.tensor([2, 0])
    for at, part in ((found, slice(None)), (objective.members(some).evaluate(theta[[2, 0]]), some)):
        for name in ("value", "score", "hessian"):
            torch.testing.assert_close(
                getattr(at, name), getattr(expected, name)[part], rtol=1e-11, atol=1e-11
            )
