"""Small tools that several parts share: levels, progress bars, whole files, escaped summaries.

statsmodels writes names into the HTML of a summary as they are. A notebook shows that HTML by
itself, so that a column called ``<script>...`` would run, and one called ``a<b`` would not be seen.
Its LaTeX drops the titles of the tables, so that two equations look alike, and does not escape the
text below them. The summaries here are statsmodels' own with both mended.
"""

from __future__ import annotations

import copy
import html
import os
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.summary2 import Summary as Summary2
from statsmodels.iolib.table import SimpleTable


def check_alpha(alpha: float) -> None:
    """Raise an error if ``alpha`` is not the level of a test or interval."""
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha={alpha!r} must lie between 0 and 1")


def progress_bar(
    show: bool,
    label: str,
    total: int | None = None,
    over: Iterable[Any] | None = None,
    unit: str = "fit",
    **options: Any,
) -> Any:
    """Return a tqdm bar: an iterator over ``over``, or a context manager with ``update``.

    Examples
    --------
    >>> list(progress_bar(False, "squares", over=(i * i for i in range(3))))
    [0, 1, 4]
    """
    if show:
        from tqdm.auto import tqdm
    else:  # draws nothing; the other may warn when it is imported in a notebook
        from tqdm.std import tqdm
    return tqdm(over, desc=label, total=total, unit=unit, disable=not show, **options)


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a name beside ``path`` to write to, and give the file its own name afterwards.

    No reader sees half a file: if the block raises, what it wrote is removed and ``path`` stays as
    it was.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with written_whole(folder / "table.csv") as beside:
    ...     _ = beside.write_text("a,b")
    >>> [file.name for file in folder.iterdir()]
    ['table.csv']
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        yield beside
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file that is either whole or not there."""
    with written_whole(path) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)


# -- summaries whose HTML and LaTeX show names as text ---------------------------------------------


class EscapedTable(SimpleTable):
    """statsmodels' table with the text of its cells and its title escaped in HTML."""

    def as_html(self, **fmt_dict: Any) -> str:
        """Return HTML in which names are shown as text."""
        shown = copy.deepcopy(self)
        shown.title = _text(self.title)
        for row in shown:
            for cell in row:
                cell.data = _text(cell.data)
        return SimpleTable.as_html(shown, **fmt_dict)


class _Tables(list[SimpleTable]):
    """A list of tables that turns each into an `EscapedTable`, which can be shown alone."""

    def append(self, table: SimpleTable) -> None:
        table.__class__ = EscapedTable  # statsmodels' functions make the plain ones
        super().append(table)


class EscapedSummary(Summary):
    """statsmodels' summary with escaped HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = _Tables()

    def as_html(self) -> str:
        """Return HTML in which names are shown as text."""
        shown = copy.copy(self)
        shown.extra_txt = _text(self.extra_txt)
        return Summary.as_html(shown)


class EscapedSummary2(Summary2):
    """statsmodels' ``summary2`` form with escaped HTML."""

    def as_html(self) -> str:
        """Return HTML in which names are shown as text."""
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
        """Return LaTeX for a document that uses booktabs."""
        groups = (list(tables) for _, tables in groupby(self.tables, key=_width))
        parts = "\n\n\\medskip\n".join(_tabular(tables) for tables in groups)
        text = f"\\begin{{center}}\n{parts}\n\\end{{center}}"
        if self.extra_txt is None:
            return text
        lines = self.extra_txt.replace("\n    ", " ").split("\n")  # a note's own lines are one
        return text + "\n\n\\noindent\n" + " \\newline\n".join(map(escape, lines))


def escape(text: str) -> str:
    r"""Return text with the characters that LaTeX reserves escaped.

    Examples
    --------
    >>> print(escape("p < 5% of select_x"))
    p $<$ 5\% of select\_x
    """
    return text.translate(_SPECIAL)


def _width(table: SimpleTable) -> int:
    return len(table[0])


def _tabular(tables: list[SimpleTable]) -> str:
    """Return one tabular of the tables below each other, the title of each above its stubs."""
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
    """Escape a cell, and give a negative number a minus sign in place of the hyphen."""
    return re.sub(r"^-(?=[\d.])", "$-$", escape(text))
