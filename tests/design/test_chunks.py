"""What formulas learn from data in chunks is what they learn from all rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar import DesignError, Execution, GreeneSelectionLogit
from statsmodels_mnar.datasets import simulate_greene

N, FIRST = 600, 250  # rows, and those in which k is 0 or 1


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    k = np.r_[rng.integers(0, 2, FIRST), rng.integers(0, 4, N - FIRST)]
    data = simulate_greene(N, rng=1).data
    text = np.array(["b", "ä", "d", "c"])[k]  # not in the order of the alphabet, "d" and "c" late
    data = data.assign(g=text, o=pd.Series(text, dtype=object))
    return data.assign(k=k, half=k / 2.0, kf=k.astype(float), b=k > 0, i=(k > 0).astype(int))


def build(data, term, **options):
    return GreeneSelectionLogit.from_formula(
        f"y ~ x1 + {term}", "s ~ x1 + z", data, normalization="loading", **options
    )


@pytest.mark.parametrize(
    "term",
    [
        "g", "C(g)", "C(o)", "C(g, Treatment('c'))", "C(g) + I(g == 'b')",
        "C(k)", "C(kf)", "C(k, Sum)", "C(half * 2)", "C(b)", "bs(x2, df=3) + C(k)",
        *(
            pytest.param(term, marks=pytest.mark.full)
            for term in (
                "C(k + 0)", "C(k):x2", "center(x1) + C(k)", "C(i)", "C(x2 > 0)", "C(k > 2)",
            )
        ),
    ],
)  # fmt: skip
def test_levels_are_those_of_all_chunks(data, term):
    parts = build(data, term, execution=Execution(partition_rows=100))
    whole = build(data, term)
    assert parts.design.outcome_names == whole.design.outcome_names
    at = np.zeros(len(whole.param_names))
    at[: len(whole.design.outcome_names)] = 0.1
    assert parts.loglike(at) == pytest.approx(whole.loglike(at), rel=1e-12)


@pytest.mark.parametrize("term", ["C(g)", "C(g, Sum)"])
def test_text_with_gaps_has_the_levels_of_complete_rows(data, term):
    holes = data.assign(g=data.g.where(data.g != "d").where(data.index % 7 > 0), x2=data.x2)
    holes.loc[holes.g == "c", "x2"] = np.nan  # a level of dropped rows only
    parts = build(holes, f"x2 + {term}", execution=Execution(partition_rows=100))
    whole = build(holes, f"x2 + {term}")
    assert parts.design.outcome_names == whole.design.outcome_names
    at = np.full(len(whole.param_names), 0.1)
    assert parts.loglike(at) == pytest.approx(whole.loglike(at), rel=1e-12)


def test_text_that_is_of_a_categorical_type_in_some_chunks_keeps_its_levels(data, tmp_path):
    for number, part in enumerate((data[:FIRST], data[FIRST:])):
        part = part.assign(g=part.g.astype("category")) if number else part
        part.to_parquet(tmp_path / f"{number}.parquet")
    whole = build(data, "C(g)")
    parts = build(str(tmp_path), "C(g)", execution=Execution(partition_rows=100))
    assert parts.design.outcome_names == whole.design.outcome_names


def test_functions_of_the_users_named_like_those_of_formulas_get_text(data):
    def C(values):
        return np.array([len(value) + (value == "b") for value in values], dtype=float)

    parts = build(data, "C(g)", execution=Execution(partition_rows=100), env={"C": C, "np": np})
    assert parts.design.outcome_names[-1] == "C(g)"


def test_a_column_that_changes_its_kind_between_chunks_is_named(data):
    mixed = [*data.k[:FIRST].tolist(), *(f"level {k}" for k in data.k[FIRST:])]
    changed = data.assign(m=pd.Series(mixed, dtype=object))
    with pytest.raises(DesignError, match=r"m holds numbers in one partition and text.*one type"):
        build(changed, "m", execution=Execution(partition_rows=100))
