"""How often default intervals cover and tests reject: the tables of docs/standard-errors.md.

    python -m tests.studies.coverage run coverage.jsonl --sets 400          # hours on two cores
    python -m tests.studies.coverage run coverage.jsonl --only "n = 500" --part 1/2
    python -m tests.studies.coverage table coverage.jsonl

A run appends a line for each cell as it is done, and goes on where it was stopped. Set
OMP_NUM_THREADS=1 and give two processes a part each.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import optimize, stats
from scipy.special import expit

from statsmodels_mnar import GreeneSelectionLogit, monte_carlo
from statsmodels_mnar.datasets import Simulated
from statsmodels_mnar.post.paths import Curve

SLOPE = 1.0
TARGETS = ("slope", "error_corr", "AME", "prevalence", "unselected")
TESTS = ("lr", "wald", "score")
_U = np.linspace(-9.0, 9.0, 361)  # values of the selection error over which truths are averaged


@dataclass(frozen=True)
class Cell:
    """One way of making data: y = 1 with probability L(c + x + loading u), s = 1 if index + u > 0.

    ``errors`` is the distribution of u, standard normal where the model is right.
    """

    n: int
    instrument: float
    loading: float
    selected: float = 0.55
    prevalence: float = 0.5
    errors: str = "normal"

    @property
    def name(self) -> str:
        words = f"n = {self.n}, instrument {self.instrument:g}, loading {self.loading:+g}"
        if self.prevalence != 0.5:
            words += f", outcome {self.prevalence:.0%}"
        if self.selected != 0.55:
            words += f", selected {self.selected:.0%}"
        return words if self.errors == "normal" else f"{words}, {self.errors} errors"

    @property
    def kind(self) -> str:
        """The table in which the cell stands."""
        if self.errors != "normal":
            return "wrong"
        return "grid" if self.prevalence == 0.5 and self.selected == 0.55 else "edge"


def cells() -> Iterator[Cell]:
    for n in (500, 2_000):
        for instrument in (1.0, 0.3, 0.15, 0.0):
            for loading in (0.0, 1.5, -1.5, 3.0, -3.0):
                yield Cell(n, instrument, loading)
    for instrument in (1.0, 0.15):
        for n in (500, 2_000):
            yield Cell(n, instrument, 1.5, prevalence=0.03)
            yield Cell(n, instrument, 1.5, selected=0.1)
            yield Cell(n, instrument, 1.5, selected=0.9)
    for errors in ("t5", "logistic", "heteroskedastic"):
        for instrument in (1.0, 0.15):
            yield Cell(2_000, instrument, 1.5, errors=errors)


def density(errors: str, u: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Of the selection error at u, given x; unit variance but for the heteroskedastic one."""
    if errors == "t5":
        unit = math.sqrt(3.0 / 5.0)
        return stats.t.pdf(u / unit, 5) / unit
    if errors == "logistic":
        unit = math.sqrt(3.0) / math.pi
        return stats.logistic.pdf(u / unit) / unit
    scale = np.exp(0.4 * x) if errors == "heteroskedastic" else 1.0
    return stats.norm.pdf(u / scale) / scale


def draw(errors: str, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    n = len(x)
    if errors == "t5":
        return math.sqrt(3.0 / 5.0) * rng.standard_t(5, n)
    if errors == "logistic":
        return math.sqrt(3.0) / math.pi * rng.logistic(size=n)
    u = rng.standard_normal(n)
    return np.exp(0.4 * x) * u if errors == "heteroskedastic" else u


def intercepts(cell: Cell) -> tuple[float, float]:
    """Of the outcome and of selection, for the shares that the cell asks for."""
    spread = math.sqrt(0.5**2 + cell.instrument**2 + 1.0)
    select = spread * float(stats.norm.ppf(cell.selected))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    x, u = nodes[:, None], nodes[None]

    def excess(c: float) -> float:
        p = expit(c + SLOPE * x + cell.loading * u)
        return float(weights @ p @ weights) - cell.prevalence

    return float(optimize.brentq(excess, -15.0, 15.0)), select


def simulate(cell: Cell, rng: np.random.Generator) -> Simulated:
    """A data set, with the truth of the averages over its own rows."""
    outcome, select = intercepts(cell)
    x, z = rng.standard_normal((2, cell.n))
    u = draw(cell.errors, x, rng)
    a, b = outcome + SLOPE * x, select + 0.5 * x + cell.instrument * z
    y = (rng.random(cell.n) < expit(a + cell.loading * u)).astype(float)
    s = b + u > 0
    data = pd.DataFrame({"x": x, "z": z, "s": s.astype(int), "y": np.where(s, y, np.nan)})
    weight = np.broadcast_to(density(cell.errors, _U, x[:, None]), (cell.n, len(_U)))
    p = expit(a[:, None] + cell.loading * _U)
    every = (weight * p).sum(1) / weight.sum(1)
    slope = (weight * p * (1.0 - p)).sum(1) / weight.sum(1) * SLOPE
    # One grid for the part below -b, whose last piece is cut in proportion.
    step = _U[1] - _U[0]
    below = np.clip((-b[:, None] - _U) / step + 0.5, 0.0, 1.0) * weight
    unseen = (below * p).sum(1) / np.maximum(below.sum(1), 1e-300)
    truth = {
        "slope": SLOPE,
        "AME": slope.mean(),
        "prevalence": every.mean(),
        "unselected": unseen[~s].mean(),
    }
    if cell.errors == "normal":
        truth["error_corr"] = cell.loading / math.sqrt(cell.loading**2 + math.pi**2 / 3.0)
    truth |= {f"{name} wald": value for name, value in truth.items()}
    return Simulated(data, truth, "y ~ x", "s ~ x + z" if cell.instrument else "s ~ x")


def fit(cell: Cell, data: pd.DataFrame):
    """The user's line; what fits of many sets warn of nobody could read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        select = "s ~ x + z" if cell.instrument else "s ~ x"
        return GreeneSelectionLogit.from_formula("y ~ x", select, data).fit()


def ratio_at_truth(cell: Cell, results) -> float:
    """Twice the log-likelihood's fall from its maximum to the true loading; its mean is about 1."""
    path = results._closed().path("error_corr")
    corr = cell.loading / math.sqrt(cell.loading**2 + math.pi**2 / 3.0)
    (there,) = Curve(path).fit(np.array([path.inverse(corr)]))
    return 2.0 * (results.llf - there.solution.value)


def quantities(cell: Cell, results) -> pd.DataFrame:
    """Default and Wald intervals of every target, and the tests of independence."""
    unseen = (np.asarray(results.model.endog_select) == 0).astype(float)
    rows = {}
    for name, interval in (("", None), (" wald", "wald")):
        table = results.dependence_table(interval=interval).loc["error_corr"].to_numpy(dtype=float)
        effects = results.get_margeff(interval=interval).summary_frame().loc["x"]
        found = results.get_prediction(average=True, interval=interval).summary_frame()
        hidden = results.get_prediction(
            which="mean-unselected", agg_weights=unseen, interval=interval
        ).summary_frame()
        low, high = np.asarray(results.conf_int(interval=interval))[1]
        rows[f"slope{name}"] = (results.params["x"], results.bse["x"], low, high)
        rows[f"error_corr{name}"] = tuple(table)
        rows[f"AME{name}"] = tuple(effects.to_numpy()[[0, 1, 4, 5]])
        rows[f"prevalence{name}"] = tuple(found.to_numpy()[0])
        rows[f"unselected{name}"] = tuple(hidden.to_numpy()[0])
    columns = ["estimate", "std_error", "conf_low", "conf_high"]
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    profiled = results.get_margeff().interval == "profile"
    shares = {"weak": bool(results.weak), "skewed": profiled and not results.weak}
    for name, value in shares.items():
        frame.loc[name] = [float(value), 1.0, np.nan, np.nan]
    if cell.errors == "normal":
        frame.loc["ratio"] = [ratio_at_truth(cell, results), 1.0, np.nan, np.nan]
    for test in TESTS:
        try:
            root = math.sqrt(max(results.test_independence(test).statistic, 0.0))
        except ValueError:  # at a corner there is no Wald test
            root = math.nan
        frame.loc[test] = [root, 1.0, np.nan, np.nan]
    return frame


def run(cell: Cell, n_sets: int, seed: int = 0) -> dict:
    """One line of the file."""
    found = monte_carlo(
        lambda rng: simulate(cell, rng),
        {"default": lambda data: fit(cell, data)},
        n_sets,
        rng=seed,
        quantities=lambda results: quantities(cell, results),
    )
    table, rows = found.table.loc["default"], found.estimates
    lengths = (rows.conf_high - rows.conf_low).groupby(rows.parameter).median()
    line: dict = {"cell": cell.name, "kind": cell.kind, "sets": n_sets}
    line["failed"] = dict(found.failed["default"])
    line |= {name: float(table.loc[name, "mean"]) for name in ("weak", "skewed")}
    if cell.errors == "normal":
        line["ratio"] = float(table.loc["ratio", "mean"])
    for target in TARGETS:
        wald = f"{target} wald"
        line[target] = {
            "truth": float(table.loc[target, "truth"]),
            "bias": float(table.loc[target, "bias"]),
            "coverage": float(table.loc[target, "coverage"]),
            "mcse": float(table.loc[target, "coverage_mcse"]),
            "length": float(lengths[target]),
            "wald_coverage": float(table.loc[wald, "coverage"]),
            "wald_length": float(lengths[wald]),
        }
    for test in TESTS:
        known = rows[rows.parameter == test].estimate
        line[test] = {
            "rejection": float((known > stats.norm.ppf(0.975)).sum() / known.notna().sum())
            if known.notna().any()
            else math.nan,
            "missing": float(known.isna().mean()),
        }
    return line


def read(path: Path) -> list[dict]:
    if not path.exists():
        return []
    return [json.loads(text) for text in path.read_text().splitlines()]


def table(lines: list[dict]) -> str:
    """The tables in Markdown."""
    titles = {
        "grid": "The model is right",
        "edge": "Few of one kind",
        "wrong": "It is wrong",
    }
    text = []
    order = {cell.name: place for place, cell in enumerate(cells())}
    lines = sorted(lines, key=lambda line: order[line["cell"]])
    for kind, title in titles.items():
        text += [
            "",
            f"### {title}",
            "",
            "| data | weak, skewed | slope | error_corr | AME | prevalence | P(y = 1, unselected) "
            "| length over Wald's | LR, Wald, score | mean ratio |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
        for line in (line for line in lines if line["kind"] == kind):
            covered = [
                f"{100 * line[t]['coverage']:.1f} ({100 * line[t]['wald_coverage']:.1f})"
                if not math.isnan(line[t]["truth"])
                else "–"
                for t in TARGETS
            ]
            ratio = line["prevalence"]["length"] / line["prevalence"]["wald_length"]
            tests = ", ".join(f"{100 * line[test]['rejection']:.1f}" for test in TESTS)
            mean = f"{line['ratio']:.2f}" if "ratio" in line else "–"
            text.append(
                f"| {line['cell']} | {100 * line['weak']:.0f}%, {100 * line['skewed']:.0f}% "
                f"| {' | '.join(covered)} "
                f"| {ratio:.2f} | {tests} "
                f"| {mean} |"
            )
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--sets", type=int, default=400)
    parser.add_argument("--only", default="", help="cells whose name has this text")
    parser.add_argument("--part", default="1/1", help="such as 1/2: every second cell")
    args = parser.parse_args()
    if args.what == "table":
        print(table(read(args.file)))
        return
    part, parts = map(int, args.part.split("/"))
    for place, cell in enumerate(cells()):
        done = {line["cell"] for line in read(args.file)}
        if args.only in cell.name and place % parts == part - 1 and cell.name not in done:
            line = run(cell, args.sets)
            with args.file.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(cell.name, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
