"""Pickling of what a formula has learned.

patsy forbids pickling of its objects because their layout may change between patsy versions.
A fitted model has to survive ``pickle`` all the same, as it does in statsmodels, so the pickler
here writes them as plain (class, attributes) pairs. A pickle is to be read with the library
versions that wrote it, as any pickle is.
"""

from __future__ import annotations

import copyreg
import importlib
import io
import pickle
import sys
from types import FunctionType, ModuleType
from typing import Any

import patsy

__all__ = ["dumps"]


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
