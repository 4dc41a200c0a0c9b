"""The masked study of the replication: its data, and its tables against the oracle."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from examples.replication.masked import (
    MECHANISMS,
    SCORES,
    _rows,
    across,
    draw,
    losses,
    one_mask,
    scores,
)


@pytest.fixture
def made_rows(monkeypatch):
    """A data set in place of the files: half trains, half tests."""
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(6_000), rng.standard_normal((6_000, 2))])
    y = (rng.random(6_000) < expit(X @ np.array([-0.3, 1.0, -0.7]))).astype(float)
    rows = (y[:3_000], X[:3_000], y[3_000:], X[3_000:])
    monkeypatch.setattr("examples.replication.masked._rows", lambda *_: rows)


@pytest.mark.full
def test_selection_models_help_where_labels_are_missing_not_at_random(made_rows):
    records = [
        record
        for mechanism in ("MAR", "MNAR 1")
        for record in one_mask(dataset="made", mechanism=mechanism, seed=0, data=None)
    ]
    frame = scores(pd.DataFrame(records))
    errors = frame.pivot_table(index="method", columns="mechanism", values="prevalence_error")
    assert (errors.loc["naive", "MAR"] < 0.03) and (errors.loc["naive", "MNAR 1"] > 0.1)
    for method in ("Greene", "ProbitSelection"):
        assert errors.loc[method, "MNAR 1"] < 0.3 * errors.loc["naive", "MNAR 1"]
    assert errors.loc["IPW", "MNAR 1"] > errors.loc["naive", "MNAR 1"] * 0.9
    assert frame.loc[frame["method"] == "oracle", "effects_error"].eq(0).all()


def test_losses_are_against_the_oracle_of_the_same_data_and_mechanism():
    rng = np.random.default_rng(6)
    names = ["dataset", "mechanism", "method", *SCORES]
    frame = pd.DataFrame(
        [
            dict(zip(names, [d, m, k, *rng.random(5)], strict=True))
            for d in ("a", "b")
            for m in MECHANISMS
            for k in ("oracle", "naive", "IPW")
        ]
    )
    lost = losses(frame)
    assert len(lost) == 20
    cells = frame.set_index(["dataset", "mechanism", "method"])
    for row in lost.to_dict("records"):
        key = (row["dataset"], row["mechanism"])
        own, oracle = cells.loc[(*key, row["method"])], cells.loc[(*key, "oracle")]
        assert row["accuracy lost"] == oracle["accuracy"] - own["accuracy"]
        assert row["AUC lost"] == oracle["auc"] - own["auc"]
        assert row["Brier added"] == own["brier"] - oracle["brier"]
        assert row["effects error"] == own["effects_error"]
    means = across(lost)
    assert means["mechanism"].tolist() == [m for m in MECHANISMS for _ in range(2)]
    first = lost[(lost["mechanism"] == "MAR") & (lost["method"] == "naive")]
    assert means["Brier added"][0] == pytest.approx(first["Brier added"].mean())
    assert len(draw(lost).axes) == 6


def test_credit_card_rows_are_those_with_a_known_label(shared):
    y, X, y_test, X_test = _rows("credit card", str(shared / "data"))
    assert (len(y) + len(y_test), y.sum() + y_test.sum()) == (10_499, 996)
    assert X.shape[1] == X_test.shape[1] == 7
