"""Which terms of a formula depend on other rows: means, ranks, quantiles, sums along the rows.

Such a term has other values when part of the data is evaluated alone: a partition, or new data to
predict for. Terms that cannot (columns, arithmetic, numpy's elementwise functions, the engines'
stateful transforms) are told by their code; all others are tried on a few rows alone.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from statsmodels_mnar.design.expressions import COLUMNS, to_python
from statsmodels_mnar.errors import DesignError, listing

# Transforms of patsy and formulaic that learn from all rows once, or look at one row at a time.
_LEARNING = {
    "C", "I", "Q", "Diff", "Helmert", "Poly", "Sum", "Treatment", "bs", "cc", "center", "contr",
    "cr", "cs", "log", "log10", "log2", "exp", "exp10", "exp2", "poly", "scale", "standardize",
    "te", "abs", "float", "int", "bool",
}  # fmt: skip
_ELEMENTWISE = {"clip", "where", "nan_to_num", "round", "isclose"}  # numpy's that are no ufuncs

_SINGLE = 6  # rows that are evaluated one by one

ADVICE = (
    "Use a transform that learns from all rows once and remembers it, such as center(x), "
    "standardize(x), bs(x, df=4) or cr(x, df=4), or compute the column in the data beforehand."
)


def by_row(code: str, namespace: Mapping[str, Any]) -> bool:
    """Whether the code of a factor shows that a row's value depends on no other row.

    Examples
    --------
    >>> import numpy as np
    >>> by_row("np.log(x) ** 2", {"np": np}), by_row("center(x)", {}), by_row("x - x.mean()", {})
    (True, True, False)
    """
    return _by_row(ast.parse(to_python(code), mode="eval").body, namespace)


def _by_row(node: ast.expr, namespace: Mapping[str, Any]) -> bool:
    inside: Iterable[ast.expr]
    match node:
        case ast.Name() | ast.Constant():
            return True
        case ast.BinOp(left=left, right=right):
            inside = [left, right]
        case ast.UnaryOp(operand=operand):
            inside = [operand]
        case ast.BoolOp(values=inside) | ast.Tuple(elts=inside) | ast.List(elts=inside):
            pass
        case ast.Compare(left=left, comparators=others):
            inside = [left, *others]
        case ast.Subscript(value=ast.Name(id=owner)) if owner == COLUMNS:
            return True
        case ast.Call(func=function, args=arguments, keywords=keywords):
            if not _known(function, namespace):
                return False
            inside = [*arguments, *(keyword.value for keyword in keywords)]
        case _:
            return False
    return all(_by_row(each, namespace) for each in inside)


def _known(function: ast.expr, namespace: Mapping[str, Any]) -> bool:
    """Whether it is a function whose value for a row depends on that row alone."""
    match function:
        case ast.Name(id=name) if name in namespace:
            found = namespace[name]
            return isinstance(found, np.ufunc) or hasattr(found, "__patsy_stateful_transform__")
        case ast.Name(id=name):
            return name in _LEARNING
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if namespace.get(owner) is np:
            return isinstance(getattr(np, name, None), np.ufunc) or name in _ELEMENTWISE
    return False


def differing(
    whole: pd.DataFrame,
    rows: pd.DataFrame,
    evaluate: Callable[[pd.DataFrame], pd.DataFrame],
    doubtful: np.ndarray,
) -> np.ndarray:
    """Which columns of a design change when rows are evaluated alone, (columns,).

    Parameters
    ----------
    whole : DataFrame
        The design of all ``rows``, labelled by position; rows on which a term is NaN may lack.
    evaluate : callable
        From some of ``rows`` to their design.
    doubtful : ndarray
        The columns that may change.
    """
    found = np.zeros(whole.shape[1], dtype=bool)
    values = whole.to_numpy(dtype=float)
    if len(rows) < 2 or not len(values):
        return found
    with np.errstate(all="ignore"):
        size = np.nanmax(np.abs(values), axis=0, initial=0.0)
    for taken in _samples(values[:, doubtful], whole.index.to_numpy(), len(rows)):
        try:
            alone = evaluate(rows.iloc[taken].set_axis(pd.RangeIndex(len(taken)), axis=0))
        except Exception:  # a term that fails where there are few rows needs the others
            if len(taken) > 1:
                found[:] = True
            continue
        if alone.shape[1] != len(found):
            return ~found
        before = whole.reindex(taken).to_numpy(dtype=float)
        after = alone.reindex(range(len(taken))).to_numpy(dtype=float)
        near = np.abs(before - after) <= 1e-8 * np.abs(before) + 1e-11 * size
        same = (before == after) | near | (np.isnan(before) & np.isnan(after))
        found |= ~same.all(axis=0)
    return found


def _samples(values: np.ndarray, labels: np.ndarray, n: int) -> list[np.ndarray]:
    """Rows to evaluate alone: one at a time where columns are least and largest, and some."""
    filled = np.where(np.isnan(values), 0.0, values)
    ends = {*filled.argmin(axis=0).tolist(), *filled.argmax(axis=0).tolist()}
    single = [labels[i] for i in sorted(ends)[:_SINGLE]]
    spread = np.unique(np.linspace(n // 3, n - 1, 12).astype(int))
    return [*(np.array([i]) for i in single), spread]


def check_alone(terms: Iterable[str], formula: str, why: str) -> None:
    """Refuse terms that depend on other rows."""
    terms = list(terms)
    if terms:
        raise DesignError(
            f"{listing(terms)} in {formula!r} has other values when fewer rows are evaluated: it "
            f"depends on other rows, such as a mean, a rank, a quantile or the row before. {why} "
            f"{ADVICE}"
        )


IN_PARTITIONS = "Data in partitions are evaluated partition by partition, which would change it."
IN_NEW_DATA = "For new data it would depend on which rows are passed together."
