"""Data in files, fitted by worker processes: the exact estimate, with clusters across files.

python examples/distributed.py [--rows 40000] [--out figures]

Two processes on this machine stand for a cluster. Each reads its share of a folder of parquet
files, keeps the rows, and returns sums of a few kilobytes in each iteration. Members of a household
are spread over the files, and depend on each other.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from statsmodels_mnar import Execution, GreeneSelectionLogit, local_workers

FILES, MEMBERS = 4, 20  # members of a household, on average
FORMULAS = ("y ~ x + C(region)", "s ~ x + C(region) + z")


def write_survey(folder: Path, rows: int) -> None:
    """A survey in files: who answers is not random, and households have something in common."""
    rng = np.random.default_rng(0)
    in_common = rng.standard_normal((2, rows // MEMBERS))
    for i, part in enumerate(np.array_split(np.arange(rows), FILES)):
        n = len(part)
        household = rng.integers(rows // MEMBERS, size=n)
        x, z, u = rng.standard_normal((3, n))
        x = 0.6 * x + 0.8 * in_common[0, household]
        u = 0.6 * u + 0.8 * in_common[1, household]
        answers = 0.2 + 0.4 * x + z + u > 0
        p = 1.0 / (1.0 + np.exp(-(-0.3 + 0.6 * x + 0.8 * u)))
        frame = pd.DataFrame({"x": x, "z": z, "household": household})
        frame["region"] = np.array(["north", "south", "west"])[rng.integers(3, size=n)]
        frame["s"] = answers.astype(int)
        frame["y"] = np.where(answers, rng.random(n) < p, np.nan)
        frame.to_parquet(folder / f"part-{i}.parquet", index=False)


def draw(replicates: pd.Series, estimate: float, errors: dict[str, float]) -> Any:
    """Replicates of one coefficient, and what two standard errors say of it."""
    from matplotlib.figure import Figure
    from scipy.stats import norm

    ax = Figure(figsize=(6.4, 4.0), layout="constrained").add_subplot()
    ax.hist(replicates, bins=12, density=True, color="0.85", edgecolor="0.6", label="bootstrap")
    widest = max(errors.values())
    grid = np.linspace(estimate - 3.5 * widest, estimate + 3.5 * widest, 200)
    for (name, error), line in zip(errors.items(), (":#c8580a", "-#0b4a8f"), strict=True):
        density = norm.pdf(grid, estimate, error)
        ax.plot(grid, density, line[0], color=line[1:], label=name)
    ax.set(xlabel=f"coefficient of {replicates.name}", ylabel="density")
    ax.legend(frameon=False)
    return ax


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=40_000, help="rows of the survey")
    parser.add_argument("--out", type=Path, default=Path("figures"), help="folder for figures")
    options = parser.parse_args(arguments)

    with tempfile.TemporaryDirectory() as folder, local_workers(2) as client:
        survey, scores = Path(folder, "survey"), Path(folder, "scores")
        survey.mkdir()
        write_survey(survey, options.rows)
        processes = sorted(client.run(os.getpid).values())
        print(f"{options.rows:,} rows in {FILES} files; workers are the processes {processes}.")

        model = GreeneSelectionLogit.from_formula(
            *FORMULAS,
            str(survey),
            execution=Execution(partition_rows=options.rows // FILES, client=client),
        )
        started = time.perf_counter()
        results = model.fit(cov_type="cluster", cov_kwds={"groups": "household"})
        print(f"{model.design.n_partitions} partitions, {time.perf_counter() - started:.1f} s")
        print(results.summary())

        whole = GreeneSelectionLogit.from_formula(*FORMULAS, pd.read_parquet(survey)).fit()
        difference = np.abs(results.params - whole.params).max()
        print(f"\nLargest difference from the estimates in memory: {difference:.1e}")

        # Households are drawn, wherever their members are, and the workers refit.
        draws = results.bootstrap(40, rng=0)
        errors = {"rows independent": whole.bse, "households": results.bse}
        table = pd.DataFrame({"estimate": results.params} | errors | {"bootstrap": draws.bse})
        print(f"\nStandard errors\n{table.round(4).to_string()}")

        files = results.predict_parquet(
            survey, scores, which=["mean", "prob-select"], client=client
        )
        share = pd.read_parquet(scores)["mean"].mean()
        print(f"\nPredictions went to {len(files)} files; the mean probability is {share:.3f}.")

    options.out.mkdir(parents=True, exist_ok=True)
    name = "select_x"  # x is much the same within a household
    ax = draw(
        draws.replicates[name], results.params[name], {k: se[name] for k, se in errors.items()}
    )
    ax.figure.savefig(options.out / "clusters.png", dpi=100)
    print(f"\nclusters.png is in {options.out}")


if __name__ == "__main__":
    # dask's workers come from a package of the same name, which is not to be found here.
    folder = Path(__file__).resolve().parent
    sys.path = [path for path in sys.path if Path(path).resolve() != folder]
    main()
