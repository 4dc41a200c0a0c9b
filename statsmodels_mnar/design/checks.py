"""Checks that a design can identify the model, each with one message.

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

from statsmodels_mnar.design.data import Design
from statsmodels_mnar.design.partitioned import PartitionedDesign
from statsmodels_mnar.errors import (
    NoExclusionRestrictionWarning,
    NoVariationError,
    SingularDesignError,
    listing,
    warn,
)

__all__ = [
    "check_design",
    "check_exclusion",
    "check_levels",
    "check_outcome_varies",
    "check_rank",
    "check_selection_varies",
    "check_some_selected",
    "find_excluded",
]

Floats = NDArray[np.float64]

# A column of unit length is in the span of others if its distance from it is below this. Sums of
# dummies or of splines cancel to about 1e-15; a real variable does not come near 1e-10.
_COLLINEAR = 1e-10
_SPANNED = 1e-8  # the same, of a column beside another matrix
_NEARLY = 1e-5  # half of the digits of a Hessian are gone


def check_design(design: Design | PartitionedDesign) -> None:
    """Run all checks but that of separation, the ones that explain others first.

    Examples
    --------
    >>> import numpy as np
    >>> from statsmodels_mnar.design import check_design, design_from_arrays
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(9, 2))
    >>> check_design(design_from_arrays([0, 1, 0, 1, 0, 1] + [np.nan] * 3, z[:, :1],
    ...                                 exog_select=z))
    """
    check_selection_varies(design)
    check_outcome_varies(design)
    check_levels(design.sketch)
    check_rank(design.sketch)
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
    unseen = np.asarray(~np.compress(design.labelled, design.X, axis=0).any(axis=0))
    if unseen.any():
        names = [name for name, bad in zip(design.outcome_names, unseen, strict=True) if bad]
        raise SingularDesignError(
            f"the outcome column(s) {listing(names)} are zero on every labelled row: a level that "
            "no labelled row has, so its effect on the outcome cannot be estimated. Merge "
            "it with another level, drop the rows, or leave the term to the selection equation."
        )


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
    _check_full_rank(
        np.compress(design.labelled, design.X, axis=0),
        design.outcome_names,
        "outcome",
        " on the labelled rows",
    )


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
            "Selection and outcome are told apart by functional form alone. Add to the selection "
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
    >>> from statsmodels_mnar.design import design_from_arrays
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
    """Of X'X with the columns of X scaled to unit length; zero if a column is."""
    norms = np.sqrt(np.diag(gram))
    if not np.isfinite(gram).all() or (norms == 0).any():
        return 0.0
    return float(np.linalg.eigvalsh(gram / np.outer(norms, norms))[0])
