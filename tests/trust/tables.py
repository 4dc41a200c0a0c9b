"""The catalogue as tables; ``python -m tests.trust.tables`` writes docs/hostile-inputs.md."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

from . import partitions  # noqa: F401 - more questions
from .catalogue import ENTRIES, trials
from .questions import QUESTIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "hostile-inputs.md"
BEGIN, END = "<!-- the catalogue begins -->\n", "<!-- the catalogue ends -->\n"


def tables() -> str:
    """A count, and a table for each topic."""
    catalogue = [*ENTRIES, *QUESTIONS]
    tried = len(list(trials())) + len(QUESTIONS)
    refused = sum(entry.raises is not None for entry in catalogue)
    parts = [
        f"{len(catalogue)} inputs, tried {tried:,} times: {refused} are refused, "
        f"{len(catalogue) - refused} give the numbers of clean data. Silent wrong answers: none.\n"
    ]
    for topic, entries in groupby(catalogue, key=lambda entry: entry.topic):
        rows = [f"| {_plain(entry.name)} | {_code(entry.gets)} |" for entry in entries]
        parts.append(
            f"## {topic}\n\n| input | users get |\n| --- | --- |\n" + "\n".join(rows) + "\n"
        )
    return "\n".join(parts)


def _plain(text: str) -> str:
    return re.sub(r"([\\\\`*_{}\[\]<>|~$&#])", r"\\\1", text)


def _code(text: str) -> str:
    return text.replace("|", "\\|")


def page() -> str:
    """The page with the tables of now."""
    head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    return head + BEGIN + "\n" + tables() + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
