"""BiasCorr*: a biased labelled sample, and an unbiased sample of the target without labels.

python examples/from_target.py [--rows 5000] [--out figures]

The labelled rows were not drawn from the population that matters, and there is no record of who was
left out: only a second sample, of the population itself, in which nobody has a label. Algorithm 2
draws the unlabelled rows from it, so that the two together look like the population.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

from statsmodels_mnar import BiasCorrLogit
from statsmodels_mnar.baselines import NaiveLogit
from statsmodels_mnar.datasets import simulate_greene

CUTS = (-1.0, 0.0, 1.0)  # of the continuous columns, within which rows count as alike


def samples(n: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Labelled rows of one draw, and another draw of the population without labels."""
    first, second = simulate_greene(n, rng=0).data, simulate_greene(n, rng=1).data
    labeled = first.loc[first.s == 1, ["x1", "x2", "z", "y"]]
    return labeled, second[["x1", "x2", "z", "y_full"]]


def fit(labeled: pd.DataFrame, target: pd.DataFrame, **options: Any) -> Any:
    return BiasCorrLogit.from_target(
        "y ~ x1 + x2",
        "~ x1 + x2 + z",  # no left side: selected means "comes from labeled"
        labeled,
        target.drop(columns="y_full"),
        match_on={"x1": CUTS, "x2": None, "z": CUTS},
        rng=0,
        **options,
    ).fit()


def draw(path: pd.DataFrame, at: float, naive: float) -> Any:
    """Accuracy along the soft selection value; that of the naive logit as a line."""
    from matplotlib.figure import Figure

    ax = Figure(figsize=(6.4, 4.0), layout="constrained").add_subplot()
    ax.plot(path.index, path.accuracy, "o-", color="#0b4a8f", label="BiasCorr*")
    ax.axhline(naive, color="#c8580a", linestyle=":", label="naive logit")
    ax.axvline(at, color="0.6", linestyle="--", label="the estimated s-bar")
    ax.set(xlabel="soft selection value", ylabel="accuracy on the target")
    ax.legend(frameon=False)
    return ax


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000, help="size of each sample")
    parser.add_argument("--out", type=Path, default=Path("figures"), help="folder for figures")
    options = parser.parse_args(arguments)

    labeled, target = samples(options.rows)
    print(f"{len(labeled):,} labelled rows, {len(target):,} rows of the target without labels.")
    print("Means   " + "   ".join(f"{c} {labeled[c].mean():+.2f}" for c in ("x1", "x2", "z")))
    print("Target  " + "   ".join(f"{c} {target[c].mean():+.2f}" for c in ("x1", "x2", "z")))

    results = fit(labeled, target)
    print(results.summary())

    naive = NaiveLogit.from_formula(
        "y ~ x1 + x2", "~ x1", pd.concat([labeled, target.drop(columns="y_full")])
    ).fit()
    scores = {"naive logit": naive, "BiasCorr*": results}
    rows = {}
    for name, found in scores.items():
        p = found.predict(target)
        rows[name] = {"accuracy": ((p > 0.5) == target.y_full).mean(), "share of ones": p.mean()}
    print("\nOn the target, whose labels the models have not seen")
    print(pd.DataFrame.from_dict(rows, orient="index").round(4).to_string())
    print(f"Truth: share of ones {target.y_full.mean():.4f}.")
    print(
        "BiasCorr* is a classifier, not a consistent estimator of the outcome equation: "
        "look at what it does to accuracy, not at its coefficients."
    )

    path = results.sbar_path([0.1, 0.2, 0.3, 0.4, 0.45], target.y_full.to_numpy(), target)
    options.out.mkdir(parents=True, exist_ok=True)
    ax = draw(path, results.soft_selection, rows["naive logit"]["accuracy"])
    ax.figure.savefig(options.out / "soft_selection.png", dpi=100)
    print(f"\nsoft_selection.png is in {options.out}")


if __name__ == "__main__":
    main()
