"""How well the data tell the parameters apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .profile import Profile


@dataclass(frozen=True, slots=True)
class Identification:
    """What the information matrix says about the estimates, and what the likelihood does.

    The fields after ``faces`` are those of ``results.identification_report()``, which profiles the
    likelihood; None in ``results.identification``, which is cheap.

    Attributes
    ----------
    condition : float
        Condition number of the information with a unit diagonal.
    weakest : Series
        Direction of its smallest eigenvalue, in standardized parameters.
    correlation : float or None
        Of the estimates of lnsigma and athrho, where both are free.
    faces : dict
        Log-likelihoods of the forms compared.
    profile : Profile or None
        Of the error correlation.
    excluded : tuple of str or None
        Columns that move selection only.
    face : str or None
        How the fit ended, where it ended on a face.
    """

    condition: float  # of the information with a unit diagonal
    weakest: pd.Series  # direction of the smallest eigenvalue, in standardized parameters
    correlation: float | None  # of the estimates of lnsigma and athrho, where both are free
    faces: dict[str, float]  # log-likelihoods of the forms compared
    profile: Profile | None = None  # of the error correlation
    excluded: tuple[str, ...] | None = None  # selection columns outside the outcome's span
    face: str | None = None  # how the fit ended, where it ended on one

    @property
    def width(self) -> float | None:
        """Length of the profile set of the error correlation, which is at most 2."""
        if self.profile is None:
            return None
        return sum(high - low for low, high in self.profile.pieces)

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
        return "\n".join([*lines, *self.verdict()])

    def verdict(self) -> list[str]:
        """What the data tell and what they do not, in sentences."""
        said = []
        if self.profile is not None:
            said += _about_error_corr(self.profile)
        if self.face is not None:
            said.append(f"sigma and rho are not told apart: {self.face}.")
        elif self.correlation is not None and abs(self.correlation) > 0.99:
            said.append(
                "sigma and rho are not told apart: another sigma with another rho fits as well. "
                "Coefficients of the outcome grow with sigma; report effects and probabilities."
            )
        if self.excluded is not None:
            said.append(_about_exclusion(self.excluded))
        return said


def _about_error_corr(profile: Profile) -> list[str]:
    length = sum(high - low for low, high in profile.pieces)
    ranges = " or ".join(f"from {low:.2f} to {high:.2f}" for low, high in profile.pieces)
    words = (
        f"The error correlation is {profile.estimate:.2f}; values {ranges} agree with the data "
        f"({profile.level:.0%} profile set, {length:.2f} of the 2 that are possible)."
    )
    if any(low <= 0.0 <= high for low, high in profile.pieces):
        zero = "Zero is among them: the data do not reject that selection is ignorable."
    elif profile.interval[0] < 0.0 < profile.interval[1]:
        zero = "Zero is not among them: selection is not ignorable, but the sign is not known."
    else:
        sign = "positive" if profile.interval[0] > 0.0 else "negative"
        zero = f"Zero is not among them: selection is not ignorable, and the sign is {sign}."
    said = [words, zero]
    if length > 1.0:
        said.append(
            "That is more than half of the range: a conclusion should hold across it, see "
            "sensitivity()."
        )
    return said


def _about_exclusion(excluded: tuple[str, ...]) -> str:
    if not excluded:
        return (
            "No variable moves selection without entering the outcome: all this rests on the "
            "functional form."
        )
    verb = "move" if len(excluded) > 1 else "moves"
    return (
        f"Exclusion restriction: {', '.join(excluded)} {verb} selection only; exclusion_test() "
        "tells how strongly."
    )


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
