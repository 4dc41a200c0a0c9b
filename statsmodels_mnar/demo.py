"""What ``python -m statsmodels_mnar demo`` shows."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from .baselines import IPWLogit, NaiveLogit, OracleLogit
from .comparison import Comparison, compare, plot_coefficients
from .datasets import Simulated, simulate_greene
from .models import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection
from .results.drawing import legend_above
from .results.page import png
from .tools import write_whole


def demo(n: int = 5_000, seed: int = 0, out: str | Path | None = None) -> str:
    """Fit the models to simulated data and put the estimates beside the truth.

    Parameters
    ----------
    n : int
        Rows, at least 500.
    seed : int
        Of the simulation.
    out : str or Path, optional
        Folder for figures and a report of the selection logit; made if it does not exist.

    Returns
    -------
    str
        Summaries, the comparison, and how far each method is from the truth.

    Examples
    --------
    >>> print(demo(2_000).splitlines()[0])
    2,000 simulated applications; the outcome y is seen for the 1,241 with s = 1 only.
    """
    if n < 500:
        raise ValueError(f"rows={n} is too few for the demonstration; use 500 or more")
    if seed < 0:
        raise ValueError(f"seed={seed} must be 0 or more")
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)  # before any long work
    simulated = simulate_greene(n, rng=seed)
    fits = _fit(simulated)
    parts = [
        f"{n:,} simulated applications; the outcome y is seen for the "
        f"{int(simulated.data.s.sum()):,} with s = 1 only.\nWhat decides who is seen also moves y: "
        "labels are missing not at random.",
        str(fits.results["greene"].summary()),
        str(fits.results["biascorr"].summary()),
        f"The methods side by side\n\n{fits}",
        "Beside the truth (shares and accuracies are over all rows; coefficients can be compared "
        "for greene\nand biascorr only, the others have another scale)\n"
        f"{_beside_truth(simulated, fits).round(4).to_string(na_rep='')}",
        f"What it shows\n{_shares(simulated.data, fits)}",
    ]
    if out is not None:
        parts.append(_save(simulated, fits, Path(out)))
    return "\n\n".join(parts)


def _fit(simulated: Simulated) -> Comparison:
    how: dict[str, tuple[Any, dict[str, Any]]] = {
        "naive": (NaiveLogit, {}),
        "ipw": (IPWLogit, {}),
        "probit": (ProbitSelection, {}),
        "greene": (GreeneSelectionLogit, {}),
        "biascorr": (BiasCorrLogit, {}),
    }
    formulas = simulated.formula, simulated.select_formula
    return compare(
        {
            name: model.from_formula(*formulas, simulated.data, **options).fit()
            for name, (model, options) in how.items()
        }
    )


def _beside_truth(simulated: Simulated, fits: Comparison) -> pd.DataFrame:
    """Coefficients, prevalence and accuracy on all rows, of each method and of all labels."""
    data, labels = simulated.data, simulated.data.y_full
    oracle = OracleLogit.from_formula(
        simulated.oracle_formula, simulated.select_formula, data
    ).fit()
    names = list(fits.coefficients.index)
    rows = {"truth": [*(simulated.truth[name] for name in names), labels.mean(), float("nan")]}
    for method, results in {"all labels": oracle, **fits.results}.items():
        p = results.predict(data)
        rows[method] = [*results.params[names], p.mean(), ((p > 0.5) == labels).mean()]
    return pd.DataFrame.from_dict(rows, orient="index", columns=[*names, "share", "accuracy"])


def _shares(data: pd.DataFrame, fits: Comparison) -> str:
    """The share of ones by the naive and by the selection logit, against the truth."""
    greene, missing = fits.results["greene"], data[data.s == 0]
    naive = fits.results["naive"].predict(data).mean()
    everybody = greene.get_prediction(data, average=True).summary_frame().iloc[0]
    unseen = greene.get_prediction(missing, which="mean-unselected", average=True)
    unseen = unseen.summary_frame().iloc[0]
    return "\n".join(
        [
            f"The share of y = 1 is {data.y_full.mean():.3f} in truth, and {data.y.mean():.3f} "
            "among the labelled rows.",
            f"A logit of the labelled rows says {naive:.3f}, the selection logit "
            f"{everybody.predicted:.3f} (95% interval {everybody.ci_lower:.3f} to "
            f"{everybody.ci_upper:.3f}).",
            f"Among the unlabelled rows it is {missing.y_full.mean():.3f} in truth; the selection "
            f"logit says {unseen.predicted:.3f} ({unseen.ci_lower:.3f} to {unseen.ci_upper:.3f}).",
        ]
    )


def _save(simulated: Simulated, fits: Comparison, folder: Path) -> str:
    """Write the figures and the report; say where."""
    greene = fits.results["greene"]
    drawn = find_spec("matplotlib") is not None
    names = ["report.html"]
    title = "Demonstration: labels missing not at random"
    greene.report(folder / names[0], title=title, figures=drawn)
    if drawn:
        pictures = _pictures(simulated, fits)
        for name, ax in pictures.items():
            write_whole(folder / name, png(ax.figure, 100))
        names += pictures
    without = "" if drawn else " Figures need matplotlib: pip install 'statsmodels-mnar[plot]'."
    return f"In {folder}: {', '.join(names)}.{without}"


def _pictures(simulated: Simulated, fits: Comparison) -> dict[str, Any]:
    """Draw the axes by file name; the truth is in black, and a title says what is seen."""
    greene, truth = fits.results["greene"], simulated.truth
    loading = truth["sigma"] * truth["rho"]
    known = [truth.get(name, loading) for name in greene.params.index]
    at_truth = greene._at_params(pd.Series(known, index=greene.params.index))

    effects = plot_coefficients(fits, "margeff")
    true = at_truth.get_margeff()
    true_effects = dict(zip(true.names, true.margeff, strict=True))
    shown = [label.get_text() for label in effects.get_yticklabels()]
    for place, name in enumerate(shown):
        effects.plot(
            [true_effects[name]] * 2, [place - 0.45, place + 0.45], color="black",
            label=None if place else "truth",
        )  # fmt: skip
    table = fits.margeff
    right = [
        method
        for method in fits.results
        if all(
            abs(table.loc[name, method].iloc[0] - true_effects[name])
            <= 1.96 * table.loc[name, method].iloc[1]
            for name in shown
        )
    ]
    _titled(effects, f"Intervals that contain every true effect: {', '.join(right) or 'none'}")

    profile = greene.profile("error_corr")
    low, high = profile.interval
    there = at_truth.error_corr
    drawn = greene.plot_profile(profile)
    drawn.axvline(there, color="black", linewidth=1.5, label=f"truth {there:.3g}")
    covers = "contains" if low <= there <= high else "misses"
    zero = "not zero" if low > 0 or high < 0 else "and zero"
    _titled(drawn, f"The interval of the error correlation {covers} the truth, {zero}")

    probabilities = greene.plot_probabilities("x1")
    along = at_truth.probabilities_along("x1")
    for number, which in enumerate(along.columns.unique(0)):
        probabilities.plot(
            along.index, along[which]["predicted"], color="black", linewidth=1.0, linestyle=":",
            label=None if number else "truth",
        )  # fmt: skip
    _titled(probabilities, "Labelled rows have y = 1 more often than unlabelled ones like them")
    return {"effects.png": effects, "profile.png": drawn, "probabilities.png": probabilities}


def _titled(ax: Any, title: str) -> None:
    """Set a title above the legend, at the left."""
    legend_above(ax)
    ax.figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize="medium")
