"""The catalogue of hostile inputs: each with what users get, at every door it can come through.

An entry either raises, and then the text holds what ``says`` lists (the argument, the value, the
remedy), or gives the numbers of a clean equivalent. ``questions`` has the calls after a fit, and
``tables`` writes both into docs/hostile-inputs.md.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch

from statsmodels_mnar import (
    DesignError,
    MissingDataError,
    MissingOutcomeWarning,
    NoVariationError,
    PerfectSeparationError,
    SingularDesignError,
)

from .doors import (
    ARRAYS,
    BASE,
    BASELINES,
    COMMAND,
    FORMULAS,
    MODELS,
    OUTCOME,
    SELECT,
    Call,
    arrays_of,
)

Frames = Callable[[pd.DataFrame], Any]


@dataclass(frozen=True)
class Entry:
    """A hostile input and what users get."""

    topic: str
    name: str
    doors: tuple[str, ...]
    call: Callable[[], Call]
    raises: type[Exception] | None = None
    says: tuple[str, ...] = ()  # parts of the text
    clean: Callable[[], Call] | None = None  # a clean input that gives the same numbers
    same: str = ""  # that input in words
    warns: type[Warning] | None = None

    @property
    def gets(self) -> str:
        """What users get, in words."""
        if self.raises is not None:
            return error(self.raises, self.says)
        warned = "" if self.warns is None else f", and a `{self.warns.__name__}`"
        return f"the numbers of {self.same}{warned}"


def error(raises: type[Exception], says: tuple[str, ...]) -> str:
    """An error in words."""
    return f"`{raises.__name__}`: " + " … ".join(f"`{part}`" for part in says)


ENTRIES: list[Entry] = []

# Doors of an input that is a frame: those of formulas, and the command line where a file holds it.
FRAMES = FORMULAS
FILES = (*FORMULAS, *COMMAND)
# Where a success is tried: two of them are compared with statsmodels.
SOME = ("greene", "independent", "naive")


def bare(doors: tuple[str, ...]) -> tuple[str, ...]:
    """The doors, with BiasCorr's on its bare objective: its default penalty only warns of these."""
    return tuple("biascorr, no penalty" if door == "biascorr" else door for door in doors)


def unchanged(data: pd.DataFrame) -> pd.DataFrame:
    return data


def refuse(
    topic: str,
    name: str,
    raises: type[Exception],
    *says: str,
    data: Frames = unchanged,
    doors: tuple[str, ...] = FRAMES,
    **call: Any,
) -> None:
    ENTRIES.append(Entry(topic, name, doors, lambda: Call(data(BASE.copy()), **call), raises, says))


def accept(
    topic: str,
    name: str,
    same: str = "the plain data",
    *,
    data: Frames = unchanged,
    clean: Frames | None = None,
    doors: tuple[str, ...] = SOME,
    warns: type[Warning] | None = None,
    clean_call: dict[str, Any] | None = None,
    **call: Any,
) -> None:
    def make_clean() -> Call:
        formulas = {k: v for k, v in call.items() if k in ("outcome", "select")}
        rows = BASE if clean is None else clean(BASE.copy())
        return Call(rows, **(formulas | (clean_call or {})))

    hostile = lambda: Call(data(BASE.copy()), **call)  # noqa: E731
    ENTRIES.append(Entry(topic, name, doors, hostile, clean=make_clean, same=same, warns=warns))


def assign(**columns: Any) -> Frames:
    """The data with columns made of them."""

    def change(data: pd.DataFrame) -> pd.DataFrame:
        made = {name: how(data) if callable(how) else how for name, how in columns.items()}
        return data.assign(**made)

    return change


def put(column: str, value: Any, row: int = 3) -> Frames:
    """The data with one value changed."""

    def change(data: pd.DataFrame) -> pd.DataFrame:
        data[column] = data[column].astype(object if value is None else float)
        data.loc[row, column] = value
        return data

    return change


def without(*rows: int) -> Frames:
    return lambda data: data.drop(index=list(rows))


def arguments(**changes: Callable[[dict[str, Any]], Any]) -> Frames:
    """The arguments of a class with some of them made anew."""

    def change(data: pd.DataFrame) -> dict[str, Any]:
        found = arrays_of(data)
        return found | {name: how(found) for name, how in changes.items()}

    return change


def dropping(**changes: Callable[[dict[str, Any]], Any]) -> Frames:
    return arguments(missing=lambda _: "drop", **changes)


SELECTED = int(BASE.index[BASE.s == 1][0])
UNSELECTED = int(BASE.index[BASE.s == 0][0])
CLASSES = tuple(door for door in ARRAYS if door != "naive arrays")  # that take weights and offsets

# ---- empty and small -----------------------------------------------------------------------------

T = "Empty and small data"
refuse(T, "no rows", DesignError, "the data have no rows", data=lambda d: d[:0])
refuse(T, "no columns", DesignError, "uses 'y'", data=lambda d: pd.DataFrame())
refuse(T, "no rows, in a file", ValueError, "has no rows", data=lambda d: d[:0], doors=COMMAND)
refuse(
    T, "no rows, as arrays", DesignError, "the data have no rows",
    data=lambda d: arrays_of(d[:0]), doors=ARRAYS,
)  # fmt: skip
refuse(
    T, "one row, selected", NoVariationError, "all 1 rows are selected", "ordinary logit",
    data=lambda d: d[d.s == 1][:1], doors=(*MODELS, "ipw", "rba", "rflearn", *COMMAND),
)  # fmt: skip
refuse(
    T, "one row, for a logit", NoVariationError, "the outcome y is", "on all 1 labelled rows",
    data=lambda d: d[d.s == 1][:1], doors=("naive", "naive arrays"),
)  # fmt: skip
refuse(
    T, "one row, unselected", NoVariationError, "none of the 1 rows is selected (s = 0)",
    "Check how s is coded", data=lambda d: d[d.s == 0][:1], doors=(*FILES, *ARRAYS),
)  # fmt: skip
refuse(
    T, "fewer rows than parameters", PerfectSeparationError, "perfectly separated", "ridge penalty",
    data=lambda d: d[:6], doors=bare(("greene", "probit", "biascorr", "naive")),
)  # fmt: skip
refuse(
    T, "fewer labelled rows than outcome columns", SingularDesignError,
    "the outcome equation has 3 columns and 2 rows on the labelled rows",
    data=lambda d: pd.concat(
        [d[d.s == 0], d[(d.s == 1) & (d.y == 0)][:1], d[(d.s == 1) & (d.y == 1)][:1]]
    ),
)  # fmt: skip
refuse(T, "data is None", DesignError, "data must be a DataFrame", "NoneType", data=lambda d: None)
refuse(
    T, "data is a list", DesignError, "data must be a DataFrame", "pandas.DataFrame(data)",
    data=lambda d: [1, 2],
)  # fmt: skip
refuse(
    T, "a dict of columns of different lengths", DesignError, "data cannot be read as a table",
    data=lambda d: {"y": [1, 0], "x": [1, 2, 3]},
)  # fmt: skip
accept(T, "a dict of columns", data=lambda d: {k: d[k].tolist() for k in d})
refuse(
    T, "an equation without columns", DesignError, "the outcome equation has no columns",
    "constant", outcome="y ~ 0",
)  # fmt: skip
refuse(
    T, "a design of no columns", DesignError, "the selection equation has no columns",
    data=arguments(exog_select=lambda a: np.empty((len(BASE), 0))), doors=ARRAYS,
)  # fmt: skip
refuse(T, "endog is None", DesignError, "endog is None", data=arguments(endog=lambda a: None),
       doors=ARRAYS)  # fmt: skip
refuse(T, "endog is a number", DesignError, "endog must be an array", "float",
       data=arguments(endog=lambda a: 1.0), doors=ARRAYS)  # fmt: skip
refuse(T, "endog is a generator", DesignError, "endog must be an array", "generator",
       data=arguments(endog=lambda a: (v for v in a["endog"])), doors=ARRAYS)  # fmt: skip
refuse(T, "arguments of different lengths", DesignError, "inputs differ in their number of rows",
       "endog has 5", data=arguments(endog=lambda a: a["endog"][:5]), doors=ARRAYS)  # fmt: skip

# ---- columns that identify nothing ---------------------------------------------------------------

T = "Constant and collinear columns"
refuse(
    T, "a constant beside the intercept", SingularDesignError, "outcome equation", "ridge penalty",
    "one is a combination of Intercept", data=assign(one=3.0), outcome=f"{OUTCOME} + one",
    doors=bare(FILES),
)  # fmt: skip
refuse(
    T, "a constant in the selection equation", SingularDesignError, "the selection equation",
    "one is a combination of Intercept", data=assign(one=3.0), select=f"{SELECT} + one",
    doors=bare((*MODELS, "ipw", "compare", *COMMAND)),
)  # fmt: skip
refuse(
    T, "a column of zeros", SingularDesignError, "outcome column(s) zero", "zero on every labelled",
    data=assign(zero=0.0), outcome=f"{OUTCOME} + zero", doors=bare(FILES),
)  # fmt: skip
refuse(
    T, "a column that is constant on the labelled rows", SingularDesignError,
    "collinear columns on the labelled rows", "flat is a combination of Intercept",
    data=assign(flat=lambda d: np.where(d.s == 1, 1.0, d.x)), outcome=f"{OUTCOME} + flat",
    doors=bare(FRAMES),
)  # fmt: skip
refuse(
    T, "twice another column", SingularDesignError, "collinear columns", "combination",
    data=assign(twin=lambda d: 2 * d.x), outcome=f"{OUTCOME} + twin", doors=bare(FILES),
)  # fmt: skip
refuse(
    T, "twice another column, in the selection equation", SingularDesignError,
    "the selection equation has collinear columns", data=assign(twin=lambda d: 2 * d.x),
    select=f"{SELECT} + twin", doors=bare((*MODELS, "ipw", "compare", *COMMAND)),
)  # fmt: skip
accept(
    T, "twice another column, in an equation that is not fitted",
    data=assign(twin=lambda d: 2 * d.x), select=f"{SELECT} + twin", doors=("naive", "rba"),
    clean_call={"select": SELECT},
)  # fmt: skip
refuse(
    T, "a year of 1e12", SingularDesignError, "Intercept", "combination",
    data=assign(x=lambda d: d.x + 1e12),
    doors=bare(FRAMES),
)  # fmt: skip
refuse(
    T, "10,000 columns and 400 rows", SingularDesignError, "has 10001 columns and", "ridge penalty",
    data=arguments(exog=lambda a: np.column_stack([np.ones(400), _noise()])), doors=ARRAYS,
)  # fmt: skip
refuse(
    T, "10,000 columns in the selection equation", SingularDesignError,
    "the selection equation has 10001 columns and 400 rows",
    data=arguments(exog_select=lambda a: np.column_stack([np.ones(400), _noise()])), doors=CLASSES,
)  # fmt: skip
accept(
    T, "10,000 columns that no formula reads",
    data=lambda d: pd.concat([d, pd.DataFrame(_noise()).add_prefix("v")], axis=1),
)  # fmt: skip
refuse(
    T, "a formula of 2,000 terms", DesignError, "too many terms", "Pass arrays",
    outcome="y ~ " + " + ".join(f"I(x ** {i})" for i in range(2_000)),
)  # fmt: skip
accept(T, "a factor of one level", data=assign(f="a"), outcome=f"{OUTCOME} + C(f)",
       clean_call={"outcome": OUTCOME})  # fmt: skip
accept(T, "a constant in place of the intercept", data=assign(one=3.0),
       outcome=f"{OUTCOME} + one - 1", clean_call={"outcome": OUTCOME})  # fmt: skip


def _noise() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((400, 10_000))


# ---- infinite and extreme ------------------------------------------------------------------------

T = "Infinite and extreme values"
for _value in (np.inf, -np.inf):
    refuse(
        T, f"{_value} in a covariate", DesignError, "infinite values in x, first in row 3",
        "Recode or drop", data=put("x", _value),
    )  # fmt: skip
refuse(
    T, "inf in the selection equation", DesignError, "infinite values in z", data=put("z", np.inf)
)
refuse(T, "inf in a file", ValueError, "infinite values in x", data=put("x", np.inf), doors=COMMAND)
refuse(T, "inf in an array", DesignError, "infinite values in x",
       data=lambda d: arrays_of(put("x", np.inf)(d)), doors=ARRAYS)  # fmt: skip
refuse(T, "inf in the outcome", DesignError, "outcome 'y' must be 0/1", "inf",
       data=put("y", np.inf, SELECTED))  # fmt: skip
refuse(T, "inf in the selection indicator", DesignError, "selection indicator 's' must be 0/1",
       "inf", data=put("s", np.inf))  # fmt: skip
accept(T, "inf in the outcome of an unselected row", data=put("y", np.inf, UNSELECTED))
accept(T, "inf in a column that no formula reads", data=assign(k=np.inf))
refuse(T, "a term that overflows", DesignError, "infinite values in np.exp(big)",
       data=assign(big=lambda d: 1e5 * d.x), outcome="y ~ np.exp(big) + w")  # fmt: skip
refuse(T, "the log of zero", DesignError, "infinite values in np.log(k)",
       data=assign(k=lambda d: d.k * 1.0), outcome="y ~ np.log(k) + w")  # fmt: skip
refuse(T, "a column of 1e200", DesignError, "largest value of x", "its square cannot be computed",
       "other units", data=assign(x=lambda d: 1e200 * d.x), doors=FILES)  # fmt: skip
refuse(T, "a column of 1e-200", DesignError, "largest value of x", "other units",
       data=assign(x=lambda d: 1e-200 * d.x), doors=FILES)  # fmt: skip
ANY = (*MODELS, "ipw", "rba", "rflearn", "naive", "greene arrays", "biascorr arrays")
for _scale in (1e12, 1e-12):
    accept(
        T, f"a covariate times {_scale:g}", data=assign(x=lambda d, f=_scale: f * d.x), doors=ANY
    )
    accept(T, f"the instrument times {_scale:g}", data=assign(z=lambda d, f=_scale: f * d.z),
           doors=ANY)  # fmt: skip
accept(T, "columns of 1e12 and 1e-12 in one equation",
       data=assign(x=lambda d: 1e12 * d.x, w=lambda d: 1e-12 * d.w), doors=ANY)  # fmt: skip
accept(T, "a year in place of an age", "years since 2000", data=assign(k=lambda d: 2000 + d.k),
       clean=unchanged, outcome="y ~ x + k", doors=ANY[:8])  # fmt: skip
accept(
    T, "negative zeros", data=assign(y=lambda d: d.y.replace(0.0, -0.0)), doors=(*SOME, "probit")
)

# ---- missing -------------------------------------------------------------------------------------

T = "Missing values"
for _column in ("x", "z", "s"):
    for _place, _row in (("a selected", SELECTED), ("an unselected", UNSELECTED)):
        _name = f"NaN in {_column} of {_place} row"
        accept(T, _name, "the other rows", data=put(_column, np.nan, _row), clean=without(_row))
        refuse(
            T, f"{_name}, missing='raise'", MissingDataError, "1 of 400 rows", f"{_column} (1)",
            "missing='drop'", data=put(_column, np.nan, _row), model={"missing": "raise"},
        )  # fmt: skip
        refuse(
            T, f"{_name}, in arrays", MissingDataError, f"{_column} (1)", "missing='drop'",
            data=lambda d, c=_column, r=_row: arrays_of(put(c, np.nan, r)(d)), doors=ARRAYS,
        )  # fmt: skip
accept(T, "NaN in the outcome of an unselected row", data=put("y", np.nan, UNSELECTED))
accept(T, "NaN in the outcome of a selected row", "the other rows", clean=without(SELECTED),
       data=put("y", np.nan, SELECTED), warns=MissingOutcomeWarning)  # fmt: skip
refuse(T, "NaN in the outcome of a selected row, missing='raise'", MissingDataError,
       "1 selected row(s) (s = 1) have no outcome y", "set s = 0", model={"missing": "raise"},
       data=put("y", np.nan, SELECTED))  # fmt: skip
accept(T, "None in a covariate of objects", "the other rows", data=put("x", None), clean=without(3))
accept(T, "pd.NA in a nullable covariate", "the other rows", clean=without(3),
       data=assign(x=lambda d: d.x.astype("Float64").where(d.index != 3, pd.NA)))  # fmt: skip
accept(T, "pd.NA in a covariate of objects", "the other rows", clean=without(3),
       data=assign(x=lambda d: d.x.astype(object).where(d.index != 3, pd.NA)))  # fmt: skip
for _dtype in ("Int64", "boolean", "Float64"):
    accept(
        T, f"an outcome of {_dtype} with pd.NA", data=assign(y=lambda d, t=_dtype: d.y.astype(t))
    )
accept(T, "no selection indicator: the outcome is missing", select="~ x + w + z",
       clean_call={"select": SELECT}, doors=("greene", "naive", "probit"))  # fmt: skip
refuse(T, "a covariate that is all NaN", DesignError, "no rows are left",
       "400 have missing covariates", data=assign(x=np.nan))  # fmt: skip
refuse(T, "an outcome that is all NaN", NoVariationError, "none of the", "is selected",
       data=assign(y=np.nan), select="~ x + w + z")  # fmt: skip
refuse(T, "a selection indicator that is all NaN", DesignError, "no rows are left",
       data=assign(s=np.nan))  # fmt: skip
refuse(T, "the outcome as a covariate of selection", NoVariationError, "rows are selected (s = 1)",
       "rows are left out because a covariate is missing", select="s ~ x + y",
       doors=("greene", "probit", "biascorr", "ipw"))  # fmt: skip
refuse(T, "missing='delete'", DesignError, "missing must be 'drop', 'raise' or 'none'", "'delete'",
       model={"missing": "delete"})  # fmt: skip
accept(T, "a masked row of an array", "the other rows", clean=without(3), doors=ARRAYS,
       data=dropping(exog=lambda a: _masked(a["exog"].to_numpy(), (3, 1))))  # fmt: skip
accept(T, "a masked outcome", doors=ARRAYS,
       data=arguments(endog=lambda a: np.ma.masked_invalid(a["endog"]),
                      endog_select=lambda a: None))  # fmt: skip
accept(T, "a masked offset", "the other rows", clean=without(3), doors=CLASSES,
       data=dropping(offset=lambda a: _masked(np.zeros(400), 3)))  # fmt: skip
accept(T, "a masked weight", "the other rows", clean=without(3), doors=CLASSES,
       data=dropping(freq_weights=lambda a: _masked(np.ones(400), 3)))  # fmt: skip


def _masked(values: np.ndarray, place: Any) -> np.ma.MaskedArray:
    found = np.ma.array(values)
    found[place] = np.ma.masked
    return found


# ---- types ---------------------------------------------------------------------------------------

T = "Types of columns"
DATES = pd.date_range("2020", periods=len(BASE))
accept(T, "a covariate of objects that are numbers", data=assign(x=lambda d: d.x.astype(object)))
accept(T, "a covariate of decimals", "floats",
       data=assign(x=lambda d: [decimal.Decimal(f"{v:.6f}") for v in d.x]),
       clean=assign(x=lambda d: d.x.round(6)))  # fmt: skip
refuse(T, "numbers read as text", DesignError, "x in '~ x + w' is text with 400 different values",
       "pandas.to_numeric", data=assign(x=lambda d: d.x.astype(str)))  # fmt: skip
accept(T, "text", "C(g)", outcome=f"{OUTCOME} + g", clean_call={"outcome": f"{OUTCOME} + C(g)"},
       doors=(*SOME, "biascorr"))  # fmt: skip
accept(T, "a boolean covariate", "0/1", data=assign(b=lambda d: d.x > 0), outcome="y ~ b + w",
       clean=assign(b=lambda d: (d.x > 0) * 1.0))  # fmt: skip
accept(T, "a nullable boolean covariate", "0/1", outcome="y ~ b + w",
       data=assign(b=lambda d: (d.x > 0).astype("boolean")),
       clean=assign(b=lambda d: (d.x > 0) * 1.0))  # fmt: skip
for _dtype in ("Int64", "UInt8", "int8", "float32", "longdouble"):
    accept(T, f"a covariate of {_dtype}", "floats", outcome="y ~ k + w",
           data=assign(k=lambda d, t=_dtype: d.k.astype(t)),
           clean=assign(k=lambda d: d.k.astype(float)))  # fmt: skip
accept(T, "the square of an int8", "floats", data=assign(k=lambda d: (6 * d.k).astype("int8")),
       clean=assign(k=lambda d: 6.0 * d.k), outcome="y ~ I(k ** 2) + w")  # fmt: skip
accept(T, "minus an unsigned integer", "floats", data=assign(k=lambda d: d.k.astype("uint8")),
       clean=assign(k=lambda d: 1.0 * d.k), outcome="y ~ I(-k) + w")  # fmt: skip
refuse(T, "the fifth power of an integer", DesignError, "the integers of k are too large",
       "astype(float)", outcome="y ~ I(k ** 5) + w",
       data=assign(k=lambda d: 1_000 * d.k))  # fmt: skip
accept(T, "the square of a large integer", "floats", data=assign(k=lambda d: 10_000 * d.k),
       clean=assign(k=lambda d: 10_000.0 * d.k), outcome="y ~ I(k ** 2) + w")  # fmt: skip
accept(T, "a column in the byte order of another machine",
       data=assign(x=lambda d: d.x.to_numpy().astype(">f8")))  # fmt: skip
for _name, _values in {
    "dates": DATES,
    "dates with a time zone": DATES.tz_localize("UTC"),
    "dates of several time zones": pd.Series(
        [v.tz_localize("UTC" if i % 2 else "Europe/Paris") for i, v in enumerate(DATES)],
        dtype=object,
    ),
    "dates of Python": pd.Series([datetime.date(2020, 1, 1 + i % 28) for i in range(400)]),
    "time spans": DATES - DATES[0],
    "periods": DATES.to_period("D"),
}.items():
    refuse(T, f"{_name} as a covariate", DesignError, "t in '~ x + t' is of type", "write C(t)",
           data=assign(t=_values), outcome="y ~ x + t")  # fmt: skip
refuse(T, "complex numbers as a covariate", DesignError, "t in '~ x + t' is of type complex",
       "np.real(t)", data=assign(t=BASE.x.to_numpy() + 1j), outcome="y ~ x + t")  # fmt: skip
accept(T, "days since a date", "numbers", data=assign(t=DATES[::-1]), outcome="y ~ x + t.dt.day",
       clean=assign(t=DATES[::-1].day), clean_call={"outcome": "y ~ x + t"})  # fmt: skip
accept(T, "a factor with levels that do not occur", "C(g)", outcome=f"{OUTCOME} + g",
       data=assign(g=lambda d: pd.Categorical(d.g, categories=list("abcz"))),
       clean=unchanged, doors=(*SOME, "biascorr", "ipw"))  # fmt: skip
accept(T, "an ordered factor, levels reversed", "C(g)", outcome=f"{OUTCOME} + g",
       data=assign(g=lambda d: pd.Categorical(d.g, categories=list("cba"), ordered=True)),
       clean=unchanged)  # fmt: skip
refuse(T, "a level that no labelled row has", SingularDesignError, "f[T.never]",
       "no labelled row has", "Merge", outcome=f"{OUTCOME} + f",
       data=assign(f=lambda d: np.where((d.s == 0) & (d.x > 0), "never", d.g)),
       doors=bare(FRAMES))  # fmt: skip
for _backend in ("pyarrow", "numpy_nullable"):
    accept(T, f"a frame of {_backend} types",
           data=lambda d, b=_backend: d.convert_dtypes(dtype_backend=b),
           doors=(*SOME, "biascorr", "greene arrays"))  # fmt: skip
accept(T, "decimals of pyarrow", "floats", clean=assign(x=lambda d: d.x.round(6)),
       data=assign(x=lambda d: _arrow([decimal.Decimal(f"{v:.6f}") for v in d.x])))  # fmt: skip
accept(T, "a dictionary of pyarrow", "C(g)", outcome=f"{OUTCOME} + g", clean=unchanged,
       data=assign(g=lambda d: _arrow(d.g.tolist(), dictionary=True)))  # fmt: skip
accept(T, "sparse columns", "dense ones", clean=assign(x=lambda d: d.x.clip(lower=0)),
       data=assign(x=lambda d: pd.arrays.SparseArray(d.x.clip(lower=0), fill_value=0.0)),
       doors=(*SOME, "greene arrays"))  # fmt: skip


def _arrow(values: list[Any], dictionary: bool = False) -> pd.Series:
    pyarrow = __import__("pytest").importorskip("pyarrow")
    array = pyarrow.array(values)
    array = array.dictionary_encode() if dictionary else array
    return pd.Series(array, dtype=pd.ArrowDtype(array.type))


T = "Types of arrays"
EXOG: dict[str, Callable[[dict[str, Any]], Any]] = {
    "lists": lambda a: a["exog"].to_numpy().tolist(),
    "torch tensors": lambda a: torch.tensor(a["exog"].to_numpy()),
    "torch tensors with a gradient": lambda a: torch.tensor(
        a["exog"].to_numpy(), requires_grad=True
    ),
    "decimals": lambda a: a["exog"].map(lambda v: decimal.Decimal(float(v))).to_numpy(),
    "read-only arrays": lambda a: np.frombuffer(a["exog"].to_numpy().tobytes()).reshape(400, 3),
    "arrays in Fortran's order": lambda a: np.asfortranarray(a["exog"]),
    "arrays with strides": lambda a: np.repeat(a["exog"].to_numpy(), 2, axis=1)[:, ::2],
    "arrays in the byte order of another machine": lambda a: a["exog"].to_numpy().astype(">f8"),
}
for _name, _make in EXOG.items():
    accept(T, _name, data=arguments(exog=_make), doors=("greene arrays", "naive arrays"))
accept(T, "an outcome of one column", doors=ARRAYS,
       data=arguments(endog=lambda a: a["endog"].to_numpy()[:, None]))  # fmt: skip
accept(T, "an outcome and an indicator of torch", doors=("greene arrays", "naive arrays"),
       data=arguments(endog=lambda a: torch.tensor(a["endog"].to_numpy()),
                      endog_select=lambda a: torch.tensor(a["endog_select"].to_numpy()))
       )  # fmt: skip
REFUSED: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "complex numbers": (lambda a: a["exog"] + 1j, "exog"),
    "complex arrays": (lambda a: a["exog"].to_numpy() + 1j, "exog must be numeric"),
    "dates": (lambda a: DATES.to_numpy()[:, None], "exog must be numeric"),
    "time spans": (lambda a: (DATES - DATES[0]).to_numpy()[:, None], "exog must be numeric"),
    "text": (lambda a: [["a", "b", "c"]] * 400, "exog must be numeric"),
    "levels": (
        lambda a: a["exog"].assign(x=pd.Categorical(BASE.g)),
        "columns that are not numeric",
    ),
    "rows of different lengths": (lambda a: [[1.0]] * 399 + [[1.0, 2.0]], "exog must be numeric"),
    "a sparse matrix": (lambda a: scipy.sparse.csr_matrix(a["exog"]), "exog.toarray()"),
    "three dimensions": (lambda a: np.ones((400, 2, 2)), "exog must have two dimensions"),
}
for _name, (_make, _text) in REFUSED.items():
    refuse(T, f"exog of {_name}", DesignError, _text, data=arguments(exog=_make), doors=ARRAYS)
refuse(T, "an outcome of two columns", DesignError, "must be one variable", "(400, 2)",
       doors=ARRAYS, data=arguments(endog=lambda a: np.column_stack([a["endog"]] * 2)))  # fmt: skip
refuse(T, "a complex outcome", DesignError, "outcome 'y'", "0/1 or boolean", doors=ARRAYS,
       data=arguments(endog=lambda a: a["endog"] + 1j))  # fmt: skip
refuse(T, "the index of another table", DesignError, "indexes of endog and endog_select differ",
       "reindex", doors=ARRAYS,
       data=arguments(endog_select=lambda a: a["endog_select"].set_axis(np.arange(10, 410)))
       )  # fmt: skip

# ---- codings -------------------------------------------------------------------------------------

T = "Codings of outcome and selection"
refuse(T, "an outcome of 1/2", DesignError, "outcome 'y' must be 0/1 or boolean, found 1, 2",
       "I(y == 1) or I(y == 2)", "counts as 1", data=assign(y=lambda d: d.y + 1),
       doors=FILES)  # fmt: skip
refuse(T, "an outcome of -1/1", DesignError, "found -1, 1", "I(y == -1) or I(y == 1)",
       data=assign(y=lambda d: 2 * d.y - 1), doors=FILES)  # fmt: skip
refuse(T, "an outcome of 0/0.5", DesignError, "found 0, 0.5", data=assign(y=lambda d: d.y / 2),
       doors=FILES)  # fmt: skip
refuse(T, "an outcome of 0 and 1 + 1e-12", DesignError, "found 0, 1.000000000001",
       data=assign(y=lambda d: d.y * (1 + 1e-12)))  # fmt: skip
refuse(T, "an outcome of yes/no", DesignError, "outcome 'y'", "levels no, yes",
       "I(y == 'no') or I(y == 'yes')", "the level that you write counts as 1",
       data=assign(y=lambda d: d.y.map({0: "no", 1: "yes"})), doors=FILES)  # fmt: skip
refuse(T, "an outcome of '0'/'1'", DesignError, "outcome 'y'", "I(y == '0') or I(y == '1')",
       data=assign(y=lambda d: d.y.map({0: "0", 1: "1"})))  # fmt: skip
refuse(T, "a categorical outcome", DesignError, "type category", "I(y == 0.0) or I(y == 1.0)",
       data=assign(y=lambda d: d.y.astype("category")))  # fmt: skip
refuse(T, "an outcome of dates", DesignError, "outcome 'y'", "datetime64", data=assign(y=DATES))
accept(T, "an outcome of True/False", data=assign(y=lambda d: d.y_full == 1),
       doors=(*MODELS, "naive", "ipw"))  # fmt: skip
accept(T, "True/False/None, no indicator", select="~ x + w + z", clean_call={"select": SELECT},
       data=assign(y=lambda d: (d.y_full == 1).astype(object).where(d.s == 1, None)),
       doors=("greene", "naive", "probit"))  # fmt: skip
accept(T, "yes/no by a comparison", outcome="I(y == 'yes') ~ x + w",
       data=assign(y=lambda d: d.y.map({0: "no", 1: "yes"})), clean_call={"outcome": OUTCOME},
       doors=(*SOME, *COMMAND))  # fmt: skip
accept(T, "labels of unselected rows, which are not read", data=assign(y=lambda d: d.y_full),
       doors=(*MODELS, *BASELINES, *ARRAYS, *COMMAND))  # fmt: skip
accept(T, "codes such as 7 for unselected rows", data=assign(y=lambda d: d.y.fillna(7)), doors=ANY)
refuse(T, "a selection indicator of 1/2", DesignError, "selection indicator 's' must be 0/1",
       "found 1, 2", "I(s == 1) or I(s == 2)", data=assign(s=lambda d: d.s + 1),
       doors=FILES)  # fmt: skip
refuse(T, "a selection indicator of 0/0.5", DesignError, "selection indicator 's'", "found 0, 0.5",
       data=assign(s=lambda d: d.s / 2), doors=FILES)  # fmt: skip
refuse(T, "a selection indicator of yes/no", DesignError, "selection indicator 's'",
       "I(s == 'no') or I(s == 'yes')", data=assign(s=lambda d: d.s.map({0: "no", 1: "yes"})),
       doors=FILES)  # fmt: skip
accept(T, "a selection indicator of True/False", data=assign(s=lambda d: d.s == 1),
       clean=unchanged, doors=("greene", "probit", "biascorr", "greene arrays"))  # fmt: skip
refuse(T, "nobody is selected", NoVariationError, "none of the 400 rows is selected (s = 0)",
       data=assign(s=0), doors=(*FILES, *ARRAYS))  # fmt: skip
refuse(T, "everybody is selected", NoVariationError, "all 400 rows are selected", "ordinary logit",
       data=assign(s=1, y=lambda d: d.y_full),
       doors=(*MODELS, "ipw", "rba", "rflearn", *COMMAND))  # fmt: skip
accept(T, "everybody is selected, for a logit", "statsmodels' logit",
       data=assign(s=1, y=lambda d: d.y_full), clean=assign(s=1, y=lambda d: d.y_full),
       doors=("naive", "naive arrays"))  # fmt: skip
refuse(T, "one outcome only", NoVariationError, "the outcome y is 1 on all", "how it is coded",
       data=assign(y=lambda d: d.y * 0 + 1), doors=(*FILES, *ARRAYS))  # fmt: skip
refuse(T, "the two equations exchanged", NoVariationError, "the outcome s is 1 on all",
       outcome=SELECT, select=OUTCOME, doors=("greene", "probit", "biascorr", "ipw"))  # fmt: skip

# ---- separation ----------------------------------------------------------------------------------

T = "Separation"
refuse(T, "a column that knows the outcome", PerfectSeparationError,
       "the outcome equation is perfectly separated by q", "ridge penalty",
       data=assign(q=lambda d: d.y_full), outcome=f"{OUTCOME} + q", doors=bare(FILES))  # fmt: skip
refuse(T, "a column that knows some outcomes", PerfectSeparationError,
       "the outcome equation is perfectly separated by q", outcome=f"{OUTCOME} + q",
       data=assign(q=lambda d: ((d.y_full == 1) & (d.x > 0)) * 1.0), doors=bare(FILES))  # fmt: skip
refuse(T, "a column that knows who is selected", PerfectSeparationError,
       "the selection equation is perfectly separated by q", "drop or merge",
       data=assign(q=lambda d: d.s * 1.0), select=f"{SELECT} + q",
       doors=bare((*MODELS, "ipw", *COMMAND)))  # fmt: skip
refuse(T, "a threshold of two columns", PerfectSeparationError, "the selection equation",
       "perfectly separated", data=assign(s=lambda d: (d.x + d.z > 0) * 1, y=lambda d: d.y_full),
       doors=bare((*MODELS, "ipw")))  # fmt: skip
refuse(T, "the outcome on both sides", PerfectSeparationError, "perfectly separated by y",
       data=assign(y=lambda d: d.y_full), outcome=f"{OUTCOME} + y",
       doors=bare(("greene", "biascorr", "naive")))  # fmt: skip

# ---- names ---------------------------------------------------------------------------------------

T = "Names and indexes"
refuse(T, "two columns of one name", DesignError, "more than one column 'x'", "Rename or drop",
       data=lambda d: pd.concat([d, d[["x"]]], axis=1))  # fmt: skip
refuse(T, "two columns of one name in a file", ValueError, "header has more than one column x",
       data=lambda d: pd.concat([d, d[["x"]]], axis=1), doors=COMMAND)  # fmt: skip
refuse(T, "two design columns of one name", DesignError, "the column 'x' has the name of another",
       data=arguments(exog=lambda a: a["exog"].set_axis(["const", "x", "x"], axis=1)),
       doors=CLASSES)  # fmt: skip
accept(T, "two columns of one name that no formula reads",
       data=lambda d: pd.concat([d, d[["k"]]], axis=1))  # fmt: skip
for _name in ("athrho", "lnsigma", "loading"):
    refuse(T, f"a covariate called {_name}", DesignError, f"'{_name}' has the name of a parameter",
           f"I({_name})", data=assign(**{_name: lambda d: d.x}), outcome=f"y ~ {_name} + w",
           doors=MODELS)  # fmt: skip
refuse(T, "a covariate called select_x", DesignError, "'select_x' has the name of another column",
       "I(select_x)", data=assign(select_x=lambda d: d.x), outcome="y ~ select_x + w",
       doors=MODELS)  # fmt: skip
accept(T, "a covariate called athrho, as I(athrho)", data=assign(athrho=lambda d: d.x),
       outcome="y ~ I(athrho) + w", clean_call={"outcome": OUTCOME}, doors=MODELS)  # fmt: skip
accept(T, "covariates called rho and sigma", data=assign(rho=lambda d: d.x, sigma=lambda d: d.w),
       outcome="y ~ rho + sigma", clean_call={"outcome": OUTCOME}, doors=MODELS)  # fmt: skip
accept(T, "a covariate called offset, beside an offset", "the other rows", clean=without(3),
       data=assign(offset=lambda d: d.x.where(d.index != 3)), outcome="y ~ offset + w",
       clean_call={"outcome": OUTCOME}, model={"offset": np.zeros(400)},
       doors=("greene", "probit"))  # fmt: skip
for _name in ("class", "lambda", "two words", "it's", 'say "x"', "<b>&amp;", "{0}", "%s", "é",
              "1st", "", " ", "None", "np", "a\nb", "x" * 5_000):  # fmt: skip
    _shown = f"{_name[:12]!r}" + (" … (5,000 letters)" if len(_name) > 100 else "")
    accept(T, f"a column called {_shown}", outcome=f"y ~ Q({_name!r}) + w",
           data=assign(**{_name: lambda d: d.x}), clean_call={"outcome": OUTCOME},
           doors=("greene", "naive"))  # fmt: skip
accept(T, "a duplicated index", data=lambda d: d.set_axis(np.arange(400) // 2, axis=0),
       doors=(*SOME, "biascorr", *ARRAYS))  # fmt: skip
accept(T, "an index of NaN", data=lambda d: d.set_axis([np.nan] * 400, axis=0))
accept(T, "an index of several levels", data=lambda d: d.set_index(["k", "c"], drop=False))
accept(T, "the rows in another order", "the same rows",
       data=lambda d: d.sample(frac=1, random_state=np.random.default_rng(0)),
       clean=lambda d: d.sample(frac=1, random_state=np.random.default_rng(0)).reset_index(
           drop=True))  # fmt: skip

# ---- weights and offsets -------------------------------------------------------------------------

T = "Weights, offsets, groups"
W = ("greene", "probit", "biascorr")
for _kind in ("freq_weights", "prob_weights"):
    refuse(T, f"{_kind} with a negative value", DesignError, f"{_kind} must be >= 0",
           "the smallest is -1", "row 3", model={_kind: np.where(BASE.index == 3, -1, 1)},
           doors=W)  # fmt: skip
    refuse(T, f"{_kind} that are all zero", DesignError, f"{_kind} must be >= 0 and not all zero",
           model={_kind: np.zeros(400)}, doors=W)  # fmt: skip
    accept(T, f"{_kind} with zeros", "the other rows", model={_kind: (BASE.index >= 40) * 1},
           doors=("weighted",), clean=lambda d: d[40:])  # fmt: skip
    accept(T, f"{_kind} with NaN", "the other rows", clean=without(3), doors=W,
           model={_kind: np.where(BASE.index == 3, np.nan, 1.0)})  # fmt: skip
    refuse(T, f"{_kind} of inf", DesignError, f"infinite values in {_kind}", doors=W,
           model={_kind: np.full(400, np.inf)})  # fmt: skip
    refuse(T, f"{_kind} that leave one outcome", NoVariationError, "the outcome y is 1 on all",
           model={_kind: ((BASE.s == 0) | (BASE.y == 1)) * 1}, doors=W)  # fmt: skip
    refuse(T, f"{_kind} that leave selected rows", NoVariationError, "rows are selected",
           model={_kind: BASE.s}, doors=W)  # fmt: skip
    refuse(T, f"{_kind} of dates", DesignError, f"{_kind} must be numeric", "datetime64", doors=W,
           model={_kind: DATES})  # fmt: skip
    refuse(T, f"{_kind} of complex numbers", DesignError, f"{_kind} must be numeric", doors=W,
           model={_kind: np.ones(400) + 1j})  # fmt: skip
refuse(T, "freq_weights of 1.5", DesignError, "whole numbers", "prob_weights", doors=W,
       model={"freq_weights": np.full(400, 1.5)})  # fmt: skip
refuse(T, "both kinds of weights", DesignError, "freq_weights or prob_weights, not both", doors=W,
       model={"freq_weights": "c", "prob_weights": "c"})  # fmt: skip
refuse(T, "prob_weights of 1e-30", DesignError, "prob_weights sum to 4e-28", "mean of one", doors=W,
       model={"prob_weights": np.full(400, 1e-30)})  # fmt: skip
for _kind in ("freq_weights", "prob_weights", "offset", "offset_select"):
    refuse(T, f"{_kind} of ten values", DesignError, f"{_kind} must have one value for each of the",
           "(10,)", model={_kind: np.ones(10)}, doors=W)  # fmt: skip
    refuse(T, f"{_kind} of two dimensions", DesignError, f"{_kind} must have one value for each",
           model={_kind: np.ones((400, 1))}, doors=W)  # fmt: skip
    refuse(T, f"{_kind} by a name that is no column", DesignError,
           f"{_kind}='nothing' is not a column", model={_kind: "nothing"}, doors=W)  # fmt: skip
    refuse(T, f"{_kind} with the index of another table", DesignError, f"the index of {_kind}",
           f"{_kind}.to_numpy()", doors=W,
           model={_kind: pd.Series(1.0, index=np.arange(10, 410))})  # fmt: skip
    refuse(T, f"{_kind} of text", DesignError, f"{_kind} must be numeric", model={_kind: "g"},
           doors=W)  # fmt: skip
refuse(T, "an offset of dates", DesignError, "offset must be numeric", model={"offset": DATES},
       doors=W)  # fmt: skip
accept(T, "an offset of 1e6 times a covariate", "the fit without it", doors=("greene", "probit"),
       model={"offset": 1e6 * BASE.x, "offset_select": -1e6 * BASE.z})  # fmt: skip
accept(T, "an offset of 1e4 everywhere", "the fit without it", doors=bare(W),
       model={"offset": np.full(400, 1e4)})  # fmt: skip
accept(T, "an offset in another order, by its index", "the fit without it",
       model={"offset": (3 * BASE.w).sample(frac=1, random_state=np.random.default_rng(0))},
       doors=("greene", "probit"))  # fmt: skip
GROUPS: dict[str, tuple[Any, str]] = {
    "groups of ten values": (np.arange(10), "groups has 10 values; give one for each of the 400"),
    "groups of too many values": (np.arange(500), "groups has 500 values"),
    "groups is a number": (3, "has no value for each row"),
    "groups is None": (None, "needs cov_kwds={'groups'"),
    "groups by a name that is no column": ("nothing", "groups='nothing' is not a column"),
    "groups with NaN": (BASE.k.where(BASE.index > 4), "groups is missing for 5 rows"),
    "groups with a mask": (np.ma.array(BASE.k, mask=BASE.index < 5), "missing for 5 rows"),
    "one group": (np.zeros(400), "fewer than two clusters"),
    "three ways of clustering": (np.zeros((400, 3)), "3 ways of clustering"),
    "groups with the index of another table": (
        BASE.k.set_axis(np.arange(10, 410)), "the index of groups is not that of the data"
    ),
}  # fmt: skip
for _name, (_groups, _text) in GROUPS.items():
    refuse(T, f"{_name}, before the fit", ValueError, _text, doors=("before the fit",),
           fit={"cov_type": "cluster", "cov_kwds": {"groups": _groups}})  # fmt: skip
refuse(T, "groups by a name that two columns have", ValueError, "more than one column 'k'",
       data=lambda d: pd.concat([d, d[["k"]]], axis=1), doors=("before the fit",),
       fit={"cov_type": "cluster", "cov_kwds": {"groups": "k"}})  # fmt: skip

# ---- arguments of fit ----------------------------------------------------------------------------

T = "Arguments of fit and of the classes"
FIT: dict[str, tuple[dict[str, Any], str]] = {
    "cov_type of another case": ({"cov_type": "hc0"}, "cov_type='hc0' is unknown"),
    "cov_type='HC3'": ({"cov_type": "HC3"}, "linear regression only"),
    "cov_type is a list": ({"cov_type": ["HC0"]}, "cov_type=['HC0'] must be a name"),
    "cov_kwds with a misspelled key": (
        {"cov_type": "cluster", "cov_kwds": {"group": "k"}}, "unexpected keys ['group']"
    ),
    "groups without cov_type='cluster'": ({"cov_kwds": {"groups": "k"}}, "unexpected keys"),
    "use_correction='no'": (
        {"cov_type": "cluster", "cov_kwds": {"groups": "k", "use_correction": "no"}},
        "use_correction']='no' must be True or False",
    ),
    "start_params of three values": ({"start_params": [0] * 3}, "got shape (3,)"),
    "start_params of NaN": ({"start_params": np.full(8, np.nan)}, "start_params has values that"),
    "start_params of text": ({"start_params": "zeros"}, "start_params must be numeric"),
    "start_params is a dict": ({"start_params": {"x": 1}}, "start_params must be numeric"),
    "start_params of complex numbers": ({"start_params": np.zeros(8) + 1j}, "start_params must be"),
    "penalty of NaN": ({"penalty": np.nan}, "penalty=nan must be a nonnegative number"),
    "a negative penalty": ({"penalty": -1}, "penalty=-1 must be a nonnegative number"),
    "penalty of text": ({"penalty": "a"}, "penalty='a' must be a nonnegative number"),
    "penalty is an array": ({"penalty": np.ones(2)}, "must be a nonnegative number"),
    "maxiter=0": ({"maxiter": 0}, "maxiter=0 must be a positive integer"),
    "maxiter=True": ({"maxiter": True}, "maxiter=True must be a positive integer"),
    "a method of statsmodels": ({"method": "nm"}, "method='nm' is unknown; use one of"),
    "method is None": ({"method": None}, "method=None is unknown"),
    "gtol of NaN": ({"gtol": np.nan}, "gtol=nan must be a positive number"),
    "a callback that cannot be called": ({"callback": "show"}, "callback='show' must be a func"),
    "a checkpoint of data in memory": ({"checkpoint": "file"}, "checkpoint is for data in part"),
}  # fmt: skip
for _name, (_options, _text) in FIT.items():
    refuse(T, _name, ValueError, _text, fit=_options, doors=("before the fit",))
MODEL: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown normalization": ({"normalization": "sigma"}, "normalization='sigma' is unknown"),
    "normalization is False": ({"normalization": False}, "normalization=False is unknown"),
    "sigma of text": ({"normalization": {"sigma": "1"}}, "normalization['sigma']='1' must be a"),
    "rho of 1.5": ({"normalization": {"rho": 1.5}}, "must lie between -1 and 1"),
    "an unknown integration": ({"integration": "simpson"}, "integration='simpson' is unknown"),
    "a device that is none": ({"device": "gpux"}, "device='gpux' is not a torch device"),
    "hasconst='yes'": ({"hasconst": "yes"}, "hasconst='yes' must be True, False or None"),
    "env is text": ({"env": "np"}, "env='np' must be a number of frames, or a mapping"),
    "a subset of the wrong length": ({"subset": np.ones(10, bool)}, "subset does not select rows"),
    "a subset of labels that are not there": ({"subset": [9999]}, "subset does not select rows"),
    "a subset of nothing": ({"subset": []}, "no rows are left: 400 excluded by subset"),
    "subset is a function": ({"subset": lambda d: d.x > 0}, "subset is a function"),
}
for _name, (_options, _text) in MODEL.items():
    refuse(T, _name, ValueError, _text, model=_options, doors=("greene",))
refuse(T, "execution is text", TypeError, "execution='dask' must be an Execution",
       model={"execution": "dask"}, doors=("greene",))  # fmt: skip
BIASCORR: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown selection_model": (
        {"selection_model": "prob"},
        "selection_model='prob' is unknown",
    ),
    "soft_selection of 2": ({"soft_selection": 2}, "soft_selection=2 must be a number in [0, 1]"),
    "soft_selection of NaN": ({"soft_selection": np.nan}, "soft_selection=nan must be"),
    "soft_selection is True": ({"soft_selection": True}, "soft_selection=True must be a number"),
    "soft_selection of every row": ({"soft_selection": np.full(400, 0.3)}, "soft_selection=an arr"),
    "soft_pseudolabels='no'": ({"soft_pseudolabels": "no"}, "soft_pseudolabels='no' must be True"),
    "a classifier without predict_proba": ({"selection_model": 3}, "fit and predict_proba"),
}
for _name, (_options, _text) in BIASCORR.items():
    refuse(T, _name, ValueError, _text, model=_options, doors=("biascorr",))
refuse(T, "soft_selection of 0.6, penalty=0", ValueError, "no finite maximum. Use a ridge penalty",
       model={"soft_selection": 0.6}, doors=bare(("biascorr",)))  # fmt: skip


class Classifier:
    """Says what it is told to."""

    def __init__(self, answer: Callable[[int], np.ndarray]) -> None:
        self.answer = answer

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        pass

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.answer(len(X))


for _name, _answer in {
    "NaN": lambda n: np.full((n, 2), np.nan),
    "probabilities of 7": lambda n: np.full((n, 2), 7.0),
    "a row too few": lambda n: np.full((n - 1, 2), 0.3),
    "three classes": lambda n: np.full((n, 3), 0.3),
}.items():
    for _role in ("selection_model", "pseudolabel_model"):
        refuse(T, f"a {_role} that answers {_name}", ValueError, "predict_proba of Classifier",
               model={_role: Classifier(_answer)}, doors=("biascorr",))  # fmt: skip
refuse(T, "first_stage_tol of one number", ValueError, "first_stage_tol=3 must be two positive",
       fit={"first_stage_tol": 3}, doors=("biascorr",))  # fmt: skip

# ---- formulas ------------------------------------------------------------------------------------

T = "Formulas"
TYPOS: dict[str, tuple[dict[str, Any], str]] = {
    "a column that is not there": ({"outcome": "y ~ x + nothing"}, "uses 'nothing'"),
    "an outcome that is not there": ({"outcome": "nothing ~ x"}, "uses 'nothing'"),
    "a quoted column that is not there": ({"outcome": "y ~ Q('nothing')"}, "uses 'nothing'"),
    "a function that is not there": ({"outcome": "y ~ lgo(x)"}, "uses 'lgo'"),
    "a function numpy does not have": ({"outcome": "y ~ np.lgo(x)"}, "has no attribute 'lgo'"),
    "a misspelled keyword of a function": ({"outcome": "y ~ bs(x, dff=4)"}, "dff"),
    "no ~": ({"outcome": "y x"}, "formula must have one '~'"),
    "two ~": ({"outcome": "y ~ x ~ w"}, "formula must have one '~'"),
    "an open bracket": ({"outcome": "y ~ (x"}, "Unmatched '('"),
    "an operator too many": ({"outcome": "y ~ x +* w"}, "cannot evaluate 'y ~ x +* w'"),
    "nothing after ~": ({"outcome": "y ~"}, "cannot evaluate 'y ~'"),
    "no outcome": ({"outcome": "~ x"}, "formula needs an outcome on its left"),
    "a formula of None": ({"outcome": None}, "formula must be a string, got NoneType"),
    "a selection formula of None": ({"select": None}, "select_formula must be a string"),
    "an empty selection formula": ({"select": ""}, "select_formula must have one '~'"),
    "a keyword of Python": ({"outcome": "y ~ class"}, "cannot read 'y ~ class'"),
    "R's dot": ({"outcome": "y ~ ."}, "cannot read 'y ~ .'"),
    "R's x^2": ({"outcome": "y ~ x^2"}, "cannot evaluate '~ x^2'"),
    "a term of another length": ({"outcome": "y ~ x[:10]"}, "400 versus 10"),
    "an outcome of another length": ({"outcome": "y[:10] ~ x"}, "gives 10 values"),
    "a number as the outcome": ({"outcome": "1 ~ x"}, "outcome '1' must be one variable"),
    "two columns as the outcome": ({"outcome": "np.column_stack([y, y]) ~ x"}, "one variable"),
    "a term that is NaN everywhere": (
        {"outcome": "y ~ I(x * np.nan)"}, "design columns are NaN where their variables are known"
    ),
}  # fmt: skip
for _name, (_options, _text) in TYPOS.items():
    refuse(T, _name, DesignError, _text,
           doors=("greene", "probit", "biascorr", *BASELINES), **_options)  # fmt: skip
refuse(T, "a column that is not there, by the command line", ValueError, "uses 'nothing'",
       outcome="y ~ nothing", doors=COMMAND)  # fmt: skip
accept(T, "a term twice", outcome="y ~ x + x + w", clean_call={"outcome": OUTCOME})
accept(T, "a line break", outcome="y ~ x +\n w", clean_call={"outcome": OUTCOME})
accept(T, "x**2, which is x", outcome="y ~ x**2 + w", clean_call={"outcome": OUTCOME})
accept(T, "a term that is NaN on some rows", "the other rows", outcome="y ~ root(x) + w",
       model={"env": {"root": lambda x: np.sqrt(x.where(x > -1.5) + 2)}}, doors=("greene", "naive"),
       clean=lambda d: d[d.x > -1.5].assign(r=lambda e: np.sqrt(e.x + 2)),
       clean_call={"outcome": "y ~ r + w"})  # fmt: skip


def trials() -> Iterator[tuple[str, Entry]]:
    """Every door with every entry that comes through it."""
    for entry in ENTRIES:
        for door in entry.doors:
            yield door, entry
