"""Time and memory of fits to data in partitions.

    python tests/benchmarks/large_data.py make FOLDER --rows 10000000
    python tests/benchmarks/large_data.py stream FOLDER       # out of core
    python tests/benchmarks/large_data.py memory FOLDER       # all rows in memory
    python tests/benchmarks/large_data.py workers FOLDER      # one worker against two

``make`` writes a seeded data set of files of a million rows: three numeric covariates, a factor of
five levels, a cluster key, selection and an outcome. The others print one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np
import pandas as pd

FORMULA = "y ~ bs(x1, df=4) + x2 + C(g)"
SELECT = "s ~ x1 + x2 + z + C(g)"
FILE_ROWS = 1_000_000


def make(folder: Path, rows: int, seed: int = 0) -> None:
    """Write the data set; each file has a random stream of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    streams = np.random.SeedSequence(seed).spawn(-(-rows // FILE_ROWS))
    for i, stream in enumerate(streams):
        rng = np.random.default_rng(stream)
        n = min(FILE_ROWS, rows - i * FILE_ROWS)
        x1, x2, z, u = rng.standard_normal((4, n))
        g = rng.integers(5, size=n)
        s = 0.3 + 0.5 * x1 - 0.3 * x2 + z + 0.1 * g + u > 0
        index = -0.2 + 0.8 * np.tanh(x1) + 0.5 * x2 - 0.1 * g + 0.7 * u
        y = rng.random(n) < 1.0 / (1.0 + np.exp(-index))
        frame = pd.DataFrame(
            {
                "x1": x1, "x2": x2, "z": z, "g": np.array(list("abcde"))[g],
                "household": rng.integers(100_000, size=n),
                "s": s.astype(np.int8), "y": np.where(s, y, np.nan),
            }
        )  # fmt: skip
        frame.to_parquet(folder / f"part-{i:04d}.parquet", row_group_size=250_000)


class Clock:
    """Times of the iterations, from a fit's callback."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, step: object) -> None:
        self.times.append(time.perf_counter())

    @property
    def iteration(self) -> float | None:
        """Median seconds of one; None of a fit that reports fewer than two."""
        return float(np.median(np.diff(self.times))) if len(self.times) > 1 else None


def peak() -> float:
    """Peak RSS of this process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def fit(data: object, execution: object = None, **options: object) -> dict[str, float | None]:
    from statsmodels_mnar import GreeneSelectionLogit

    started, cpu = time.perf_counter(), time.process_time()
    model = GreeneSelectionLogit.from_formula(
        FORMULA, SELECT, data, normalization="loading", execution=execution
    )
    built, built_cpu = time.perf_counter(), time.process_time()
    clock = Clock()
    results = model.fit(callback=clock, **options)
    ended, ended_cpu = time.perf_counter(), time.process_time()
    rows, iteration = results.nobs, clock.iteration
    return {
        "rows": rows,
        "build_s": round(built - started, 1),
        "fit_s": round(ended - built, 1),
        "build_cpu_s": round(built_cpu - cpu, 1),
        "fit_cpu_s": round(ended_cpu - built_cpu, 1),
        "iterations": len(clock.times) - 1,
        "iteration_s": None if iteration is None else round(iteration, 3),
        "us_per_row": round(1e6 * (ended - started) / rows, 3),  # build and fit, as the next
        "cpu_us_per_row": round(1e6 * (ended_cpu - cpu) / rows, 3),
        "peak_gb": round(peak(), 2),
        "llf": results.llf,
    }


def workers(folder: Path, partition_rows: int, repeat: int = 10) -> dict[str, object]:
    """Seconds of an evaluation by one worker of one thread and by two, in turns on two clusters."""
    from statsmodels_mnar import Execution, GreeneSelectionLogit, local_workers

    found: dict[str, list[float]] = {"one": [], "two": []}
    with local_workers(1) as one, local_workers(2) as two:
        objectives = {}
        for name, client in [("one", one), ("two", two)]:
            model = GreeneSelectionLogit.from_formula(
                FORMULA, SELECT, str(folder), normalization="loading",
                execution=Execution(partition_rows=partition_rows, client=client),
            )  # fmt: skip
            objectives[name] = model.objective()
        theta = np.zeros(objectives["one"].n_params)
        for objective in objectives.values():
            objective.evaluate(theta)  # imports
        for _ in range(repeat):
            for name, objective in objectives.items():
                started = time.perf_counter()
                objective.evaluate(theta)
                found[name].append(round(time.perf_counter() - started, 3))
    ratio = round(float(np.median(found["one"]) / np.median(found["two"])), 2)
    return {**found, "ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["make", "stream", "memory", "workers"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--partition-rows", type=int, default=2**18)
    parser.add_argument("--memory", type=int, default=2**29)
    args = parser.parse_args()
    if args.what == "make":
        make(args.folder, args.rows)
    elif args.what == "workers":
        print(json.dumps(workers(args.folder, args.partition_rows)))
    elif args.what == "memory":
        print(json.dumps(fit(pd.read_parquet(args.folder))))
    else:
        from statsmodels_mnar import Execution

        execution = Execution(partition_rows=args.partition_rows, memory=args.memory)
        print(json.dumps(fit(str(args.folder), execution)))


if __name__ == "__main__":
    main()
