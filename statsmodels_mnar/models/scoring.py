"""Probabilities and indices at given parameters, and the designs of new data they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..design import rebuild
from ..design.chunks import refuse_partitioned
from ..design.values import as_floats, as_frame, check_unique, new_matrix
from ..errors import NotInMemoryError
from ..post.prediction import NEEDS_OUTCOME, NEEDS_SELECT, Designs, Quantity, check_which
from ..types import Floats

if TYPE_CHECKING:
    from .selection import SelectionModel


def predict(
    self: SelectionModel,
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
    quantity = self.quantity(params, which)
    return quantity.value(self.designs(which, exog, exog_select, offset, offset_select))


def quantity(self: SelectionModel, params: Any, which: str) -> Quantity:
    """What is predicted, at these parameters."""
    check_which(which)
    full, spec = self.expand(params), self.parametrized
    beta, gamma, dependence = np.split(full, [self.k_outcome, self.n_coef])
    return Quantity(spec.form, which, beta, gamma, dependence, spec.free)


def designs(
    self: SelectionModel,
    which: str,
    exog: Any = None,
    exog_select: Any = None,
    offset: Any = None,
    offset_select: Any = None,
) -> Designs:
    """The rows of :meth:`predict`, checked; only the designs that ``which`` needs."""
    check_which(which)
    if which in NEEDS_OUTCOME & NEEDS_SELECT and (exog is None) != (exog_select is None):
        raise ValueError(f"which={which!r} reads both designs; give exog and exog_select")
    if exog is None and exog_select is None:
        refuse_partitioned(self.design, "a prediction")
    if exog is None:
        offset = self.offset if offset is None else offset
    if exog_select is None:
        offset_select = self.offset_select if offset_select is None else offset_select
    X = W = None
    if which in NEEDS_OUTCOME:
        X = self._matrix(self.exog, exog, self.design.outcome_names, "exog")
        offset = _vector(offset, len(X), "offset")
    if which in NEEDS_SELECT:
        W = self._matrix(self.exog_select, exog_select, self.design.select_names, "exog_select")
        offset_select = _vector(offset_select, len(W), "offset_select")
    if X is not None and W is not None and len(X) != len(W):
        raise ValueError(
            f"exog has {len(X)} rows and exog_select {len(W)}; which={which!r} needs both for "
            "the same rows"
        )
    return Designs(
        X, W, offset if X is not None else None, offset_select if W is not None else None
    )


def _matrix(
    self: SelectionModel, own: Any, given: Any, names: tuple[str, ...], argument: str
) -> Floats:
    """The rows given, or the model's own."""
    if given is not None:
        return new_matrix(given, names, argument)
    if own is None:
        raise NotInMemoryError(f"{argument} is needed: the data have been removed from this model")
    return np.asarray(own)


def offsets_for(self: SelectionModel, data: Any, which: str, *given: Any) -> tuple[Any, Any]:
    """Offsets of new ``data`` that ``which`` needs: as given, or their own named column."""
    found = []
    needed = (which in NEEDS_OUTCOME, which in NEEDS_SELECT)
    for name, read, value in zip(self.offset_columns, needed, given, strict=True):
        if value is None and name is not None and read:
            frame = as_frame(data)
            if name not in frame:
                raise ValueError(f"data lacks the offset column {name!r} of this model")
            check_unique(frame, [name])
            value = as_floats(frame[name], name)
        found.append(value)
    return found[0], found[1]


def design_for(self: SelectionModel, data: Any, which: str) -> tuple[Any, Any]:
    """Designs of new ``data`` through the stored formulas: only those that ``which`` needs."""
    check_which(which)
    outcome, select = self.design.outcome_spec, self.design.select_spec
    if outcome is None or select is None:
        raise ValueError("data needs a model built from formulas; pass exog and exog_select")
    return (
        rebuild(outcome, data) if which in NEEDS_OUTCOME else None,
        rebuild(select, data) if which in NEEDS_SELECT else None,
    )


def _vector(values: Any, n: int, name: str) -> Floats | None:
    if values is None:
        return None
    vector = as_floats(values, name)
    if vector.shape not in ((), (n,)):
        raise ValueError(f"{name} must be one number or {n}, got shape {vector.shape}")
    return np.broadcast_to(vector, n)
