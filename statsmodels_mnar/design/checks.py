"""Checks that a design can be built and identifies the model, each with one message.

They are apart from the constructors because scoring, simulation and penalised fits can do
without them. `check_design` runs all but the search for separation, which needs a fit's worth
of arithmetic and is made for one equation at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq, qr, solve_triangular
from scipy.optimize import linprog
from scipy.special import expit

from ..errors import (
    NoExclusionRestrictionWarning,
    NoVariationError,
    PerfectSeparationError,
    SingularDesignError,
    listing,
    warn,
)
from ..types import Floats
from .chunks import PartitionedDesign
from .data import Design


def check_separation(y: Floats, X: Floats, names: Sequence[str], equation: str) -> None:
    """Raise `PerfectSeparationError` if some combination of columns predicts y perfectly.

    Parameters
    ----------
    y : ndarray
        (n,) 0/1, both of which occur; for the outcome equation the labelled rows only.
    X : ndarray
        (n, p) design of full rank.
    names : sequence of str
        Names of its columns.
    equation : str
        "outcome" or "selection", for the message.

    Examples
    --------
    >>> import numpy as np
    >>> from ..design import check_separation
    >>> x = np.column_stack([np.ones(4), [1.0, 2.0, 3.0, 4.0]])
    >>> y = np.array([0.0, 0.0, 1.0, 1.0])
    >>> check_separation(y, x, ["const", "x"], "outcome")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    statsmodels_mnar.errors.PerfectSeparationError: the outcome equation is perfectly separated ...
    """
    columns = find_separation(y, X)
    if columns is None:
        return
    raise PerfectSeparationError(
        f"the {equation} equation is perfectly separated by "
        f"{listing((names[j] for j in columns), most=20)}: on some rows the column(s) predict "
        f"the {equation} without error, and its likelihood has no finite maximum. Use a ridge "
        "penalty, drop or merge the column(s), or stop early with method='sgd'."
    )


def degeneracies(y: Floats, X: Floats, names: Sequence[str], equation: str) -> list[str]:
    """Say why a binary regression has no finite or no unique maximum without a penalty.

    Parameters
    ----------
    y, X, names, equation
        As in :func:`check_separation`, but the columns may be linearly dependent.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.column_stack([np.ones(4), [1.0, 2.0, 3.0, 4.0]])
    >>> degeneracies(np.array([0.0, 0.0, 1.0, 1.0]), x, ["const", "x"], "outcome")
    ['The penalty alone holds the outcome coefficients: x predicts the outcome without error on \
some rows.']
    """
    where = " on the labelled rows" if equation == "outcome" else ""
    found = []
    dependent = dependent_columns(X)
    for column, others in dependent.items():
        if others:
            found.append(
                f"The penalty alone divides the effect on the {equation}: {names[column]} is a "
                f"combination of {listing(names[j] for j in others)}{where}."
            )
        else:
            found.append(
                f"The {equation} equation says nothing about {names[column]}, which is zero"
                f"{where or ' on every row'}."
            )
    kept = [j for j in range(X.shape[1]) if j not in dependent]
    separating = find_separation(y, X[:, kept])
    if separating is not None:
        columns = [names[kept[j]] for j in separating]
        found.append(
            f"The penalty alone holds the {equation} coefficients: {listing(columns)} "
            f"{'predicts' if len(columns) == 1 else 'predict'} the {equation} without error on "
            "some rows."
        )
    return found


def find_separation(y: Floats, X: Floats) -> list[int] | None:
    """Columns that separate y (completely or quasi-completely), or None if it overlaps.

    Separated means that some b has q_i x_i'b >= 0 on all rows and > 0 on some, q = 2y - 1; then
    and only then a logit or probit has no finite maximum (Albert and Anderson, 1984).

    Three steps, cheap ones first, none of which errs up to rounding:

    1. one column alone separates;
    2. a certificate of overlap: weights l_i > 0 with sum l_i q_i x_i = 0 exclude such a b
       (Stiemke's lemma). The residuals |y - p| of a logit fit come close, and are repaired by a
       least-squares correction; most data end here after a few Newton steps;
    3. the linear programme: maximise sum q_i x_i'b subject to q_i x_i'b >= 0, -1 <= b <= 1 (Konis,
       2007), with rows added as they are violated.

    Parameters
    ----------
    y : ndarray
        (n,) of 0 and 1, both of which occur.
    X : ndarray
        (n, p) design of full rank.

    Returns
    -------
    list of int or None
        Positions of a smallest set of columns that separates; constants are not listed.
    """
    q = 2.0 * y - 1.0
    constant = np.ptp(X, axis=0) == 0
    intercept = bool((constant & X.any(axis=0)).any()) or in_span(np.ones((len(X), 1)), X)
    single = _single_column(y, X, intercept)
    if single is not None:
        return [single]
    # With a constant in the span the columns can be centred, which keeps the programme well
    # scaled for variables such as a year. The constant leads, the columns of X follow in order.
    Z = X - X.mean(axis=0) if intercept else X
    peak = np.abs(Z).max(axis=0)
    Z = Z / np.where(peak > 1e-12 * np.abs(X).max(axis=0), peak, np.inf)
    Z = q[:, None] * np.column_stack([np.full(len(X), float(intercept)), Z])
    if _certified_overlap(Z) or not _separable(Z):
        return None
    columns = [0, *(1 + np.flatnonzero(~constant | (not intercept)))]
    for column in columns[1:]:
        fewer = [j for j in columns if j != column]
        if len(fewer) > 1 and _separable(Z[:, fewer]):
            columns = fewer
    return [int(j) - 1 for j in columns[1:]]


def _single_column(y: Floats, X: Floats, intercept: bool) -> int | None:
    """A column that separates by itself (and the constant)."""
    zeros, ones = X[y == 0], X[y == 1]
    if len(zeros) == 0 or len(ones) == 0:
        return None
    low = zeros.min(axis=0), ones.min(axis=0)
    high = zeros.max(axis=0), ones.max(axis=0)
    if intercept:  # any threshold will do
        apart = (high[0] <= low[1]) | (high[1] <= low[0])
    else:  # zero is the only threshold
        apart = ((high[0] <= 0) & (low[1] >= 0)) | ((high[1] <= 0) & (low[0] >= 0))
    varies = np.ptp(X, axis=0) > 0 if intercept else X.any(axis=0)
    found = np.flatnonzero(apart & varies)
    return int(found[0]) if len(found) else None


def _certified_overlap(Z: Floats, steps: int = 10) -> bool:
    """Has sum l_i z_i = 0 a solution l > 0? True is a proof, False leaves it open.

    z_i = q_i x_i. At b, l = 1 - L(z'b) leaves the remainder r = sum l_i z_i, the score of the
    logit. Subtracting l_i z_i'(sum l_i z_i z_i')^-1 r removes it, and leaves l positive
    if the corrections relative to l stay below one.
    """
    b = np.zeros(Z.shape[1])
    for _ in range(steps):  # few: residuals stay far above rounding error
        residual = expit(-(Z @ b))
        score = residual @ Z
        correction = Z @ _solve(Z.T @ (Z * residual[:, None]), score)
        weights = residual * (1 - correction)
        # The remainder is checked since a direction the solve left out would be one it must not.
        if correction.max() < 0.9 and np.abs(weights @ Z).max() < 1e-3 * weights.min():
            return True
        hessian = Z.T @ (Z * (residual * (1 - residual))[:, None])
        b = b + _solve(hessian, score)
    return False


def _solve(matrix: Floats, vector: Floats) -> Floats:
    """Least squares, as columns that are constant or redundant are zero or collinear here."""
    return np.asarray(np.linalg.lstsq(matrix, vector, rcond=1e-12)[0], dtype=np.float64)


def _separable(Z: Floats, block: int = 2000) -> bool:
    """Has z_i'b >= 0 a solution with some z_i'b > 0? By linear programming, adding rows lazily.

    The relaxed programme (fewer rows) has the larger optimum: an optimum of zero settles it.
    """
    total = Z.mean(axis=0)
    rows = np.arange(len(Z)) if len(Z) <= block else np.arange(0, len(Z), len(Z) // block)
    active = np.zeros(len(Z), dtype=bool)
    active[rows] = True
    while True:
        solution = linprog(-total, A_ub=-Z[active], b_ub=np.zeros(active.sum()), bounds=(-1, 1))
        if not solution.success:  # zero is feasible and the box bounded: numerical trouble only
            return False
        margin = Z @ solution.x
        # The box makes a separating direction of size one; HiGHS allows violations of 1e-7.
        if margin.max() < 1e-5:
            return False
        violated = ~active & (margin < -1e-7)
        if not violated.any():
            return bool(margin.max() > 1e-5)
        worst = np.argsort(np.where(violated, margin, np.inf))[: min(block, violated.sum())]
        active[worst] = True


# -- checks that a design can identify the model, each with one message ----------------------------


# A column of unit length is in the span of others if its distance from it is below this. Sums of
# dummies or of splines cancel to about 1e-15; a real variable does not come near 1e-10.
_COLLINEAR = 1e-10
_FIRST = 4096  # rows that are looked at first
_SPANNED = 1e-8  # the same, of a column beside another matrix
_NEARLY = 1e-5  # half of the digits of a Hessian are gone


def check_design(design: Design | PartitionedDesign) -> None:
    """Run all checks but that of separation, the ones that explain others first.

    Examples
    --------
    >>> import numpy as np
    >>> from ..design import check_design, design_from_arrays
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(9, 2))
    >>> check_design(design_from_arrays([0, 1, 0, 1, 0, 1] + [np.nan] * 3, z[:, :1],
    ...                                 exog_select=z))
    """
    check_selection_varies(design)
    check_outcome_varies(design)
    check_levels(design.sketch.unpenalised)
    check_rank(design.sketch.unpenalised)
    check_exclusion(design.sketch)


def check_selection_varies(design: Design | PartitionedDesign) -> None:
    """Raise `NoVariationError` unless there are selected and unselected rows."""
    counts = design.counts
    if counts.labelled == counts.rows:
        raise NoVariationError(
            f"all {counts.rows} rows are selected ({design.select_name} = 1): there is no "
            "selection to model. Fit an ordinary logit, or keep the rows whose outcome is missing"
            f"{_left_out(design)}."
        )
    check_some_selected(design)


def check_some_selected(design: Design | PartitionedDesign) -> None:
    """Raise `NoVariationError` if no row is selected."""
    counts = design.counts
    if counts.labelled == 0:
        raise NoVariationError(
            f"none of the {counts.rows} rows is selected ({design.select_name} = 0): no outcome "
            f"{design.outcome_name} is observed. Check how {design.select_name} is coded"
            f"{_left_out(design)}."
        )


def _left_out(design: Design | PartitionedDesign) -> str:
    missing = design.dropped.missing
    return f"; {missing} rows are left out because a covariate is missing" if missing else ""


def check_outcome_varies(design: Design | PartitionedDesign) -> None:
    """Raise `NoVariationError` unless both outcomes occur among the labelled rows."""
    counts = design.counts
    if len(counts.labels) == 1:
        raise NoVariationError(
            f"the outcome {design.outcome_name} is {counts.labels[0]:g} on all "
            f"{counts.labelled} labelled rows. Check how it is coded, in particular "
            "the level it is compared with."
        )


def check_levels(design: Design) -> None:
    """Raise `SingularDesignError` for outcome columns that are zero on all labelled rows.

    Mostly a level of a factor that occurs on unlabelled rows only; its effect on the outcome
    cannot be known.
    """
    unseen = np.asarray(~_labelled_rows(design).any(axis=0))
    if unseen.any():
        names = [name for name, bad in zip(design.outcome_names, unseen, strict=True) if bad]
        raise SingularDesignError(
            f"the outcome column(s) {listing(names)} are zero on every labelled row: a level that "
            "no labelled row has, so its effect on the outcome cannot be estimated. Merge "
            "it with another level, drop the rows, or keep the term in the selection equation only."
        )


def _labelled_rows(design: Design) -> Floats:
    """The outcome design on the labelled rows."""
    return np.take(design.X.T, np.flatnonzero(design.labelled), axis=1).T  # fast by columns


def check_width(design: Design | PartitionedDesign) -> None:
    """Raise `SingularDesignError` if an equation has more columns than rows.

    A penalty would have a maximum there, but one that is the penalty's and not the data's, and
    the Newton steps over thousands of columns take hours.
    """
    counts = design.counts
    _check_width(len(design.select_names), counts.rows, "selection", "")
    _check_width(len(design.outcome_names), counts.labelled, "outcome", " on the labelled rows")


def _check_width(columns: int, rows: int, equation: str, where: str) -> None:
    if columns > rows:
        raise SingularDesignError(
            f"the {equation} equation has {columns} columns and {rows} rows{where}: it needs at "
            "least as many rows as columns, with a ridge penalty too. Drop columns, or replace "
            "them by a few principal components."
        )


def check_rank(design: Design) -> None:
    """Raise `SingularDesignError` if either design has linearly dependent columns.

    The outcome design is looked at on the labelled rows, which alone identify its coefficients.
    """
    _check_full_rank(design.W, design.select_names, "selection", "")
    seen = _labelled_rows(design)
    _check_full_rank(seen, design.outcome_names, "outcome", " on the labelled rows")


def _check_full_rank(matrix: Floats, names: Sequence[str], equation: str, where: str) -> None:
    rows, columns = matrix.shape
    # Before the decomposition, which takes long for thousands of columns.
    _check_width(columns, rows, equation, where)
    dependent = dependent_columns(matrix)
    if not dependent:
        return
    parts = []
    for column, others in dependent.items():
        if others:
            parts.append(f"{names[column]} is a combination of {listing(names[j] for j in others)}")
        else:
            parts.append(f"{names[column]} is zero")
    raise SingularDesignError(
        f"the {equation} equation has collinear columns{where}: {listing(parts, sep='; ')}. Drop "
        "a column of each group, or use a ridge penalty."
    )


def nearly_collinear(design: Design) -> str:
    """A sentence about columns on which optimisers lose their digits; empty if there are none."""
    found = []
    for matrix, names in (
        (np.compress(design.labelled, design.X, axis=0), design.outcome_names),
        (design.W, design.select_names),
    ):
        for column, others in dependent_columns(matrix, _NEARLY).items():
            found.append(f"{names[column]} of {listing(names[j] for j in others)}")
    if not found:
        return ""
    return f" Nearly a combination of others is {listing(found)}: centre it, or drop a column."


def dependent_columns(matrix: Floats, tolerance: float = _COLLINEAR) -> dict[int, list[int]]:
    """Columns in the span of others, up to the tolerance, and which; empty if the rank is full."""
    # The Gram matrix squares the condition number, so it can vouch for full rank only.
    least = max(1e-8, tolerance**2)
    if len(matrix) >= matrix.shape[1] and _smallest_eigenvalue(matrix.T @ matrix) > least:
        return {}
    norms = np.linalg.norm(matrix, axis=0)
    scaled = matrix / np.where(norms > 0, norms, 1.0)
    (r, pivots) = qr(scaled, mode="r", pivoting=True, check_finite=False)
    diagonal = np.abs(np.diag(r))
    rank = int((diagonal > tolerance).sum())
    basis = r[:rank, :rank]
    dependent = {}
    for position in range(rank, matrix.shape[1]):
        weights = solve_triangular(basis, r[:rank, position])
        used = np.abs(weights) > 1e-7
        dependent[int(pivots[position])] = sorted(int(j) for j in pivots[:rank][used])
    return dependent


def check_exclusion(design: Design) -> None:
    """Warn if selection has no variable of its own.

    That is so if each selection column (and the selection offset) lies in the span of the outcome
    columns; the dependence of the two errors is then identified by functional form alone.
    """
    columns = design.W
    if design.offset_select is not None:
        columns = np.column_stack([columns, design.offset_select])
    if in_span(columns, design.X):
        warn(
            f"no exclusion restriction: the selection equation ({listing(design.select_names)}) "
            f"has no variable that the outcome equation ({listing(design.outcome_names)}) lacks. "
            "The model is identified by its functional form alone. Add to the selection "
            "equation a variable that moves selection but not the outcome.",
            NoExclusionRestrictionWarning,
        )


class Excluded(NamedTuple):
    """What the selection equation has and the outcome equation lacks."""

    columns: tuple[str, ...]  # of the selection design, outside the span of the outcome design
    directions: Floats  # (r, k): selection moves apart from the outcome unless these times gamma
    # are zero. Rows of the identity, but for columns of which a combination lies in the span.
    offset: bool  # the selection offset lies outside too; its coefficient is fixed at one


def find_excluded(design: Design) -> Excluded:
    """Find the columns that move selection only, which is what an instrument does.

    Examples
    --------
    >>> import numpy as np
    >>> from ..design import design_from_arrays
    >>> x, z = np.random.default_rng(0).normal(size=(2, 9))
    >>> y = [0, 1, 0, 1, 0, 1] + [np.nan] * 3
    >>> found = find_excluded(design_from_arrays(y, x, exog_select=np.column_stack([x, z])))
    >>> found.directions
    array([[0., 1.]])
    """
    X, W = design.X, design.W
    outside = np.flatnonzero(_outside(W, X)).tolist()
    directions = np.eye(W.shape[1])[outside]
    if len(outside) > 1:
        scale = np.linalg.norm(X, axis=0)
        basis = X / np.where(scale > 0, scale, 1.0)
        columns = W[:, outside] / np.linalg.norm(W[:, outside], axis=0)
        rest = columns - basis @ lstsq(basis, columns, check_finite=False)[0]
        dependent = len(dependent_columns(rest, _SPANNED))
        if dependent:  # such as x + z and x - z beside an outcome with x
            rows = np.linalg.svd(np.linalg.qr(rest, mode="r"))[2][: len(outside) - dependent]
            directions = (rows * np.linalg.norm(W[:, outside], axis=0)) @ directions
    names = tuple(design.select_names[k] for k in outside)
    offset = design.offset_select
    apart = offset is not None and not in_span(offset[:, None], X)
    return Excluded(names, directions, apart)


def in_span(columns: Floats, basis: Floats) -> bool:
    """Does each column lie in the span of the basis?"""
    some = slice(_FIRST)
    if len(basis) > 2 * _FIRST and _outside(columns[some], basis[some], first=True).any():
        return False  # what lies outside on some rows does so on all
    return not _outside(columns, basis, first=True).any()


def _outside(columns: Floats, basis: Floats, *, first: bool = False) -> NDArray[np.bool_]:
    """Which columns lie outside the span of the basis; with ``first`` one is enough."""
    gram, cross = basis.T @ basis, basis.T @ columns
    outside = np.zeros(columns.shape[1], dtype=bool)
    if _smallest_eigenvalue(gram) > 1e-4:
        # By the normal equations, which can vouch for a distance of more than a thousandth only.
        total = np.einsum("ij,ij->j", columns, columns)
        left = total - np.einsum("ij,ij->j", cross, np.linalg.solve(gram, cross))
        outside = left > 1e-6 * total
        if first and outside.any():
            return outside
    open_ = [k for k in np.flatnonzero(~outside) if not _is_one_of(columns[:, k], basis)]
    if open_:
        scale = np.linalg.norm(basis, axis=0)
        basis = basis / np.where(scale > 0, scale, 1.0)
        rest = columns[:, open_]
        coefficients = lstsq(basis, rest, check_finite=False)[0]
        distance = np.linalg.norm(rest - basis @ coefficients, axis=0)
        outside[open_] = distance > _SPANNED * np.linalg.norm(rest, axis=0)
    return outside


def _is_one_of(column: Floats, basis: Floats) -> bool:
    same = np.flatnonzero((basis[:8] == column[:8, None]).all(axis=0))  # most differ early
    return any(np.array_equal(basis[:, j], column) for j in same)


def _smallest_eigenvalue(gram: Floats) -> float:
    """Return the smallest eigenvalue of X'X, columns scaled to unit length; zero if one is zero."""
    norms = np.sqrt(np.diag(gram))
    if not np.isfinite(gram).all() or (norms == 0).any():
        return 0.0
    return float(np.linalg.eigvalsh(gram / np.outer(norms, norms))[0])
