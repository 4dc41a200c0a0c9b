"""Designs without rows: what is known of all of them, where they are in partitions or gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from statsmodels_mnar.design.data import Counts, Design
from statsmodels_mnar.design.formula import FormulaSpec
from statsmodels_mnar.design.values import Dropped, Floats, WeightKind
from statsmodels_mnar.errors import DesignError, NotInMemoryError

_BY_ROW = {"y", "s", "X", "W", "index", "kept", "labelled", "row_weights"}
_OPTIONAL = {"offset", "offset_select", "weights"}


@dataclass(frozen=True, slots=True)
class Columns:
    """Facts about the columns of both designs, over all rows."""

    low: Floats  # (p + k,) smallest value
    high: Floats  # (p + k,)
    whole: NDArray[np.bool_]  # (p + k,) all values are integers
    same: NDArray[np.bool_]  # (p, k) a column of X is the one of W

    @property
    def constant(self) -> NDArray[np.bool_]:
        return self.low == self.high


@dataclass(frozen=True, eq=False)
class PartitionedDesign:
    """In place of a `Design`, whose arrays of the length of the data it does not have."""

    outcome_names: tuple[str, ...]
    select_names: tuple[str, ...]
    outcome_name: str
    select_name: str
    outcome_spec: FormulaSpec | None
    select_spec: FormulaSpec | None
    weight_kind: WeightKind | None
    given: frozenset[str]  # which of offset, offset_select and weights there are
    dropped: Dropped
    counts: Counts
    columns: Columns
    sketch: Design  # a few rows with the inner products of all labelled and all unlabelled rows
    n_partitions: int
    has_constant: bool  # the outcome design spans one

    @property
    def nobs(self) -> int:
        """Number of rows."""
        return self.counts.rows

    @property
    def counted(self) -> PartitionedDesign:
        """See `Design`; nothing here is known row by row."""
        return self

    def __getattr__(self, name: str) -> Any:
        if name in _OPTIONAL and name not in self.given:
            return None
        if name in _BY_ROW | _OPTIONAL:
            self.refuse(name)
        raise AttributeError(name)

    def refuse(self, what: str) -> NoReturn:
        """Say why something that needs all rows at once is not there."""
        raise NotInMemoryError(
            f"this needs {what} of every row at once, but the {self.nobs} rows are in "
            f"{self.n_partitions} partitions. Pass new data where a method takes it, or fit a "
            "sample of the rows from a DataFrame for this."
        )


class SavedDesign(PartitionedDesign):
    """What a file of results knows of the data: names and counts."""

    @classmethod
    def of(
        cls,
        outcome_names: tuple[str, ...],
        select_names: tuple[str, ...],
        outcome_name: str,
        select_name: str,
        weight_kind: WeightKind | None,
        dropped: Dropped,
        counts: Counts,
        has_constant: bool,
    ) -> Self:
        """From the names and the counts; all else is unknown."""
        p, k = len(outcome_names), len(select_names)
        unknown, nothing = np.full(p + k, np.nan), np.empty(0)
        names = (outcome_names, select_names, outcome_name, select_name)
        index = pd.RangeIndex(0)
        sketch = Design(
            nothing, nothing, np.empty((0, p)), np.empty((0, k)), *names, index, np.empty(0, int)
        )
        false = np.zeros((p, k), dtype=bool)
        columns = Columns(unknown, unknown, np.zeros(p + k, dtype=bool), false)
        return cls(
            *names, None, None, weight_kind, frozenset(), dropped, counts, columns, sketch, 0,
            has_constant,
        )  # fmt: skip

    def refuse(self, what: str) -> NoReturn:
        raise NotInMemoryError(
            f"this needs {what} of the data, which results read from a file do not have; give "
            "from_json(..., model=) a model of them, or pass exog and exog_select to predict"
        )

    def check_columns(self, exog: Any, exog_select: Any) -> None:
        """Refuse frames that are data, not designs: formulas of a file are not evaluated."""
        for name, frame, columns in (
            ("exog", exog, self.outcome_names),
            ("exog_select", exog_select, self.select_names),
        ):
            if isinstance(frame, pd.DataFrame) and set(frame.columns) != set(columns):
                raise DesignError(
                    f"{name} must have the columns {', '.join(columns)} of the design: results "
                    "read from a file evaluate no formulas. Build the model from your own formulas "
                    "and data and pass it as from_json(..., model=) to predict from data."
                )
