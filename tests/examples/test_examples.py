"""The examples run offline, on a short setting, and save what they say they save."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest

from tests.patience import PATIENCE

FOLDER = Path(__file__).resolve().parents[2] / "examples"
# Rows of a short run, something it must print, and what it saves.
RUNS = {
    "quickstart": (1_000, "GreeneSelectionLogit Results", {"probabilities.png", "profile.png"}),
    "reject_inference": (
        2_000,
        "How many of the rejected",
        {"scorecards.png", "sensitivity.png", "report.html"},
    ),
    "from_target": (2_000, "On the target", {"soft_selection.png"}),
    "gpu": (6_000, "device='auto' used", {"device.png"}),
    "distributed": (2_000, "Largest difference from the estimates in memory", {"clusters.png"}),
}

QUICK = ("quickstart",)


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def run(name: str, *arguments: str) -> str:
    """What the example prints, run as a user runs it."""
    command = [sys.executable, str(FOLDER / f"{name}.py"), *arguments]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(command, env=env, capture_output=True, encoding="utf-8", timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.full) for name in RUNS],
)
def test_example_runs_and_saves_its_figures(name, tmp_path, capsys):
    rows, text, files = RUNS[name]
    out = tmp_path / "made" / "by the example"
    arguments = ["--rows", str(rows), "--out", str(out)]
    if name == "distributed":  # its workers read the script too
        printed = run(name, *arguments)
    else:
        load(name).main(arguments)
        printed = capsys.readouterr().out
    assert text in printed
    assert {path.name for path in out.iterdir()} == files
    for path in out.glob("*.png"):
        picture = matplotlib.image.imread(path)
        assert min(picture.shape[:2]) > 200
        assert picture[..., :3].std() > 0.05  # not a blank sheet


@pytest.mark.parametrize("path", sorted(FOLDER.glob("[!_]*.py")), ids=lambda path: path.stem)
def test_example_says_how_it_is_run(path):
    assert f"python examples/{path.name}" in path.read_text(encoding="utf-8")


def test_reject_inference_is_nearer_to_the_truth_than_the_scorecard_of_the_accepted():
    example = load("reject_inference")
    simulated = example.simulate_credit(4_000, rng=3)
    naive, corrected = example.fit(simulated)
    rates = example.rates(simulated.data, naive, corrected)
    rejected = rates.loc["rejected"]
    assert rejected.low < rejected.truth < rejected.high
    assert abs(rejected["selection logit"] - rejected.truth) < 0.5 * abs(
        rejected["accepted only"] - rejected.truth
    )
    truth = simulated.data.default_full[simulated.data.approved == 0].mean()
    assert rejected.truth == pytest.approx(truth)
