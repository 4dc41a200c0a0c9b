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
    return data.assign(k=k, half=k / 2.0, kf=k.astype(float), b=k > 0, i=(k > 0).astype(int))


def build(data, term, **options):
    return GreeneSelectionLogit.from_formula(
        f"y ~ x1 + {term}", "s ~ x1 + z", data, normalization="loading", **options
    )


@pytest.mark.parametrize(
    "term",
    [
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


def test_a_column_that_changes_its_kind_between_chunks_is_named(data):
    mixed = [*data.k[:FIRST].tolist(), *(f"level {k}" for k in data.k[FIRST:])]
    changed = data.assign(m=pd.Series(mixed, dtype=object))
    with pytest.raises(DesignError, match=r"m holds numbers in one partition and text.*one type"):
        build(changed, "m", execution=Execution(partition_rows=100))
