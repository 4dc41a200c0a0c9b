"""Results that other programs printed: ours are the same in every printed digit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from statsmodels_mnar import ProbitSelection
from statsmodels_mnar.datasets import FORMULAS

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = json.loads((ROOT / "tests/reference/published.json").read_text(encoding="utf-8"))


def assert_as_printed(value: float, printed: str) -> None:
    """``value``, rounded to as many decimals as were printed, is what was printed."""
    decimals = len(printed.partition(".")[2])
    assert f"{value:.{decimals}f}" == f"{float(printed):.{decimals}f}"


def texts(record: Any) -> list[str]:
    return [record] if isinstance(record, str) else [t for v in record.values() for t in texts(v)]


def test_a_number_that_differs_in_the_last_printed_digit_is_noticed():
    assert_as_printed(-0.69949689, "-.6995")
    with pytest.raises(AssertionError):
        assert_as_printed(-0.69949689, "-.6996")


def test_the_page_has_every_number_of_the_file():
    page = (ROOT / "docs" / "published.md").read_text(encoding="utf-8")
    numbers = {t for record in PUBLISHED.values() for t in texts(record) if t[-1].isdigit()}
    assert len(numbers) > 12
    assert {number for number in numbers if number.removeprefix("0") not in page} == set()


def test_heckprobit_of_the_school_data(shared):
    printed = PUBLISHED["school"]
    data = pd.read_csv(shared / "data" / "stata" / "school.csv")
    results = ProbitSelection.from_formula(
        "private ~ years + logptax", "vote ~ years + loginc + logptax", data
    ).fit()
    assert (results.nobs, results.nobs_selected) == (95, 59)
    assert_as_printed(results.llf, printed["llf"])
    assert_as_printed(results.rho, printed["rho"])


@pytest.fixture(scope="module")
def women(shared):
    data = pd.read_csv(shared / "data" / "stata" / "womenwk.csv")
    data["work"] = data["wage"].notna().astype(int)
    data["high"] = (data["wage"] > 20).astype(float).where(data["work"] == 1)
    return ProbitSelection.from_formula(
        "high ~ education + age", "work ~ married + children + education + age", data
    ).fit()


def test_cmp_of_womenwk(women):
    printed = PUBLISHED["womenwk"]
    assert_as_printed(women.llf, printed["llf"])
    for name, text in printed["params"].items():
        assert_as_printed(women.params[name], text)
    for name, text in printed["bse"].items():
        assert_as_printed(women.bse[name], text)


def test_margins_of_cmp_leave_out_the_error_of_athrho(women):
    printed = PUBLISHED["womenwk"]["children, P(y = 1 | s = 1)"]
    names = list(women.params.index)
    held = women.cov_params().copy()
    held.loc["athrho"] = 0.0
    held["athrho"] = 0.0
    assert names[-1] == "athrho"
    without = women.get_margeff(which="mean-selected", cov=held).summary_frame()
    # margins differentiates numerically, and agrees to four digits
    assert without.loc["children", "Std. Err."] == pytest.approx(
        float(printed["without the error of athrho"]), rel=1e-4
    )
    effects = women.get_margeff(which="mean-selected").summary_frame()
    assert_as_printed(effects.loc["children", "Std. Err."], printed["with it"])


def bivariate_loglike(results: Any) -> float:
    """The likelihood of the rows by integrating P(y | u) over the selection error u."""
    design = results.model.design
    beta, gamma = np.split(results.params.to_numpy()[:-1], [design.X.shape[1]])
    rho = float(np.tanh(results.params["athrho"]))
    seen = design.labelled
    nodes, weights = np.polynomial.legendre.leggauss(128)
    total = stats.norm.logcdf(-(design.W[~seen] @ gamma)).sum()
    index, low = design.X[seen] @ beta, -(design.W[seen] @ gamma)
    high = np.maximum(low + 1.0, 9.0)
    half = (high - low) / 2
    u = low[:, None] + half[:, None] * (nodes + 1.0)
    z = (2 * design.y[seen] - 1)[:, None] * (index[:, None] + rho * u) / np.sqrt(1 - rho**2)
    inside = half * ((stats.norm.cdf(z) * stats.norm.pdf(u)) @ weights)
    return float(total + np.log(inside).sum())


def test_greenes_credit_cards(shared):
    """The maximum, by another integral; samples of these rows rise to a corner, all do not."""
    data = pd.read_csv(shared / "data" / "credit_card" / "AmEx.csv")
    data["DEFAULT"] = data["DEFAULT"].where(data["CARDHLDR"] == 1)
    results = ProbitSelection.from_formula(*FORMULAS["credit_card"], data).fit()
    assert (results.nobs, results.nobs_selected) == (13_444, 10_499)
    assert results.model.design.y[results.model.design.labelled].sum() == 996
    assert results.converged
    assert results.llf == pytest.approx(-7948.17784, abs=1e-5)
    assert results.llf == pytest.approx(bivariate_loglike(results), abs=1e-6)
