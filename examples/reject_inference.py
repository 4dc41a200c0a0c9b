"""Reject inference from end to end: a scorecard for everybody who applies, not only the accepted.

python examples/reject_inference.py [--rows 10000] [--out figures]

Default is known for accepted applicants only. Officers, who saw the applicants, accepted some
against the score and rejected others: what they saw is not in the data, so the labels are missing
not at random. Officers were assigned at random and differ in leniency, which therefore moves
acceptance but not default: the exclusion restriction. The data are simulated, so the truth is known
and shown.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from statsmodels_mnar import GreeneSelectionLogit, compare, exclusion_test
from statsmodels_mnar.baselines import NaiveLogit, OracleLogit
from statsmodels_mnar.datasets import Simulated, simulate_credit


def heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


def fit(simulated: Simulated) -> tuple[Any, Any]:
    """The logit of the accepted, and the selection logit of all applications."""
    formulas = (simulated.formula, simulated.select_formula)
    naive = NaiveLogit.from_formula(*formulas, simulated.data).fit()
    model = GreeneSelectionLogit.from_formula(*formulas, simulated.data)
    return naive, model.fit()


def effects(simulated: Simulated, naive: Any, corrected: Any) -> pd.DataFrame:
    """Average marginal effects: of all labels, of the accepted alone, of the selection logit."""
    oracle = OracleLogit.from_formula(
        simulated.oracle_formula, simulated.select_formula, simulated.data
    ).fit()
    fits = {"all labels": oracle, "accepted only": naive, "selection logit": corrected}
    return compare(fits).margeff


def rates(data: pd.DataFrame, naive: Any, corrected: Any) -> pd.DataFrame:
    """Share of defaults among the rejected and among all: truth and predictions."""
    rejected = data[data.approved == 0]
    rows = {}
    for name, part, which in (("rejected", rejected, "mean-unselected"), ("all", data, "mean")):
        predicted = corrected.get_prediction(part, which=which, average=True).summary_frame()
        rows[name] = {
            "truth": part.default_full.mean(),
            "accepted only": naive.predict(part).mean(),
            "selection logit": predicted.predicted.iloc[0],
            "low": predicted.ci_lower.iloc[0],
            "high": predicted.ci_upper.iloc[0],
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def next_in_line(data: pd.DataFrame, naive: Any, corrected: Any, share: float) -> pd.DataFrame:
    """The rejected whom each scorecard would accept first, and how they would have paid."""
    rejected = data[data.approved == 0]
    n = int(share * len(rejected))
    scores = {
        "accepted only": naive.predict(rejected),
        "selection logit": corrected.predict(rejected, which="mean-unselected"),
    }
    rows = {}
    for name, p in scores.items():
        chosen = p.sort_values().index[:n]
        rows[name] = {
            "predicted": p[chosen].mean(),
            "truth": rejected.default_full[chosen].mean(),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def scorecards(data: pd.DataFrame, naive: Any, corrected: Any, bins: int = 8) -> pd.DataFrame:
    """Default by the ratio of debt to income: what is, what is seen, what the models say."""
    rows = {}
    for _, part in data.groupby(pd.qcut(data.debt_ratio, bins), observed=True):
        predicted = corrected.get_prediction(part, average=True).summary_frame().iloc[0]
        rows[part.debt_ratio.mean()] = {
            "truth": part.default_full.mean(),
            "observed": part.default.mean(),
            "naive": naive.predict(part).mean(),
            "corrected": predicted.predicted,
            "low": predicted.ci_lower,
            "high": predicted.ci_upper,
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("debt_ratio")


def draw_scorecards(table: pd.DataFrame) -> Any:
    """The picture of the README."""
    from matplotlib.figure import Figure

    ax = Figure(figsize=(6.4, 4.2), layout="constrained").add_subplot()
    x = table.index
    ax.fill_between(x, table.low, table.high, color="#0b4a8f", alpha=0.2, linewidth=0)
    ax.plot(
        x, table.corrected, color="#0b4a8f", linewidth=2, label="selection logit, all applicants"
    )
    ax.plot(x, table.naive, "--", color="#c8580a", linewidth=2, label="logit of the accepted")
    ax.plot(x, table.truth, "o", color="black", label="truth, all applicants (unknown in practice)")
    ax.plot(x, table.observed, "s", markerfacecolor="none", color="0.4", label="observed, accepted")
    ax.set(xlabel="debt service to income", ylabel="share of defaults", ylim=(0, None))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False, fontsize="small")
    ax.figure.suptitle(
        "Debt raises default, which a logit of the accepted does not see", fontweight="bold",
        fontsize="medium", x=0.01, ha="left",
    )  # fmt: skip
    return ax


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000, help="applications to simulate")
    parser.add_argument("--out", type=Path, default=Path("figures"), help="folder for figures")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)

    simulated = simulate_credit(options.rows)
    data = simulated.data
    heading("1. The applications")
    print(
        f"{len(data):,} applications, {data.approved.sum():,} accepted, {data.override.sum():,} of "
        f"all decisions against the score. Default among the accepted: {data.default.mean():.1%}."
    )

    heading("2. The selection logit")
    naive, corrected = fit(simulated)
    print(corrected.summary())
    print(exclusion_test(corrected))

    heading("3. What moves default: average marginal effects on P(default)")
    print(effects(simulated, naive, corrected).round(4).to_string())

    heading("4. How many of the rejected would have defaulted?")
    print(rates(data, naive, corrected).round(4).to_string())

    heading("5. The tenth of the rejected that each scorecard would accept first")
    print(next_in_line(data, naive, corrected, 0.1).round(4).to_string())

    heading("6. The accepted-only scorecard on everybody who came through the door")
    metrics = corrected.population_metrics(naive.predict(data))
    print(metrics.summary_frame().round(4).to_string())

    heading("7. What if the dependence were another?")
    held = corrected.sensitivity(error_corr=np.linspace(-0.8, 0.4, 7), target="prevalence")
    print(held)

    draw_scorecards(scorecards(data, naive, corrected)).figure.savefig(
        options.out / "scorecards.png", dpi=100
    )
    corrected.plot_sensitivity(held).figure.savefig(options.out / "sensitivity.png", dpi=100)
    corrected.report(options.out / "report.html", title="Reject inference")
    print(f"\nscorecards.png, sensitivity.png and report.html are in {options.out}")


if __name__ == "__main__":
    main()
