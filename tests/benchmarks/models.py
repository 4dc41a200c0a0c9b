"""Cost of the loading-form fit, as ratios measured side by side in one run.

    python -m tests.benchmarks.models [--repeat 7] [--no-plain]

1. n = 50,000, a constant and ten regressors: against statsmodels' own Logit of the labelled rows
   and Probit of all rows. Every repetition fits fresh models; their construction is left out on
   both sides first, then counted on both sides. Standard errors are read on both.
2. n = 5,000 (tests/reference/logit_n5000.csv): against the same likelihood as a plain
   GenericLikelihoodModel in numpy with numerical derivatives and BFGS, from the same start. Its
   nodes leave an error of the log-likelihood of 2e-4 (32 of them) or 1e-3 (16).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, log_ndtr, ndtr, ndtri
from statsmodels.base.model import GenericLikelihoodModel
from statsmodels.discrete.discrete_model import Logit, Probit

from statsmodels_mnar import GreeneSelectionLogit

REFERENCE = Path(__file__).resolve().parents[1] / "reference"


@dataclass(frozen=True, slots=True)
class Data:
    """Arrays of one data set."""

    y: np.ndarray  # (n,) NaN where unselected
    s: np.ndarray  # (n,)
    X: np.ndarray  # (n, p)
    W: np.ndarray  # (n, p + 1)


def simulate(n: int, n_regressors: int = 10) -> Data:
    """From the loading form with loading 0.8, two thirds selected."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, n_regressors))])
    z, u = rng.standard_normal((2, n))
    W = np.column_stack([X, z])
    slope = np.linspace(-0.5, 0.5, n_regressors)
    s = (W @ np.concatenate([[0.6], slope[::-1], [0.8]]) + u > 0).astype(float)
    y = (rng.random(n) < expit(X @ np.concatenate([[0.2], slope]) + 0.8 * u)).astype(float)
    return Data(np.where(s == 1, y, np.nan), s, X, W)


def reference_data() -> Data:
    """The reference data of 5,000 rows."""
    frame = pd.read_csv(REFERENCE / "logit_n5000.csv")
    X = np.column_stack([np.ones(len(frame)), frame[["x1", "x2", "x3"]]])
    W = np.column_stack([X, frame["z"]])
    s = frame["s"].to_numpy(dtype=float)
    return Data(np.where(s == 1, frame["y"], np.nan), s, X, W)


def loading_model(data: Data) -> GreeneSelectionLogit:
    return GreeneSelectionLogit(data.y, data.X, data.s, data.W, normalization="loading")


def statsmodels_models(data: Data) -> tuple[Logit, Probit]:
    seen = data.s == 1
    return Logit(data.y[seen], data.X[seen]), Probit(data.s, data.W)


def fit_loading(model: GreeneSelectionLogit) -> Any:
    results = model.fit()
    assert np.isfinite(results.bse).all()
    return results


def fit_statsmodels(models: tuple[Logit, Probit]) -> list[Any]:
    fits = [model.fit(disp=0) for model in models]
    assert all(np.isfinite(fit.bse).all() for fit in fits)
    return fits


class PlainLoading(GenericLikelihoodModel):
    """The loading-form likelihood as one writes it for statsmodels, without derivatives.

    The selection error u is integrated over (-w'gamma, infinity) by Gauss-Legendre in its
    probability: u = -Phi^-1(Phi(w'gamma) v), v in (0, 1).
    """

    def __init__(self, data: Data, n_nodes: int) -> None:
        super().__init__(data.s, data.X, extra_params_names=_extra_names(data))
        self.q = np.where(data.y == 1, 1.0, -1.0)[data.s == 1]
        self.design, self.selected = data, data.s == 1
        node, weight = np.polynomial.legendre.leggauss(n_nodes)
        self.node, self.weight = 0.5 * (node + 1.0), 0.5 * weight

    def loglikeobs(self, params: np.ndarray) -> np.ndarray:
        p, k = self.design.X.shape[1], self.design.W.shape[1]
        b = self.design.W @ params[p : p + k]
        value = log_ndtr(-b)
        b = b[self.selected]
        a = self.design.X[self.selected] @ params[:p]
        u = -ndtri(np.maximum(ndtr(b)[:, None] * self.node, 1e-300))
        inner = expit(self.q[:, None] * (a[:, None] + params[-1] * u)) @ self.weight
        value[self.selected] = log_ndtr(b) + np.log(inner)
        return value


def _extra_names(data: Data) -> list[str]:
    return [*(f"select_{j}" for j in range(data.W.shape[1])), "loading"]


def fit_plain(model: PlainLoading, start: np.ndarray) -> Any:
    results = model.fit(start, method="bfgs", maxiter=500, disp=0)
    assert np.isfinite(results.bse).all()
    return results


def elapsed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def against_statsmodels(n: int = 50_000, repeat: int = 7) -> dict[str, float]:
    """Best times of fits alone and with construction, alternating the two sides."""
    data = simulate(n)
    ours, theirs, ours_built, theirs_built = [], [], [], []
    for _ in range(repeat):
        build, model = elapsed(lambda: loading_model(data))
        fit, results = elapsed(lambda model=model: fit_loading(model))
        ours.append(fit)
        ours_built.append(build + fit)
        build, models = elapsed(lambda: statsmodels_models(data))
        fit, _ = elapsed(lambda models=models: fit_statsmodels(models))
        theirs.append(fit)
        theirs_built.append(build + fit)
    return {
        "loading fit, s": min(ours),
        "Logit + Probit fits, s": min(theirs),
        "ratio of fits": min(ours) / min(theirs),
        "ratio of medians": float(np.median(ours) / np.median(theirs)),
        "ratio with construction": min(ours_built) / min(theirs_built),
        "Newton iterations": results.solution.n_iter,
    }


def against_plain(data: Data, repeat: int = 7, n_nodes: int = 32) -> dict[str, float]:
    """Time of the plain model over ours, and how far the two maxima are apart."""
    ours = []
    for _ in range(repeat):
        model = loading_model(data)
        seconds, results = elapsed(lambda model=model: fit_loading(model))
        ours.append(seconds)
    start = np.append(results._fit_info.independent.params, 0.4)
    plain, found = elapsed(lambda: fit_plain(PlainLoading(data, n_nodes), start))
    return {
        "loading fit, s": min(ours),
        "plain GenericLikelihoodModel, s": plain,
        "times faster": plain / min(ours),
        "log-likelihood, ours - plain": results.llf - found.llf,
        "largest difference of params": float(np.abs(results.params - found.params).max()),
        "largest relative difference of bse": float(np.abs(results.bse / found.bse - 1.0).max()),
    }


def show(title: str, figures: dict[str, float]) -> None:
    print(title)
    for name, value in figures.items():
        print(f"  {name:36} {value:.4g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--no-plain", action="store_true", help="leave out the slow comparison")
    options = parser.parse_args()
    show("n = 50,000, ten regressors", against_statsmodels(repeat=options.repeat))
    if not options.no_plain:
        for n_nodes in (16, 32):
            figures = against_plain(reference_data(), options.repeat, n_nodes)
            show(f"n = 5,000, plain model with {n_nodes} nodes", figures)


if __name__ == "__main__":
    main()
