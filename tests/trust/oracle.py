"""The likelihood of a row by integration on fixed fine grids: slow, short and not the package's."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, log_ndtr, ndtr

_GRID = np.linspace(-10.0, 10.0, 4_001)  # of the outcome's error; rectangles are exact to rounding
_HALF, _WEIGHT = np.polynomial.legendre.leggauss(240)


def _density(e: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * e * e) / np.sqrt(2.0 * np.pi)


def _outcome(y: np.ndarray, index: np.ndarray, cdf: Any) -> np.ndarray:
    return y * cdf(index) + (1.0 - y) * cdf(-index)


def log_rows(model: Any, params: np.ndarray) -> np.ndarray:
    """log l_i, (n,), by the definition in the documentation of the model.

    With s' the (soft) selection and y' the (pseudo)label of a row, a and b its two indices:
    log INT [(1 - s') + s' F(y', a + sigma e)] PHI((2s' - 1)(b + rho e)/sqrt(1 - rho^2)) phi(e) de;
    at |rho| = 1 the normal probability is a step.
    """
    d = model.training_design
    theta = model._expand(params)
    beta, gamma, dependence = np.split(theta, np.cumsum([d.X.shape[1], d.W.shape[1]]))
    a = d.X @ beta + (0.0 if d.offset is None else d.offset)
    b = d.W @ gamma + (0.0 if d.offset_select is None else d.offset_select)
    s, y = d.s, np.nan_to_num(d.y)
    kind = model._parametrized.kind
    total = np.empty(len(s))
    for i in range(len(s)):
        if s[i] == 0.0:
            total[i] = log_ndtr(-b[i])
        elif kind == "free":
            sigma, athrho = np.exp(dependence[0]), dependence[1]
            factor = (1.0 - s[i]) + s[i] * _outcome(y[i], a[i] + sigma * _GRID, expit)
            selected = (2.0 * s[i] - 1.0) * (b[i] * np.cosh(athrho) + _GRID * np.sinh(athrho))
            step = _GRID[1] - _GRID[0]
            total[i] = np.log((factor * ndtr(selected) * _density(_GRID)).sum() * step)
        else:
            low, high = (-b[i], 10.0) if s[i] > 0.5 else (-10.0, -b[i])
            u = low + (high - low) * 0.5 * (_HALF + 1.0)
            if kind == "loading":
                likely = _outcome(y[i], a[i] + dependence[0] * u, expit)
            else:  # probit: a + e given u = N(rho u, 1 - rho^2)
                rho = np.tanh(dependence[0])
                likely = _outcome(y[i], (a[i] + rho * u) / np.sqrt(1.0 - rho**2), ndtr)
            factor = (1.0 - s[i]) + s[i] * likely
            total[i] = np.log((_WEIGHT * factor * _density(u)).sum() * 0.5 * (high - low))
    return total
