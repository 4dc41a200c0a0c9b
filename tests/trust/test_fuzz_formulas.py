"""Formulas and data of any kind: an error that says what is wrong, or the right design.

Valid, nearly valid and senseless formulas meet frames of any types, names and holes. The oracle:
a `DesignError` (or an error that names the argument), or else the design that patsy makes of the
cleaned frame, and a log-likelihood that is the integral. No other exception, and no hang.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import patsy
import pytest
import statsmodels.formula as smf
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from statsmodels.tools.sm_exceptions import ModelWarning

from statsmodels_mnar import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection
from statsmodels_mnar.design import Design, design_from_arrays, design_from_formula
from statsmodels_mnar.errors import DesignError
from tests.trust.limits import within
from tests.trust.oracle import log_rows

many = settings(max_examples=5 * settings().max_examples)

# -- data ------------------------------------------------------------------------------------------

NAMES = [
    "x", "z", "g", "x1", "odd name", "C", "I", "Q", "sum", "max", "class", "é", "Intercept", "1",
    "a.b", "offset", "y_observed", "freq_weights", "_columns_", "a~b", "`", "'", "", 0, 1.5, None,
    ("a", "b"),
]  # fmt: skip
ODD = [
    [1, 2], {"a": 1}, {1}, (1, 2), np.ones(2), 1j, Decimal(1), Fraction(1, 3), b"a", None, np.nan,
    np.inf, -np.inf, 1e308, 10**30, True, "1", "a", "", "nan", pd.NaT, pd.NA, pd.Timestamp("2020"),
    pd.Timedelta(1), pd.Interval(0, 1), pd.Period("2020"), object(), len,
]  # fmt: skip

KINDS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "float": lambda rng, n: rng.normal(size=n),
    "float32": lambda rng, n: rng.normal(size=n).astype("float32"),
    "large": lambda rng, n: 1e12 * rng.normal(size=n),
    "int": lambda rng, n: rng.integers(-3, 4, n),
    "uint8": lambda rng, n: rng.integers(0, 4, n).astype("uint8"),
    "bool": lambda rng, n: rng.random(n) < 0.5,
    "Int64": lambda rng, n: pd.array(rng.integers(0, 3, n), dtype="Int64"),
    "Float64": lambda rng, n: pd.array(rng.normal(size=n), dtype="Float64"),
    "boolean": lambda rng, n: pd.array(rng.random(n) < 0.5, dtype="boolean"),
    "text": lambda rng, n: np.array(["a", "b", "c d", "é"], dtype=object)[rng.integers(4, size=n)],
    "string": lambda rng, n: pd.array([*"abc"], dtype="string")[rng.integers(3, size=n)],
    "category": lambda rng, n: pd.Categorical.from_codes(rng.integers(3, size=n), [*"pqru"]),
    "ordered": lambda rng, n: pd.Categorical.from_codes(rng.integers(2, size=n), [2, 1], True),
}
STRANGE: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "constant": lambda rng, n: np.ones(n),
    "nothing": lambda rng, n: np.full(n, np.nan),
    "None": lambda rng, n: [None] * n,
    "infinite": lambda rng, n: np.where(rng.random(n) < 0.1, np.inf, rng.normal(size=n)),
    "complex": lambda rng, n: rng.normal(size=n) + 1j,
    "datetime": lambda rng, n: pd.to_datetime(rng.integers(0, 9, n), unit="D"),
    "timezone": lambda rng, n: pd.to_datetime(rng.integers(0, 9, n), unit="D", utc=True),
    "timedelta": lambda rng, n: pd.to_timedelta(rng.integers(0, 9, n), unit="D"),
    "period": lambda rng, n: pd.PeriodIndex.from_ordinals(rng.integers(0, 9, n), freq="D"),
    "interval": lambda rng, n: pd.arrays.IntervalArray.from_breaks(np.arange(n + 1.0)),
    "sparse": lambda rng, n: pd.arrays.SparseArray(rng.integers(0, 2, n)),
    "records": lambda rng, n: np.zeros(n, dtype=[("a", "f8")]).tolist(),
    "odd": lambda rng, n: _objects([ODD[i] for i in rng.integers(len(ODD), size=n)]),
    "one odd": lambda rng, n: _objects([ODD[rng.integers(len(ODD))]] * n),
}


def _objects(values: list) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        array[i] = value
    return array


@st.composite
def frames(draw: st.DrawFn, strange: bool = True) -> pd.DataFrame:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.sampled_from([60, 60, 60, 120, 120, 8, 1, 0] if strange else [60, 120]))
    kinds = KINDS | STRANGE if strange and draw(st.booleans()) else KINDS
    names = draw(st.lists(st.sampled_from(NAMES), min_size=2, max_size=5))
    if draw(st.integers(0, 9)):
        names = list(dict.fromkeys(names))
    else:
        assume(strange)
    columns = [draw(st.sampled_from([*kinds])) for _ in names]
    labels = draw(st.sampled_from(["float", "bool", "Int64", "boolean", "int"]))
    parts = [pd.Series(kinds[kind](rng, n)) for kind in columns]
    parts += [_binary(rng, n, labels) for _ in "ys"]
    if strange and not draw(st.integers(0, 3)):
        parts[-draw(st.integers(1, 2))] = pd.Series(kinds[draw(st.sampled_from([*kinds]))](rng, n))
    frame = pd.concat(parts, axis=1) if n else pd.DataFrame({i: p for i, p in enumerate(parts)})
    holes = rng.random(frame.shape) < draw(st.sampled_from([0.0, 0.0, 0.05]))
    holes[:, -2] |= draw(st.booleans()) & (rng.random(n) < 0.3)  # the outcome
    frame = frame.mask(holes)
    frame.columns = pd.Index([*names, "y", "s"], dtype=object)
    index = draw(st.sampled_from(["range", "text", "same", "reversed"]))
    if index != "range":
        frame.index = {
            "text": pd.Index([f"row {i}" for i in range(n)]),
            "same": pd.Index([0] * n),
            "reversed": pd.RangeIndex(n - 1, -1, -1),
        }[index]
    return frame


def _binary(rng: np.random.Generator, n: int, kind: str) -> pd.Series:
    values = pd.Series((rng.random(n) < 0.6).astype(int))
    return values.astype(
        {"float": float, "bool": bool, "Int64": "Int64", "boolean": "boolean", "int": int}[kind]
    )


# -- formulas --------------------------------------------------------------------------------------


def quoted(name: Any) -> str:
    text = str(name)
    return text if text.isidentifier() and text != "class" else f"Q({text!r})"


FACTORS = [
    "{}", "{}", "{}", "C({})", "center({})", "standardize({})", "np.log({})", "np.sign({})",
    "I({} ** 2)", "I({} > 0)", "bs({}, df=4)", "C({}, Sum)", "C({}, Treatment('a'))",
    "0", "1", "-1", "2", "1.5", "x.real", "nowhere", "np.nope({})", "y", "s",
]  # fmt: skip
SHAPES = ["{} + {}", "{} + {}", "{} - {}", "{}:{}", "{}*{}", "{}/{}", "({})**2", "({})"]


@st.composite
def terms(draw: st.DrawFn, names: list[str], depth: int = 2) -> str:
    """A right-hand side of some of the columns."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(FACTORS)).format(draw(st.sampled_from(names)))
    shape = draw(st.sampled_from(SHAPES))
    return shape.format(*(draw(terms(names, depth - 1)) for _ in range(shape.count("{}"))))


LEFT = ["I(y > 0)", "y == 1", "Q('y')", "s", "x", "1", "y + x", "np.log(y)", "[1]"]
SENSELESS = st.one_of(
    st.text(max_size=30),
    st.text(alphabet="yxsz~+-*/:|()[]{}`'\"., 01\\\n\0#@=<>!%&^;", max_size=30),
    st.sampled_from(["", "~", "y", "y ~", "~ ~", "y ~ x ~ z", "y ~ " + "(" * 300, "y ~ x +" * 99]),
    st.sampled_from(["y ~ " + "(" * 99 + "x" + ")" * 99, "y ~ " + "-" * 999 + "x"]),
    st.sampled_from(["y ~ [x for x in s]", "y ~ x if x else z", "y ~ x; z", "y ~ (x := 1)"]),
    st.sampled_from(["y ~ lambda: x", "y ~ `", None, 3, b"y ~ x", ["y ~ x"], ("y", "x")]),
)  # fmt: skip


@st.composite
def formulas(draw: st.DrawFn, names: list, *, valid: bool = False) -> tuple[Any, Any]:
    columns = [quoted(name) for name in names if isinstance(name, str)]
    found: list[Any] = []
    for left in ("y", "s"):
        odd = not valid and draw(st.integers(0, 3)) == 0
        if left == "s":
            left = draw(st.sampled_from(["s", "I(s > 0)", "x", "1"] if odd else ["s", ""]))
        elif odd:
            left = draw(st.sampled_from(LEFT))
        text = f"{left} ~ {draw(terms(columns if odd else columns[:-2] or columns))}"
        if odd and draw(st.booleans()):
            place = draw(st.integers(0, len(text)))
            text = (
                text[:place] + draw(st.text(max_size=3)) + text[place + draw(st.integers(0, 2)) :]
            )
        if odd and draw(st.integers(0, 3)) == 0:
            text = draw(SENSELESS)
        found.append(text)
    return found[0], found[1]


# -- the oracle ------------------------------------------------------------------------------------


def quietly(
    function: Callable[..., Any], *args: Any, names: tuple[str, ...] = (), **keywords: Any
) -> Any:
    """The result, or None after an error that users can do something about.

    That is a `DesignError`, or a plain one that has one of ``names`` in it. Warnings that users'
    own expressions give rise to, and findings of a fit, are allowed.
    """
    with warnings.catch_warnings(), within(60):
        warnings.simplefilter("ignore", RuntimeWarning)  # np.log of zero
        warnings.simplefilter("ignore", SyntaxWarning)  # 1(x)
        warnings.simplefilter("ignore", ModelWarning)
        try:
            return function(*args, **keywords)
        except DesignError:
            return None
        except (ValueError, TypeError) as error:
            plain = type(error) in (ValueError, TypeError)
            if not (plain and any(name in str(error) for name in names)):
                raise
            return None


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Complete rows in numpy's types, numbers in their widest."""
    types = {"i": "int64", "u": "int64", "f": "float64", "b": "bool"}
    columns = {}
    for name, column in frame.items():
        if isinstance(column.dtype, pd.CategoricalDtype):
            columns[name] = column.cat.remove_unused_categories()
        else:
            column = column.astype(object).infer_objects()  # True and False, once holes are gone
            columns[name] = column.astype(types.get(column.dtype.kind, object))
    return pd.DataFrame(columns, index=frame.index)


def patsys_design(formula: str, select_formula: str, frame: pd.DataFrame) -> tuple[Any, ...] | None:
    """X, W, y and s by patsy from the complete rows; None where patsy refuses."""
    rights = [text.partition("~")[2] for text in (formula, select_formula)]
    try:  # a term that is taken out again is not read
        models = [patsy.ModelDesc.from_formula(right) for right in rights]
    except patsy.PatsyError:
        return None
    codes = [f.code for model in models for term in model.rhs_termlist for f in term.factors]
    read = [
        name
        for name in frame.columns
        if any(re.search(rf"(?<![\w.]){re.escape(quoted(name))}(?!\w)", code) for code in codes)
    ]
    frame = frame.reset_index(drop=True)
    y = pd.Series(frame["y"].to_numpy(dtype=float, na_value=np.nan))
    left = select_formula.partition("~")[0].strip()
    s = pd.Series(frame["s"].to_numpy(dtype=float, na_value=np.nan)) if left else y.notna() * 1.0
    known = frame[read].notna().all(axis=1) & s.notna() & ~((s == 1) & y.isna())
    rows = plain(frame.loc[known, read])
    every = patsy.NAAction(NA_types=[])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            X, W = (
                patsy.dmatrix(right, rows, NA_action=every, return_type="dataframe")
                for right in rights
            )
    except (patsy.PatsyError, AssertionError, ValueError, TypeError):
        return None
    whole = ~(X.isna().any(axis=1) | W.isna().any(axis=1))
    kept = rows.index[whole]
    return X[whole], W[whole], y[kept].where(s[kept] == 1), s[kept], kept


def check_design(design: Design, n: int) -> None:
    """What holds of every design."""
    assert 0 < design.nobs <= n
    assert np.isfinite(design.X).all() and np.isfinite(design.W).all()
    assert set(np.unique(design.s)) <= {0.0, 1.0}
    assert (np.isnan(design.y) == (design.s == 0)).all()
    assert set(np.unique(design.y[design.s == 1])) <= {0.0, 1.0}
    assert (design.nobs, len(design.outcome_names)) == design.X.shape
    assert (design.nobs, len(design.select_names)) == design.W.shape


@many
@given(st.data())
def test_any_formula_on_any_frame(data):
    frame = data.draw(frames())
    both = data.draw(formulas(list(frame.columns)))
    missing = data.draw(st.sampled_from(["drop", "drop", "raise", "none"]))
    design = quietly(design_from_formula, *both, frame, missing=missing, env={"np": np})
    if design is not None:
        check_design(design, len(frame))


@many
@given(st.data())
def test_any_formula_on_any_frame_in_formulaic(data):
    pytest.importorskip("formulaic")
    frame = data.draw(frames())
    both = data.draw(formulas(list(frame.columns)))
    engine = smf.options.formula_engine
    try:
        smf.options.formula_engine = "formulaic"
        design = quietly(design_from_formula, *both, frame, env={"np": np})
    finally:
        smf.options.formula_engine = engine
    if design is not None:
        check_design(design, len(frame))


@many
@given(st.data())
def test_designs_are_patsys(data):
    """Neither a wrong design nor an error where patsy has a finite design to offer."""
    frame = data.draw(frames(strange=False))
    both = data.draw(formulas(list(frame.columns), valid=True))
    design = quietly(design_from_formula, *both, frame, env={"np": np})
    expected = patsys_design(*both, frame)
    if expected is None:
        assert design is None
        return
    X, W, y, s, kept = expected
    usable = all(m.size and np.isfinite(m).all(axis=None) for m in (X, W))
    if not usable:
        assert design is None
        return
    assert design is not None, both
    assert design.kept.tolist() == kept.tolist()
    assert design.outcome_names == tuple(X.columns) and design.select_names == tuple(W.columns)
    assert_allclose(design.X, X, rtol=1e-12, atol=1e-12)
    assert_allclose(design.W, W, rtol=1e-12, atol=1e-12)
    assert_allclose(design.y, y)
    assert_allclose(design.s, s)


MODELS = [
    (GreeneSelectionLogit, {"normalization": {"sigma": 1.0, "rho": 0.3}}),
    (GreeneSelectionLogit, {"normalization": "loading"}),
    (ProbitSelection, {}),
    (BiasCorrLogit, {"normalization": {"sigma": 1.0}}),
]


@given(st.data())
def test_fits_of_any_frame(data):
    """From formulas to predictions for other data of any kind."""
    frame, other = data.draw(frames(strange=False)), data.draw(frames())
    both = data.draw(formulas(list(frame.columns), valid=True))
    kind, options = data.draw(st.sampled_from(MODELS))
    model = quietly(kind.from_formula, *both, frame, env={"np": np}, **options)
    assume(model is not None and model.nparams <= 25)
    results = quietly(model.fit, maxiter=30, names=("soft_selection",))
    assume(results is not None)
    params = results.params.to_numpy()
    assert np.isfinite(params).all()
    assert np.isfinite(results.llf)
    expected = log_rows(results.model, params)
    if np.isfinite(expected).all():
        assert_allclose(results.model.loglike(params), expected.sum(), rtol=1e-6)
    assert np.isfinite(results.predict()).all()
    predicted = quietly(results.predict, other, names=("data", "exog"))
    if predicted is not None:
        known = predicted[predicted.notna()]
        assert len(predicted) == len(other)
        assert ((known >= 0) & (known <= 1)).all()


JUNK = st.one_of(
    st.sampled_from(ODD),
    st.sampled_from(["x", "nowhere", "y", "s"]),
    st.lists(st.sampled_from(ODD), max_size=3),
    st.sampled_from([60, 0, 5]).map(np.ones),
    st.sampled_from([KINDS | STRANGE]).flatmap(
        lambda kinds: st.sampled_from([*kinds]).map(
            lambda kind: pd.Series(kinds[kind](np.random.default_rng(0), 60))
        )
    ),
    st.just([[1, 2], [3]]),
    st.just(pd.DataFrame({"a": np.ones(60)})),
    st.just(slice(0, 5)),
)


@many
@given(st.data())
def test_any_argument_of_from_formula(data):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.normal(size=60) for name in ("x", "z")})
    frame["s"], frame["y"] = rng.integers(0, 2, 60), rng.integers(0, 2, 60)
    roles = ("offset", "offset_select", "freq_weights", "prob_weights", "subset", "missing", "data")
    given_ = {
        role: data.draw(JUNK)
        for role in data.draw(st.lists(st.sampled_from(roles), min_size=1, max_size=2, unique=True))
    }
    rows = given_.pop("data", frame)
    design = quietly(
        design_from_formula, "y ~ x", "s ~ x + z", rows, **given_, env=-1, names=(*given_, "data")
    )
    if design is not None:
        check_design(design, max(len(frame), 1))


@many
@given(st.data())
def test_any_arrays(data):
    rng = np.random.default_rng(0)
    arrays = {
        "endog": rng.integers(0, 2, 60),
        "exog": rng.normal(size=(60, 2)),
        "endog_select": rng.integers(0, 2, 60),
        "exog_select": rng.normal(size=(60, 3)),
    }
    for name in data.draw(st.lists(st.sampled_from([*arrays]), min_size=1, max_size=2)):
        arrays[name] = data.draw(JUNK)
    options = {"missing": data.draw(st.sampled_from(["none", "drop", "raise"]))}
    design = quietly(design_from_arrays, **arrays, **options, names=tuple(arrays))
    if design is not None:
        check_design(design, 60)
