"""Probabilities of outcome and selection at given indices, from the row kernels.

P(y, s) is the likelihood of a labelled row: with selection reversed (b, rho -> -b, -rho) the same
kernel gives P(y, s = 0), without a difference of nearly equal numbers.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr, ndtr

from ..engine.forms import Form, FreeForm, LoadingForm, ProbitForm
from ..engine.integration import Quadrature
from ..engine.rows import Block

Floats = NDArray[np.float64]

Which = Literal[
    "mean", "linear", "prob-select", "linear-select", "mean-selected", "mean-unselected",
    "p11", "p10", "p01", "p00",
]  # fmt: skip
WHICH: tuple[str, ...] = get_args(Which)
NEEDS_OUTCOME = frozenset(WHICH) - {"prob-select", "linear-select"}
NEEDS_SELECT = frozenset(WHICH) - {"mean", "linear"}


def check_which(which: str) -> None:
    if which not in WHICH:
        raise ValueError(f"which={which!r} is unknown; use one of {list(WHICH)}")


def log_joint(form: Form, a: Floats, b: Floats, dependence: Floats, y: int, s: int) -> Floats:
    """log P(y, s) at outcome index a and selection index b, each (n,)."""
    side = 1.0 if s else -1.0
    values = np.array(dependence, dtype=float)
    values[-1] *= side  # athrho, or the loading, changes sign with the selection error
    n = len(a)
    one = torch.ones(n, dtype=torch.float64)
    empty = one[None, :]
    block = Block(
        "hard", empty, empty, 0 * one, 0 * one, one if y else -one, 0 * one, one, one,
        torch.arange(n), 0,
    )  # fmt: skip
    if isinstance(form, FreeForm):
        form = FreeForm(form.integration if form.simulation is None else Quadrature())
    device = torch.device("cpu")
    nodes = form.nodes(values[None], device)
    terms = form.terms(
        torch.as_tensor(a)[None],
        torch.as_tensor(side * b)[None],
        torch.as_tensor(values)[None],
        block,
        nodes,
        0,
    )
    return terms.value[0].numpy()


def population_mean(form: Form, a: Floats, dependence: Floats) -> Floats:
    """P(y = 1) at outcome index a, whatever the selection."""
    if isinstance(form, ProbitForm):
        return ndtr(a)
    sigma = abs(dependence[0]) if isinstance(form, LoadingForm) else np.exp(dependence[0])
    nodes = Quadrature(tol=1e-13).nodes([float(sigma)], [0.0], torch.device("cpu"))
    e, weight = nodes.e[0, :, 0].numpy(), nodes.weight[0, :, 0].numpy()
    result = np.empty(len(a))
    for start in range(0, len(a), 4096):  # bounds the (rows, nodes) work array
        cut = slice(start, start + 4096)
        result[cut] = expit(a[cut, None] + sigma * e) @ weight
    return result


def probability(
    form: Form, which: str, a: Floats | None, b: Floats | None, dependence: Floats
) -> Floats:
    """The quantity ``which`` at the indices it needs; the other index may be None."""
    check_which(which)
    known = _known(which, a, b)
    if known is not None:
        return known
    assert a is not None
    finite = np.isfinite(a) if b is None else np.isfinite(a) & np.isfinite(b)
    result = np.full(len(a), np.nan)
    if which == "mean":
        result[finite] = population_mean(form, a[finite], dependence)
        return result
    assert b is not None
    a, b = a[finite], b[finite]
    if which == "mean-selected":
        result[finite] = np.exp(log_joint(form, a, b, dependence, 1, 1) - log_ndtr(b))
    elif which == "mean-unselected":
        result[finite] = np.exp(log_joint(form, a, b, dependence, 1, 0) - log_ndtr(-b))
    else:
        result[finite] = np.exp(log_joint(form, a, b, dependence, int(which[1]), int(which[2])))
    return result


def _known(which: str, a: Floats | None, b: Floats | None) -> Floats | None:
    """Quantities of one index alone."""
    if which == "linear":
        return a
    if which == "linear-select":
        return b
    if which == "prob-select":
        assert b is not None
        return ndtr(b)
    return None


def linear_index(
    exog: Any, own: Any, coef: Floats, offset: Any, own_offset: Any, name: str
) -> Floats:
    """x'beta + offset, NaN where a covariate is missing."""
    if exog is None:
        if own is None:
            raise ValueError(f"{name} is needed: the data have been removed from this model")
        exog, offset = own, own_offset if offset is None else offset
    matrix = np.asarray(exog, dtype=float)
    if matrix.ndim == 1:
        matrix = matrix[None] if matrix.size == coef.size else matrix[:, None]
    if matrix.ndim != 2 or matrix.shape[1] != coef.size:
        raise ValueError(f"{name} must have {coef.size} columns, got shape {matrix.shape}")
    index = matrix @ coef
    return index if offset is None else index + np.asarray(offset, dtype=float)
