"""The `Design`, and its two constructors: from formulas and from arrays."""

from __future__ import annotations

import sys
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import patsy
from numpy.typing import NDArray
from statsmodels.formula._manager import FormulaManager

from ..errors import DesignError, listing
from ..types import Floats, Mask
from .formula import Formula, Wanted, parse
from .specs import FormulaSpec, check_types, evaluate_left, evaluate_right
from .terms import (
    PenalisedTerm,
    Terms,
    all_columns,
    learn_terms,
    level_codes,
    names_with,
    plain_values,
    read_terms,
)
from .values import (
    Dropped,
    Missing,
    WeightKind,
    as_frame,
    binary_floats,
    check_binary,
    check_finite,
    check_missing,
    check_rows_left,
    check_unique,
    check_weights,
    common_index,
    complete_rows,
    read_extras,
    read_matrix,
    rows_without_nan,
    series_name,
    subset_positions,
    warn_dropped,
)


def unpenalised_columns(
    matrix: Floats, names: tuple[str, ...], terms: tuple[PenalisedTerm, ...], equation: str
) -> tuple[Floats, tuple[str, ...]]:
    """Ordinary columns of a design, and the unpenalised directions of its terms."""
    own = [term for term in terms if term.equation == equation]
    if not own:
        return matrix, names
    first = own[0].start
    parts, labels = [matrix[:, :first]], list(names[:first])
    for term in own:
        free = matrix[:, term.columns] @ term.free
        parts.append(free)
        labels += [f"the straight line of {term.name}"] * free.shape[1]
    return np.hstack(parts), tuple(labels)


class Counts(NamedTuple):
    """Rows, and observations where frequency weights make a row many."""

    rows: int
    labelled: int  # rows
    observations: float
    selected: float  # observations
    labels: tuple[float, ...]  # outcomes that occur


# The fields of a design that have a value for each row.
BY_ROW = ("y", "s", "X", "W", "index", "kept", "offset", "offset_select", "weights", "levels")


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Everything a fit needs to know about the data.

    Build it with `design_from_formula` or `design_from_arrays`; derive another one with
    ``dataclasses.replace``.
    """

    y: Floats  # (n,) 0, 1, or NaN where unlabelled
    s: Floats  # (n,) 1 where selected (labelled), else 0
    X: Floats  # (n, p) outcome design
    W: Floats  # (n, k) selection design
    outcome_names: tuple[str, ...]  # p names
    select_names: tuple[str, ...]  # k names
    outcome_name: str  # of y
    select_name: str  # of s
    index: pd.Index  # (n,) labels of the kept rows
    kept: NDArray[np.int64]  # (n,) positions of the kept rows in the user's data
    outcome_spec: FormulaSpec | None = None  # None: from arrays
    select_spec: FormulaSpec | None = None
    offset: Floats | None = None  # (n,)
    offset_select: Floats | None = None  # (n,)
    weights: Floats | None = None  # (n,)
    weight_kind: WeightKind | None = None
    dropped: Dropped = field(default_factory=Dropped)
    penalised: tuple[PenalisedTerm, ...] = ()  # their columns are the last of X and of W
    levels: NDArray[np.int64] | None = None  # (n,) of the term that is apart, if one is

    @property
    def nobs(self) -> int:
        """Number of rows."""
        return len(self.s)

    @property
    def labelled(self) -> Mask:
        """(n,) mask of the rows whose outcome is known."""
        return self.s == 1

    @property
    def unpenalised(self) -> Design:
        """The design of what no penalty holds: ordinary columns, and the lines of smooths.

        Whether these are identified decides whether all are.
        """
        if not self.penalised:
            return self
        X, outcome_names = unpenalised_columns(
            self.X, self.outcome_names, self.penalised, "outcome"
        )
        W, select_names = unpenalised_columns(self.W, self.select_names, self.penalised, "select")
        return replace(
            self, X=X, W=W, outcome_names=outcome_names, select_names=select_names,
            outcome_spec=None, select_spec=None, penalised=(),
        )  # fmt: skip

    @property
    def sketch(self) -> Design:
        """A design with the same inner products of columns; see `PartitionedDesign`."""
        return self

    @property
    def counted(self) -> Design:
        """The rows that the likelihood sees: those whose weight is not zero."""
        if self.weights is None or self.weights.all():
            return self
        used = self.weights > 0

        def rows(values: Any) -> Any:
            return None if values is None else values[used]

        return replace(self, **{name: rows(getattr(self, name)) for name in BY_ROW})

    @property
    def row_weights(self) -> Floats:
        """The weights, or ones where there are none."""
        return np.ones(self.nobs) if self.weights is None else self.weights

    @property
    def counts(self) -> Counts:
        """How many rows there are."""
        labelled = self.labelled
        number = int(np.count_nonzero(labelled))
        ones, zeros = (int(np.count_nonzero(labelled & (self.y == label))) for label in (1, 0))
        labels = tuple(label for label, count in ((0.0, zeros), (1.0, ones)) if count)
        if zeros + ones < number:
            labels = tuple(np.unique(self.y[labelled]).tolist())
        observations, selected = float(self.nobs), float(number)
        if self.weights is not None and self.weight_kind == "freq_weights":
            observations = float(self.weights.sum())
            selected = float(self.weights[labelled].sum())
        return Counts(self.nobs, number, observations, selected, labels)


def design_from_formula(
    formula: str,
    select_formula: str,
    data: Any,
    subset: Any = None,
    missing: Missing = "drop",
    *,
    offset: Any = None,
    offset_select: Any = None,
    freq_weights: Any = None,
    prob_weights: Any = None,
    env: int | Mapping[str, Any] | patsy.EvalEnvironment = 0,
) -> Design:
    """Build a design from an outcome and a selection formula.

    Parameters
    ----------
    formula : str
        The outcome equation, ``"y ~ x + C(g)"``. The left side is 0/1 or boolean, a column or an
        expression such as ``I(y > 3)``; where a column it reads is missing the row is unlabelled.
    select_formula : str
        The selection equation, ``"s ~ x + z"``, or ``"~ x + z"`` for "the outcome is observed".
        Outcomes of rows with s = 0 are ignored.
    data : DataFrame
        Or a mapping of columns, or a frame with ``to_pandas``.
    subset : array_like, optional
        Rows to use, as in ``data.loc[subset]``.
    missing : {"drop", "raise", "none"}
        Rows with a missing covariate (of either equation), selection indicator, offset or weight,
        and selected rows without an outcome are dropped from both equations, or raise. They are
        never let through: "none" raises as well.
    offset, offset_select : str or array_like, optional
        Column name or values added to the outcome and the selection index. A Series has the index
        of `data`, in any order; arrays go by position.
    freq_weights, prob_weights : str or array_like, optional
        How many identical rows a row stands for, or its inverse sampling probability.
    env : int, mapping or patsy.EvalEnvironment
        Where formulas find functions: the scope of the caller (0), of its caller (1), ...; -1 for
        none; or a mapping.

    Returns
    -------
    Design

    Notes
    -----
    Both designs are evaluated on all kept rows, unlabelled ones too, after missing rows are gone:
    factor levels, spline knots and means are those of all kept rows. A term that is NaN although
    its columns are known (``np.log(x)`` of a negative x) drops its row afterwards. Arrays
    in the caller's scope that are as long as the data are treated as columns. The formula engine
    is the one chosen in ``statsmodels.formula.options`` at the time of the call.

    Examples
    --------
    >>> import pandas as pd
    >>> from ..design import design_from_formula
    >>> data = pd.DataFrame({"grade": [2, 5, None, 4], "x": [1.0, 2, 3, 4], "z": [0, 1, 0, 1]})
    >>> design = design_from_formula("I(grade > 3) ~ x", "~ x + z", data)
    >>> design.y
    array([ 0.,  1., nan,  1.])
    >>> design.select_names
    ('Intercept', 'x', 'z')
    """
    check_missing(missing)
    env = caller_scope(env, depth=2)
    data = as_frame(data)
    engine = FormulaManager().engine
    outcome, borrowed = parse(formula, data, env, engine, "formula")
    select, borrowed_select = parse(select_formula, data, env, engine, "select_formula")
    if outcome.lhs is None:
        raise DesignError(f"formula needs an outcome on its left, as in 'y ~ x'; got {formula!r}.")
    for each in (outcome, select):
        check_types(each, data)
    extras, weight_kind = read_extras(
        data.index, data, offset, offset_select, freq_weights, prob_weights
    )

    positions = subset_positions(data.index, subset)
    frame = _columns_used(data, borrowed | borrowed_select, outcome, select)
    rows = data.index
    if subset is not None:
        frame, rows = frame.iloc[positions], rows[positions]
        extras = {name: values[positions] for name, values in extras.items()}

    y, s, keep, dropped = read_rows(outcome, select, frame, extras, missing, rows)
    select_name = selection_name(outcome, select)
    warn_dropped(dropped, outcome.lhs, select_name)
    kept = np.flatnonzero(keep)
    if subset is not None:
        unused = np.ones(len(data), dtype=bool)
        unused[positions] = False
        dropped = dropped._replace(subset=int(unused.sum()))
    check_rows_left(len(kept), dropped)
    labelled = kept[s[kept] == 1]  # before the designs are built, which takes long
    check_binary(y[labelled], outcome.lhs, "outcome", rows, labelled)
    if weight_kind is not None:
        check_weights(extras[weight_kind][kept], weight_kind, rows[kept])

    na_action: Literal["drop", "ignore"] = "drop" if missing == "drop" else "ignore"
    used = frame if len(kept) == len(frame) else frame.iloc[kept]
    X, outcome_spec = evaluate_right(outcome, used, na_action)
    W, select_spec = evaluate_right(select, used, na_action)
    whole = rows_without_nan(X, outcome_spec.column_names, missing)
    whole &= rows_without_nan(W, select_spec.column_names, missing)
    if not whole.all():
        kept = kept[whole]
        X, W = X[whole], W[whole]
    levels = None
    if outcome.penalised or select.penalised:
        used = frame.iloc[kept]
        terms = _learnt((outcome.penalised, select.penalised), (used, used), (X, W), s[kept])
        X, names = _with_columns(X, outcome_spec.column_names, terms[0], used)
        outcome_spec = replace(outcome_spec, column_names=names, penalised=terms[0])
        W, names = _with_columns(W, select_spec.column_names, terms[1], used)
        select_spec = replace(select_spec, column_names=names, penalised=terms[1])
        levels = level_codes((*terms[0], *terms[1]), used)
    return _design(
        y[kept],
        s[kept],
        X,
        W,
        outcome_spec.column_names,
        select_spec.column_names,
        outcome.lhs,
        select_name,
        index=data.index if len(kept) == len(data) and subset is None else rows[kept],
        kept=positions[kept],
        extras={name: values[kept] for name, values in extras.items()},
        weight_kind=weight_kind,
        dropped=dropped._replace(missing=dropped.missing + int((~whole).sum())),
        specs=(outcome_spec, select_spec),
        levels=levels,
    )


def design_from_arrays(
    endog: Any,
    exog: Any,
    endog_select: Any = None,
    exog_select: Any = None,
    *,
    missing: Missing = "none",
    offset: Any = None,
    offset_select: Any = None,
    freq_weights: Any = None,
    prob_weights: Any = None,
    terms: Terms = None,
    terms_select: Terms = None,
) -> Design:
    """Build a design from arrays; no constant is added.

    Parameters
    ----------
    endog : array_like
        (n,) outcome: 0/1 or boolean, missing where unlabelled.
    exog : array_like
        (n, p) outcome design.
    endog_select : array_like, optional
        (n,) selection indicator, 0/1 or boolean. By default a row is selected if its outcome is
        not missing.
    exog_select : array_like, optional
        (n, k) selection design; by default `exog`, which leaves no exclusion restriction.
    missing : {"none", "raise", "drop"}
        What to do with missing values, see `design_from_formula`; "none" raises too.
    offset, offset_select, freq_weights, prob_weights : array_like, optional
        See `design_from_formula`.
    terms, terms_select : dict of GroupEffects and Smooth, optional
        Penalised terms of the two equations, by the name of their variable.

    Returns
    -------
    Design

    Examples
    --------
    >>> import numpy as np
    >>> from ..design import design_from_arrays
    >>> x = np.column_stack([np.ones(4), [0.1, 0.4, 0.2, 0.9]])
    >>> design = design_from_arrays([1, np.nan, 0, 1], x)
    >>> design.s
    array([1., 0., 1., 1.])
    >>> design.outcome_names
    ('const', 'x1')
    """
    check_missing(missing)
    inputs = {"endog": endog, "exog": exog, "endog_select": endog_select}
    inputs["exog_select"] = exog_select
    wanted = read_terms(terms, "terms"), read_terms(terms_select, "terms_select")
    for own in wanted:
        inputs |= {each.name: values for each, values in own}
    index = common_index(inputs)
    outcome_name = series_name(endog, "y")
    select_name = series_name(endog_select, "s" if endog_select is not None else "y_observed")
    X, outcome_names = read_matrix(exog, "exog")
    W, select_names = (
        (X, outcome_names) if exog_select is None else read_matrix(exog_select, "exog_select")
    )
    y = binary_floats(endog, outcome_name, "outcome")
    s = (
        (~np.isnan(y)).astype(float)
        if endog_select is None
        else binary_floats(endog_select, select_name, "selection indicator")
    )
    _check_selection(s, select_name, index)
    extras, weight_kind = read_extras(
        index, None, offset, offset_select, freq_weights, prob_weights
    )

    holes = {select_name: np.isnan(s)}
    holes |= {name: np.isnan(values) for name, values in extras.items()}
    for matrix, names in ((X, outcome_names), (W, select_names)):
        for name, column in zip(names, matrix.T, strict=True):
            holes[name] = holes.get(name, False) | np.isnan(column)
    for own in wanted:
        holes |= {each.name: np.asarray(pd.isna(values)) for each, values in own}
    keep, dropped = complete_rows(holes, y, s, missing, outcome_name, select_name)
    warn_dropped(dropped, outcome_name, select_name)
    X, W = X[keep], W[keep]
    penalised: tuple[PenalisedTerm, ...] = ()
    levels = None
    if any(wanted):
        check_rows_left(int(keep.sum()), dropped)
        frames = [{t.column: plain_values(v)[keep] for t, v in own} for own in wanted]
        named = [[term for term, _ in own] for own in wanted]
        both = _learnt(named, frames, (X, W), s[keep])
        X, outcome_names = _with_columns(X, outcome_names, both[0], frames[0])
        W, select_names = _with_columns(W, select_names, both[1], frames[1])
        penalised = (*both[0], *both[1])
        codes = [level_codes(terms, frame) for terms, frame in zip(both, frames, strict=True)]
        levels = codes[1] if codes[0] is None else codes[0]
    return _design(
        y[keep],
        s[keep],
        X,
        W,
        outcome_names,
        select_names,
        outcome_name,
        select_name,
        index=index[keep],
        kept=np.flatnonzero(keep),
        extras={name: values[keep] for name, values in extras.items()},
        weight_kind=weight_kind,
        dropped=dropped,
        penalised=penalised,
        levels=levels,
    )


def _design(
    y: Floats,
    s: Floats,
    X: Floats,
    W: Floats,
    outcome_names: tuple[str, ...],
    select_names: tuple[str, ...],
    outcome_name: str,
    select_name: str,
    *,
    index: pd.Index,
    kept: NDArray[np.int64],
    extras: dict[str, Floats],
    weight_kind: WeightKind | None,
    dropped: Dropped,
    specs: tuple[FormulaSpec | None, FormulaSpec | None] = (None, None),
    penalised: tuple[PenalisedTerm, ...] = (),
    levels: NDArray[np.int64] | None = None,
) -> Design:
    """Check the values of complete rows and put them together."""
    check_rows_left(len(s), dropped)
    for equation, names in (("outcome", outcome_names), ("selection", select_names)):
        if not names:
            raise DesignError(f"the {equation} equation has no columns; give it a constant.")
    check_finite(X, outcome_names, index)
    check_finite(W, select_names, index)
    for name, values in extras.items():
        check_finite(values[:, None], (name,), index)
    labelled = np.flatnonzero(s == 1)
    check_binary(y[labelled], outcome_name, "outcome", index, labelled)
    weights = extras.get(weight_kind) if weight_kind else None
    if weights is not None:
        check_weights(weights, weight_kind, index)
    return Design(
        y=np.where(s == 1, y, np.nan),
        s=s,
        X=X,
        W=W,
        outcome_names=outcome_names,
        select_names=select_names,
        outcome_name=outcome_name,
        select_name=select_name,
        index=index,
        kept=kept,
        outcome_spec=specs[0],
        select_spec=specs[1],
        offset=extras.get("offset"),
        offset_select=extras.get("offset_select"),
        weights=weights,
        weight_kind=weight_kind,
        dropped=dropped,
        penalised=penalised or tuple(term for spec in specs if spec for term in spec.penalised),
        levels=levels,
    )


def _learnt(
    wanted: Sequence[Sequence[Wanted]],
    frames: Sequence[Any],
    matrices: tuple[Floats, Floats],
    s: Floats,
) -> tuple[tuple[PenalisedTerm, ...], tuple[PenalisedTerm, ...]]:
    """Learn the penalised terms of the two equations on complete rows, from a frame for each."""
    starts = matrices[0].shape[1], matrices[1].shape[1]
    return learn_terms(wanted, starts, lambda function, *args: [function(frames, s == 1, *args)])


def _with_columns(
    matrix: Floats, names: tuple[str, ...], terms: tuple[PenalisedTerm, ...], frame: Any
) -> tuple[Floats, tuple[str, ...]]:
    """Add the columns of penalised terms."""
    if not terms:
        return matrix, names
    return np.hstack([matrix, all_columns(terms, frame)]), names_with(names, terms)


def selection_name(outcome: Formula, select: Formula) -> str:
    """Return the name of the selection indicator, or of "the outcome is observed"."""
    return f"{outcome.lhs}_observed" if select.lhs is None else select.lhs


def read_rows(
    outcome: Formula,
    select: Formula,
    frame: pd.DataFrame,
    extras: Mapping[str, Floats],
    missing: Missing,
    rows: pd.Index,
) -> tuple[Floats, Floats, Mask, Dropped]:
    """The two indicators, which rows are complete, and how many are not; ``rows`` are labels."""
    assert outcome.lhs is not None
    y = _read_left(outcome, frame, "outcome")
    select_name = selection_name(outcome, select)
    if select.lhs is None:
        s = (~np.isnan(y)).astype(float)
    else:
        s = _read_left(select, frame, "selection indicator")
    _check_selection(s, select_name, rows)
    covariates = dict.fromkeys(outcome.rhs_columns + select.rhs_columns)
    holes = {name: _missing(frame[name]) for name in covariates}
    for name, values in {select_name: s, **extras}.items():
        holes[name] = holes.get(name, False) | np.isnan(values)
    keep, dropped = complete_rows(holes, y, s, missing, outcome.lhs, select_name)
    return y, s, keep, dropped


def _missing(column: pd.Series) -> Mask:
    if column.dtype == np.float64:
        return np.isnan(column.to_numpy())
    return column.isna().to_numpy()


def _check_selection(s: Floats, name: str, rows: pd.Index) -> None:
    """Refuse a selection indicator without meaning, before rows are dropped by its values."""
    known = np.flatnonzero(~np.isnan(s))
    check_binary(s[known], name, "selection indicator", rows, known)


def _read_left(formula: Formula, frame: pd.DataFrame, role: str) -> Floats:
    assert formula.lhs is not None
    result = np.full(len(frame), np.nan)
    values, known = evaluate_left(formula, frame)
    if not known.any():  # such a column has no type to speak of
        return result
    floats = binary_floats(values, formula.lhs, role)
    if floats.shape != (known.sum(),):
        raise DesignError(
            f"{role} {formula.lhs!r} gives {len(floats)} values for {known.sum()} rows."
        )
    result[known] = floats
    return result


def caller_scope(
    env: int | Mapping[str, Any] | patsy.EvalEnvironment, depth: int
) -> Mapping[str, Any]:
    """The names given, or those seen `env` levels above the caller of the constructor."""
    if isinstance(env, patsy.EvalEnvironment):
        return env.namespace
    if isinstance(env, Mapping):
        return env
    if not isinstance(env, int):
        raise DesignError(f"env={env!r} must be a number of frames, or a mapping of names.")
    if env < 0:
        return {}
    frame = sys._getframe(depth + env)
    return ChainMap(frame.f_locals, frame.f_globals)


def _columns_used(data: pd.DataFrame, borrowed: dict[str, Any], *formulas: Formula) -> pd.DataFrame:
    """The columns that the formulas read, from the data or from the caller's scope."""
    names = dict.fromkeys(
        name for formula in formulas for name in formula.lhs_columns + formula.rhs_columns
    )
    columns = {}
    for name in names:
        if name not in borrowed:
            check_unique(data, [name])
        column = borrowed[name] if name in borrowed else data[name]
        columns[name] = pd.Series(column.array if isinstance(column, pd.Series) else column)
    return pd.DataFrame(columns, index=pd.RangeIndex(len(data)), copy=False)  # they are read only


def refuse_penalised(design: Any, method: str) -> None:
    """Raise where a method that fits no penalties was given penalised terms."""
    if design.penalised:
        names = listing(dict.fromkeys(term.name for term in design.penalised))
        raise DesignError(
            f"{method} takes no penalised terms ({names}). Use GreeneSelectionLogit or "
            "ProbitSelection, or a formula of ordinary terms, such as bs(x, df=5) and C(g)."
        )


def over_rows(values: Any, design: Design, frame: Any, name: str) -> NDArray[Any]:
    """One value for each of the model's rows, from a column name, a Series or an array.

    A Series is aligned on the index, an array has one value for each row of the data or each kept
    row.
    """
    if isinstance(values, str):
        if frame is None:
            raise ValueError(
                f"{name}={values!r} names a column, but the model has no data frame at hand (built "
                "from arrays, or loaded from a file); pass the values"
            )
        if values not in frame:
            raise ValueError(
                f"{name}={values!r} is not a column of the data of which the model was built; "
                f"those are {listing(frame, 20)}. Pass the values of a column that was added later"
            )
        check_unique(frame, [values])
        return np.asarray(frame[values].iloc[design.kept])
    total = design.nobs + sum(design.dropped) if frame is None else len(frame)
    if isinstance(values, pd.Series):
        return _aligned(values, design, total, name)
    values = pd.Series(values).to_numpy()  # which reads masks as missing values
    if len(values) == total == design.nobs and (np.diff(design.kept) != 1).any():
        raise ValueError(
            f"{name} has {total} values, which may be meant for the rows of the data or for the "
            "rows used: subset brought these into another order. Pass a column name, or a Series "
            "with the index of the data"
        )
    if len(values) == total and total != design.nobs:
        values = values[design.kept]
    if len(values) != design.nobs:
        raise ValueError(
            f"{name} has {len(values)} values; give one for each of the {total} rows of the data "
            f"or the {design.nobs} rows used"
        )
    return values


def _aligned(values: pd.Series, design: Design, total: int, name: str) -> NDArray[Any]:
    """Align by labels where these say which row is meant, else by position if the labels agree."""
    labels, kept = values.index, design.kept
    # A row that subset took twice has its label twice; rows that share a label are others.
    if labels.is_unique and len(pd.unique(kept)) == design.index.nunique():
        if design.index.isin(labels).all():
            return values.loc[design.index].to_numpy()
    elif len(values) == design.nobs and labels.equals(design.index):
        return values.to_numpy()
    elif len(values) == total and labels.take(kept).equals(design.index):
        return values.to_numpy()[kept]
    raise ValueError(
        f"the index of {name} is not that of the data; pass {name}.to_numpy() if its values are in "
        "the order of the rows"
    )
