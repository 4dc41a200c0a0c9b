"""Hostile questions to fitted models: new data, arguments of methods, files and options.

The second half of the catalogue: here each entry is a call of its own, not data at a door.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar import (
    BiasCorrLogit,
    DesignError,
    Execution,
    GreeneSelectionLogit,
    ProbitSelection,
    compare,
    vuong_test,
)
from statsmodels_mnar.__main__ import main
from statsmodels_mnar.baselines import IPWLogit, NaiveLogit, OracleLogit, RFLearn, RobustBiasAware
from statsmodels_mnar.design import design_from_formula, rebuild

from .catalogue import error
from .doors import BASE, OUTCOME, SELECT, arrays_of, clean_data


@dataclass(frozen=True)
class Question:
    """A call and what users get."""

    topic: str
    name: str
    ask: Callable[[], Any]
    raises: type[Exception] | None = None
    says: tuple[str, ...] = ()
    equals: Callable[[], Any] | None = None
    same: str = ""

    @property
    def gets(self) -> str:
        """What users get, in words."""
        if self.raises is not None:
            return error(self.raises, self.says)
        return self.same


QUESTIONS: list[Question] = []


def refuse(topic: str, name: str, raises: type[Exception], *says: str, ask: Any) -> None:
    QUESTIONS.append(Question(topic, name, ask, raises, says))


def accept(topic: str, name: str, same: str, *, ask: Any, equals: Any) -> None:
    QUESTIONS.append(Question(topic, name, ask, equals=equals, same=same))


# ---- the fits ------------------------------------------------------------------------------------

FACTOR = f"{OUTCOME} + C(g)"
NEW = BASE[["x", "w", "z", "g"]].iloc[:5]


@cache
def formulas() -> Any:
    """Of formulas, with a factor."""
    return GreeneSelectionLogit.from_formula(FACTOR, SELECT, BASE, normalization="loading").fit()


@cache
def arrays() -> Any:
    """Of frames whose columns have names."""
    return GreeneSelectionLogit(**arrays_of(BASE), normalization="loading").fit()


@cache
def biascorr() -> Any:
    return BiasCorrLogit.from_formula(OUTCOME, SELECT, BASE, normalization="loading").fit()


@cache
def naive() -> Any:
    return NaiveLogit.from_formula(FACTOR, SELECT, BASE).fit()


@cache
def naive_arrays() -> Any:
    return NaiveLogit(**arrays_of(BASE)).fit()


def by_hand(data: pd.DataFrame) -> np.ndarray:
    """P(y = 1) of the fit with a factor, its integral by Gauss and Hermite."""
    params = formulas().params
    index = params["Intercept"] + params["x"] * data.x + params["w"] * data.w
    index = index + data.g.map({"a": 0.0, "b": params["C(g)[T.b]"], "c": params["C(g)[T.c]"]})
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    shifted = index.to_numpy(dtype=float)[:, None] + params["loading"] * nodes
    return (1 / (1 + np.exp(-shifted))) @ (weights / weights.sum())


# ---- new data ------------------------------------------------------------------------------------

T = "Predictions for new data"
FILES_TO_FILES = ("results.predict_parquet(data, folder)",)  # which baselines do not have
for _fit in (formulas, naive):
    _who = "" if _fit is formulas else " of a baseline"
    refuse(T, f"a level that was not seen{_who}", DesignError, "'q'", "not seen when the design",
           ask=lambda f=_fit: f().predict(NEW.assign(g="q")))  # fmt: skip
    refuse(T, f"a column that is missing{_who}", DesignError, "data lacks the column(s) w",
           ask=lambda f=_fit: f().predict(NEW[["x", "g"]]))  # fmt: skip
    refuse(T, f"text where numbers were{_who}", DesignError, "x was numeric", "pandas.to_numeric",
           ask=lambda f=_fit: f().predict(NEW.assign(x=NEW.x.astype(str))))  # fmt: skip
    refuse(T, f"complex numbers{_who}", DesignError, "x was numeric", "complex128",
           ask=lambda f=_fit: f().predict(NEW.assign(x=1j)))  # fmt: skip
    refuse(T, f"dates{_who}", DesignError, "x was numeric", "datetime64",
           ask=lambda f=_fit: f().predict(NEW.assign(x=pd.Timestamp("2020"))))  # fmt: skip
    refuse(T, f"two columns of one name{_who}", DesignError, "more than one column 'x'",
           ask=lambda f=_fit: f().predict(pd.concat([NEW, NEW[["x"]]], axis=1)))  # fmt: skip
    refuse(T, f"an array where a frame is needed{_who}", DesignError, "data must be a DataFrame",
           ask=lambda f=_fit: f().predict(NEW[["x", "w"]].to_numpy()))  # fmt: skip
    refuse(T, f"which is misspelled{_who}", ValueError, "which='men' is unknown; use",
           ask=lambda f=_fit: f().predict(NEW, which="men"))  # fmt: skip
    for _kind, _path in (("text", "new.parquet"), ("a Path", Path("new.parquet"))):
        refuse(T, f"a path as {_kind}{_who}", DesignError, "which names files",
               "pandas.read_parquet(data)", *FILES_TO_FILES[: _fit is formulas],
               ask=lambda f=_fit, p=_path: f().predict(p))  # fmt: skip
refuse(T, "z is missing and needed", DesignError, "data lacks the column(s) z",
       ask=lambda: formulas().predict(NEW.drop(columns="z"), which="prob-select"))  # fmt: skip
for _name, _data in {
    "plain rows": NEW,
    "rows without z, which is not needed": NEW.drop(columns="z"),
    "a duplicated index": NEW.set_axis([0] * 5, axis=0),
    "sparse columns": NEW.assign(x=pd.arrays.SparseArray(NEW.x.to_numpy())),
    "levels in another order": NEW.assign(g=pd.Categorical(NEW.g, categories=list("cba"))),
    "narrow floats": NEW.assign(x=NEW.x.astype("float32")),
}.items():
    _clean = NEW.assign(x=_data.x.to_numpy(dtype=float))
    accept(T, _name, "the probability by hand", ask=lambda d=_data: formulas().predict(d),
           equals=lambda d=_clean: by_hand(d))  # fmt: skip
accept(T, "True where numbers were", "the probability at one, by hand",
       ask=lambda: formulas().predict(NEW.assign(x=True)),
       equals=lambda: by_hand(NEW.assign(x=1.0)))  # fmt: skip
accept(T, "NaN in a covariate", "NaN for that row",
       ask=lambda: formulas().predict(NEW.assign(x=[np.nan, 1, 1, 1, 1])),
       equals=lambda: np.append(np.nan, by_hand(NEW.assign(x=1.0))[1:]))  # fmt: skip
accept(T, "inf in a covariate", "NaN for that row",
       ask=lambda: formulas().predict(NEW.assign(x=[np.inf, 1, 1, 1, 1])),
       equals=lambda: np.append(np.nan, by_hand(NEW.assign(x=1.0))[1:]))  # fmt: skip
accept(T, "a covariate of 1e300", "a probability of one, with an interval",
       ask=lambda: formulas().get_prediction(NEW.assign(x=1e300)).conf_int(),
       equals=lambda: np.ones((5, 2)))  # fmt: skip
accept(T, "no rows", "no predictions", ask=lambda: formulas().predict(NEW[:0]),
       equals=lambda: np.empty(0))  # fmt: skip
accept(T, "one row as a Series", "the probability by hand",
       ask=lambda: formulas().predict(NEW.iloc[0]), equals=lambda: by_hand(NEW[:1]))  # fmt: skip

refuse(T, "an integer whose power wraps around", DesignError, "the integers of k are too large",
       ask=lambda: NaiveLogit.from_formula("y ~ I(k ** 5) + w", SELECT, BASE).fit()
       .predict({"k": [7_000], "w": [0.0]}))  # fmt: skip

X = arrays_of(BASE)["exog"].iloc[:5]
for _fit in (arrays, naive_arrays):
    _who = "" if _fit is arrays else " of a baseline"
    accept(T, f"columns in another order{_who}", "the probabilities in the model's order",
           ask=lambda f=_fit: f().predict(X[["w", "const", "x"]]),
           equals=lambda f=_fit: f().predict(X.to_numpy()))  # fmt: skip
    accept(T, f"a masked value in an array{_who}", "NaN for that row",
           ask=lambda f=_fit: f().predict(np.ma.masked_equal(X.to_numpy(), X.iloc[0, 1])),
           equals=lambda f=_fit: np.append(np.nan, f().predict(X.to_numpy())[1:]))  # fmt: skip
    refuse(T, f"other columns{_who}", DesignError, "exog lacks the column(s) w", "const, x, q",
           ask=lambda f=_fit: f().predict(X.rename(columns={"w": "q"})))  # fmt: skip
    refuse(T, f"too few columns{_who}", DesignError, "exog must have 3 columns",
           ask=lambda f=_fit: f().predict(X.to_numpy()[:, :2]))  # fmt: skip
    refuse(T, f"a complex array{_who}", DesignError, "exog must be numeric",
           ask=lambda f=_fit: f().predict(X.to_numpy() + 1j))  # fmt: skip
    refuse(T, f"text in an array{_who}", DesignError, "exog must be numeric",
           ask=lambda f=_fit: f().predict([["a", "b", "c"]]))  # fmt: skip
refuse(T, "one design where two are needed", ValueError, "give exog and exog_select",
       ask=lambda: arrays().predict(X, which="p11"))  # fmt: skip
refuse(T, "designs of different rows", ValueError, "exog has 5 rows and exog_select 3",
       ask=lambda: arrays().predict(
           X, arrays_of(BASE)["exog_select"][:3], which="p11"))  # fmt: skip
refuse(T, "an offset of the wrong length", ValueError, "offset must be one number or 5",
       ask=lambda: formulas().predict(NEW, offset=[1, 2]))  # fmt: skip
refuse(T, "an offset of text", ValueError, "offset must be numeric",
       ask=lambda: formulas().predict(NEW, offset="g"))  # fmt: skip

T = "Averages and effects"
for _name, _weights, _text in (
    ("negative weights", [-1, 1, 1, 1, 1], "agg_weights must be finite, not negative"),
    ("weights of NaN", [np.nan, 1, 1, 1, 1], "agg_weights must be finite"),
    ("weights that are all zero", np.zeros(5), "not all zero"),
    ("weights of the wrong length", np.ones(3), "agg_weights must be 5 numbers"),
    ("weights of text", "c", "agg_weights must be numbers"),
):
    refuse(T, f"an average with {_name}", ValueError, _text,
           ask=lambda w=_weights: formulas().get_prediction(NEW, average=True, agg_weights=w)
           )  # fmt: skip
refuse(T, "an average over no rows", ValueError, "there are no rows to average over",
       ask=lambda: formulas().get_prediction(NEW[:0], average=True))  # fmt: skip
refuse(T, "an average over a row with NaN", ValueError, "1 row(s) cannot be averaged over", "Drop",
       ask=lambda: formulas().get_prediction(
           NEW.assign(x=[np.nan, 1, 1, 1, 1]), average=True))  # fmt: skip
refuse(T, "a covariance of the wrong size", ValueError, "cov must be a 10 x 10 covariance",
       ask=lambda: formulas().get_prediction(NEW, cov=np.eye(3)))  # fmt: skip
refuse(T, "a covariance by name", ValueError, "cov must be numbers",
       ask=lambda: formulas().get_prediction(NEW, cov="HC0"))  # fmt: skip
EFFECTS: dict[str, tuple[dict[str, Any], str]] = {
    "at is misspelled": ({"at": "means"}, "at='means' is unknown; use one of"),
    "method is misspelled": ({"method": "dxdy"}, "method='dxdy' is unknown; use one of"),
    "a variable that is not there": ({"variables": ["q"]}, "variables has 'q'"),
    "a variable of the other equation": ({"variables": ["z"]}, "variables has 'z'"),
    "no variables": ({"variables": []}, "variables names no column that varies"),
    "data without variables": ({"data": NEW}, "data is read with variables= only"),
    "data without rows": ({"variables": ["x"], "data": NEW[:0]}, "data has no rows"),
    "data with NaN": (
        {"variables": ["x"], "data": NEW.assign(x=[np.nan, 1, 1, 1, 2])}, "cannot be averaged"
    ),
    "data with inf": (
        {"variables": ["x"], "data": NEW.assign(x=[np.inf, 1, 1, 1, 2])}, "variables: x is infinite"
    ),
    "data with a level that was not seen": (
        {"variables": ["x"], "data": NEW.assign(g="q")}, "not seen when the design"
    ),
    "atexog of a column that is not there": ({"atexog": {"q": 1}}, "atexog has 'q'"),
    "atexog of NaN": ({"atexog": {"x": np.nan}}, "atexog['x']=nan must be finite numbers"),
    "atexog of text": ({"atexog": {"x": "a"}}, "atexog['x']='a' must be finite numbers"),
    "weights of the wrong length": ({"weights": np.ones(3)}, "weights must be 400 numbers"),
    "an elasticity of a level": ({"method": "eyex"}, "has no meaning for the discrete variable"),
}  # fmt: skip
for _name, (_options, _text) in EFFECTS.items():
    refuse(T, f"effects: {_name}", ValueError, _text,
           ask=lambda o=_options: formulas().get_margeff(**o))  # fmt: skip


def effects(data: Any = None) -> np.ndarray:
    """Effects with their errors; of data whose numbers are levels there would be more of them."""
    return formulas().get_margeff(variables=["x", "w"], data=data).summary_frame().to_numpy()


@cache
def of_objects() -> Any:
    return GreeneSelectionLogit.from_formula(
        FACTOR, SELECT, BASE.astype(object), normalization="loading"
    ).fit()


accept(T, "effects: numbers in columns of objects", "one slope each, those of numeric columns",
       ask=lambda: of_objects().get_margeff(variables=["x", "w"]).margeff,
       equals=lambda: effects()[:, 0])  # fmt: skip
accept(T, "effects: new data of objects", "the effects and errors of numeric columns",
       ask=lambda: effects(NEW.astype(object)), equals=lambda: effects(NEW))  # fmt: skip
accept(T, "probabilities along x, other numbers in columns of objects",
       "those of numeric columns, held at their means",
       ask=lambda: of_objects().probabilities_along("x", [0.0, 1.0]),
       equals=lambda: formulas().probabilities_along("x", [0.0, 1.0]))  # fmt: skip
for _alpha in (-1, 0, 5, np.nan):
    refuse(T, f"intervals at alpha={_alpha}", ValueError, "alpha=", "must lie between 0 and 1",
           ask=lambda a=_alpha: formulas().conf_int(a))  # fmt: skip
    refuse(T, f"intervals of a baseline at alpha={_alpha}", ValueError, "alpha=",
           "must lie between 0 and 1", ask=lambda a=_alpha: naive().conf_int(a))  # fmt: skip
accept(T, "parameters in another order, by their names", "the log-likelihood of the fit",
       ask=lambda: formulas().model.loglike(formulas().params[::-1]),
       equals=lambda: formulas().llf)  # fmt: skip
refuse(T, "parameters of the wrong number", ValueError, "10 numbers",
       ask=lambda: formulas().model.loglike([1.0]))  # fmt: skip

# ---- terms that depend on other rows -------------------------------------------------------------

T = "Terms that depend on other rows"


def demeaned(column: Any) -> Any:
    """A function of users that looks at all rows."""
    return column - np.mean(column)


ACROSS_ROWS = (
    "I(x - x.mean())", "x.rank()", "I(x / x.std())", "I(x / np.max(x))", "x.cumsum()",
    "x.shift(1).fillna(0)", "np.clip(x, x.quantile(0.1), x.quantile(0.9))", "I(x > x.median())",
    "demeaned(x)",
)  # fmt: skip


@cache
def across_rows(term: str) -> Any:
    return GreeneSelectionLogit.from_formula(
        f"y ~ {term} + w", SELECT, BASE, normalization="independent"
    ).fit()


def in_partitions(outcome: str, data: Any = BASE, **options: Any) -> Any:
    return GreeneSelectionLogit.from_formula(
        outcome, SELECT, data, normalization="independent",
        execution=Execution(partition_rows=150), **options,
    )  # fmt: skip


for _term in ACROSS_ROWS:
    refuse(T, f"{_term} in partitions", DesignError, "depends on other rows",
           "partition by partition", "center(x)",
           ask=lambda t=_term: in_partitions(f"y ~ {t} + w"))  # fmt: skip
    refuse(T, f"{_term} of new data", DesignError, "depends on other rows",
           "which rows are passed together", "center(x)",
           ask=lambda t=_term: rebuild(
               design_from_formula(f"y ~ {t}", SELECT, BASE).outcome_spec, NEW))  # fmt: skip
refuse(T, "effects of a variable inside such a term", DesignError, "depends on other rows",
       ask=lambda: across_rows("I(x - x.mean())").get_margeff(variables=["x"]))  # fmt: skip
refuse(T, "probabilities along it", DesignError, "depends on other rows",
       ask=lambda: across_rows("I(x - x.mean())").probabilities_along("x"))  # fmt: skip
refuse(T, "a left side with it, in partitions", DesignError, "depends on other rows",
       ask=lambda: in_partitions("I(x > x.mean()) ~ w"))  # fmt: skip
accept(T, "its own rows", "the probabilities of center(x)",
       ask=lambda: across_rows("I(x - x.mean())").predict(),
       equals=lambda: across_rows("center(x)").predict())  # fmt: skip
accept(T, "center(x) in partitions", "the log-likelihood in memory",
       ask=lambda: in_partitions("y ~ center(x) + w").fit().llf,
       equals=lambda: across_rows("center(x)").llf)  # fmt: skip
accept(T, "C(k) in partitions, the first of which has 0 and 1 alone",
       "the log-likelihood in memory",
       ask=lambda: in_partitions("y ~ C(k4)", few_levels()).fit().llf,
       equals=lambda: GreeneSelectionLogit.from_formula(
           "y ~ C(k4)", SELECT, few_levels(), normalization="independent").fit().llf)  # fmt: skip


def few_levels() -> pd.DataFrame:
    """0 and 1 in the first half of the rows, 0 to 3 in the second."""
    return BASE.assign(k4=np.where(np.arange(len(BASE)) < 200, BASE.k % 2, BASE.k % 4))


# ---- data that change after the model was built, and tables of every kind ------------------------

T = "Data that change later"


def changed_later(change: Callable[[Any], Any], data: Any = None, **options: Any) -> np.ndarray:
    """Clustered errors and an effect, where the data change between building and fitting."""
    own = BASE.copy() if data is None else data
    model = GreeneSelectionLogit.from_formula(
        OUTCOME, SELECT, own, normalization="independent", **options
    )
    with warnings.catch_warnings():  # inplace= is deprecated from pandas 3.1 on
        warnings.simplefilter("ignore")
        change(own)
    results = model.fit(cov_type="cluster", cov_kwds={"groups": "k"})
    effect = () if options else results.get_margeff(variables=["x"]).margeff
    return np.r_[results.bse, effect]


@cache
def unchanged() -> np.ndarray:
    return changed_later(lambda data: None)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "sorted in place": lambda d: d.sort_values("w", inplace=True),
    "a covariate overwritten": lambda d: d.__setitem__("x", 0.0),
    "clusters overwritten": lambda d: d.__setitem__("k", 1),
    "values written through loc": lambda d: d.loc.__setitem__((slice(None), ["x", "k"]), 0),
    "rows dropped in place": lambda d: d.drop(index=d.index[:99], inplace=True),
    "columns renamed": lambda d: setattr(d, "columns", [f"_{c}" for c in d]),
    "columns deleted": lambda d: d.drop(columns=["x", "k"], inplace=True),
}
for _name, _change in CHANGES.items():
    accept(T, _name, "the numbers of the data as they were",
           ask=lambda c=_change: changed_later(c), equals=unchanged)  # fmt: skip
accept(T, "clusters overwritten, in partitions", "the numbers of the data as they were",
       ask=lambda: changed_later(
           CHANGES["clusters overwritten"], execution=Execution(partition_rows=150)),
       equals=lambda: unchanged()[:-1])  # fmt: skip
accept(T, "arrays of a dict overwritten", "the numbers of the data as they were",
       ask=lambda: changed_later(
           lambda d: [d[c].fill(0) for c in ("x", "k")],
           {c: BASE[c].to_numpy(copy=True) for c in BASE}),
       equals=unchanged)  # fmt: skip

T = "Columns by name, in every table"


def by_name(data: Any) -> np.ndarray:
    results = GreeneSelectionLogit.from_formula(
        OUTCOME, SELECT, data, normalization="independent", offset="x"
    ).fit(cov_type="cluster", cov_kwds={"groups": "k"})
    again = results.get_robustcov_results("cluster", groups="g")
    return np.r_[results.bse, again.bse, results.predict(data)]


TABLES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "a dict": lambda d: {name: d[name].to_numpy() for name in d},
    "a polars frame": lambda d: pytest.importorskip("polars").from_pandas(d),
    "a lazy polars frame": lambda d: pytest.importorskip("polars").from_pandas(d).lazy(),
    "an arrow table": lambda d: pytest.importorskip("pyarrow").Table.from_pandas(d),
}
for _name, _make in TABLES.items():
    accept(T, f"clusters and offsets of {_name}", "those of the DataFrame",
           ask=lambda make=_make: by_name(make(BASE)), equals=lambda: by_name(BASE))  # fmt: skip
refuse(T, "clusters as an array, where subset reorders as many rows", ValueError,
       "groups has 400 values, which may be meant for", "Pass a column name",
       ask=lambda: GreeneSelectionLogit.from_formula(
           OUTCOME, SELECT, BASE, BASE.index[::-1], normalization="independent",
       ).fit(cov_type="cluster", cov_kwds={"groups": BASE.k.to_numpy()}))  # fmt: skip
accept(T, "clusters by name, where subset takes rows twice", "those of the rows taken",
       ask=lambda: _of_rows(BASE, [*range(300), *range(200)]),
       equals=lambda: _of_rows(
           BASE.iloc[[*range(300), *range(200)]].reset_index(drop=True), None))  # fmt: skip


def _of_rows(data: pd.DataFrame, subset: Any) -> np.ndarray:
    model = GreeneSelectionLogit.from_formula(
        OUTCOME, SELECT, data, subset, normalization="independent"
    )
    return np.asarray(model.fit(cov_type="cluster", cov_kwds={"groups": "k"}).bse)


T = "Levels that nobody ordered"
LATE = BASE.sort_values("g", ascending=False, ignore_index=True)  # its first rows have level c


def polars_levels(data: pd.DataFrame, kind: Any = None) -> Any:
    polars = pytest.importorskip("polars")
    return polars.from_pandas(data).with_columns(polars.col("g").cast(kind or polars.Categorical))


def arrow_levels(data: pd.DataFrame) -> Any:
    table = pytest.importorskip("pyarrow").Table.from_pandas(data, preserve_index=False)
    at = table.column_names.index("g")
    return table.set_column(at, "g", table.column(at).dictionary_encode())


def of_levels(data: Any, new: Any = None, rows: int | None = None) -> np.ndarray:
    """Coefficients, which change with the reference level, and predictions for new data."""
    results = GreeneSelectionLogit.from_formula(
        f"{OUTCOME} + g", SELECT, data, normalization="independent",
        execution=None if rows is None else Execution(partition_rows=rows),
    ).fit()  # fmt: skip
    return np.r_[results.params, results.predict(data if new is None else new)]


LEVELS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "polars' Categorical": polars_levels,
    "lazy polars' Categorical": lambda d: polars_levels(d).lazy(),
    "an Arrow dictionary": arrow_levels,
}
for _name, _make in LEVELS.items():
    accept(T, f"{_name}, c in the first row", "the coefficients of the text column",
           ask=lambda make=_make: of_levels(make(LATE)),
           equals=lambda: of_levels(LATE))  # fmt: skip
    accept(T, f"{_name}, in partitions", "the coefficients of the text column",
           ask=lambda make=_make: of_levels(make(LATE), rows=150),
           equals=lambda: of_levels(LATE, rows=150))  # fmt: skip
    accept(T, f"{_name}, new data with other first rows", "the probabilities of the text column",
           ask=lambda make=_make: of_levels(make(LATE), make(NEW[::-1])),
           equals=lambda: of_levels(LATE, NEW[::-1]))  # fmt: skip
accept(T, "polars' Enum, whose order somebody chose", "the coefficients of pandas' categories",
       ask=lambda: of_levels(polars_levels(BASE, pytest.importorskip("polars").Enum(list("bca")))),
       equals=lambda: of_levels(BASE.assign(g=pd.Categorical(BASE.g, list("bca")))))  # fmt: skip

T = "Names in HTML"


def _hostile_name(show: Callable[[Any], str]) -> list[int]:
    """How often the summary of a fit with a hostile column name holds a tag of that name."""
    a = arrays_of(BASE)
    a["exog"] = a["exog"].rename(columns={"x": "<script>alert(1)</script>"})
    results = GreeneSelectionLogit(**a, normalization="independent").fit()
    html = show(results)
    return [html.count("<script>"), html.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 0]


for _name, _show in (
    ("summary", lambda r: r.summary().as_html()),
    ("one table of the summary", lambda r: r.summary().tables[1]._repr_html_()),
    ("summary2", lambda r: r.summary2()._repr_html_()),
    ("effects", lambda r: r.get_margeff().summary()._repr_html_()),
):
    accept(T, f"a column called <script> in the HTML of {_name}", "the name as text",
           ask=lambda show=_show: _hostile_name(show), equals=lambda: [0, 1])  # fmt: skip

# ---- other doors ---------------------------------------------------------------------------------

T = "A target sample"
LABELED, TARGET = BASE[BASE.s == 1].drop(columns="s"), BASE.drop(columns=["s", "y", "y_full"])


def from_target(**changes: Any) -> Any:
    options: dict[str, Any] = {
        "formula": OUTCOME, "select_formula": "~ x + w + z", "labeled": LABELED, "target": TARGET,
        "match_on": ["k"], "rng": 0, "normalization": "loading", "soft_selection": 0.3,
    }  # fmt: skip
    return BiasCorrLogit.from_target(**(options | changes)).fit()


TARGETS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "an empty target": ({"target": TARGET[:0]}, ValueError, "target 0; both need at least one"),
    "no labelled rows": ({"labeled": LABELED[:0]}, ValueError, "labeled has 0 rows"),
    "a target that lacks a column": (
        {"target": TARGET.drop(columns="z")}, DesignError, "target lacks the column(s) z"
    ),
    "labelled rows that lack a column": (
        {"labeled": LABELED.drop(columns="z")}, DesignError, "labeled lacks the column(s) z"
    ),
    "two columns of one name": (
        {"target": pd.concat([TARGET, TARGET[["x"]]], axis=1)}, DesignError,
        "target has more than one column x",
    ),
    "a target that is a list": ({"target": [1, 2]}, DesignError, "data must be a DataFrame"),
    "text where numbers were": (
        {"target": TARGET.assign(x=TARGET.x.astype(str))}, DesignError, "x in '~ x + w'"
    ),
    "a selection formula with a left side": (
        {"select_formula": "s ~ x"}, DesignError, "must have no left side"
    ),
    "a selection formula of None": (
        {"select_formula": None}, DesignError, "select_formula must be a string"
    ),
    "n below the labelled rows": ({"n": 10}, ValueError, "n=10 must be an integer above the"),
    "n that is no integer": ({"n": 600.7}, ValueError, "n=600.7 must be an integer above the"),
    "n of text": ({"n": "many"}, ValueError, "n='many' must be an integer above the"),
    "match_on of no column": ({"match_on": ["q"]}, ValueError, "match_on names 'q'"),
    "match_on of nothing": ({"match_on": []}, ValueError, "match_on is empty"),
    "an outcome of 1/2": (
        {"labeled": LABELED.assign(y=LABELED.y + 1)}, DesignError, "found 1, 2"
    ),
}  # fmt: skip
for _name, (_options, _kind, _text) in TARGETS.items():
    refuse(T, _name, _kind, _text, ask=lambda o=_options: from_target(**o))
accept(T, "match_on as text", "the fit with a list",
       ask=lambda: from_target(match_on="k").params,
       equals=lambda: from_target().params)  # fmt: skip
accept(T, "labels in the target, which are not read", "the fit without them",
       ask=lambda: from_target(target=TARGET.assign(y=1.0)).params,
       equals=lambda: from_target().params)  # fmt: skip
PARTS = {
    "endog": LABELED.y,
    "exog": LABELED[["x", "w"]],
    "exog_target": TARGET[["x", "w"]],
    "rng": 0,
}
accept(T, "arrays: columns in another order", "the design in the first order",
       ask=lambda: BiasCorrLogit.from_target_arrays(
           **(PARTS | {"exog_target": TARGET[["w", "x"]]})).design.X,
       equals=lambda: BiasCorrLogit.from_target_arrays(**PARTS).design.X)  # fmt: skip
refuse(T, "arrays: other columns", DesignError, "exog_target lacks the column(s) w",
       ask=lambda: BiasCorrLogit.from_target_arrays(
           **(PARTS | {"exog_target": TARGET[["x", "z"]]})))  # fmt: skip
refuse(T, "arrays: an outcome of text", DesignError, "outcome", "I(endog == 'yes')",
       ask=lambda: BiasCorrLogit.from_target_arrays(
           **(PARTS | {"endog": np.where(LABELED.y == 1, "yes", "no")})))  # fmt: skip
refuse(T, "arrays: levels", DesignError, "exog has columns that are not numeric: g",
       ask=lambda: BiasCorrLogit.from_target_arrays(
           **(PARTS | {"exog": LABELED[["x", "g"]]})))  # fmt: skip

T = "Baselines and comparisons"
refuse(T, "OracleLogit without all labels", DesignError, "needs the outcome of every row",
       "NaiveLogit", ask=lambda: OracleLogit.from_formula(OUTCOME, SELECT, BASE))  # fmt: skip
for _kind in (NaiveLogit, OracleLogit, IPWLogit, RobustBiasAware, RFLearn):
    for _penalty in ("a", np.nan, -1.0):
        refuse(T, f"{_kind.__name__} with penalty={_penalty!r}", ValueError, "penalty=",
               "must be a finite number", ask=lambda k=_kind, p=_penalty: k.from_formula(
                   "y_full ~ x + w" if k is OracleLogit else OUTCOME, SELECT, BASE
               ).fit(penalty=p))  # fmt: skip
for _name, _groups, _text in (
    ("of three values", np.arange(3), "groups has 3 values"),
    ("of too many values", np.arange(500), "groups has 500 values"),
    ("with NaN", BASE.k.where(BASE.index > 4), "groups has missing values"),
    ("of another table", BASE.k.set_axis(np.arange(10, 410)), "the index of groups"),
):
    refuse(T, f"RFLearn with groups {_name}", ValueError, _text,
           ask=lambda g=_groups: RFLearn(**arrays_of(BASE), groups=g))  # fmt: skip
refuse(T, "compare with a misspelled model", ValueError, "models=['naiv'] must be some of",
       ask=lambda: compare(OUTCOME, SELECT, BASE, ("naiv",)))  # fmt: skip
refuse(T, "compare with None", ValueError, "formula=None must be an outcome formula",
       ask=lambda: compare(None))  # fmt: skip
refuse(T, "compare with a number", ValueError, "got int", ask=lambda: compare([1]))
refuse(T, "compare fits of other rows", ValueError, "other rows", ask=lambda: compare(
    {"a": formulas(), "b": _other(BASE[:300])}))  # fmt: skip
refuse(T, "compare fits of other data with the same index", ValueError, "other rows",
       ask=lambda: compare({"a": formulas(), "b": _other(clean_data(seed=9))}))  # fmt: skip
refuse(T, "Vuong's test of other data", ValueError, "two fits of the same rows",
       ask=lambda: vuong_test(formulas(), _other(clean_data(seed=9))))  # fmt: skip


def _other(data: pd.DataFrame) -> Any:
    return GreeneSelectionLogit.from_formula(OUTCOME, SELECT, data, normalization="loading").fit()


# ---- misspelled keywords -------------------------------------------------------------------------

T = "Misspelled keywords"
TYPO = {"mispelled": 1}
# Every public callable of the package that takes further keywords, as a test makes sure of.
KEYWORDS: dict[str, Callable[[], Any]] = {
    "GreeneSelectionLogit": lambda: GreeneSelectionLogit(**arrays_of(BASE), **TYPO),
    "GreeneSelectionLogit.from_formula": lambda: GreeneSelectionLogit.from_formula(
        OUTCOME, SELECT, BASE, **TYPO
    ),
    "GreeneSelectionLogit.fit": lambda: formulas().model.fit(**TYPO),
    "BiasCorrLogit": lambda: BiasCorrLogit(**arrays_of(BASE), **TYPO),
    "BiasCorrLogit.fit": lambda: biascorr().model.fit(**TYPO),
    "BiasCorrLogit.refit_weights": lambda: list(
        biascorr().model.refit_weights(np.ones((1, 400)), biascorr().params, **TYPO)
    ),
    "GreeneSelectionLogit.refit_weights": lambda: list(
        formulas().model.refit_weights(np.ones((1, 400)), formulas().params, **TYPO)
    ),
    "GreeneSelectionLogit.refit_draws": lambda: list(
        GreeneSelectionLogit.from_formula(OUTCOME, SELECT, BASE, integration="simulation")
        .refit_draws(1, np.zeros(9), **TYPO)
    ),
    "BiasCorrLogit.from_target": lambda: from_target(**TYPO),
    "BiasCorrLogit.from_target_arrays": lambda: BiasCorrLogit.from_target_arrays(**PARTS, **TYPO),
    "Baseline": lambda: NaiveLogit(**arrays_of(BASE), **TYPO),
    "Baseline.from_formula": lambda: NaiveLogit.from_formula(OUTCOME, SELECT, BASE, **TYPO),
    "compare": lambda: compare(OUTCOME, SELECT, BASE, **TYPO),
    "SelectionResults.bootstrap": lambda: formulas().bootstrap(3, **TYPO),
    "SelectionResults.jackknife": lambda: formulas().jackknife(**TYPO),
    "SelectionResults.get_robustcov_results": lambda: formulas().get_robustcov_results(**TYPO),
    "BiasCorrResults.sbar_path": lambda: biascorr().sbar_path([0.3], **TYPO),
    "SelectionResults.plot_profile": lambda: formulas().plot_profile("x", **TYPO),
    "SelectionResults.plot_sensitivity": lambda: formulas().plot_sensitivity(**TYPO),
    "SelectionResults.plot_margeff": lambda: formulas().plot_margeff(**TYPO),
}  # fmt: skip
refuse(T, "ProbitSelection", TypeError, "mispelled",
       ask=lambda: ProbitSelection(**arrays_of(BASE), **TYPO))  # fmt: skip
for _name, _ask in KEYWORDS.items():
    _kind = ValueError if _name.endswith("robustcov_results") else TypeError
    refuse(T, _name, _kind, "mispelled", ask=_ask)
for _method in ("predict", "get_prediction", "get_margeff", "profile", "sensitivity", "impute",
                "summary", "test_independence", "tidy", "report", "conf_int"):  # fmt: skip
    refuse(T, f"results.{_method}", TypeError, "mispelled",
           ask=lambda m=_method: getattr(formulas(), m)(**TYPO))  # fmt: skip

# ---- the command line ----------------------------------------------------------------------------

T = "The command line"


def command(*options: str, table: Any = BASE, formulas: tuple[str, str] = (OUTCOME, SELECT)) -> int:
    """The exit code; what is said on the way is the text of an error."""
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(said):
        path = Path(folder, "data.csv")
        if isinstance(table, pd.DataFrame):
            table.to_csv(path, index=False)
        elif table is not None:
            path.write_bytes(table)
        try:
            code = main(["fit", str(path), *formulas, "--quiet", *options])
        except SystemExit as stop:
            code = int(str(stop.code))
    if code == 2:
        raise ValueError(said.getvalue())
    return code


TABLES: dict[str, tuple[Any, str]] = {
    "no file": (None, "no such file"),
    "an empty file": (b"", "the file is empty"),
    "a header alone": (b"y,x,w,z,s\n", "has no rows"),
    "a quote that does not end": (b'y,x\n"1,2\n', "not a table separated by ','"),
    "bytes that are no text": (b"\xff\xfe\x00\x81" * 50, "not a text file in UTF-8"),
    "two separators": (
        b"y;x;w;z;s\n1;2;3;4;1\n1,2,3,4,0\n",
        "line 3 has 1 fields and the header 5",
    ),
    "rows of different lengths": (b"y,x\n1,2\n1,2,3,4\n", "not a table separated by ','"),
}
for _name, (_table, _text) in TABLES.items():
    refuse(T, _name, ValueError, _text, ask=lambda t=_table: command(table=t))
OPTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "--groups of a column that is not there": (("--groups", "q"), "--groups 'q' is not a column"),
    "--freq-weights of text": (("--freq-weights", "g"), "freq_weights must be numeric"),
    "--prob-weights below zero": (("--prob-weights", "x"), "prob_weights must be >= 0"),
    "--offset of text": (("--offset", "g"), "offset must be numeric"),
    "--penalty of nan": (("--penalty", "nan"), "penalty=nan must be a nonnegative number"),
    "--maxiter 0": (("--maxiter", "0"), "maxiter=0 must be a positive integer"),
    "--alpha 7": (("--alpha", "7"), "--alpha 7 must lie between 0 and 1"),
    "--normalization sigma=a": (("--normalization", "sigma=a"), "'a' is not a number"),
    "--normalization tau=1": (("--normalization", "tau=1"), "it may fix 'sigma', 'rho' or both"),
    "--out with another ending": (("--out", "x.doc"), "must end in one of"),
    "--cov-type HC3": (("--cov-type", "HC3"), "invalid choice: 'HC3'"),
    "a misspelled option": (("--penality", "1"), "unrecognized arguments: --penality"),
}
for _name, (_arguments, _text) in OPTIONS.items():
    refuse(T, _name, ValueError, _text, ask=lambda a=_arguments: command(*a))
accept(T, "a fit that does not converge", "exit code 3",
       ask=lambda: command("--maxiter", "1", "--normalization", "loading"), equals=lambda: 3
       )  # fmt: skip
