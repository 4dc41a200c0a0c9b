"""The free form: the maximum of the closed model, and a warning only where there is a ridge."""

from __future__ import annotations

import re
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from statsmodels.tools.sm_exceptions import ModelWarning

from statsmodels_mnar import GreeneSelectionLogit, Status, WeakIdentificationWarning
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.models import free


def fit(simulated, normalization="free"):
    return GreeneSelectionLogit.from_formula(
        simulated.formula,
        simulated.select_formula,
        simulated.data,
        normalization=normalization,
    ).fit()


@cache
def free_fit(sigma, rho, seed):
    """Data, their fit, and what it warned of."""
    simulated = simulate_greene(4_000, sigma=sigma, rho=rho, rng=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = fit(simulated)
    assert all(issubclass(each.category, WeakIdentificationWarning) for each in caught)
    return simulated, results, [str(each.message) for each in caught]


def test_an_interior_maximum_on_a_ridge_warns_with_figures():
    _, results, (said,) = free_fit(1.0, 0.6, 2)
    assert re.search(r"SE\(lnsigma\) = 4.*loading", said)
    assert results.status is Status.CONVERGED
    assert list(results.params.index[-2:]) == ["lnsigma", "athrho"]
    assert "not identified separately" in str(results.summary())
    assert "lnsigma and athrho" in str(results.identification)


@pytest.mark.full  # test_faces.py tries the same on fewer rows
@pytest.mark.parametrize(
    ("sigma", "rho", "seed", "status"),
    [
        (1.0, 0.6, 2, Status.CONVERGED),
        (2.0, 0.5, 0, Status.RHO_PLUS),
        (1.5, -0.4, 3, Status.RHO_MINUS),
        (2.0, 0.5, 1, Status.SIGMA_INFINITE),
    ],
)
def test_no_fixed_sigma_and_no_face_is_better(sigma, rho, seed, status):
    simulated, results, _ = free_fit(sigma, rho, seed)
    assert results.status is status
    others = ["loading", "probit", "independent", *({"sigma": s} for s in (0.3, 1.0, 3.0, 9.0))]
    best = max(fit(simulated, other).llf for other in others)
    assert results.llf >= best - 1e-6
    assert results.llf >= results.llindep


def test_independent_normalization_is_a_logit_and_a_probit():
    import statsmodels.api as sm

    simulated = simulate_greene(1_500, rng=4)
    data = simulated.data
    results = fit(simulated, "independent")
    labelled = data[data.s == 1]
    logit = sm.Logit.from_formula(simulated.formula, labelled).fit(disp=False)
    probit = sm.Probit.from_formula(simulated.select_formula, data).fit(disp=False)
    np.testing.assert_allclose(
        results.params, np.r_[logit.params, probit.params], rtol=1e-5, atol=1e-8
    )
    np.testing.assert_allclose(results.bse, np.r_[logit.bse, probit.bse], rtol=1e-5)
    assert results.llf == pytest.approx(logit.llf + probit.llf, abs=1e-7)
    assert results.llindep == pytest.approx(results.llf, abs=1e-7)


def test_score_test_is_the_same_for_every_normalization_and_close_to_lr():
    simulated = simulate_greene(3_000, sigma=0.4, rng=6)
    fits = [fit(simulated, name) for name in ("loading", {"sigma": 1.0})]
    scores = [results.test_independence("score").statistic for results in fits]
    assert scores[0] == pytest.approx(scores[1], rel=1e-8)
    ratio = scores[0] / fits[0].test_independence("lr").statistic
    assert 0.7 < ratio < 1.4  # equal asymptotically under local alternatives


def test_null_log_likelihood_is_that_of_constants():
    simulated = simulate_greene(1_000, rng=7)
    results = fit(simulated, "loading")
    constants = GreeneSelectionLogit.from_formula(
        "y ~ 1", "s ~ 1", simulated.data, normalization="independent"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert results.llnull == pytest.approx(constants.fit().llf, abs=1e-8)
    assert results.llr == pytest.approx(2 * (results.llf - results.llnull))


def test_summary_as_html_and_latex():
    results = fit(simulate_greene(1_000, rng=8), "loading")
    html, latex = results.summary().as_html(), results.summary().as_latex()
    for text in (html, latex):
        assert "loading" in text
        assert "Unselected" in text
    assert html.count("<table") == 5
    assert "\\begin{tabular}" in latex


def test_many_starts_as_one_batch():
    """All starts are shown; the best of them is the fit, and it is no worse than the default's."""
    simulated = simulate_greene(600, sigma=1.5, rho=0.5, rng=4)
    model = GreeneSelectionLogit.from_formula(
        simulated.formula, simulated.select_formula, simulated.data, normalization="free"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakIdentificationWarning)
        plain, spread = model.fit(), model.fit(n_starts=12)
    assert len(spread.multistart) == len(plain.multistart) + 12
    assert np.ptp(spread.multistart.start_error_corr) > 1.0
    assert spread.llf >= spread.multistart.llf.max() - 1e-8  # the face it leads to may be higher
    assert spread.llf >= plain.llf - 1e-6
    fixed = GreeneSelectionLogit.from_formula(
        simulated.formula, simulated.select_formula, simulated.data, normalization="loading"
    )
    assert fixed.fit(n_starts=12).llf == pytest.approx(fixed.fit().llf, abs=1e-8)
    with pytest.raises(ValueError, match="n_starts=1 must be"):
        model.fit(n_starts=1)
    with pytest.raises(ValueError, match="multistart needs"):
        _ = fixed.fit(method="lbfgs").multistart


def test_what_nothing_identifies_is_said():
    """Two shares are known, three parameters are asked for: every error correlation fits."""
    data = pd.DataFrame({"y": [1, 0, None, 1, None, 0], "s": [1, 1, 0, 1, 0, 1]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        results = GreeneSelectionLogit.from_formula("y ~ 1", "s ~ 1", data).fit()
    text = str(results.summary())
    assert results.status is Status.FLAT
    assert "flat in the dependence" in text and "there is no instrument" in text
    table = results.dependence_table()
    assert table.loc["error_corr"].tolist()[2:] == [-1.0, 1.0]


@pytest.mark.parametrize(("sigma", "rho"), [(2.0, -0.6), (4.0, 0.8)])
def test_many_rows_are_climbed_from_a_part_of_them_to_the_same_maximum(sigma, rho, monkeypatch):
    sim = simulate_greene(20_000, sigma=sigma, rho=rho, rng=2)

    def fit():
        model = GreeneSelectionLogit.from_formula(
            sim.formula, sim.select_formula, sim.data, normalization="free"
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit()

    ahead = fit()
    monkeypatch.setattr(free, "_ahead", lambda objective, starts, rarest: starts)
    from_all = fit()
    assert ahead.status is from_all.status
    assert_allclose(ahead.llf, from_all.llf, atol=1e-7, rtol=0)
    assert_allclose(ahead.error_corr, from_all.error_corr, atol=1e-4)
