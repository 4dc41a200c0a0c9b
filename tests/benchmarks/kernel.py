"""Cost of value + score + Hessian against the bare transcendental calls it cannot do without.

    python -m tests.benchmarks.kernel

Prints ratios measured side by side in one run: n = 100,000 labelled rows, 32 nodes, each side at
its best block size; then the time per row from 10^4 to 10^6 rows; then, in a process of its own,
the peak memory of Rows.build and one evaluation above the numpy data at 10^6 rows. Let nothing else
run meanwhile: a busy machine slows the memory-bound parts more than the transcendental calls.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from statsmodels_mnar.kernel.forms import FreeForm
from statsmodels_mnar.kernel.integration import Quadrature
from statsmodels_mnar.kernel.rows import Rows
from statsmodels_mnar.optimize.objective import Objective

N_NODES = 32
THETA = np.array([0.1, 0.5, -0.3, 0.2, 0.1, 0.3, 0.4, 0.2, -0.2, 0.5, 0.0, 0.5])
BLOCKS = (1_000, 2_000, 4_000, 8_000, 16_000)
REPOSITORY = Path(__file__).resolve().parents[2]


def fastest(runs: dict[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """Shortest of several runs of each, in seconds; in turns: a busy spell hits them all."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(repeat):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: min(values) for name, values in times.items()}


def bare(n: int, block: int) -> Callable[[], None]:
    """One sigmoid, one ndtr and one exp for each row and node, in blocks."""
    x = torch.randn(block, N_NODES, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def run() -> None:
        for start in range(0, n, block):
            part = x[: min(block, n - start)]
            torch.sigmoid(part)
            torch.special.ndtr(part)
            torch.exp(part)

    return run


def data(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """n labelled rows, five columns in each equation, made without large temporaries."""
    rng = np.random.default_rng(0)
    X, W = np.ones((2, n, 5))
    y = np.empty(n)
    for start in range(0, n, 10_000):
        cut = slice(start, min(start + 10_000, n))
        X[cut, 1:] = rng.standard_normal((cut.stop - cut.start, 4))
        W[cut, 1:] = rng.standard_normal((cut.stop - cut.start, 4))
        y[cut] = rng.random(cut.stop - cut.start) < 0.5
    return X, W, y, np.ones(n)


def whole(n: int, block: int | None = None) -> Callable[[], object]:
    rows = Rows.build(*data(n))
    target = Objective(rows, FreeForm(Quadrature(n_nodes=N_NODES)), block_size=block)
    return lambda: target.evaluate(THETA, 2)


def cost_ratio(n: int, blocks: tuple[int, ...] = BLOCKS, repeat: int = 7) -> dict[str, float]:
    """Seconds of both sides, and their ratio at each side's best block and at our default."""
    runs: dict[str, Callable[[], object]] = {f"bare {block}": bare(n, block) for block in blocks}
    runs |= {f"whole {block}": whole(n, block) for block in blocks}
    runs["whole default"] = whole(n)
    seconds = fastest(runs, repeat)
    floor = min(v for name, v in seconds.items() if name.startswith("bare"))
    best = min(v for name, v in seconds.items() if name.startswith("whole"))
    return seconds | {"ratio": best / floor, "default ratio": seconds["whole default"] / floor}


def growth(sizes: tuple[int, ...], repeat: int = 5) -> dict[int, float]:
    """Seconds a row at each size."""
    seconds = fastest({str(n): whole(n) for n in sizes}, repeat)
    return {n: seconds[str(n)] / n for n in sizes}


def _resident(field: str) -> float:
    """VmRSS (now) or VmHWM (at its peak) of this process, in MB; Linux only."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise OSError(f"/proc/self/status has no {field}")


def memory_here(n: int) -> dict[str, float]:
    """Megabytes before Rows.build and at the peak since: to be called in a fresh process."""
    arrays = data(n)
    before = _resident("VmRSS")
    rows = Rows.build(*arrays)
    built = _resident("VmHWM")
    Objective(rows, FreeForm(Quadrature(n_nodes=N_NODES))).evaluate(THETA, 2)
    return {"before": before, "build": built - before, "peak": _resident("VmHWM") - before}


def memory(n: int) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.kernel", "--memory", str(n)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    figures = cost_ratio(100_000)
    for name, value in figures.items():
        unit = f"{value:8.2f}" if "ratio" in name else f"{1e3 * value:8.1f} ms"
        print(f"{name:<16}{unit}")
    per_row = growth((10_000, 100_000, 1_000_000))
    for n, seconds in per_row.items():
        print(f"n = {n:>9,}   {1e9 * seconds:7.1f} ns a row")
    print(f"growth          {per_row[1_000_000] / per_row[10_000]:8.2f}")
    figures = memory(1_000_000)
    print(f"data and libraries {figures['before']:.0f} MB; above them, at the peak:")
    print(f"Rows.build {figures['build']:.0f} MB, with the evaluation {figures['peak']:.0f} MB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        print(json.dumps(memory_here(int(sys.argv[2]))))
    else:
        main()
