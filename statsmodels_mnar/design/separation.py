"""Perfect separation of a binary variable: does its likelihood have a finite maximum?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import expit

from statsmodels_mnar.design.checks import dependent_columns, in_span
from statsmodels_mnar.errors import PerfectSeparationError, listing

__all__ = ["check_separation", "degeneracies", "find_separation"]

Floats = NDArray[np.float64]


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
    >>> from statsmodels_mnar.design import check_separation
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
