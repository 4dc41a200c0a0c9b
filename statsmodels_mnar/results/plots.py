"""Pictures of a fitted selection model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..post.metrics import calibration_bins
from ..post.profile import Profile
from ..post.sensitivity import Sensitivity
from ..tools import check_alpha
from .drawing import (
    FAINT,
    LINES,
    MARKERS,
    SHADES,
    axes_of,
    draw_intervals,
    draw_profile,
    draw_sensitivity,
    event,
    legend_above,
)
from .effects import MarginalEffects

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .fitted import SelectionResults


def plot_profile(
    self: SelectionResults, param: str | Profile, ax: Axes | None = None, **options: Any
) -> Axes:
    """Profile log-likelihood with the cut, the estimate and the interval.

    Parameters
    ----------
    param : str or Profile
        A quantity, or what :meth:`profile` returned.
    ax : matplotlib axes, optional
    **options
        Of :meth:`profile`.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> sim = simulate_greene(2_000, rng=1)
    >>> results = GreeneSelectionLogit.from_formula(
    ...     sim.formula, sim.select_formula, sim.data).fit()
    >>> ax = results.plot_profile("error_corr")
    >>> ax.get_xlabel()
    'error correlation'
    """
    if not isinstance(param, Profile):
        return draw_profile(self.profile(param, **options), axes_of(ax))
    _check_none(options, "param", param)
    return draw_profile(param, ax)


def plot_sensitivity(
    self: SelectionResults, found: Sensitivity | None = None, ax: Axes | None = None, **options: Any
) -> Axes:
    """A target along a dependence held fixed: tipping points, and what the data support.

    Parameters
    ----------
    found : Sensitivity, optional
        What :meth:`sensitivity` returned; otherwise it is called with the options.
    ax : matplotlib axes, optional
    **options
        Of :meth:`sensitivity`.

    Notes
    -----
    The edges of the shaded region are interpolated between the values fitted.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> sim = simulate_greene(2_000, rng=1)
    >>> results = GreeneSelectionLogit.from_formula(
    ...     sim.formula, sim.select_formula, sim.data).fit()
    >>> ax = results.plot_sensitivity(error_corr=[0.0, 0.3, 0.6], variable="x2")
    >>> ax.get_ylabel()
    'coefficient of x2'
    """
    if found is None:
        ax = axes_of(ax)
        found = self.sensitivity(**options)
    elif not isinstance(found, Sensitivity):
        raise ValueError(
            f"found must come from sensitivity(), got {type(found).__name__}; or give its "
            "options by name, such as error_corr="
        )
    else:
        _check_none(options, "found", found)
    return draw_sensitivity(found, self._top, ax)


def plot_margeff(
    self: SelectionResults,
    effects: MarginalEffects | Sequence[MarginalEffects] | None = None,
    ax: Axes | None = None,
    alpha: float = 0.05,
    **options: Any,
) -> Axes:
    """Marginal effects with intervals.

    Parameters
    ----------
    effects : MarginalEffects or several of them, optional
        What :meth:`get_margeff` returned; otherwise it is called with the options. Several are
        labelled by their ``which``.
    ax : matplotlib axes, optional
    alpha : float
        Of the intervals.
    **options
        Of :meth:`get_margeff`.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> sim = simulate_greene(2_000, rng=1)
    >>> results = GreeneSelectionLogit.from_formula(
    ...     sim.formula, sim.select_formula, sim.data).fit()
    >>> ax = results.plot_margeff(which="mean-unselected")
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['x1', 'x2', 'z']
    """
    check_alpha(alpha)
    if effects is None:
        effects = self.get_margeff(**options)
    else:
        _check_none(options, "effects", effects)
    several = [effects] if isinstance(effects, MarginalEffects) else list(effects)
    if not several or not all(isinstance(each, MarginalEffects) for each in several):
        raise ValueError(f"effects must come from get_margeff(), got {effects!r}")
    if len({each.method for each in several}) > 1:
        raise ValueError(
            f"effects have the methods {[each.method for each in several]}, which are in "
            "different units; use one"
        )
    words = self._which_in_words()
    tables: dict[str, pd.DataFrame] = {}
    for each in several:
        label = words[each.which]
        label = label if label not in tables else f"{label} ({len(tables) + 1})"
        low, high = each.conf_int(alpha).T
        tables[label] = pd.DataFrame(
            {"estimate": each.margeff, "ci_lower": low, "ci_upper": high},
            index=list(each.names),
        )
    ax = draw_intervals(tables, ax)
    first = several[0]
    effect = "average marginal effect" if first.at == "overall" else f"effect at {first.at}"
    effect += "" if first.method == "dydx" else f" ({first.method})"
    on = f" on {words[first.which]}" if len(several) == 1 else ""
    ax.set_xlabel(f"{effect}{on}, {1 - alpha:.0%} intervals")
    if len(several) > 1:
        legend_above(ax)
    return ax


def plot_calibration(
    self: SelectionResults, n_bins: int = 10, alpha: float = 0.05, ax: Axes | None = None
) -> Axes:
    """Observed shares of ones against P(y = 1 | selected), on the labelled rows.

    Parameters
    ----------
    n_bins : int
        Quantiles of the prediction; fewer where predictions are tied.
    alpha : float
        Of the binomial (Wilson) intervals, which take the predictions as given.
    ax : matplotlib axes, optional

    Notes
    -----
    A test of the part of the model that the data can see. That of the unlabelled rows they
    cannot: a model may be well calibrated here and wrong there.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> sim = simulate_greene(2_000, rng=1)
    >>> results = GreeneSelectionLogit.from_formula(
    ...     sim.formula, sim.select_formula, sim.data).fit()
    >>> ax = results.plot_calibration(5)
    >>> len(ax.containers[0].lines[0].get_xdata())
    5
    """
    check_alpha(alpha)
    if not (isinstance(n_bins, int | np.integer) and n_bins > 0):
        raise ValueError(f"n_bins={n_bins!r} must be a positive integer")
    self.model.check_rows_at_hand()
    ax = axes_of(ax)
    design = self.model.design
    seen = design.labelled
    weights = design.row_weights
    table = calibration_bins(
        design.y[seen],
        self.model.predict(self.params, which="mean-selected")[seen],
        weights[seen],
        counts=design.weight_kind != "prob_weights",
        n_bins=int(n_bins),
        alpha=alpha,
    )
    below, above = table["observed"] - table["ci_lower"], table["ci_upper"] - table["observed"]
    ax.axline((0.0, 0.0), slope=1.0, color=FAINT, linestyle="--", label="perfect calibration")
    ax.errorbar(
        table["predicted"], table["observed"], yerr=[below, above], fmt="o", color=SHADES[0],
        markersize=5, linewidth=1.0, label=f"observed share, {1 - alpha:.0%} interval",
    )  # fmt: skip
    ends = table[["predicted", "ci_lower", "ci_upper"]]
    pad = 0.04 * (ends.max().max() - ends.min().min())
    for limits in (ax.set_xlim, ax.set_ylim):
        limits(max(ends.min().min() - pad, 0.0), min(ends.max().max() + pad, 1.0))
    names = event(design.outcome_name), event(design.select_name)
    ax.set(xlabel=f"predicted P({' | '.join(names)})", ylabel="observed share, labelled rows")
    legend_above(ax)
    return ax


def plot_trace(self: SelectionResults, ax: Axes | None = None) -> Axes:
    """Path of the optimiser: log-likelihood below its best value, and the score's norm.

    Parameters
    ----------
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> sim = simulate_greene(2_000, rng=1)
    >>> results = GreeneSelectionLogit.from_formula(
    ...     sim.formula, sim.select_formula, sim.data).fit()
    >>> results.plot_trace().get_yscale()
    'log'
    """
    trace = self._fit_info.solution.trace
    if not trace:
        raise ValueError(f"method={self._fit_info.method!r} does not record its iterations")
    ax = axes_of(ax)
    iterations = [step.iteration for step in trace]
    distance = max(step.value for step in trace) - np.array([step.value for step in trace])
    norm = np.array([step.score_norm for step in trace])
    series = {"log-likelihood below its best value": distance, "score norm": norm}
    for i, (label, values) in enumerate(series.items()):
        ax.plot(
            iterations, np.where(values > 0.0, values, np.nan), label=label, color=SHADES[i],
            linestyle=LINES[i], marker=MARKERS[i] if len(trace) <= 50 else "", markersize=5,
            markerfacecolor="white" if i else None,
        )  # fmt: skip
    ax.set(xlabel="iteration", ylabel="distance to the maximum", yscale="log")
    ax.locator_params(axis="x", integer=True)
    legend_above(ax)
    return ax


def _check_none(options: dict[str, Any], argument: str, given: Any) -> None:
    """Refuse options of a computation that has been done already."""
    if options:
        raise ValueError(
            f"{argument} is a {type(given).__name__} already; {sorted(options)} cannot change it"
        )
