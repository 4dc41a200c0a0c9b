"""Whether one selection model is a special case of another."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..design.checks import in_span


def is_nested(small: Any, large: Any) -> bool:
    """Whether the model of ``small`` is that of ``large`` with restrictions, or the same.

    Both equations must lie in the span of the larger model's, with offsets that differ by
    something in that span, and so must the dependence.

    Parameters
    ----------
    small, large : SelectionResults
        Fits of the same rows in the same order, in memory.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(500, rng=0).data
    >>> fits = [
    ...     GreeneSelectionLogit.from_formula(
    ...         formula, "s ~ x1 + x2 + z", data, normalization="loading").fit()
    ...     for formula in ("y ~ x1", "y ~ x1 + x2")]
    >>> is_nested(*fits), is_nested(*fits[::-1])
    (True, False)
    """
    if not dependence_nested(small._asked(), large._asked()):
        return False
    one, two = small.model.design, large.model.design
    return _equation_nested(one.X, two.X, one.offset, two.offset) and _equation_nested(
        one.W, two.W, one.offset_select, two.offset_select
    )


def _equation_nested(small: Any, large: Any, offset: Any, other: Any) -> bool:
    columns = small
    if offset is not None or other is not None:
        nothing = np.zeros(len(small))
        moved = (nothing if offset is None else offset) - (nothing if other is None else other)
        if moved.any():
            columns = np.column_stack([small, moved])
    return in_span(columns, large)


def dependence_nested(small: tuple[Any, ...], large: tuple[Any, ...]) -> bool:
    """Whether one set of sigma and rho holds another.

    Each is (form, sigma, rho) as a model was asked for, None where estimated. |rho| = 1 is the
    loading form, an infinite sigma the probit outcome, sigma = 0 independence; the free model is
    closed, so that it holds them all.

    Examples
    --------
    >>> dependence_nested(("loading", None, None), ("free", None, None))
    True
    >>> dependence_nested(("probit", None, None), ("loading", None, None))
    False
    """
    form, sigma, rho = small
    other, other_sigma, other_rho = large
    if other == "loading":  # estimated, or fixed at one point
        return form == "loading" and (other_sigma is None or small[1:] == large[1:])
    if other == "probit":
        return form == "probit" and other_rho in (None, rho)
    sigma = np.inf if form == "probit" else sigma
    if sigma == 0.0 and other_sigma is None:
        return True  # whatever rho is
    return other_sigma in (None, sigma) and other_rho in (None, rho)
