"""What the package takes of a machine's memory: over many fits, and at the peak of a large one.

    python -m tests.load                  # all of it
    python -m tests.load growth 1000      # resident memory over a thousand fits
    python -m tests.load peak bootstrap   # one peak beside its budget

Every figure is that of a process of its own, in megabytes of resident memory (Linux only).
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from statsmodels_mnar import BiasCorrLogit, Execution, GreeneSelectionLogit, ProbitSelection
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.kernel.forms import FreeForm, LoadingForm
from statsmodels_mnar.kernel.integration import Quadrature, Simulation
from statsmodels_mnar.kernel.rows import Rows
from statsmodels_mnar.optimize.objective import Objective

from .benchmarks import kernel, large_data

ROOT = Path(__file__).resolve().parents[1]
MB = 2**20


def resident(field: str = "VmRSS") -> float:
    """Of this process, now or (VmHWM) at its peak, in MB."""
    return kernel._resident(field)


# -- many fits -------------------------------------------------------------------------------------


def fits(n: int = 500) -> Iterator[object]:
    """Endless fits: every model, several covariances, everything a summary computes."""
    data = simulate_greene(n, rng=0).data
    formulas = "y ~ x1 + x2", "s ~ x1 + x2 + z"
    household = np.arange(len(data)) // 5
    kinds = [
        (GreeneSelectionLogit, {"normalization": "loading"}, {"cov_type": "HC1"}),
        (BiasCorrLogit, {"normalization": "loading", "soft_selection": 0.3}, {}),
        (GreeneSelectionLogit, {"normalization": {"sigma": 1.0}}, {"cov_type": "nonrobust"}),
        (ProbitSelection, {}, {"cov_type": "cluster", "cov_kwds": {"groups": household}}),
        (BiasCorrLogit, {"normalization": {"sigma": 1.0}}, {"cov_type": "HC0", "penalty": 1e-3}),
    ]
    for model, options, how in cycle(kinds):
        results = model.from_formula(*formulas, data, **options).fit(**how)
        results.summary().as_text()
        results.get_margeff().summary_frame()
        yield results


def alive() -> int:
    """Objects of this process, without pandas' weak references to earlier views of a frame."""
    gc.collect()
    return sum(not isinstance(item, weakref.ref) for item in gc.get_objects())


def growth(count: str) -> dict[str, float]:
    """Over so many fits, after enough of them to have filled every cache."""
    stream = fits()
    for _ in islice(stream, 25):
        pass
    objects, before, started = alive(), resident(), time.perf_counter()
    for _ in islice(stream, int(count)):
        pass
    seconds = time.perf_counter() - started
    return {
        "fits": int(count),
        "objects": alive() - objects,
        "growth": resident() - before,
        "before": before,
        "ms a fit": 1e3 * seconds / int(count),
    }


# -- one large fit ---------------------------------------------------------------------------------


def peak(name: str) -> dict[str, float]:
    """Of one of :data:`PEAKS`, beside its budget."""
    with tempfile.TemporaryDirectory() as folder:
        budget, run = PEAKS[name](Path(folder))
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
        before, started = resident(), time.perf_counter()
        run()
        seconds = time.perf_counter() - started
        above = resident("VmHWM") - before
    budget /= MB
    return {"budget": budget, "peak": above, "ratio": above / budget, "seconds": seconds}


def arrays(n: int, columns: int, scale: float = 1.0) -> tuple[np.ndarray, ...]:
    """Outcome, design, selection and its design, which has one column more."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, columns - 1))])
    W = np.column_stack([X, rng.standard_normal(n)])
    u = rng.standard_normal(n)
    s = (scale * W[:, 1:3].sum(1) + W[:, -1] + u > 0).astype(float)
    y = (scale * X[:, 1] + 0.7 * u + rng.logistic(size=n) > 0).astype(float)
    return y, X, s, W


def _evaluation(
    form: Any, theta: list[float], budget: int = 64 * MB, members: int = 1, **how: Any
) -> Callable[[Path], tuple[int, Callable[[], object]]]:
    """Value, score and Hessian where the budget, not the cache, limits a block."""

    def make(folder: Path) -> tuple[int, Callable[[], object]]:
        y, X, s, W = arrays(20_000, how.get("columns", 2), how.get("scale", 1.0))
        objective = Objective(Rows.build(X, W, y, s), form, memory_budget=budget)
        coef = np.full(objective.n_coef, 0.1)
        at = np.tile(np.concatenate([coef, theta]), (members, 1))
        hessians = 3 * 8 * members * at.shape[1] ** 2  # its triangle, the other one, their sum
        few = Objective(Rows.build(X[:500, :1], W[:500, :1], y[:500], s[:500]), form)
        few.evaluate([[0.1, 0.1, *theta]], 2)  # libraries load what they need at the first call
        return budget + hessians, lambda: objective.evaluate(at, 2)

    return make


def _bootstrap(model: Any, **options: Any) -> Callable[[Path], tuple[int, Callable[[], object]]]:
    """Refits whose members have rows of their own."""

    def make(folder: Path) -> tuple[int, Callable[[], object]]:
        y, X, s, W = arrays(50_000, 10)
        results = model(y, X, s, W, normalization="loading", **options).fit()
        return 256 * MB, lambda: results.bootstrap(64, rng=0)

    return make


def _partitions(folder: Path) -> tuple[int, Callable[[], object]]:
    """Half of the rows in memory, the others in files."""
    large_data.make(folder / "data", 1_200_000)
    budget = 128 * MB
    execution = Execution(partition_rows=2**16, memory=budget)
    large_data.make(folder / "small", 5_000)
    large_data.fit(str(folder / "small"), Execution(partition_rows=2_000))  # imports
    return budget, lambda: large_data.fit(str(folder / "data"), execution)


PEAKS: dict[str, Callable[[Path], tuple[int, Callable[[], object]]]] = {
    "many nodes": _evaluation(FreeForm(), [3.0, 4.5]),
    "many members": _evaluation(LoadingForm(), [0.5], members=256),
    "many columns": _evaluation(LoadingForm(), [0.5], 16 * MB, columns=300),
    "unlikely rows": _evaluation(FreeForm(Quadrature(n_nodes=2_000)), [0.0, 1.0], scale=50.0),
    "draws": _evaluation(FreeForm(Simulation(n_draws=4_000)), [0.0, 0.5]),
    "bootstrap": _bootstrap(GreeneSelectionLogit),
    "BiasCorr bootstrap": _bootstrap(BiasCorrLogit, soft_selection=0.3),
    "partitions": _partitions,
}


# -- processes -------------------------------------------------------------------------------------


def alone(what: str, argument: str) -> dict[str, float]:
    """``growth`` or ``peak`` in a fresh process."""
    command = [sys.executable, "-m", "tests.load", what, argument]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    if sys.argv[1:]:
        what, argument = sys.argv[1:]
        figures = {"growth": growth, "peak": peak}[what](argument)
        print(json.dumps({name: round(value, 2) for name, value in figures.items()}))
        return
    for name in PEAKS:
        print(f"{name:<20}", alone("peak", name), flush=True)
    print(f"{'a thousand fits':<20}", alone("growth", "1000"))


if __name__ == "__main__":
    main()
