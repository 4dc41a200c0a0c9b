"""Terms that depend on other rows are found, and refused where they would change."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar import DesignError, Execution, GreeneSelectionLogit
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.design import design_from_formula, rebuild
from statsmodels_mnar.design.formula import by_row

TABLE = {level: 2.0 * level for level in range(20)}
CUTS = [0.0, 1.0]


def squared(x):
    return x**2


def demeaned(x):
    return x - np.mean(x)


ACROSS = [
    "I(x1 - x1.mean())",
    "x1.rank()",
    "I(x1 / x1.std())",
    "np.clip(x1, x1.quantile(0.1), x1.quantile(0.9))",
    "I(x1 / np.max(x1))",
    "x1.cumsum()",
    "np.cumsum(x1)",
    "x1.shift(1).fillna(0)",
    "x1.shift(-1).fillna(0)",
    "x1.diff().fillna(0)",
    "demeaned(x1)",
    "I(k - k.mean())",
    "I(k / k.max())",
    "I(x1 > x1.median())",
    "pd.qcut(x1, 3)",
    "pd.cut(x1, 3)",
    "x1.groupby(g).transform('mean')",
    "I(x1 > np.median(x1)):x2",
    "x1.rolling(3).mean().fillna(0)",
    "C(x1 > x1.mean())",
    "center(x1 - k * x1.mean())",
    "np.where(x1 > np.mean(x1), 1, 0)",
    "I(j == j.max())",
    "np.arange(len(x1))",
    "g.map(g.value_counts())",
]
ALONE = [
    "np.log(x1**2 + 1)",
    "center(x1)",
    "bs(x1, df=4)",
    "cr(x1, df=4)",
    "C(j, Treatment(3))",
    "squared(x1)",
    "j.map(TABLE)",
    "I(x1 > CUTS[0])",
    "x1.clip(-1, 1)",
    "np.clip(x1, -1, 1)",
    "pd.cut(x1, [-10, 0, 10])",
    "g.str.upper()",
    "g.isin(['a', 'b'])",
    "x1 * C(g)",
    "standardize(x1)",
    "C(j.astype(str))",
    "np.vectorize(squared)(x1)",
    "np.interp(x1, [-1, 0, 1], [0, 1, 0])",
]


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    data = simulate_greene(400, rng=1).data
    return data.assign(
        k=rng.integers(0, 2, 400), g=rng.choice(list("abc"), 400), j=rng.integers(0, 20, 400)
    )


@pytest.mark.parametrize("term", ACROSS)
def test_terms_that_depend_on_other_rows_are_refused_for_new_data(data, term):
    design = design_from_formula(f"y ~ {term} + x2", "s ~ x2 + z", data)
    assert len(design.outcome_spec.across_rows) == 1
    with pytest.raises(DesignError, match=r"depends on other rows.*center\(x\), standardize") as e:
        rebuild(design.outcome_spec, data[:10])
    assert design.outcome_spec.across_rows[0] in str(e.value)
    rebuild(design.select_spec, data[:10])  # the other equation has no such term


@pytest.mark.parametrize(
    "term", [pytest.param(t, marks=pytest.mark.full if i % 5 else ()) for i, t in enumerate(ACROSS)]
)
def test_they_are_refused_in_partitions(data, term):
    with pytest.raises(DesignError, match=r"depends on other rows.*partition by partition"):
        GreeneSelectionLogit.from_formula(
            f"y ~ {term} + x2", "s ~ x2 + z", data, execution=Execution(partition_rows=150)
        )


@pytest.mark.parametrize(
    "term", [pytest.param(t, marks=pytest.mark.full if i % 2 else ()) for i, t in enumerate(ALONE)]
)
def test_terms_of_single_rows_are_taken(data, term):
    design = design_from_formula(f"y ~ {term}", "s ~ x2 + z", data)
    assert design.outcome_spec.across_rows == ()
    one = rebuild(design.outcome_spec, data[7:8]).to_numpy()[0]
    np.testing.assert_allclose(one, design.X[7], rtol=1e-10)
    model = GreeneSelectionLogit.from_formula(
        f"y ~ {term}", "s ~ x2 + z", data, execution=Execution(partition_rows=150)
    )
    assert model.design.outcome_names == design.outcome_names


@pytest.mark.parametrize(
    "formulas", [("I(x1 > x1.mean()) ~ x2", "s ~ z"), ("y ~ x2", "I(z > z.mean()) ~ z")]
)
def test_left_sides_in_partitions(data, formulas):
    with pytest.raises(DesignError, match="depends on other rows"):
        GreeneSelectionLogit.from_formula(
            *formulas, data.assign(y=data.y_full), execution=Execution(partition_rows=150)
        )


def test_the_formulaic_engine_too(data, monkeypatch):
    import statsmodels.formula

    monkeypatch.setattr(statsmodels.formula.options, "formula_engine", "formulaic")
    for term, across in (("lag(x1)", True), ("x1.rank()", True), ("scale(x1)", False)):
        design = design_from_formula(f"y ~ {term}", "s ~ x2 + z", data)
        assert bool(design.outcome_spec.across_rows) == across


def test_ordinary_terms_are_told_by_their_code_alone():
    names = {"np": np}
    for code in ("x", "np.log(x)", "center(x)", "C(g, Treatment('a'))", "I(x > 0)", "Q('a b')"):
        assert by_row(code, names)
    assert not by_row("center(x)", {"center": demeaned})  # the caller's own of that name
    assert not by_row("np.mean(x)", names)


def test_later_calls_say_what_to_do(data, tmp_path):
    results = GreeneSelectionLogit.from_formula(
        "y ~ I(x1 - x1.mean()) + x2", "s ~ x2 + z", data, normalization="loading"
    ).fit()
    right = GreeneSelectionLogit.from_formula(
        "y ~ center(x1) + x2", "s ~ x2 + z", data, normalization="loading"
    ).fit()
    assert results.llf == pytest.approx(right.llf)
    np.testing.assert_allclose(results.predict(), right.predict(), rtol=1e-6)  # its own rows
    calls = [
        lambda: results.predict(data),
        lambda: results.get_prediction(data[:1]),
        lambda: results.get_margeff(variables=["x1"]),
        lambda: results.probabilities_along("x1"),
        lambda: results.predict_parquet(data, tmp_path / "out"),
    ]
    for call in calls:
        with pytest.raises(DesignError, match=r"I\(x1 - x1.mean\(\)\).*center\(x\)"):
            call()
    results.predict(data, which="prob-select")  # which does not read it
    assert results.get_margeff().names == results.get_margeff().names
