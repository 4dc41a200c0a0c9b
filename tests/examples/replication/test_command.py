"""The command: what it writes, and what it refuses before any work."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from examples.replication import ITEMS, replicate
from examples.replication.__main__ import main
from examples.replication.jobs import Job, runner
from examples.replication.output import markdown, side_by_side
from examples.replication.protocol import GREENE, LR_LR, PROBIT_LR, SSBIAS
from examples.replication.tables import Settings, beside_paper, missingness, one_run


@pytest.fixture(scope="module")
def drug(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made file in the format of the Drug data."""
    rng = np.random.default_rng(0)
    n = 200
    scores = rng.standard_normal((n, 12)).round(4)
    used = rng.random((n, 19)) < 1 / (1 + np.exp(-scores[:, [4]]))
    frame = pd.concat(
        [
            pd.DataFrame({"id": np.arange(n)}),
            pd.DataFrame(scores),
            pd.DataFrame(np.where(used, "CL4", "CL0")),
        ],
        axis=1,
    )
    folder = tmp_path_factory.mktemp("data")
    frame.to_csv(folder / "drug_consumption.data", header=False, index=False)
    return folder


@pytest.mark.full  # its parts are tried one by one
def test_table4_on_made_data(drug, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("examples.replication.tables.ETAS", (0.6,))
    options = ["--data", str(drug), "--out", str(tmp_path), "--runs", "2", "--jobs", "1"]
    assert main(["table4", *options, "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert printed.strip() == (tmp_path / "table4.md").read_text().strip()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"table4.csv", "table4_runs.csv", "table4.md", "table4.png"}
    runs, table = (pd.read_csv(tmp_path / f"table4{part}.csv") for part in ("_runs", ""))
    assert len(runs) == 1 + 2 * 3 + 4  # no draws, two seeds of three methods, four optima
    row = table[table["method"] == GREENE.name].set_index("quantity")
    seeds = runs[(runs["method"] == GREENE.name) & (runs["column"] == "protocol")]
    assert row.loc["test", "ours"] == pytest.approx(seeds["test"].mean())
    assert row.loc["test", "paper"] == 67.63
    assert row.loc["f1", "paper"] == 60.38
    assert row.loc["test", "difference"] == pytest.approx(seeds["test"].mean() - 67.63)
    assert np.isfinite(row.loc["test", "converged"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table9"], r"items=\['table9'\] are unknown; use \['table1'"),
        (["table4", "--runs", "0"], "runs=0 must be at least 1"),
        (["table4", "--data", "nowhere"], "drug_consumption.data was not found in nowhere"),
    ],
)
def test_mistakes_end_with_a_message(arguments, message, capsys):
    assert main(arguments) == 2
    assert re.search(message, capsys.readouterr().err)


def test_all_means_every_item_and_its_files_are_checked_first(drug, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"adult\.data"):
        replicate(["table4", "table1"], data=drug, out=tmp_path / "out", progress=False)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match="draws='some' is unknown"):
        replicate(["all"], data=drug, draws="some")


def test_runs_of_each_item():
    """As many seeds as asked for, only where something is random; no MLP where not wanted."""
    counts = {
        name: len(item.jobs(Settings(runs=5, mlp=False)))
        for name, item in ITEMS.items()
        if name != "mlp"
    }
    assert counts == {
        "table1": 3 * (2 + 3 * 5) + 3 * 5,
        "table2": 6,
        "table3": 9 + 9,
        "table4": 3 * (1 + 3 * 5) + 12,
        "table5": 3 * (2 + 2 * 5) + 6,
        "figure3": 10 + 10 * 5,
        "masked": 5 * (2 + 3 * 5),
    }
    full = [job.arguments for job in ITEMS["table3"].jobs(Settings())]
    assert {a["kind"] for a in full if a.get("column") != "converged"} == {"full"}


def _square(x: int) -> list[dict[str, int]]:
    return [{"x": x, "square": x * x}]


def test_records_keep_the_order_of_the_jobs():
    with runner(1, progress=False) as run_all:
        records = run_all([Job(_square, {"x": x}) for x in (3, 1, 2)], "squares")
    assert [record["square"] for record in records] == [9, 1, 4]
    with pytest.raises(ValueError, match="jobs=0"), runner(0):
        pass


@pytest.mark.full
def test_processes_give_the_same_records(drug):
    jobs = [
        Job(one_run, {"dataset": "drug", "method": SSBIAS, "data": str(drug), "eta": eta})
        for eta in (0.5, 0.6, 0.7)
    ]
    with runner(2, progress=False) as run_all:
        elsewhere = run_all(jobs, "pool")
    here = [job()[0] for job in jobs]
    assert [r["test"] for r in elsewhere] == [r["test"] for r in here]
    assert [r["dataset"] for r in elsewhere] == [f"drug, eta = {eta}" for eta in (0.5, 0.6, 0.7)]


def made_runs() -> pd.DataFrame:
    base = {"dataset": "german", "method": SSBIAS.name, "train": 75.0, "test": 69.0}
    return pd.DataFrame(
        [
            {**base, "column": "protocol"},
            {**base, "column": "protocol", "test": 71.0},
            {**base, "column": "converged", "test": 72.5},
        ]
    )


def test_cells_stand_beside_the_papers():
    frame = beside_paper("table1", made_runs(), ["train", "test"])
    assert frame["quantity"].tolist() == ["train", "test"]
    row = frame.iloc[1]
    assert (row["ours"], row["ours_sd"], row["runs"]) == (70.0, 1.0, 2)
    assert (row["paper"], row["paper_sd"], row["converged"]) == (69.33, 0.0, 72.5)
    assert row["difference"] == pytest.approx(0.67)
    text = markdown(side_by_side(frame)).splitlines()[-1]
    assert text == "| german | SSBias | test | 70.00 ± 1.00 | 69.33 ± 0.00 | +0.67 | 72.50 |"


def test_a_difference_that_rounds_to_nothing_has_no_minus_sign():
    runs = made_runs().assign(test=69.328)
    assert side_by_side(beside_paper("table1", runs, ["test"]))["difference"].tolist() == ["+0.00"]


def test_thresholds_stand_beside_the_papers():
    runs = pd.DataFrame(
        [
            {"dataset": name, "method": m.name, "eta": 0.652, "unlabelled": 860, "soft": soft,
             "test": 69.0}
            for name, m, soft in (
                ("drug", PROBIT_LR, 0.5), ("drug", LR_LR, 0.3266), ("adult", PROBIT_LR, 0.2957)
            )
        ]
    )  # fmt: skip
    frame = missingness(runs)
    assert frame["threshold"].round(4).tolist() == [0.6667, 0.5976, 0.5868]
    assert frame["paper_soft"].round(4).tolist() == [0.6032, 0.3266, 0.2957]
    assert frame["met"].tolist() == [False, True, True]
    assert frame["paper_met"].tolist() == [False, True, True]
