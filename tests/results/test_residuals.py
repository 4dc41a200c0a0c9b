"""Influence and residuals of fitted models."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from statsmodels.discrete.discrete_model import Logit
from statsmodels.stats.outliers_influence import MLEInfluence

from statsmodels_mnar import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection
from statsmodels_mnar.datasets import simulate_greene

FORMULAS = ("y ~ x1 + x2", "s ~ x1 + x2 + z")
DATA = simulate_greene(800, rng=2).data


def fit(data=DATA, model=GreeneSelectionLogit, normalization=None, **options):
    if normalization is None:
        normalization = "probit" if model is ProbitSelection else "loading"
    fit_options = {k: options.pop(k) for k in ("start_params", "penalty") if k in options}
    model = model.from_formula(*FORMULAS, data, normalization=normalization, **options)
    return model.fit(**fit_options)


@pytest.fixture(scope="module")
def results():
    return fit()


@pytest.mark.parametrize(
    ("model", "penalty"),
    [
        (GreeneSelectionLogit, 0.02),
        (ProbitSelection, 0.0),
        pytest.param(GreeneSelectionLogit, 0.0, marks=pytest.mark.full),
        pytest.param(ProbitSelection, 0.02, marks=pytest.mark.full),
    ],
)
def test_one_step_changes_are_close_to_those_of_refits(model, penalty):
    results = fit(model=model, penalty=penalty)
    influence = results.get_influence()
    distance, _ = influence.cooks_distance
    order = np.argsort(distance)
    rows = [*order[-3:], *order[::300]]
    start = np.asarray(results.params)
    refits = np.array(
        [fit(DATA.drop(index=k), model, penalty=penalty, start_params=start).params for k in rows]
    )
    change = (start - refits) / np.asarray(results.bse)
    # One Newton step with the Hessian of all rows is off by the row's own share of it.
    assert_allclose(influence.dfbetas[rows], change, atol=0.02 + 0.1 * np.abs(change).max())
    assert np.corrcoef(influence.dfbetas[rows].ravel(), change.ravel())[0, 1] > 0.995


def test_independent_equations_have_the_influence_of_two_regressions():
    found = fit(normalization="independent").get_influence()
    seen = DATA.s == 1
    X = np.column_stack([np.ones(seen.sum()), DATA[["x1", "x2"]][seen]])
    logit = Logit(DATA.y[seen].to_numpy(), X).fit(disp=0)
    expected = MLEInfluence(logit, hat_matrix_diag=np.zeros(len(X)))
    assert_allclose(found.d_params[seen, :3], expected.d_params, atol=1e-7)
    assert_allclose(found.dfbetas[seen, :3], expected.dfbetas, atol=1e-6)
    assert_allclose(found.d_params[~seen, :3], 0, atol=1e-15)


def test_cooks_distance_is_the_quadratic_form_of_the_change(results):
    influence = results.get_influence()
    cov = np.asarray(results.cov_params())
    d = influence.d_params[17]
    distance, pvalues = influence.cooks_distance
    assert_allclose(distance[17], d @ np.linalg.solve(cov, d) / len(d))
    assert_allclose(pvalues[17], stats.f.sf(distance[17], len(d), results.df_resid))
    frame = influence.summary_frame()
    assert_allclose(frame.cooks_d, distance)
    assert_allclose(frame.dfb_x1, influence.d_params[:, 1] / results.bse["x1"])
    assert_allclose(influence.params_one[17], results.params - d)
    assert frame.index.equals(DATA.index)


def test_influence_sums_to_the_robust_covariance(results):
    d = results.get_influence().d_params
    robust = results.get_robustcov_results("HC0")
    assert_allclose(d.T @ d, robust.cov_params(), rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_influence_of_biascorr_carries_the_first_stages(weighted):
    data = DATA.assign(n=np.random.default_rng(0).integers(1, 4, 800))
    options = {"freq_weights": "n"} if weighted else {}
    results = fit(data, BiasCorrLogit, {"sigma": 1.0}, **options)
    assert results.cov_type == "stacked"
    d = results.get_influence().d_params
    each = np.sqrt(data.n.to_numpy())[:, None] if weighted else 1.0
    assert_allclose((d / each).T @ (d / each), results.cov_params(), rtol=1e-8)
    held = results.get_robustcov_results("HC0").get_influence().d_params
    assert np.abs(held - d).max() > 1e-4


def test_residuals_are_those_of_labelled_rows(results):
    seen = DATA.s == 1
    p = np.asarray(results.predict(which="p11")) / np.asarray(results.predict(which="prob-select"))
    y = DATA.y.to_numpy()
    assert np.isnan(results.resid_pearson[~seen]).all()
    assert np.isnan(results.resid_quantile(0)[~seen]).all()
    assert_allclose(results.resid_response[seen], (y - p)[seen], atol=1e-10)
    assert_allclose(results.resid_pearson[seen], ((y - p) / np.sqrt(p * (1 - p)))[seen], rtol=1e-8)


def test_quantile_residuals_are_standard_normal_under_the_model_only():
    data = simulate_greene(5_000, rng=3).data
    results = fit(data)
    quantile = results.resid_quantile(rng=0)
    seen = data.s == 1
    assert stats.kstest(quantile[seen], "norm").pvalue > 0.05
    assert_allclose(quantile, results.resid_quantile(rng=0))
    assert not np.allclose(quantile[seen], results.resid_quantile(rng=1)[seen])
    # Bounds of the randomization: a one lies above the quantile of P(y = 0), a zero below.
    cut = stats.norm.ppf(1 - results.predict(which="mean-selected"))
    assert ((quantile > cut) == (data.y == 1))[seen].all()
    turned = data.assign(y=data.y.where(data.x1 < 1, 1 - data.y))
    wrong = results.model.from_formula(*FORMULAS, turned, normalization="loading").fit()
    tail = seen & (data.x1 > 1)
    assert stats.kstest(wrong.resid_quantile(rng=0)[tail], "norm").pvalue < 1e-3


@pytest.mark.parametrize("model", [GreeneSelectionLogit, ProbitSelection, BiasCorrLogit])
def test_generalized_residuals_are_orthogonal_to_the_designs(model):
    form = {"sigma": 1.0} if model is BiasCorrLogit else None
    results = fit(model=model, normalization=form, penalty=0.0)
    residual = results.resid_generalized
    design = results.model.design
    assert_allclose(design.X.T @ residual["outcome"], 0, atol=1e-3)
    assert_allclose(design.W.T @ residual["select"], 0, atol=1e-3)
    scores = results.model.score_obs(results.params)
    assert_allclose(residual["outcome"].to_numpy()[:, None] * design.X, scores[:, :3], atol=1e-10)
    assert_allclose(residual["select"].to_numpy()[:, None] * design.W, scores[:, 3:7], atol=1e-10)


def test_influence_needs_a_maximum():
    stopped = GreeneSelectionLogit.from_formula(*FORMULAS, DATA).fit(method="sgd", tol=0.05)
    with pytest.raises(ValueError, match="method='newton'"):
        stopped.get_influence()
