"""Cost of value + score + Hessian against the bare transcendental calls it cannot do without.

    python tests/benchmarks/kernel.py

Prints ratios measured side by side in one run: n = 100,000 labelled rows, 32 nodes; then the time
per row from 10^4 to 10^6 rows and the peak memory above the data at 10^6.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import numpy as np
import torch

from statsmodels_mnar.engine.forms import FreeForm
from statsmodels_mnar.engine.integration import Quadrature
from statsmodels_mnar.engine.objective import Objective
from statsmodels_mnar.engine.rows import Rows

N_NODES = 32


def best(run: Callable[[], object], repeat: int = 7) -> float:
    """Shortest of several runs, in seconds."""
    run()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def bare(n: int, block: int) -> float:
    """One sigmoid, one ndtr and one exp for each row and node, in blocks."""
    x = torch.randn(block, N_NODES, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def run() -> None:
        for _ in range(0, n, block):
            torch.sigmoid(x)
            torch.special.ndtr(x)
            torch.exp(x)

    return best(run)


def objective(n: int, block: int | None = None) -> tuple[Objective, np.ndarray]:
    """n labelled rows, five columns in each equation."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 4))])
    y = (rng.random(n) < 0.5).astype(float)
    rows = Rows.build(X, X, y, np.ones(n))
    theta = np.array([0.1, 0.5, -0.3, 0.2, 0.1, 0.3, 0.4, 0.2, -0.2, 0.5, 0.0, 0.5])
    return Objective(rows, FreeForm(Quadrature(n_nodes=N_NODES)), block_size=block), theta


def main() -> None:
    n = 100_000
    blocks = (1_000, 2_000, 4_000, 8_000, 16_000, 100_000)
    floor = min(bare(n, block) for block in blocks)
    whole = {}
    for block in (*blocks, None):
        target, theta = objective(n, block)
        whole[block] = best(lambda: target.evaluate(theta, 2))
    print(f"bare transcendental calls   {1e3 * floor:7.1f} ms")
    for block, seconds in whole.items():
        print(f"value + score + Hessian     {1e3 * seconds:7.1f} ms  block {block}")
    print(f"ratio, each at its best     {min(whole.values()) / floor:7.2f}")
    print(f"ratio, default block        {whole[None] / floor:7.2f}")

    per_row = {}
    for n in (10_000, 100_000, 1_000_000):
        target, theta = objective(n)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        per_row[n] = best(lambda: target.evaluate(theta, 2), repeat=3) / n
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(f"n = {n:>9,}  {1e9 * per_row[n]:7.1f} ns a row, peak memory + {peak / 1024:.0f} MB")
    print(f"growth of the time per row  {per_row[1_000_000] / per_row[10_000]:7.2f}")


if __name__ == "__main__":
    main()
