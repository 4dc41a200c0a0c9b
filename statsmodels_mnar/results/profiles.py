"""Profiles, identification and sensitivity of a fitted selection model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import check_alpha
from ..post import covariance
from ..post.identification import Identification, identify
from ..post.paths import Closed, Path
from ..post.profile import Profile
from ..post.profile import profile as profile_along
from ..progress import progress_bar
from .sensitivities import values_of

if TYPE_CHECKING:
    from .selection import SelectionResults

Floats = NDArray[np.float64]


def identification(self: SelectionResults) -> Identification:
    """How well the data tell the parameters apart, from the fit alone; print it.

    :meth:`identification_report` adds what costs further fits.
    """
    return identify(self._hessian(), self.model.param_names, self.fit_info.faces)


def identification_report(self: SelectionResults, alpha: float = 0.05) -> Identification:
    """The same with the profile interval of the error correlation, and a verdict in words.

    Parameters
    ----------
    alpha : float
        Of the interval. There is none where a likelihood ratio is not valid (a robust
        covariance, sampling weights, a penalty, BiasCorr) or all dependence is fixed.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> sim = simulate_greene(2_000, rng=1)
    >>> results = GreeneSelectionLogit.from_formula(
    ...     sim.formula, sim.select_formula, sim.data).fit()
    >>> report = results.identification_report()
    >>> print(report.verdict()[-1])
    Exclusion restriction: z moves selection only; exclusion_test() tells how strongly.
    """
    check_alpha(alpha)
    self.model.check_rows_at_hand()
    profiled = _profiled_error_corr(self, alpha) if self._profile_refusal() is None else None
    excluded = self.instrument.columns
    both = self._asked() == ("free", None, None)
    face = self.status.value if both and self.status.boundary else None
    return replace(self.identification, profile=profiled, excluded=excluded, face=face)


def _profiled_error_corr(self: SelectionResults, alpha: float) -> Profile | None:
    """None where all dependence is fixed."""
    closed = self._closed()
    if "error_corr" not in closed.dependence_names():
        return None
    return profile_along(closed.path("error_corr"), self.llf, closed.names, alpha=alpha)


# -- profiles ----------------------------------------------------------------------------------


def profile(
    self: SelectionResults,
    param: str,
    grid: Any = None,
    alpha: float = 0.05,
    progress: bool = False,
) -> Profile:
    """Profile log-likelihood of one quantity, and the interval it implies.

    Parameters
    ----------
    param : str
        "error_corr", "rho", "sigma", "athrho", "lnsigma", "loading", or a coefficient by its
        name in ``model.param_names``.
    grid : array_like, optional
        Values to show; by default 15 within 3.5 standard errors of the estimate, and as many
        more as it takes for the log-likelihood to fall below the cut.
    alpha : float
        The interval holds the values that a likelihood ratio test at this level accepts.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Profile
        With ``interval``, ``grid``, ``values``, ``cut``, ``params`` and ``summary_frame()``;
        print it.

    Notes
    -----
    With sigma and rho both estimated, "error_corr", "rho" and "sigma" are profiled over the
    closed model: at each value the best of the interior and the faces \\|rho\\| = 1 (the
    loading form), sigma = 0 and sigma = infinity (a probit outcome). That is so wherever the
    maximum was found, on a face too. A fit that was asked for with
    ``normalization="loading"`` is profiled in that form alone. A coefficient is profiled over
    the closed model as well; an outcome coefficient in the units that the fit has.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> sim = simulate_greene(2_000, rng=1)  # error correlation 0.64
    >>> results = GreeneSelectionLogit.from_formula(
    ...     sim.formula, sim.select_formula, sim.data).fit()
    >>> low, high = results.profile("error_corr").interval
    >>> low < 0.637 < high
    True
    """
    self._check_profile()
    check_alpha(alpha)
    closed = self._closed()
    path = closed.path(param)
    values = None if grid is None else _on_path(path, grid)
    with progress_bar(progress, "profile") as bar:
        return profile_along(
            path, self.llf, closed.names, grid=values, alpha=alpha, tick=bar.update
        )


def _check_profile(self: SelectionResults) -> None:
    """Refuse where a likelihood ratio has no meaning."""
    reason = self._profile_refusal()
    if reason is not None:
        raise ValueError(f"profile() inverts a likelihood ratio test, but {reason}")
    self.model.check_rows_at_hand()


def _profile_refusal(self: SelectionResults) -> str | None:
    reason = self._likelihood_refusal()
    if reason is None and not self.converged:
        reason = f"the fit is not at a maximum ({self.status.value}); use method='newton'"
    return reason


def _likelihood_refusal(self: SelectionResults) -> str | None:
    """Why ratios of this likelihood are no test; None where they are."""
    reason = None
    if not self._is_likelihood:
        reason = "BiasCorr's objective is not a likelihood; use bootstrap() for intervals"
    elif self._sampling:
        reason = "sampling weights make it a pseudo-likelihood; use conf_int()"
    elif self.cov_type in covariance.ROBUST:
        reason = (
            f"cov_type={self.cov_type!r} says that the likelihood is not trusted; use "
            "conf_int(), or get_robustcov_results('nonrobust').profile()"
        )
    elif self.fit_info.penalty:
        reason = "the fit is penalised; fit with penalty=0.0"
    return reason


def _closed(self: SelectionResults) -> Closed:
    """The model that was asked for with its faces, and the estimates in it."""
    n_coef = self.model.k_outcome + self.model.k_select
    kind, sigma, rho = self._asked()
    return Closed(
        kind=kind,
        sigma=sigma,
        rho=rho,
        objective=self.model.objective(),
        integration=self.model.integration,
        names=tuple(self.model.param_names[:n_coef]),
        coef=np.asarray(self.params, dtype=float)[:n_coef],
        errors=np.sqrt(np.diag(covariance.invert(-self._hessian()[:n_coef, :n_coef]))),
        units="probit" if self._form.kind == "probit" else "logit",
        at=self._dependence,
    )


def _asked(self: SelectionResults) -> tuple[str, float | None, float | None]:
    """Form, fixed sigma and fixed rho of the model before its maximum turned out on a face."""
    asked, model = self.fit_info.asked, self.model
    given = model.normalization if asked is None else asked
    kind = model.parametrize(given, model.integration).kind
    if isinstance(given, Mapping):
        return kind, np.inf if kind == "probit" else given.get("sigma"), given.get("rho")
    return (kind, 0.0, 1.0) if given == "independent" else (kind, None, None)


def _on_path(path: Path, grid: Any) -> Floats:
    """The user's values as coordinates of the path."""
    values = values_of("grid", grid)
    for end in path.limits:  # which an estimate on a face misses by rounding
        values[np.isclose(values, end, rtol=1e-12, atol=0.0)] = end
    low, high = sorted(path.limits)
    bad = [v for v in values if not low <= v <= high]
    if not bad:
        us = np.array([path.inverse(float(v)) for v in values])
        there = np.any([branch.exists(us) for branch in path.branches], axis=0)
        if there.all():
            return us
        bad = values[~there].tolist()
        low, high = sorted(path.value(u) for u in path.branches[0].domain)
    raise ValueError(
        f"grid has the value {bad[0]:g}; {path.name} can be held between {low:.4g} and {high:.4g}"
    )
