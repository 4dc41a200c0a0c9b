"""Masks do what they say, and the scores are right."""

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
    auc,
    draw,
    losses,
    marginal_effects,
    mask,
    one_mask,
    scores,
)


@pytest.fixture(scope="module")
def population():
    rng = np.random.default_rng(0)
    risk = rng.standard_normal(40_000)
    return (rng.random(40_000) < expit(risk)).astype(float), risk


@pytest.mark.parametrize("strength", MECHANISMS.values())
def test_half_of_the_labels_are_kept(population, strength):
    s, _ = mask(*population, strength, np.random.default_rng(1))
    assert s.mean() == pytest.approx(0.5)


def test_strength_is_the_labels_effect_given_the_covariates(population):
    """A probit of s on (r, z, y) has the documented coefficients; the cut-off none of y."""
    from statsmodels.discrete.discrete_model import Probit

    y, risk = population
    for strength in (0.0, 1.0):
        s, z = mask(y, risk, strength, np.random.default_rng(2))
        columns = np.column_stack([np.ones(len(y)), risk, z, y])
        fit = Probit(s, columns).fit(disp=False)
        expected = np.array([1.0 / risk.std(), 1.0, strength / y.std()])
        assert (np.abs(fit.params[1:] - expected) < 4 * fit.bse[1:]).all()
    s, _ = mask(y, risk, None, np.random.default_rng(2))
    assert risk[s == 1].min() > risk[s == 0].max()


def test_auc_counts_pairs():
    rng = np.random.default_rng(3)
    score, y = rng.integers(0, 5, 60).astype(float), rng.integers(0, 2, 60).astype(float)
    pairs = score[y == 1][:, None] - score[y == 0][None]
    assert auc(score, y) == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean())


def test_marginal_effects_of_a_logit():
    rng = np.random.default_rng(4)
    X, beta = np.column_stack([np.ones(50), rng.standard_normal((50, 2))]), np.array([0.3, 1, -2])
    p = expit(X @ beta)
    found = marginal_effects(lambda design: expit(design @ beta), X)
    np.testing.assert_allclose(found, (p * (1 - p)).mean() * beta[1:], rtol=1e-6)


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
    assert frame.loc[frame["method"] == "oracle", "ame_error"].eq(0).all()


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
        assert row["AME error"] == own["ame_error"]
    means = across(lost)
    assert means["mechanism"].tolist() == [m for m in MECHANISMS for _ in range(2)]
    first = lost[(lost["mechanism"] == "MAR") & (lost["method"] == "naive")]
    assert means["Brier added"][0] == pytest.approx(first["Brier added"].mean())
    assert len(draw(lost).axes) == 6


def test_credit_card_rows_are_those_with_a_known_label(shared):
    y, X, y_test, X_test = _rows("credit card", str(shared / "data"))
    assert (len(y) + len(y_test), y.sum() + y_test.sum()) == (10_499, 996)
    assert X.shape[1] == X_test.shape[1] == 7
