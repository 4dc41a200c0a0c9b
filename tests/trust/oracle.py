"""The likelihood of a row by integration on fixed fine grids: slow, short and not the package's."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, log_ndtr, ndtr

_END = 10.0  # of the normal density
_GRID = np.linspace(-_END, _END, 4_001)  # rectangles there are exact to rounding
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(160)


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
    theta = model.expand(params)
    beta, gamma, dependence = np.split(theta, np.cumsum([d.X.shape[1], d.W.shape[1]]))
    a = d.X @ beta + (0.0 if d.offset is None else d.offset)
    b = d.W @ gamma + (0.0 if d.offset_select is None else d.offset_select)
    s, y = d.s, np.nan_to_num(d.y)
    kind = model.parametrized.kind
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
            cut = float(np.clip(-b[i], -_END, _END))
            low, high = (cut, _END) if s[i] > 0.5 else (-_END, cut)
            slope = dependence[0] if kind == "loading" else np.tanh(dependence[0])
            u, weight = _panels(low, -a[i] / slope if slope else 0.0, high)
            if kind == "loading":
                likely = _outcome(y[i], a[i] + slope * u, expit)
            else:  # probit: a + e given u = N(rho u, 1 - rho^2)
                likely = _outcome(y[i], (a[i] + slope * u) / np.sqrt(1.0 - slope**2), ndtr)
            factor = (1.0 - s[i]) + s[i] * likely
            total[i] = np.log((weight * factor * _density(u)).sum())
    return total


def _panels(low: float, steep: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of an integral from low to high that may be steep somewhere."""
    edges = np.array([low, float(np.clip(steep, low, high)), high])
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    return (
        (middle[:, None] + half[:, None] * _NODES).ravel(),
        (half[:, None] * _WEIGHTS).ravel(),
    )
