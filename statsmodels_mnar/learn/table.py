"""The loss of either equation in its own index, as trees and networks ask for it.

They ask for derivatives again and again, at a loading that does not change. The outcome's are
smooth functions of the two indices, so they are computed once on a grid and interpolated by cubic
splines: the error is below 1e-5, far below what the trees' bins resolve, at a tenth of the
time that the integral takes for each row. The few rows beyond the grid are integrated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates, spline_filter
from scipy.special import erfcx, log_ndtr

from ..kernel.links import Link
from ..types import Floats
from .estimator import Labels
from .loss import LossRows, row_terms

Rows = NDArray[np.intp]

_SPACING = 0.1  # of the grid, in standard deviations of the outcome's own error
_MARGIN = 10  # cells beyond which the splines do not feel the end of the grid
_TOL = 1e-7  # of the integrals
_REACH = 5.0  # of the grid, in the same unit, and of the selection index


class OutcomeTable:
    """log P(y, s = 1) at one loading, and its derivatives in the outcome index.

    Parameters
    ----------
    link : Link
    loading : float
    span : tuple of float
        The smallest and the largest selection index of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from statsmodels_mnar.kernel.links import LOGIT
    >>> from statsmodels_mnar.learn import SelectionLoss
    >>> table, one = OutcomeTable(LOGIT, 1.5, (-2.0, 2.0)), np.ones(1)
    >>> value, first, second = table(0.3 * one, 0.2 * one, one)
    >>> exact = SelectionLoss().rows([0.3], [0.2], [1], 1.5)
    >>> bool(abs(value + exact.value) < 1e-6), bool(abs(first + exact.gradient[:, 0]) < 1e-6)
    (True, True)
    """

    def __init__(self, link: Link, loading: float, span: tuple[float, float]) -> None:
        self._link = link
        self._splines: list[tuple[Floats, ...]] = []  # of the label 0, then of 1
        self.loading = loading
        if loading == 0.0:
            return
        sd = link.variance**0.5
        reach = _REACH * sd + abs(loading)
        low, high = np.clip(span, -_REACH, _REACH) + np.array([-1e-6, 1e-6])
        # The integral's end point is where the link is taken at a - loading b.
        self._axes = (
            _axis(-reach, reach, _SPACING * sd),
            _axis(low, high, _SPACING * min(1.0, 2.5 / abs(loading)) * sd),
        )
        a, b = np.meshgrid(*self._axes, indexing="ij")
        for label in (0.0, 1.0):
            at = self._exact(a.ravel(), b.ravel(), np.full(a.size, label))
            self._splines.append(
                tuple(spline_filter(v.reshape(a.shape), mode="mirror") for v in at)
            )

    def __call__(
        self, a: Floats, b: Floats, y: Floats, orders: tuple[int, ...] = (0, 1, 2)
    ) -> tuple[Floats, ...]:
        """Return the value (order 0) and derivatives in ``a`` of the given orders, (n,) each."""
        if self.loading == 0.0:
            every = self._independent(a, b, y)
            return tuple(every[order] for order in orders)
        found = tuple(np.empty(len(a)) for _ in orders)
        places = [
            (index - axis[0]) / (axis[1] - axis[0])
            for index, axis in zip((a, b), self._axes, strict=True)
        ]
        inside = np.logical_and.reduce(
            [
                (p >= 0.0) & (p <= len(axis) - 1.0)
                for p, axis in zip(places, self._axes, strict=True)
            ]
        )
        for label, splines in enumerate(self._splines):
            rows = inside & (y == label)
            at = np.stack([place[rows] for place in places])
            for values, order in zip(found, orders, strict=True):
                values[rows] = map_coordinates(
                    splines[order], at, order=3, mode="mirror", prefilter=False
                )
        if not inside.all():
            exact = self._exact(a[~inside], b[~inside], y[~inside])
            for values, order in zip(found, orders, strict=True):
                values[~inside] = exact[order]
        return found

    def _exact(self, a: Floats, b: Floats, y: Floats) -> tuple[Floats, ...]:
        rows = LossRows.read(torch.as_tensor(a), torch.as_tensor(b), y)
        terms = row_terms(rows, self.loading, self._link, 2, _TOL)
        assert terms.first is not None and terms.second is not None
        return tuple(v.numpy() for v in (terms.value[0], terms.first[0, 0], terms.second[0, 0]))

    def _independent(self, a: Floats, b: Floats, y: Floats) -> tuple[Floats, ...]:
        sign = torch.as_tensor(np.where(y == 1.0, 1.0, -1.0))
        z = sign * torch.as_tensor(a)
        r1, r2 = self._link.ratios(z, sign)
        value = self._link.log_cdf(z, sign).numpy() + log_ndtr(b)
        return value, (sign * r1).numpy(), (r2 - r1 * r1).numpy()


def _axis(low: float, high: float, step: float) -> Floats:
    cells = max(1, int(np.ceil((high - low) / step)))
    places = np.arange(-_MARGIN, cells + _MARGIN + 1, dtype=float)
    return low + (high - low) / cells * places


# -- what trees are grown to and networks trained to -----------------------------------------------


class Target(Protocol):
    """The weighted loss of rows in one index, the other equation and the loading given."""

    @property
    def weight(self) -> Floats:
        """(n,) weights of the rows."""

    def slope(self, index: Floats) -> tuple[float, Floats]:
        """Return the loss, and its first derivative in each row's index, (n,)."""

    def derivatives(self, index: Floats) -> tuple[Floats, Floats]:
        """Return the first two derivatives of each row's loss, (n,) each."""

    def loss(self, index: Floats) -> float:
        """Return the sum."""

    def at(self, rows: Rows) -> Target:
        """Return the target of some rows."""


@dataclass(frozen=True)
class Selection:
    """-log P(s), a probit."""

    seen: NDArray[np.bool_]  # (n,)
    weight: Floats  # (n,)

    def slope(self, index: Floats) -> tuple[float, Floats]:
        return self.loss(index), self.derivatives(index)[0]

    def derivatives(self, index: Floats) -> tuple[Floats, Floats]:
        side = np.where(self.seen, 1.0, -1.0)
        z = side * index
        mills = _SQRT_2_OVER_PI / erfcx(-_SQRT_HALF * z)
        return -self.weight * side * mills, self.weight * mills * (z + mills)

    def loss(self, index: Floats) -> float:
        return -float(self.weight @ log_ndtr(np.where(self.seen, index, -index)))

    def at(self, rows: Rows) -> Selection:
        return Selection(self.seen[rows], self.weight[rows])


@dataclass(frozen=True)
class Outcome:
    """-log P(y, s = 1) of labelled rows whose selection index is given."""

    y: Floats  # (m,)
    select: Floats  # (m,)
    weight: Floats  # (m,)
    table: OutcomeTable

    def slope(self, index: Floats) -> tuple[float, Floats]:
        value, first = self.table(index, self.select, self.y, (0, 1))
        return -float(self.weight @ value), -self.weight * first

    def derivatives(self, index: Floats) -> tuple[Floats, Floats]:
        first, second = self.table(index, self.select, self.y, (1, 2))
        return -self.weight * first, -self.weight * second

    def loss(self, index: Floats) -> float:
        return -float(self.weight @ self.table(index, self.select, self.y, (0,))[0])

    def at(self, rows: Rows) -> Outcome:
        return Outcome(self.y[rows], self.select[rows], self.weight[rows], self.table)


_SQRT_HALF, _SQRT_2_OVER_PI = math.sqrt(0.5), math.sqrt(2.0 / math.pi)


@dataclass(frozen=True)
class Problem:
    """The labels of a fit, and the losses of its two equations."""

    labels: Labels
    weight: Floats  # (n,)
    link: Link

    @property
    def marginal(self) -> Selection:
        """The selection equation's target: -log P(s) of all rows."""
        return Selection(self.labels.seen, self.weight)

    def joint(self, select_index: Floats, loading: float) -> Outcome:
        """The outcome's target: -log P(y, s = 1) of the labelled rows, given the selection index.

        Parameters
        ----------
        select_index : ndarray
            (n,) of all rows.
        loading : float
        """
        seen = self.labels.seen
        b = select_index[seen]
        span = (float(b.min()), float(b.max())) if loading else (0.0, 0.0)
        return Outcome(
            self.labels.y[seen], b, self.weight[seen], OutcomeTable(self.link, loading, span)
        )

    def unlabelled(self, select_index: Floats) -> float:
        """The loss of the unlabelled rows."""
        hidden = np.flatnonzero(~self.labels.seen)
        return self.marginal.at(hidden).loss(select_index[hidden])
