"""A fit as plain data, for JSON."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import pandas as pd

from . import tables
from .findings import Findings

SCHEMA = 1
_PACKAGES = ("statsmodels-mnar", "statsmodels", "numpy", "scipy", "pandas", "torch")
_EFFECT = ("effect", "std_error", "statistic", "p_value", "conf_low", "conf_high")


def as_json(results: Any, found: Findings) -> str:
    """The record as a JSON text; what is not finite is null, or "inf" and "-inf"."""
    return json.dumps(_plain(record(results, found)), indent=2, allow_nan=False) + "\n"


def record(results: Any, found: Findings) -> dict[str, Any]:
    """What is documented in :meth:`SelectionResults.report`."""
    model, design, status = results.model, results.model.design, results.status
    names = model.param_names
    columns = ("estimate", "std_error", "conf_low", "conf_high")
    test = found.independence
    return {
        "schema": SCHEMA,
        "model": type(model).__name__,
        "normalization": model.normalization,
        "formula": getattr(model, "formula", None),
        "select_formula": getattr(model, "select_formula", None),
        "data": {
            "nobs": results.nobs,
            "labelled": results.nobs_selected,
            "missing_ratio": results.eta,
            "dropped": dict(design.dropped._asdict()),
            "outcome": design.outcome_name,
            "select": design.select_name,
            "weights": design.weight_kind,
        },
        "status": {
            "name": status.name.lower(),
            "message": status.value,
            "converged": results.converged,
            "boundary": status.boundary,
            "method": results.fit_info.method,
            "iterations": results.solution.n_iter,
            "penalty": results.fit_info.penalty,
        },
        "fit": results._criteria(),
        "params": dict(zip(names, np.asarray(results.params), strict=True)),
        "bse": dict(zip(names, np.asarray(results.bse), strict=True)),
        "pvalues": dict(zip(names, np.asarray(results.pvalues), strict=True)),
        "conf_int": dict(zip(names, np.asarray(results.conf_int(found.alpha)), strict=True)),
        "alpha": found.alpha,
        "cov": {
            "type": results.cov_type,
            "description": results.cov_kwds["description"],
            "names": names,
            "matrix": np.asarray(results.cov_params_default),
        },
        "dependence": _rows(results.dependence_table(found.alpha).set_axis(columns, axis=1)),
        "independence": None
        if test is None
        else {
            "method": test.method,
            "statistic": test.statistic,
            "df": test.df,
            "p_value": test.pvalue,
        },
        "effects": {
            which: _rows(effects.summary_frame(found.alpha).set_axis(_EFFECT, axis=1))
            for which, effects in found.effects.items()
        },
        "shares": _rows(
            found.shares.set_axis(["estimate", "std_error", "conf_low", "conf_high"], axis=1)
        ),
        "identification": {
            "condition": found.identification.condition,
            "excluded": found.identification.excluded,
            "exclusion_p_value": None if found.exclusion is None else found.exclusion.pvalue,
        },
        "notes": tables.notes(results),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Of Python and of the packages behind the numbers."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # used from a source tree that is not installed
            found[package] = "unknown"
    return found


def _rows(frame: pd.DataFrame) -> dict[str, dict[str, float]]:
    return {str(name): row.to_dict() for name, row in frame.iterrows()}


def _plain(value: Any) -> Any:
    """Nested values as JSON knows them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else ("inf" if value > 0 else "-inf")
    return value
