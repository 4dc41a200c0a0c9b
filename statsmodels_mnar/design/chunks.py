"""Designs of data in chunks: a first look, one pass to learn, then chunk by chunk.

What a formula learns (levels, spline knots, means) it learns from all chunks, by patsy's
incremental builders, so a chunk's design has the rows that the whole data would give it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NoReturn, Self

import numpy as np
import pandas as pd
import patsy
from numpy.typing import NDArray
from pandas.api import types as pdt
from patsy.build import design_matrix_builders
from statsmodels.formula._manager import FormulaManager

from ..errors import DesignError, NotInMemoryError
from ..types import Floats
from .data import Counts, Design, caller_scope, read_rows, selection_name
from .formula import (
    Formula,
    Wanted,
    by_row,
    column_coded,
    errors_named,
    factor_codes,
    names_read,
    names_used,
    of_columns,
    parse,
)
from .specs import (
    IN_PARTITIONS,
    FormulaSpec,
    check_alone,
    check_terms,
    check_types,
    differing,
    evaluate_again,
    evaluate_left,
    readable,
    terms_across_rows,
)
from .terms import (
    Chunks,
    PenalisedTerm,
    all_columns,
    learn_terms,
    level_codes,
    names_with,
)
from .values import (
    Dropped,
    Missing,
    WeightKind,
    check_binary,
    check_columns,
    check_finite,
    check_missing,
    check_weights,
    plain,
    read_extras,
    rows_without_nan,
    sorted_if_possible,
)

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
    """What is known of the design of data in partitions: a `Design` without its rows."""

    outcome_names: tuple[str, ...]
    select_names: tuple[str, ...]
    outcome_name: str
    select_name: str
    outcome_spec: FormulaSpec | None
    select_spec: FormulaSpec | None
    weight_kind: WeightKind | None
    given: frozenset[str]  # which of offset, offset_select and weights there are
    dropped: Dropped
    counts: Counts
    columns: Columns
    sketch: Design  # a few rows with the inner products of all labelled and all unlabelled rows
    n_partitions: int
    has_constant: bool  # the outcome design spans one
    penalised: tuple[PenalisedTerm, ...] = ()
    levels: None = None  # which the rows have, where they are

    @property
    def nobs(self) -> int:
        """Number of rows."""
        return self.counts.rows

    @property
    def counted(self) -> PartitionedDesign:
        """This design: which rows have weight zero is not known here."""
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


def refuse_partitioned(design: Design | PartitionedDesign, what: str) -> None:
    """Raise where the rows that this reads are in partitions, or were not saved."""
    if isinstance(design, PartitionedDesign):
        design.refuse(what)


class SavedDesign(PartitionedDesign):
    """What a file of results knows of the data: names and counts."""

    @classmethod
    def of(
        cls,
        outcome_names: tuple[str, ...],
        select_names: tuple[str, ...],
        outcome_name: str,
        select_name: str,
        weight_kind: WeightKind | None,
        dropped: Dropped,
        counts: Counts,
        has_constant: bool,
        outcome_spec: FormulaSpec | None = None,
        select_spec: FormulaSpec | None = None,
    ) -> Self:
        """Build the design from names and counts; all else is unknown."""
        p, k = len(outcome_names), len(select_names)
        unknown, nothing = np.full(p + k, np.nan), np.empty(0)
        names = (outcome_names, select_names, outcome_name, select_name)
        index = pd.RangeIndex(0)
        sketch = Design(
            nothing, nothing, np.empty((0, p)), np.empty((0, k)), *names, index, np.empty(0, int)
        )
        false = np.zeros((p, k), dtype=bool)
        columns = Columns(unknown, unknown, np.zeros(p + k, dtype=bool), false)
        return cls(
            *names, outcome_spec, select_spec, weight_kind, frozenset(), dropped, counts, columns,
            sketch, 0, has_constant,
        )  # fmt: skip

    def refuse(self, what: str) -> NoReturn:
        raise NotInMemoryError(
            f"this needs {what} of the data, which results read from a file do not have; give "
            "from_json(..., model=) a model of them, or pass exog and exog_select to predict"
        )

    def takes_designs(self, exog: Any, exog_select: Any) -> bool:
        """Whether frames are designs, by the names of their columns, and not data for formulas."""
        given = (exog, self.outcome_names), (exog_select, self.select_names)
        return all(set(f.columns) == set(c) for f, c in given if isinstance(f, pd.DataFrame))

    def check_columns(self, exog: Any, exog_select: Any) -> None:
        """Refuse data where designs are needed: the file has no record of its formulas."""
        for name, frame, columns in (
            ("exog", exog, self.outcome_names),
            ("exog_select", exog_select, self.select_names),
        ):
            if isinstance(frame, pd.DataFrame) and set(frame.columns) != set(columns):
                raise DesignError(
                    f"{name} must have the columns {', '.join(columns)} of the design: the file of "
                    "these results has no record of what their formulas learned. Build the model "
                    "from your own formulas and data and pass it as from_json(..., model=) to "
                    "predict from data."
                )


# -- formulas on data that come in chunks: a first look, one pass to learn, then chunk by chunk ----


Categories = dict[str, tuple[Any, ...]]  # by column


@dataclass(frozen=True, slots=True)
class Look:
    """What a first look at a chunk finds."""

    n_rows: int
    dropped: Dropped
    categories: Categories  # of columns of pandas' categorical type
    used: Categories  # those that a complete row has
    kinds: dict[str, str] = field(default_factory=dict)  # of columns that have complete rows
    # Distinct values of columns that enter by their levels, if all are text; else None.
    text: dict[str, frozenset[str] | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """The formulas and all else that makes a chunk's design; a worker can unpickle it."""

    outcome: Formula
    select: Formula
    missing: Missing
    columns_by_role: Mapping[str, str | None]  # of offsets and weights
    categories: Categories = field(default_factory=dict)
    specs: tuple[FormulaSpec, FormulaSpec] | None = None

    @property
    def columns(self) -> list[str]:
        """The columns of the data that it reads."""
        names = [n for f in (self.outcome, self.select) for n in f.lhs_columns + f.rhs_columns]
        return list(dict.fromkeys([*names, *filter(None, self.columns_by_role.values())]))

    @property
    def select_name(self) -> str:
        return selection_name(self.outcome, self.select)

    @property
    def penalised(self) -> tuple[Wanted | PenalisedTerm, ...]:
        """The penalised terms, as they were asked for or as they were learnt."""
        if self.specs is None:
            return (*self.outcome.penalised, *self.select.penalised)
        return (*self.specs[0].penalised, *self.specs[1].penalised)

    @property
    def weight_kind(self) -> WeightKind | None:
        kinds: tuple[WeightKind, ...] = ("freq_weights", "prob_weights")
        return next((kind for kind in kinds if self.columns_by_role.get(kind)), None)

    def look(self, frame: pd.DataFrame) -> Look:
        """Count the rows, and find the categories in use."""
        for formula in (self.outcome, self.select):
            check_types(formula, frame)
        self._check_left(frame)
        _, _, keep, dropped = self._read(frame)
        known, used, kinds, text = {}, {}, {}, {}
        by_levels = self._by_levels()
        for name in dict.fromkeys(self.outcome.rhs_columns + self.select.rhs_columns):
            if isinstance(frame[name].dtype, pd.CategoricalDtype):
                kept = frame.loc[keep, name].cat.remove_unused_categories()
                known[name], used[name] = (
                    tuple(frame[name].cat.categories),
                    tuple(kept.cat.categories),
                )
            elif keep.any():
                kept = frame.loc[keep, name]
                kinds[name] = _kind(kept)
                if name in by_levels:
                    text[name] = _text(kept)
        return Look(len(frame), dropped, known, used, kinds, text)

    def _by_levels(self) -> set[str]:
        """Columns that enter by their levels only, as ``g`` or ``C(g)``, if these are text."""
        formulas = (self.outcome, self.select)
        columns = tuple({name: None for f in formulas for name in f.rhs_columns})
        if any("C" in {*columns, *f.namespace} for f in formulas):  # a function of the user's
            return set()
        codes = set().union(*(factor_codes(f.rhs, "patsy") for f in formulas))
        coded: dict[str, set[str | None]] = {}  # what the factors that read a column code
        for code in codes:
            for name in set().union(*names_read([code])):
                coded.setdefault(name, set()).add(column_coded(code, columns))
        return {name for name in columns if coded.get(name) == {name}}

    def _check_left(self, frame: pd.DataFrame) -> None:
        """Refuse left sides that depend on other rows, as ``I(y > y.median())`` does."""
        for formula in (self.outcome, self.select):
            if formula.lhs is None or by_row(formula.lhs, formula.namespace):
                continue

            def values(rows: pd.DataFrame, formula: Formula = formula) -> pd.DataFrame:
                found, known = evaluate_left(formula, rows)
                return pd.DataFrame({"": np.asarray(found, float)}, index=np.flatnonzero(known))

            try:
                across = differing(values(frame), frame, values, np.zeros(1, int)).any()
            except (TypeError, ValueError):  # no numbers, which is said where they are read
                continue
            check_alone([formula.lhs] if across else [], formula.lhs, IN_PARTITIONS)

    def _read(self, frame: pd.DataFrame) -> tuple[Floats, Floats, np.ndarray, Dropped]:
        extras, _ = self._extras(frame)
        return read_rows(self.outcome, self.select, frame, extras, self.missing, frame.index)

    def _extras(self, frame: pd.DataFrame) -> tuple[dict[str, Floats], WeightKind | None]:
        roles = ("offset", "offset_select", "freq_weights", "prob_weights")
        return read_extras(frame.index, frame, *(self.columns_by_role.get(r) for r in roles))

    def learn(self, frames: Callable[[], Iterable[pd.DataFrame]], looks: list[Look]) -> Recipe:
        """The recipe with all that the formulas learn from the chunks.

        Parameters
        ----------
        frames : callable
            Starts another pass over the chunks; only as many as the formulas need are made.
        """
        _check_kinds(looks)
        known = replace(self, categories=_in_use(looks) | _text_levels(looks))
        formulas = (self.outcome, self.select)
        namespace = self.outcome.namespace | self.select.namespace

        def chunks() -> Iterator[pd.DataFrame]:
            for frame in frames():
                complete = known._complete(frame)
                if len(complete):
                    yield complete

        with errors_named(" and ".join(formula.rhs for formula in formulas)):
            termlists = [patsy.ModelDesc.from_formula(f.rhs).rhs_termlist for f in formulas]
            scope = patsy.EvalEnvironment([{name: value} for name, value in namespace.items()])
            infos = _learned(termlists, chunks, scope)
        specs = [
            FormulaSpec(
                formula=formula.rhs,
                engine="patsy",
                columns=formula.rhs_columns,
                column_names=tuple(info.column_names),
                namespace={name: formula.namespace[name] for name in names_used(formula)},
                info=info,
            )
            for formula, info in zip(formulas, infos, strict=True)
        ]
        most = max((look.n_rows for look in looks), default=0)
        for spec in specs:
            check_columns(spec.formula, len(spec.column_names), most, {})
        return replace(known, specs=(specs[0], specs[1]))

    def learn_terms(self, chunks: Chunks) -> Recipe:
        """The recipe with the penalised terms; ``chunks`` calls :meth:`on_rows` of each chunk."""
        assert self.specs is not None
        starts = len(self.specs[0].column_names), len(self.specs[1].column_names)
        wanted = self.outcome.penalised, self.select.penalised
        outcome, select = (
            replace(spec, column_names=names_with(spec.column_names, terms), penalised=terms)
            for spec, terms in zip(self.specs, learn_terms(wanted, starts, chunks), strict=True)
        )
        return replace(self, specs=(outcome, select))

    def on_rows(self, frame: pd.DataFrame, function: Callable[..., Any], *args: Any) -> Any:
        """``function(frames, selected, *args)`` of the chunk's rows that are used."""
        assert self.specs is not None
        _, s, keep, _ = self._read(frame)
        rows, selected = frame[keep], s[keep] == 1
        for formula, spec in zip((self.outcome, self.select), self.specs, strict=True):
            if not of_columns(formula):  # whose terms may be missing where their columns are not
                whole = ~np.isnan(self._matrix(spec, rows)).any(axis=1)
                rows, selected = rows[whole], selected[whole]
        return function((rows, rows), selected, *args)

    def _complete(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Complete rows from which formulas learn."""
        names = list(dict.fromkeys(self.outcome.rhs_columns + self.select.rhs_columns))
        rows = plain(frame.loc[self._read(frame)[2], names], learn=True)
        for formula in (self.outcome, self.select):
            check_terms(formula, rows)
        rows = readable(rows, f"{self.outcome.rhs} + {self.select.rhs[1:]}", "patsy")
        for name, categories in self.categories.items():
            if isinstance(rows[name].dtype, pd.CategoricalDtype):
                rows[name] = rows[name].cat.set_categories(list(categories))
            else:  # patsy would look at each value of a text, in Python
                rows[name] = pd.Categorical(rows[name], categories=list(categories))
        return rows

    def design(self, frame: pd.DataFrame) -> Design:
        """The chunk's design; ``kept`` and ``index`` are the frame's index, its place in the data.

        Raises
        ------
        DesignError
            A value is not allowed; the text names its row.
        """
        assert self.specs is not None and self.outcome.lhs is not None
        y, s, keep, dropped = self._read(frame)
        extras, kind = self._extras(frame)
        X, W = (self._matrix(spec, frame[keep]) for spec in self.specs)
        whole = np.asarray(~(np.isnan(X).any(axis=1) | np.isnan(W).any(axis=1)))
        if self.missing != "drop":
            for matrix, spec in zip((X, W), self.specs, strict=True):
                rows_without_nan(matrix, spec.column_names, self.missing)
        kept = np.flatnonzero(keep)[whole]
        y, s, X, W, index = y[kept], s[kept], X[whole], W[whole], frame.index[kept]
        extras = {name: values[kept] for name, values in extras.items()}
        for matrix, spec in zip((X, W), self.specs, strict=True):
            check_finite(matrix, spec.column_names, index)
        for name, values in extras.items():
            check_finite(values[:, None], (name,), index)
        check_binary(y[s == 1], self.outcome.lhs, "outcome", index[s == 1])
        weights = extras.get(kind) if kind else None
        if weights is not None and len(weights):
            check_weights(weights, kind, index, whole=False)
        terms = (*self.specs[0].penalised, *self.specs[1].penalised)
        return Design(
            y=np.where(s == 1, y, np.nan),
            s=s,
            X=np.ascontiguousarray(X),
            W=np.ascontiguousarray(W),
            outcome_names=self.specs[0].column_names,
            select_names=self.specs[1].column_names,
            outcome_name=self.outcome.lhs,
            select_name=self.select_name,
            index=index,
            kept=index.to_numpy(dtype=np.int64),
            outcome_spec=self.specs[0],
            select_spec=self.specs[1],
            offset=extras.get("offset"),
            offset_select=extras.get("offset_select"),
            weights=weights,
            weight_kind=kind,
            dropped=dropped,
            penalised=terms,
            levels=level_codes(terms, frame.iloc[kept]),
        )

    def _matrix(self, spec: FormulaSpec, rows: pd.DataFrame) -> Floats:
        design = np.full((len(rows), len(spec.column_names)), np.nan)
        if len(rows):
            frame = readable(plain(rows[list(spec.columns)], learn=False), spec.formula, "patsy")
            frame = frame.set_axis(pd.RangeIndex(len(rows)), axis=0)
            with errors_named(spec.formula):
                matrix = evaluate_again(spec, frame)
            check_alone(terms_across_rows(spec, matrix, frame), spec.formula, IN_PARTITIONS)
            ordinary = matrix.shape[1]
            design[matrix.index, :ordinary] = matrix.to_numpy(dtype=float)
            if spec.penalised:
                own = all_columns(spec.penalised, rows.iloc[matrix.index])
                design[matrix.index, ordinary:] = own
        return design


def _learned(
    termlists: list[Any], chunks: Callable[[], Iterable[pd.DataFrame]], scope: Any
) -> list[Any]:
    """patsy's design infos, with the levels of all chunks.

    patsy stops looking for the levels of a factor where it has seen two that equal False and True,
    and 0 and 1 do. Where a later chunk has others, it is asked again with rows of these in front.
    """
    passes = 0

    def counted() -> Iterable[pd.DataFrame]:
        nonlocal passes
        passes += 1
        return chunks()

    infos = design_matrix_builders(termlists, counted, scope)
    unseen = _unseen_levels(infos, chunks)
    if unseen is None:
        return infos
    left = passes  # in the last of them patsy looks for levels

    def again() -> Iterable[pd.DataFrame]:
        nonlocal left
        left -= 1
        return chunks() if left else chain([unseen], chunks())

    return design_matrix_builders(termlists, again, scope)


def _unseen_levels(
    infos: list[Any], chunks: Callable[[], Iterable[pd.DataFrame]]
) -> pd.DataFrame | None:
    """Rows with levels beside 0 and 1 of factors that seem to have these two only."""
    binary = {
        factor: info.state
        for design in infos
        for factor, info in design.factor_infos.items()
        if info.type == "categorical" and set(info.categories) == {0, 1}
    }
    rows = []
    for number, chunk in enumerate(chunks() if binary else ()):
        for factor, state in list(binary.items()):
            values = factor.eval(state, chunk)
            if hasattr(values, "contrast"):  # what C() returns
                values = values.data
            values = pd.Series(values).reset_index(drop=True)
            if number == 0 and values.dtype == bool:  # as every other chunk has them
                del binary[factor]
                continue
            others = values[~values.isin([0, 1])].drop_duplicates()
            rows.append(chunk.iloc[others.index])
        if not binary:
            break
    found = pd.concat(rows) if rows else None
    return found if found is not None and len(found) else None


def _kind(column: pd.Series) -> str:
    """What formulas take the values of a column for."""
    dtype = column.dtype
    if pdt.is_object_dtype(dtype):
        dtype = plain(column.to_frame(), learn=False).dtypes.iloc[0]
    if pdt.is_bool_dtype(dtype):
        return "booleans"
    return "numbers" if pdt.is_numeric_dtype(dtype) else "text or other values"


def _text(column: pd.Series) -> frozenset[str] | None:
    """The distinct values of a column of text; None if some are no text."""
    if not (pdt.is_object_dtype(column.dtype) or pdt.is_string_dtype(column.dtype)):
        return None
    try:
        values = frozenset(column.unique())
    except TypeError:  # values without a hash
        return None
    return values if all(isinstance(value, str) for value in values) else None


def _text_levels(looks: list[Look]) -> Categories:
    """The sorted levels of columns that are text in all chunks."""
    found: dict[str, set[str] | None] = {}
    for look in looks:
        for name, values in look.text.items():
            before = found.setdefault(name, set())
            found[name] = None if before is None or values is None else before | values
        for name in look.categories:  # other chunks may have it as text
            found[name] = None
    return {name: tuple(sorted(values)) for name, values in found.items() if values is not None}


def _check_kinds(looks: list[Look]) -> None:
    """Refuse columns that are numbers in one chunk and something else in another."""
    seen: dict[str, str] = {}
    for look in looks:
        for name, kind in look.kinds.items():
            if seen.setdefault(name, kind) != kind:
                raise DesignError(
                    f"{name} holds {seen[name]} in one partition and {kind} in another, so that a "
                    "formula cannot read it in one way. Give the column one type, for example with "
                    "astype(str) for levels or pandas.to_numeric for numbers."
                )


def _in_use(looks: list[Look]) -> Categories:
    """Categories that occur in any chunk, in the order that the chunks give them.

    Where each chunk has them sorted, but some chunks have others than the first, the order is that
    of all of them sorted: it does not depend on which rows come first.
    """
    known: dict[str, dict[Any, None]] = {}
    used: dict[str, set[Any]] = {}
    chosen: set[str] = set()  # columns with an order of their own
    for look in looks:
        for name, categories in look.categories.items():
            known.setdefault(name, {}).update(dict.fromkeys(categories))
            used.setdefault(name, set()).update(look.used[name])
            if list(categories) != sorted_if_possible(categories):
                chosen.add(name)
    return {
        name: tuple(
            c for c in (order if name in chosen else sorted_if_possible(order)) if c in used[name]
        )
        for name, order in known.items()
    }


def recipe_from_formula(
    formula: str,
    select_formula: str,
    columns: Iterable[str],
    missing: Missing = "drop",
    *,
    offset: Any = None,
    offset_select: Any = None,
    freq_weights: Any = None,
    prob_weights: Any = None,
    env: int | Mapping[str, Any] | patsy.EvalEnvironment = 0,
) -> Recipe:
    """Read the formulas for data with these columns; see ``design_from_formula``.

    Offsets and weights are names of columns here.
    """
    check_missing(missing)
    env = caller_scope(env, depth=2)
    engine = FormulaManager().engine
    if engine != "patsy":
        raise DesignError(
            f"the formula engine {engine!r} cannot learn from data in partitions; set "
            "statsmodels.formula.options.formula_engine = 'patsy' for that"
        )
    roles = {"offset": offset, "offset_select": offset_select}
    roles |= {"freq_weights": freq_weights, "prob_weights": prob_weights}
    columns = list(columns)
    for role, name in roles.items():
        if name is not None and (not isinstance(name, str) or name not in columns):
            raise DesignError(f"{role}={name!r} must name a column of data that is in partitions")
    if freq_weights is not None and prob_weights is not None:
        raise DesignError("give freq_weights or prob_weights, not both.")
    nothing = pd.DataFrame(columns=columns)
    outcome, _ = parse(formula, nothing, env, engine, "formula")
    select, _ = parse(select_formula, nothing, env, engine, "select_formula")
    if outcome.lhs is None:
        raise DesignError(f"formula needs an outcome on its left, as in 'y ~ x'; got {formula!r}.")
    return Recipe(outcome, select, missing, roles)
