"""A do-file of heckprobit, line by line as docs/howto/from-stata-and-r.md translates it.

Stata's numbers are computed here from the formulas of its manual: bivariate normal probabilities by
Gauss-Legendre quadrature, derivatives by central differences.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import ndtr

from statsmodels_mnar import ProbitSelection
from statsmodels_mnar.datasets import simulate_greene

FORMULAS = ("y ~ x1 + x2", "s ~ x1 + x2 + z")
NODES, WEIGHTS = np.polynomial.legendre.leggauss(120)
STATISTICS = {  # of Stata's predict, and of ours
    "pmargin": "mean", "p11": "p11", "p10": "p10", "p01": "p01", "p00": "p00",
    "psel": "prob-select", "pcond": "mean-selected", "xb": "linear", "xbsel": "linear-select",
}  # fmt: skip


def both_below(a, b, r):
    """P(u < a, v < b) of a bivariate normal with correlation r."""
    a = np.minimum(a, 9.0)
    half = (a + 9.0) / 2.0
    at = half[:, None] * (NODES + 1.0) - 9.0
    inner = ndtr((b[:, None] - r * at) / np.sqrt(1.0 - r * r))
    return half * ((stats.norm.pdf(at) * inner) @ WEIGHTS)


def stata(theta, data):
    """What predict computes after heckprobit; the errors' correlation is tanh(theta[-1])."""
    xb = theta[0] + theta[1] * data["x1"] + theta[2] * data["x2"]
    xbsel = theta[3] + theta[4] * data["x1"] + theta[5] * data["x2"] + theta[6] * data["z"]
    xb, xbsel = np.asarray(xb), np.asarray(xbsel)
    p11 = both_below(xb, xbsel, np.tanh(theta[7]))
    p = {"xb": xb, "xbsel": xbsel, "pmargin": ndtr(xb), "psel": ndtr(xbsel), "p11": p11}
    p["p10"], p["p01"] = p["pmargin"] - p11, p["psel"] - p11
    p["p00"] = 1.0 - p11 - p["p10"] - p["p01"]
    p["pcond"] = p11 / p["psel"]
    return p


def logliks(theta, data):
    p = stata(theta, data)
    chance = np.where(data["y"] == 1, p["p11"], p["p01"])
    return np.log(np.where(data["s"] == 1, chance, 1.0 - p["psel"]))


def gradient(function, theta, step=1e-5):
    columns = []
    for j in range(len(theta)):
        move = np.zeros(len(theta))
        move[j] = step
        columns.append((function(theta + move) - function(theta - move)) / (2.0 * step))
    return np.stack(columns, axis=-1)


@pytest.fixture(scope="module")
def data():
    found = simulate_greene(900, rng=5).data
    index = np.arange(len(found))
    return found.assign(branch=index % 40, w=1.0 + index % 3)


@pytest.fixture(scope="module")
def svy(data):
    """``svyset branch [pweight=w]``, ``svy: heckprobit y x1 x2, select(s = x1 x2 z)``."""
    model = ProbitSelection.from_formula(*FORMULAS, data, prob_weights="w")
    return model.fit(cov_type="cluster", cov_kwds={"groups": "branch"})


@pytest.fixture(scope="module")
def plain(data):
    """``heckprobit y x1 x2, select(s = x1 x2 z)``."""
    return ProbitSelection.from_formula(*FORMULAS, data).fit()


@pytest.fixture(scope="module")
def covariance(data, svy):
    """Stata's linearized one, with G/(G - 1), from numerical derivatives."""
    theta = svy.params.to_numpy()
    weighted = gradient(lambda t: data["w"].to_numpy() * logliks(t, data), theta)
    np.testing.assert_allclose(weighted.sum(axis=0), 0.0, atol=1e-4)

    def score(t):
        return gradient(lambda u: (data["w"] * logliks(u, data)).sum(), t, 1e-4)

    bread = np.linalg.inv(-gradient(score, theta, 1e-4))
    clusters = pd.DataFrame(weighted).groupby(data["branch"].to_numpy()).sum().to_numpy()
    count = len(clusters)
    return bread @ (clusters.T @ clusters) @ bread * count / (count - 1)


def test_vce_cluster_and_svy(svy, covariance):
    np.testing.assert_allclose(svy.bse, np.sqrt(np.diag(covariance)), rtol=1e-5)


def test_vce_cluster_without_weights_and_robust(data, plain):
    theta = plain.params.to_numpy()
    rows = gradient(lambda t: logliks(t, data), theta)
    bread = plain.cov_params().to_numpy()
    groups = pd.DataFrame(rows).groupby(data["branch"].to_numpy()).sum().to_numpy()
    for meat, options in (
        (40 / 39 * groups.T @ groups, {"cov_type": "cluster", "cov_kwds": {"groups": "branch"}}),
        (rows.T @ rows, {"cov_type": "HC0"}),
    ):
        again = plain.model.fit(**options)
        np.testing.assert_allclose(again.bse, np.sqrt(np.diag(bread @ meat @ bread)), rtol=1e-5)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_predict(statistic, data, svy):
    found = svy.predict(data, which=STATISTICS[statistic])
    np.testing.assert_allclose(found, stata(svy.params.to_numpy(), data)[statistic], atol=1e-10)


@pytest.mark.parametrize(("statistic", "equation"), [("stdp", "xb"), ("stdpsel", "xbsel")])
def test_predict_standard_errors_of_the_indices(statistic, equation, data, svy, covariance):
    slopes = gradient(lambda t: stata(t, data)[equation], svy.params.to_numpy())
    expected = np.sqrt(np.einsum("ij,jk,ik->i", slopes, covariance, slopes))
    np.testing.assert_allclose(
        svy.get_prediction(data, which=STATISTICS[equation]).se, expected, rtol=1e-5
    )


@pytest.mark.parametrize("statistic", ["pmargin", "pcond", "p11", "psel"])
def test_margins(statistic, data, svy, covariance):
    """``margins, predict(statistic)``, which averages with the sampling weights."""

    def mean(theta):
        return np.average(stata(theta, data)[statistic], weights=data["w"])

    check_average(
        svy.get_prediction(which=STATISTICS[statistic], average=True), mean, svy, covariance
    )


def test_margins_at_values(data, svy, covariance):
    """``margins, at(x2 = 0)``."""
    fixed = data.assign(x2=0.0)
    found = svy.get_prediction(fixed, agg_weights=data["w"])

    def mean(theta):
        return np.average(stata(theta, fixed)["pmargin"], weights=data["w"])

    check_average(found, mean, svy, covariance)


def check_average(found, mean, svy, covariance):
    theta = svy.params.to_numpy()
    slope = gradient(mean, theta)
    row = found.summary_frame().iloc[0]
    assert row["predicted"] == pytest.approx(mean(theta), abs=1e-10)
    assert row["se"] == pytest.approx(np.sqrt(slope @ covariance @ slope), rel=1e-5)


@pytest.mark.parametrize("at", ["overall", "mean", {"x1": 0.5}])
@pytest.mark.parametrize("statistic", ["pmargin", "pcond"])
def test_margins_dydx(statistic, at, data, svy, covariance):
    """``margins, dydx(x1)``, ``margins, dydx(x1) atmeans``, ``margins, dydx(x1) at(x1 = 0.5)``."""
    rows, weights = data, data["w"].to_numpy()
    options = {"at": at} if isinstance(at, str) else {"atexog": at}
    if at == "mean":
        columns = ["x1", "x2", "z"]
        means = np.average(data[columns], axis=0, weights=weights)
        rows, weights = pd.DataFrame([means], columns=columns), np.ones(1)
    elif at != "overall":
        rows = data.assign(**at)

    def effect(theta):
        up, down = (stata(theta, rows.assign(x1=rows["x1"] + d))[statistic] for d in (1e-4, -1e-4))
        return np.average((up - down) / 2e-4, weights=weights)

    theta = svy.params.to_numpy()
    slope = gradient(effect, theta, 1e-4)
    frame = svy.get_margeff(which=STATISTICS[statistic], **options).summary_frame().loc["x1"]
    assert frame["dy/dx"] == pytest.approx(effect(theta), rel=1e-6)
    assert frame["Std. Err."] == pytest.approx(np.sqrt(slope @ covariance @ slope), rel=1e-4)


@pytest.mark.parametrize("method", ["dydx", "eyex"])
def test_margins_of_an_indicator_without_its_i(method, data, svy):
    """``margins, dydx(x2)`` and ``margins, eyex(x2)`` where the model has x2, not i.x2."""
    theta, weights = svy.params.to_numpy(), data["w"]
    p = ndtr(stata(theta, data)["xb"])
    up, down = (stata(theta, data.assign(x2=data["x2"] + d))["pmargin"] for d in (1e-5, -1e-5))
    slopes = (up - down) / 2e-5
    expected = np.average(slopes if method == "dydx" else slopes * data["x2"] / p, weights=weights)
    frame = svy.get_margeff(method=method, dummy=False).summary_frame()
    assert frame.filter(regex="/").loc["x2"].iloc[0] == pytest.approx(expected, rel=1e-6)


def test_test_and_lincom(svy, covariance):
    """``test x1 x2``, ``lincom x1 - x2``, ``test [s]z``, ``test /athrho``."""
    theta = svy.params.to_numpy()
    both, block = theta[1:3], covariance[1:3, 1:3]
    found = svy.wald_test("x1 = x2 = 0", scalar=True)
    assert found.statistic == pytest.approx(both @ np.linalg.solve(block, both), rel=1e-4)
    assert found.df_denom == 2 and found.distribution == "chi2"
    line = svy.t_test("x1 - x2 = 0")
    se = np.sqrt(block[0, 0] - 2 * block[0, 1] + block[1, 1])
    assert line.effect[0] == pytest.approx(both[0] - both[1], rel=1e-10)
    assert line.sd[0, 0] == pytest.approx(se, rel=1e-4)
    np.testing.assert_allclose(
        line.conf_int()[0], line.effect[0] + se * stats.norm.ppf([0.025, 0.975]), rtol=1e-4
    )
    for name, place in (("select_z", 6), ("athrho", 7)):
        statistic = svy.wald_test(f"{name} = 0", scalar=True).statistic
        assert statistic == pytest.approx(theta[place] ** 2 / covariance[place, place], rel=1e-4)


def test_estat_ic(data, plain):
    top = logliks(plain.params.to_numpy(), data).sum()
    assert plain.llf == pytest.approx(top, abs=1e-9)
    assert plain.info_criteria("aic") == pytest.approx(-2 * top + 2 * 8, abs=1e-8)
    assert plain.info_criteria("bic") == pytest.approx(-2 * top + 8 * np.log(900), abs=1e-8)


@pytest.mark.parametrize(("written", "name"), [("x2", "x2"), ("C(x2)", "C(x2)[T.1.0]")])
def test_factor_variables_change_from_level_to_level(written, name, data):
    """``heckprobit y x1 i.x2, ...``, ``margins, dydx(x2)``: Stata takes the discrete change."""
    formulas = tuple(text.replace("x2", written) for text in FORMULAS)
    results = ProbitSelection.from_formula(*formulas, data).fit()
    names = ["Intercept", "x1", name, "select_Intercept", "select_x1", f"select_{name}"]
    theta = results.params[[*names, "select_z", "athrho"]].to_numpy()
    up, down = (stata(theta, data.assign(x2=level))["pmargin"] for level in (1.0, 0.0))
    frame = results.get_margeff().summary_frame()
    assert frame.loc[name, "dy/dx"] == pytest.approx((up - down).mean(), abs=1e-10)
