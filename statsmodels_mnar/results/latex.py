"""Summaries whose LaTeX names its sections and escapes what it prints.

statsmodels' own drops the titles of the tables, so that two equations cannot be told apart, and
writes the text below them as it is: a note with an underscore does not compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from statsmodels.iolib.table import SimpleTable

from ..escaping import EscapedSummary

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
