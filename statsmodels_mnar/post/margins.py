"""Marginal effects: how a predicted quantity changes with a variable of one or both equations.

With P_a and P_b the quantity's derivatives in the two indices, a variable with coefficients beta_x
and gamma_x has the slope P_a beta_x + P_b gamma_x; the derivative of that slope in the parameters
needs the second derivatives of P. Elasticities are slopes of log P, times x.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api import types as pdt

from ..types import Floats
from .prediction import Designs, Jet, Quantity, blocks

At = Literal["overall", "mean", "median", "zero", "all"]
Kind = Literal["slope", "dummy", "count"]

_STEP = 1e-4  # of a standard deviation: a central difference then has some eight digits


@dataclass(frozen=True, slots=True)
class Column:
    """A variable as the designs hold it."""

    name: str
    outcome: int | None  # its column of X
    select: int | None  # its column of W
    kind: Kind

    def values(self, at: Designs) -> Floats:
        """Return the variable's values, (n,)."""
        if self.outcome is not None and at.X is not None:
            return at.X[:, self.outcome]
        assert at.W is not None
        return at.W[:, self.select]

    def moved(self, at: Designs, to: float | Floats) -> Designs:
        """The rows with this variable changed, in both designs at once."""
        X, W = at.X, at.W
        if self.outcome is not None and X is not None:
            X = X.copy()
            X[:, self.outcome] = to
        if self.select is not None and W is not None:
            W = W.copy()
            W[:, self.select] = to
        return replace(at, X=X, W=W)

    def ends(self, at: Designs) -> tuple[Designs, Designs, float]:
        """The rows between which a discrete variable moves, and how far."""
        if self.kind == "dummy":
            return self.moved(at, 0.0), self.moved(at, 1.0), 1.0
        x = self.values(at)
        return self.moved(at, x - 1.0), self.moved(at, x + 1.0), 2.0


def columns(
    at: Designs,
    outcome_names: tuple[str, ...],
    select_names: tuple[str, ...],
    *,
    dummy: bool = True,
    count: bool = False,
) -> list[Column]:
    """The variables of the designs, constants left out.

    A column that both designs hold with the same values is one variable: arrays have no names to
    go by. Where two different columns share a name, that of W gets the prefix ``select_``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.3], [1.0, 0.7], [1.0, 0.1]])
    >>> W = np.array([[1.0, 0.3, 0.0], [1.0, 0.7, 1.0], [1.0, 0.1, 1.0]])
    >>> for column in columns(Designs(X, W), ("const", "x"), ("const", "x", "z")):
    ...     print(column)
    Column(name='x', outcome=1, select=1, kind='slope')
    Column(name='z', outcome=None, select=2, kind='dummy')
    """
    nothing = np.empty((len(at), 0))
    X, W = nothing if at.X is None else at.X, nothing if at.W is None else at.W
    return matched(
        [_kind(x, dummy, count) if _varies(x) else None for x in X.T],
        [_kind(w, dummy, count) if _varies(w) else None for w in W.T],
        lambda j, k: _same(X[:, j], W[:, k]),
        outcome_names,
        select_names,
    )


def matched(
    outcome: Sequence[Kind | None],
    select: Sequence[Kind | None],
    same: Callable[[int, int], bool],
    outcome_names: tuple[str, ...],
    select_names: tuple[str, ...],
) -> list[Column]:
    """:func:`columns` from facts about them.

    Parameters
    ----------
    outcome, select : sequence
        Kind of each column of X and of W, None for constants.
    same : callable
        Whether a column of X is one of W.
    """
    left = [k for k, kind in enumerate(select) if kind is not None]
    found = []
    for j, kind in enumerate(outcome):
        if kind is not None:
            twin = next((k for k in left if same(j, k)), None)
            left = [k for k in left if k != twin]
            found.append(Column(outcome_names[j], j, twin, kind))
    taken = {column.name for column in found}
    for k in left:
        own = select[k]
        assert own is not None
        name = f"select_{select_names[k]}" if select_names[k] in taken else select_names[k]
        found.append(Column(name, None, k, own))
    return found


def _varies(x: Floats) -> bool:
    return bool((x != x[0]).any())


def _same(x: Floats, w: Floats) -> bool:
    return np.array_equal(x[:16], w[:16]) and np.array_equal(x, w)


def _kind(x: Floats, dummy: bool, count: bool) -> Kind:
    return kind_of(bool((x % 1.0 == 0.0).all()), x.min(), x.max(), dummy=dummy, count=count)


def kind_of(whole: bool, low: float, high: float, *, dummy: bool, count: bool) -> Kind:
    """Return the kind of a column with values between these, integers if ``whole``."""
    whole = whole and low >= 0.0
    if whole and high == 1.0:
        return "dummy" if dummy else "slope"
    return "count" if whole and count else "slope"


def typical_row(at: Designs, point: At, weights: Floats) -> Designs:
    """One row: every column at its weighted mean, its weighted median, or zero."""

    def centre(x: Floats) -> float:
        if point == "mean":
            return float(weights @ x / weights.sum())
        if point == "median":
            return weighted_median(x, weights)
        return 0.0

    def row(design: Floats | None) -> Floats | None:
        if design is None:
            return None
        return np.array([[centre(x) if _varies(x) else x[0] for x in design.T]])

    offsets = (None if v is None else np.array([centre(v)]) for v in (at.offset, at.offset_select))
    return Designs(row(at.X), row(at.W), *offsets)


def weighted_median(x: Floats, weights: Floats) -> float:
    """The median of rows that stand for ``weights`` observations each.

    Examples
    --------
    >>> weighted_median(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0]))
    2.0
    """
    order = np.argsort(x)
    twice = 2.0 * np.cumsum(weights[order])
    total = 0.5 * twice[-1]
    middle = [np.searchsorted(twice, total, side) for side in ("left", "right")]
    return float(x[order][middle].mean())


def held(at: Designs, variables: list[Column], values: Mapping[str | int, Any]) -> Designs:
    """The rows with columns held at values, in both designs."""
    names = [column.name for column in variables]
    places = [column.select if at.X is None else column.outcome for column in variables]
    for key, value in values.items():
        known: list[Any] = names if isinstance(key, str) else places
        if key not in known:
            raise ValueError(
                f"atexog has {key!r}, which is neither a variable ({names}) nor its position in "
                f"the design ({[place for place in places if place is not None]})"
            )
        number = np.asarray(value)
        if number.dtype.kind not in "bif" or not np.isfinite(number).all():
            raise ValueError(f"atexog[{key!r}]={value!r} must be finite numbers")
        if number.shape not in ((), (len(at),)):
            raise ValueError(f"atexog[{key!r}] must be one number or {len(at)}, got {number.shape}")
        at = variables[known.index(key)].moved(at, number)
    return at


def average_effects(
    quantity: Quantity,
    at: Designs,
    variables: list[Column],
    weights: Floats,
    *,
    log: bool = False,
    elastic: bool = False,
) -> tuple[Floats, Floats]:
    """Weighted means of the rows' effects, (V,), and their Jacobian in the parameters, (V, P).

    Parameters
    ----------
    weights : ndarray
        (n,), of sum one.
    log : bool
        Effects on log P.
    elastic : bool
        Of log x; slopes only.
    """
    value = np.zeros(len(variables))
    jacobian = np.zeros((len(variables), quantity.n_params))
    order = 2 if any(variable.kind == "slope" for variable in variables) else 1
    for rows in blocks(len(at)):
        part = at[rows]
        jet = quantity.jet(part, order, log=log)
        for i, variable in enumerate(variables):
            share = weights[rows] * variable.values(part) if elastic else weights[rows]
            if variable.kind == "slope":
                found = _average_slope(quantity, part, jet, variable, share)
            elif variable.kind == "dummy" and np.isin(variable.values(part), (0.0, 1.0)).all():
                found = _average_flip(quantity, part, jet, variable, share, log=log)
            else:
                low, high, width = variable.ends(part)
                found = average_difference(quantity, low, high, share / width, log=log)
            value[i] += found[0]
            jacobian[i] += found[1]
    return value, jacobian


def _average_slope(
    quantity: Quantity, at: Designs, jet: Jet, variable: Column, share: Floats
) -> tuple[float, Floats]:
    beta, gamma = quantity.coefficients(variable.outcome, variable.select)
    by_a, by_b = jet.first[0] @ share, jet.first[1] @ share
    moving = share * (jet.second[0] * beta + jet.second[1] * gamma)  # (d, n) of the slope
    jacobian = quantity.summed_gradient(at, moving)
    if variable.outcome is not None:
        jacobian[variable.outcome] += by_a
    if variable.select is not None:
        jacobian[len(quantity.beta) + variable.select] += by_b
    return by_a * beta + by_b * gamma, jacobian


def _average_flip(
    quantity: Quantity, at: Designs, jet: Jet, variable: Column, share: Floats, *, log: bool
) -> tuple[float, Floats]:
    """:func:`average_difference` of a dummy: one of its two values is the row's own."""
    x = variable.values(at)
    other = variable.moved(at, 1.0 - x)
    moved = quantity.jet(other, 1, log=log)
    share = np.where(x == 0.0, share, -share)  # the other value is the higher one, or the lower
    value = float(share @ (moved.value - jet.value))
    jacobian = quantity.summed_gradient(other, share * moved.first)
    return value, jacobian - quantity.summed_gradient(at, share * jet.first)


def average_difference(
    quantity: Quantity, low: Designs, high: Designs, weights: Floats, *, log: bool = False
) -> tuple[float, Floats]:
    """Weighted sum of P(high) - P(low), and its (P,) derivatives in the parameters."""
    value, jacobian = 0.0, np.zeros(quantity.n_params)
    for rows in blocks(len(low)):
        for side, sign in ((high[rows], 1.0), (low[rows], -1.0)):
            share = sign * weights[rows]
            jet = quantity.jet(side, 1, log=log)
            value += float(share @ jet.value)
            jacobian += quantity.summed_gradient(side, share * jet.first)
    return value, jacobian


def row_effects(
    quantity: Quantity,
    at: Designs,
    variables: list[Column],
    *,
    log: bool = False,
    elastic: bool = False,
) -> Floats:
    """(n, V) effects of every row."""
    found = np.empty((len(at), len(variables)))
    for rows in blocks(len(at)):
        part = at[rows]
        slopes = quantity.jet(part, 1, log=log).first
        for i, variable in enumerate(variables):
            if variable.kind == "slope":
                beta, gamma = quantity.coefficients(variable.outcome, variable.select)
                effect = slopes[0] * beta + slopes[1] * gamma
            else:
                low, high, width = variable.ends(part)
                effect = row_difference(quantity, low, high, log=log) / width
            found[rows, i] = effect * variable.values(part) if elastic else effect
    return found


def row_difference(quantity: Quantity, low: Designs, high: Designs, *, log: bool = False) -> Floats:
    """(n,) P(high) - P(low)."""
    values = [quantity.value(side) for side in (low, high)]
    low_value, high_value = np.log(values) if log else values
    return high_value - low_value


# -- variables of the data -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Move:
    """Two settings of a variable of the data; its effect is the difference over the width."""

    label: str
    name: str
    low: Any  # one value, or (n,)
    high: Any
    width: float | Floats
    continuous: bool = False


def moves(
    x: pd.Series, *, dummy: bool = True, count: bool = False, factor: bool = False
) -> list[Move]:
    """How to move a variable: by a small step, from 0 to 1, by one, or from level to level.

    Steps stay inside the range of the values, beyond which a spline is not defined. Numbers that
    code a ``factor`` are levels.

    Examples
    --------
    >>> [move.label for move in moves(pd.Series(["a", "c", "b"], name="group"))]
    ['group[b - a]', 'group[c - a]']
    """
    name = str(x.name)
    if pdt.is_bool_dtype(x.dtype):
        return [Move(name, name, False, True, 1.0)]
    if factor or not pdt.is_numeric_dtype(x.dtype):
        first, *others = pd.Categorical(x).remove_unused_categories().categories
        return [Move(f"{name}[{other} - {first}]", name, first, other, 1.0) for other in others]
    values = x.to_numpy(dtype=float, na_value=np.nan)
    known = values[~np.isnan(values)]
    kind = _kind(known, dummy, count)
    if kind == "dummy":
        return [Move(name, name, 0, 1, 1.0)]
    if kind == "count":
        return [Move(name, name, x - 1, x + 1, 2.0)]
    step = _STEP * (known.std() or max(abs(known[0]), 1.0))
    low, high = values - step, values + step
    if _varies(known):
        low, high = np.maximum(low, known.min()), np.minimum(high, known.max())
    return [Move(name, name, low, high, high - low, continuous=True)]
