"""Scripts that start processes: those import the script again, and must not start more."""

from __future__ import annotations

import ast
import multiprocessing
import sys
from pathlib import Path


def check_guarded(what: str, call: str) -> None:
    """Raise where a script would start processes while they import it.

    Parameters
    ----------
    what : str
        The function, for the error.
    call : str
        The line of the script that calls it, for the error.
    """
    importing = getattr(multiprocessing.current_process(), "_inheriting", False)
    if importing or _at_top_of_script():
        raise RuntimeError(
            f"{what} was called while the script is being imported. It starts processes, and each "
            "of them imports the script first, so the call belongs under a condition that only the "
            "script itself fulfils:\n\n"
            '    if __name__ == "__main__":\n'
            f"        {call}\n"
            "            ...  # build and fit the model here\n"
        )


def _at_top_of_script() -> bool:
    """Whether the script's statement that led here is executed whenever it is imported."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if path is None:  # a notebook, an interpreter, python -c: nothing to import
        return False
    frame = sys._getframe()
    line = None
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__":
            line = frame.f_lineno if frame.f_code.co_filename == path else None
        if frame.f_back is None:
            break
        frame = frame.f_back
    if line is None:
        return False
    try:
        body = ast.parse(Path(path).read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return False
    asking = [node for node in body if isinstance(node, ast.If) and _asks_for_name(node.test)]
    return not any(node.lineno <= line <= (node.end_lineno or line) for node in asking) and not any(
        _leaves(node) for node in asking
    )


def _asks_for_name(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(test))


def _leaves(node: ast.If) -> bool:
    """Whether the script ends here when it is imported: ``if __name__ != "__main__": exit()``."""
    different = any(isinstance(part, ast.NotEq) for part in ast.walk(node.test))
    return different and any(isinstance(part, ast.Raise | ast.Call) for part in ast.walk(node))
