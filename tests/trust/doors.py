"""The public doors that take data, each as a function from data to numbers.

The numbers of a door do not depend on how its input is written: P(y = 1) of every row, and the
log-likelihood where there is one. What a clean input ought to give is computed by statsmodels
where it can be (a logit of the labelled rows, a probit of selection), otherwise by the same door.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from scipy.special import expit

from statsmodels_mnar import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection, compare
from statsmodels_mnar.__main__ import main
from statsmodels_mnar.baselines import IPWLogit, NaiveLogit, RFLearn, RobustBiasAware

OUTCOME, SELECT = "y ~ x + w", "s ~ x + w + z"


def clean_data(n: int = 400, seed: int = 5) -> pd.DataFrame:
    """Rows of the loading form; y is missing where s = 0, y_full is what nobody sees."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(rng.standard_normal((n, 3)), columns=["x", "w", "z"])
    u = rng.standard_normal(n)
    data["s"] = (0.5 * data.x + data.z + u > 0).astype(int)
    data["y_full"] = (rng.random(n) < expit(0.7 * data.x - 0.4 * data.w + 0.8 * u)).astype(float)
    data["y"] = data.y_full.where(data.s == 1)
    data["g"] = rng.choice(list("abc"), n)
    data["k"] = rng.integers(0, 20, n)
    data["c"] = rng.integers(1, 4, n)
    return data


BASE = clean_data()
Numbers = np.ndarray


@dataclass(frozen=True)
class Call:
    """What is passed to a door."""

    data: Any = None
    outcome: Any = OUTCOME
    select: Any = SELECT
    model: dict[str, Any] | None = None  # options of from_formula or the class
    fit: dict[str, Any] | None = None  # options of fit


@dataclass(frozen=True)
class Door:
    """A way into the package."""

    name: str
    numbers: Callable[[Call], Numbers]
    expected: Callable[[Call], Numbers]
    tolerance: float = 1e-8


def of_results(results: Any) -> Numbers:
    return np.append(np.asarray(results.predict()), getattr(results, "llf", 0.0))


def _from_formulas(kind: Any, **options: Any) -> Callable[[Call], Numbers]:
    def numbers(call: Call) -> Numbers:
        model = kind.from_formula(
            call.outcome, call.select, call.data, **(options | (call.model or {}))
        )
        return of_results(model.fit(**(call.fit or {})))

    return numbers


def arrays_of(data: pd.DataFrame) -> dict[str, Any]:
    """The arguments of a class, as frames with a constant."""
    one = pd.Series(1.0, index=data.index, name="const")
    return {
        "endog": data.y,
        "exog": pd.concat([one, data[["x", "w"]]], axis=1),
        "endog_select": data.s,
        "exog_select": pd.concat([one, data[["x", "w", "z"]]], axis=1),
    }


def _from_arrays(kind: Any, **options: Any) -> Callable[[Call], Numbers]:
    def numbers(call: Call) -> Numbers:
        arguments = call.data if isinstance(call.data, dict) else arrays_of(call.data)
        return of_results(kind(**(options | arguments)).fit(**(call.fit or {})))

    return numbers


def _without_penalty(call: Call) -> Numbers:
    """BiasCorr on its bare objective, which has no maximum where its default penalty warns."""
    bare = replace(call, fit={"penalty": 0.0} | (call.fit or {}))
    return _from_formulas(BiasCorrLogit, **_GREENE)(bare)


def _compared(call: Call) -> Numbers:
    found = compare(call.outcome, call.select, call.data, ("naive", "probit"), **(call.model or {}))
    return found.margeff.to_numpy().ravel()


def _by_command(call: Call) -> Numbers:
    """The log-likelihood in the JSON report; an exit with code 2 is the ValueError it reports."""
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(said):
        table, report = Path(folder, "data.csv"), Path(folder, "fit.json")
        call.data.to_csv(table, index=False)
        how = ["--normalization", "loading", "--quiet", "--out", str(report)]
        code = main(["fit", str(table), call.outcome, call.select, *how])
        if code == 2:
            raise ValueError(said.getvalue())
        return np.array([json.loads(report.read_text())["fit"]["llf"]])


def _before_the_fit(call: Call) -> Numbers:
    """Where an error must come from the checks: the optimiser is not reached."""
    options = {"normalization": "loading"} | (call.model or {})
    model = GreeneSelectionLogit.from_formula(call.outcome, call.select, call.data, **options)

    def begun(*_: Any) -> None:
        raise AssertionError("the fit began")

    model._independent = begun
    return of_results(model.fit(**(call.fit or {})))


def _weighted(call: Call) -> Numbers:
    """The estimates, which rows without weight must not move."""
    options = {"normalization": "loading"} | (call.model or {})
    model = GreeneSelectionLogit.from_formula(call.outcome, call.select, call.data, **options)
    results = model.fit()
    return np.append(results.params, results.llf)


def naive_by_statsmodels(call: Call) -> Numbers:
    logit = smf.logit(call.outcome, call.data[call.data.s == 1]).fit(disp=0, tol=1e-12)
    return np.append(logit.predict(call.data), logit.llf)


def independent_by_statsmodels(call: Call) -> Numbers:
    probit = smf.probit(call.select, call.data).fit(disp=0, tol=1e-12)
    found = naive_by_statsmodels(call)
    found[-1] += probit.llf
    return found


def _itself(name: str, numbers: Callable[[Call], Numbers], tolerance: float = 1e-8) -> Door:
    return Door(name, numbers, numbers, tolerance)


_GREENE = {"normalization": "loading"}

_DOORS = (
    _itself("greene", _from_formulas(GreeneSelectionLogit, **_GREENE)),
    Door(
        "independent",
        _from_formulas(GreeneSelectionLogit, normalization="independent"),
        independent_by_statsmodels,
        1e-6,
    ),
    _itself("probit", _from_formulas(ProbitSelection)),
    _itself("biascorr", _from_formulas(BiasCorrLogit, **_GREENE)),
    _itself("biascorr, no penalty", _without_penalty),
    Door("naive", _from_formulas(NaiveLogit), naive_by_statsmodels, 1e-6),
    _itself("ipw", _from_formulas(IPWLogit)),
    _itself("rba", _from_formulas(RobustBiasAware)),
    _itself("rflearn", _from_formulas(RFLearn), 1e-5),
    _itself("greene arrays", _from_arrays(GreeneSelectionLogit, **_GREENE)),
    _itself("probit arrays", _from_arrays(ProbitSelection)),
    _itself("biascorr arrays", _from_arrays(BiasCorrLogit, **_GREENE)),
    Door("naive arrays", _from_arrays(NaiveLogit), naive_by_statsmodels, 1e-6),
    _itself("before the fit", _before_the_fit),
    _itself("weighted", _weighted),
    _itself("compare", _compared),
    _itself("command line", _by_command, 1e-6),
)
DOORS = {door.name: door for door in _DOORS}

MODELS = ("greene", "independent", "probit", "biascorr")
BASELINES = ("naive", "ipw", "rba", "rflearn")
FORMULAS = (*MODELS, *BASELINES, "compare")
ARRAYS = ("greene arrays", "probit arrays", "biascorr arrays", "naive arrays")
COMMAND = ("command line",)
