"""Which form of the model a normalization names, and which dependence parameters it fixes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..kernel.forms import FreeForm, LoadingForm, ProbitForm
from ..kernel.integration import Integration, Quadrature
from ..post.dependence import Parametrized

Normalization = str | Mapping[str, float]

NAMES = ("free", "loading", "probit", "independent")


def parametrize(normalization: Normalization, integration: Integration) -> Parametrized:
    """The form that a normalization of the logit model names.

    Parameters
    ----------
    normalization : str or mapping
        "free", "loading" (|rho| = 1), "probit" (sigma = infinity), "independent" (sigma = 0), or
        fixed values such as {"sigma": 1.0} or {"rho": 0.5}.
    """
    tol = integration.tol if isinstance(integration, Quadrature) else Quadrature().tol
    if isinstance(normalization, Mapping):
        return _fixed(normalization, integration, tol)
    if normalization == "free":
        return Parametrized(FreeForm(integration), "free", (None, None))
    if normalization == "loading":
        return Parametrized(LoadingForm(tol), "loading", (None,))
    if normalization == "probit":
        return Parametrized(ProbitForm(tol), "probit", (None,))
    if normalization == "independent":
        return Parametrized(LoadingForm(tol), "loading", (0.0,))
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
        return Parametrized(ProbitForm(tol), "probit", (math.atanh(rho),))
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
        return Parametrized(LoadingForm(tol), "loading", (float(rho * sigma),))
    lnsigma = None if sigma is None else math.log(sigma)
    athrho = None if rho is None else math.atanh(rho)
    return Parametrized(FreeForm(integration), "free", (lnsigma, athrho))
