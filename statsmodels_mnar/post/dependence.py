"""sigma, rho and the latent error correlation, from whatever the model estimates.

The error of the outcome is sigma e + logistic, that of selection has correlation rho with e, so

    error_corr = rho sigma / sqrt(sigma^2 + pi^2/3)   (probit outcome: rho itself)

With a binary outcome this, not sigma and rho apart, is what the data speak about.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from ..kernel.forms import Form

Parametrization = Literal["free", "loading", "probit"]


@dataclass(frozen=True, slots=True)
class Parametrized:
    """A form with some of its dependence parameters fixed."""

    form: Form
    kind: Parametrization
    fixed: tuple[float | None, ...]  # value of each dependence parameter, None where estimated

    @property
    def free(self) -> NDArray[np.bool_]:
        return np.array([value is None for value in self.fixed], dtype=bool)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the dependence parameters that are estimated."""
        return tuple(n for n, v in zip(self.form.names, self.fixed, strict=True) if v is None)

    def values(self, estimated: NDArray[np.float64]) -> NDArray[np.float64]:
        """All dependence parameters, from the estimated ones."""
        filled = np.array([0.0 if v is None else v for v in self.fixed])
        filled[self.free] = estimated
        return filled


LOGISTIC_VARIANCE = math.pi**2 / 3.0


@dataclass(frozen=True, slots=True)
class Dependence:
    """Point values; sigma is infinite for a probit outcome."""

    sigma: float
    rho: float
    error_corr: float


def dependence(form: Parametrization, values: NDArray[np.float64]) -> Dependence:
    """From (lnsigma, athrho), (loading,) or (athrho,).

    Examples
    --------
    >>> import numpy as np
    >>> round(float(dependence("loading", np.array([-1.0])).error_corr), 4)
    -0.4828
    """
    if form == "free":
        sigma, rho = math.exp(values[0]), math.tanh(values[1])
    elif form == "loading":
        sigma, rho = abs(values[0]), float(np.sign(values[0]))
    else:
        rho = math.tanh(values[0])
        return Dependence(math.inf, rho, rho)
    return Dependence(sigma, rho, rho * sigma / math.sqrt(sigma**2 + LOGISTIC_VARIANCE))


def _atanh_error_corr(form: Parametrization, values: NDArray[np.float64]) -> float:
    corr = dependence(form, values).error_corr
    return math.atanh(min(max(corr, -1.0 + 1e-15), 1.0 - 1e-15))


def _gradient(form: Parametrization, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """d atanh(error_corr)/d values."""
    if form == "probit":
        return np.ones(1)
    at = dependence(form, values)
    inflate = 1.0 / (1.0 - at.error_corr**2)
    if form == "loading":
        slope = LOGISTIC_VARIANCE / (values[0] ** 2 + LOGISTIC_VARIANCE) ** 1.5
        return np.array([slope * inflate])
    share = LOGISTIC_VARIANCE / (at.sigma**2 + LOGISTIC_VARIANCE)
    weight = at.sigma / math.sqrt(at.sigma**2 + LOGISTIC_VARIANCE)
    return np.array([at.error_corr * share, (1.0 - at.rho**2) * weight]) * inflate


def dependence_table(
    form: Parametrization,
    values: NDArray[np.float64],
    cov: NDArray[np.float64],
    free: NDArray[np.bool_],
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Estimates with delta-method errors and intervals that respect the range.

    Parameters
    ----------
    values : ndarray
        (d,) dependence parameters, fixed ones included.
    cov : ndarray
        (d, d) their covariance; zero rows for fixed ones.
    free : ndarray of bool
        (d,) which were estimated.

    Returns
    -------
    DataFrame
        Rows sigma, rho and error_corr (probit outcome: rho only); NaN errors where fixed.

    Notes
    -----
    Intervals are Wald intervals of lnsigma, athrho and the loading, transformed, and of
    atanh(error_corr) where both sigma and rho are estimated. The loading form has rho = +-1 by
    construction and sigma = |loading|.
    """
    z = stats.norm.ppf(1.0 - alpha / 2.0)
    at = dependence(form, values)
    se = np.sqrt(np.diag(cov))
    nothing = (np.nan, np.nan, np.nan)
    rows: dict[str, tuple[float, float, float, float]] = {}

    def within(center: float, error: float, transform, slope: float):  # type: ignore[no-untyped-def]
        if not np.isfinite(error):
            return nothing
        low, high = sorted((transform(center - z * error), transform(center + z * error)))
        return (slope * error, low, high)

    if form == "free":
        sigma = within(values[0], se[0], np.exp, at.sigma) if free[0] else nothing
        rho = within(values[1], se[1], np.tanh, 1.0 - at.rho**2) if free[1] else nothing
        rows = {"sigma": (at.sigma, *sigma), "rho": (at.rho, *rho)}
    elif form == "loading":
        low, high = values[0] - z * se[0], values[0] + z * se[0]
        ends = sorted((abs(low), abs(high)))
        sigma = (se[0], 0.0 if low < 0.0 < high else ends[0], ends[1]) if free[0] else nothing
        rows = {"sigma": (at.sigma, *sigma), "rho": (at.rho, *nothing)}
    slope = _gradient(form, values)
    error = float(np.sqrt(slope @ cov @ slope))
    corr = nothing
    if free.any():
        corr = within(_atanh_error_corr(form, values), error, np.tanh, 1.0 - at.error_corr**2)
    if free.sum() == 1:  # the error correlation is monotone in the one parameter there is
        low, high = sorted(
            dependence(form, values + move * free * se).error_corr for move in (-z, z)
        )
        corr = (corr[0], low, high)
    rows["rho" if form == "probit" else "error_corr"] = (at.error_corr, *corr)
    columns = ["estimate", "std err", f"[{alpha / 2:.3g}", f"{1 - alpha / 2:.4g}]"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)
