"""What a formula has learned as plain numbers and texts, for files of results, and back.

A pickle would do it, and would run code when it is read. Here the file has patsy's own record of a
design: the expressions of its factors, their levels, the state of transforms such as ``center`` and
``bs``, and the contrasts. Expressions are evaluated when data are predicted, and only such as are
made of columns, arithmetic, comparisons, patsy's functions and numpy's elementwise ones.
"""

from __future__ import annotations

import ast
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
import patsy
from patsy import builtins
from patsy.design_info import FactorInfo, SubtermInfo
from patsy.eval import EvalEnvironment, EvalFactor
from patsy.mgcv_cubic_splines import CC, CR, TE
from patsy.splines import BS
from patsy.state import Center, Standardize

from ..errors import DesignError
from .specs import FormulaSpec

_TRANSFORMS = {cls.__name__: cls for cls in (Center, Standardize, BS, CR, CC, TE)}
_PATSY = {name: getattr(builtins, name) for name in builtins.__all__}
_FUNCTIONS = frozenset(("C", "I", "Q", "Treatment", "Sum", "Helmert", "Diff", "Poly"))
_NUMPY = frozenset(
    [name for name in dir(np) if isinstance(getattr(np, name), np.ufunc)]
    + ["clip", "where", "round", "pi", "e"]
)
_SYNTAX = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.operator, ast.unaryop,
    ast.boolop, ast.cmpop, ast.expr_context, ast.List, ast.Tuple, ast.keyword, ast.IfExp,
)  # fmt: skip
_LARGEST_POWER = 64  # larger ones of whole numbers take memory without end


def record(spec: FormulaSpec | None) -> dict[str, Any] | None:
    """Return what rebuilds the designs of ``spec``; None where plain values cannot.

    So it is for formulaic, for functions of the caller's own, and for terms that depend on other
    rows.

    Examples
    --------
    >>> import pandas as pd
    >>> from ..design import design_from_formula, rebuild
    >>> data = pd.DataFrame({"y": [0, 1, None, 1], "x": [1.0, 2.0, 3.0, 4.0]})
    >>> spec = design_from_formula("y ~ center(x)", "~ x", data).outcome_spec
    >>> again = restore(record(spec))
    >>> rebuild(again, pd.DataFrame({"x": [2.5, 3.5]})).to_numpy().tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    if spec is None or spec.engine != "patsy" or spec.across_rows:
        return None
    if any(value is not np for value in spec.namespace.values()):
        return None
    try:
        found = {
            "formula": spec.formula,
            "columns": list(spec.columns),
            "column_names": list(spec.info.column_names),  # penalised terms have their own record
            "numpy": list(spec.namespace),
            "factors": [_factor(info) for info in spec.info.factor_infos.values()],
            "terms": [
                {"factors": [f.code for f in term.factors], "subterms": list(map(_subterm, parts))}
                for term, parts in spec.info.term_codings.items()
            ],
        }
        restore(found)
    except (DesignError, TypeError):  # such as levels that are dates
        return None
    return found


def _factor(info: FactorInfo) -> dict[str, Any]:
    return {
        "code": info.factor.code,
        "eval_code": info.state["eval_code"],
        "transforms": {
            name: {"class": type(value).__name__, "state": _plain(vars(value))}
            for name, value in info.state["transforms"].items()
        },
        "num_columns": info.num_columns,
        "categories": None if info.categories is None else [_plain(v) for v in info.categories],
    }


def _subterm(part: SubtermInfo) -> dict[str, Any]:
    return {
        "factors": [factor.code for factor in part.factors],
        "contrasts": {
            factor.code: {"matrix": _plain(c.matrix), "suffixes": list(c.column_suffixes)}
            for factor, c in part.contrast_matrices.items()
        },
        "num_columns": part.num_columns,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return {"array": value.astype(float).tolist()}
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a {type(value).__name__} has no place in a file of results")


# -- back ------------------------------------------------------------------------------------------


def restore(found: Mapping[str, Any]) -> FormulaSpec:
    """Return the specification of a record; a DesignError says what cannot be used."""
    try:
        spec = _restore(found)
    except DesignError:
        raise
    except Exception as error:  # patsy and numpy refuse in many ways
        raise DesignError(f"the record of a formula cannot be read ({error!r})") from error
    return spec


def _restore(found: Mapping[str, Any]) -> FormulaSpec:
    columns = _texts(found["columns"])
    namespace = dict.fromkeys(_texts(found["numpy"]), np)
    environment = EvalEnvironment([namespace]).with_outer_namespace(_PATSY)
    factors = {}
    for each in found["factors"]:
        factor = EvalFactor(str(each["code"]))
        transforms = {name: _transform(v) for name, v in each["transforms"].items()}
        _check(str(each["eval_code"]), set(columns), set(transforms), set(namespace))
        state = {
            "transforms": transforms,
            "eval_code": str(each["eval_code"]),
            "memorize_code": {},
            "pass_bins": [],
            "eval_env": environment,
        }
        levels = each["categories"]
        kind = "numerical" if levels is None else "categorical"
        how = {"num_columns": each["num_columns"]} if levels is None else {"categories": levels}
        factors[factor] = FactorInfo(factor, kind, state, **how)
    by_code = {factor.code: factor for factor in factors}
    codings: OrderedDict[Any, Any] = OrderedDict()  # patsy wants one
    for each in found["terms"]:
        term = patsy.Term([by_code[code] for code in each["factors"]])
        codings[term] = [_read_subterm(part, by_code) for part in each["subterms"]]
    names = _texts(found["column_names"])
    info = patsy.DesignInfo(list(names), factors, codings)
    return FormulaSpec(str(found["formula"]), "patsy", columns, names, namespace, info)


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise DesignError(f"a list of names is expected in the record of a formula, got {values!r}")
    return tuple(values)


def _transform(found: Mapping[str, Any]) -> Any:
    made = _TRANSFORMS[found["class"]].__new__(_TRANSFORMS[found["class"]])
    for name, value in found["state"].items():
        array = isinstance(value, Mapping)
        setattr(made, name, np.array(value["array"], dtype=float) if array else value)
    return made


def _read_subterm(found: Mapping[str, Any], by_code: Mapping[str, EvalFactor]) -> SubtermInfo:
    contrasts = {
        by_code[code]: patsy.ContrastMatrix(
            np.array(c["matrix"]["array"], dtype=float), _texts(c["suffixes"])
        )
        for code, c in found["contrasts"].items()
    }
    return SubtermInfo(
        [by_code[code] for code in found["factors"]], contrasts, found["num_columns"]
    )


def _check(code: str, columns: set[str], transforms: set[str], numpy: set[str]) -> None:
    """Refuse an expression that is more than a formula needs; see the module."""
    tree = ast.parse(code, mode="eval")
    names = columns | transforms | numpy | _FUNCTIONS
    read = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            fine = node.id in names and (id(node) in read or node.id not in transforms | numpy)
        elif isinstance(node, ast.Attribute):
            of = node.value.id if isinstance(node.value, ast.Name) else None
            fine = of in transforms and node.attr == "transform" and id(node) in called
            fine = fine or (of in numpy - columns and node.attr in _NUMPY)
        elif isinstance(node, ast.Call):
            own = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS - columns
            fine = own or isinstance(node.func, ast.Attribute)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift):
            power = node.right.value if isinstance(node.right, ast.Constant) else None
            fine = isinstance(power, int | float) and abs(power) <= _LARGEST_POWER
        elif isinstance(node, ast.Constant):
            fine = node.value is None or isinstance(node.value, bool | int | float | str)
        else:
            fine = isinstance(node, _SYNTAX)
        if not fine:
            raise DesignError(
                f"{code!r} is not evaluated from a file: {ast.unparse(node)!r} is neither a "
                "column, arithmetic, nor one of patsy's and numpy's elementwise functions"
            )
