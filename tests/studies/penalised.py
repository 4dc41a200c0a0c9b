"""Bias and coverage of fits with group effects: the tables of docs/howto/decision-makers.md.

    python -m tests.studies.penalised run penalised.jsonl --sets 400          # many hours
    python -m tests.studies.penalised run penalised.jsonl --sets 40 --most-rows 2000 --interval wald
    python -m tests.studies.penalised table penalised.jsonl

A run appends a line for each data set as it is done, and goes on where it was stopped. Set
OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from statsmodels_mnar import ProbitSelection
from statsmodels_mnar.datasets import simulate_interviewers

OUTCOME = "y ~ np.cos(1.5 * x1) + x2"
SELECT = "s ~ np.sin(1.5 * x1) + x2 + z"
SD, CORR = 0.6, -0.6
JOINT = {40: 45, 400: 10}  # sets, by groups, for which the joint mode is computed too


@dataclass(frozen=True)
class Cell:
    """Interviewers with so many rows each; a share of them is refused by hardly anybody."""

    groups: int
    rows: int
    separated: float

    @property
    def name(self) -> str:
        return f"{self.groups} groups of {self.rows}, {self.separated:.0%} separated"

    @property
    def n(self) -> int:
        return self.groups * self.rows


def cells() -> Iterator[Cell]:
    for groups in (40, 400):
        for rows in (5, 10, 20, 50):
            for separated in (0.0, 0.2):
                yield Cell(groups, rows, separated)


def one_set(cell: Cell, number: int, interval: str | None) -> dict[str, Any]:
    """Estimates, intervals and truths of one data set, by quantity."""
    seed = np.random.default_rng([cell.groups, cell.rows, round(100 * cell.separated), number])
    simulated = simulate_interviewers(
        cell.n, groups=cell.groups, sd=SD, error_corr=CORR, separated=cell.separated, rng=seed
    )
    data = simulated.data
    share = data.groupby("interviewer").s.mean()
    found: dict[str, Any] = {"cell": cell.name, "number": number, "always": (share == 1).mean()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            start = time.process_time()
            model = ProbitSelection.from_formula(
                OUTCOME, f"{SELECT} + re(interviewer)", data, env={"np": np}
            )
            results = model.fit()
            found["seconds"] = time.process_time() - start
            found |= quantities(results, interval)
            if number < JOINT[cell.groups]:
                joint = model.fit(dependence="joint")
                found |= {f"{k} (joint)": v for k, v in quantities(joint, interval).items()}
            # What users do today: the share of consents on the interviewer's other rows.
            rest = data.groupby("interviewer").s.transform("sum") - data.s
            size = data.groupby("interviewer").s.transform("size") - 1
            others = (rest / size.clip(lower=1)).where(size > 0, data.s.mean())
            apart = ProbitSelection.from_formula(
                OUTCOME, f"{SELECT} + others", data.assign(others=others), env={"np": np}
            ).fit()
            found |= {f"{k} (leave-one-out)": v for k, v in quantities(apart, interval).items()}
        except ValueError as error:
            found["failed"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    found["truth"] = {"prevalence": float(data.y_full.mean()), "x2": 0.4, "select_z": 0.25}
    found["truth"] |= {"rho": CORR, "sd": SD}
    return found


def quantities(results: Any, how: str | None) -> dict[str, tuple[float, float, float]]:
    """Estimate and interval of each quantity."""
    found = {}
    interval = results.conf_int(interval=how)
    for name in ("x2", "select_z"):
        found[name] = (results.params[name], *interval.loc[name])
    rho = results.dependence_table(interval=how).loc["rho"].to_numpy(dtype=float)
    found["rho"] = (rho[0], rho[2], rho[3])
    row = results.get_prediction(average=True, interval=how).summary_frame().iloc[0]
    found["prevalence"] = (row.predicted, row.ci_lower, row.ci_upper)
    if results.model.design.penalised:
        term = results.penalised_terms().iloc[0]
        found["sd"] = (term.sd, term.sd_lower, term.sd_upper)
    return {name: tuple(float(f"{v:.5g}") for v in values) for name, values in found.items()}


def run(
    path: Path, sets: int, most_rows: int | None, only: list[str], interval: str | None
) -> None:
    done = set()
    if path.exists():
        done = {(line["cell"], line["number"]) for line in map(json.loads, path.open())}
    chosen = [
        cell for cell in cells()
        if (most_rows is None or cell.n <= most_rows)
        and (not only or any(part in cell.name for part in only))
    ]  # fmt: skip
    for number in range(sets):  # of all cells, so that a run that is stopped has the same of each
        for cell in chosen:
            if (cell.name, number) not in done:
                line = json.dumps(one_set(cell, number, interval))
                with path.open("a") as file:
                    file.write(line + "\n")


def table(path: Path) -> pd.DataFrame:
    """Mean error and coverage of each quantity by cell, with the number of sets."""
    lines = [json.loads(line) for line in path.open()]
    rows = []
    for cell in dict.fromkeys(line["cell"] for line in lines):
        own = [line for line in lines if line["cell"] == cell]
        kept = [line for line in own if "failed" not in line]
        names = [
            name for name in kept[0] if isinstance(kept[0][name], list)
        ] if kept else []  # fmt: skip
        for name in names:
            found = [line for line in kept if name in line]
            truth = np.array([line["truth"][name.split(" ")[0]] for line in found])
            estimate, low, high = np.array([line[name] for line in found], dtype=float).T
            error = estimate - truth
            known = np.isfinite(low)
            rows.append(
                {
                    "cell": cell, "quantity": name, "sets": len(found),
                    "failed": len(own) - len(kept),
                    "always": np.mean([line["always"] for line in own]),
                    "mean": estimate.mean(), "bias": error.mean(),
                    "mcse": error.std() / np.sqrt(len(error)), "rmse": np.sqrt(np.mean(error**2)),
                    "coverage": ((low <= truth) & (truth <= high))[known].mean(),
                    "zero": float(np.mean(estimate == 0.0)),
                    "median": np.median(estimate),
                }
            )  # fmt: skip
    return pd.DataFrame(rows).set_index(["cell", "quantity"])


def laplace(rows: int, groups: int = 2_000, sd: float = SD, seed: int = 0) -> tuple[float, float]:
    """sd that maximises Laplace's and the exact marginal likelihood of a probit with groups.

    Intercept and other effects are known here, so that nothing but the approximation differs.
    """
    rng = np.random.default_rng(seed)
    effect = sd * rng.standard_normal(groups)
    ones = rng.binomial(rows, norm.cdf(0.4 + effect))
    u = np.linspace(-8.0, 8.0, 1_601)
    weight = norm.logpdf(u) + np.log(u[1] - u[0])
    counts, times = np.unique(ones, return_counts=True)

    def likelihood(value: float) -> tuple[float, float]:
        index = 0.4 + value * u
        up, down = norm.logcdf(index), norm.logcdf(-index)
        joint = counts[:, None] * up + (rows - counts)[:, None] * down
        exact = np.log(np.exp(joint + weight).sum(1))
        top = (joint - 0.5 * u**2).argmax(1)
        step = u[1] - u[0]
        whole = joint - 0.5 * u**2
        inner = np.clip(top, 1, len(u) - 2)
        bend = -np.array(
            [(w[i + 1] - 2 * w[i] + w[i - 1]) / step**2 for w, i in zip(whole, inner, strict=True)]
        )
        approximate = whole[np.arange(len(whole)), top] - 0.5 * np.log(bend)
        return float(times @ approximate), float(times @ exact)

    grid = np.linspace(0.05, 1.2, 231)
    values = np.array([likelihood(float(g)) for g in grid])
    return float(grid[values[:, 0].argmax()]), float(grid[values[:, 1].argmax()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("path", type=Path)
    runs.add_argument("--sets", type=int, default=400)
    runs.add_argument("--most-rows", type=int)
    runs.add_argument("--only", nargs="+", default=[], help="parts of the names of cells")
    runs.add_argument("--interval", choices=["wald", "profile"], help="by default the fit's own")
    commands.add_parser("table").add_argument("path", type=Path)
    commands.add_parser("laplace")
    given = parser.parse_args()
    if given.command == "run":
        run(given.path, given.sets, given.most_rows, given.only, given.interval)
    elif given.command == "table":
        print(table(given.path).round(3).to_string())
    else:
        for rows in (2, 5, 10, 20, 50, 200):
            print(rows, *(f"{value:.3f}" for value in laplace(rows)))


if __name__ == "__main__":
    main()
