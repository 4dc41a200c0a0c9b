"""Error of simulated log-likelihoods against the number of draws.

    python -m tests.benchmarks.draws

Prints, for each kind of draws, the root mean square over rows and seeds of the difference between a
row's simulated and integrated log-likelihood.
"""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from statsmodels_mnar.kernel.forms import FreeForm
from statsmodels_mnar.kernel.integration import DRAW_KINDS, Quadrature, Simulation
from statsmodels_mnar.kernel.rows import Rows
from statsmodels_mnar.optimize.objective import Objective

N_DRAWS = (25, 50, 100, 200, 400, 800)
THETA = np.array([-0.2, 0.8, 0.3, 0.5, 0.0, math.atanh(0.6)])


def rows(n: int) -> Rows:
    """Labelled rows from the model itself, sigma = 1 and rho = 0.6."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(n), rng.standard_normal(n)])
    y = (rng.random(n) < 1 / (1 + np.exp(-X @ THETA[:2]))).astype(float)
    return Rows.build(X, X, y, np.ones(n))


def errors(
    n: int, n_draws: tuple[int, ...] = N_DRAWS, seeds: int = 4
) -> dict[str, dict[int, float]]:
    """Root mean square error by kind and number of draws (the next even one for antithetic)."""
    data = rows(n)
    exact = Objective(data, FreeForm(Quadrature(tol=1e-13))).row_values(THETA)

    def error(kind: str, count: int) -> float:
        squares = [
            (simulated(kind, count, seed) - exact).square().mean().item() for seed in range(seeds)
        ]
        return math.sqrt(np.mean(squares))

    def simulated(kind: str, count: int, seed: int) -> Tensor:
        draws = Simulation(n_draws=count, kind=kind, rng=seed)
        return Objective(data, FreeForm(draws)).row_values(THETA)

    return {
        kind: {R: error(kind, R + R % 2 if kind == "antithetic" else R) for R in n_draws}
        for kind in DRAW_KINDS
    }


def main() -> None:
    table = errors(2_000)
    print("R         " + "".join(f"{R:>10}" for R in N_DRAWS))
    for kind, by_count in table.items():
        print(f"{kind:<10}" + "".join(f"{by_count[R]:>10.1e}" for R in N_DRAWS))


if __name__ == "__main__":
    main()
