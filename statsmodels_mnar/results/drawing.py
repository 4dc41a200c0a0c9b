"""What all pictures share, those of one table each, and probabilities along a covariate.

Lines differ in style and points in marker, so that a picture can be read in grey.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.interpolate import PchipInterpolator
from scipy.stats import chi2

from ..design.values import as_frame
from ..errors import DesignError
from ..post.margins import columns, held, typical_row
from ..post.prediction import INDICES, WHICH, check_which, predict_with_errors
from ..post.profile import Profile
from ..post.sensitivity import Sensitivity
from ..tools import check_alpha
from ..types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .fitted import SelectionResults


LINES: tuple[Any, ...] = ("-", "--", "-.", ":")
# Blue, orange, teal, violet and grey, which the colour-blind tell apart.
SHADES = ("#0b4a8f", "#c8580a", "#2a9d8f", "#8a6fb0", "#595959")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FAINT = "0.6"  # reference lines
_OF_TEXT = re.compile(r"I\((.+?)\s*==\s*('[^']*'|\"[^\"]*\")\)")  # an indicator made of text
CHANGES = {
    "the sign changes": "sign changes",
    "no longer different from zero above it": "significance lost",
    "different from zero above it": "significance gained",
}
WORDS = {
    "error_corr": "error correlation",
    "delta": "shift of the unlabelled log-odds (delta)",
}


def axes_of(ax: Axes | None = None, size: tuple[float, float] | None = None) -> Axes:
    """The axes given, or those of a new figure; nothing global is changed.

    Parameters
    ----------
    size : tuple of float, optional
        Inches of a new figure.
    """
    if ax is not None:
        if not hasattr(ax, "get_xaxis_transform"):
            raise ValueError(
                f"ax must be matplotlib axes, got {type(ax).__name__}; plt.subplots() returns a "
                "figure and then its axes"
            )
        return ax
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'statsmodels-mnar[plot]'") from error
    return Figure(figsize=size, layout="constrained").add_subplot()


def legend_above(ax: Axes) -> None:
    """A legend above the axes, where it covers no data, in as many columns as fit."""
    labels = ax.get_legend_handles_labels()[1]
    inches = ax.get_window_extent().width / ax.figure.dpi
    each = 0.6 + 0.06 * max(map(len, labels))  # handle and text of a small font
    ax.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, fontsize="small",
        ncols=int(np.clip(inches / each, 1, len(labels))),
    )  # fmt: skip


def draw_intervals(tables: Mapping[str, pd.DataFrame], ax: Axes | None = None) -> Axes:
    """Estimates with intervals, a row for each variable and a marker for each table.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Columns ``estimate``, ``ci_lower`` and ``ci_upper``; the index has the variables. The keys
        are the legend's.
    """
    names = list(dict.fromkeys(name for table in tables.values() for name in table.index))
    step = min(0.2, 0.6 / len(tables))  # between the markers of one variable; variables are 1 apart
    ax = axes_of(ax, (6.4, 1.2 + len(names) * max(0.3, 0.13 * len(tables) + 0.1)))
    ax.axvline(0.0, color=FAINT, linewidth=0.8)
    for i, (label, table) in enumerate(tables.items()):
        found = table.reindex(names)
        ends = found[["ci_lower", "ci_upper"]].sub(found["estimate"], axis=0).abs()
        place = np.arange(len(names)) + step * (i - 0.5 * (len(tables) - 1))
        ax.errorbar(
            found["estimate"], place, xerr=ends.to_numpy().T,
            fmt=MARKERS[i % len(MARKERS)], color=SHADES[i % len(SHADES)], markersize=5,
            linewidth=1.2, markerfacecolor="white" if i % 2 else None, label=label,
        )  # fmt: skip
    ax.set_yticks(np.arange(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)  # the first variable on top
    ax.tick_params(axis="y", length=0)
    return ax


def draw_profile(profile: Profile, ax: Axes | None = None) -> Axes:
    """Log-likelihood less its maximum, with the cut, the estimate and the interval."""
    ax = axes_of(ax)
    below = profile.cut - profile.llf
    at, root = _profile_points(profile)
    if len(at) > 1:
        fine = np.linspace(at[0], at[-1], 400)
        curve = -0.5 * PchipInterpolator(at, root)(fine) ** 2
        ax.plot(fine, curve, color=SHADES[0], label="profile log-likelihood")
    ax.plot(
        profile.grid, profile.values - profile.llf, linestyle="", marker="o", markersize=3.5,
        color=SHADES[0], label="fitted values",
    )  # fmt: skip
    ax.axvline(
        profile.estimate, color="black", linestyle=":", label=f"estimate {profile.estimate:.3g}"
    )
    ax.axhline(below, color=FAINT, linestyle="--", label=f"cut, {below:.2f}")
    words = f"{profile.level:.0%} {'set' if len(profile.pieces) > 1 else 'interval'} "
    words += " and ".join(f"{low:.3g} to {high:.3g}" for low, high in profile.pieces)
    words += {
        (True, False): " (open below)",
        (False, True): " (open above)",
        (True, True): " (open on both sides)",
    }.get(profile.open, "")
    for number, piece in enumerate(profile.pieces):
        # An open end may be infinite, and has no bar.
        ax.plot(
            np.clip(piece, at[0], at[-1]), [below] * 2, color=SHADES[1], linewidth=3.0,
            label=words if number == 0 else None,
        )  # fmt: skip
    ends = [end for piece in profile.pieces for end in piece]
    closed = ends[int(profile.open[0]) : len(ends) - int(profile.open[1])]
    ax.plot(closed, [below] * len(closed), linestyle="", marker="|", color=SHADES[1], markersize=12)
    lowest = float(np.min(profile.values)) - profile.llf
    ax.set_ylim(max(lowest, 4.0 * below) * 1.05, -0.08 * below)
    ax.set(xlabel=in_words(profile.param), ylabel="log-likelihood less its maximum")
    legend_above(ax)
    return ax


def _profile_points(profile: Profile) -> tuple[Floats, Floats]:
    """Values and signed roots of the likelihood ratio, which are nearly a straight line."""
    reach = np.sqrt(2.0 * (profile.llf - profile.cut))
    known = {profile.estimate: 0.0}
    for end, is_open, sign in zip(profile.interval, profile.open, (-1.0, 1.0), strict=True):
        known |= {} if is_open else {end: sign * reach}
    at = np.array(list(known))
    every = np.append(at, profile.grid)
    near = 1e-3 * np.ptp(every[np.isfinite(every)])
    apart = [np.isfinite(v) and not (np.abs(at - v) <= near).any() for v in profile.grid]
    roots = signed_root(profile.grid[apart], profile.estimate, profile.values[apart], profile.llf)
    at, root = np.append(at, profile.grid[apart]), np.append(list(known.values()), roots)
    order = np.argsort(at)
    finite = np.isfinite(at[order])
    return at[order][finite], root[order][finite]


def signed_root(at: Floats, estimate: float, values: Floats, llf: float) -> Floats:
    """Square root of the likelihood ratio, with the sign of the distance to the estimate."""
    return np.sign(at - estimate) * np.sqrt(np.clip(2.0 * (llf - values), 0.0, None))


def draw_sensitivity(found: Sensitivity, llf: float, ax: Axes | None = None) -> Axes:
    """A target along what is held fixed, with its interval, tipping points and what data support.

    Parameters
    ----------
    llf : float
        Of the fitted model, which need not be the best on the path.
    """
    ax = axes_of(ax)
    table = found.table
    at = table.index.to_numpy(dtype=float)
    if found.top is not None and table["supported"].any():
        fine = np.linspace(at[0], at[-1], 1_000)
        values = table["loglik"].to_numpy()
        peak = found.fitted if llf > found.top - 1e-6 else at[values.argmax()]
        root = signed_root(at, peak, values, found.top)
        inside = np.abs(np.interp(fine, at, root)) <= np.sqrt(chi2.ppf(found.level, 1))
        ax.fill_between(
            fine, 0.0, 1.0, where=inside, transform=ax.get_xaxis_transform(), color="0.9",
            linewidth=0.0, label="not rejected by the data",
        )  # fmt: skip
    ax.plot(at, table["estimate"], color=SHADES[0], marker="o", markersize=3.5, label="estimate")
    for j, end in enumerate(("ci_lower", "ci_upper")):
        label = None if j else f"{found.level:.0%} interval"
        ax.plot(at, table[end], color=SHADES[0], linestyle="--", linewidth=1.0, label=label)
    if at[0] <= found.fitted <= at[-1]:
        ax.axvline(
            found.fitted, color="black", linestyle=":", label=f"fitted model, {found.fitted:.2f}"
        )
    if found.tipping is not None:
        ax.axhline(0.0, color=FAINT, linewidth=0.8)
        for i, (value, change) in enumerate(found.tipping.itertuples(index=False)):
            label = f"{value:.2f}: {CHANGES.get(change, change)}"
            ax.plot(
                value, 0.0, linestyle="", marker=MARKERS[1 + i % 6], color=SHADES[1], markersize=8,
                markerfacecolor="white", label=label, zorder=3,
            )  # fmt: skip
    if found.bounds is not None:
        for j, bound in enumerate(found.bounds):
            label = None if j else "worst-case bounds"
            ax.axhline(bound, color=FAINT, linestyle="-.", label=label)
    target = found.target.removeprefix("the ").replace(" on 'mean'", "")
    ax.set(xlabel=in_words(found.held), ylabel=target)
    legend_above(ax)
    return ax


def in_words(name: str) -> str:
    return WORDS.get(name, name)


# -- predicted probabilities along a covariate -----------------------------------------------------


STATUSES = ("mean", "mean-selected", "mean-unselected")
_FEW = 8  # values of a variable that are shown one by one
_POINTS = 40


def probabilities_along(
    self: SelectionResults,
    variable: str,
    values: Any = None,
    *,
    which: str | Iterable[str] = STATUSES,
    data: Any = None,
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Predicted probabilities at values of a covariate, with delta-method intervals.

    Parameters
    ----------
    variable : str
        A column of the data; of the designs for a model built from arrays.
    values : array_like, optional
        By default 40 between the first and the last percentile of the variable, or all of its
        values where they are few, no numbers, or the levels of a factor.
    which : str or list of str
        Probabilities of :meth:`predict`.
    data : DataFrame, optional
        Rows whose predictions are averaged, with the variable moved in all of them: one row is
        one case, the data that the model was built from are its sample. All rows count alike,
        whatever the model's weights, and of its offsets those that are columns are read, others
        are zero. By default one row, with the other variables at their weighted means (factors
        and what is no number: at the most frequent value).
    alpha : float
        Of the intervals, each of which is for one value.

    Returns
    -------
    DataFrame
        One row for each value; columns (which, predicted | se | ci_lower | ci_upper).

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> sim = simulate_greene(2_000, rng=1)
    >>> results = GreeneSelectionLogit.from_formula(
    ...     sim.formula, sim.select_formula, sim.data).fit()
    >>> table = results.probabilities_along("x1", [-1.0, 1.0], which="mean")
    >>> bool(table["mean"].predicted.is_monotonic_increasing)
    True
    """
    check_alpha(alpha)
    chosen = [which] if isinstance(which, str) else list(which)
    for each in chosen:
        check_which(each)
        if each in INDICES:
            raise ValueError(f"which={each!r} is an index; use a probability")
    formulas = self.model.design.outcome_spec is not None
    along = _along_data if formulas else _along_column
    return along(self, variable, values, chosen, data, alpha)


def plot_probabilities(
    self: SelectionResults,
    variable: str,
    values: Any = None,
    *,
    which: str | Iterable[str] = STATUSES,
    data: Any = None,
    alpha: float = 0.05,
    ax: Axes | None = None,
) -> Axes:
    """Predicted probabilities by selection status along a covariate, with intervals.

    Parameters
    ----------
    variable, values, which, data, alpha
        As in :meth:`probabilities_along`.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> sim = simulate_greene(2_000, rng=1)
    >>> results = GreeneSelectionLogit.from_formula(
    ...     sim.formula, sim.select_formula, sim.data).fit()
    >>> ax = results.plot_probabilities("x1")
    >>> ax.get_legend_handles_labels()[1]
    ['P(y = 1)', 'P(y = 1 | s = 1)', 'P(y = 1 | s = 0)']
    """
    ax = axes_of(ax)
    table = self.probabilities_along(variable, values, which=which, data=data, alpha=alpha)
    chosen = list(table.columns.unique(0))
    numeric = pd.api.types.is_numeric_dtype(table.index) and not _is_factor(self, variable)
    points = not numeric or len(table) <= _FEW
    draw = _draw_points if points else _draw_line
    labels = self._which_in_words()
    for i, each in enumerate(chosen):
        draw(table[each], i, len(chosen), labels[each], ax)
    if points:
        ticks = [f"{v:g}" if isinstance(v, float) else str(v) for v in table.index]
        ax.set_xticks(np.arange(len(table)), ticks)
        ax.set_xlim(-0.5, len(table) - 0.5)
    ax.set(xlabel=variable, ylabel="probability")
    legend_above(ax)
    return ax


def _is_factor(self: SelectionResults, variable: str) -> bool:
    return self.model.design.outcome_spec is not None and variable in self._factors("p11")


def _which_in_words(self: SelectionResults) -> dict[str, str]:
    """The probabilities as one writes them, by the name that ``which`` has for them."""
    y, s = ([event(name, i) for i in (0, 1)] for name in indicators(self))
    joint = {f"p{i}{j}": f"P({y[i]}, {s[j]})" for i in (0, 1) for j in (0, 1)}
    return (
        {which: which for which in WHICH}
        | joint
        | {
            "mean": f"P({y[1]})",
            "mean-selected": f"P({y[1]} | {s[1]})",
            "mean-unselected": f"P({y[1]} | {s[0]})",
            "prob-select": f"P({s[1]})",
        }
    )


def indicators(results: SelectionResults) -> tuple[str, str]:
    """The names of outcome and selection."""
    return results.model.design.outcome_name, results.model.design.select_name


def event(name: str, value: int = 1) -> str:
    """An indicator's value in words.

    Examples
    --------
    >>> event("default"), event("I(status == 'paid')"), event("I(status == 'paid')", 0)
    ('default = 1', "status = 'paid'", "status != 'paid'")
    """
    of_text = _OF_TEXT.fullmatch(name)
    if of_text is None:
        return f"{name} = {value}"
    return f"{variable_of(name)} {'=' if value else '!='} {of_text[2]}"


def variable_of(name: str) -> str:
    """The column of the data of which a design's column or an indicator is made, if it is one.

    Examples
    --------
    >>> [variable_of(name) for name in ("I(Q('my y') == 'yes')", "C(officer)[T.3]", "np.log(x)")]
    ['my y', 'officer', 'np.log(x)']
    """
    of_text = _OF_TEXT.fullmatch(name)
    found = of_text[1] if of_text else name.partition("[")[0]
    if found != name:
        found = re.sub(r"^C\((.*)\)$", r"\1", found)
        found = re.sub(r"^Q\((['\"])(.*)\1\)$", r"\2", found)
    return found


def _along_data(
    self: SelectionResults, variable: str, values: Any, chosen: list[str], data: Any, alpha: float
) -> pd.DataFrame:
    """Return the designs along a variable of the data, through the formulas."""
    model = self.model
    for spec in self._specs("p11"):
        spec.check_new_data()
    own = None
    if model.frame is not None and model.design.nobs:
        own = self._typed(model.frame.iloc[model.design.kept])
    rows = own if data is None else self._typed(as_frame(data))
    if rows is None:
        raise ValueError("this model no longer has its data; pass data=")
    self._check_read(variable, rows, "p11")
    source = (rows if own is None else own)[variable]
    at = _values(source, values, factor=_is_factor(self, variable))
    offsets: dict[str, Any] = {}
    if data is None:
        read = {name for spec in self._specs("p11") for name in spec.columns}
        weights = self.model.design.row_weights
        rows = _typical(rows[sorted(read)], weights, self._factors("p11"))
        for name in ("offset", "offset_select"):
            own_offset = getattr(model, name)
            if own_offset is not None:
                offsets[name] = np.average(own_offset, weights=weights)
    try:
        return _moved(self, rows, variable, at, chosen, offsets, alpha)
    except DesignError as error:
        if data is not None:
            raise
        raise ValueError(
            f"the formulas cannot be evaluated at the means of the columns ({error}); pass data=, "
            "rows to predict at"
        ) from error


def _moved(
    self: SelectionResults,
    rows: pd.DataFrame,
    variable: str,
    at: pd.Series,
    chosen: list[str],
    offsets: dict[str, Any],
    alpha: float,
) -> pd.DataFrame:
    found = {}
    for which in chosen:
        if len(rows) == 1:
            moved = rows.iloc[np.zeros(len(at), dtype=int)].assign(**{variable: at.array})
            table = self.get_prediction(moved, which=which, **offsets).summary_frame(alpha)
        else:
            averages = (
                self.get_prediction(rows.assign(**{variable: value}), which=which, average=True)
                for value in at
            )
            table = pd.concat([average.summary_frame(alpha) for average in averages])
        found[which] = table.set_axis(pd.Index(at, name=variable))
    return pd.concat(found, axis=1)


def _along_column(
    self: SelectionResults, variable: str, values: Any, chosen: list[str], data: Any, alpha: float
) -> pd.DataFrame:
    """Return the designs along one of their columns, for models built from arrays."""
    if data is not None:
        raise ValueError("data needs a model built from formulas; leave it out")
    self.model.check_rows_at_hand()
    design, rows = self.model.design, self.model.designs("p11")
    known = {c.name: c for c in columns(rows, design.outcome_names, design.select_names)}
    if variable not in known:
        raise ValueError(f"variable={variable!r} must be one of {list(known)}")
    at = _values(pd.Series(known[variable].values(rows)), values)
    typical = typical_row(rows, "mean", self.model.design.row_weights)
    repeated = typical[np.zeros(len(at), dtype=int)]
    moved = held(repeated, list(known.values()), {variable: at.to_numpy(dtype=float)})
    cov = np.asarray(self.cov_params_default)
    index = pd.Index(at, name=variable)
    quantities = {which: self.model.quantity(self.params, which) for which in chosen}
    found = {
        which: predict_with_errors(quantity, moved, cov, index).summary_frame(alpha)
        for which, quantity in quantities.items()
    }
    return pd.concat(found, axis=1)


def _values(source: pd.Series, given: Any, *, factor: bool = False) -> pd.Series:
    """Values to predict at: those given, all of a few, or a grid between the percentiles."""
    if given is not None:
        values = pd.Series(np.atleast_1d(np.asarray(given)))
        numeric = pd.api.types.is_numeric_dtype(source)
        unlike = numeric and not pd.api.types.is_numeric_dtype(values)
        if values.empty or values.isna().any() or unlike:
            raise ValueError(f"values must be values of {source.name}, none missing, got {given!r}")
        return values
    distinct = source.dropna().drop_duplicates().sort_values()
    if factor or not pd.api.types.is_numeric_dtype(source) or len(distinct) <= _FEW:
        return distinct.reset_index(drop=True)
    low, high = np.nanpercentile(source.to_numpy(dtype=float), [1.0, 99.0])
    return pd.Series(np.linspace(low, high, _POINTS))


def _typical(rows: pd.DataFrame, weights: Floats, factors: set[str]) -> pd.DataFrame:
    """One row: means of numbers, the most frequent of other values and of factors' levels."""

    def centre(x: pd.Series) -> Any:
        number = pd.api.types.is_numeric_dtype(x) and not pd.api.types.is_bool_dtype(x)
        if number and x.name not in factors:
            return np.average(x.to_numpy(dtype=float), weights=weights)
        return pd.Series(weights, index=x.index).groupby(x, observed=True).sum().idxmax()

    return pd.DataFrame({name: [centre(rows[name])] for name in rows})


def _draw_line(table: pd.DataFrame, i: int, n: int, label: str, ax: Axes) -> None:
    shade, style = SHADES[i % len(SHADES)], LINES[i % len(LINES)]
    at = table.index.to_numpy(dtype=float)
    ax.plot(at, table["predicted"], color=shade, linestyle=style, label=label)
    ax.fill_between(at, table["ci_lower"], table["ci_upper"], color=shade, alpha=0.12, linewidth=0)
    for end in ("ci_lower", "ci_upper"):
        ax.plot(at, table[end], color=shade, linestyle=style, linewidth=0.5)


def _draw_points(table: pd.DataFrame, i: int, n: int, label: str, ax: Axes) -> None:
    gap = 0.15 * (i - (n - 1) / 2)
    mean = table["predicted"]
    reach = [mean - table["ci_lower"], table["ci_upper"] - mean]
    ax.errorbar(
        np.arange(len(table)) + gap, mean, yerr=reach,
        fmt=MARKERS[i % len(MARKERS)], color=SHADES[i % len(SHADES)], markersize=5, linewidth=1.0,
        markerfacecolor="white" if i % 2 else None, label=label,
    )  # fmt: skip
