"""What a normalization estimates, and sigma, rho and the latent error correlation from it.

The error of the outcome is sigma e plus its own, that of selection has correlation rho with e, so

    error_corr = rho sigma / sqrt(sigma^2 + V)   (probit outcome: rho itself)

V is the variance of the outcome's own error, pi^2/3 for the logit link.

With a binary outcome this, not sigma and rho apart, is what the data speak about.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from ..kernel.forms import Form, FreeForm, LoadingForm, Parametrization, ProbitForm
from ..kernel.integration import Integration, Quadrature
from ..kernel.links import LOGIT, Link

Normalization = str | Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Parametrized:
    """A form with some of its dependence parameters fixed."""

    form: Form
    fixed: tuple[float | None, ...]  # value of each dependence parameter, None where estimated

    @property
    def kind(self) -> Parametrization:
        return self.form.kind

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


def dependence_table(
    form: Form,
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
    at = form.dependence(values)
    se = np.sqrt(np.diag(cov))
    nothing = (np.nan, np.nan, np.nan)
    rows: dict[str, tuple[float, float, float, float]] = {}

    def within(center: float, error: float, transform, slope: float):  # type: ignore[no-untyped-def]
        if not np.isfinite(error):
            return nothing
        low, high = sorted((transform(center - z * error), transform(center + z * error)))
        return (slope * error, low, high)

    if form.kind == "free":
        sigma = within(values[0], se[0], np.exp, at.sigma) if free[0] else nothing
        rho = within(values[1], se[1], np.tanh, 1.0 - at.rho**2) if free[1] else nothing
        rows = {"sigma": (at.sigma, *sigma), "rho": (at.rho, *rho)}
    elif form.kind == "loading":
        low, high = values[0] - z * se[0], values[0] + z * se[0]
        ends = sorted((abs(low), abs(high)))
        sigma = (se[0], 0.0 if low < 0.0 < high else ends[0], ends[1]) if free[0] else nothing
        rows = {"sigma": (at.sigma, *sigma), "rho": (at.rho, *nothing)}
    slope = form.corr_slope(values)
    error = float(np.sqrt(slope @ cov @ slope))
    corr = nothing
    if free.any():
        corr = within(form.atcorr(values), error, np.tanh, 1.0 - at.error_corr**2)
    if free.sum() == 1:  # the error correlation is monotone in the one parameter there is
        low, high = sorted(
            form.dependence(values + move * free * se).error_corr for move in (-z, z)
        )
        corr = (corr[0], low, high)
    rows[form.corr_name] = (at.error_corr, *corr)
    columns = ["estimate", "std err", f"[{alpha / 2:.3g}", f"{1 - alpha / 2:.4g}]"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


# -- which form a normalization names, and which dependence parameters it fixes --------------------


NAMES = ("free", "loading", "probit", "independent")


def parametrize(
    normalization: Normalization, integration: Integration, link: Link = LOGIT
) -> Parametrized:
    """Return the form that a normalization of the model names.

    Parameters
    ----------
    normalization : str or mapping
        "free", "loading" (|rho| = 1), "probit" (sigma = infinity), "independent" (sigma = 0), or
        fixed values such as {"sigma": 1.0} or {"rho": 0.5}.
    link : Link
        Of the outcome given its errors.
    """
    found = _of_logit(normalization, integration)
    if link == LOGIT:
        return found
    if not isinstance(found.form, LoadingForm):
        raise ValueError(
            f"normalization={normalization!r}: with link={link.name!r} the selection error itself "
            "enters the outcome, integrated by quadrature; use normalization='loading', "
            "'independent' or {'sigma': value, 'rho': 1} (or -1), and leave out integration and "
            "method='sgd', which have sigma and rho apart"
        )
    return replace(found, form=replace(found.form, link=link))


def _of_logit(normalization: Normalization, integration: Integration) -> Parametrized:
    tol = integration.tol if isinstance(integration, Quadrature) else Quadrature().tol
    if isinstance(normalization, Mapping):
        return _fixed(normalization, integration, tol)
    if normalization == "free":
        return Parametrized(FreeForm(integration), (None, None))
    if normalization == "loading":
        return Parametrized(LoadingForm(tol), (None,))
    if normalization == "probit":
        return Parametrized(ProbitForm(tol), (None,))
    if normalization == "independent":
        return Parametrized(LoadingForm(tol), (0.0,))
    raise ValueError(
        f"normalization={normalization!r} is unknown; use one of {list(NAMES)} or fixed values "
        "such as {'sigma': 1.0} or {'rho': 0.5}"
    )


def _fixed(values: Mapping[str, Any], integration: Integration, tol: float) -> Parametrized:
    unknown = set(values) - {"sigma", "rho"}
    if unknown or not values:
        raise ValueError(
            f"normalization={dict(values)!r} fixes {sorted(unknown) or 'nothing'}; it may fix "
            "'sigma', 'rho' or both"
        )
    for name, value in values.items():
        if value is not None and not isinstance(value, int | float | np.integer | np.floating):
            raise ValueError(f"normalization[{name!r}]={value!r} must be a number")
    sigma, rho = values.get("sigma"), values.get("rho")
    if sigma == math.inf and rho is not None and -1 < rho < 1:
        return Parametrized(ProbitForm(tol), (math.atanh(rho),))
    if sigma is not None and not (np.isfinite(sigma) and sigma > 0):
        raise ValueError(
            f"normalization['sigma']={sigma!r} must be positive; for sigma = 0 use 'independent', "
            "for an infinite sigma 'probit'"
        )
    if rho is not None and not (np.isfinite(rho) and -1 <= rho <= 1):
        raise ValueError(f"normalization['rho']={rho!r} must lie between -1 and 1")
    if rho is not None and abs(rho) == 1:
        if sigma is None:
            raise ValueError(
                f"normalization['rho']={rho!r} is the boundary; use normalization='loading', which "
                "estimates the signed loading rho * sigma there"
            )
        return Parametrized(LoadingForm(tol), (float(rho * sigma),))
    lnsigma = None if sigma is None else math.log(sigma)
    athrho = None if rho is None else math.atanh(rho)
    return Parametrized(FreeForm(integration), (lnsigma, athrho))
