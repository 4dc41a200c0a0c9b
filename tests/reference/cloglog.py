"""Make cloglog_n600.csv and mle_cloglog_n600.json without this package.

The likelihood of a labelled row is an integral by scipy's adaptive quadrature, its maximum is found
by scipy's BFGS with numerical derivatives, and standard errors come from a numerical Hessian. Run
``python cloglog.py`` in this folder.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import scipy
from scipy.integrate import quad_vec
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_ndtr

HERE = Path(__file__).parent
NAMES = ["const", "x", "select_const", "select_x", "select_z", "loading"]
TRUE = np.array([-0.4, 0.8, 0.3, 0.5, 1.0, 0.7])


def simulate(n: int, seed: int) -> pd.DataFrame:
    """Draw y = 1 with probability 1 - exp(-exp(index + 0.7 u)), seen where selected."""
    rng = np.random.default_rng(seed)
    x, z, u = rng.standard_normal((3, n))
    s = TRUE[2] + TRUE[3] * x + TRUE[4] * z + u > 0
    y = rng.random(n) < 1.0 - np.exp(-np.exp(TRUE[0] + TRUE[1] * x + TRUE[5] * u))
    return pd.DataFrame(
        {"y": np.where(s, y.astype(float), np.nan), "s": s.astype(int), "x": x, "z": z}
    )


def log_likelihood(theta: np.ndarray, data: pd.DataFrame) -> float:
    """Integrate P(y | a + loading u) phi(u) over u > -b for labelled rows; PHI(-b) for others."""
    b = theta[2] + theta[3] * data.x.to_numpy() + theta[4] * data.z.to_numpy()
    seen = data.s.to_numpy() == 1
    a, y = (theta[0] + theta[1] * data.x.to_numpy())[seen], data.y.to_numpy()[seen]
    start = -b[seen]
    length = np.maximum(start, 0.0) + 9.0 - start

    def integrand(t: float) -> np.ndarray:
        u = start + t * length
        none = np.exp(-np.exp(a + theta[5] * u))
        return length * np.where(y == 1, 1.0 - none, none) * np.exp(-0.5 * u * u)

    found, _ = quad_vec(integrand, 0.0, 1.0, epsabs=1e-12, epsrel=1e-12, norm="max")
    labelled = np.log(found / np.sqrt(2.0 * np.pi)).sum()
    return float(labelled + log_ndtr(-b[~seen]).sum())


def main() -> None:
    simulate(600, 20).to_csv(HERE / "cloglog_n600.csv", index=False, float_format="%.10g")
    data = pd.read_csv(HERE / "cloglog_n600.csv")
    n = len(data)

    def loss(theta: np.ndarray) -> float:
        return -log_likelihood(theta, data) / n

    def slope(theta: np.ndarray) -> np.ndarray:
        steps = 1e-5 * np.eye(len(theta))
        return np.array([(loss(theta + h) - loss(theta - h)) / 2e-5 for h in steps])

    found = minimize(loss, 0.1 * np.ones(6), jac=slope, method="BFGS", options={"gtol": 1e-9})
    hessian = np.array([approx_fprime(found.x, lambda t, j=j: slope(t)[j], 1e-4) for j in range(6)])
    cov = np.linalg.inv(0.5 * (hessian + hessian.T)) / n
    record = {
        "made_with": f"scipy {scipy.__version__}: integrate.quad_vec, optimize.minimize (BFGS)",
        "names": NAMES,
        "true": TRUE.tolist(),
        "params": found.x.tolist(),
        "bse": np.sqrt(np.diag(cov)).tolist(),
        "llf": log_likelihood(found.x, data),
        "largest_score": float(np.abs(slope(found.x)).max()),
        "at_true": log_likelihood(TRUE, data),
    }
    (HERE / "mle_cloglog_n600.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
