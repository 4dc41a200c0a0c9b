"""Summaries whose HTML shows names as text.

statsmodels writes names into its HTML as they are. A notebook shows that HTML by itself, so that
a column called ``<script>...`` would run, and one called ``a<b`` would not be seen.
"""

from __future__ import annotations

import copy
from html import escape
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
        shown.extra_txt = [escape(text) for text in self.extra_txt]
        return Summary2.as_html(shown)


def _frame(table: pd.DataFrame) -> pd.DataFrame:
    frame = table.set_axis([_text(name) for name in table.columns], axis=1)
    return frame.set_axis([_text(name) for name in table.index], axis=0).map(_text)


def _text(value: Any) -> Any:
    return escape(value) if isinstance(value, str) else value
