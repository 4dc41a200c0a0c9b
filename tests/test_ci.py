"""CI's environments: the oldest versions are those that pyproject.toml promises."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def oldest(pyproject: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / ".ci" / "oldest.py", pyproject]
    return subprocess.run(command, capture_output=True, text=True)


def test_oldest_versions_are_the_declared_minimums():
    pinned = dict(line.split("==") for line in oldest(ROOT / "pyproject.toml").stdout.splitlines())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    assert len(pinned) == len(declared) - 1  # torch
    for name, version in pinned.items():
        assert any(text.startswith(f"{name}>={version}") for text in declared)
    assert re.fullmatch(r"1\.\d+", pinned["numpy"])


def test_a_requirement_without_a_minimum_is_refused(tmp_path):
    path = tmp_path / "pyproject.toml"
    path.write_text('[project]\ndependencies = ["numpy"]\noptional-dependencies.test = []\n')
    ran = oldest(path)
    assert ran.returncode == 1 and "'numpy' names no oldest version" in ran.stderr
