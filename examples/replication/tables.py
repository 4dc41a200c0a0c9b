"""The paper's tables: which runs each needs, and the runs beside the paper's numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from statsmodels_mnar.datasets import EXPERIMENTS
from statsmodels_mnar.models.first_stage import MLP

from .jobs import Job, Record, experiment
from .paper import paper_numbers
from .protocol import (
    BIASCORR,
    GREENE,
    LR_LR,
    LR_MLP,
    NOBIAS,
    PROBIT_LR,
    PROBIT_SOFT,
    RBA,
    RFLEARN,
    SSBIAS,
    Draws,
    Method,
    converge,
    run,
    run_baseline,
)

ETAS = (0.5, 0.6, 0.7)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user chose."""

    data: str | None = None  # folder of the raw files
    runs: int = 5  # seeds of each cell, as in the paper
    mlp: bool = True  # with the MLP as g_y
    draws: Draws = "summary"  # see .draws; the table of times always makes all of them

    def biascorr(self) -> tuple[Method, ...]:
        """The settings (g_s, g_y) to run."""
        return tuple(m for m in BIASCORR if self.mlp or m.outcome != "mlp")


def one_run(
    *,
    dataset: str,
    method: Method,
    column: str = "protocol",
    data: str | None = None,
    eta: float | None = None,
    **options: Any,
) -> list[Record]:
    """One record: a method by the paper's protocol, or at its optimum."""
    place = experiment(dataset, data, eta)
    if method in (RFLEARN, RBA):
        found = run_baseline(method, place)
    elif column == "converged":
        found = converge(method, place, **options)
    else:
        found = run(method, place, **options)
    return [
        {
            "dataset": dataset if eta is None else f"{dataset}, eta = {eta}",
            "method": _name(method, options.get("target", False)),
            "column": column,
            "seed": options.get("seed", 0),
            "eta": place.eta,
            "unlabelled": int((place.s == 0).sum()),
            **asdict(found),
        }
    ]


def _name(method: Method, target: bool) -> str:
    return method.name.replace("BiasCorr", "BiasCorr*") if target else method.name


def _jobs(cells: list[dict[str, Any]], settings: Settings, *, seeds: int) -> list[Job]:
    """Protocol runs of each cell: one where nothing is random, else one for each seed."""
    jobs = []
    for cell in cells:
        fixed = cell["method"] in (NOBIAS, SSBIAS, RFLEARN, RBA)
        for seed in range(1 if fixed else seeds):
            options = {} if fixed else {"seed": seed, "kind": settings.draws}
            jobs.append(Job(one_run, {**options, **cell, "data": settings.data}))
    return jobs


def _soft(method: Method, dataset: str) -> dict[str, Any]:
    """The paper's s-bar where its g_s cannot be trained as it was."""
    return {"soft": PROBIT_SOFT[dataset]} if method.select == "probit" else {}


def table1_jobs(settings: Settings) -> list[Job]:
    """Performance (tab:case1resultslr): by the protocol, and each method at its optimum."""
    methods = (NOBIAS, SSBIAS, GREENE, *settings.biascorr())
    pairs = [(d, m) for d in EXPERIMENTS for m in methods]
    cells = [{"dataset": d, "method": m, **_soft(m, d)} for d, m in pairs]
    return _jobs(cells, settings, seeds=settings.runs) + _converged(pairs, settings)


def _converged(pairs: list[tuple[str, Method]], settings: Settings, **options: Any) -> list[Job]:
    return [
        Job(
            one_run,
            {"dataset": d, "method": m, "column": "converged", "data": settings.data, **options},
        )
        for d, m in pairs
    ]


def table2_jobs(settings: Settings) -> list[Job]:
    """Missingness ratios (tab:estimatedsbar): s-bar of both g_s, trained by descent."""
    cells = [{"dataset": d, "method": m} for d in EXPERIMENTS for m in (PROBIT_LR, LR_LR)]
    return _jobs(cells, settings, seeds=1)


def table3_jobs(settings: Settings) -> list[Job]:
    """Execution times (tab:execution): the whole protocol with all its draws, and Newton."""
    pairs = [(d, m) for d in EXPERIMENTS for m in (GREENE, *settings.biascorr())]
    cells = [{"dataset": d, "method": m, **_soft(m, d), "kind": "full"} for d, m in pairs]
    return _jobs(cells, settings, seeds=1) + _converged(pairs, settings)


def table4_jobs(settings: Settings) -> list[Job]:
    """Other missingness ratios on Drug (tab:missingnessratio), s-bar of the probit the paper's."""
    numbers = paper_numbers("table4").set_index(["dataset", "method", "quantity"])["value"]
    cells: list[dict[str, Any]] = []
    for eta in ETAS:
        for method in (SSBIAS, GREENE, PROBIT_LR, LR_LR):
            cell = {"dataset": "drug", "method": method, "eta": eta}
            if method == PROBIT_LR:
                threshold = numbers[f"drug, eta = {eta}", method.name, "threshold"]
                cell["soft"] = 2.0 - 1.0 / threshold
            cells.append(cell)
    optima = [
        job
        for eta in ETAS
        for job in _converged(
            [("drug", m) for m in (SSBIAS, GREENE, PROBIT_LR, LR_LR)], settings, eta=eta
        )
    ]
    return _jobs(cells, settings, seeds=settings.runs) + optima


def table5_jobs(settings: Settings) -> list[Job]:
    """BiasCorr* (tab:case2results), whose s-bar the paper does not give: g_s's by descent."""
    cells: list[dict[str, Any]] = []
    for dataset in EXPERIMENTS:
        cells += [{"dataset": dataset, "method": m} for m in (RFLEARN, RBA)]
        cells += [{"dataset": dataset, "method": m, "target": True} for m in settings.biascorr()]
    pairs = [(d, m) for d in EXPERIMENTS for m in settings.biascorr()]
    jobs = _jobs(cells, settings, seeds=settings.runs)
    return jobs + _converged(pairs, settings, target=True)


MLPS: dict[str, MLP] = {
    "(5, 2), 500 steps": MLP(),
    "(5, 2), 100 steps": MLP(epochs=100),
    "(5, 2), 2000 steps": MLP(epochs=2_000),
    "(64,), 500 steps": MLP(hidden=(64,)),
    "(64, 32), 500 steps": MLP(hidden=(64, 32)),
}


def mlp_jobs(settings: Settings) -> list[Job]:
    """BiasCorr (LR, MLP) with networks of other sizes, trained for longer or shorter."""
    return [
        Job(
            one_run,
            {
                "dataset": dataset, "method": LR_MLP, "mlp": network, "seed": seed,
                "column": name, "kind": settings.draws, "data": settings.data,
            },
        )
        for dataset in EXPERIMENTS
        for name, network in MLPS.items()
        for seed in range(1 if dataset == "adult" else settings.runs)
    ]  # fmt: skip


def networks(runs: pd.DataFrame) -> pd.DataFrame:
    """Accuracies by network beside the paper's."""
    numbers = paper_numbers("table1")
    paper = numbers[numbers["method"] == LR_MLP.name].set_index(["dataset", "quantity"])["value"]
    grouped = runs.groupby(["dataset", "column"], sort=False)
    frame = grouped[["train", "test"]].mean()
    frame["test_sd"] = grouped["test"].std(ddof=0)
    for quantity in ("train", "test"):
        frame[f"paper_{quantity}"] = [paper[dataset, quantity] for dataset, _ in frame.index]
    frame["difference"] = frame["test"] - frame["paper_test"]
    return frame.reset_index().rename(columns={"column": "network"})


def beside_paper(table: str, runs: pd.DataFrame, quantities: list[str]) -> pd.DataFrame:
    """Mean and sd of the runs beside the paper's numbers, one row for each cell and quantity."""
    keys = ["dataset", "method"]
    long = runs.melt([*keys, "column"], quantities, "quantity", "value").dropna(subset="value")
    protocol = long[long["column"] == "protocol"].groupby([*keys, "quantity"], sort=False)["value"]
    frame = pd.DataFrame(
        {
            "ours": protocol.mean(),
            "ours_sd": protocol.std(ddof=0).where(protocol.size() > 1),
            "runs": protocol.size(),
        }
    )
    numbers = paper_numbers(table).set_index([*keys, "quantity"])
    frame["paper"], frame["paper_sd"] = numbers["value"], numbers["sd"]
    frame["difference"] = frame["ours"] - frame["paper"]
    optimum = long[long["column"] == "converged"].set_index([*keys, "quantity"])["value"]
    if len(optimum):
        frame["converged"] = optimum
    cells = list(runs[keys].drop_duplicates().itertuples(index=False, name=None))
    order = [(*cell, quantity) for cell in cells for quantity in quantities]
    return frame.loc[[key for key in order if key in frame.index]].reset_index()


def missingness(runs: pd.DataFrame) -> pd.DataFrame:
    """eta, s-bar and 1/(2 - s-bar) beside the paper's.

    Its s-bar is that of its figure's caption, and read off the threshold on Drug, which has none.
    """
    numbers = paper_numbers().query("table in ('table2', 'figure3')")
    numbers = numbers.set_index(["dataset", "method", "quantity"])["value"]
    rows = []
    for record in runs.to_dict("records"):
        link = "probit" if record["method"] == PROBIT_LR.name else "logit"
        dataset = record["dataset"]
        threshold = numbers[dataset, link, "threshold"]
        rows.append(
            {
                "dataset": dataset,
                "g_s": link,
                "unlabelled": record["unlabelled"],
                "eta": record["eta"],
                "paper_eta": numbers[dataset, "", "eta"],
                "soft": record["soft"],
                "paper_soft": numbers.get((dataset, link, "soft"), 2.0 - 1.0 / threshold),
                "threshold": 1.0 / (2.0 - record["soft"]),
                "paper_threshold": threshold,
                "difference": 1.0 / (2.0 - record["soft"]) - threshold,
                "met": record["eta"] > 1.0 / (2.0 - record["soft"]),
                "paper_met": numbers[dataset, "", "eta"] > threshold,
                "test": record["test"],
            }
        )
    return pd.DataFrame(rows)
