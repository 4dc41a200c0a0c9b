"""Greene's selection logit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from ..kernel.forms import FreeForm
from ..kernel.integration import Integration, Simulation
from ..kernel.links import LINKS, Link, as_link
from ..optimize.objective import Objective
from ..post.dependence import Normalization, Parametrized, parametrize
from .selection import SelectionModel


class GreeneSelectionLogit(SelectionModel):
    """Logit outcome with probit selection, correlated through a normal error (Greene 2006).

    A row's outcome is 1 with probability L(x'beta + sigma e), it is selected when
    w'gamma + u > 0, and (e, u) are standard normal with correlation rho. The outcome is known for
    selected rows only.

    Parameters
    ----------
    endog : array_like
        (n,) outcome, 0/1 or boolean. NaN where unselected; not read where ``endog_select`` is 0.
    exog : array_like
        (n, p) outcome design; add a constant yourself.
    endog_select : array_like, optional
        (n,) 1 where selected. By default the rows whose outcome is known.
    exog_select : array_like, optional
        (n, k) selection design; by default ``exog``, which leaves no exclusion restriction.
    link : str
        Of the outcome given its errors: "logit", the default, or "cloglog", under which
        P(y = 1) = 1 - exp(-exp(x'beta + loading u)). A link other than "logit" has the
        normalizations "loading", "independent" and a fixed sigma with ``|rho| = 1``.
    normalization : str or dict, optional
        "loading", the default: ``|rho| = 1`` and one signed loading, well conditioned. "free":
        sigma and rho are both estimated, as in the paper; this is what ``method="sgd"``, draws and
        a number of nodes of your own take where nothing is named. {"sigma": 1.0}, {"rho": 0.5}:
        fixed. "probit" and "independent" are the faces sigma = infinity and sigma = 0.
    integration : str, Quadrature or Simulation
        "quadrature" (default) or "simulation", the paper's way.
    device : str
        "auto", "cpu", "cuda", ...
    missing : {"none", "raise", "drop"}
    hasconst : bool, optional
        As in statsmodels.
    offset, offset_select : array_like, optional
        (n,) known parts of the two indices.
    freq_weights, prob_weights : array_like, optional
        (n,) counts, or inverse sampling probabilities (which imply a robust covariance).
    terms, terms_select : dict of GroupEffects and Smooth, optional
        Penalised terms of the two equations, by the name of their variable.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> rng = np.random.default_rng(0)
    >>> data = pd.DataFrame(rng.standard_normal((2000, 2)), columns=["x", "z"])
    >>> u = rng.standard_normal(2000)
    >>> data["s"] = (0.5 * data.x + data.z + u > 0).astype(int)
    >>> p = 1 / (1 + np.exp(-(data.x + 0.8 * u)))
    >>> data["y"] = (rng.random(2000) < p).astype(float).where(data.s == 1)
    >>> results = GreeneSelectionLogit.from_formula("y ~ x", "s ~ x + z", data).fit()
    >>> bool(abs(results.params["loading"] - 0.8) < 2 * results.bse["loading"])
    True
    """

    _set_up_keywords: ClassVar[tuple[str, ...]] = (*SelectionModel._set_up_keywords, "link")
    _keywords: ClassVar[tuple[str, ...]] = (*SelectionModel._keywords, "link")
    # Those that are integrated at any loading.
    _links: ClassVar[tuple[str, ...]] = tuple(link.name for link in LINKS.values() if link.panels)

    def __init__(
        self,
        endog: Any,
        exog: Any,
        endog_select: Any = None,
        exog_select: Any = None,
        *,
        link: str | Link = "logit",
        **keywords: Any,
    ) -> None:
        self.link = as_link(link, self._links, type(self).__name__)
        super().__init__(endog, exog, endog_select, exog_select, **keywords)

    def _set_up(self, design: Any, *, link: str | Link | None = None, **options: Any) -> None:
        if link is not None:
            self.link = as_link(link, self._links, type(self).__name__)
        super()._set_up(design, **options)

    def parametrize(self, normalization: Normalization, integration: Integration) -> Parametrized:
        return parametrize(normalization, integration, self.link)

    def _sgd_objective(self, options: dict[str, Any]) -> Objective:
        form = self.parametrized.form
        if not isinstance(form, FreeForm) or not self.parametrized.free.all():
            raise ValueError(
                f"normalization={self.normalization!r}: method='sgd' is the paper's optimiser and "
                "estimates sigma and rho both; leave normalization out, or use 'free'"
            )
        integration = form.integration
        redraw = options.pop("redraw", None)
        if isinstance(integration, Simulation) and redraw is not None:
            integration = replace(integration, redraw=bool(redraw))
        elif redraw:
            raise ValueError("redraw=True needs integration='simulation'")
        return self.objective().with_form(FreeForm(integration))
