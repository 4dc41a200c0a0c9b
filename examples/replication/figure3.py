"""The paper's sensitivity figure (fig:ablation1): test accuracy over assigned values of s-bar."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .jobs import Job
from .paper import paper_numbers
from .protocol import LR_LR, LR_MLP
from .tables import Settings, one_run

DATASETS = ("adult", "german")
GRID = tuple(float(v) for v in np.round(np.arange(0.05, 0.501, 0.05), 2))


def figure3_jobs(settings: Settings) -> list[Job]:
    """Each s-bar of the grid, with LR and MLP pseudolabels; one seed on Adult, which is large."""
    jobs = []
    for dataset in DATASETS:
        for method in (LR_LR, LR_MLP) if settings.mlp else (LR_LR,):
            for soft in GRID:
                for seed in range(1 if dataset == "adult" else settings.runs):
                    arguments = {
                        "dataset": dataset, "method": method, "soft": soft, "seed": seed,
                        "kind": settings.draws, "data": settings.data,
                    }  # fmt: skip
                    jobs.append(Job(one_run, arguments))
    return jobs


def curves(runs: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy by data set, g_y and s-bar. (The paper prints no numbers of its curves.)"""
    names = {LR_LR.name: "LR", LR_MLP.name: "MLP"}
    frame = runs.assign(g_y=runs["method"].map(names))
    tests = frame.groupby(["dataset", "g_y", "soft"])["test"]
    return pd.DataFrame(
        {"test": tests.mean(), "sd": tests.std(ddof=0), "runs": tests.size()}
    ).reset_index()


def draw(frame: pd.DataFrame) -> Any:
    """Curves of each data set, with the paper's estimates of s-bar as vertical lines."""
    from matplotlib.figure import Figure

    estimates = paper_numbers("figure3")
    datasets = list(frame["dataset"].unique())
    figure = Figure(figsize=(5.0 * len(datasets), 3.6), layout="constrained")
    grid = figure.subplots(1, len(datasets), squeeze=False)[0]
    for axes, dataset in zip(grid, datasets, strict=True):
        for g_y, part in frame[frame["dataset"] == dataset].groupby("g_y"):
            axes.errorbar(part["soft"], part["test"], part["sd"], marker="o", ms=3, label=g_y)
        for row in estimates[estimates["dataset"] == dataset].itertuples():
            style = "--" if row.method == "probit" else ":"
            axes.axvline(row.value, color="0.6", ls=style, label=f"{row.method}, paper")
        axes.set(title=dataset, xlabel="assigned s-bar", ylabel="test accuracy, %")
        axes.legend(fontsize="small")
    return figure
