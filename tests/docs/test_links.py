"""Every relative link in README.md and docs/ leads to a file, and every anchor to a heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
ELSEWHERE = re.compile(r"[a-z]+:")  # https:, mailto:
OBJECT = "#statsmodels_mnar."  # a Python name, which Sphinx resolves with -W


def prose(path: Path) -> str:
    return CODE.sub("", FENCE.sub("", path.read_text(encoding="utf-8")))


def anchors(path: Path) -> set[str]:
    """Anchors of the headings, as GitHub and MyST make them."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", heading.lower().replace("`", ""))
        slug, number = words.replace(" ", "-"), 0
        while (slug if number == 0 else f"{slug}-{number}") in found:
            number += 1
        found.add(slug if number == 0 else f"{slug}-{number}")
    return found


def broken(path: Path) -> list[str]:
    bad = []
    for target in LINK.findall(prose(path)):
        if ELSEWHERE.match(target) or target.startswith(OBJECT):
            continue
        place, _, anchor = target.partition("#")
        file = (path.parent / place).resolve() if place else path
        if not file.exists() or not file.is_relative_to(ROOT):
            bad.append(f"{target}: no such file")
        elif anchor and anchor not in anchors(file):
            bad.append(f"{target}: no such heading")
    return bad


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(broken.__globals__, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# One heading\n[a](nowhere.md) [b](#one-heading) [c](#two) `[d](code.md)`\n")
    assert broken(page) == ["nowhere.md: no such file", "#two: no such heading"]


def test_every_page_is_in_the_table_of_contents():
    docs = ROOT / "docs"
    listed = {docs / "index.md"}
    for page in docs.rglob("*.md"):
        for block in re.findall(
            r"^```\{toctree\}\n(.*?)^```",
            page.read_text(encoding="utf-8"),
            re.MULTILINE | re.DOTALL,
        ):
            entries = [line for line in block.splitlines() if line and not line.startswith(":")]
            listed |= {(page.parent / f"{entry}.md").resolve() for entry in entries}
    pages = {page for page in docs.rglob("*.md") if "_build" not in page.parts}
    assert {str(p.relative_to(docs)) for p in pages - listed} == set()
