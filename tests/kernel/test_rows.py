"""Rows: checked input, sorted by kind, given back in the user's order."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from statsmodels_mnar.kernel.rows import Rows

Y = np.array([1.0, np.nan, 0.0, 1.0, 0.25])
S = np.array([1.0, 0.0, 1.0, 0.4, 1.0])
X = np.column_stack([np.ones(5), np.arange(5.0)])


def build(**changed):
    return Rows.build(**{"X": X, "W": X[:, :1], "y": Y, "s": S} | changed)


def test_rows_are_sorted_by_kind_and_the_factor_of_each_is_right():
    rows = build()
    assert rows.segments == (("closed", 0, 1), ("hard", 1, 3), ("soft", 3, 5))
    assert rows.order.tolist() == [1, 0, 2, 3, 4]
    assert rows.sign.tolist()[1:] == [1.0, -1.0, 1.0, -1.0]
    # F = (1 - s') + s' (y' L(u) + (1 - y') L(-u)), and L(-u) = 1 - L(u)
    torch.testing.assert_close(rows.floor[1:], torch.tensor([0.0, 0.0, 0.6, 0.25]).double())
    torch.testing.assert_close(rows.gain[1:], torch.tensor([1.0, 1.0, 0.4, 0.5]).double())
    torch.testing.assert_close(rows.tilt, torch.tensor([-1.0, 1.0, 1.0, -0.2, 1.0]).double())
    assert rows.total_weight == 5.0
    np.testing.assert_allclose(rows.scale, [1.0, np.sqrt(6.0), 1.0])


def test_unsort_is_the_inverse_of_the_sort():
    rows = build()
    assert rows.unsort(rows.X[1]).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_blocks_cover_every_row_once_and_have_one_kind():
    blocks = list(build().blocks(1))
    assert [block.kind for block in blocks] == ["closed", "hard", "hard", "soft", "soft"]
    assert [block.start for block in blocks] == [0, 1, 2, 3, 4]


def test_taken_rows_keep_their_key_scale_and_order():
    rows = build(weights=np.arange(1.0, 6.0))
    part = rows.take(np.array([4, 0, 2]))
    assert part.segments == (("closed", 0, 1), ("hard", 1, 2), ("soft", 2, 3))
    assert part.key.tolist() == [1, 2, 4]
    assert part.total_weight == 2.0 + 3.0 + 5.0
    assert part.unsort(part.key).tolist() == [1, 2, 4]
    assert part.scale is rows.scale


def test_a_zero_column_has_unit_scale():
    assert build(W=np.zeros((5, 1))).scale[-1] == 1.0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"X": X[:, 0]}, "X must be a matrix"),
        ({"X": np.ones((5, 0))}, "X must be a matrix"),
        ({"X": [["a"]] * 5}, "X must be numbers"),
        ({"W": X[:4]}, "W has 4 rows, but X has 5"),
        ({"W": np.ones((6, 2))}, "W has 6 rows, but X has 5"),
        ({"W": np.where(X == 3, np.inf, X)}, r"W is not finite at position \[3, 1\]"),
        ({"y": Y[:4]}, r"y must have shape \(5,\), got \(4,\)"),
        ({"y": Y[:, None]}, r"y must have shape \(5,\), got \(5, 1\)"),
        ({"y": np.where(S == 0.4, np.nan, Y)}, r"y is not finite at position \[3\]"),
        ({"y": 2.0 * np.ones(5)}, r"y has values outside \[0, 1\]"),
        ({"s": S[:3]}, "s must have shape"),
        ({"s": S + 0.1}, r"s has values outside \[0, 1\]"),
        ({"s": np.where(S == 0, np.nan, S)}, r"s is not finite at position \[1\]"),
        ({"weights": -np.ones(5)}, "weights must not be negative"),
        ({"weights": np.zeros(5)}, "weights must not be negative and not all zero"),
        ({"weights": np.ones(3)}, "weights must have shape"),
        ({"offset": np.ones(4)}, "offset must have shape"),
        ({"offset_select": np.full(5, np.nan)}, "offset_select is not finite"),
        ({"key": np.arange(4)}, "key must be 5 integers"),
        ({"key": np.arange(5.0)}, "key must be 5 integers"),
    ],
)
def test_bad_arrays_are_named(changed, message):
    with pytest.raises(ValueError, match=message):
        build(**changed)


def test_labels_of_unselected_rows_are_not_read():
    value = build(y=np.where(S == 0, 99.0, Y))
    assert torch.equal(value.sign[1:], build().sign[1:])
