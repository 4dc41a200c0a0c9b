"""Networks under selection: determinism, what correction gains, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import statsmodels.api as sm
import torch
from scipy.special import expit
from sklearn.base import clone
from torch import nn

from statsmodels_mnar import GreeneSelectionLogit
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.errors import NoExclusionRestrictionWarning
from statsmodels_mnar.kernel.links import LOGIT
from statsmodels_mnar.learn import NeuralSelectionClassifier
from statsmodels_mnar.learn.estimator import Labels
from statsmodels_mnar.learn.networks import fit_linear, last_features
from statsmodels_mnar.learn.table import Problem

from .test_boosting import simulate

OUTCOME = ["x0", "x1", "x2"]


def build(**options):
    return NeuralSelectionClassifier(**{"outcome_features": OUTCOME, **options})


def test_correction_finds_the_prevalence():
    X, y, full = simulate(3_000, 1)
    fast = {"max_epochs": 20, "learning_rate": 0.02, "cv": 2}
    model, naive = build(**fast).fit(X, y), build(loading=0.0, **fast).fit(X, y)
    wrong = abs(naive.predict_proba(X)[:, 1].mean() - full.mean())
    assert wrong > 0.08
    assert abs(model.predict_proba(X)[:, 1].mean() - full.mean()) < 0.4 * wrong
    assert 0.8 < model.loading_ < 2.2 and 0.0 < model.error_corr_ < 1.0
    assert model.history_["held_out"].idxmin() == model.n_epochs_
    assert abs(model.selection_proba(X).mean() - (y >= 0).mean()) < 0.03
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.predict_proba(X), model.predict_proba(X))


def test_training_twice_gives_the_same_networks_and_leaves_the_user_s_alone():
    X, y, _ = simulate(600, 2)
    with torch.random.fork_rng():
        network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.2), nn.Linear(4, 1))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    model = build(outcome=network, selection=lambda p: nn.Linear(p, 1), max_epochs=3)
    found = [clone(model).fit(X, y).predict_proba(X, "unlabelled") for _ in range(2)]
    np.testing.assert_array_equal(*found)
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name])
    other = clone(model).set_params(random_state=1).fit(X, y).predict_proba(X, "unlabelled")
    assert not np.array_equal(other, found[0])


def test_linear_networks_come_near_the_selection_logit():
    sim = simulate_greene(3_000, rng=1)
    results = GreeneSelectionLogit.from_formula(sim.formula, sim.select_formula, sim.data).fit()
    y = np.where(sim.data["s"] == 1, sim.data["y"], np.nan)
    linear = NeuralSelectionClassifier(
        lambda p: nn.Linear(p, 1), lambda p: nn.Linear(p, 1), outcome_features=["x1", "x2"],
        learning_rate=0.03, max_epochs=60, weight_decay=0.0,
    )  # fmt: skip
    linear.fit(sim.data[["x1", "x2", "z"]], y)
    p = linear.predict_proba(sim.data[["x1", "x2", "z"]])[:, 1]
    assert np.abs(p - results.predict()).max() < 0.06
    assert abs(linear.loading_ - results.params["loading"]) < 0.2
    path = linear.loading_path_
    assert abs(path.loc[path.log_likelihood.idxmax(), "loading"] - linear.loading_) < 0.3


def test_last_layers_are_refitted_where_they_are_linear():
    """At a loading of zero that is a logit; a network that ends otherwise keeps its index."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = (rng.random(400) < expit(X @ [1.0, -0.5, 0.0] - 0.3)).astype(float)
    problem = Problem(Labels(y, np.array([0, 1])), np.ones(400), LOGIT)
    target = problem.joint(np.full(400, np.inf), 0.0)
    with torch.random.fork_rng():
        linear = nn.Linear(3, 1)
        deep = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1), nn.Flatten(0)).double()
        bent = nn.Sequential(nn.Linear(3, 1), nn.Tanh()).double()
    features = last_features(linear, X)
    np.testing.assert_allclose(features[:, 1:], X, rtol=1e-6)
    expected = sm.Logit(y, sm.add_constant(X)).fit(disp=False, tol=1e-10).params
    np.testing.assert_allclose(fit_linear(target, features), expected, atol=1e-3)
    inside = deep[1](deep[0](torch.as_tensor(X))).detach().numpy()
    np.testing.assert_allclose(last_features(deep, X)[:, 1:], inside)
    np.testing.assert_allclose(
        last_features(bent, X)[:, 1:], bent(torch.as_tensor(X)).detach().numpy()
    )


def test_without_unlabelled_rows_it_is_an_ordinary_network():
    X, _, full = simulate(300, 3)
    with pytest.warns(Warning, match="every row has a label"):
        model = build(max_epochs=2).fit(X, full)
    assert model.loading_ == 0.0 and model.selection_module_ is None
    np.testing.assert_array_equal(
        model.predict_proba(X, "unlabelled"), model.predict_proba(X, "population")
    )
    assert (model.selection_proba(X) == 1.0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_epochs": 0}, "max_epochs=0 must be an integer of at least 1"),
        ({"validation_fraction": 1.0}, "validation_fraction=1.0 must lie between 0 and 1"),
        ({"loading": 80.0}, "loading=80.0 must lie between -50 and 50"),
        ({"weight_decay": -1.0}, "weight_decay=-1.0 must not be negative"),
        ({"outcome": nn.Linear(3, 2)}, r"a network returned shape \(2, 2\)"),
        ({"device": "meta"}, "device='meta' cannot hold float64"),
    ],
)
def test_bad_options_are_refused(options, message):
    X, y, _ = simulate(300, 4)
    with pytest.raises(ValueError, match=message):
        build(**options).fit(X, y)


def test_a_function_must_return_a_network_and_features_must_be_numbers():
    X, y, _ = simulate(300, 5)
    with pytest.raises(TypeError, match=r"a network must be a torch.nn.Module, got int"):
        build(outcome=lambda p: p).fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        build().fit(X.assign(x0=np.nan), y)
    with pytest.warns(NoExclusionRestrictionWarning):
        NeuralSelectionClassifier(max_epochs=1).fit(X, y)
