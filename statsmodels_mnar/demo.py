"""What ``python -m statsmodels_mnar demo`` shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from .baselines import IPWLogit, NaiveLogit, OracleLogit
from .comparison import Comparison, compare, plot_coefficients
from .datasets import Simulated, simulate_greene
from .models import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection


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
    Labels missing not at random: 2,000 applications, 1,241 labelled.
    """
    if n < 500:
        raise ValueError(f"rows={n} is too few for the demonstration; use 500 or more")
    simulated = simulate_greene(n, rng=seed)
    fits = _fit(simulated)
    data, greene, biascorr = simulated.data, fits.results["greene"], fits.results["biascorr"]
    missing = greene.predict(data, which="mean-unselected")[data.s == 0].mean()
    parts = [
        f"Labels missing not at random: {n:,} applications, {int(data.s.sum()):,} labelled.",
        str(greene.summary()),
        str(biascorr.summary()),
        f"The methods side by side\n\n{fits}",
        "Beside the truth (coefficients of 'all labels' and 'probit' have another scale than the "
        "truth; shares and accuracies are over all rows)\n"
        f"{_beside_truth(simulated, fits).round(4).to_string(na_rep='')}",
        "Share of y = 1 among the unlabelled: selection logit "
        f"{missing:.4f}, truth {data.y_full[data.s == 0].mean():.4f}",
    ]
    if out is not None:
        parts.append(_save(simulated, fits, Path(out)))
    return "\n\n".join(parts)


def _fit(simulated: Simulated) -> Comparison:
    how: dict[str, tuple[Any, dict[str, Any]]] = {
        "naive": (NaiveLogit, {}),
        "ipw": (IPWLogit, {}),
        "probit": (ProbitSelection, {}),
        "greene": (GreeneSelectionLogit, {"normalization": "loading"}),
        "biascorr": (BiasCorrLogit, {"normalization": {"sigma": 1.0}}),
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


def _save(simulated: Simulated, fits: Comparison, folder: Path) -> str:
    """Write the figures and the report; say where."""
    greene = fits.results["greene"]
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {
        "effects": plot_coefficients(fits, "margeff"),
        "profile": greene.plot_profile("error_corr"),
        "probabilities": greene.plot_probabilities("x1"),
    }
    for name, ax in pictures.items():
        ax.figure.savefig(folder / f"{name}.png", dpi=100)
    greene.report(folder / "report.html", title="Demonstration: labels missing not at random")
    return f"In {folder}: report.html, {', '.join(f'{name}.png' for name in pictures)}."
