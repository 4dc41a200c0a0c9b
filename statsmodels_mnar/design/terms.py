"""Penalised terms: ``re(g)``, effects of the levels of a factor, and ``smooth(x)``, a spline.

A term learns its columns once (the levels, or the knots and the constraint), and its penalty matrix
S with them: lambda/2 b'Sb is subtracted from the log-likelihood. For ``re`` S is the identity, so
that the effects are normal with variance 1/lambda. For ``smooth`` it is mgcv's "ps" (Eilers and
Marx 1996): cubic B-splines at evenly spaced knots, and squared second differences of neighbouring
coefficients, in mgcv's scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api import types as pdt

from ..errors import DesignError
from ..types import Floats
from .formula import LEAST_DF, Kind, Wanted, wanted_term
from .values import check_columns

_DEGREE, _DIFFERENCES = 3, 2
_DF = 10  # basis functions of a smooth where none are asked for, as in mgcv
_MARGIN = 1e-3  # of the range, by which the outer knots lie beyond the data
MANY = 300  # levels from which on the effects of a factor are no columns
_LIKE_NUMBERS = 20  # levels of a column of fractions that may still be a factor


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Indicators of the levels of a factor; those of a level not seen are all zero."""

    levels: pd.Index  # (q,)

    @property
    def labels(self) -> list[str]:
        """What tells the columns apart."""
        return [str(level) for level in self.levels]

    @property
    def size(self) -> int:
        """Number of columns."""
        return len(self.levels)

    def columns(self, values: Any) -> Floats:
        """(n, q), NaN where the value is missing."""
        codes = self.codes(values)
        found = np.zeros((len(codes), len(self.levels)))
        seen = np.flatnonzero(codes >= 0)
        found[seen, codes[seen]] = 1.0
        found[pd.isna(np.asarray(values, dtype=object))] = np.nan
        return found

    def codes(self, values: Any) -> np.ndarray:
        """(n,) positions among the levels, -1 where a value is not one."""
        return self.levels.get_indexer(pd.Index(plain_values(values)))

    @property
    def penalty(self) -> Floats:
        """(q, q)."""
        return np.eye(len(self.levels))


@dataclass(frozen=True, slots=True, eq=False)
class Spline:
    """Cubic B-splines that sum to zero over the rows; straight lines beyond the outer knots."""

    knots: Floats  # (k + 4,)
    constraint: Floats  # (k, k - 1) orthonormal, what is left of the basis

    @property
    def labels(self) -> list[str]:
        """What tells the columns apart."""
        return [str(j + 1) for j in range(self.constraint.shape[1])]

    @property
    def size(self) -> int:
        """Number of columns."""
        return self.constraint.shape[1]

    @property
    def limits(self) -> tuple[float, float]:
        """Between which the curve is not a straight line by construction."""
        return float(self.knots[_DEGREE]), float(self.knots[-_DEGREE - 1])

    def columns(self, values: Any) -> Floats:
        """(n, k - 1), NaN where the value is missing."""
        x = np.asarray(values, dtype=float)
        found = np.full((len(x), self.constraint.shape[1]), np.nan)
        known = np.isfinite(x)
        found[known] = _basis(x[known], self.knots) @ self.constraint
        return found

    @property
    def penalty(self) -> Floats:
        """(k - 1, k - 1), in the scale of mgcv."""
        k = len(self.knots) - _DEGREE - 1
        differences = np.diff(np.eye(k), n=_DIFFERENCES, axis=0)
        squares = differences.T @ differences
        # mgcv divides by the largest column sum; the rows of the basis, by which it multiplies, sum
        # to one.
        return self.constraint.T @ squares @ self.constraint / np.abs(squares).sum(axis=0).max()


@dataclass(frozen=True, slots=True, eq=False)
class PenalisedTerm:
    """A term whose coefficients are shrunk, and how its columns are made of data.

    Attributes
    ----------
    kind : {"re", "smooth"}
    column : str
        The column of the data it reads.
    equation : {"outcome", "select"}
    start : int
        Its first column in the design of its equation.
    basis : Levels or Spline
    fixed : float or None
        Its penalty, where that is not estimated.
    apart : bool
        Whether its effects are no columns of the design, nor parameters of the model: those of the
        factor with the most levels, where these are many.
    """

    kind: Kind
    column: str
    equation: Literal["outcome", "select"]
    start: int
    basis: Levels | Spline
    fixed: float | None = None
    apart: bool = False

    @property
    def name(self) -> str:
        """How tables name it, as in the formula."""
        return f"{self.kind}({self.column})"

    @property
    def names(self) -> list[str]:
        """Names of its columns."""
        return [] if self.apart else [f"{self.name}[{label}]" for label in self.basis.labels]

    @property
    def columns(self) -> slice:
        """Its columns in the design of its equation."""
        return slice(self.start, self.start + (0 if self.apart else self.basis.size))

    @property
    def penalty(self) -> Floats:
        """(q, q) the matrix S of its columns."""
        return np.empty((0, 0)) if self.apart else self.basis.penalty

    @property
    def rank(self) -> int:
        """Rank of S."""
        q = self.basis.size
        return q if self.kind == "re" else q - (_DIFFERENCES - 1)

    @property
    def free(self) -> Floats:
        """(q, r) directions that are not penalised: the straight line of a smooth."""
        if self.kind == "re":
            return np.empty((len(self.penalty), 0))
        values, vectors = np.linalg.eigh(self.penalty)
        return vectors[:, values <= 1e-10 * values[-1]]


# -- terms as arrays -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class GroupEffects:
    """Normal effects of the levels of a factor, for models built from arrays.

    In formulas this is ``re(g)``.

    Parameters
    ----------
    values : array_like
        (n,) the group of each row: numbers or text.
    sd : float, optional
        Standard deviation of the effects; estimated by default.

    Examples
    --------
    >>> from statsmodels_mnar import GroupEffects, ProbitSelection
    >>> from statsmodels_mnar.datasets import simulate_interviewers
    >>> data = simulate_interviewers(1_500, rng=0).data.assign(const=1.0)
    >>> model = ProbitSelection(
    ...     data.y, data[["const", "x2"]], data.s, data[["const", "x2", "z"]],
    ...     terms_select={"interviewer": GroupEffects(data.interviewer)})
    >>> list(model.fit().penalised_terms().index)
    ['select_re(interviewer)']
    """

    values: Any
    sd: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Smooth:
    """A penalised spline of a covariate, for models built from arrays.

    In formulas this is ``smooth(x)``.

    Parameters
    ----------
    values : array_like
        (n,) numbers.
    df : int
        Basis functions, of which one is lost to the constant.
    penalty : float, optional
        Penalty in the scale of mgcv; estimated by default.

    Examples
    --------
    >>> from statsmodels_mnar import ProbitSelection, Smooth
    >>> from statsmodels_mnar.datasets import simulate_interviewers
    >>> data = simulate_interviewers(1_500, rng=0).data.assign(const=1.0)
    >>> model = ProbitSelection(
    ...     data.y, data[["const", "x2"]], data.s, data[["const", "x2", "z"]],
    ...     terms={"x1": Smooth(data.x1)})
    >>> list(model.fit().penalised_terms().index)
    ['smooth(x1)']
    """

    values: Any
    df: int = _DF
    penalty: float | None = None


Terms = Mapping[str, GroupEffects | Smooth] | None


def read_terms(terms: Terms, argument: str) -> tuple[tuple[Wanted, Any], ...]:
    """Terms by name, and the values of each, checked."""
    if terms is None:
        return ()
    if not isinstance(terms, Mapping):
        raise DesignError(
            f"{argument} must be a dict of GroupEffects and Smooth by name, got "
            f"{type(terms).__name__}"
        )
    found = []
    for name, term in terms.items():
        if isinstance(term, GroupEffects):
            wanted = wanted_term("re", str(name), f"{argument}[{name!r}]", sd=term.sd)
        elif isinstance(term, Smooth):
            wanted = wanted_term(
                "smooth", str(name), f"{argument}[{name!r}]", df=term.df, penalty=term.penalty
            )
        else:
            raise DesignError(
                f"{argument}[{name!r}] must be GroupEffects(values) or Smooth(values), got "
                f"{type(term).__name__}"
            )
        if np.ndim(term.values) != 1:
            raise DesignError(
                f"{argument}[{name!r}] has shape {np.shape(term.values)}; give one value a row"
            )
        found.append((wanted, term.values))
    return tuple(found)


# -- learning from data ----------------------------------------------------------------------------


def learn(
    wanted: Wanted, values: Any, equation: Literal["outcome", "select"], start: int, seen: Any
) -> PenalisedTerm:
    """Build the term from the column's values on complete rows.

    Parameters
    ----------
    seen : ndarray of bool
        (n,) rows on which the equation is observed.
    """
    make = _levels_of if wanted.kind == "re" else _spline_of
    basis = make(wanted, values, np.asarray(seen))
    return PenalisedTerm(wanted.kind, wanted.column, equation, start, basis, wanted.fixed)


def learn_all(
    wanted: Sequence[Wanted],
    frame: Any,
    equation: Literal["outcome", "select"],
    start: int,
    seen: Any,
) -> tuple[PenalisedTerm, ...]:
    """Build the terms of an equation, whose columns follow each other from ``start`` on.

    Smooths come first.
    """
    found: list[PenalisedTerm] = []
    for each in sorted(wanted, key=lambda term: term.kind == "re"):  # indicators come last
        found.append(learn(each, frame[each.column], equation, start, seen))
        start = found[-1].columns.stop
    return tuple(found)


def set_apart(
    outcome: tuple[PenalisedTerm, ...], select: tuple[PenalisedTerm, ...], n_rows: int
) -> tuple[tuple[PenalisedTerm, ...], tuple[PenalisedTerm, ...]]:
    """Take the factor with the most levels out of the columns, where these are many."""
    factors = [term for term in (*outcome, *select) if term.kind == "re"]
    largest = max(factors, key=lambda term: term.rank, default=None)
    if largest is not None and largest.rank < MANY:
        largest = None
    placed = []
    for terms in (outcome, select):
        start, found = (terms[0].start if terms else 0), []
        for term in terms:
            found.append(replace(term, start=start, apart=term is largest))
            start = found[-1].columns.stop
            if term.kind == "re" and term is not largest:
                check_columns(term.name, term.rank, n_rows, {term.column: term.rank})
        placed.append(tuple(found))
    return placed[0], placed[1]


def level_codes(terms: Sequence[PenalisedTerm], frame: Any) -> np.ndarray | None:
    """(n,) levels of the factor that is apart, -1 where one is not known; None without any."""
    for term in terms:
        if term.apart and isinstance(term.basis, Levels):
            return term.basis.codes(_read_column(frame, term))
    return None


def _levels_of(wanted: Wanted, values: Any, seen: Any) -> Levels:
    values = plain_values(values)
    name, n = wanted.name, len(values)
    try:
        codes, levels = pd.factorize(values, sort=False)
    except TypeError as error:
        raise DesignError(f"{name}: {wanted.column} holds values that are no levels.") from error
    try:
        levels = pd.Index(levels).sort_values()
    except TypeError:  # of types without an order
        levels = pd.Index(levels)
    count = len(levels)
    if pdt.is_float_dtype(levels.dtype) and count > _LIKE_NUMBERS and (levels % 1 != 0).any():
        raise DesignError(
            f"{name}: {wanted.column} holds {count} different fractions and looks like a "
            f"measurement, not a factor. Use smooth({wanted.column}), or convert it to text if "
            "each value is a group."
        )
    if count < 2:
        raise DesignError(
            f"{name}: {wanted.column} has one level, {levels[0]!r}, on the rows used, whose effect "
            "is that of the constant. Leave the term out."
        )
    groups = len(np.unique(codes[seen]))
    if groups == int(seen.sum()):
        where = "" if groups == n else " on which the equation is observed"
        raise DesignError(
            f"{name}: every one of the {groups} rows{where} has a level of {wanted.column} of its "
            "own, so that its effect cannot be told from the row's error. Use a coarser grouping."
        )
    return Levels(levels)


def _spline_of(wanted: Wanted, values: Any, seen: Any) -> Spline:
    x = _numbers(wanted, values)
    k = wanted.df or _DF
    distinct = len(np.unique(x[seen]))
    if distinct < k:
        remedy = f"smooth({wanted.column}, df={distinct})" if distinct >= LEAST_DF else ""
        less = f"Use {remedy}, or " if remedy else "Use "
        raise DesignError(
            f"{wanted.name}: {wanted.column} has {distinct} different values, fewer than the "
            f"df={k} of the spline. {less}C({wanted.column}) for an effect of each value."
        )
    low, high = float(x.min()), float(x.max())
    low, high = low - _MARGIN * (high - low), high + _MARGIN * (high - low)
    pieces = k - _DEGREE
    step = (high - low) / pieces
    knots = low + step * np.arange(-_DEGREE, pieces + _DEGREE + 1)
    mean = _basis(x, np.asarray(knots, dtype=np.float64)).mean(axis=0)
    constraint = np.linalg.qr(mean[:, None], mode="complete")[0][:, 1:]
    return Spline(np.asarray(knots, dtype=np.float64), constraint)


def _numbers(wanted: Wanted, values: Any) -> Floats:
    if not pdt.is_numeric_dtype(values) or pdt.is_complex_dtype(values):
        raise DesignError(
            f"{wanted.name}: {wanted.column} is not numeric. Convert it, for example with "
            f"pandas.to_numeric, or use re({wanted.column}) for groups."
        )
    x = np.asarray(values, dtype=float)
    if not np.isfinite(x).all():
        raise DesignError(f"{wanted.name}: {wanted.column} has infinite values; drop such rows.")
    return x


def plain_values(values: Any) -> Any:
    """Values of a column in numpy's types: levels of new data may be of another type of pandas."""
    if isinstance(values, pd.Series | pd.Categorical | pd.Index):
        dtype = values.dtype
        if isinstance(dtype, pd.CategoricalDtype) or not isinstance(dtype, np.dtype):
            return np.asarray(values, dtype=object)
        return np.asarray(values)
    return np.asarray(values)


def _basis(x: Floats, knots: Floats) -> Floats:
    """(n, k) cubic B-splines, continued by straight lines beyond the outer knots."""
    from scipy.interpolate import BSpline

    k = len(knots) - _DEGREE - 1
    low, high = knots[_DEGREE], knots[k]
    inside = np.clip(x, low, high)
    found = BSpline.design_matrix(inside, knots, _DEGREE).toarray()
    for end, beyond in ((low, x < low), (high, x > high)):
        if beyond.any():
            slope = np.array([BSpline(knots, row, _DEGREE)(end, nu=1) for row in np.eye(k)])
            found[beyond] += (x[beyond] - end)[:, None] * slope
    return found


def all_columns(terms: Sequence[PenalisedTerm], frame: Any) -> Floats:
    """(n, q) columns of the terms, made of a frame or a mapping of values by column."""
    own = [term for term in terms if not term.apart]
    none = np.empty((len(frame[terms[0].column]), 0))
    return np.hstack([none, *(term.basis.columns(_read_column(frame, term)) for term in own)])


def _read_column(frame: Any, term: PenalisedTerm) -> Any:
    values = frame[term.column]
    if isinstance(term.basis, Spline):
        dtype = getattr(values, "dtype", None)
        if dtype is not None and not pdt.is_numeric_dtype(dtype):
            raise DesignError(
                f"{term.name}: {term.column} was numeric when the design was built and is of type "
                f"{dtype} in these data. Convert it, for example with pandas.to_numeric."
            )
    return values
