"""Fits whose bits are compared between threads, processes and runs; prints them as JSON."""

from __future__ import annotations

import json
import multiprocessing
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from statsmodels_mnar import (
    MLP,
    BiasCorrLogit,
    GreeneSelectionLogit,
    ProbitSelection,
    Simulation,
)
from statsmodels_mnar.datasets import simulate_greene

SIGMA_FIXED: dict[str, Any] = {"normalization": {"sigma": 1.0}}


def simulated() -> dict[str, np.ndarray]:
    """Arguments of a model from arrays."""
    data = simulate_greene(600, sigma=1.0, rho=0.6, rng=5).data
    one = np.ones(len(data))
    return {
        "endog": data["y"].to_numpy(copy=True),
        "exog": np.column_stack([one, data["x1"], data["x2"]]),
        "endog_select": data["s"].to_numpy(dtype=float, copy=True),
        "exog_select": np.column_stack([one, data["x1"], data["x2"], data["z"]]),
    }


def everything(results: Any) -> bytes:
    """Estimates, covariance, likelihood, predictions and effects."""
    parts = [results.params, results.cov_params(), results.llf, results.predict(which="p10")]
    parts.append(results.get_margeff().margeff)
    return b"".join(np.ascontiguousarray(part, dtype=float).tobytes() for part in parts)


def _bootstrapped(arrays: dict[str, Any]) -> bytes:
    results = GreeneSelectionLogit(**arrays, normalization="loading").fit()
    return results.bootstrap(8, rng=3).replicates.to_numpy().tobytes()


CASES: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "sigma fixed": lambda v: everything(GreeneSelectionLogit(**v, **SIGMA_FIXED).fit()),
    "loading": lambda v: everything(GreeneSelectionLogit(**v, normalization="loading").fit()),
    "many rows": lambda v: everything(
        GreeneSelectionLogit(
            **{key: np.concatenate([value] * 30) for key, value in v.items()},
            normalization="loading",
        ).fit()
    ),
    "free": lambda v: everything(GreeneSelectionLogit(**v).fit()),
    "draws": lambda v: everything(
        GreeneSelectionLogit(**v, **SIGMA_FIXED, integration=Simulation(200, "sobol", rng=2)).fit()
    ),
    "descent": lambda v: everything(
        GreeneSelectionLogit(**v, integration=Simulation(20, "random", redraw=True)).fit(
            method="sgd", maxiter=20, batch_size=100, rng=4
        )
    ),
    "probit": lambda v: everything(ProbitSelection(**v).fit()),
    "biascorr": lambda v: everything(BiasCorrLogit(**v, **SIGMA_FIXED).fit()),
    "biascorr, network": lambda v: everything(
        BiasCorrLogit(**v, **SIGMA_FIXED, pseudolabel_model=MLP(epochs=60)).fit()
    ),
    "bootstrap": _bootstrapped,
}


def run(name: str, arrays: dict[str, Any] | None = None) -> bytes:
    """The bits of one case."""
    return CASES[name](simulated() if arrays is None else arrays)


def run_all() -> dict[str, str]:
    """The bits of every case in hexadecimal digits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: run(name).hex() for name in CASES}


def _child(how: str) -> dict[str, str]:
    with multiprocessing.get_context(how).Pool(1) as pool:
        return pool.apply(run_all)


if __name__ == "__main__":  # here, in a child that is forked from here, and in a spawned one
    found = {how: run_all() if how == "here" else _child(how) for how in sys.argv[1:]}
    json.dump(found, sys.stdout)
