"""RFLearn on cases with a known answer."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from statsmodels_mnar.baselines import NaiveLogit, RFLearn
from statsmodels_mnar.datasets import load_experiment, simulate_mar


@pytest.fixture(scope="module")
def simulated():
    return simulate_mar(1_200, rng=2)


def build(simulated, data=None, **options):
    data = simulated.data if data is None else data
    return RFLearn.from_formula(simulated.formula, simulated.select_formula, data, **options)


@pytest.fixture(scope="module")
def bands(simulated):
    data = simulated.data
    return pd.DataFrame({"x2": data.x2, "z": (data.z > 0.5).astype(int), "x1": data.x1 > 0})


@pytest.mark.parametrize("target", ["all", "unlabelled"])
def test_zero_radius_is_weighting_by_empirical_frequencies(simulated, bands, target):
    data = simulated.data
    results = build(simulated, groups=bands, target=target).fit(radius=0.0)
    key = bands.astype(str).agg("-".join, axis=1)
    a = key[data.s == 1].value_counts()
    b = (key if target == "all" else key[data.s == 0]).value_counts()
    seen = data[data.s == 1]
    theirs = sm.GLM.from_formula(
        "y ~ x1 + x2", seen, family=sm.families.Binomial(),
        var_weights=(b / a).loc[key[data.s == 1]].to_numpy(),
    ).fit(tol=1e-12)  # fmt: skip
    np.testing.assert_allclose(results.params, theirs.params, rtol=1e-6)
    np.testing.assert_array_equal(np.sort(results.groups.a), np.sort(a))
    np.testing.assert_allclose(results.groups.weight, results.groups.worst_weight)
    assert results.duality_gap < 1e-8


def test_without_selection_the_weights_are_one(simulated):
    data = simulated.data
    twice = pd.concat([data.assign(s=1, y=data.y_full), data.assign(s=0, y=np.nan)])
    results = build(simulated, twice).fit(radius=0.0)
    np.testing.assert_allclose(results.groups.prob_select, 0.5)
    naive = NaiveLogit.from_formula("y_full ~ x1 + x2", "~ x1", data).fit()
    np.testing.assert_allclose(results.params, naive.params, rtol=1e-6)


def test_a_larger_set_means_a_larger_worst_case(simulated):
    model = build(simulated)
    fits = [model.fit(radius=radius) for radius in (0.0, 0.02, 0.1, 0.3)]
    assert all(results.converged for results in fits)
    assert (np.diff([results.worst_case_loss for results in fits]) > 0).all()
    # Guarding against the worst costs loss under the estimated weights.
    design, groups = model.design, model.groups
    codes, weight = model._codes, fits[0].groups.weight.to_numpy()

    def loss(beta):
        y, X = design.y[design.labelled], design.X[design.labelled]
        return np.mean(weight[codes] * np.logaddexp(0, -(2 * y - 1) * (X @ beta)))

    assert (np.diff([loss(results.params.to_numpy()) for results in fits]) > 0).all()
    assert groups.a.sum() == design.labelled.sum()


def test_the_adversary_stays_within_the_radius(simulated):
    results = build(simulated).fit(radius=0.1, floor=0.05)
    groups = results.groups
    assert np.average(groups.worst_weight, weights=groups.a) == pytest.approx(1.0)
    chosen = groups.prob_select * groups.weight / groups.worst_weight
    assert (chosen <= np.minimum(groups.prob_select + 0.1, 1.0) + 1e-9).all()
    assert (
        chosen >= np.minimum(np.maximum(groups.prob_select - 0.1, 0.05), groups.prob_select) - 1e-9
    ).all()


def test_continuous_columns_are_cut_and_few_values_kept(simulated):
    data = simulated.data
    expected = (
        pd.Series(np.searchsorted(np.quantile(data.x1, [0.5]), data.x1, side="right")).astype(str)
        + data.x2.astype(str)
        + np.searchsorted(np.quantile(data.z, [0.5]), data.z, side="right").astype(str)
    )
    found = build(simulated, bins=2).groups
    np.testing.assert_array_equal(np.sort(found.b), np.sort(expected.value_counts()))
    assert (build(simulated, bins=None).groups.b == 1).all()


def test_coverage_is_the_share_of_target_rows_whose_group_is_labelled(simulated):
    groups = np.where(simulated.data.s == 1, "seen", "unseen")
    groups[:10] = "seen"
    model = build(simulated, groups=groups)
    assert model.coverage == pytest.approx(np.mean(groups == "seen"))
    assert build(simulated, bins=2).coverage == 1.0


def test_groups_follow_the_rows_that_are_kept(simulated, bands):
    data = simulated.data.copy()
    data.loc[[3, 4], "x1"] = np.nan
    found = build(simulated, data, groups=bands).groups
    fewer = build(simulated, data.drop([3, 4]), groups=bands.drop([3, 4])).groups
    pd.testing.assert_frame_equal(found, fewer)


def test_with_many_columns_nearly_every_row_is_alone(shared):
    german = load_experiment("german", shared / "data")
    model = RFLearn(german.seen, german.X, german.s, german.W)
    assert len(model.groups) == 535 and model.groups.a.sum() == 538
    naive = NaiveLogit(german.seen, german.X).fit()
    np.testing.assert_allclose(model.fit(radius=0.0).params, naive.params, atol=0.05)
