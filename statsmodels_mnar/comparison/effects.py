"""What tables and tests have in common: the effects of a fit, whatever it is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inference.probabilities import Quantity
from ..kernel.forms import LoadingForm, ProbitForm
from ..results.selection import SelectionResults

Floats = NDArray[np.float64]


def unwrapped(results: Any) -> Any:
    """Results without the wrapper that puts names on them."""
    return getattr(results, "_results", results)


def independent_mean(beta: Any, k_select: int, *, probit: bool) -> Quantity:
    """P(y = 1) of a plain logit or probit: that of a selection model without dependence."""
    form = ProbitForm() if probit else LoadingForm()
    fixed = np.zeros(1, dtype=bool)
    return Quantity(form, "mean", np.asarray(beta, float), np.zeros(k_select), np.zeros(1), fixed)


def average_effects(
    host: SelectionResults, quantity: Quantity, variables: list[str] | None
) -> tuple[list[str], Floats, Floats]:
    """Names, average effects over all rows and their Jacobian."""
    found = host._by_column(quantity) if variables is None else host._by_data(quantity, variables)
    names, values, jacobian = found
    assert jacobian is not None
    return names, values, jacobian
