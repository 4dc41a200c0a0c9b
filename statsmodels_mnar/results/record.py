"""A fit as plain data, for JSON."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import pandas as pd

from ..inference.independence import IndependenceTest
from . import tables
from .findings import Findings

SCHEMA = 1
_PACKAGES = ("statsmodels-mnar", "statsmodels", "numpy", "scipy", "pandas", "torch")
_EFFECT = ("effect", "std_error", "statistic", "p_value", "conf_low", "conf_high")


def as_json(record: dict[str, Any]) -> str:
    """A record as a JSON text; what is not finite is null, or "inf" and "-inf"."""
    return json.dumps(_plain(record), indent=2, allow_nan=False) + "\n"


def fit_record(results: Any) -> dict[str, Any]:
    """The fit itself: all that ``from_json`` reads, documented in :meth:`to_json`."""
    model, design = results.model, results.model.design
    fit, status, names = results.fit_info, results.status, model.param_names
    test = tables.independence(results)
    compared = test is not None and test.method == "lr"
    return {
        "schema": SCHEMA,
        "model": type(model).__name__,
        "normalization": model.normalization,
        "asked": model.normalization if fit.asked is None else fit.asked,
        "integration": {"by": type(model.integration).__name__} | asdict(model.integration),
        "formula": getattr(model, "formula", None),
        "select_formula": getattr(model, "select_formula", None),
        "equations": {"outcome": design.outcome_names, "select": design.select_names},
        "data": {
            "nobs": results.nobs,
            "labelled": results.nobs_selected,
            "missing_ratio": results.eta,
            "dropped": dict(design.dropped._asdict()),
            "outcome": design.outcome_name,
            "select": design.select_name,
            "weights": design.weight_kind,
            "constant": bool(model.k_constant),
        },
        "status": {
            "name": status.name.lower(),
            "message": status.value,
            "converged": results.converged,
            "boundary": status.boundary,
            "method": fit.method,
            "iterations": results.solution.n_iter,
            "score_norm": results.solution.score_norm,
            "penalty": fit.penalty,
            "options": {name: _scalar(value) for name, value in fit.options.items()},
        },
        "fit": results._criteria(),
        "likelihoods": {
            "value": results.solution.value,
            "llf": results.llf,
            "llnull": results.llnull if results._is_likelihood else None,
            "ignorable": results._ll_ignorable() if compared else None,
            "faces": fit.faces,
        },
        "apart": {
            "params": fit.independent.params,
            "value": fit.independent.value,
            "converged": fit.independent.converged,
        },
        "params": dict(zip(names, np.asarray(results.params), strict=True)),
        "cov": {
            "type": results.cov_type,
            "description": results.cov_kwds["description"],
            "n_groups": results.cov_kwds["n_groups"],
            "names": names,
            "matrix": np.asarray(results.cov_params_default),
        },
        "hessian": results._hessian(),
        "independence": None if test is None else _test(test),
        "instrument": asdict(results.instrument),
        "weak": results.weak,
        "across": asdict(results._across()) if results._by_profile(None) else None,
        "accuracy": None if results.accuracy is None else asdict(results.accuracy),
        "biascorr": results._first_stage_record(),
        "notes": tables.notes(results),
        "versions": versions(),
    }


def report_record(results: Any, found: Findings) -> dict[str, Any]:
    """The fit and what follows from it, documented in :meth:`SelectionResults.report`."""
    names = results.model.param_names
    columns = ("estimate", "std_error", "conf_low", "conf_high")
    test = found.independence
    return fit_record(results) | {
        "bse": dict(zip(names, np.asarray(results.bse), strict=True)),
        "pvalues": dict(zip(names, np.asarray(results.pvalues), strict=True)),
        "conf_int": dict(zip(names, np.asarray(results.conf_int(found.alpha)), strict=True)),
        "alpha": found.alpha,
        "dependence": _rows(results.dependence_table(found.alpha).set_axis(columns, axis=1)),
        "independence": None if test is None else _test(test),
        "effects": {
            which: _rows(effects.summary_frame(found.alpha).set_axis(_EFFECT, axis=1))
            for which, effects in found.effects.items()
        },
        "shares": _rows(found.shares.set_axis(columns, axis=1)),
        "identification": {
            "condition": found.identification.condition,
            "excluded": found.identification.excluded,
            "exclusion_p_value": None if found.exclusion is None else found.exclusion.pvalue,
        },
    }


def _test(test: IndependenceTest) -> dict[str, Any]:
    return {
        "method": test.method,
        "statistic": test.statistic,
        "df": test.df,
        "p_value": test.pvalue,
    }


def _scalar(value: Any) -> Any:
    """A number or a text; of anything else, such as a generator, its name."""
    plain = isinstance(value, bool | int | float | str | np.number | None)
    return value if plain else type(value).__name__


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
