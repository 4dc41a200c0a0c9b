"""How well the data tell the parameters apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Identification:
    """What the information matrix says about the estimates."""

    condition: float  # of the information with a unit diagonal
    weakest: pd.Series  # direction of the smallest eigenvalue, in standardized parameters
    correlation: float | None  # of the estimates of lnsigma and athrho, where both are free
    faces: dict[str, float]  # log-likelihoods of the forms compared

    def __str__(self) -> str:
        large = self.weakest[self.weakest.abs() > 0.1]
        order = large.abs().sort_values(ascending=False).index
        direction = ", ".join(f"{name} {large[name]:+.2f}" for name in order)
        lines = [
            f"Condition number of the information (unit diagonal): {self.condition:.3g}",
            f"Weakest direction: {direction}",
        ]
        if self.correlation is not None:
            lines.append(f"Correlation of lnsigma and athrho: {self.correlation:.4f}")
        known = {name: value for name, value in self.faces.items() if np.isfinite(value)}
        if known:
            faces = ", ".join(f"{name} {value:.4f}" for name, value in known.items())
            lines.append(f"Log-likelihoods compared: {faces}")
        return "\n".join(lines)


def identify(
    hessian: NDArray[np.float64], names: list[str], faces: dict[str, float]
) -> Identification:
    """The report for a Hessian of the estimated parameters."""
    size = np.sqrt(np.abs(np.diag(hessian)))
    scaled = -hessian / np.outer(size, size)
    eigenvalue, vector = np.linalg.eigh(scaled)
    weakest = vector[:, 0] * np.sign(vector[np.argmax(np.abs(vector[:, 0])), 0])
    correlation = None
    if names[-2:] == ["lnsigma", "athrho"] and eigenvalue[0] > 0:
        cov = np.linalg.inv(scaled)
        correlation = float(cov[-2, -1] / np.sqrt(cov[-2, -2] * cov[-1, -1]))
    smallest = max(float(eigenvalue[0]), np.finfo(float).tiny)
    return Identification(
        float(eigenvalue[-1]) / smallest, pd.Series(weakest, index=names), correlation, faces
    )
