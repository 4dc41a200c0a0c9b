"""What all pictures share, and those of one table each.

Lines are told apart by style and points by marker, so that a picture can be read in grey.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator
from scipy.stats import chi2

from ..inference.profile import Profile
from ..inference.sensitivity import Sensitivity

Floats = NDArray[np.float64]

LINES: tuple[Any, ...] = ("-", "--", "-.", ":")
SHADES = ("black", "0.25", "0.4", "0.25")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FAINT = "0.6"  # reference lines
CHANGES = {
    "the sign changes": "sign changes",
    "no longer different from zero above it": "significance lost",
    "different from zero above it": "significance gained",
}
WORDS = {
    "error_corr": "error correlation",
    "delta": "shift of the unlabelled log-odds (delta)",
}


def axes_of(ax: Any = None, size: tuple[float, float] | None = None) -> Any:
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


def legend_above(ax: Any) -> None:
    """A legend above the axes, where it covers no data, in as many columns as fit."""
    labels = ax.get_legend_handles_labels()[1]
    inches = ax.get_window_extent().width / ax.figure.dpi
    each = 0.6 + 0.06 * max(map(len, labels))  # handle and text of a small font
    ax.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, fontsize="small",
        ncols=int(np.clip(inches / each, 1, len(labels))),
    )  # fmt: skip


def draw_intervals(tables: Mapping[str, pd.DataFrame], ax: Any = None) -> Any:
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
            fmt=MARKERS[i % len(MARKERS)], color=SHADES[i % 2], markersize=5, linewidth=1.0,
            markerfacecolor="white" if i % 2 else SHADES[0], label=label,
        )  # fmt: skip
    ax.set_yticks(np.arange(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)  # the first variable on top
    ax.tick_params(axis="y", length=0)
    return ax


def draw_profile(profile: Profile, ax: Any = None) -> Any:
    """Log-likelihood less its maximum, with the cut, the estimate and the interval."""
    ax = axes_of(ax)
    below = profile.cut - profile.llf
    at, root = _profile_points(profile)
    if len(at) > 1:
        fine = np.linspace(at[0], at[-1], 400)
        curve = -0.5 * PchipInterpolator(at, root)(fine) ** 2
        ax.plot(fine, curve, color="black", label="profile log-likelihood")
    ax.plot(
        profile.grid, profile.values - profile.llf, linestyle="", marker="o", markersize=3.5,
        color="black", label="fitted values",
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
            np.clip(piece, at[0], at[-1]), [below] * 2, color="black", linewidth=3.0,
            label=words if number == 0 else None,
        )  # fmt: skip
    ends = [end for piece in profile.pieces for end in piece]
    closed = ends[int(profile.open[0]) : len(ends) - int(profile.open[1])]
    ax.plot(closed, [below] * len(closed), linestyle="", marker="|", color="black", markersize=12)
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


def draw_sensitivity(found: Sensitivity, llf: float, ax: Any = None) -> Any:
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
    ax.plot(at, table["estimate"], color="black", marker="o", markersize=3.5, label="estimate")
    for j, end in enumerate(("ci_lower", "ci_upper")):
        label = None if j else f"{found.level:.0%} interval"
        ax.plot(at, table[end], color="black", linestyle="--", linewidth=1.0, label=label)
    if at[0] <= found.fitted <= at[-1]:
        ax.axvline(
            found.fitted, color="black", linestyle=":", label=f"fitted model, {found.fitted:.2f}"
        )
    if found.tipping is not None:
        ax.axhline(0.0, color=FAINT, linewidth=0.8)
        for i, (value, change) in enumerate(found.tipping.itertuples(index=False)):
            label = f"{value:.2f}: {CHANGES.get(change, change)}"
            ax.plot(
                value, 0.0, linestyle="", marker=MARKERS[1 + i % 6], color="black", markersize=8,
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
