"""The Python expressions in formulas: which names and columns they read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

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
