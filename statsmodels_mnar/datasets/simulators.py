"""Data whose truth is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True, slots=True)
class Simulated:
    """A simulated data set and the parameters that made it."""

    data: pd.DataFrame  # x1, x2, z, s, y (NaN where s = 0) and y_full, which nobody observes
    truth: dict[str, float]  # by the names of the fitted model's parameters, and sigma, rho

    formula = "y ~ x1 + x2"
    select_formula = "s ~ x1 + x2 + z"


def simulate_greene(
    n: int = 5_000,
    *,
    sigma: float = 1.5,
    rho: float = 1.0,
    rng: int | np.random.Generator = 0,
) -> Simulated:
    """Greene's model: logit outcome, probit selection, correlated through a normal error.

    y = 1 with probability L(-0.5 + 1.0 x1 - 0.7 x2 + sigma e), and the label is seen when
    0.3 + 0.5 x1 + 0.3 x2 + 0.9 z + u > 0, with corr(e, u) = rho. x1 and z are standard normal, x2
    is a fair coin. Because x1 raises both indices and the errors agree in sign, a logit of the
    labelled rows sees too many ones (its intercept is too high) and too small an effect of x1.

    Parameters
    ----------
    n : int
        Rows.
    sigma, rho : float
        Size of the shared error and its correlation with the selection error. rho = 1 is the
        loading form with loading = sigma.
    rng : int or numpy.random.Generator

    Examples
    --------
    >>> simulated = simulate_greene(1_000, rng=1)
    >>> simulated.data.shape
    (1000, 6)
    """
    if not (sigma >= 0 and -1 <= rho <= 1):
        raise ValueError(f"sigma={sigma!r} must not be negative and rho={rho!r} be within [-1, 1]")
    rng = np.random.default_rng(rng)
    x1, z, u, v = rng.standard_normal((4, n))
    x2 = (rng.random(n) < 0.5).astype(float)
    e = rho * u + np.sqrt(1.0 - rho**2) * v
    index = -0.5 + 1.0 * x1 - 0.7 * x2
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-(index + sigma * e)))).astype(float)
    s = (0.3 + 0.5 * x1 + 0.3 * x2 + 0.9 * z + u > 0).astype(int)
    data = pd.DataFrame({"x1": x1, "x2": x2, "z": z, "s": s, "y": np.where(s == 1, y, np.nan)})
    data["y_full"] = y
    truth = {
        "Intercept": -0.5, "x1": 1.0, "x2": -0.7,
        "select_Intercept": 0.3, "select_x1": 0.5, "select_x2": 0.3, "select_z": 0.9,
        "sigma": sigma, "rho": rho,
    }  # fmt: skip
    return Simulated(data, truth)
