"""The design of rows that are in partitions: what is known of all of them, not the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from statsmodels_mnar.design.data import Counts, Design
from statsmodels_mnar.design.formula import FormulaSpec
from statsmodels_mnar.design.values import Dropped, Floats, WeightKind
from statsmodels_mnar.errors import NotInMemoryError

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
    outcome_spec: FormulaSpec
    select_spec: FormulaSpec
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
