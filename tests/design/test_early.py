"""What is wrong with the data is told before a design is built, and the advice works."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar import DesignError, Execution, GreeneSelectionLogit
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.design import data as data_module
from statsmodels_mnar.design import design_from_formula, rebuild
from statsmodels_mnar.design import values as size

N = 240


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    i = np.arange(N) % 4
    days = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(i, unit="D"))
    data = simulate_greene(N, rng=1).data
    return data.assign(
        naive=days,
        zone=days.dt.tz_localize("Europe/Paris"),
        period=days.dt.to_period("D"),
        length=pd.to_timedelta(i, unit="h"),
        date=pd.Series([day.date() for day in days], dtype=object),
        clock=pd.Series([datetime.time(hour) for hour in i], dtype=object),
        complex=i + 1j,
        between=pd.arrays.IntervalArray.from_tuples([(low, low + 1) for low in i]),
        zone_levels=days.dt.tz_localize("UTC").astype("category"),
        k=np.arange(N),
        lists=pd.Series([[1]] * N),
    )


# -- dates, periods and other types ------------------------------------------------------------

NO_NUMBERS = ["naive", "zone", "period", "length", "date", "clock"]


@pytest.mark.parametrize("name", NO_NUMBERS)
@pytest.mark.parametrize("execution", [None, Execution(partition_rows=100)], ids=["", "parts"])
def test_they_are_refused_with_advice(data, name, execution):
    with pytest.raises(DesignError, match=rf"{name} in .* is of type .* or write C\({name}\)"):
        GreeneSelectionLogit.from_formula(
            f"y ~ x1 + {name}", "s ~ x1 + z", data, execution=execution
        )


@pytest.mark.parametrize("name", [*NO_NUMBERS, "between", "zone_levels"])
@pytest.mark.parametrize("engine", ["patsy", "formulaic"])
def test_the_advice_works(data, name, engine, monkeypatch):
    import formulaic
    import statsmodels.formula

    if engine == "formulaic" and formulaic.__version__.startswith("1.1."):
        pytest.skip("pip install 'formulaic>=1.2': before, it does not find dates among its levels")
    monkeypatch.setattr(statsmodels.formula.options, "formula_engine", engine)
    design = design_from_formula(f"y ~ C({name})", "s ~ x1 + z", data)
    assert design.X.shape[1] == 4
    again = rebuild(design.outcome_spec, data[5:20]).to_numpy()
    np.testing.assert_array_equal(again, design.X[5:20])
    if engine == "patsy":
        parts = GreeneSelectionLogit.from_formula(
            f"y ~ C({name})", "s ~ x1 + z", data, execution=Execution(partition_rows=100)
        )
        assert parts.design.outcome_names == design.outcome_names


def test_columns_with_a_zone_keep_their_methods(data):
    design = design_from_formula("y ~ I(zone.dt.day)", "s ~ x1 + z", data)
    np.testing.assert_array_equal(design.X[:, 1], data.zone.dt.day)


def test_complex_numbers_get_other_advice(data):
    with pytest.raises(DesignError, match=r"of type complex.*np.real\(complex\)"):
        design_from_formula("y ~ complex", "s ~ x1 + z", data)


def test_nested_values_get_other_advice(data):
    with pytest.raises(DesignError, match="lists or other nested values") as caught:
        design_from_formula("y ~ lists", "s ~ x1 + z", data)
    assert "C(lists)" not in str(caught.value)


def test_columns_of_several_levels_are_named(data):
    several = data[["y", "s", "x1", "z"]].copy()
    several.columns = pd.MultiIndex.from_product([["a"], several.columns])
    with pytest.raises(DesignError, match=r"columns of 2 levels, such as \('a', 'y'\).*Join them"):
        GreeneSelectionLogit.from_formula("y ~ x1", "s ~ z", several)
    design = design_from_formula("y ~ x1", "s ~ z", data)
    with pytest.raises(DesignError, match="columns of 2 levels"):
        rebuild(design.outcome_spec, several)


# -- before the design is built ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("formulas", "options", "text"),
    [
        (("y ~ x1 + naive", "s ~ z"), {}, "naive in"),
        (("y ~ x1", "s ~ z + date"), {}, "date in"),
        (("two ~ x1", "s ~ z"), {}, "outcome 'two' must be 0/1"),
        (("word ~ x1", "s ~ z"), {}, "outcome 'word' is of type"),
        (("y ~ x1", "two ~ z"), {}, "selection indicator 'two' must be 0/1"),
        (("y ~ x1", "s ~ z"), {"freq_weights": "x1"}, "freq_weights must be >= 0"),
    ],
)
def test_no_design_is_built_of_wrong_data(data, formulas, options, text, monkeypatch):
    wrong = data.assign(two=data.y_full + 1, word=np.where(data.y_full == 1, "good", "bad"))

    def built(*_):
        raise AssertionError("a design was built")

    monkeypatch.setattr(data_module, "evaluate_right", built)
    with pytest.raises(DesignError, match=text):
        design_from_formula(*formulas, wrong, **options)


@pytest.mark.parametrize("execution", [None, Execution(partition_rows=100)], ids=["", "parts"])
def test_a_design_that_memory_cannot_hold(data, execution, monkeypatch):
    monkeypatch.setattr(size, "memory_at_hand", lambda: 200_000)
    GreeneSelectionLogit.from_formula("y ~ x1 + C(date)", "s ~ z", data, execution=execution)
    with pytest.raises(DesignError, match=r"about 24\d columns for .* are free.*Merge rare levels"):
        GreeneSelectionLogit.from_formula("y ~ x1 + C(k)", "s ~ z", data, execution=execution)


def test_interactions_multiply_and_causes_are_named(data, monkeypatch):
    monkeypatch.setattr(size, "memory_at_hand", lambda: 1_000_000)
    with pytest.raises(DesignError, match=r"about 1,2\d\d columns.*C\(k\) has 240 levels"):
        design_from_formula("y ~ C(k) * C(date)", "s ~ z", data)


def test_memory_is_known_here():
    free = size.memory_at_hand()
    assert free is None or free > 2**20


# -- which level counts as one -----------------------------------------------------------------


def test_both_levels_are_shown(data):
    words = data.assign(default=np.where(data.y_full == 1, "bad", "good"))
    with pytest.raises(DesignError) as caught:
        design_from_formula("default ~ x1", "s ~ z", words)
    text = str(caught.value)
    assert "I(default == 'bad') or I(default == 'good')" in text
    assert "the level that you write counts as 1" in text
    with pytest.raises(DesignError, match=r"I\(two == 1\) or I\(two == 2\)"):
        design_from_formula("two ~ x1", "s ~ z", data.assign(two=data.y_full + 1))


def test_of_more_levels_none_is_proposed(data):
    with pytest.raises(DesignError, match=r"Write I\(date == level\).* that counts as 1"):
        design_from_formula("date ~ x1", "s ~ z", data)
