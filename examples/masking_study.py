"""Does a correction help? German credit, Adult and the credit card data, with labels hidden.

python examples/masking_study.py [--data FOLDER] [--rows 4000] [--repeats 10] [--out figures]
                                 [--only German]

Labels that are known are hidden by known mechanisms, and methods are scored against the truth. The
credit card data have rows without a label: their own selection, as a probit sees it, decides there
who keeps one. Without the files, simulated credit applications take their place. Each repeat is
written to masking_study.csv as it is done, and a run goes on where another one was stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

from statsmodels_mnar.datasets import (
    FORMULAS,
    DataFileError,
    load_adult,
    load_credit_card,
    load_german,
    simulate_credit,
)
from statsmodels_mnar.learn import BoostedSelectionClassifier, MaskingStudy, masking_study

METHODS: dict[str, Any] = {
    "oracle": "oracle",
    "naive": "naive",
    "IPW": "IPW",
    "reclassification": "reclassification",
    "parcelling": "parcelling",
    "score bands": "score bands",
    "Greene": "Greene",
    "ProbitSelection": "ProbitSelection",
    "BiasCorr": "BiasCorr",
    "naive booster": HistGradientBoostingClassifier(max_iter=60, random_state=0),
}
for _name in ("lightgbm", "xgboost"):
    if find_spec(_name):
        METHODS["boosted selection"] = BoostedSelectionClassifier(_name, n_jobs=1)
        break
SCORES = {"auc": "AUC", "brier": "Brier score", "prevalence_error": "prevalence error"}


def problems(folder: str | None, rows: int) -> Iterator[tuple[str, pd.DataFrame, str, str | None]]:
    """Name, data, outcome and selection formula of each problem; at most ``rows`` rows."""
    german = load_german(folder)
    yield (
        "German", german,
        "good ~ duration + credit_amount + installment_rate + age + existing_credits"
        " + C(status_checking) + C(savings)",
        None,
    )  # fmt: skip
    adult = load_adult(folder).dropna().sample(rows, random_state=0)
    yield (
        "Adult", adult,
        "income ~ age + education_num + hours_per_week + C(sex) + C(relationship)",
        None,
    )  # fmt: skip
    cards = load_credit_card(folder).sample(rows, random_state=0)
    yield "credit card", cards, *FORMULAS["credit_card"]


def made(rows: int) -> Iterator[tuple[str, pd.DataFrame, str, str | None]]:
    """Simulated credit applications."""
    simulated = simulate_credit(rows, rng=0)
    yield "simulated", simulated.data, simulated.formula, simulated.select_formula


def draw(studies: dict[str, MaskingStudy]) -> Any:
    """A figure: scores by data sets."""
    from matplotlib.figure import Figure

    size = (4.2 * len(studies), 2.7 * len(SCORES))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(SCORES), len(studies), squeeze=False, sharex=True)
    for j, (name, study) in enumerate(studies.items()):
        for i, (score, label) in enumerate(SCORES.items()):
            ax = study.plot(score, "oracle", ax=grid[i, j])
            ax.axhline(0.0, color="0.6", linewidth=0.8)
            ax.get_legend().remove()
            ax.set_ylabel(f"{label} less oracle's" if j == 0 else "")
            ax.set_title(name if i == 0 else "")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def studied(
    name: str,
    data: pd.DataFrame,
    formula: str,
    select_formula: str | None,
    repeats: int,
    file: Path,
) -> MaskingStudy:
    """A masking study of which the file has some repeats, and is given the others."""
    done = pd.read_csv(file) if file.exists() else None
    for repeat in range(repeats):
        if done is not None and ((done["dataset"] == name) & (done["repeat"] == repeat)).any():
            continue
        one = masking_study(data, formula, select_formula, METHODS, repeats=1, rng=repeat)
        lines = one.frame.assign(dataset=name, repeat=repeat)
        lines.to_csv(file, mode="a", header=not file.exists(), index=False)
        print(f"{name}: repeat {repeat + 1} of {repeats}", file=sys.stderr, flush=True)
    frame = pd.read_csv(file, dtype={"error": object}).fillna({"error": ""})
    frame = frame[(frame["dataset"] == name) & (frame["repeat"] < repeats)]
    labels = data[formula.partition("~")[0].strip()].dropna()
    return MaskingStudy(
        frame.drop(columns="dataset"), len(labels), int(labels.sum()), tuple(METHODS)
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the raw files")
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--only", nargs="+", help="names of data sets; by default all")
    parser.add_argument("--out", type=Path, default=Path("figures"))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        given = [
            each
            for each in problems(options.data, options.rows)
            if options.only is None or each[0] in options.only
        ]
    except DataFileError as error:
        print(f"{error}\n\nSimulated applications in their place.")
        given = list(made(options.rows))
    file = options.out / "masking_study.csv"
    studies = {each[0]: studied(*each, options.repeats, file) for each in given}
    for name, study in studies.items():
        print(f"\n{name}\n{'-' * len(name)}\n{study}")
    draw(studies).savefig(options.out / "masking_study.png", dpi=110)
    print(f"\nSaved to {options.out}")


if __name__ == "__main__":
    main()
