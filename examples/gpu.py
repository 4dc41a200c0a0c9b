"""The same fit on whatever the machine has: device="auto" takes a GPU where there is one.

python examples/gpu.py [--rows 100000] [--device auto] [--out figures]

All arithmetic is in float64 on every device: estimates agree to many digits, only the time differs.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from statsmodels_mnar import GreeneSelectionLogit
from statsmodels_mnar.datasets import simulate_greene


def describe(device: torch.device) -> str:
    if device.type == "cuda":
        return f"{device}: {torch.cuda.get_device_name(device)}"
    return f"{device}, {torch.get_num_threads()} thread(s); a GPU would be used if there were one"


def timed_fit(n: int, device: str) -> tuple[Any, float]:
    simulated = simulate_greene(n)
    model = GreeneSelectionLogit.from_formula(
        simulated.formula,
        simulated.select_formula,
        simulated.data,
        device=device,
    )
    start = time.perf_counter()
    results = model.fit()
    return results, time.perf_counter() - start


def draw(table: pd.DataFrame) -> Any:
    """Seconds of one fit by the number of rows, a line for each device."""
    from matplotlib.figure import Figure

    ax = Figure(figsize=(6.4, 4.0), layout="constrained").add_subplot()
    for device, marker in zip(table, "os", strict=False):
        ax.plot(table.index, table[device], f"{marker}-", label=device)
    ax.set(xlabel="rows", ylabel="seconds of one fit", xscale="log", yscale="log")
    ax.legend(frameon=False)
    return ax


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the largest fit")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, ...")
    parser.add_argument("--out", type=Path, default=Path("figures"), help="folder for figures")
    options = parser.parse_args(arguments)

    results, _ = timed_fit(options.rows, options.device)  # also warms the device up
    used = results.model.rows.device
    print(f"device={options.device!r} used {describe(used)}")
    print(results.summary())
    if used.type != "cpu":
        on_cpu, _ = timed_fit(options.rows, "cpu")
        difference = np.abs(results.params - on_cpu.params).max()
        print(f"Largest difference from the estimates on the CPU: {difference:.1e}")

    sizes = [options.rows // 10, options.rows // 3, options.rows]
    times = {
        device: [timed_fit(n, device)[1] for n in sizes]
        for device in dict.fromkeys((str(used), "cpu"))
    }
    table = pd.DataFrame(times, index=sizes).rename_axis("rows")
    print(f"\nSeconds of one fit\n{table.round(3).to_string()}")

    options.out.mkdir(parents=True, exist_ok=True)
    draw(table).figure.savefig(options.out / "device.png", dpi=100)
    print(f"\ndevice.png is in {options.out}")


if __name__ == "__main__":
    main()
