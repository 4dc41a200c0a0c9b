"""The parts of marginal effects that need no model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar.kernel.forms import LoadingForm
from statsmodels_mnar.post import margins
from statsmodels_mnar.post import prediction as probabilities
from statsmodels_mnar.post.margins import (
    average_difference,
    average_effects,
    columns,
    held,
    moves,
    row_effects,
    typical_row,
    weighted_median,
)
from statsmodels_mnar.post.prediction import Designs, Quantity


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((2, 200))
    d, k = rng.integers(0, 2, 200).astype(float), rng.integers(0, 5, 200).astype(float)
    one = np.ones(200)
    return Designs(np.column_stack([one, x, d, k]), np.column_stack([z, one, k, x]))


ONE_FREE = np.array([True])
NAMES = ("const", "x", "d", "k"), ("z", "const", "k", "x")


@pytest.mark.parametrize(
    ("dummy", "count", "kinds"),
    [
        (True, False, ["slope", "dummy", "slope", "slope"]),
        (False, True, ["slope", "slope", "count", "slope"]),
        (True, True, ["slope", "dummy", "count", "slope"]),
    ],
)
def test_columns_are_paired_and_their_kinds_seen(rows, dummy, count, kinds):
    found = columns(rows, *NAMES, dummy=dummy, count=count)
    assert [(c.name, c.outcome, c.select) for c in found] == [
        ("x", 1, 3), ("d", 2, None), ("k", 3, 2), ("z", None, 0),
    ]  # fmt: skip
    assert [c.kind for c in found] == kinds


def test_equal_names_of_different_columns_are_told_apart(rows):
    found = columns(rows, ("const", "a", "b", "c"), ("b", "const", "q", "r"))
    assert [c.name for c in found] == ["a", "b", "c", "select_b"]
    alone = columns(Designs(None, rows.W), *NAMES)
    assert [(c.name, c.outcome, c.select) for c in alone] == [
        ("z", None, 0), ("k", None, 2), ("x", None, 3),
    ]  # fmt: skip


def test_columns_are_held_in_both_designs_and_the_rows_given_stay(rows):
    found = columns(rows, *NAMES)
    before = rows.X.copy()
    moved = held(rows, found, {"x": 2.0, "z": np.arange(200.0)})
    assert (moved.X[:, 1] == 2.0).all()
    assert (moved.W[:, 3] == 2.0).all()
    np.testing.assert_array_equal(moved.W[:, 0], np.arange(200.0))
    np.testing.assert_array_equal(rows.X, before)
    with pytest.raises(ValueError, match="atexog has 0"):
        held(rows, found, {0: 1.0})  # the constant


def test_weighted_medians_are_those_of_repeated_rows():
    rng = np.random.default_rng(1)
    for n in (1, 2, 7, 8):
        x, counts = rng.standard_normal(n), rng.integers(1, 4, n)
        expected = np.median(np.repeat(x, counts))
        assert weighted_median(x, counts.astype(float)) == pytest.approx(expected, rel=1e-15)
    assert weighted_median(np.array([9.0, 1.0, 2.0]), np.array([0.0, 1.0, 1.0])) == 1.5


def test_typical_rows(rows):
    rows = Designs(rows.X, rows.W, offset=np.arange(200.0))
    weights = np.ones(200)
    mean = typical_row(rows, "mean", weights)
    np.testing.assert_allclose(mean.X[0], rows.X.mean(0))
    np.testing.assert_allclose(mean.W[0], rows.W.mean(0))
    assert mean.offset[0] == pytest.approx(99.5)
    np.testing.assert_allclose(typical_row(rows, "median", weights).W[0], np.median(rows.W, axis=0))
    zero = typical_row(rows, "zero", weights)
    np.testing.assert_array_equal(zero.X, [[1.0, 0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(zero.W, [[0.0, 1.0, 0.0, 0.0]])
    assert zero.offset[0] == 0.0


def test_blocks_of_rows_change_nothing(rows, monkeypatch):
    quantity = Quantity(
        LoadingForm(), "mean-selected", np.array([0.1, 0.5, -0.3, 0.2]),
        np.array([0.7, 0.1, -0.2, 0.4]), np.array([0.9]), np.array([True]),
    )  # fmt: skip
    found = columns(rows, *NAMES, count=True)
    share = np.full(200, 1 / 200)
    whole = average_effects(quantity, rows, found, share)
    by_row = row_effects(quantity, rows, found)

    def small(n, size=7):
        return probabilities.blocks(n, size)

    monkeypatch.setattr(margins, "blocks", small)
    for part, all_at_once in zip(average_effects(quantity, rows, found, share), whole, strict=True):
        np.testing.assert_allclose(part, all_at_once, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(row_effects(quantity, rows, found), by_row, rtol=1e-11)
    np.testing.assert_allclose(by_row.mean(0), whole[0], rtol=1e-11)


def test_moves_follow_the_kind_of_variable():
    flag = pd.Series([True, False, True], name="flag")
    (move,) = moves(flag)
    assert (move.low, move.high, move.width) == (False, True, 1.0)
    (move,) = moves(pd.Series([0, 1, 1], name="d"))
    assert (move.low, move.high) == (0, 1)
    (move,) = moves(pd.Series([0, 3, 1], name="k"), count=True)
    assert move.high.tolist() == [1, 4, 2]
    level = pd.Series(pd.Categorical(["lo", "hi"], categories=["lo", "mid", "hi"]), name="c")
    (move,) = moves(level)
    assert (move.label, move.low, move.high) == ("c[hi - lo]", "lo", "hi")
    coded = moves(pd.Series([3, 1, 2, 1], name="k"), factor=True)
    assert [(move.label, move.low, move.high) for move in coded] == [
        ("k[2 - 1]", 1, 2), ("k[3 - 1]", 1, 3),
    ]  # fmt: skip
    x = pd.Series([1.0, np.nan, 2.0, 4.0], name="x")
    (move,) = moves(x)
    assert move.continuous
    assert np.nanmin(move.low) == 1.0  # inside the range
    assert np.nanmax(move.high) == 4.0
    np.testing.assert_allclose(move.width[2], move.high[2] - move.low[2])
    (move,) = moves(pd.Series([5.0], name="x"))
    assert move.low < 5.0 < move.high


@pytest.mark.parametrize("log", [False, True])
def test_a_dummy_is_flipped_from_the_value_it_has(rows, log):
    """The row's own value is one of the two: the difference is that of both rows made anew."""
    rng = np.random.default_rng(1)
    beta, gamma = rng.standard_normal((2, 4)) / 2.0
    quantity = Quantity(LoadingForm(), "mean-unselected", beta, gamma, np.array([0.8]), ONE_FREE)
    column = next(each for each in columns(rows, *NAMES) if each.kind == "dummy")
    weights = rng.random(200)
    value, jacobian = average_effects(quantity, rows, [column], weights, log=log)
    low, high, width = column.ends(rows)
    expected = average_difference(quantity, low, high, weights / width, log=log)
    assert value[0] == pytest.approx(expected[0], rel=1e-12)
    np.testing.assert_allclose(jacobian[0], expected[1], rtol=1e-9, atol=1e-12)
