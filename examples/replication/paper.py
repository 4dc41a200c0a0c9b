"""The paper's numbers, transcribed from its source with the labels of its tables."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import pandas as pd


@lru_cache(maxsize=1)
def _numbers() -> pd.DataFrame:
    place = files(__package__).joinpath("paper.csv")
    with place.open(encoding="utf-8") as text:
        return pd.read_csv(text, keep_default_na=False, na_values={"value": "", "sd": ""})


def paper_numbers(table: str | None = None) -> pd.DataFrame:
    """The paper's numbers.

    Parameters
    ----------
    table : {"table1", ..., "table5", "figure3"}, optional
        Its tables of results, counted without the table of symbols.

    Returns
    -------
    DataFrame
        ``table``, ``label`` (of the paper's source), ``dataset``, ``method``, ``quantity``,
        ``value`` and ``sd`` (missing where the paper gives none).

    Examples
    --------
    >>> numbers = paper_numbers("table3")
    >>> float(numbers.value.max())
    112.9
    """
    numbers = _numbers()
    if table is None:
        return numbers.copy()
    if table not in set(numbers["table"]):
        raise ValueError(f"table={table!r} is unknown; use one of {sorted(set(numbers['table']))}")
    return numbers[numbers["table"] == table].reset_index(drop=True)
