"""The paper's numbers are those of its source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.replication import paper_numbers


def numbers_of(tex: str, label: str) -> list[str]:
    """All decimal numbers of the tabular that a label belongs to, in order."""
    end = tex.index(f"\\label{{{label}}}")
    start = tex.rindex("\\begin{tabular}", 0, end)
    body = tex[start:end].replace("\\eta = 0.", "")
    return re.findall(r"\d+\.\d+", body)


@pytest.mark.parametrize("table", ["table1", "table2", "table3", "table4", "table5"])
def test_transcription(shared: Path, table):
    numbers = paper_numbers(table)
    (label,) = numbers["label"].unique()
    expected = numbers_of((shared / "paper" / "biascorr.tex").read_text(), label)
    found = []
    for row in numbers.itertuples():
        digits = 4 if row.quantity in ("eta", "threshold") else 2
        found.append(f"{row.value:.{digits}f}")
        if row.sd == row.sd:
            found.append(f"{row.sd:.2f}")
    assert found == expected


def test_soft_selection_of_the_figure(shared: Path):
    tex = (shared / "paper" / "biascorr.tex").read_text()
    values = [float(v) for v in re.findall(r"\\Bar\{s\}\s*=(0\.\d{4})\$", tex)]
    assert paper_numbers("figure3")["value"].tolist() == values


def test_unknown_table_is_refused():
    with pytest.raises(ValueError, match=r"table='table9' is unknown; use one of \['figure3'"):
        paper_numbers("table9")
