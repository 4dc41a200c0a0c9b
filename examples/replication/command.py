"""Every table and figure of the paper and two tables beyond it: the jobs and files of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from statsmodels_mnar.datasets import find_file
from statsmodels_mnar.tools import write_whole

from . import figure3, masked, tables
from .jobs import Job, Runner, runner
from .output import draw_beside_paper, markdown, side_by_side, write
from .tables import Settings, beside_paper, missingness, networks

Written = tuple[dict[str, pd.DataFrame], str, Callable[[], Any]]
"""Frames by the suffix of their file, the Markdown, and a call that draws the picture."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something to replicate."""

    title: str
    jobs: Callable[[Settings], list[Job]]
    present: Callable[[pd.DataFrame], Written]
    files: tuple[str, ...] = ("adult.data", "adult.test", "german.data", "drug_consumption.data")


def _table(name: str, quantities: list[str], shown: str, label: str) -> Callable[..., Written]:
    """A table of the paper: its CSV, its Markdown, and a picture of one of its quantities."""

    def present(runs: pd.DataFrame) -> Written:
        frame = beside_paper(name, runs, quantities)
        picture = partial(draw_beside_paper, frame, shown, label)
        return {"": frame}, markdown(side_by_side(frame)), picture

    return present


def _missingness(runs: pd.DataFrame) -> Written:
    frame = missingness(runs)
    cells = frame.rename(columns={"threshold": "ours", "paper_threshold": "paper"})
    cells = cells.assign(method="g_s: " + cells["g_s"], quantity="threshold")
    picture = partial(draw_beside_paper, cells, "threshold", "1/(2 - s-bar)")
    return {"": frame}, markdown(frame.round(4)), picture


def _table4(runs: pd.DataFrame) -> Written:
    present = _table("table4", ["threshold", "test", "f1"], "test", "test accuracy, %")
    return present(runs.assign(threshold=1.0 / (2.0 - runs["soft"])))


def _networks(runs: pd.DataFrame) -> Written:
    frame = networks(runs)
    cells = frame.rename(columns={"network": "method", "test": "ours", "paper_test": "paper"})
    picture = partial(draw_beside_paper, cells.assign(quantity="test"), "test", "test accuracy, %")
    return {"": frame}, markdown(frame.round(2)), picture


def _sensitivity(runs: pd.DataFrame) -> Written:
    frame = figure3.curves(runs)
    wide = frame.pivot_table(index="soft", columns=["dataset", "g_y"], values="test")
    wide.columns = [f"{dataset}, {g_y}" for dataset, g_y in wide.columns]
    return {"": frame}, markdown(wide.round(2).reset_index()), partial(figure3.draw, frame)


def _masked(runs: pd.DataFrame) -> Written:
    frame = masked.scores(runs)
    lost = masked.losses(frame)
    text = "\n\n".join(
        [
            "What each method loses against the oracle, averaged over the data sets:",
            markdown(masked.across(lost).round(4)),
            "Scores on the test rows:",
            markdown(frame.round(4)),
        ]
    )
    return {"": frame, "_lost": lost}, text, partial(masked.draw, lost)


_ACCURACY = ["train", "test"]
ITEMS: dict[str, Item] = {
    "table1": Item(
        "Performance of BiasCorr and baselines (tab:case1resultslr)",
        tables.table1_jobs,
        _table("table1", _ACCURACY, "test", "test accuracy, %"),
    ),
    "table2": Item("Missingness ratios (tab:estimatedsbar)", tables.table2_jobs, _missingness),
    "table3": Item(
        "Execution times (tab:execution), seconds of processor time",
        tables.table3_jobs,
        _table("table3", ["seconds"], "seconds", "seconds"),
    ),
    "table4": Item(
        "Drug at other missingness ratios (tab:missingnessratio)",
        tables.table4_jobs,
        _table4,
        files=("drug_consumption.data",),
    ),
    "table5": Item(
        "BiasCorr* and baselines (tab:case2results)",
        tables.table5_jobs,
        _table("table5", _ACCURACY, "test", "test accuracy, %"),
    ),
    "figure3": Item(
        "Test accuracy over assigned values of s-bar (fig:ablation1)",
        figure3.figure3_jobs,
        _sensitivity,
        files=("adult.data", "adult.test", "german.data"),
    ),
    "mlp": Item(
        "Beyond the paper: BiasCorr (LR, MLP) with other networks", tables.mlp_jobs, _networks
    ),
    "masked": Item(
        "Beyond the paper: real labels masked by known mechanisms",
        masked.masked_jobs,
        _masked,
        files=("adult.data", "adult.test", "german.data", "drug_consumption.data", "AmEx.csv"),
    ),
}


def replicate(
    items: Sequence[str] = ("all",),
    *,
    data: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] = "replication",
    runs: int = 5,
    mlp: bool = True,
    draws: tables.Draws = "summary",
    jobs: int | None = None,
    progress: bool = True,
) -> dict[str, str]:
    """Replicate tables and figures of the paper.

    Parameters
    ----------
    items : sequence of str
        "table1" performance, "table2" missingness ratios, "table3" execution times, "table4" other
        missingness ratios, "table5" BiasCorr*, "figure3" sensitivity to s-bar; beyond the paper
        "mlp" (other networks) and "masked" (labels masked by known mechanisms); or "all". The
        paper's tables are counted without its table of symbols.
    data : path-like, optional
        Folder of the raw files; by default where the loaders look.
    out : path-like
        Folder of the results: CSV (the runs too), Markdown and PNG (where matplotlib is installed).
    runs : int
        Seeds of each cell.
    mlp : bool
        With the MLP as g_y.
    draws : {"summary", "full"}
        How R = 200 draws a row and step are made; see :mod:`examples.replication.draws`. The
        table of times always makes all of them.
    jobs : int, optional
        Processes; by default one for each processor.
    progress : bool

    Returns
    -------
    dict
        The Markdown of each item.
    """
    if runs < 1:
        raise ValueError(f"runs={runs} must be at least 1")
    if draws not in ("summary", "full"):
        raise ValueError(f"draws={draws!r} is unknown; use 'summary' or 'full'")
    names = list(ITEMS) if "all" in items else list(dict.fromkeys(items))
    names = [name for name in names if mlp or name != "mlp"]
    unknown = [name for name in names if name not in ITEMS]
    if unknown or not names:
        raise ValueError(f"items={unknown or list(items)} are unknown; use {[*ITEMS, 'all']}")
    folder = None if data is None else os.fspath(data)
    for file in dict.fromkeys(file for name in names for file in ITEMS[name].files):
        find_file(file, folder)  # before any long work
    settings = Settings(folder, runs, mlp, draws)
    with runner(jobs or os.cpu_count() or 1, progress) as run_all:
        return {name: _one(name, settings, Path(out), run_all) for name in names}


def _one(name: str, settings: Settings, out: Path, run_all: Runner) -> str:
    item = ITEMS[name]
    records = pd.DataFrame(run_all(item.jobs(settings), name))
    out.mkdir(parents=True, exist_ok=True)
    runs = out / f"{name}_runs.csv"
    write_whole(runs, records.to_csv(index=False))  # first: it is what took long
    frames, text, picture = item.present(records)
    text = f"# {name}: {item.title}\n\n{text}"
    write(out, name, frames, text, picture() if find_spec("matplotlib") is not None else None)
    return text
