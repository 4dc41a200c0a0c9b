"""Tests of independence are refused, or replaced, where they would mislead."""

from __future__ import annotations

import pickle
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from scipy.special import expit
from statsmodels.discrete.discrete_model import Logit, Probit

from statsmodels_mnar import (
    BiasCorrLogit,
    GreeneSelectionLogit,
    ProbitSelection,
    Simulation,
    Status,
    WeakIdentificationWarning,
)
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.errors import NoExclusionRestrictionWarning
from statsmodels_mnar.post import dependence as independence


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


@pytest.mark.full
def test_perfectly_correlated_errors_end_at_the_probit_models_maximum():
    """The free model contains the probit face with rho held at its bound."""
    rng = np.random.default_rng(0)
    x, z, u = rng.standard_normal((3, 400))
    data = pd.DataFrame({"x": x, "z": z, "s": (z + 0.5 * x + u > 0).astype(int)})
    data["y"] = np.where(data.s == 1, x + u > 0, np.nan)
    formulas = ("y ~ x", "s ~ x + z")
    with pytest.warns(WeakIdentificationWarning, match="perfectly correlated"):
        probit = ProbitSelection.from_formula(*formulas, data).fit()
    assert probit.status is Status.RHO_PLUS
    assert "held at 1" in str(probit.summary())
    for name in ("probit", "free"):
        model = GreeneSelectionLogit.from_formula(*formulas, data, normalization=name)
        with pytest.warns(WeakIdentificationWarning, match="perfectly correlated"):
            results = model.fit()
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


@pytest.mark.full
def test_a_better_link_is_no_evidence_of_dependence():
    """A probit outcome with a far tail, no dependence: the free model's LR is not fooled."""
    rng = np.random.default_rng(5)
    n = 6_000  # as many as show the link to be another
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


# -- degrees of freedom ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def one_on_a_face():
    """With x2 the maximum of the free model lies on a face, without it inside (at this seed)."""
    simulated = simulate_greene(400, rng=6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakIdentificationWarning)
        return [
            GreeneSelectionLogit.from_formula(
                formula, simulated.select_formula, simulated.data, normalization="free"
            ).fit()
            for formula in ("y ~ x1", "y ~ x1 + x2")
        ]


def test_a_restriction_has_its_own_degrees_of_freedom_on_any_face(one_on_a_face):
    small, full = one_on_a_face
    statistic, pvalue, df = full.compare_lr_test(small)
    assert df == 1  # the coefficient of x2
    assert statistic == pytest.approx(2 * (full.llf - small.llf))
    assert pvalue == pytest.approx(stats.chi2.sf(statistic, 1))


def test_criteria_count_the_parameters_of_the_model_and_not_of_the_face(one_on_a_face):
    for results, columns in zip(one_on_a_face, (2 + 4, 3 + 4), strict=True):
        count = columns + 2  # sigma and rho
        assert results.aic == pytest.approx(2 * count - 2 * results.llf)
        assert results.bic == pytest.approx(np.log(400) * count - 2 * results.llf)
        assert results.df_resid == 400 - count
        expected = stats.chi2.sf(2 * (results.llf - results.llnull), count - 2)
        assert results.llr_pvalue == pytest.approx(expected)


def test_a_model_that_is_not_a_special_case_has_no_likelihood_ratio(one_on_a_face):
    simulated = simulate_greene(400, rng=6)
    full = one_on_a_face[1]
    other = GreeneSelectionLogit.from_formula(
        "y ~ np.exp(x1)", simulated.select_formula, simulated.data, normalization="loading"
    ).fit()
    with pytest.raises(ValueError, match="special case"):
        full.compare_lr_test(other)
    shuffled = simulated.data.sample(frac=1, random_state=0)
    other = build(replace(simulated, data=shuffled), normalization="loading").fit()
    with pytest.raises(ValueError, match="same observations"):
        full.compare_lr_test(other)


# -- the printed likelihoods -----------------------------------------------------------------------


def printed(results):
    text = results.summary().as_text()
    without = re.search(r"LL, (?:independent|rho = 0): +(-[\d.]+)", text)
    llf = re.search(r"Log-Likelihood: +(-[\d.]+)", text)
    ratio = re.search(r"LR test of independent equations: chi2\(1\) = ([\d.]+)", text)
    return [float(found.group(1)) for found in (llf, without, ratio)]


@pytest.mark.parametrize(
    ("normalization", "seed"),
    [
        pytest.param(normalization, seed, marks=() if default else pytest.mark.full)
        for seed in (2, 5)
        for normalization, default in (
            ("loading", False), ("free", seed == 2), ("probit", False), ({"sigma": 5.0}, seed == 2),
        )
    ],
)  # fmt: skip
def test_the_printed_log_likelihoods_give_the_printed_ratio(normalization, seed):
    simulated = simulate_greene(800, rng=seed)
    simulated.data["x1"] *= 3.0  # far tails, in which logit and probit differ
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakIdentificationWarning)
        llf, without, ratio = printed(build(simulated, normalization=normalization).fit())
    assert 2 * (llf - without) == pytest.approx(ratio, abs=0.025)


def test_the_free_model_at_rho_zero_is_the_best_link_from_logit_to_probit():
    simulated = simulate_greene(800, rng=5)
    simulated.data["x1"] *= 3.0
    data = simulated.data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakIdentificationWarning)
        results = build(simulated, normalization="free").fit()
    select = Probit.from_formula(simulated.select_formula, data).fit(disp=False).llf
    seen = data[data.s == 1]
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    X = np.column_stack([np.ones(len(seen)), seen.x1, seen.x2])
    sign = 2.0 * seen.y.to_numpy() - 1.0

    def at(sigma):
        def loss(b):
            index = sign[:, None] * ((X @ b)[:, None] + sigma * nodes)
            return -np.log(expit(index) @ weights / weights.sum()).sum()

        start = Logit(seen.y, X).fit(disp=False).params * np.sqrt(1 + 3 * sigma**2 / np.pi**2)
        return -optimize.minimize(loss, start, method="BFGS").fun

    best = max(at(sigma) for sigma in (0.0, 0.5, 1.0, 2.0, 4.0))
    best = max(best, Probit(seen.y, X).fit(disp=False).llf)
    assert results._results._ll_ignorable() >= select + best - 1e-5
    assert results._results._ll_ignorable() <= select + best + 0.01


def test_the_summary_of_a_free_fit_fits_no_model_again(monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakIdentificationWarning)
        results = build(simulate_greene(500, rng=1), normalization="free").fit()

    def refuse(*_):
        raise AssertionError("a model was fitted")

    monkeypatch.setattr(GreeneSelectionLogit, "_fit", refuse)
    text = results.summary().as_text()
    monkeypatch.setattr(independence, "free_without_dependence", refuse)
    assert results.summary().as_text() == text
    assert pickle.loads(pickle.dumps(results)).summary().as_text() == text


# -- the score test --------------------------------------------------------------------------------


def without_dependence(n, instrument, rng):
    x, z, u = rng.standard_normal((3, n))
    data = pd.DataFrame({"x": x, "z": z, "s": (0.2 + 0.5 * x + instrument * z + u > 0) * 1})
    data["y"] = np.where(data.s == 1, rng.uniform(size=n) < expit(0.2 + x), np.nan)
    return data


def score_test(data, cls=GreeneSelectionLogit, formulas=("y ~ x", "s ~ x + z"), **options):
    normalization = {"rho": 0.0} if cls is ProbitSelection else "independent"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoExclusionRestrictionWarning)
        model = cls.from_formula(*formulas, data, normalization=normalization)
        return model.fit(**options).test_independence("score")


@pytest.mark.parametrize(
    ("cls", "reference"), [(GreeneSelectionLogit, Logit), (ProbitSelection, Probit)]
)
def test_the_score_test_is_that_of_the_mills_ratio_as_a_column(cls, reference):
    data = without_dependence(300, 0.3, np.random.default_rng(3))
    select = Probit.from_formula("s ~ x + z", data).fit(disp=False)
    seen = (data.s == 1).to_numpy()
    b = np.asarray(select.fittedvalues)[seen]
    Z = np.column_stack([np.ones(seen.sum()), data.x[seen], stats.norm.pdf(b) / stats.norm.cdf(b)])
    y = data.y[seen].to_numpy()
    model = reference(y, Z)
    at = np.append(reference(y, Z[:, :2]).fit(disp=False, tol=1e-12).params, 0.0)
    a = Z @ at
    if reference is Logit:
        v = expit(a) * expit(-a)
    else:
        v = stats.norm.pdf(a) ** 2 / (stats.norm.cdf(a) * stats.norm.cdf(-a))
    score = model.score(at)
    expected = score @ np.linalg.solve((Z * v[:, None]).T @ Z, score)
    assert score_test(data, cls).statistic == pytest.approx(expected, rel=1e-4)


def test_the_score_test_is_there_with_weak_instruments():
    """By the observed information it is NaN in half of such sets."""
    rng = np.random.default_rng(0)
    for instrument, select in ((0.0, "s ~ x"), (0.15, "s ~ x + z")):
        for _ in range(5):
            data = without_dependence(200, instrument, rng)
            test = score_test(data, formulas=("y ~ x", select))
            assert 0.0 <= test.statistic < 20.0


def test_without_information_the_score_test_says_so():
    data = without_dependence(300, 0.0, np.random.default_rng(1))
    data["x"] = (data.x > 0) * 1.0  # the Mills ratio has two values, as x has
    test = score_test(data, formulas=("y ~ x", "s ~ x"))
    assert np.isnan(test.statistic) and "there is none" in str(test)


@pytest.mark.slow
@pytest.mark.parametrize("instrument", [0.0, 0.15, 1.0])
@pytest.mark.parametrize("n", [200, 500])
@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0"])
def test_size_of_the_score_test(n, instrument, cov_type):
    rng = np.random.default_rng(n)
    formulas = ("y ~ x", "s ~ x + z" if instrument else "s ~ x")
    rejected = [
        score_test(without_dependence(n, instrument, rng), formulas=formulas, cov_type=cov_type)
        .pvalue < 0.05
        for _ in range(400)
    ]  # fmt: skip
    print(f"n = {n}, instrument {instrument}, {cov_type}: {np.mean(rejected):.3f}")
    assert 0.02 < np.mean(rejected) < 0.085  # three standard errors, 0.011 each
