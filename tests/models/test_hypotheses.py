"""Tests of independence are refused, or replaced, where they would mislead."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from statsmodels.discrete.discrete_model import Probit

from statsmodels_mnar import (
    BiasCorrLogit,
    GreeneSelectionLogit,
    ProbitSelection,
    Simulation,
    Status,
    WeakIdentificationWarning,
)
from statsmodels_mnar.datasets import simulate_greene


def build(simulated, cls=GreeneSelectionLogit, **options):
    formulas = (simulated.formula, simulated.select_formula)
    return cls.from_formula(*formulas, simulated.data, **options)


def test_athrho_alone_does_not_test_independence_where_sigma_is_free():
    """Its standard error is that of the ridge: LR is 46 here, and such a Wald statistic 0.02."""
    simulated = simulate_greene(2_000, rng=2, sigma=2.0, rho=0.8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakIdentificationWarning)
        results = build(simulated, normalization="free").fit(cov_type="HC0")
    assert results.status is Status.CONVERGED
    test = results.test_independence()
    assert test.method == "score"
    assert test.pvalue < 1e-6
    assert str(test) in str(results.summary())
    with pytest.raises(ValueError, match="hardly identified"):
        results.test_independence("wald")
    assert results._results._scale_remedy() == "'loading'"  # sigma = 1 caps below 0.66


def test_a_stopped_descent_has_no_likelihood_ratio():
    simulated = simulate_greene(500, rng=1)
    model = build(simulated, integration=Simulation(20, "random"))
    results = model.fit(method="sgd")
    assert results.test_independence().method == "score"
    for method in ("lr", "wald"):
        with pytest.raises(ValueError, match="at a maximum"):
            results.test_independence(method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cut = model.fit(method="sgd", maxiter=3)
    assert np.isnan(cut.bse).all()
    assert "fixed" not in str(cut.summary())


def test_biascorr_has_no_likelihood_ratio():
    results = build(simulate_greene(500, rng=1), BiasCorrLogit, normalization={"sigma": 1.0}).fit()
    with pytest.raises(ValueError, match="not a likelihood"):
        results.compare_lr_test(results)
    assert not hasattr(results, "llnull")


def test_perfectly_correlated_errors_end_at_the_probit_models_maximum():
    """The free model contains the probit face with rho held at its bound."""
    rng = np.random.default_rng(0)
    x, z, u = rng.standard_normal((3, 400))
    data = pd.DataFrame({"x": x, "z": z, "s": (z + 0.5 * x + u > 0).astype(int)})
    data["y"] = np.where(data.s == 1, x + u > 0, np.nan)
    formulas = ("y ~ x", "s ~ x + z")
    probit = ProbitSelection.from_formula(*formulas, data).fit()
    assert probit.status is Status.RHO_PLUS
    assert "held at 0.9999" in str(probit.summary())
    for name in ("probit", "free"):
        results = GreeneSelectionLogit.from_formula(*formulas, data, normalization=name).fit()
        assert results.llf >= probit.llf - 1e-6


def test_null_likelihood_is_weighted_as_the_likelihood_is():
    simulated = simulate_greene(600, rng=4)
    simulated.data["w"] = np.random.default_rng(0).integers(1, 6, 600).astype(float)
    fits = [
        build(simulated, normalization="loading", **{kind: "w"}).fit()
        for kind in ("freq_weights", "prob_weights")
    ]
    assert fits[0].prsquared == pytest.approx(fits[1].prsquared, rel=1e-8)
    assert "Sampling weights" in str(fits[1].summary())


def test_both_designs_or_neither():
    results = build(simulate_greene(500, rng=1), normalization="loading").fit()
    X = results.model.exog
    with pytest.raises(ValueError, match="both designs"):
        results.model.predict(results.params, X, which="p11")


def test_conditional_probabilities_do_not_vanish_in_the_tails():
    results = build(simulate_greene(500, rng=1), normalization="loading").fit()
    far = pd.DataFrame({"x1": [0.0, 0.0], "x2": [0.0, 0.0], "z": [-60.0, 80.0]})
    assert np.isfinite(results.predict(far, which="mean-selected")).all()
    assert np.isfinite(results.predict(far, which="mean-unselected")).all()


def test_a_better_link_is_no_evidence_of_dependence():
    """A probit outcome with a far tail, no dependence: the free model's LR is not fooled."""
    rng = np.random.default_rng(5)
    n = 6_000
    x, z, u = rng.standard_normal((3, n))
    data = pd.DataFrame({"x": 2.5 * x, "z": z, "s": (0.3 + 0.3 * x + z + u > 0).astype(int)})
    data["y"] = np.where(data.s == 1, 0.8 * data.x + rng.standard_normal(n) > 0, np.nan)

    def fit(normalization, cls=GreeneSelectionLogit):
        options = {} if normalization is None else {"normalization": normalization}
        return cls.from_formula("y ~ x", "s ~ x + z", data, **options).fit()

    free = fit("free")
    assert free.status.name == "SIGMA_INFINITE"
    lr = free.test_independence("lr")
    probit = fit(None, ProbitSelection)
    apart = [
        Probit.from_formula(formula, rows).fit(disp=False).llf
        for formula, rows in (("y ~ x", data[data.s == 1]), ("s ~ x + z", data))
    ]
    assert lr.statistic == pytest.approx(2 * (free.llf - sum(apart)), abs=1e-4)
    assert lr.statistic == pytest.approx(probit.test_independence("lr").statistic, abs=1e-4)
    assert lr.pvalue > 0.5
    assert 2 * (free.llf - free.llindep) > 6.6  # a logit null would reject at the 1% level
    for normalization, null in (
        ("probit", {"sigma": np.inf, "rho": 0.0}),
        ({"sigma": 2.0}, {"sigma": 2.0, "rho": 0.0}),
    ):
        full, without = fit(normalization), fit(null)
        expected = 2 * (full.llf - without.llf)
        assert full.test_independence("lr").statistic == pytest.approx(expected, abs=1e-6)
