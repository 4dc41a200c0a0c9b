"""The loss against autograd, differences, quadrature and the fitted models' likelihood."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import torch
from scipy import integrate
from scipy.special import expit, log_ndtr, ndtr

from statsmodels_mnar import GreeneSelectionLogit, ProbitSelection
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.kernel.links import LOGIT, PROBIT
from statsmodels_mnar.learn import SelectionLoss
from statsmodels_mnar.learn.table import OutcomeTable

from ..numerical import jacobian

CDF = {"logit": expit, "probit": ndtr}
LOADINGS = (0.0, 0.4, -1.7, 6.0)


@pytest.fixture(scope="module")
def grid():
    """Indices and labels over all combinations, (n,) each."""
    axes = np.meshgrid([-3.0, -0.4, 0.7, 2.5], [-2.0, 0.1, 3.0], [0.0, 1.0, np.nan])
    return tuple(axis.ravel() for axis in axes)


def by_quad(a, b, y, loading, link):
    if np.isnan(y):
        return -log_ndtr(-b)
    side = 2.0 * y - 1.0

    def density(u):
        weight = math.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi)
        return CDF[link](side * (a + loading * u)) * weight

    return -math.log(integrate.quad(density, -b, 12.0, epsabs=0.0, epsrel=1e-11, limit=200)[0])


@pytest.mark.parametrize("link", CDF)
@pytest.mark.parametrize("loading", LOADINGS)
def test_values_equal_quadrature_and_derivatives_equal_differences(grid, link, loading):
    a, b, y = grid
    loss = SelectionLoss(link)
    found = loss.rows(a, b, y, loading)
    expected = [by_quad(*row, loading, link) for row in zip(*grid, strict=True)]
    np.testing.assert_allclose(found.value, expected, rtol=1e-8)

    def at(theta):
        return loss.rows(a + theta[0], b + theta[1], y, loading + theta[2])

    zero = np.zeros(3)
    np.testing.assert_allclose(
        found.gradient, jacobian(lambda t: at(t).value, zero), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        found.hessian, jacobian(lambda t: at(t).gradient, zero), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("link", CDF)
@pytest.mark.parametrize("loading", [0.0, -1.7])
def test_loss_can_be_differentiated_twice(link, loading):
    a = torch.tensor([0.3, -1.0, 0.5], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([-0.2, 0.8, 1.5], dtype=torch.float64, requires_grad=True)
    at = torch.tensor(loading, dtype=torch.float64, requires_grad=True)
    y, weight = torch.tensor([1.0, 0.0, torch.nan]), torch.tensor([1.0, 2.0, 0.5])
    loss = SelectionLoss(link)

    def value(a, b, at):
        return loss(a, b, y, at, weight.double(), reduction="none")

    with torch.random.fork_rng():
        assert torch.autograd.gradcheck(value, (a, b, at))
        assert torch.autograd.gradgradcheck(value, (a, b, at))


def test_loss_is_convex_in_both_indices():
    rng = np.random.default_rng(0)
    a, b = rng.normal(scale=3.0, size=(2, 400))
    y = rng.choice([0.0, 1.0, np.nan], 400)
    for loading in LOADINGS:
        hessian = SelectionLoss().rows(a, b, y, loading).hessian[:, :2, :2]
        assert np.linalg.eigvalsh(hessian).min() > -1e-9


@pytest.mark.parametrize("model", [GreeneSelectionLogit, ProbitSelection])
def test_loss_sums_to_the_likelihood_of_the_fitted_model(model):
    sim = simulate_greene(400, rng=3)
    results = model.from_formula(sim.formula, sim.select_formula, sim.data).fit()
    a, b = results.predict(which="linear"), results.predict(which="linear-select")
    y = np.where(sim.data["s"] == 1, sim.data["y"], np.nan)
    if model is GreeneSelectionLogit:
        link, loading = "logit", results.params["loading"]
    else:  # of unit total variance: outcome index and loading over the outcome error's own sd
        rho = results.error_corr
        link, own = "probit", math.sqrt(1.0 - rho**2)
        a, loading = a / own, rho / own
    loss = SelectionLoss(link)
    assert loss.rows(a, b, y, loading).value.sum() == pytest.approx(-results.llf, rel=1e-9)
    for which, name in [
        ("population", "mean"),
        ("labelled", "mean-selected"),
        ("unlabelled", "mean-unselected"),
    ]:
        found = loss.probability(a, b, loading, which)
        np.testing.assert_allclose(found, results.predict(which=name), rtol=1e-8)


def test_reductions_weights_and_types():
    a, b = torch.zeros(3, dtype=torch.float32, requires_grad=True), torch.zeros(3)
    y, weight = torch.tensor([1, 0, -1]), torch.tensor([1.0, 0.0, 3.0])
    loss = SelectionLoss()
    rows = loss(a, b, y, 1.0, reduction="none")
    assert rows.dtype == torch.float32
    assert loss(a, b, y, 1.0, reduction="sum").item() == pytest.approx(rows.sum().item())
    mean = loss(a, b, y, 1.0, weight)
    assert mean.item() == pytest.approx(((rows * weight).sum() / 4.0).item())
    mean.backward()
    assert a.grad.dtype == torch.float32
    assert a.grad[1] == 0.0 and a.grad[2] == 0.0 and a.grad[0] < 0.0


def test_a_module_learns_the_loading():
    """Two linear modules and a parameter reach the maximum of the selection logit."""
    sim = simulate_greene(300, rng=1)
    results = GreeneSelectionLogit.from_formula(sim.formula, sim.select_formula, sim.data).fit()
    design = results.model.design
    X, W = torch.as_tensor(design.X), torch.as_tensor(design.W)
    y = torch.as_tensor(np.where(sim.data["s"] == 1, sim.data["y"], np.nan))
    theta = torch.zeros(X.shape[1] + W.shape[1] + 1, dtype=torch.float64, requires_grad=True)
    p = X.shape[1]
    optimizer = torch.optim.LBFGS([theta], max_iter=200, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        value = SelectionLoss()(X @ theta[:p], W @ theta[p:-1], y, theta[-1])
        value.backward()
        return value

    optimizer.step(closure)
    np.testing.assert_allclose(theta.detach(), results.params, atol=2e-3)


class Data:
    """What the objectives read of a Dataset or a DMatrix."""

    def __init__(self, y, weight=None):
        self.get_label, self.get_weight = (lambda: y), (lambda: weight)


@pytest.mark.parametrize("booster", ["lightgbm", "xgboost"])
def test_objectives_and_metrics_are_the_rows_derivatives(grid, booster):
    a, b, y = grid
    label = np.where(np.isnan(y), -1.0, y)
    weight = np.linspace(0.5, 2.0, len(a))
    loss, loading = SelectionLoss(), 1.3
    rows = loss.rows(a, b, y, loading)
    data = Data(label, weight)
    gradient, curve = loss.objective(booster, loading=loading)(np.stack([a, b], axis=1), data)
    np.testing.assert_allclose(gradient, rows.gradient[:, :2] * weight[:, None], rtol=1e-12)
    np.testing.assert_allclose(curve[:, 1], rows.hessian[:, 1, 1] * weight, rtol=1e-12)
    for equation, own, other, j in [("outcome", a, b, 0), ("select", b, a, 1)]:
        how = {"loading": loading, "equation": equation, "other": other}
        gradient, curve = loss.objective(booster, **how)(own, data)
        np.testing.assert_allclose(gradient, rows.gradient[:, j] * weight, rtol=1e-12)
        np.testing.assert_allclose(curve, rows.hessian[:, j, j] * weight, rtol=1e-12)
        name, value, *more = loss.metric(booster, **how)(own, data)
        assert (name, more) == ("selection_loss", [False] if booster == "lightgbm" else [])
        assert value == pytest.approx(np.average(rows.value, weights=weight))


@pytest.mark.parametrize("link", [LOGIT, PROBIT], ids=["logit", "probit"])
@pytest.mark.parametrize("loading", [0.0, 1.5, -4.0])
def test_table_equals_the_integral(link, loading):
    rng = np.random.default_rng(1)
    a, b = rng.normal(scale=2.0, size=500), rng.normal(size=500)
    a[:2] = -30.0, 30.0  # beyond the grid
    y = rng.integers(0, 2, 500).astype(float)
    exact = SelectionLoss(link.name).rows(a, b, y, loading)
    value, first, second = OutcomeTable(link, loading, (b.min(), b.max()))(a, b, y)
    np.testing.assert_allclose(value, -exact.value, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(first, -exact.gradient[:, 0], atol=1e-5)
    np.testing.assert_allclose(second, -exact.hessian[:, 0, 0], atol=2e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SelectionLoss("cloglog"), "link='cloglog': SelectionLoss takes 'logit' or"),
        (lambda: SelectionLoss(tol=1.0), "tol=1.0 must be a number between"),
        (lambda: SelectionLoss().rows([0.0], [0.0], [2], 1.0), "y has the label 2; labels are 0"),
        (lambda: SelectionLoss().rows([0.0], [0.0, 1.0], [1], 1.0), r"select has shape \(2,\)"),
        (lambda: SelectionLoss().rows([math.nan], [0.0], [1], 1.0), "outcome has an index that"),
        (lambda: SelectionLoss().rows([0.0], [0.0], [1], 99.0), "loading=99.0 must lie between"),
        (lambda: SelectionLoss().rows([[0.0]], [0.0], [1], 1.0), "squeeze the module's output"),
        (lambda: SelectionLoss()([0.0], [0.0], [1], 1.0, reduction="x"), "reduction='x' is"),
        (lambda: SelectionLoss().probability([0.0], [0.0], 1.0, "all"), "which='all' is unknown"),
        (lambda: SelectionLoss().objective("catboost", loading=1.0), "booster='catboost' is unk"),
        (
            lambda: SelectionLoss().objective("xgboost", loading=1.0, equation="outcome"),
            "give other=, the index of the other equation",
        ),
        (lambda: SelectionLoss().metric("xgboost", loading=1.0, equation="y"), "equation='y' is"),
        (
            lambda: SelectionLoss().objective("xgboost", loading=1.0)(np.zeros(3), Data([1])),
            r"num_class=2 \(LightGBM\) or num_target=2",
        ),
    ],
)
def test_bad_input_is_refused_with_the_remedy(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_loss_is_pickled_and_compared_by_its_settings():
    loss = SelectionLoss("probit", tol=1e-8)
    assert pickle.loads(pickle.dumps(loss)) == loss != SelectionLoss("probit")
