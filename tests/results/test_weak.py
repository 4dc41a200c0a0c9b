"""Fits of which the data say little: found out, and given intervals that hold."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, optimize
from scipy.special import expit
from scipy.stats import chi2, norm
from statsmodels.tools.sm_exceptions import ModelWarning

from statsmodels_mnar import (
    BiasCorrLogit,
    Execution,
    GreeneSelectionLogit,
    ProbitSelection,
    WeakIdentificationWarning,
    from_json,
)
from statsmodels_mnar.results.inference import FEW, widened

V = np.pi**2 / 3.0


def simulate(n: int, instrument: float, loading: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, z, u = rng.standard_normal((3, n))
    y = (rng.random(n) < expit(x + loading * u)).astype(float)
    s = 0.2 + 0.5 * x + instrument * z + u > 0
    return pd.DataFrame({"x": x, "z": z, "s": s.astype(int), "y": np.where(s, y, np.nan)})


def fit(data, select="s ~ x + z", model=GreeneSelectionLogit, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return model.from_formula("y ~ x", select, data, **options).fit()


@pytest.fixture(scope="module")
def weak():
    """An instrument of 0.15 at n = 500."""
    return fit(simulate(500, 0.15, 1.5, 3))


@pytest.fixture(scope="module")
def strong():
    return fit(simulate(2_000, 1.0, 0.8, 3))


def test_a_strong_fit_keeps_wald(strong):
    assert strong.weak == ()
    assert len(strong.maxima) == 1
    for interval in (None, "wald"):
        np.testing.assert_array_equal(strong.conf_int(interval=interval), strong.conf_int())
    assert strong.get_prediction(average=True).interval == "wald"
    assert "profile" not in str(strong.summary())


def test_profile_intervals_of_a_strong_fit_are_close_to_walds(strong):
    """Asked for by hand: Wald's ends move by less than a tenth of its length."""
    for call in (
        lambda interval: strong.get_prediction(average=True, interval=interval).conf_int(),
        lambda interval: strong.get_margeff(interval=interval).conf_int(),
        lambda interval: np.asarray(strong.conf_int(interval=interval)),
    ):
        wald, profile = call("wald"), call("profile")
        assert (np.abs(profile - wald) < 0.1 * np.ptp(wald, axis=1)[:, None]).all()


@pytest.fixture(scope="module")
def skewed():
    """A strong instrument and a loading of 3 at n = 500."""
    return fit(simulate(500, 1.0, 3.0, 1))


def test_a_skewed_likelihood_has_profile_intervals_but_is_not_weak(skewed):
    assert skewed.weak == ()
    assert skewed.get_prediction(average=True).interval == "profile"
    text = " ".join(str(skewed.summary()).split())
    assert "Few rows are labelled" in text
    assert f"take {widened(skewed):.2f} times the chi-squared quantile" in text
    (piece,) = skewed.profile("error_corr").pieces
    shown = skewed.dependence_table().loc["error_corr"].to_numpy(dtype=float)[2:]
    np.testing.assert_allclose(shown, piece, atol=1e-3)


def test_many_labels_have_profile_intervals_where_the_likelihood_is_skewed():
    text = " ".join(str(fit(simulate(2_000, 1.0, 3.0, 1)).summary()).split())
    assert "The likelihood is skewed in error_corr" in text


def test_few_labels_have_profile_intervals_whatever_the_shape_of_the_likelihood():
    """Estimates near zero, where the likelihood is a parabola: Wald's set, widened."""
    few = fit(simulate(600, 1.0, 0.0, 3))
    assert few.nobs_selected < FEW and few.weak == ()
    low, high = few.dependence_table().loc["error_corr"].to_numpy(dtype=float)[2:]
    wald = few.dependence_table(interval="wald").loc["error_corr"].to_numpy(dtype=float)[2:]
    ratio = np.ptp(np.arctanh([low, high])) / np.ptp(np.arctanh(wald))
    assert ratio == pytest.approx(np.sqrt(widened(few)), rel=0.05)
    at_ends = few.profile("error_corr", grid=[low, high]).values
    np.testing.assert_allclose(2 * (few.llf - at_ends), widened(few) * chi2.ppf(0.95, 1), atol=2e-3)


def test_the_interval_of_a_skewed_fit_is_that_of_the_profile_likelihood(skewed):
    """The slope is held at the ends and everything else refitted: the likelihood falls by the cut.

    Given the error correlation the likelihood is taken for a parabola, and values of it between
    those that were fitted are interpolated: that is within a tenth of the cut here.
    """
    low, high = np.asarray(skewed.conf_int())[1]
    for value in (low, high):
        held = skewed.profile("x", grid=[value]).summary_frame()
        assert held.lr.iloc[0] == pytest.approx(chi2.ppf(0.95, 1), rel=0.1)
    wald = np.asarray(skewed.conf_int(interval="wald"))[1]
    assert high - skewed.params["x"] > 1.2 * (wald[1] - skewed.params["x"])


def test_a_weak_instrument_is_named_and_widens_what_it_should(weak):
    assert weak.weak == ("the instrument is weak",)
    for found in (weak.get_prediction(average=True), weak.get_margeff()):
        assert found.interval == "profile"
    text = str(weak.summary())
    assert "Outcome: y (profile intervals)" in text
    assert "every error correlation that the" in text
    assert weak.get_prediction().interval == "wald"  # of single rows
    wald = weak.get_margeff(interval="wald")
    assert wald.interval == "wald" and (wald.pvalues < weak.get_margeff().pvalues).all()


def loglike(coef: np.ndarray, loading: float, data: pd.DataFrame) -> float:
    """The loading form by Simpson's rule, written apart from the package."""
    a = coef[0] + coef[1] * data.x.to_numpy()
    b = coef[2] + coef[3] * data.x.to_numpy() + coef[4] * data.z.to_numpy()
    s, y = data.s.to_numpy() == 1, data.y.to_numpy()
    u = -b[s, None] + np.linspace(0.0, 1.0, 401) * (9.0 + np.maximum(b[s, None], 0.0))
    f = expit((2.0 * y[s, None] - 1.0) * (a[s, None] + loading * u)) * norm.pdf(u)
    return np.log(integrate.simpson(f, x=u, axis=1)).sum() + norm.logcdf(-b[~s]).sum()


def test_the_set_is_that_of_a_likelihood_written_apart(weak):
    """At the ends of the pieces the likelihood ratio is the chi-squared quantile, widened."""
    data = simulate(500, 0.15, 1.5, 3)
    assert loglike(weak.params[:5].to_numpy(), weak.params["loading"], data) == pytest.approx(
        weak.llf, abs=1e-4  # of the rule here, at 400 steps
    )  # fmt: skip
    (piece,) = weak.profile("error_corr").pieces
    assert piece[1] == 1.0
    loading = piece[0] * np.sqrt(V / (1.0 - piece[0] ** 2))
    held = optimize.minimize(
        lambda coef: -loglike(coef, loading, data), weak.params[:5].to_numpy(), method="BFGS"
    )
    assert 2.0 * (weak.llf + held.fun) == pytest.approx(
        (1 + min(0.2, 60 / weak.nobs_selected)) * chi2.ppf(0.95, 1), abs=2e-3
    )
    shown = weak.dependence_table().loc["error_corr"].to_numpy(dtype=float)[2:]
    assert shown[0] <= piece[0] + 1e-3 and shown[1] == 1.0


def test_an_interval_is_the_union_of_refits_at_fixed_correlations(weak):
    """By sensitivity(), which refits for itself."""
    (piece,) = weak.profile("error_corr").pieces
    grid = np.tanh(np.linspace(np.arctanh(piece[0]), 3.2, 25))
    for target, found, variable in (
        ("prevalence", weak.get_prediction(average=True).conf_int()[0], None),
        ("margeff", weak.get_margeff().conf_int()[0], "x"),
    ):
        table = weak.sensitivity(error_corr=grid, target=target, variable=variable).table
        expected = table.ci_lower.min(), table.ci_upper.max()
        # Interpolated between nine refits here, the least and largest of 25 there.
        assert found == pytest.approx(expected, abs=0.01)


def test_p_values_and_intervals_say_the_same(weak):
    for alpha in (0.01, 0.05, 0.2, 0.5):
        low, high = np.asarray(weak.conf_int(alpha)).T
        excluded = (low > 0.0) | (high < 0.0)
        np.testing.assert_array_equal(excluded[:5], (np.asarray(weak.pvalues) < alpha)[:5])
    lr = weak.test_independence("lr")
    assert weak.pvalues["loading"] == pytest.approx(chi2.sf(lr.statistic / 1.2, 1), abs=0.01)


def test_weak_results_survive_storage(weak):
    text = str(weak.summary()).splitlines()[4:]
    again = pickle.loads(pickle.dumps(weak))
    assert str(again.summary()).splitlines()[4:] == text
    stored = from_json(weak.to_json())
    assert stored.weak == weak.weak
    np.testing.assert_allclose(stored.conf_int(), weak.conf_int(), rtol=1e-9)
    new = pd.DataFrame({"x": [0.0, 1.0], "z": [0.0, 0.0]})
    bare = pickle.loads(pickle.dumps(weak))
    bare.remove_data()
    expected = weak.get_prediction(new, average=True).conf_int()
    np.testing.assert_allclose(bare.get_prediction(new, average=True).conf_int(), expected)


def test_no_instrument_is_said():
    results = fit(simulate(500, 0.0, 1.0, 5), "s ~ x")
    assert "there is no instrument" in results.weak
    assert "rests on" in str(results.summary())


def test_a_corner_warns_and_its_intervals_leave_it():
    """The likelihood is largest at perfect correlation, which these data do not have."""
    data = simulate(500, 0.0, 0.0, 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = GreeneSelectionLogit.from_formula("y ~ x", "s ~ x", data).fit()
    told = [w for w in caught if issubclass(w.category, WeakIdentificationWarning)]
    assert "perfectly correlated" in str(told[0].message)
    assert "the errors are perfectly correlated at the maximum" in results.weak
    wald = results.get_prediction(average=True, interval="wald").conf_int()[0]
    found = results.get_prediction(average=True).conf_int()[0]
    assert np.ptp(found) > 3.0 * np.ptp(wald)
    assert found[0] < 0.5 < found[1]  # the truth
    probit = fit(data, "s ~ x", ProbitSelection)  # which is flat on the way to the corner
    low, high = probit.get_prediction(average=True).conf_int()[0]
    assert probit.weak and (low, high) == pytest.approx(found, abs=0.05)


def test_two_maxima_are_shown_and_warned_of():
    """One of the sets of the search for the maximum, with a hump for each sign."""
    data = two_humps()
    with pytest.warns(WeakIdentificationWarning, match="another maximum at error_corr"):
        results = GreeneSelectionLogit.from_formula("y ~ x", "s ~ x + z", data).fit()
    table = results.maxima
    assert len(table) == 2
    assert table.loglik[0] == results.llf and 0.0 < table.lr[1] < chi2.ppf(0.95, 1)
    assert table.error_corr[0] * table.error_corr[1] < 0
    assert "another maximum is about as likely (see maxima)" in results.weak
    low, high = results.get_prediction(average=True).conf_int()[0]
    assert (table.prevalence.between(low, high)).all()


def two_humps() -> pd.DataFrame:
    rng = np.random.default_rng(43)
    x, z, u = rng.standard_normal((3, 150))
    loading = rng.normal()
    y = (rng.random(150) < expit(x + loading * u)).astype(float)
    s = 0.2 + 0.5 * x + 0.2 * z + u > 0
    return pd.DataFrame({"x": x, "z": z, "s": s.astype(int), "y": np.where(s, y, np.nan)})


def test_what_has_no_likelihood_keeps_wald(weak):
    robust = weak.get_robustcov_results("HC0")
    assert robust.weak == ()
    assert robust.get_prediction(average=True).interval == "wald"
    with pytest.raises(ValueError, match="likelihood ratio"):
        robust.get_prediction(average=True, interval="profile")
    corrected = fit(simulate(500, 0.15, 1.5, 3), model=BiasCorrLogit)
    assert corrected.weak == ()
    with pytest.raises(ValueError, match="interval='x' is unknown"):
        weak.get_prediction(average=True, interval="x")


def test_variables_of_the_data_have_the_intervals_of_their_columns(weak):
    for which in ("mean", "mean-unselected"):
        moved = weak.get_margeff(variables=["x"], which=which)
        column = weak.get_margeff(which=which)
        np.testing.assert_allclose(moved.margeff[0], column.margeff[0], atol=1e-7)
        np.testing.assert_allclose(moved.conf_int()[0], column.conf_int()[0], atol=1e-6)


def test_many_rows_are_refitted_only_where_asked(weak, monkeypatch):
    from statsmodels_mnar.results import inference as rules

    expected = weak.get_prediction(average=True).conf_int()
    monkeypatch.setattr(rules, "_MOST_ROWS", 100)
    again = fit(simulate(500, 0.15, 1.5, 3))
    assert again.weak
    assert again.get_prediction(average=True).interval == "wald"
    assert "may be too short" in str(again.summary())
    asked = again.get_prediction(average=True, interval="profile").conf_int()
    np.testing.assert_allclose(asked, expected, atol=1e-6)


def test_partitions_have_the_intervals_of_rows_in_memory(weak):
    results = fit(simulate(500, 0.15, 1.5, 3), execution=Execution(partition_rows=300))
    assert results.weak == weak.weak
    for call in (
        lambda fitted: fitted.get_prediction(average=True),
        lambda fitted: fitted.get_margeff(which="mean-unselected"),
        lambda fitted: fitted.get_margeff(at="mean"),
    ):
        np.testing.assert_allclose(call(results).conf_int(), call(weak).conf_int(), atol=1e-5)
