"""Imputed labels, Rubin's rules and population figures of fitted models.

The long run, about 2 minutes on one core, prints its coverage:

    pytest tests/results/test_completion.py -m slow -s
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import expit

from statsmodels_mnar import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection, monte_carlo, pool
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.post import metrics
from statsmodels_mnar.results.imputation import draw_params, held

SIMULATED = simulate_greene(1_500, rng=1)
FORMULAS = (SIMULATED.formula, SIMULATED.select_formula)


def fit(data=None, model=GreeneSelectionLogit, **options):
    if model is GreeneSelectionLogit:
        options = {"normalization": "loading"} | options
    cov = {key: options.pop(key) for key in ("cov_type", "cov_kwds") if key in options}
    data = SIMULATED.data if data is None else data
    return model.from_formula(*FORMULAS, data, **options).fit(**cov)


@pytest.fixture(scope="module")
def results():
    return fit()


# -- Rubin's rules ---------------------------------------------------------------------------------


def barnard_rubin(estimates, variances, complete):
    """As in Barnard and Rubin (1999), one estimate at a time."""
    m = len(estimates)
    within, between = np.mean(variances), np.var(estimates, ddof=1)
    total = within + (1 + 1 / m) * between
    share = (1 + 1 / m) * between / total
    old = (m - 1) / share**2
    observed = (complete + 1) / (complete + 3) * complete * (1 - share)
    df = old * observed / (old + observed)
    r = (1 + 1 / m) * between / within
    return np.mean(estimates), np.sqrt(total), df, (r + 2 / (df + 3)) / (r + 1)


def test_pool_follows_barnard_and_rubin():
    estimates, variances = [0.31, 0.36, 0.28, 0.33], [0.0011, 0.0009, 0.0010, 0.0012]
    pooled = pool(estimates, variances, df_complete=57, names=["p"])
    found = [pooled.params["p"], pooled.bse["p"], pooled.df["p"], pooled.fmi["p"]]
    assert_allclose(found, barnard_rubin(estimates, variances, 57), rtol=1e-12)
    frame = pooled.summary_frame()
    assert_allclose(
        frame.ci_upper["p"] - frame.coef["p"],
        stats.t.ppf(0.975, pooled.df["p"]) * pooled.bse["p"],
    )


def test_pool_with_infinite_complete_data_has_rubins_degrees_of_freedom():
    pooled = pool([1.0, 2.0, 4.0], [1.0, 1.0, 1.0])
    between = np.var([1, 2, 4], ddof=1) * 4 / 3
    assert_allclose(pooled.df[0], 2 / (between / (1 + between)) ** 2)
    same = pool([1.0, 1.0], [1.0, 1.0])
    assert same.df[0] == np.inf and same.fmi[0] == 0


def test_pool_takes_results_pairs_and_arrays_alike():
    rng = np.random.default_rng(0)
    fits = [sm.OLS(rng.normal(size=30), rng.normal(size=(30, 2))).fit() for _ in range(3)]
    from_results = pool(fits)
    pairs = [(f.params, f.cov_params()) for f in fits]
    from_pairs = pool(pairs, df_complete=28)
    from_arrays = pool([f.params for f in fits], [f.cov_params() for f in fits], df_complete=28)
    for other in (from_pairs, from_arrays):
        assert_allclose(other.summary_frame(), from_results.summary_frame())
    diagonal = pool([f.params for f in fits], [f.bse**2 for f in fits])
    assert_allclose(diagonal.bse, from_results.bse)


@pytest.mark.parametrize(
    ("estimates", "variances", "message"),
    [
        ([1.0], [1.0], "two or more"),
        ([1.0, 2.0], None, "give variances"),
        ([1.0, 2.0], [[1.0, 2.0], [1.0, 2.0]], "covariance has shape"),
    ],
)
def test_pool_refuses(estimates, variances, message):
    with pytest.raises(ValueError, match=message):
        pool(estimates, variances)


# -- draws of the parameters -----------------------------------------------------------------------


def test_draws_have_the_moments_of_the_truncated_normal():
    rng = np.random.default_rng(0)
    cov = np.array([[4.0, 1e-3], [1e-3, 1e-6]])
    cov[0, 1] = cov[1, 0] = 1e-3
    open_ended = np.full(2, np.inf)
    draws = np.array(
        [draw_params(np.array([1.0, 2.0]), cov, -open_ended, open_ended, rng) for _ in range(4000)]
    )
    assert_allclose(np.cov(draws.T), cov, rtol=0.1)
    bounded = [
        draw_params(np.zeros(2), cov, np.array([-1.0, -1]), np.array([1.0, 1]), rng)[0]
        for _ in range(2000)
    ]
    assert np.abs(bounded).max() <= 1
    assert_allclose(np.std(bounded), 0.567, rtol=0.05)  # of N(0, 4) within [-1, 1]
    with pytest.raises(ValueError, match="within their bounds"):
        draw_params(np.zeros(2), cov, np.array([50.0, 0]), np.array([51.0, 1]), rng)


def test_held_is_the_conditional_covariance():
    rng = np.random.default_rng(1)
    root = rng.normal(size=(3, 3))
    cov = root @ root.T
    kept = [0, 2]
    expected = np.linalg.inv(np.linalg.inv(cov)[np.ix_(kept, kept)])
    assert_allclose(held(cov, 1)[np.ix_(kept, kept)], expected)
    assert not held(cov, 1)[1].any()


@pytest.mark.full
def test_sigma_is_held_where_rho_is_estimated_too():
    data = simulate_greene(5_000, rho=0.6, rng=5).data
    with pytest.warns(match="not identified separately"):
        results = fit(data, normalization="free")
    assert results.model.param_names[-2:] == ["lnsigma", "athrho"]
    imputations = results.impute(30, rng=0)
    draws = np.array([imputations.params(i) for i in range(30)])
    # Held, but for the rounding of a covariance whose row is zero.
    assert np.ptp(draws[:, -2]) < 1e-12 and draws[:, -1].std() > 0.01
    pooled = results.impute(200, rng=0).prevalence()
    expected = results.population_metrics().summary_frame().loc["prevalence"]
    assert_allclose(pooled.params["prevalence"], expected.estimate, atol=0.3 * expected.se)
    assert_allclose(pooled.bse["prevalence"], expected.se, rtol=0.1)


# -- completed data --------------------------------------------------------------------------------


def test_completed_frames_are_the_users_rows_with_the_outcome_filled(results):
    data = SIMULATED.data
    imputations = results.impute(3, rng=0)
    assert len(imputations) == 3 and len(list(imputations)) == 3
    frame = imputations[1]
    seen = data.s == 1
    assert list(frame.columns) == list(data.columns)
    assert_array_equal(frame.y[seen], data.y[seen])
    assert set(frame.y) == {0.0, 1.0}
    pd.testing.assert_frame_equal(frame.drop(columns="y"), data.drop(columns="y"))
    assert data.y.isna().any()  # the user's frame is left alone


def test_rows_that_the_model_dropped_are_not_in_the_completed_data():
    data = SIMULATED.data.set_index(np.arange(1_500) + 7).copy()
    data.loc[[8, 100], "x1"] = np.nan
    frame = fit(data).impute(1, rng=0)[0]
    assert_array_equal(frame.index, data.index.drop([8, 100]))


def test_each_imputation_has_its_own_seed(results):
    few, many = results.impute(2, rng=4), results.impute(6, rng=4)
    assert_array_equal(many.labels(1), few.labels(1))
    assert_array_equal(many[1].y, many[1].y)
    for first, second in pairwise(many):
        assert not np.array_equal(first.y, second.y)
    rng = np.random.default_rng(4)
    first, second = results.impute(2, rng=rng), results.impute(2, rng=rng)
    assert not np.array_equal(first.labels(0), second.labels(0))
    assert_array_equal(many[-1].y, many[5].y)
    assert len(many[1:3]) == 2
    with pytest.raises(IndexError):
        many[6]


def test_models_from_arrays_give_completed_outcomes(results):
    design = results.model.design
    other = GreeneSelectionLogit(
        design.y, design.X, exog_select=design.W, normalization="loading"
    ).fit()
    completed = other.impute(2, rng=0)[0]
    assert_array_equal(completed, results.impute(2, rng=0).labels(0))


def test_an_outcome_that_is_an_expression_gets_a_column_of_its_name():
    data = SIMULATED.data.assign(grade=lambda d: 3 + d.y)
    model = GreeneSelectionLogit.from_formula(
        "I(grade > 3) ~ x1 + x2", "s ~ x1 + x2 + z", data, normalization="loading"
    )
    imputations = model.fit().impute(1, rng=0)
    assert not imputations[0]["I(grade > 3)"].isna().any()
    assert "bad" in model.fit().impute(1, rng=0, column="bad")[0]


def test_rows_of_a_count_get_a_label_for_each_observation():
    counts = np.random.default_rng(0).integers(0, 4, 1_500)
    data = SIMULATED.data.assign(n=counts)
    weighted = fit(data, freq_weights="n")
    frame = weighted.impute(1, rng=0)[0]
    assert len(frame) == counts.sum()
    several = frame[(frame.s == 0) & (frame.n == 3)].groupby(level=0).y.nunique()
    assert (several == 2).any()
    repeated = fit(data.loc[data.index.repeat(counts)].reset_index(drop=True))
    assert_allclose(repeated.params, weighted.params, rtol=1e-6)
    assert_array_equal(repeated.impute(1, rng=0).labels(0), frame.y)
    assert_allclose(
        weighted.population_metrics("x1").summary_frame(),
        repeated.population_metrics("x1").summary_frame(),
        rtol=1e-4,
    )
    rows = [r.population_metrics("x1", target="rows").se for r in (weighted, repeated)]
    assert_allclose(*rows, rtol=1e-4)


@pytest.mark.parametrize(
    "model", [GreeneSelectionLogit, pytest.param(ProbitSelection, marks=pytest.mark.full)]
)
def test_pooled_prevalence_is_that_of_the_model(model):
    results = fit(model=model)
    expected = results.population_metrics().summary_frame().loc["prevalence"]
    design = results.model.design
    by_hand = np.where(design.labelled, design.y, results.predict(which="mean-unselected")).mean()
    assert_allclose(expected.estimate, by_hand, rtol=1e-12)
    pooled = results.impute(20, rng=3).prevalence()
    noise = np.sqrt(pooled.between[0, 0] / 20)
    assert abs(pooled.params["prevalence"] - expected.estimate) < 3 * noise
    # Many imputations show that the probabilities are not linear in the parameters.
    pooled = results.impute(300, rng=3).prevalence()
    assert_allclose(pooled.params["prevalence"], expected.estimate, atol=0.25 * expected.se)
    assert_allclose(pooled.bse["prevalence"], expected.se, rtol=0.1)


def test_prevalence_uses_sampling_weights():
    weights = np.random.default_rng(1).uniform(0.5, 3, 1_500)
    results = fit(prob_weights=weights)
    pooled = results.impute(200, rng=3).prevalence()
    expected = results.population_metrics().summary_frame().loc["prevalence"]
    labels = results.population_metrics().labels
    assert_allclose(expected.estimate, np.average(labels, weights=weights), rtol=1e-12)
    noise = np.sqrt(pooled.between[0, 0] / 200)
    assert abs(pooled.params["prevalence"] - expected.estimate) < 3 * noise
    assert_allclose(pooled.bse["prevalence"], expected.se, rtol=0.1)


def test_pooled_logit_of_completed_data_finds_the_population_logit(results):
    pooled = results.impute(10, rng=0).pool(
        lambda d: smf.logit("y ~ x1 + x2", d).fit(disp=0), progress=True
    )
    oracle = smf.logit("y_full ~ x1 + x2", SIMULATED.data).fit(disp=0)
    assert (np.abs(pooled.params - oracle.params) < 2.5 * pooled.bse).all()
    assert (pooled.bse > oracle.bse).all()
    assert pooled.df_complete == oracle.df_resid


def test_clusters_leave_few_degrees_of_freedom():
    groups = np.arange(1_500) % 12
    results = fit(cov_type="cluster", cov_kwds={"groups": groups})
    pooled = results.impute(5, rng=0).prevalence()
    assert pooled.df_complete == 11
    assert pooled.df["prevalence"] < 11
    assert fit().impute(5, rng=0).prevalence().df_complete == 1_499
    # Clusters whose rows all have the weight 0 are none.
    counts = np.where(groups == 3, 0, 1)
    counted = fit(freq_weights=counts, cov_type="cluster", cov_kwds={"groups": groups})
    assert counted.impute(5, rng=0).prevalence().df_complete == 10


def test_a_fit_that_is_not_at_a_maximum_is_refused():
    model = GreeneSelectionLogit.from_formula(*FORMULAS, SIMULATED.data, normalization="loading")
    with pytest.warns(match="limit on iterations"):
        early = model.fit(maxiter=2)
    assert np.isfinite(early.cov_params()).all(axis=None)
    for name in ("impute", "population_metrics", "get_influence"):
        with pytest.raises(ValueError, match=f"{name} needs estimates at a maximum.*maxiter"):
            getattr(early, name)()


def test_refusals(results):
    with pytest.raises(ValueError, match="n_imputations=0"):
        results.impute(0)
    stopped = GreeneSelectionLogit.from_formula(*FORMULAS, SIMULATED.data).fit(
        method="sgd", tol=0.05
    )
    with pytest.raises(ValueError, match="method='newton'"):
        stopped.impute()
    biascorr = fit(model=BiasCorrLogit)
    for method in (biascorr.impute, biascorr.population_metrics):
        with pytest.raises(ValueError, match="fit GreeneSelectionLogit"):
            method()


# -- population figures ----------------------------------------------------------------------------


def test_figures_are_those_of_observed_and_predicted_labels(results):
    data, design = SIMULATED.data, results.model.design
    p = results.predict(which="mean-unselected")
    labels = np.where(design.labelled, design.y, p)
    found = results.population_metrics("x1").summary_frame()
    one = np.ones(1_500)
    assert_allclose(found.estimate["auc"], metrics.auc(data.x1.to_numpy(), labels, one).value)
    seen = design.labelled
    alone = metrics.ks(data.x1.to_numpy()[seen], design.y[seen], one[seen]).value
    assert_allclose(found.labelled["ks"], alone)


def test_scores_come_as_names_series_and_arrays(results):
    data = SIMULATED.data
    named = results.population_metrics("x1").summary_frame()
    shuffled = data.x1.sample(frac=1, random_state=0)
    for score in (shuffled, data.x1.to_numpy()):
        pd.testing.assert_frame_equal(results.population_metrics(score).summary_frame(), named)
    assert "brier" not in named.index
    own = results.population_metrics()
    assert "calibration_slope" in own.summary_frame().index
    assert str(own).splitlines()[1].startswith("prevalence")
    assert_array_equal(own.score, results.predict())


def test_scores_of_zero_and_one_have_no_calibration_line(results):
    table = results.population_metrics((SIMULATED.data.x1 > 0).astype(int)).summary_frame()
    assert table.loc[["calibration_intercept", "calibration_slope"]].isna().all(axis=None)
    others = table.drop(index=["calibration_intercept", "calibration_slope"])
    assert others.notna().all(axis=None)
    assert_allclose(others.estimate["gini"], others.estimate["ks"], rtol=1e-3)  # of a single cut


def test_score_must_cover_the_rows(results):
    with pytest.raises(ValueError, match="score is missing or infinite for 3"):
        results.population_metrics(np.r_[np.full(3, np.nan), np.ones(1_497)])
    with pytest.raises(ValueError, match="score has 7 values"):
        results.population_metrics(np.ones(7))
    with pytest.raises(ValueError, match="score='nope'"):
        results.population_metrics("nope")
    with pytest.raises(ValueError, match="target='sample'"):
        results.population_metrics(target="sample")


def test_standard_errors_are_those_of_the_infinitesimal_jackknife(results):
    """Rows reweighted a little, the model refitted and the figures computed anew."""
    data = SIMULATED.data.iloc[:600]
    score = expit(data.x1 - 0.3 * data.x2).to_numpy()
    results = fit(data)
    found = results.population_metrics(score)
    step, influence = 0.02, []
    rows = np.random.default_rng(0).permutation(600)[:3]
    for k in rows:
        moved = []
        for sign in (1, -1):
            weights = 1.0 + sign * step * (np.arange(600) == k)
            other = fit(data, prob_weights=weights).population_metrics(score)
            moved.append([figure.value for figure in other.figures.values()])
        influence.append(np.subtract(*moved) / (2 * step))
    by_row = np.array([figure.by_row for figure in found.figures.values()])
    by_label = np.array([figure.by_label for figure in found.figures.values()])
    slopes = by_label[:, ~found.labelled] @ found.label_gradient
    expected = by_row + slopes @ found.param_influence.T
    assert_allclose(np.array(influence).T, expected[:, rows], atol=2e-5)
    assert_allclose(found.se**2, (expected**2).sum(1))


def test_clusters_of_single_rows_change_nothing_but_the_correction(results):
    robust = fit(cov_type="cluster", cov_kwds={"groups": np.arange(1_500)})
    plain, clustered = (r.population_metrics("x1").se for r in (results, robust))
    assert_allclose(clustered**2, plain**2 * 1_500 / 1_499)
    doubled = pd.concat([SIMULATED.data] * 2, ignore_index=True)
    pairs = fit(doubled, cov_type="cluster", cov_kwds={"groups": np.tile(np.arange(1_500), 2)})
    se = pairs.population_metrics("x1").se
    assert_allclose(se["prevalence"], clustered["prevalence"], rtol=1e-4)
    # The labels of a cluster's rows are drawn apart, but their labelled rows repeat.
    within = [r.impute(20, rng=0).prevalence().within[0, 0] for r in (pairs, fit(doubled))]
    assert 1.3 < within[0] / within[1] < 2.0
    both = np.column_stack([np.arange(1_500), np.arange(1_500) % 7])
    two = fit(cov_type="cluster", cov_kwds={"groups": both})
    with pytest.raises(ValueError, match="one way of clustering"):
        two.population_metrics("x1")


def test_calibration_table_has_the_rates_of_its_bins(results):
    found = results.population_metrics()
    table = found.calibration_table(5)
    assert len(table) == 5
    assert_allclose(table.weight, 300, atol=2)
    top = found.score > np.quantile(found.score, 0.8)
    assert_allclose(table.rate.iloc[-1], found.labels[top].mean(), atol=0.01)
    overall = table.weight @ table.rate / table.weight.sum()
    assert_allclose(overall, found.figures["prevalence"].value)
    assert (table.ci_lower < table.rate).all() and (table.rate < table.ci_upper).all()
    with pytest.raises(ValueError, match="n_bins=0"):
        found.calibration_table(0)
    whole = found.calibration_table(1)
    assert_allclose(whole.se.iloc[0], found.se["prevalence"])


# -- coverage --------------------------------------------------------------------------------------


def given_score(data):
    """A score that nobody fitted, so that its population figures are fixed numbers."""
    return expit(-0.3 + 0.8 * data.x1 - 0.3 * data.x2 + 0.3 * data.z).to_numpy()


def figures_of_all_labels(data):
    found = metrics.figures(given_score(data), data.y_full.to_numpy(), np.ones(len(data)))
    return pd.Series({name: figure.value for name, figure in found.items()})


COLUMNS = {"coef": "estimate", "std err": "std_error", "se": "std_error",
           "ci_lower": "conf_low", "ci_upper": "conf_high"}  # fmt: skip


def coverage(n_sets, n_truth, n=2_000):
    """Intervals on many data sets: of the population's figures, and of those of the rows."""
    population = figures_of_all_labels(simulate_greene(n_truth, rng=10**6).data)
    of_population = population.add_suffix(", superpopulation").to_dict()
    of_population["prevalence, pooled"] = population["prevalence"]

    def simulate(rng):
        drawn = simulate_greene(n, rng=rng)
        of_rows = figures_of_all_labels(drawn.data).add_suffix(", rows").to_dict()
        return replace(drawn, truth=of_population | of_rows)

    def model(data):
        return GreeneSelectionLogit.from_formula(*FORMULAS, data, normalization="loading")

    def figures(results):
        design = results.model.design
        score = given_score(pd.DataFrame(design.W, columns=design.select_names))
        frames = {
            target: results.population_metrics(score, target=target).summary_frame()
            for target in ("superpopulation", "rows")
        }
        frames["pooled"] = results.impute(20, rng=0).prevalence().summary_frame()
        named = [table.add_suffix(f", {kind}", axis=0) for kind, table in frames.items()]
        columns = list(dict.fromkeys(COLUMNS.values()))
        return pd.concat([table.rename(columns=COLUMNS)[columns] for table in named])

    found = monte_carlo(simulate, {"Greene": model}, n_sets, 0, quantities=figures)
    assert not found.failed["Greene"]
    return found.table.loc["Greene", ["truth", "mean", "sd", "mean_se", "coverage"]]


@pytest.mark.full
def test_intervals_cover_in_a_few_data_sets():
    assert (coverage(12, n_truth=400_000).coverage >= 0.75).all()


@pytest.mark.slow
def test_intervals_cover():
    found = coverage(500, n_truth=4_000_000)
    print("\n" + found.to_string())
    # The largest of many distances is biased upwards, which the KS statistic's interval ignores.
    biased = found.index.str.startswith("ks")
    assert found.coverage[~biased].between(0.92, 0.98).all()
    assert found.coverage[biased].between(0.90, 0.98).all()
