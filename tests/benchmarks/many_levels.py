"""Time and memory of group effects of many levels, in memory and in partitions.

    python -m tests.benchmarks.many_levels make FOLDER --rows 1000000 --levels 20000
    python -m tests.benchmarks.many_levels memory FOLDER
    python -m tests.benchmarks.many_levels partitions FOLDER      # one process, from parquet
    python -m tests.benchmarks.many_levels plain FOLDER           # in memory, without the term

``make`` writes a seeded data set of files of a million rows: a probit of y where s = 1, with the
error correlation -0.6 and effects of standard deviation 0.6 in s. The others print one line of
JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd

from .large_data import FILE_ROWS, peak

OUTCOME, SELECT, TERM = "y ~ x1 + x2", "s ~ x1 + x2 + z", " + re(interviewer)"
SD, ERROR_CORR = 0.6, -0.6


def make(folder: Path, rows: int, levels: int, seed: int = 0) -> None:
    """Write the data set; each file has a random stream of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    first, *streams = np.random.SeedSequence(seed).spawn(1 - (-rows // FILE_ROWS))
    effects = SD * np.random.default_rng(first).standard_normal(levels)
    for i, stream in enumerate(streams):
        rng = np.random.default_rng(stream)
        n = min(FILE_ROWS, rows - i * FILE_ROWS)
        x1, x2, z, u, v = rng.standard_normal((5, n))
        group = rng.integers(levels, size=n)
        s = 0.4 + 0.5 * x1 - 0.3 * x2 + 0.25 * z + effects[group] + u > 0
        error = ERROR_CORR * u + np.sqrt(1.0 - ERROR_CORR**2) * v
        y = -0.3 + 0.8 * x1 + 0.4 * x2 + error > 0
        columns = {"x1": x1, "x2": x2, "z": z, "s": s.astype(np.int8), "interviewer": group}
        frame = pd.DataFrame(columns | {"y": np.where(s, y, np.nan)})
        frame.to_parquet(folder / f"part-{i:04d}.parquet", row_group_size=250_000, index=False)


def fit(data: object, select: str, execution: object = None) -> dict[str, float]:
    """Build and fit, and say what it took."""
    from statsmodels_mnar import ProbitSelection

    begun, cpu = time.perf_counter(), time.process_time()
    model = ProbitSelection.from_formula(OUTCOME, select, data, execution=execution)
    built = time.process_time()
    results = model.fit()
    found = {
        "rows": results.nobs,
        "build_cpu_s": round(built - cpu, 1),
        "fit_cpu_s": round(time.process_time() - built, 1),
        "elapsed_s": round(time.perf_counter() - begun, 1),
        "peak_gb": round(peak(), 2),
        "rho": round(float(results.rho), 4),
        "llf": results.llf,
    }
    penalties = results._results._fit_info.penalties
    if penalties is not None:
        found |= {"sd": round(float(penalties.values[0] ** -0.5), 4)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["make", "memory", "partitions", "plain"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--levels", type=int, default=20_000)
    parser.add_argument("--partition-rows", type=int, default=2**18)
    parser.add_argument("--memory", type=int, default=2**29)
    args = parser.parse_args()
    if args.what == "make":
        make(args.folder, args.rows, args.levels)
    elif args.what == "partitions":
        from statsmodels_mnar import Execution

        execution = Execution(partition_rows=args.partition_rows, memory=args.memory)
        print(json.dumps(fit(str(args.folder), SELECT + TERM, execution)))
    else:
        term = "" if args.what == "plain" else TERM
        print(json.dumps(fit(pd.read_parquet(args.folder), SELECT + term)))


if __name__ == "__main__":
    main()
