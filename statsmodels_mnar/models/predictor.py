"""Predictions of a selection model at given parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..design import rebuild
from ..inference.probabilities import (
    NEEDS_OUTCOME,
    NEEDS_SELECT,
    check_which,
    linear_index,
    probability,
)
from .likelihood import SelectionLikelihood

Floats = NDArray[np.float64]


class SelectionPredictor(SelectionLikelihood):
    """Probabilities and indices, and the designs of new data that they need."""

    exog_select: Floats | None
    offset: Floats | None
    offset_select: Floats | None
    _offset_columns: tuple[str | None, str | None]

    def predict(
        self,
        params: Any,
        exog: Any = None,
        exog_select: Any = None,
        *,
        which: str = "mean",
        offset: Any = None,
        offset_select: Any = None,
    ) -> Floats:
        """Probabilities and indices at given designs.

        Parameters
        ----------
        params : array_like
        exog, exog_select : array_like, optional
            (m, p) and (m, k) designs; by default those of the model. Only those that ``which``
            needs are read.
        which : str
            "mean": P(y = 1) in the population; "linear", "linear-select": the indices;
            "prob-select": P(s = 1); "mean-selected", "mean-unselected": P(y = 1 | s);
            "p11", "p10", "p01", "p00": P(y, s).
        offset, offset_select : array_like, optional
            By default the model's own where its own design is used, else zero. Results read new
            data's offsets themselves where the model's were given by column name.
        """
        check_which(which)
        full = self._expand(params)
        beta, gamma, dependence = np.split(full, [self.k_outcome, self.k_outcome + self.k_select])
        a = b = None
        if which in NEEDS_OUTCOME & NEEDS_SELECT and (exog is None) != (exog_select is None):
            raise ValueError(f"which={which!r} reads both designs; give exog and exog_select")
        if which in NEEDS_OUTCOME:
            a = linear_index(exog, self.exog, beta, offset, self.offset, "exog")
        if which in NEEDS_SELECT:
            b = linear_index(
                exog_select, self.exog_select, gamma, offset_select, self.offset_select,
                "exog_select",
            )  # fmt: skip
        if a is not None and b is not None and len(a) != len(b):
            raise ValueError(
                f"exog has {len(a)} rows and exog_select {len(b)}; which={which!r} needs both for "
                "the same rows"
            )
        return probability(self._parametrized.form, which, a, b, dependence)

    def offsets_for(self, data: Any, which: str, *given: Any) -> tuple[Any, Any]:
        """Offsets of new data: as given, or their own column where the model's has a name."""
        found = []
        needed = (which in NEEDS_OUTCOME, which in NEEDS_SELECT)
        for name, read, value in zip(self._offset_columns, needed, given, strict=True):
            if value is None and name is not None and read:
                if name not in data:
                    raise ValueError(f"data lacks the offset column {name!r} of this model")
                value = np.asarray(data[name], dtype=float)
            found.append(value)
        return found[0], found[1]

    def design_for(self, data: Any, which: str) -> tuple[Any, Any]:
        """Designs of new data through the stored formulas: only those that ``which`` needs."""
        check_which(which)
        outcome, select = self.design.outcome_spec, self.design.select_spec
        if outcome is None or select is None:
            raise ValueError("data needs a model built from formulas; pass exog and exog_select")
        return (
            rebuild(outcome, data) if which in NEEDS_OUTCOME else None,
            rebuild(select, data) if which in NEEDS_SELECT else None,
        )
