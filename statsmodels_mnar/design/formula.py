"""What a formula says: its two sides, the columns and names it reads, and its penalised terms.

A term whose value in a row depends on other rows has other values when part of the data is
evaluated alone: a partition, or new data to predict for. ``by_row`` tells by their code the terms
that have not: columns, arithmetic, numpy's elementwise functions, the engines' stateful transforms.
All others are tried on a few rows alone, where formulas are evaluated (``specs``).
"""

from __future__ import annotations

import ast
import copy
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from keyword import iskeyword
from typing import Any, Literal

import numpy as np
import pandas as pd
import patsy

from ..errors import DesignError, listing

Engine = Literal["patsy", "formulaic"]

Kind = Literal["re", "smooth"]

# Where an expression finds `odd name` (formulaic's quoting) once it has become Python.
COLUMNS = "_quoted_columns_of_the_data_"

LEAST_DF = 4  # basis functions of a smooth: cubic B-splines on one piece

_KEYWORDS: dict[str, tuple[str, ...]] = {"re": ("sd",), "smooth": ("df", "penalty")}

_AS_IN = {"re": "re(g) or re(g, sd=0.5)", "smooth": "smooth(x), smooth(x, df=10)"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A penalised term as it was asked for, before it has seen data."""

    kind: Kind
    column: str
    df: int | None = None  # of a smooth
    fixed: float | None = None  # its lambda, where that is not estimated

    @property
    def name(self) -> str:
        """How tables name it."""
        return f"{self.kind}({self.column})"


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula split at its ``~``, with the names its two sides read."""

    lhs: str | None
    rhs: str
    lhs_columns: tuple[str, ...]
    rhs_columns: tuple[str, ...]
    namespace: dict[str, Any]
    engine: Engine
    penalised: tuple[Wanted, ...] = ()  # which are not in ``rhs``


def parse(
    formula: str, data: pd.DataFrame, scope: Mapping[str, Any], engine: Engine, argument: str
) -> tuple[Formula, dict[str, Any]]:
    """Split `formula`, find what it reads, and return row-long arrays of `scope` it uses."""
    lhs, rhs = split(formula, argument)
    rhs, penalised = split_terms(rhs, scope, list(data.columns))
    quote = quoting(formula, data.columns, engine)
    with errors_named(formula, quote):
        sides = [names_read([lhs] if lhs else []), names_read(factor_codes(rhs, engine))]
    namespace: dict[str, Any] = {}
    borrowed: dict[str, Any] = {}
    known = builtins_of(engine)
    columns = []
    for names, quoted in sides:
        side = []
        for name in sorted(names | quoted):
            if name in data.columns:
                side.append(name)
            elif name in scope and name not in quoted:
                value = scope[name]
                if _row_long(value, len(data)):
                    borrowed[name] = value
                    side.append(name)
                else:
                    namespace[name] = _own(value)
            elif name in quoted or name not in known:
                advice = _advice_on(name, formula, data.columns)
                raise DesignError(
                    f"{argument} {formula!r} uses {name!r}, which is neither a column of data nor "
                    f"a name in the calling scope; the columns are {listing(data.columns, 20)}."
                    f"{advice}{quote}"
                )
        columns.append(tuple(side))
    read = tuple(sorted({*columns[1], *(term.column for term in penalised)}))
    return Formula(lhs, rhs, columns[0], read, namespace, engine, penalised), borrowed


def _advice_on(name: str, formula: str, columns: Iterable[Any]) -> str:
    """What somebody who wrote an unknown name probably meant; empty if nothing is like it."""
    if isinstance(getattr(np, name, None), np.ufunc):
        return f" Write np.{name}(...)."
    if re.search(rf"[!=]=\s*{re.escape(name)}\b", formula):
        return f" Write {name!r} with quotation marks if it is a value of a column."
    alike = {str(column).lower(): str(column) for column in columns}
    near = difflib.get_close_matches(name.lower(), alike, n=1, cutoff=0.75)
    return f" Did you mean {alike[near[0]]}?" if near else ""


def split(formula: str, argument: str) -> tuple[str | None, str]:
    """Split at the one ``~`` outside brackets and quotes: ``I(~a) ~ x`` has its in the middle."""
    if not isinstance(formula, str):
        raise DesignError(f"{argument} must be a string, got {type(formula).__name__}.")
    depth = 0
    cuts = []
    for token in re.finditer(r"'[^']*'|\"[^\"]*\"|`[^`]*`|[()\[\]{}~]", formula):
        if token[0] in "([{":
            depth += 1
        elif token[0] in ")]}":
            depth -= 1
        elif token[0] == "~" and depth == 0:
            cuts.append(token.start())
    if len(cuts) != 1:
        raise DesignError(
            f"{argument} must have one '~', as in 'y ~ x' (or '~ x + z' for a selection equation "
            f"that means 'outcome observed'); got {formula!r}."
        )
    return formula[: cuts[0]].strip() or None, "~ " + formula[cuts[0] + 1 :].strip()


def quoting(formula: str, columns: Iterable[Any], engine: Engine) -> str:
    """How to write the column names with spaces and signs that stand unquoted in a formula.

    Examples
    --------
    >>> quoting("y ~ Net income (EUR) + age", ["y", "Net income (EUR)", "age"], "patsy")
    " Write Q('Net income (EUR)') for the column of that name."
    """
    outside = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "", formula)
    odd = [
        name for name in columns
        if isinstance(name, str) and not name.isidentifier() and re.search(r"\w", name)
        and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", outside)
    ]  # fmt: skip
    if not odd:
        return ""
    longest = max(odd, key=len)  # others may be parts of it
    written = f"Q({longest!r})" if engine == "patsy" else f"`{longest}`"
    return f" Write {written} for the column of that name."


def names_used(formula: Formula) -> set[str]:
    """The caller's names that the right-hand side reads."""
    if not formula.namespace:
        return set()
    used, _ = names_read(factor_codes(formula.rhs, formula.engine))
    return used & set(formula.namespace)


def factor_codes(rhs: str, engine: Engine) -> frozenset[str]:
    return frozenset(code for term in factors_by_term(rhs, engine) for code in term)


@lru_cache(maxsize=256)
def factors_by_term(rhs: str, engine: Engine) -> tuple[tuple[str, ...], ...]:
    """The codes of the factors of each term."""
    if engine == "patsy":
        terms = patsy.ModelDesc.from_formula(rhs).rhs_termlist
        return tuple(tuple(factor.code for factor in term.factors) for term in terms)
    import formulaic

    return tuple(
        tuple(
            f"`{factor.expr}`"
            if factor.eval_method.value == "lookup" and not factor.expr.isidentifier()
            else factor.expr
            for factor in term.factors
            if factor.eval_method.value != "literal"
        )
        for term in formulaic.Formula(rhs)
    )


def builtins_of(engine: Engine) -> dict[str, Any]:
    """What the engine and Python make available in every formula."""
    if engine == "patsy":
        from patsy import builtins

        known = {name: getattr(builtins, name) for name in builtins.__all__}
    else:
        from formulaic.transforms import TRANSFORMS

        known = dict(TRANSFORMS)
    return {**vars(__import__("builtins")), **known}


def _own(value: Any) -> Any:
    """Values that users may change later are copied; functions, modules and the like are not."""
    mutable = (np.ndarray, pd.Series, pd.DataFrame, list, dict, set)
    if not isinstance(value, mutable):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # it holds what cannot be copied, such as a lock
        return value


def _row_long(value: Any, n: int) -> bool:
    """Is it a variable with a value per row, rather than a constant such as spline knots?"""
    return isinstance(value, (np.ndarray, pd.Series, pd.Categorical)) and np.shape(value) == (n,)


# What numpy and pandas raise over the values that a formula reads, which the engines let through.
# Not OSError and the like: chunks of data are read while formulas learn from them.
_BROKEN = (
    ArithmeticError, AssertionError, AttributeError, LookupError, NameError, NotImplementedError,
    TypeError, ValueError,
)  # fmt: skip


# What patsy, numpy and Python say, and what to do about it.
_HINTS = {
    r"does not match any of the expected levels": "The level was not seen when the design was "
    "built.",
    r"outermost knots": "Give bs() a lower_bound and an upper_bound that cover all data.",
    r"ufunc.*\bstr\b|unsupported operand.*'str'|(multiply sequence|concatenate str)": "A column in "
    "it holds text where numbers are needed: convert it first.",
}


@contextmanager
def errors_named(formula: str, quote: str = "") -> Iterator[None]:
    """Turn the engines' errors into ours, which name the formula; ``quote`` is advice on names."""
    try:
        yield
    except patsy.PatsyError as error:
        raise DesignError(f"cannot evaluate {formula!r}: {_with_hint(error, quote)}") from error
    except SyntaxError as error:
        raise DesignError(f"cannot read {formula!r}: {error.msg}.{quote}") from error
    except DesignError:
        raise
    except RecursionError as error:
        raise DesignError(
            f"cannot read {formula[:40]!r}...: it has too many terms for the formula engine. Pass "
            "arrays to the class itself."
        ) from error
    except Exception as error:
        if isinstance(error, _BROKEN) or type(error).__module__.startswith("formulaic"):
            raise DesignError(f"cannot evaluate {formula!r}: {_with_hint(error, quote)}") from error
        raise


def _with_hint(error: Exception, quote: str) -> str:
    """The engine's words, and what to do; below the line where the engine points at a place."""
    said = str(error)
    hint = next((f" {advice}" for words, advice in _HINTS.items() if re.search(words, said)), quote)
    return said + ("\n" + hint.strip() if hint and "\n" in said else hint)


# -- the code of one term --------------------------------------------------------------------------


def names_read(codes: Iterable[str]) -> tuple[set[str], set[str]]:
    """Names that Python expressions read, and the column names they quote."""
    names: set[str] = set()
    quoted: set[str] = set()
    bound: set[str] = set()
    for code in codes:
        if code.isidentifier() and not iskeyword(code):
            names.add(code)
            continue
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


def of_columns(formula: Formula) -> bool:
    """Whether all factors are columns, whose terms are known where the columns are."""
    codes = factor_codes(formula.rhs, formula.engine)
    return all(column_coded(code, formula.rhs_columns) is not None for code in codes)


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


# -- which terms depend on other rows: means, ranks, quantiles, sums along the rows ----------------
# Transforms of patsy and formulaic that learn from all rows once, or look at one row at a time.
_LEARNING = {
    "C", "I", "Q", "Diff", "Helmert", "Poly", "Sum", "Treatment", "bs", "cc", "center", "contr",
    "cr", "cs", "log", "log10", "log2", "exp", "exp10", "exp2", "poly", "scale", "standardize",
    "te", "abs", "float", "int", "bool",
}  # fmt: skip

_ELEMENTWISE = {"clip", "where", "nan_to_num", "round", "isclose"}  # numpy's that are no ufuncs


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


# -- penalised terms -------------------------------------------------------------------------------


def split_terms(
    rhs: str, scope: Mapping[str, Any], columns: Sequence[str]
) -> tuple[str, tuple[Wanted, ...]]:
    """Take the penalised terms out of a right-hand side, ``"~ x + re(g)"``.

    Examples
    --------
    >>> split_terms("~ x + re(g, sd=0.5)", {}, ["x", "g"])
    ('~ x', (Wanted(kind='re', column='g', df=None, fixed=4.0),))
    """
    if not re.search(r"\b(re|smooth)\s*\(", rhs):
        return rhs, ()
    kept: list[str] = []
    wanted: list[Wanted] = []
    for sign, part in _summands(rhs.removeprefix("~")):
        call = _call(part)
        if call is None:
            if _mentions(part):
                raise DesignError(
                    f"{part.strip()!r} combines a penalised term with others. re() and smooth() "
                    "are terms of their own, joined by '+' only: compute interactions as a column, "
                    "such as a factor of both."
                )
            kept.append(f"{sign} {part.strip()}")
            continue
        if sign == "-":
            raise DesignError(
                f"'- {part.strip()}': a penalised term cannot be subtracted; leave it out instead"
            )
        wanted.append(_read(call, part.strip(), scope, tuple(columns)))
    names = [each.name for each in wanted]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DesignError(f"{rhs!r} has {twice[0]} twice; one of them is enough.")
    rest = " ".join(kept).strip().removeprefix("+").strip()
    return f"~ {rest or '1'}", tuple(wanted)


def _summands(rhs: str) -> list[tuple[str, str]]:
    """The parts between plus and minus signs outside brackets and quotes, with their signs."""
    found, depth, start, sign = [], 0, 0, "+"
    for token in re.finditer(r"'[^']*'|\"[^\"]*\"|`[^`]*`|[()\[\]{}+-]", rhs):
        if token[0] in "([{":
            depth += 1
        elif token[0] in ")]}":
            depth -= 1
        elif token[0] in "+-" and depth == 0:
            found.append((sign, rhs[start : token.start()]))
            sign, start = token[0], token.end()
    found.append((sign, rhs[start:]))
    return [(sign, part) for sign, part in found if part.strip()]


def _call(part: str) -> ast.Call | None:
    """The call of ``re`` or ``smooth`` that a summand is."""
    quoted = re.sub(r"`([^`]*)`", lambda found: f"Q({found[1]!r})", part.strip())
    try:
        node = ast.parse(quoted, mode="eval").body
    except SyntaxError:
        return None
    match node:
        case ast.Call(func=ast.Name(id="re" | "smooth")):
            return node
    return None


def _mentions(part: str) -> bool:
    """Whether a penalised term stands inside; ``re.sub(...)`` of the caller's does not."""
    unquoted = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "''", part)
    return re.search(r"(?<![\w.])(re|smooth)\s*\(", unquoted) is not None


def _read(call: ast.Call, text: str, scope: Mapping[str, Any], columns: tuple[str, ...]) -> Wanted:
    assert isinstance(call.func, ast.Name)
    kind: Kind = "re" if call.func.id == "re" else "smooth"
    if len(call.args) != 1:
        raise DesignError(f"{text!r} needs one column, as in {_AS_IN[kind]}.")
    code = ast.unparse(call.args[0])
    column = column_named(code, columns)
    if column is None:
        names, quoted = names_read([code])
        unknown = sorted((names | quoted) - set(columns))
        if isinstance(call.args[0], ast.Name) or quoted:
            raise DesignError(
                f"{text!r} reads {unknown[0]!r}, which is not a column of data; the columns are "
                f"{listing(columns, 20)}."
            )
        raise DesignError(
            f"{text!r} reads an expression; compute {code} as a column of the data and name that."
        )
    given: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg not in _KEYWORDS[kind]:
            raise DesignError(
                f"{text!r} has the option {keyword.arg!r}; {kind}() takes "
                f"{' and '.join(_KEYWORDS[kind])}."
            )
        given[keyword.arg] = _value(keyword.value, scope, text)
    return wanted_term(kind, column, text, **given)


def _value(node: ast.expr, scope: Mapping[str, Any], text: str) -> Any:
    if isinstance(node, ast.Name) and node.id in scope:
        return scope[node.id]
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise DesignError(f"{text!r}: {ast.unparse(node)!r} is not a number") from error


def wanted_term(
    kind: Kind, column: str, text: str, sd: Any = None, df: Any = None, penalty: Any = None
) -> Wanted:
    """Check the options of a term."""
    if sd is not None and not (_is_number(sd) and 0 < sd < np.inf):
        raise DesignError(f"{text!r}: sd={sd!r} must be a positive number, or left out.")
    if penalty is not None and not (_is_number(penalty) and 0 <= penalty < np.inf):
        raise DesignError(f"{text!r}: penalty={penalty!r} must be a nonnegative number.")
    if df is not None and not (
        isinstance(df, int | np.integer) and not isinstance(df, bool) and df >= LEAST_DF
    ):
        raise DesignError(f"{text!r}: df={df!r} must be an integer of at least {LEAST_DF}.")
    fixed = float(penalty) if penalty is not None else None
    if sd is not None:
        fixed = float(sd) ** -2
    return Wanted(kind, column, None if df is None else int(df), fixed)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
