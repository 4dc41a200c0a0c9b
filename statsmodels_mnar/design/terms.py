"""Penalised terms: ``re(g)``, effects of the levels of a factor, and ``smooth(x)``, a spline.

A term learns its columns once (the levels, or the knots and the constraint), and its penalty matrix
S with them: lambda/2 b'Sb is subtracted from the log-likelihood. For ``re`` S is the identity, so
that the effects are normal with variance 1/lambda. For ``smooth`` it is mgcv's "ps" (Eilers and
Marx 1996): cubic B-splines at evenly spaced knots, and squared second differences of neighbouring
coefficients, in mgcv's scale.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api import types as pdt

from ..errors import DesignError
from ..types import Floats
from .formula import LEAST_DF, Kind, Wanted, wanted_term
from .values import check_columns

Equation = Literal["outcome", "select"]

_EQUATIONS: tuple[Equation, Equation] = ("outcome", "select")
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
    equation: Equation
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


Chunks = Callable[..., Iterable[Any]]
"""``chunks(function, *args)`` is ``function(frames, selected, *args)`` of each chunk of the rows.

``frames`` are the columns by name, for each of the equations, and ``selected``, (n,), says on which
rows the outcome is observed. Rows in memory are one chunk.
"""


def learn_terms(
    wanted: Sequence[Sequence[Wanted]], starts: tuple[int, int], chunks: Chunks
) -> tuple[tuple[PenalisedTerm, ...], tuple[PenalisedTerm, ...]]:
    """Build the terms of both equations from complete rows.

    The columns of an equation's terms follow each other from its start on, smooths first. One pass
    over the chunks finds levels and ranges, and with them the knots of smooths; a second one,
    where there are smooths, the means of their bases.
    """
    asked = [
        (i, term)
        for i, own in enumerate(wanted)
        for term in sorted(own, key=lambda term: term.kind == "re")
    ]
    n_rows, facts = _summed(chunks(_facts, asked))
    knots = [
        _knots_of(term, found) if isinstance(found, _Range) else None
        for (_, term), found in zip(asked, facts, strict=True)
    ]
    smooths = [
        (i, term, own) for (i, term), own in zip(asked, knots, strict=True) if own is not None
    ]
    means = iter(_summed(chunks(_means, smooths))[1] if smooths else [])
    both: tuple[list[PenalisedTerm], ...] = [], []
    for (i, term), found, own in zip(asked, facts, knots, strict=True):
        basis: Levels | Spline
        if own is None:
            assert isinstance(found, _Values)
            basis = _levels_of(term, found)
        else:
            basis = _spline_of(own, next(means))
        both[i].append(PenalisedTerm(term.kind, term.column, _EQUATIONS[i], 0, basis, term.fixed))
    return _placed(both, starts, n_rows)


def _summed(parts: Iterable[tuple[int, list[Any]]]) -> tuple[int, list[Any]]:
    """The facts of all chunks, and the rows of the largest one."""
    most, total = 0, None
    for n, facts in parts:
        most = max(most, n)
        if n:
            total = facts if total is None else [a + b for a, b in zip(total, facts, strict=True)]
    if total is None:
        raise DesignError("no rows are left from which penalised terms could learn.")
    return most, total


def _placed(
    both: Sequence[Sequence[PenalisedTerm]], starts: tuple[int, int], n_rows: int
) -> tuple[tuple[PenalisedTerm, ...], tuple[PenalisedTerm, ...]]:
    """Place the columns; those of the factor with the most levels are none, if these are many."""
    factors = [term for terms in both for term in terms if term.kind == "re"]
    largest = max(factors, key=lambda term: term.rank, default=None)
    if largest is not None and largest.rank < MANY:
        largest = None
    placed = []
    for terms, start in zip(both, starts, strict=True):
        found: list[PenalisedTerm] = []
        for term in terms:
            found.append(replace(term, start=start, apart=term is largest))
            start = found[-1].columns.stop
            if term.kind == "re" and term is not largest:
                check_columns(term.name, term.rank, n_rows, {term.column: term.rank})
        placed.append(tuple(found))
    return placed[0], placed[1]


Asked = Sequence[tuple[int, Wanted]]  # the equation, 0 or 1, and the term


def _facts(frames: Any, selected: Any, asked: Asked) -> tuple[int, list[_Values | _Range]]:
    """What terms learn of a chunk, and its rows."""
    found: list[_Values | _Range] = []
    for i, term in asked if len(selected) else ():
        look = _Values.of if term.kind == "re" else _Range.of
        seen = selected if i == 0 else np.ones(len(selected), dtype=bool)
        found.append(look(term, frames[i][term.column], seen))
    return len(selected), found


@dataclass(frozen=True, slots=True, eq=False)
class _Values:
    """The values of a factor on some rows."""

    levels: np.ndarray  # that occur
    observed: np.ndarray  # those that occur on rows on which the equation is observed
    n_rows: int
    n_observed: int

    @classmethod
    def of(cls, wanted: Wanted, values: Any, seen: Any) -> _Values:
        values = plain_values(values)
        try:
            codes, levels = pd.factorize(values, sort=False)
        except TypeError as error:
            raise DesignError(
                f"{wanted.name}: {wanted.column} holds values that are no levels."
            ) from error
        levels = np.asarray(levels)
        return cls(levels, levels[np.unique(codes[seen])], len(values), int(seen.sum()))

    def __add__(self, other: _Values) -> _Values:
        return _Values(
            pd.unique(np.concatenate([self.levels, other.levels])),
            pd.unique(np.concatenate([self.observed, other.observed])),
            self.n_rows + other.n_rows,
            self.n_observed + other.n_observed,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Range:
    """The values of a covariate on some rows."""

    low: float
    high: float
    distinct: Floats  # on rows on which the equation is observed, no more than are needed
    needed: int

    @classmethod
    def of(cls, wanted: Wanted, values: Any, seen: Any) -> _Range:
        x, needed = _numbers(wanted, values), wanted.df or _DF
        return cls(float(x.min()), float(x.max()), np.unique(x[seen])[:needed], needed)

    def __add__(self, other: _Range) -> _Range:
        distinct = np.union1d(self.distinct, other.distinct)[: self.needed]
        return _Range(min(self.low, other.low), max(self.high, other.high), distinct, self.needed)


@dataclass(frozen=True, slots=True, eq=False)
class _Mean:
    """The mean of a basis over rows, in its parts."""

    total: Floats  # (k,)
    n_rows: int

    def __add__(self, other: _Mean) -> _Mean:
        return _Mean(self.total + other.total, self.n_rows + other.n_rows)


def _means(
    frames: Any, selected: Any, smooths: Sequence[tuple[int, Wanted, Floats]]
) -> tuple[int, list[_Mean]]:
    """The means of the bases of smooths on a chunk, and its rows."""
    n = len(selected)
    found = [
        _Mean(_basis(_numbers(term, frames[i][term.column]), knots).sum(axis=0), n)
        for i, term, knots in (smooths if n else ())
    ]
    return n, found


def names_with(names: Sequence[str], terms: Sequence[PenalisedTerm]) -> tuple[str, ...]:
    """Names of the columns of a design, those of its terms last."""
    return (*names, *(name for term in terms for name in term.names))


def level_codes(terms: Sequence[PenalisedTerm], frame: Any) -> np.ndarray | None:
    """(n,) levels of the factor that is apart, -1 where one is not known; None without any."""
    for term in terms:
        if term.apart and isinstance(term.basis, Levels):
            return term.basis.codes(_read_column(frame, term))
    return None


def _levels_of(wanted: Wanted, found: _Values) -> Levels:
    name, n = wanted.name, found.n_rows
    levels = pd.Index(found.levels)
    with contextlib.suppress(TypeError):  # of types without an order
        levels = levels.sort_values()
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
    groups = len(found.observed)
    if groups == found.n_observed:
        where = "" if groups == n else " on which the equation is observed"
        raise DesignError(
            f"{name}: every one of the {groups} rows{where} has a level of {wanted.column} of its "
            "own, so that its effect cannot be told from the row's error. Use a coarser grouping."
        )
    return Levels(levels)


def _knots_of(wanted: Wanted, found: _Range) -> Floats:
    """Evenly spaced knots, the outer ones a little beyond the data."""
    k, distinct = found.needed, len(found.distinct)
    if distinct < k:
        remedy = f"smooth({wanted.column}, df={distinct})" if distinct >= LEAST_DF else ""
        less = f"Use {remedy}, or " if remedy else "Use "
        raise DesignError(
            f"{wanted.name}: {wanted.column} has {distinct} different values, fewer than the "
            f"df={k} of the spline. {less}C({wanted.column}) for an effect of each value."
        )
    margin = _MARGIN * (found.high - found.low)
    low, high = found.low - margin, found.high + margin
    pieces = k - _DEGREE
    step = (high - low) / pieces
    return np.asarray(low + step * np.arange(-_DEGREE, pieces + _DEGREE + 1), dtype=np.float64)


def _spline_of(knots: Floats, mean: _Mean) -> Spline:
    """The spline that sums to zero over the rows of this mean."""
    column = mean.total[:, None] / mean.n_rows
    return Spline(knots, np.linalg.qr(column, mode="complete")[0][:, 1:])


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
