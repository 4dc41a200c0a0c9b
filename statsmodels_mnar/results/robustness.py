"""Profiles, identification and sensitivity of a fitted selection model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import logit

from ..optimize.maximize import maximize_batch
from ..optimize.solution import Status
from ..post.covariance import influence_covariance
from ..post.dependence import Normalization
from ..post.margins import Column
from ..post.paths import Path
from ..post.profile import Profile
from ..post.profile import profile as profile_along
from ..post.sensitivity import (
    SERIES,
    Identification,
    Sensitivity,
    identify,
    shifted_prevalence,
    tipping_points,
    worst_case,
)
from ..tools import check_alpha, progress_bar
from ..types import Floats
from .effects import average_effect, check_probability, effect_columns
from .inference import widened

if TYPE_CHECKING:
    from .fitted import SelectionResults


_CHUNK = 32  # refits in one batch
GRID = np.arange(-8, 9) / 10.0  # of the error correlation


class _Line(NamedTuple):
    """How a quantity is held at a value, and which form a line of such values lies in."""

    at: Callable[[float], Any]  # the normalization that fixes a value
    words: str
    free: Any  # the one that estimates it on the same line; None: the line rests on an estimate


def sensitivity(
    self: SelectionResults,
    rho: Any = None,
    error_corr: Any = None,
    delta: Any = None,
    *,
    target: str | None = None,
    variable: str | None = None,
    alpha: float = 0.05,
    which: str = "mean",
    progress: bool = False,
) -> Sensitivity:
    """The target across values of a dependence that the data can hardly tell.

    Without arguments: the share of ones at error correlations from -0.8 to 0.8.

    Parameters
    ----------
    rho : array_like, optional
        Refit with rho fixed at each value, sigma at its fixed or estimated value; where it is
        estimated, ``profile("rho")`` tells which values the data support.
    error_corr : array_like, optional
        Refit with the latent error correlation fixed at each value: at the sigma that
        the normalization fixes; in the probit form as rho; otherwise in the loading form
        (\\|rho\\| = 1), which reaches every value.
    delta : array_like, optional
        No refit: the log-odds of unlabelled rows are P(y = 1 | x, w, s = 1)'s plus delta, so
        delta = 0 is missing at random. For ``target="prevalence"``; the intervals are those
        of the population that the rows are drawn from.
    target : {"coef", "margeff", "prevalence"}
        The coefficient or the average marginal effect of ``variable``, or P(y = 1) averaged
        over all rows (with ``delta``: the labels seen and the predicted others). By default "coef"
        where a variable is named and "prevalence" otherwise.
    variable : str, optional
        A coefficient by its name, or a design column.
    alpha : float
        Of the intervals, and of what counts as significant or supported.
    which : str
        Of "margeff": the probability whose effect it is.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Sensitivity
        With ``table``, ``tipping`` (where sign or significance change, found by refits) and
        ``bounds`` (of a prevalence: the worst cases); print it.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> sim = simulate_greene(2_000, rng=1)
    >>> results = GreeneSelectionLogit.from_formula(
    ...     sim.formula, sim.select_formula, sim.data).fit()
    >>> found = results.sensitivity(error_corr=[0.0, 0.3, 0.6], variable="x1")
    >>> found.table["estimate"].is_monotonic_increasing
    True
    """
    if rho is None and error_corr is None and delta is None:
        error_corr = GRID
    if target is None:
        target = "prevalence" if variable is None else "coef"
    return sensitivity_along(
        self, {"rho": rho, "error_corr": error_corr, "delta": delta},
        target=target, variable=variable, alpha=alpha, which=which, progress=progress, kept={},
    )  # fmt: skip


def sensitivity_along(
    self: SelectionResults,
    given: dict[str, Any],
    *,
    target: str,
    variable: str | None,
    alpha: float,
    which: str,
    progress: bool,
    kept: dict[tuple[str, float], Any],
) -> Sensitivity:
    """:func:`sensitivity`, whose refits are put into ``kept`` and taken from there.

    Several targets on one grid need its refits once.
    """
    held = [name for name, values in given.items() if values is not None]
    if len(held) != 1:
        raise ValueError(f"give one of rho, error_corr and delta, got {held or 'none'}")
    name = held[0]
    values = values_of(name, given[name])
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite, got {given[name]!r}")
    check_alpha(alpha)
    _check_target(self, name, target, variable, which)
    self.model.check_rows_at_hand()
    if name == "delta":
        return _shifted(self, values, alpha)
    line = _fixing(self, name)
    moving: str | Column | None = variable
    if target == "margeff" and not self.model.in_partitions:
        moving = next(each for each in effect_columns(self, which) if each.name == variable)

    def refit(grid: Floats) -> pd.DataFrame:
        new = [v for v in grid.tolist() if (name, v) not in kept]
        if new:
            found = _refits(self, [line.at(v) for v in new])
            kept.update(((name, v), each) for v, each in zip(new, found, strict=True))
        fitted = [kept[name, v] for v in grid.tolist()]
        lost = [float(v) for v, r in zip(grid, fitted, strict=True) if not r.converged]
        if lost:
            raise ValueError(
                f"{name}: the refit at {lost[0]:.4g} did not converge; use a narrower range"
            )
        bar.update(len(grid))
        rows = [_target(results, target, moving, which, alpha) for results in fitted]
        table = pd.DataFrame(rows, columns=[*SERIES[:1], "se", *SERIES[1:]], index=grid)
        return table.assign(loglik=[results._top for results in fitted])

    with progress_bar(progress, "sensitivity") as bar:
        table = refit(values).rename_axis(name)
        tipping = None
        if target != "prevalence":
            columns = list(SERIES)
            tipping = tipping_points(
                values, table[columns].to_numpy(), lambda at: refit(at)[columns].to_numpy()
            )
    top = _top(self, line)
    if top is not None:
        top = max(top, table["loglik"].max())
        table["supported"] = 2.0 * (top - table["loglik"]) <= stats.chi2.ppf(1.0 - alpha, 1)
    words = {"coef": "the coefficient", "margeff": f"the average marginal effect on {which!r}"}
    return Sensitivity(
        held=name,
        target="the prevalence" if target == "prevalence" else f"{words[target]} of {variable}",
        path=line.words,
        level=1.0 - alpha,
        table=table,
        tipping=tipping,
        top=top,
        bounds=_worst_case(self) if target == "prevalence" else None,
        fitted=getattr(self, name),
    )


def _check_target(
    self: SelectionResults, name: str, target: str, variable: str | None, which: str
) -> None:
    if target not in ("coef", "margeff", "prevalence"):
        raise ValueError(f"target={target!r} is unknown; use 'coef', 'margeff' or 'prevalence'")
    # A refit at a fixed dependence is well defined where the likelihood is flat in it.
    refits = self.status is Status.SINGULAR and name != "delta"
    if not self.converged and not refits:
        raise ValueError(
            f"sensitivity() needs a fit at a maximum ({self.status.value}); use method='newton'"
        )
    if name == "delta" and target != "prevalence":
        raise ValueError(
            f"target={target!r} needs rho or error_corr: delta shifts the missing labels, "
            "which fixes the prevalence but no coefficient; use target='prevalence'"
        )
    if name != "delta" and not self._is_likelihood:
        raise ValueError(
            f"{name}: BiasCorr's pseudolabels say nothing about the dependence, so a refit at "
            "a fixed one does not either; use sbar_path() for its own sensitivity, or "
            "GreeneSelectionLogit(...).fit().sensitivity()"
        )
    if which != "mean" and target != "margeff":
        raise ValueError(f"which={which!r} is for target='margeff' only")
    if target == "prevalence":
        if variable is not None:
            raise ValueError(
                f"variable={variable!r} has no meaning for target='prevalence'; leave it out"
            )
        return
    if target == "coef":
        names = self.model.param_names[: self.model.n_coef]
    elif self.model.in_partitions:
        names = list(self.get_margeff(which=which).names)
    else:
        check_probability(which)
        names = [column.name for column in effect_columns(self, which)]
    if variable not in names:
        raise ValueError(f"variable={variable!r} must be one of {names} for target={target!r}")


def _fixing(self: SelectionResults, name: str) -> _Line:
    """Return the line along which the quantity is held."""
    kind, sigma, rho = self._asked()
    if name == "error_corr" and kind == "free" and rho is not None:
        raise ValueError(
            f"error_corr cannot vary freely: this model fixes rho = {rho:g}; refit with "
            "normalization='loading' or a fixed sigma"
        )
    if self._form.kind == "probit":
        at = _between(name, 1.0, lambda v: {"sigma": np.inf, "rho": v})
        words = "A probit outcome, in which the error correlation is rho."
        # Another rho would have another sigma where that is estimated: no test of rho.
        ran_off = name == "rho" and kind == "free"
        return _Line(at, words, None if ran_off else "probit")
    if name == "rho":
        free = None if sigma is None else {"sigma": sigma}
        sigma = self.sigma if sigma is None else sigma
        if kind == "loading" or not sigma > 0.0:
            raise ValueError(
                "rho cannot vary in this form, which has |rho| = 1 or sigma = 0; use error_corr"
            )
        words = f"sigma is held at {sigma:.4g}."
        return _Line(_between(name, 1.0, lambda v: {"sigma": sigma, "rho": v}), words, free)
    if kind == "free" and sigma is not None:
        share = sigma / np.sqrt(sigma**2 + self.model.link.variance)
        words = f"sigma is held at {sigma:.4g}, so rho moves."
        at = _between(name, share, lambda v: {"sigma": sigma, "rho": v / share})
        return _Line(at, words, {"sigma": sigma})
    words = "The loading form: |rho| = 1, and the loading moves."

    def loading(v: float) -> Any:
        size = abs(v) * np.sqrt(self.model.link.variance / (1.0 - v * v))
        return {"sigma": size, "rho": float(np.sign(v))} if v else "independent"

    return _Line(_between(name, 1.0, loading), words, "loading")


def _top(self: SelectionResults, line: _Line) -> float | None:
    """Maximum of the log-likelihood on the line; None where there is no test against it."""
    if line.free is None or self._likelihood_refusal() is not None:
        return None
    if line.free == self.model.normalization or not self.converged:
        return self._top
    found = self._maximum(line.free)
    return found.value if found.status.converged or found.status.boundary else None


def _refits(self: SelectionResults, normalizations: list[Normalization]) -> list[SelectionResults]:
    """Results with all dependence fixed, of one form, fitted as one batch."""
    models = [self.model.sibling(normalization) for normalization in normalizations]
    closed = self._closed()
    values = [model.parametrized.values(np.empty(0)) for model in models]
    starts = np.stack(
        [
            np.append(closed.coef_at(model.parametrized.form.dependence(v).sigma), v)
            for model, v in zip(models, values, strict=True)
        ]
    )
    objective = models[0].objective(self._fit_info.penalty)
    solutions = []
    for cut in range(0, len(models), _CHUNK):
        part = starts[cut : cut + _CHUNK]
        solutions += maximize_batch(objective, part, free=models[0].estimated)
    info = replace(self._fit_info, asked=None)
    kwds: dict[str, Any] = {}
    if self.cov_type == "cluster":
        groups = self._groups[0] if len(self._groups) == 1 else list(self._groups)
        kwds = {"groups": groups, "use_correction": self._use_correction}
    return [
        type(self)(replace(info, model=model, solution=solution), self.cov_type, kwds)
        for model, solution in zip(models, solutions, strict=True)
    ]


def _shifted(self: SelectionResults, delta: Floats, alpha: float) -> Sensitivity:
    design, weights = self.model.design, self.model.design.row_weights
    missing = ~design.labelled
    slope = self._unlabelled_gradient("mean-selected")
    p, other = (
        self.model.predict(self.params, which=which)[missing]
        for which in ("mean-selected", "mean-unselected")
    )
    table = shifted_prevalence(
        delta, design.y, design.labelled, weights, p, slope, self._param_influence(),
        partial(_row_covariance, self), alpha,
    )  # fmt: skip
    return Sensitivity(
        held="delta",
        target="the prevalence",
        path="Log-odds of unlabelled rows are those of labelled ones like them plus delta. "
        "Intervals are those of the population.",
        level=1.0 - alpha,
        table=table,
        tipping=None,
        bounds=_worst_case(self),
        fitted=float(np.average(logit(other) - logit(p), weights=weights[missing])),
    )


def _row_covariance(self: SelectionResults, influence: Floats) -> Floats:
    """Return the covariance of estimates from the rows' influence on them, by clusters if any."""
    design = self.model.design
    counts = design.weights if design.weight_kind == "freq_weights" else None
    ways = self._groups
    if len(ways) < 2:
        return influence_covariance(influence, counts, ways[0] if ways else None)
    both = np.unique(np.column_stack(ways), axis=0, return_inverse=True)[1].ravel()
    one, two, joint = (influence_covariance(influence, None, g) for g in (*ways, both))
    return one + two - joint


def _worst_case(self: SelectionResults) -> tuple[float, float]:
    design = self.model.design
    return worst_case(design.y, design.labelled, self.model.design.row_weights)


def _target(
    results: SelectionResults, target: str, variable: str | Column | None, which: str, alpha: float
) -> tuple[float, float, float, float]:
    """Return the estimate, standard error and interval of the target."""
    if target == "prevalence":
        found = results.get_prediction(average=True)
        low, high = found.conf_int(alpha)[0]
        return float(found.predicted[0]), float(found.se[0]), low, high
    if target == "coef":
        assert isinstance(variable, str)
        place = results.model.param_names.index(variable)
        estimate, error = float(results.params[place]), float(results.bse[place])
    elif isinstance(variable, Column):
        estimate, error = average_effect(results, which, variable)
    else:
        assert variable is not None
        effects = results.get_margeff(which=which)
        place = list(effects.names).index(variable)
        estimate, error = float(effects.margeff[place]), float(effects.margeff_se[place])
    reach = stats.norm.ppf(1.0 - alpha / 2.0) * error
    return estimate, error, estimate - reach, estimate + reach


def _between(name: str, limit: float, function: Callable[[float], Any]) -> Callable[[float], Any]:
    """``function`` on (-limit, limit)."""

    def checked(value: float) -> Any:
        if not abs(value) < limit:
            raise ValueError(
                f"{name} has the value {value:g}; here it must lie within (-{limit:.4g}, "
                f"{limit:.4g})"
            )
        return function(value)

    return checked


def values_of(name: str, given: Any) -> Floats:
    values = np.unique(np.atleast_1d(np.asarray(given, dtype=float)))
    if values.ndim != 1 or values.size == 0 or np.isnan(values).any():
        raise ValueError(f"{name} must be numbers without NaN, got {given!r}")
    return values


# -- identification --------------------------------------------------------------------------------


def identification(self: SelectionResults) -> Identification:
    """How well the data identify the parameters, from the fit alone; print it.

    :meth:`identification_report` adds what costs further fits.
    """
    return identify(self._hessian(), self.model.param_names, self._fit_info.faces)


def identification_report(self: SelectionResults, alpha: float = 0.05) -> Identification:
    """Identification with the profile interval of the error correlation, and a verdict in words.

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
    Exclusion restriction: z moves selection only; exclusion_test(results) tells how strongly.
    """
    check_alpha(alpha)
    self.model.check_rows_at_hand()
    profiled = _profiled_error_corr(self, alpha) if self._profile_refusal() is None else None
    excluded = self.instrument.columns
    both = self._asked() == ("free", None, None)
    face = self.status.value if both and self.status.boundary else None
    return replace(self.identification, profile=profiled, excluded=excluded, face=face)


def _profiled_error_corr(self: SelectionResults, alpha: float) -> Profile | None:
    """Return the profile of the error correlation; None where all dependence is fixed."""
    closed = self._closed()
    if "error_corr" not in closed.dependence_names():
        return None
    return profile_along(
        closed.path("error_corr"), self._top, closed.names,
        alpha=alpha, whole=_whole(self), widened=widened(self),
    )  # fmt: skip


def _whole(self: SelectionResults) -> bool:
    """Whether a profile has to look for other humps; the search of a fit met those it has."""
    return bool(self.weak)


# -- profiles --------------------------------------------------------------------------------------


def profile(
    self: SelectionResults,
    param: str = "error_corr",
    grid: Any = None,
    alpha: float = 0.05,
    progress: bool = False,
) -> Profile:
    """Profile log-likelihood of one quantity, and the interval it implies.

    Parameters
    ----------
    param : str
        "error_corr" (the default), "rho", "sigma", "athrho", "lnsigma", "loading", or a
        coefficient by its name in ``model.param_names``.
    grid : array_like, optional
        Values to show; by default 15 within 3.5 standard errors of the estimate, and as many
        more as it takes for the log-likelihood to fall below the cut.
    alpha : float
        The interval holds the values whose likelihood ratio is at most the chi-squared quantile of
        this level. For the dependence of a weak or skewed fit the quantile is multiplied by 1.2
        (docs/standard-errors).
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
    factor = widened(self) if param in closed.dependence_names() else 1.0
    with progress_bar(progress, "profile") as bar:
        return profile_along(
            path, self._top, closed.names,
            grid=values, alpha=alpha, whole=_whole(self), widened=factor, tick=bar.update,
        )  # fmt: skip


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
