"""Scripts that start workers without asking whether they are the script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from statsmodels_mnar.large import guard

LINES = """\
    if __name__ == "__main__":
        with local_workers(1) as client:
            ...  # build and fit the model here
"""
# The module alone: a process that imports the whole package takes seconds.
START = f"""\
import importlib.util
spec = importlib.util.spec_from_file_location("guard", {guard.__file__!r})
guard = importlib.util.module_from_spec(spec)
spec.loader.exec_module(guard)

def work():
    guard.check_guarded("local_workers", "with local_workers(1) as client:")
    print("allowed", flush=True)
"""


def run(tmp_path, text):
    script = tmp_path / "script.py"
    script.write_text(text)
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=os.environ | {"PYTHONPATH": path},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "end",
    ["work()\n", "def main():\n    work()\n\nmain()\n", "for _ in range(1):\n    work()\n"],
    ids=["at the top", "in a function", "in a loop"],
)
def test_an_unguarded_script_is_told_the_lines_to_write(end, tmp_path):
    done = run(tmp_path, START + end)
    assert done.returncode == 1
    assert "RuntimeError: local_workers was called while the script is being" in done.stderr
    assert LINES in done.stderr


@pytest.mark.parametrize(
    "end",
    [
        'if __name__ == "__main__":\n    work()\n',
        "if '__main__' == __name__:\n    for _ in range(1):\n        work()\n",
        'if __name__ != "__main__":\n    raise SystemExit\n\nwork()\n',
    ],
)
def test_a_guarded_script_may_start_them(end, tmp_path):
    done = run(tmp_path, START + end)
    assert (done.returncode, done.stdout) == (0, "allowed\n"), done.stderr


def test_a_script_that_a_process_imports_is_told_too(tmp_path):
    end = """
import multiprocessing
def nothing(): pass
if multiprocessing.parent_process() is None and __name__ == "__main__":
    one = multiprocessing.get_context("spawn").Process(target=nothing)
    one.start(); one.join(); print(one.exitcode)
else:
    work()
"""
    done = run(tmp_path, START + end)
    assert done.stdout == "1\n"
    assert LINES in done.stderr


@pytest.mark.full  # the process imports the whole package
def test_local_workers_asks_before_it_starts_anything(tmp_path):
    pytest.importorskip("distributed")
    start = "from statsmodels_mnar.large.execution import local_workers\n"
    done = run(tmp_path, f"{start}with local_workers(1) as client:\n    pass\n")
    assert done.returncode == 1
    assert done.stderr.count("RuntimeError: local_workers") == 1 and LINES in done.stderr
    assert "Nanny" not in done.stderr  # no worker was tried
