"""The version is written once, and the changelog begins with it."""

from __future__ import annotations

import re
from pathlib import Path

import statsmodels_mnar

ROOT = Path(__file__).resolve().parents[1]


def test_the_changelog_begins_with_the_version_of_the_package():
    changelog = (ROOT / "docs" / "changelog.md").read_text("utf-8")
    newest, *_ = re.findall(r"^## ([\d.]+)", changelog, re.MULTILINE)
    assert newest == statsmodels_mnar.__version__


def test_nothing_else_repeats_the_version():
    repeats = [
        path.name
        for name in ("pyproject.toml", "CITATION.cff", "README.md", "docs/conf.py")
        if statsmodels_mnar.__version__ in (path := ROOT / name).read_text("utf-8")
    ]
    assert repeats == []
