"""What the data cannot tell: identification, and how conclusions move with what is assumed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, logit

from ..types import Floats
from .dependence import by_factor
from .prediction import Prediction
from .profile import Profile, find_roots

SERIES = ("estimate", "ci_lower", "ci_upper")


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """A target across values of what is held fixed.

    Attributes
    ----------
    table : DataFrame
        One row for each value: ``estimate``, ``se``, ``ci_lower`` and ``ci_upper`` of the target;
        where the model is refitted also ``loglik`` and ``supported``: a likelihood ratio against
        the best value on the same path does not reject this one. Absent where that is no test: a
        robust covariance, weights or a penalty, and a path that rests on an estimated sigma.
    tipping : DataFrame or None
        Values at which the sign or the significance of the target changes (``at``, ``change``);
        empty where there is none in the range, None for a target without a sign.
    bounds : tuple of float, optional
        Of a prevalence: all unlabelled rows 0, all 1 (Manski).
    fitted : float
        Where the fitted model itself stands on the scale of the values.
    """

    held: str  # "rho", "error_corr" or "delta"
    target: str  # in words
    path: str  # what else is held, in words
    level: float
    table: pd.DataFrame
    tipping: pd.DataFrame | None
    bounds: tuple[float, float] | None
    fitted: float
    top: float | None = None  # log-likelihood from which ``supported`` is measured

    def summary_frame(self) -> pd.DataFrame:
        """Return the estimates and intervals as a table."""
        return self.table

    def __str__(self) -> str:
        text = self.table.set_axis([f"{round(v, 6) + 0.0:g}" for v in self.table.index])
        text = text.rename_axis(self.held)
        if "supported" in text:
            text["supported"] = text["supported"].map({True: "yes", False: "no"})
        low, high = self.table.index[0], self.table.index[-1]
        lines = [
            f"Sensitivity of {self.target} to {self.held} ({self.level:.0%} intervals)",
            f"{self.path} The fitted model has {self.held} = {self.fitted:.3f}.",
            "",
            text.to_string(float_format=lambda v: f"{v:.4f}"),
            "",
        ]
        if self.tipping is not None:
            lines += [
                f"Tipping point at {self.held} = {at:.4f}: {change}."
                for at, change in zip(self.tipping["at"], self.tipping["change"], strict=True)
            ] or [f"No tipping point for {self.held} from {low:g} to {high:g}."]
        if self.bounds is not None:
            lines.append(
                f"Worst-case bounds, whatever the missing labels: {self.bounds[0]:.4f} to "
                f"{self.bounds[1]:.4f}."
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def tipping_points(
    grid: Floats, series: Floats, evaluate: Callable[[Floats], Floats]
) -> pd.DataFrame:
    """Where the estimate, or an end of its interval, passes zero.

    Parameters
    ----------
    grid : ndarray
        (G,) ascending.
    series : ndarray
        (G, 3) estimate, lower and upper end at each.
    evaluate : callable
        (m,) values -> (m, 3), by refitting.

    Examples
    --------
    >>> import numpy as np
    >>> def line(v):
    ...     return np.column_stack([v - 0.5, v - 0.8, v - 0.2])
    >>> grid = np.linspace(0.0, 1.0, 3)
    >>> tipping_points(grid, line(grid), line)["at"].round(6).tolist()
    [0.2, 0.5, 0.8]
    """
    below = series < 0.0
    place, which = np.nonzero(below[1:] != below[:-1])
    if not place.size:
        return pd.DataFrame({"at": pd.Series(dtype=float), "change": pd.Series(dtype=object)})
    ends = np.column_stack([grid[place], grid[place + 1]])
    values = np.column_stack([series[place, which], series[place + 1, which]])
    width = np.ptp(series[:, 1:], axis=1).max()

    def function(x: Floats, i: NDArray[np.int64]) -> Floats:
        return evaluate(x)[np.arange(len(x)), which[i]]

    at = find_roots(function, ends, values, tol=1e-6 * width)
    words = []
    for j, k in zip(which, place, strict=True):
        if SERIES[j] == "estimate":
            words.append("the sign changes")
            continue
        inside = [bool(row[1] <= 0.0 <= row[2]) for row in series[[k, k + 1]]]
        words.append(
            "no longer different from zero above it"
            if inside[1] and not inside[0]
            else "different from zero above it"
            if inside[0] and not inside[1]
            else "the interval passes zero"
        )
    order = np.argsort(at, kind="stable")
    return pd.DataFrame({"at": at[order], "change": [words[i] for i in order]})


def worst_case(y: Floats, labelled: NDArray[np.bool_], weights: Floats) -> tuple[float, float]:
    """Manski's bounds of the prevalence: every unlabelled row 0, every one 1.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([1.0, 0.0, np.nan, np.nan])
    >>> worst_case(y, ~np.isnan(y), np.ones(4))
    (0.25, 0.75)
    """
    ones = float(weights[labelled] @ y[labelled])
    total = float(weights.sum())
    return ones / total, (ones + float(weights[~labelled].sum())) / total


def shifted_prevalence(
    delta: Floats,
    y: Floats,
    labelled: NDArray[np.bool_],
    weights: Floats,
    p: Floats,
    slope: Floats,
    influence: Floats,
    covariance: Callable[[Floats], Floats],
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Prevalence in the population when unlabelled log-odds are shifted by delta.

    Parameters
    ----------
    delta : ndarray
        (G,) added to the log-odds of unlabelled rows.
    p : ndarray
        (u,) P(y = 1 | x, w, s = 1) of the unlabelled rows.
    slope : ndarray
        (u, P) its derivative in the parameters.
    influence : ndarray
        (n, P) what each row adds to the estimates.
    covariance : callable
        Of estimates, from the rows' influence on them: (n, G) -> (G, G).

    Notes
    -----
    A row adds to the estimate its own label or probability, and what it does to the parameters.
    The errors carry both, so that the intervals are those of the population from which the rows
    are drawn; they are made on the log-odds.
    """
    share = weights / weights.sum()
    seen = float(share[labelled] @ y[labelled])
    shifted = expit(logit(p) + delta[:, None])  # (G, u)
    estimate = seen + shifted @ share[~labelled]
    # d shifted / d p = shifted (1 - shifted) / (p (1 - p))
    gradient = (share[~labelled] * shifted * (1.0 - shifted) / (p * (1.0 - p))) @ slope
    own = np.empty((len(y), len(delta)))
    own[labelled], own[~labelled] = y[labelled, None], shifted.T
    moved = share[:, None] * (own - estimate) + influence @ gradient.T
    se = np.sqrt(np.diag(covariance(moved)))
    ends = Prediction(estimate, se, pd.Index(delta), probability=True).conf_int(alpha)
    return pd.DataFrame(
        {"estimate": estimate, "se": se, "ci_lower": ends[:, 0], "ci_upper": ends[:, 1]},
        index=pd.Index(delta, name="delta"),
    )


# -- how well the data identify the parameters -----------------------------------------------------


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
            said.append(f"sigma and rho are not identified separately: {self.face}.")
        elif self.correlation is not None and abs(self.correlation) > 0.99:
            said.append(
                "sigma and rho are not identified separately: another pair of them fits as well. "
                "Coefficients of the outcome grow with sigma; report effects and probabilities."
            )
        if self.excluded is not None:
            said.append(_about_exclusion(self.excluded))
        return said

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


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
    names = by_factor(excluded)
    verb = "move" if len(names) > 1 else "moves"
    return (
        f"Exclusion restriction: {', '.join(names)} {verb} selection only; exclusion_test(results) "
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
