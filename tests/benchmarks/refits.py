"""Cost of many refits as one batch, as ratios measured side by side in one run.

    python -m tests.benchmarks.refits SHARED [--replicates 999]

The German credit data of the paper (n = 700), whose selection equation is separated: all fits have
a ridge of 1e-3. A pairs bootstrap of the loading form, against

1. the same replicates one by one: the same engine and weights, warm-started, zero-weight rows left
   out;
2. calling ``fit`` of a model on each resample;
3. the same likelihood as a plain GenericLikelihoodModel with numerical derivatives, warm-started;

each of these timed on a few replicates. The peak is that of the process above its size before.
"""

from __future__ import annotations

import argparse
import resource
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from statsmodels.tools.sm_exceptions import ModelWarning

from statsmodels_mnar import BiasCorrLogit, GreeneSelectionLogit
from statsmodels_mnar.datasets import load_experiment
from statsmodels_mnar.optimize.maximize import maximize_batch
from statsmodels_mnar.results.bootstrap import resampled

from .models import Data, PlainLoading, elapsed, show

PENALTY = 1e-3


class PlainRidge(PlainLoading):
    """The plain model with the ridge spread over the rows."""

    def loglikeobs(self, params: np.ndarray) -> np.ndarray:
        return super().loglikeobs(params) - 0.5 * PENALTY * (params[:-1] ** 2).sum()


def german(shared: Path) -> Data:
    """The 700 training rows."""
    experiment = load_experiment("german", shared / "data")
    return Data(experiment.seen, experiment.s, experiment.X.to_numpy(), experiment.W.to_numpy())


def draws(n: int, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [resampled(np.ones(n), None, None, rng, weighted=False) for _ in range(count)]


def batched(results: Any, count: int) -> Any:
    return results.bootstrap(count, rng=0)


def one_by_one(results: Any, weights: list[np.ndarray]) -> list[Any]:
    """Single Newton fits of the engine from the estimates."""
    model = results.model
    objective, start = model.objective(PENALTY), model.expand(np.asarray(results.params))[None]
    found = []
    for own in weights:
        by_row = torch.as_tensor(own)[objective.rows.order]
        drawn = np.flatnonzero(by_row.numpy() > 0)
        rows = objective.rows.take(drawn)
        rows = replace(rows, weight=by_row[drawn], total_weight=float(by_row.sum()))
        found += maximize_batch(objective.with_rows(rows), start, free=model.estimated)
    return found


def by_fit(results: Any, weights: list[np.ndarray]) -> None:
    """A model of the resampled rows, fitted as a user would."""
    model = results.model
    for own in weights:
        part = replace(model.design, weights=own, weight_kind="freq_weights").counted
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelWarning)
            model.rebuilt(part).fit(cov_type="nonrobust", penalty=PENALTY)


def plain(data: Data, start: np.ndarray, weights: list[np.ndarray]) -> None:
    """Resampled rows in a GenericLikelihoodModel, without standard errors."""
    for own in weights:
        rows = np.repeat(np.arange(len(data.s)), own.astype(int))
        part = Data(data.y[rows], data.s[rows], data.X[rows], data.W[rows])
        PlainRidge(part, 32).fit(start, method="bfgs", maxiter=500, disp=0, skip_hessian=True)


def compare(data: Data, count: int, singles: int = 60, fits: int = 20, plains: int = 1) -> dict:
    """Seconds for each replicate, and the ratios."""
    options = {"normalization": "loading"}
    results = GreeneSelectionLogit(data.y, data.X, data.s, data.W, **options).fit(penalty=PENALTY)
    weights = draws(len(data.s), max(singles, fits, plains))
    batched(results, 20)  # first calls of torch are slow
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    together, found = elapsed(lambda: batched(results, count))
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    single, _ = elapsed(lambda: one_by_one(results, weights[:singles]))
    fit, _ = elapsed(lambda: by_fit(results, weights[:fits]))
    figures = {
        "replicates": count,
        "failed": found.failed.total(),
        "batch, s": together,
        "batch, ms a replicate": 1e3 * together / count,
        "single fits, times slower": single / singles / (together / count),
        "model.fit(), times slower": fit / fits / (together / count),
        "peak memory, MB": peak,
    }
    if plains:
        start = np.asarray(results.params)
        slow, _ = elapsed(lambda: plain(data, start, weights[:plains]))
        figures["plain model, times slower"] = slow / plains / (together / count)
    corrected = BiasCorrLogit(data.y, data.X, data.s, data.W, normalization={"sigma": 1.0})
    corrected = corrected.fit(penalty=PENALTY)
    both, _ = elapsed(lambda: batched(corrected, count))
    fit, _ = elapsed(lambda: by_fit(corrected, weights[:fits]))
    figures["BiasCorr batch, ms a replicate"] = 1e3 * both / count
    figures["BiasCorr model.fit(), times slower"] = fit / fits / (both / count)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shared", type=Path, help="folder with data/german")
    parser.add_argument("--replicates", type=int, default=999)
    options = parser.parse_args()
    show("German credit, n = 700", compare(german(options.shared), options.replicates))


if __name__ == "__main__":
    main()
