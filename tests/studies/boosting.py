"""What boosted trees gain from correction: the table of docs/howto/boosting.md.

    python -m tests.studies.boosting run tests/studies/boosting.jsonl --sets 20  # 20 minutes
    python -m tests.studies.boosting table tests/studies/boosting.jsonl
    python -m tests.studies.boosting cost --rows 1000000 --trees 150

A run appends a line for each method on each data set of each cell as it is done, and goes on where
it was stopped.
Set OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import resource
import sys
import time
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from statsmodels_mnar import GreeneSelectionLogit
from statsmodels_mnar.learn import BoostedSelectionClassifier, NeuralSelectionClassifier

N, N_TEST = 20_000, 100_000
OUTCOME = [f"x{j}" for j in range(6)]
PARAMS = {"num_leaves": 15, "num_threads": 1, "verbosity": -1}
METHODS = ("oracle", "naive", "IPW", "linear Greene", "boosted", "neural")
_NODES = np.linspace(-6.0, 6.0, 121)


@dataclass(frozen=True)
class Cell:
    """One way of making data: a loading, an instrument's coefficient, and whether rows are seen."""

    name: str
    loading: float
    instrument: float
    selects: bool = True


CELLS = (
    Cell("strong instrument", 1.5, 1.0),
    Cell("weak instrument", 1.5, 0.3),
    Cell("MAR", 0.0, 1.0),
    Cell("no selection", 1.5, 1.0, selects=False),
)


@lru_cache(maxsize=2)
def simulate(cell: Cell, n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Features, labels of all rows with P(y = 1), and which rows are labelled."""
    rng = np.random.default_rng(seed)
    x, z, u = rng.normal(size=(n, 6)), rng.normal(size=n), rng.normal(size=n)
    x[:, 1] = 0.5 * x[:, 0] + math.sqrt(0.75) * x[:, 1]
    a = -0.9 + 1.3 * (x[:, 0] > 0.4) + 0.8 * x[:, 1] * x[:, 2] + 0.5 * x[:, 4]
    a -= (x[:, 3] > 0) * (x[:, 1] < 0.5)
    b = -0.2 + 0.7 * (x[:, 0] > -0.2) - 0.5 * x[:, 1] * (x[:, 2] > 0) + 0.4 * x[:, 4] * x[:, 3]
    b += cell.instrument * np.clip(z, -2.0, 2.0)
    frame = pd.DataFrame(x, columns=OUTCOME).assign(z=z)
    y = (rng.random(n) < expit(a + cell.loading * u)).astype(float)
    weight = np.exp(-0.5 * _NODES**2)
    p = expit(a[:, None] + cell.loading * _NODES) @ (weight / weight.sum())
    seen = b + u > 0 if cell.selects else np.ones(n, dtype=bool)
    return frame, np.stack([y, p]), seen


def ordinary(X: pd.DataFrame, y: np.ndarray, weight: np.ndarray | None = None, trees: int = 500):
    """LightGBM with early stopping on a fifth of the rows, then on all of them."""
    rows = np.arange(len(y))
    train, held = train_test_split(rows, test_size=0.2, random_state=0)
    w = np.ones(len(y)) if weight is None else weight
    data = lightgbm.Dataset(X.iloc[train], y[train], weight=w[train])
    test = lightgbm.Dataset(X.iloc[held], y[held], weight=w[held], reference=data)
    settings = {**PARAMS, "objective": "binary", "learning_rate": 0.1}
    stop = lightgbm.early_stopping(30, verbose=False)
    found = lightgbm.train(settings, data, trees, valid_sets=[test], callbacks=[stop])
    return lightgbm.train(settings, lightgbm.Dataset(X, y, weight=w), found.best_iteration)


def predict(method: str, X: pd.DataFrame, y: np.ndarray, seen: np.ndarray, new: pd.DataFrame):
    """P(y = 1) at new rows, and the loading where there is one."""
    label = np.where(seen, y, np.nan)
    if method == "oracle":
        return ordinary(X[OUTCOME], y).predict(new[OUTCOME]), None
    if method == "naive":
        return ordinary(X[OUTCOME][seen], y[seen]).predict(new[OUTCOME]), None
    if method == "IPW":
        share = ordinary(X, seen.astype(float)).predict(X)
        weight = 1.0 / np.clip(share[seen], 0.02, 1.0)
        return ordinary(X[OUTCOME][seen], y[seen], weight).predict(new[OUTCOME]), None
    if method == "linear Greene":
        terms = " + ".join(OUTCOME)
        data = X.assign(y=label, s=seen.astype(int))
        results = GreeneSelectionLogit.from_formula(f"y ~ {terms}", f"s ~ {terms} + z", data).fit()
        return np.asarray(results.predict(new)), float(results.params["loading"])
    if method == "boosted":
        model = BoostedSelectionClassifier(
            params={"num_leaves": 15}, n_jobs=1, outcome_features=OUTCOME
        )
    else:
        model = NeuralSelectionClassifier(outcome_features=OUTCOME)
    model.fit(X, label)
    return model.predict_proba(new)[:, 1], model.loading_


def run(cell: Cell, number: int, method: str) -> dict:
    """One line of the file."""
    X, (y, _), seen = simulate(cell, N, 1_000 * number + 1)
    new, (label, truth), _ = simulate(cell, N_TEST, 1_000 * number + 2)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p, loading = predict(method, X, y, seen, new)
    return {
        "cell": cell.name,
        "set": number,
        "method": method,
        "auc": float(roc_auc_score(label, p)),
        "brier": float(np.mean((p - label) ** 2)),
        "prevalence": float(p.mean() - truth.mean()),
        "rmse": float(np.sqrt(np.mean((p - truth) ** 2))),
        "loading": loading,
        "seconds": time.process_time() - start,
    }


def read(path: Path) -> pd.DataFrame:
    """The lines of a file, one for each method on each data set of each cell."""
    if not path.exists():
        return pd.DataFrame(columns=["cell", "set", "method"])
    frame = pd.DataFrame([json.loads(text) for text in path.read_text().splitlines()])
    return frame.astype({"loading": float})


def gap_closed(frame: pd.DataFrame) -> pd.DataFrame:
    """The share of the naive booster's loss against the oracle that each method wins back.

    Standard errors are the jackknife's over the data sets.
    """

    def share(wide: pd.DataFrame, method: str) -> float:
        mean = wide.mean()
        return (mean["naive"] - mean[method]) / (mean["naive"] - mean["oracle"])

    frame = frame.assign(prevalence=frame["prevalence"].abs())
    rows = []
    for cell, score in itertools.product([c.name for c in CELLS[:2]], ["brier", "prevalence"]):
        wide = frame[frame["cell"] == cell].pivot(index="set", columns="method", values=score)
        for method in [name for name in METHODS[2:] if name in wide]:
            some = wide[["oracle", "naive", method]].dropna()
            without = [share(some.drop(index=number), method) for number in some.index]
            error = math.sqrt((len(some) - 1) * np.var(without))
            rows.append((cell, score, method, share(some, method), error, len(some)))
    names = ["cell", "score", "method", "share", "standard error", "sets"]
    return pd.DataFrame(rows, columns=names)


def table(frame: pd.DataFrame) -> str:
    """Means over the data sets with their standard errors, in Markdown."""
    head = (
        "| data | method | AUC | Brier | prevalence error | RMSE of P | loading | seconds | sets |"
    )
    text = [head, "| --- " * 9 + "|"]
    groups = frame.groupby(["cell", "method"])
    for cell in CELLS:
        for method in METHODS:
            if (cell.name, method) not in groups.groups:
                continue
            found = groups.get_group((cell.name, method)).drop(columns=["cell", "method", "set"])
            mean, error = found.mean(), found.sem()
            loading = f"{mean['loading']:.2f} ± {error['loading']:.2f}"
            text.append(
                f"| {cell.name} | {method} | {mean['auc']:.4f} ± {error['auc']:.4f} "
                f"| {mean['brier']:.4f} ± {error['brier']:.4f} "
                f"| {mean['prevalence']:+.4f} ± {error['prevalence']:.4f} "
                f"| {mean['rmse']:.3f} ± {error['rmse']:.3f} "
                f"| {'–' if math.isnan(mean['loading']) else loading} "
                f"| {mean['seconds']:.1f} | {len(found)} |"
            )
    return "\n".join(text)


def cost(rows: int, trees: int) -> None:
    """Print processor time and memory of two ordinary boosters, and of the corrected one."""
    parts = [simulate(CELLS[0], min(rows, 100_000), seed) for seed in range(-(-rows // 100_000))]
    X = pd.concat([part[0] for part in parts], ignore_index=True)
    y, seen = (np.concatenate(each) for each in zip(*((p[1][0], p[2]) for p in parts), strict=True))
    prevalence = float(y.mean())

    def memory() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20

    print(f"{len(y)} rows, {int(seen.sum())} labelled; {memory():.2f} GB before", flush=True)
    start = time.process_time()
    naive = ordinary(X[OUTCOME][seen], y[seen], trees=trees)
    select = ordinary(X, seen.astype(float), trees=trees)
    two = time.process_time() - start
    print(
        f"two ordinary boosters ({naive.num_trees()} and {select.num_trees()} trees): {two:.0f} s, "
        f"at most {memory():.2f} GB; prevalence off by "
        f"{naive.predict(X[OUTCOME]).mean() - prevalence:+.4f}",
        flush=True,
    )
    start, wall = time.process_time(), time.perf_counter()
    model = BoostedSelectionClassifier(
        params={"num_leaves": 15}, n_jobs=1, n_estimators=trees, outcome_features=OUTCOME
    ).fit(X, np.where(seen, y, np.nan))
    took, wall = time.process_time() - start, time.perf_counter() - wall
    print(
        f"corrected ({model.n_rounds_}): {took:.0f} s ({wall:.0f} s of wall time), "
        f"{took / two:.2f} times, at most {memory():.2f} GB; loading {model.loading_:.3f}; "
        f"prevalence off by {model.predict_proba(X)[:, 1].mean() - prevalence:+.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=["run", "table", "cost"])
    parser.add_argument("file", type=Path, nargs="?", default=Path("boosting.jsonl"))
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--trees", type=int, default=150, help="of each equation, at most")
    args = parser.parse_args()
    if args.what == "cost":
        cost(args.rows, args.trees)
        return
    if args.what == "table":
        frame = read(args.file)
        print(table(frame), gap_closed(frame).round(3).to_string(index=False), sep="\n\n")
        return
    for number in range(args.sets):
        for cell, method in itertools.product(CELLS, args.methods):
            if not cell.selects and method not in ("oracle", "boosted", "neural"):
                continue  # the others are the oracle, or refuse rows that are all labelled
            done = read(args.file)
            same = (done["cell"] == cell.name) & (done["set"] == number)
            if not (same & (done["method"] == method)).any():
                line = run(cell, number, method)
                with args.file.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(cell.name, number, method, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
