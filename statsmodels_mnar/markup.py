"""Summaries whose HTML and LaTeX show names as text.

statsmodels writes names into its HTML as they are. A notebook shows that HTML by itself, so that
a column called ``<script>...`` would run, and one called ``a<b`` would not be seen.

statsmodels' own drops the titles of the tables, so that two equations cannot be told apart, and
writes the text below them as it is: a note with an underscore does not compile.
"""

from __future__ import annotations

import copy
import html
import re
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import pandas as pd
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.summary2 import Summary as Summary2
from statsmodels.iolib.table import SimpleTable


class EscapedTable(SimpleTable):
    """statsmodels' table with the text of its cells and its title escaped in HTML."""

    def as_html(self, **fmt_dict: Any) -> str:
        """HTML in which names are text."""
        shown = copy.deepcopy(self)
        shown.title = _text(self.title)
        for row in shown:
            for cell in row:
                cell.data = _text(cell.data)
        return SimpleTable.as_html(shown, **fmt_dict)


class _Tables(list[SimpleTable]):
    """Tables of a summary; each becomes an `EscapedTable`, for it can be shown alone."""

    def append(self, table: SimpleTable) -> None:
        table.__class__ = EscapedTable  # statsmodels' functions make the plain ones
        super().append(table)


class EscapedSummary(Summary):
    """statsmodels' summary with escaped HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = _Tables()

    def as_html(self) -> str:
        """HTML in which names are text."""
        shown = copy.copy(self)
        shown.extra_txt = _text(self.extra_txt)
        return Summary.as_html(shown)


class EscapedSummary2(Summary2):
    """statsmodels' ``summary2`` form with escaped HTML."""

    def as_html(self) -> str:
        """HTML in which names are text."""
        shown = copy.copy(self)
        shown.tables = [_frame(table) for table in self.tables]
        shown.extra_txt = [html.escape(text) for text in self.extra_txt]
        return Summary2.as_html(shown)


def _frame(table: pd.DataFrame) -> pd.DataFrame:
    frame = table.set_axis([_text(name) for name in table.columns], axis=1)
    return frame.set_axis([_text(name) for name in table.index], axis=0).map(_text)


def _text(value: Any) -> Any:
    return html.escape(value) if isinstance(value, str) else value


# -- summaries whose LaTeX names its sections and escapes what it prints ---------------------------


_SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": "$<$",
        ">": "$>$",
        "|": "$|$",
        "[": "{[}",  # after a line's end it would be read as an option
        **{character: f"\\{character}" for character in "&%$#_{}"},
    }
)


class SectionedSummary(EscapedSummary):
    """statsmodels' summary; tables of equally many columns are sections of one LaTeX tabular."""

    def as_latex(self) -> str:
        """LaTeX for a document that uses booktabs."""
        groups = (list(tables) for _, tables in groupby(self.tables, key=_width))
        parts = "\n\n\\medskip\n".join(_tabular(tables) for tables in groups)
        text = f"\\begin{{center}}\n{parts}\n\\end{{center}}"
        if self.extra_txt is None:
            return text
        lines = self.extra_txt.replace("\n    ", " ").split("\n")  # a note's own lines are one
        return text + "\n\n\\noindent\n" + " \\newline\n".join(map(escape, lines))


def escape(text: str) -> str:
    r"""Text as LaTeX prints it.

    Examples
    --------
    >>> print(escape("p < 5% of select_x"))
    p $<$ 5\% of select\_x
    """
    return text.translate(_SPECIAL)


def _width(table: SimpleTable) -> int:
    return len(table[0])


def _tabular(tables: list[SimpleTable]) -> str:
    """The tables below each other, the title of each above its stubs."""
    width = _width(tables[0])
    with_headings = tables[0][0].datatype == "header"
    columns = "l" + "r" * (width - 1) if with_headings else "lr" * (width // 2)
    lines = [f"\\begin{{tabular}}{{{columns}}}", "\\toprule"]
    for number, table in enumerate(tables):
        lines += ["\\midrule"] if number else []
        rows = [[str(cell.data).strip() for cell in row] for row in table]
        title = f"\\textit{{{escape(table.title)}}}" if table.title else ""
        if with_headings:
            heading, *rows = rows
            lines += [_line([title, *map(escape, heading[1:])]), "\\midrule"]
        elif title:
            lines += [f"\\multicolumn{{{width}}}{{c}}{{{title}}} \\\\", "\\midrule"]
        lines += [_line(map(_cell, row)) for row in rows]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"])


def _line(cells: Iterable[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _cell(text: str) -> str:
    """A number has a minus sign, not a hyphen."""
    return re.sub(r"^-(?=[\d.])", "$-$", escape(text))
