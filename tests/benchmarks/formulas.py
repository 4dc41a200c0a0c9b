"""Cost of a fit by formula, as users call it, over statsmodels' own two models of the same rows.

    python -m tests.benchmarks
    python -m tests.benchmarks --sizes 753 5000 --repeat 30

Ours is the loading form and the probit form by formula, theirs ``smf.logit`` of the labelled rows
and ``smf.probit`` of all rows; five regressors and an instrument, standard errors on all sides,
everything built anew in every repetition. The sides take turns in one process with one thread, and
the time of each is the shortest of its repetitions, of the processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
import torch
from scipy.special import expit

from statsmodels_mnar import GreeneSelectionLogit, ProbitSelection

SIZES = (753, 5_000, 50_000, 500_000)
REGRESSORS = " + ".join(f"x{j}" for j in range(1, 6))
OUTCOME, SELECT = f"y ~ {REGRESSORS}", f"s ~ {REGRESSORS} + z"


def simulate(n: int, seed: int = 0) -> pd.DataFrame:
    """Five regressors and an instrument, loading 0.8, two thirds selected."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    z, u = rng.standard_normal((2, n))
    slope = np.linspace(-0.5, 0.5, 5)
    selected = 0.6 + X @ slope[::-1] + 0.8 * z + u > 0
    y = (rng.random(n) < expit(0.2 + X @ slope + 0.8 * u)).astype(float)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(1, 6)])
    return frame.assign(z=z, s=selected.astype(float), y=np.where(selected, y, np.nan))


def logit_and_probit(data: pd.DataFrame) -> list[Any]:
    return [
        smf.logit(OUTCOME, data[data.s == 1]).fit(disp=0),
        smf.probit(SELECT, data).fit(disp=0),
    ]


def loading(data: pd.DataFrame) -> list[Any]:
    return [GreeneSelectionLogit.from_formula(OUTCOME, SELECT, data).fit()]


def probit(data: pd.DataFrame) -> list[Any]:
    return [ProbitSelection.from_formula(OUTCOME, SELECT, data).fit()]


SIDES: dict[str, Callable[[pd.DataFrame], list[Any]]] = {
    "Logit + Probit": logit_and_probit,
    "loading": loading,
    "probit": probit,
}


def times(n: int, repeat: int, sides: dict[str, Callable[[pd.DataFrame], list[Any]]] = SIDES):
    """Shortest processor time of each side, in milliseconds."""
    data = simulate(n)
    found: dict[str, list[float]] = {name: [] for name in sides}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(repeat + 1):  # the first one warms up
            for name, side in sides.items():
                start = time.process_time()
                fits = side(data)
                assert all(np.isfinite(fit.bse).all() for fit in fits)
                found[name].append(1e3 * (time.process_time() - start))
    finally:
        torch.set_num_threads(threads)
    return {name: min(values[1:]) for name, values in found.items()}


def repetitions(n: int) -> int:
    """So many that small fits are measured well, and large ones take no longer than they must."""
    return int(np.clip(60_000 // n, 3, 40))


def table(sizes: tuple[int, ...] = SIZES, repeat: int | None = None) -> pd.DataFrame:
    """Milliseconds of each side, and the ratios of ours over theirs, for each number of rows."""
    rows = {}
    for n in sizes:
        row = times(n, repeat or repetitions(n))
        theirs = row["Logit + Probit"]
        rows[n] = row | {f"{name} / theirs": row[name] / theirs for name in ("loading", "probit")}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("n")
