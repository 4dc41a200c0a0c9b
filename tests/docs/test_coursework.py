"""The problem sets run, have what a problem set needs, and become notebooks."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "coursework"
SETS = sorted(FOLDER.glob("[0-9]_*.py"))
NOTEBOOKS = sorted(FOLDER.glob("[0-9]_*.ipynb"))


def cells(path: Path) -> list[tuple[str, str]]:
    """(first line, rest) of every cell of a percent file."""
    parts = path.read_text(encoding="utf-8").split("\n# %%")[1:]
    return [(head, body) for head, _, body in (part.partition("\n") for part in parts)]


def test_there_are_three():
    assert len(SETS) == 3


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)
def test_every_question_has_a_good_answer_and_a_solution(path):
    found = cells(path)
    questions = [i for i, (_, body) in enumerate(found) if "## Question" in body]
    assert len(questions) >= 5
    for i in questions:
        assert "*Hint.*" in found[i][1]
        assert "*A good answer*" in found[i][1]
        head, code = found[i + 1]
        assert "solution" in head and "print(" in code


@pytest.mark.full
@pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)
def test_runs_on_a_short_setting(path, tmp_path):
    # Without the data folder: the second set then reads what statsmodels ships.
    environment = {k: v for k, v in os.environ.items() if k != "STATSMODELS_MNAR_DATA"}
    environment |= {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-W", "error::UserWarning:__main__", str(path), "--short"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") > 20
    assert "nan" not in done.stdout.lower()
    assert list(tmp_path.iterdir()) == []  # leaves nothing behind


@pytest.mark.parametrize("solutions", [True, False])
def test_becomes_notebooks(tmp_path, solutions):
    pytest.importorskip("jupytext", reason="pip install jupytext")
    make = runpy.run_path(str(FOLDER / "make_notebooks.py"))["make"]
    written = make(tmp_path, solutions=solutions)
    assert len(written) == len(SETS)
    for path, source in zip(written, SETS, strict=True):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        text = json.dumps(notebook)
        assert ("solution" in text) == solutions
        assert text.count("## Question") == source.read_text(encoding="utf-8").count("## Question")
        assert not any(cell.get("outputs") for cell in notebook["cells"])


def outputs(cell: dict) -> str:
    return "".join("".join(each["text"]) for each in cell.get("outputs", ()))


def made_again(kept: Path, folder: Path, *, run: bool = False) -> list[dict]:
    pytest.importorskip("jupytext", reason="pip install jupytext")
    make = runpy.run_path(str(FOLDER / "make_notebooks.py"))["make"]
    (path,) = make(folder, run=run, names=kept.stem)
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


@pytest.mark.parametrize("kept", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_of_the_repository_are_those_of_the_sources(kept, tmp_path):
    found = json.loads(kept.read_text(encoding="utf-8"))["cells"]
    parts = ("cell_type", "source", "metadata", "id")
    advice = "run python examples/coursework/make_notebooks.py --run --out examples/coursework"
    assert [[cell[name] for name in parts] for cell in found] == [
        [cell[name] for name in parts] for cell in made_again(kept, tmp_path)
    ], advice
    for cell in found:
        if cell["cell_type"] == "code" and "print(" in "".join(cell["source"]):
            assert outputs(cell).strip(), advice
    assert kept.stat().st_size < 100_000


@pytest.mark.slow
@pytest.mark.parametrize("kept", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_print_what_they_show(kept, tmp_path):
    found = json.loads(kept.read_text(encoding="utf-8"))["cells"]
    shown = "\n".join(map(outputs, found))
    printed = "\n".join(map(outputs, made_again(kept, tmp_path, run=True)))
    number = re.compile(r"-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")
    assert number.sub("#", shown).split() == number.sub("#", printed).split()
    values = ([float(x.replace(",", "")) for x in number.findall(t)] for t in (shown, printed))
    # The processor may change the last digit of what is printed, mostly the third or fourth.
    assert next(values) == pytest.approx(next(values), rel=5e-3, abs=2e-3)
