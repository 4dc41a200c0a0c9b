"""Expressions in formulas: what they read, whether they depend on other rows, how they are pickled.

Such a term has other values when part of the data is evaluated alone: a partition, or new data to
predict for. Terms that cannot (columns, arithmetic, numpy's elementwise functions, the engines'
stateful transforms) are told by their code; all others are tried on a few rows alone.

patsy forbids pickling of its objects because their layout may change between patsy versions.
A fitted model has to survive ``pickle`` all the same, as it does in statsmodels, so the pickler
here writes them as plain (class, attributes) pairs. A pickle is to be read with the library
versions that wrote it, as any pickle is.
"""

from __future__ import annotations

import ast
import copyreg
import importlib
import io
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pandas as pd
import patsy

from ..errors import DesignError, listing

# Where an expression finds `odd name` (formulaic's quoting) once it has become Python.
COLUMNS = "_quoted_columns_of_the_data_"


def names_read(codes: Iterable[str]) -> tuple[set[str], set[str]]:
    """Names that Python expressions read, and the column names they quote."""
    names: set[str] = set()
    quoted: set[str] = set()
    bound: set[str] = set()
    for code in codes:
        for node in ast.walk(ast.parse(to_python(code), mode="eval")):
            match node:
                case ast.Name(id=name, ctx=ast.Load()):
                    names.add(name)
                case ast.Name(id=name) | ast.arg(arg=name):
                    bound.add(name)  # the variable of a comprehension or lambda
                case ast.Call(func=ast.Name(id="Q"), args=[ast.Constant(value=str(name))]):
                    quoted.add(name)
                case ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=str(name))):
                    if owner == COLUMNS:
                        quoted.add(name)
    return names - bound - {COLUMNS}, quoted


def column_coded(code: str, columns: tuple[str, ...]) -> str | None:
    """The column that a factor is, as ``k`` or ``C(k, Sum)``; none where it is an expression."""
    if code not in columns:
        match ast.parse(to_python(code), mode="eval").body:
            case ast.Call(func=ast.Name(id="C"), args=[inner, *_]):
                code = ast.unparse(inner)
    return column_named(code, columns)


def column_named(code: str, columns: tuple[str, ...]) -> str | None:
    """The column that a factor is, as ``k`` or quoted; none where it is anything else."""
    if code in columns:
        return code
    match ast.parse(to_python(code), mode="eval").body:
        case (
            ast.Name(id=name)
            | ast.Call(func=ast.Name(id="Q"), args=[ast.Constant(value=str(name))])
            | ast.Subscript(value=ast.Name(), slice=ast.Constant(value=str(name)))
        ):
            return name if name in columns else None
    return None


def to_python(code: str) -> str:
    """formulaic's `odd name` and {expression} as Python."""
    code = re.sub(r"`([^`]*)`", lambda quoted: f"{COLUMNS}[{quoted[1]!r}]", code.strip())
    return f"({code[1:-1]})" if code.startswith("{") and code.endswith("}") else code


# -- which terms of a formula depend on other rows: means, ranks, quantiles, sums along the rows ---


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


# -- pickling of what a formula has learned --------------------------------------------------------


def dumps(obj: Any) -> bytes:
    """Pickle `obj`, which may hold patsy objects, modules and the caller's functions.

    Functions and classes that can be imported are stored by reference. Others (lambdas, local
    functions, anything defined in a script or notebook) are stored by value if cloudpickle is
    installed; without it a ``PicklingError`` names them. Read the result with ``pickle.loads``.
    """
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(obj)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, ModuleType):
            return importlib.import_module, (obj.__name__,)
        # patsy.center is a wrapper that carries the name of the class it wraps, hence cannot be
        # found by its own name.
        if isinstance(obj, FunctionType) and hasattr(obj, "__patsy_stateful_transform__"):
            return patsy.stateful_transform, (obj.__patsy_stateful_transform__,)
        if type(obj).__module__.partition(".")[0] == "patsy":
            return copyreg.__newobj__, (type(obj),), vars(obj)  # type: ignore[attr-defined]
        if isinstance(obj, (FunctionType, type)) and not _importable(obj):
            return pickle.loads, (_by_value(obj),)
        return NotImplemented


def _importable(obj: Any) -> bool:
    """Can a fresh process find `obj` by its module and name?"""
    if obj.__module__ == "__main__":
        return False
    found: Any = sys.modules.get(obj.__module__)
    for part in obj.__qualname__.split("."):
        found = getattr(found, part, None)
    # Special types such as NoneType are not found by name but pickle knows them.
    return found is obj or obj.__module__ == "builtins"


def _by_value(obj: Any) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        raise pickle.PicklingError(
            f"the formula uses {obj.__qualname__!r}, which is defined in "
            f"{obj.__module__!r} and cannot be imported from there by a fresh process. Move it to "
            "a module that can be imported, or install cloudpickle."
        ) from None
    return cloudpickle.dumps(obj)
