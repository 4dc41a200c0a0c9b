"""What formulas learned survives a file, and no expression but arithmetic does."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar.design import design_from_formula, rebuild
from statsmodels_mnar.design.recorded import record, restore
from statsmodels_mnar.errors import DesignError

TERMS = [
    "x * C(g)",
    "center(x) + standardize(w)",
    "bs(x, df=4) + cr(w, df=3)",
    "bs(x, knots=[-0.5, 0.5], degree=2)",
    "te(cr(x, df=3), cr(w, df=3))",
    "C(k, Treatment(2)) + I(x**2) + np.log(w)",
    "C(g, Sum) + truth + (x > 0) + k:w",
    "0 + g + Q('odd name')",
    "category + 1",
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    n = 80
    return pd.DataFrame(
        {
            "x": rng.standard_normal(n),
            "w": rng.uniform(1.0, 2.0, n),
            "g": rng.choice(["a", "b", "c"], n),
            "k": rng.integers(1, 4, n),
            "truth": rng.random(n) > 0.5,
            "odd name": rng.standard_normal(n),
            "category": pd.Categorical(rng.choice(["u", "v"], n), categories=["v", "u"]),
            "y": rng.integers(0, 2, n).astype(float),
            "s": np.arange(n) % 3 > 0,
        }
    )


def spec_of(terms, data):
    return design_from_formula(f"y ~ {terms}", "s ~ x", data, env={"np": np}).outcome_spec


@pytest.mark.parametrize("terms", TERMS)
def test_a_formula_makes_the_same_design_after_a_file(terms, data):
    spec = spec_of(terms, data)
    again = restore(json.loads(json.dumps(record(spec))))
    new = data.sample(20, random_state=1).reset_index(drop=True)
    new.loc[3, "x"] = np.nan
    pd.testing.assert_frame_equal(rebuild(again, new), rebuild(spec, new), rtol=1e-12)
    for name in ("columns", "factors", "numbers", "term_slices"):
        assert getattr(again, name) == getattr(spec, name)
    assert record(again) == record(spec)


def test_what_was_learned_is_not_learned_again(data):
    again = restore(record(spec_of("center(x) + g", data)))
    one = rebuild(again, data.head(1))
    assert one["center(x)"].item() == pytest.approx(data.x[0] - data.x.mean())
    with pytest.raises(DesignError, match="z"):
        rebuild(again, data.head(1).assign(g="z"))


def test_what_plain_values_cannot_hold_is_not_recorded(data):
    def own(x):
        return x

    for terms, env in (("own(x)", {"own": own}), ("I(x - x.mean())", {})):
        spec = design_from_formula(f"y ~ {terms}", "s ~ x", data, env=env).outcome_spec
        assert record(spec) is None
    assert record(None) is None


@pytest.mark.parametrize(
    "code",
    [
        "__import__('os').getcwd()",
        "x.__class__",
        "np.os",
        "np.fromfile('x')",
        "np.core",
        "(lambda: 1)()",
        "[x for x in (1,)]",
        "open('x')",
        "x.transform",
        "I.__globals__",
        "np.log.__class__",
        "C(x)(x)",
        "np",
        "9 ** 9 ** 9",
        "1 << 10 ** 9",
        "f'{x}'",
        "x; y",
        "unknown + 1",
    ],
)
def test_other_expressions_are_refused(code, data):
    found = record(spec_of("x", data))
    found["factors"][0]["eval_code"] = code
    with pytest.raises(DesignError, match=r"is not evaluated from a file|cannot be read"):
        restore(found)
