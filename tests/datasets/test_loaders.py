"""Loaders: made files with the quirks of the raw ones, and the raw ones where they are."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from statsmodels.discrete.discrete_model import Logit

from statsmodels_mnar import GreeneSelectionLogit
from statsmodels_mnar.datasets import (
    FORMULAS,
    load_adult,
    load_credit_card,
    load_drug,
    load_fair,
    load_german,
    load_mroz,
    loaders,
)

ADULT = "39, State-gov, 7, Bachelors, 13, Never-married, Sales, Own-child, White, Male, 1, 0, 40, "


def test_adult_reads_both_files_and_their_quirks(tmp_path):
    (tmp_path / "adult.data").write_text(f"{ADULT}Cuba, <=50K\n{ADULT}?, >50K\n\n")
    test = ADULT.replace("State-gov", "?")
    (tmp_path / "adult.test").write_text(f"|1x3 Cross validator\n{test}Cuba, >50K.\n")
    data = load_adult(tmp_path)
    assert data["file"].tolist() == ["data", "data", "test"]
    assert data["income"].tolist() == [0, 1, 1]
    assert data["native_country"].isna().tolist() == [False, True, False]
    np.testing.assert_array_equal(data["government"], [1.0, 1.0, np.nan])
    assert data["workclass"].iloc[0] == "State-gov"  # without the blank before it


def test_credit_card_has_no_default_without_a_card(tmp_path):
    (tmp_path / "AmEx.csv").write_text("CARDHLDR,DEFAULT,AGE\n0,0,30\n1,0,40\n1,1,50\n")
    np.testing.assert_array_equal(load_credit_card(tmp_path)["DEFAULT"], [np.nan, 0.0, 1.0])


def test_raw_files(shared: Path):
    data = shared / "data"
    adult = load_adult(data)
    assert (len(adult), len(adult.dropna())) == (48_842, 45_222)
    assert adult["income"].sum() == 7_841 + 3_846  # UCI's own counts
    german = load_german(data)
    assert (german.shape, german["good"].sum()) == ((1_000, 21), 700)
    drug = load_drug(data)
    assert (drug.shape, drug["benzos_used"].sum()) == ((1_885, 33), 769)
    assert (drug["semer"] != "CL0").sum() == 8  # those who claim a drug that does not exist
    cards = load_credit_card(data)
    assert (len(cards), cards["CARDHLDR"].sum(), cards["DEFAULT"].sum()) == (13_444, 10_499, 996)


def test_drug_scores_are_the_depositors(shared: Path):
    """The quantified openness scores map one to one to the raw scores of the questionnaire."""
    drug = load_drug(shared / "data")
    mapping = pd.read_csv(shared / "data" / "drug" / "score_mapping_uci.csv")
    mapping = mapping[mapping["variable"] == "Oscore"]
    counts = drug["oscore"].value_counts()
    assert counts[mapping["quantified_value"]].tolist() == mapping["cases"].tolist()


def test_mroz_columns_equal_those_of_the_reference_values(shared: Path):
    expected = pd.read_csv(shared / "data" / "mroz" / "mroz_selection.csv")
    found = load_mroz(shared / "data")[expected.columns]
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


@pytest.mark.parametrize("name", ["credit_card", "mroz"])
def test_formulas_fit_the_frames(shared: Path, name):
    load = {"credit_card": load_credit_card, "mroz": load_mroz}[name]
    model = GreeneSelectionLogit.from_formula(*FORMULAS[name], load(shared / "data"))
    assert model.design.labelled.sum() == {"credit_card": 10_499, "mroz": 428}[name]


def test_fair_masks_by_its_rule():
    """The share labelled, given label and reminder, is that of the documented probit."""
    data = load_fair(strength=1.5, rng=3)
    devout = (data["religious"] - data["religious"].mean()) / data["religious"].std(ddof=0)
    for (y, reminder), part in data.groupby(["y_full", "reminder"]):
        latent = 0.2 + 0.3 * devout[part.index] + 0.8 * (2 * reminder - 1) - 1.5 * y
        expected = norm.cdf(latent).mean()
        spread = np.sqrt(expected * (1 - expected) / len(part))
        assert abs(part["s"].mean() - expected) < 4 * spread
    assert data["y"].isna().equals(data["s"] == 0)
    assert (data["y"].dropna() == data["y_full"][data["s"] == 1]).all()


def test_fair_is_a_case_for_the_selection_model():
    data = load_fair()
    naive = Logit.from_formula(FORMULAS["fair"][0], data[data["s"] == 1]).fit(disp=False)
    model = GreeneSelectionLogit.from_formula(*FORMULAS["fair"], data, normalization="loading")
    truth = data["y_full"].mean()
    assert abs(model.fit().predict(data).mean() - truth) < 0.3 * abs(
        naive.predict(data).mean() - truth
    )


def test_fair_refuses_a_strength_that_is_no_number():
    with pytest.raises(ValueError, match="strength=nan"):
        load_fair(strength=float("nan"))


def test_examples_that_need_no_file():
    assert doctest.testmod(loaders).failed == 0
    assert ">>> data = load_fair()" in load_fair.__doc__
