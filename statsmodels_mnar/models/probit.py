"""Probit with sample selection."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from ..kernel.integration import Integration, Quadrature
from ..kernel.links import PROBIT, Link
from ..post.dependence import Normalization, Parametrized, parametrize
from .selection import SelectionModel


class ProbitSelection(SelectionModel):
    """Probit outcome with probit selection and bivariate normal errors (Stata's heckprobit).

    Parameters
    ----------
    endog, exog, endog_select, exog_select, device, missing, hasconst
        As in :class:`GreeneSelectionLogit`.
    normalization : dict, optional
        {"rho": 0.5} fixes the error correlation; by default it is estimated.
    integration : {"quadrature"} or Quadrature
        The bivariate normal probabilities are computed by quadrature; there is no simulation.
    offset, offset_select, freq_weights, prob_weights : array_like, optional
    terms, terms_select : dict of GroupEffects and Smooth, optional
        As in :class:`GreeneSelectionLogit`.

    Notes
    -----
    Van de Ven, W. and B. van Praag (1981), The demand for deductibles in private health insurance:
    a probit model with sample selection, Journal of Econometrics 17, 229-252.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from statsmodels_mnar import ProbitSelection
    >>> rng = np.random.default_rng(0)
    >>> data = pd.DataFrame(rng.standard_normal((2000, 2)), columns=["x", "z"])
    >>> u = rng.standard_normal(2000)
    >>> v = 0.6 * u + 0.8 * rng.standard_normal(2000)
    >>> data["y"] = (data.x + v > 0).astype(float).where(0.5 * data.x + data.z + u > 0)
    >>> results = ProbitSelection.from_formula("y ~ x", "~ x + z", data).fit()
    >>> round(results.rho, 1)
    0.6
    """

    link: Link = PROBIT
    _default_normalization: ClassVar[Normalization] = "probit"

    def parametrize(self, normalization: Normalization, integration: Integration) -> Parametrized:
        if not isinstance(integration, Quadrature):
            raise ValueError(
                f"integration={integration!r}: ProbitSelection is computed by quadrature alone; "
                "leave integration out, or pass a Quadrature"
            )
        if normalization == "probit":
            return parametrize("probit", integration)
        if isinstance(normalization, Mapping) and {"rho"} <= set(normalization) <= {"rho", "sigma"}:
            rho = normalization["rho"]
            if normalization.get("sigma", math.inf) == math.inf and -1 < rho < 1:
                return parametrize({"sigma": math.inf, "rho": rho}, integration)
        raise ValueError(
            f"normalization={normalization!r}: ProbitSelection takes 'probit' or {{'rho': value}} "
            "with a value between -1 and 1"
        )
