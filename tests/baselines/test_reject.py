"""Reject inference by hand, and what each method assumes."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

from statsmodels_mnar.baselines import (
    FuzzyAugmentation,
    NaiveLogit,
    OracleLogit,
    Parcelling,
    Reclassification,
    ScoreBandAugmentation,
)
from statsmodels_mnar.baselines.reject import score_bands
from statsmodels_mnar.datasets import simulate_mar
from statsmodels_mnar.errors import NoVariationError, PerfectSeparationError

ALL = (Reclassification, FuzzyAugmentation, Parcelling, ScoreBandAugmentation)


@pytest.fixture(scope="module")
def sim():
    return simulate_mar(1_200, rng=3)


def fit(cls, sim, data=None, penalty=0.0, **options):
    data = sim.data if data is None else data
    return cls.from_formula(sim.formula, sim.select_formula, data, **options).fit(penalty=penalty)


@pytest.fixture(scope="module")
def by_hand(sim):
    """Designs, labels, and the naive probabilities by statsmodels."""
    data = sim.data
    X = sm.add_constant(data[["x1", "x2"]]).to_numpy()
    seen = data.y.notna().to_numpy()
    naive = sm.Logit(data.y[seen], X[seen]).fit(disp=False)
    return X, data.y.to_numpy(), seen, naive.predict(X)


def weighted_logit(y, X, weight):
    model = sm.GLM(y, X, family=sm.families.Binomial(), freq_weights=weight)
    return np.asarray(model.fit(tol=1e-12).params)


def test_reclassification_labels_by_the_cutoff(sim, by_hand):
    X, y, seen, p = by_hand
    results = fit(Reclassification, sim, cutoff=0.4)
    completed = np.where(seen, y, p > 0.4)
    np.testing.assert_allclose(
        results.params, weighted_logit(completed, X, np.ones(len(y))), rtol=1e-6
    )
    np.testing.assert_array_equal(results.inferred, p[~seen] > 0.4)


def test_the_usual_cutoff_finds_as_many_ones_as_there_are(sim, by_hand):
    _, y, seen, p = by_hand
    inferred = fit(Reclassification, sim).inferred
    lowest_one = p[~seen][inferred.to_numpy() == 1].min()
    assert (p[seen] >= lowest_one).sum() == pytest.approx(np.nansum(y), abs=1 + (~seen).sum() / 100)


def test_fuzzy_augmentation_is_the_weighted_logit_of_both_halves(sim, by_hand):
    X, y, seen, p = by_hand
    odds = 2.5 * p / (1 - p)
    q = (odds / (1 + odds))[~seen]
    found = fit(FuzzyAugmentation, sim, odds_ratio=2.5)
    expected = weighted_logit(
        np.r_[y[seen], np.ones(len(q)), np.zeros(len(q))],
        np.vstack([X[seen], X[~seen], X[~seen]]),
        np.r_[np.ones(seen.sum()), q, 1 - q],
    )
    np.testing.assert_allclose(found.params, expected, rtol=1e-6)
    np.testing.assert_allclose(found.inferred, q)


def test_fuzzy_augmentation_alone_teaches_a_logit_nothing(sim):
    naive = NaiveLogit.from_formula(sim.formula, sim.select_formula, sim.data).fit()
    np.testing.assert_allclose(fit(FuzzyAugmentation, sim).params, naive.params, rtol=1e-6)


def test_parcelling_gives_each_band_its_rate(sim, by_hand):
    _, y, seen, p = by_hand
    results = fit(Parcelling, sim, factor=1.5, n_bands=5, rng=1)
    codes, n_bands = score_bands(p, np.ones(len(p)), 5)
    assert n_bands == len(results.bands) == 5
    for band, row in results.bands.iterrows():
        inside = codes == band
        rate = y[inside & seen].mean()
        assert row.labelled_rate == pytest.approx(rate)
        there = (inside & ~seen).sum()
        assert row.inferred_rate == pytest.approx(min(1, 1.5 * rate), abs=0.5 / there + 1e-12)
        assert results.inferred[codes[~seen] == band].mean() == pytest.approx(row.inferred_rate)
    again = fit(Parcelling, sim, factor=1.5, n_bands=5, rng=1)
    np.testing.assert_array_equal(results.params, again.params)
    other = fit(Parcelling, sim, factor=[1.5] * 5, n_bands=5, rng=2)
    assert (other.params != results.params).any()


def test_score_bands_weight_labelled_rows_up_to_all_rows_of_the_band(sim, by_hand):
    X, y, seen, _ = by_hand
    W = sm.add_constant(sim.data[["x1", "x2", "z"]])
    score = sm.Logit(seen.astype(float), W).fit(disp=False).predict(W)
    codes = np.searchsorted(np.sort(score)[[299, 599, 899]], score, side="left")
    weight = np.bincount(codes) / np.bincount(codes[seen])
    results = fit(ScoreBandAugmentation, sim, n_bands=4)
    np.testing.assert_allclose(results.bands.weight, weight)
    np.testing.assert_allclose(
        results.params, weighted_logit(y[seen], X[seen], weight[codes[seen]]), rtol=1e-6
    )


def test_reweighting_is_right_where_labels_are_missing_at_random():
    """And the naive logit is not, since z moves the outcome too."""
    sim = simulate_mar(20_000, rng=1)
    share = {
        cls: fit(cls, sim).predict(sim.data).mean() for cls in (NaiveLogit, ScoreBandAugmentation)
    }
    truth = sim.data.y_full.mean()
    assert abs(share[NaiveLogit] - truth) > 0.05
    assert abs(share[ScoreBandAugmentation] - truth) < 0.015


@pytest.mark.parametrize("cls", ALL)
def test_weights_are_rows(cls, sim):
    """A frequency weight of zero is no row, and Parcelling draws by rows."""
    data = sim.data.assign(w=(np.arange(len(sim.data)) % 3 > 0).astype(float))
    weighted = cls.from_formula(
        sim.formula, sim.select_formula, data, freq_weights="w"
    ).fit(penalty=1e-4)  # fmt: skip
    kept = fit(cls, sim, data[data.w > 0], penalty=1e-4)
    tolerance = 0.2 if cls is Parcelling else 1e-6
    np.testing.assert_allclose(weighted.params, kept.params, atol=tolerance)


@pytest.mark.parametrize("cls", ALL)
def test_summaries_say_what_is_assumed_and_that_there_are_no_errors(cls, sim):
    results = fit(cls, sim)
    text = " ".join(str(results.summary()).split())
    assert "Assumes that" in text and "no standard errors" in text
    assert results.bse.isna().all()


@pytest.mark.parametrize("cls", ALL)
def test_what_cannot_be_fitted_is_refused(cls, sim):
    with pytest.raises(NoVariationError, match="no selection to model"):
        fit(cls, sim, sim.data.query("s == 1"))
    separated = sim.data.assign(y=lambda d: (d.x1 > 0).astype(float).where(d.s == 1))
    with pytest.raises(PerfectSeparationError, match="x1"):
        fit(cls, sim, separated)
    assert np.isfinite(fit(cls, sim, separated, penalty=0.01).params).all()


@pytest.mark.parametrize(
    ("cls", "options", "match"),
    [
        (Reclassification, {"cutoff": 1.5}, r"cutoff=1\.5"),
        (FuzzyAugmentation, {"odds_ratio": 0.0}, r"odds_ratio=0\.0"),
        (Parcelling, {"n_bands": 1}, "n_bands=1"),
        (Parcelling, {"factor": [1.0, 2.0]}, "factor has 2 values"),
        (Parcelling, {"factor": -1.0}, "factor="),
        (ScoreBandAugmentation, {"n_bands": 2.5}, r"n_bands=2\.5"),
    ],
)
def test_bad_options_are_named(cls, options, match, sim):
    with pytest.raises(ValueError, match=match):
        fit(cls, sim, **options)


# -- weights and links of the plain logits ---------------------------------------------------------


def test_weighted_naive_fits_are_those_of_statsmodels(sim):
    data = sim.data.assign(w=1.0 + np.arange(len(sim.data)) % 3)
    seen = data[data.y.notna()]
    X = sm.add_constant(seen[["x1", "x2"]])
    glm = sm.GLM(seen.y, X, family=sm.families.Binomial(), freq_weights=seen.w).fit(tol=1e-12)
    ours = NaiveLogit.from_formula(sim.formula, sim.select_formula, data, freq_weights="w").fit()
    np.testing.assert_allclose(ours.params, glm.params, rtol=1e-6)
    np.testing.assert_allclose(ours.bse, glm.bse, rtol=1e-5)
    sampled = NaiveLogit.from_formula(sim.formula, sim.select_formula, data, prob_weights="w").fit()
    scores = (seen.w * (seen.y - glm.predict(X))).to_numpy()[:, None] * X.to_numpy()
    bread = np.asarray(glm.normalized_cov_params)
    assert sampled.cov_type == "HC0"
    np.testing.assert_allclose(sampled.cov_params(), bread @ scores.T @ scores @ bread, rtol=1e-5)


def test_a_probit_link_is_that_of_statsmodels(sim):
    formulas = sim.oracle_formula, sim.select_formula, sim.data
    ours = OracleLogit.from_formula(*formulas, link="probit").fit(cov_type="HC0")
    theirs = sm.Probit.from_formula(sim.oracle_formula, sim.data).fit(disp=False, cov_type="HC0")
    np.testing.assert_allclose(ours.params, theirs.params, rtol=1e-6)
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-5)
    np.testing.assert_allclose(ours.predict(), theirs.predict(), rtol=1e-6)


def test_the_ridge_does_not_depend_on_units(sim):
    moved = sim.data.assign(x1=lambda d: 1_000 + 50 * d.x1)
    one, other = (
        NaiveLogit.from_formula(sim.formula, sim.select_formula, data).fit(penalty=0.1)
        for data in (sim.data, moved)
    )
    np.testing.assert_allclose(other.params["x1"], one.params["x1"] / 50, rtol=1e-5)
    np.testing.assert_allclose(other.predict(), one.predict(), rtol=1e-5)


def test_weighted_ipw_is_that_of_repeated_rows():
    from statsmodels_mnar.baselines import IPWLogit

    sim = simulate_mar(800, rng=5)
    data = sim.data.assign(w=1.0 + np.arange(800) % 2)
    weighted = IPWLogit.from_formula(
        sim.formula, sim.select_formula, data, freq_weights="w"
    ).fit()  # fmt: skip
    rows = np.repeat(np.arange(800), data.w.astype(int))
    repeated = IPWLogit.from_formula(
        sim.formula, sim.select_formula, data.iloc[rows].reset_index(drop=True)
    ).fit()  # fmt: skip
    np.testing.assert_allclose(weighted.params, repeated.params, rtol=1e-6)
    np.testing.assert_allclose(weighted.bse, repeated.bse, rtol=1e-6)


def test_methods_without_weights_refuse_them(sim):
    from statsmodels_mnar.baselines import RFLearn

    with pytest.raises(ValueError, match="freq_weights: RFLearn takes no weights"):
        RFLearn.from_formula(sim.formula, sim.select_formula, sim.data, freq_weights="x2")
