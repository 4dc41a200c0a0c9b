"""Greene's credit-card data and Mroz's in the loading form: few Newton steps, in any units."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar import GreeneSelectionLogit, Status

from ..formulas import MROZ

APPLICANT = "AGE + INCOME + INCPER + OWNRENT + ADEPCNT + SELFEMPL"
RECORD = "MAJORDRG + MINORDRG + ACADMOS + TRADACCT + CREDMAJR + BANKSAV + BANKBOTH"
CREDIT = (f"DEFAULT ~ {APPLICANT}", f"CARDHLDR ~ {APPLICANT} + {RECORD}")
# Expenditure over income is next to nothing without a card: selection is all but separated.
SPENDING = tuple(f"{formula} + EXP_INC" for formula in CREDIT)


@pytest.fixture(scope="module")
def credit_data(shared: Path) -> pd.DataFrame:
    data = pd.read_csv(shared / "data" / "credit_card" / "AmEx.csv")
    # The file has 0 where no card was given, which says nothing about default.
    return data.assign(DEFAULT=data["DEFAULT"].where(data["CARDHLDR"] == 1))


def fit(formulas, data):
    return GreeneSelectionLogit.from_formula(*formulas, data, normalization="loading").fit()


@pytest.fixture(scope="module")
def in_dollars(credit_data):
    """Fits of the data as they come, each made once."""
    return cache(lambda formulas: fit(formulas, credit_data))


def assert_clean(results):
    assert results.status is Status.CONVERGED
    assert results.solution.n_iter <= 15
    assert results.solution.score_norm < 1e-6
    assert np.isfinite(results.bse).all()
    assert (results.bse > 0).all()
    assert results.llf > results.llindep


@pytest.mark.parametrize(
    "formulas",
    [pytest.param(CREDIT, marks=pytest.mark.full), SPENDING],
    ids=["applicant", "spending"],
)
def test_credit_card_data_converge(in_dollars, formulas):
    results = in_dollars(formulas)
    assert_clean(results)
    assert (results.nobs, results.nobs_selected) == (13_444, 10_499)
    assert results.model.design.y[results.model.design.labelled].sum() == 996
    # What wins a card beyond these columns goes with default.
    assert results.params["loading"] > 2 * results.bse["loading"]


@pytest.mark.full
def test_outcomes_recorded_without_a_card_are_not_read(credit_data):
    recorded = credit_data.fillna({"DEFAULT": 0.0})
    assert fit(CREDIT, recorded).llf == fit(CREDIT, credit_data).llf


@pytest.mark.full  # of Mroz by default
@pytest.mark.parametrize("formulas", [CREDIT, SPENDING], ids=["applicant", "spending"])
@pytest.mark.parametrize("factor", [1e-3, 1e4])
def test_units_of_income_do_not_matter(credit_data, in_dollars, formulas, factor):
    dollars = in_dollars(formulas)
    scaled = credit_data.assign(
        INCOME=credit_data["INCOME"] * factor, INCPER=credit_data["INCPER"] * factor
    )
    other = fit(formulas, scaled)
    assert_clean(other)
    assert other.llf == pytest.approx(dollars.llf, abs=1e-8)
    unit = np.where(dollars.params.index.str.contains("INC(?:OME|PER)$"), factor, 1.0)
    assert (unit != 1.0).sum() == 4
    np.testing.assert_allclose(other.params * unit, dollars.params, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(other.bse * unit, dollars.bse, rtol=1e-5)


@pytest.mark.parametrize(
    "factor", [*(pytest.param(f, marks=pytest.mark.full) for f in (1.0, 1e-3)), 1e4]
)
def test_mroz_converges_in_any_units(mroz_data, factor):
    dollars = fit(MROZ, mroz_data)
    other = fit(MROZ, mroz_data.assign(faminc=mroz_data["faminc"] * factor))
    assert_clean(other)
    assert other.llf == pytest.approx(dollars.llf, abs=1e-8)
