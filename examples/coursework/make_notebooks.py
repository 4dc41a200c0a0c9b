"""Problem sets as notebooks, with or without their solutions and what these print.

python examples/coursework/make_notebooks.py --out notebooks [--without-solutions] [--run]

The percent files beside this one are the source of truth; a cell is part of the solution where it
has the tag "solution". ``--run`` runs the cells, in this process, and keeps what they print: so
``--run --out examples/coursework`` makes the notebooks of the repository. Needs jupytext.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import jupytext
from nbformat.v4 import output_from_msg

HERE = Path(__file__).resolve().parent


def make(
    out: Path, *, solutions: bool = True, run: bool = False, names: str = "[0-9]_*"
) -> list[Path]:
    """Write a notebook for every problem set; without outputs unless the cells are run."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for source in sorted(HERE.glob(f"{names}.py")):
        notebook = jupytext.read(source)
        for number, cell in enumerate(notebook.cells):
            cell.id = f"cell-{number}"  # jupytext's are random
        if run:
            fill(notebook.cells)
        if not solutions:
            notebook.cells = [
                cell for cell in notebook.cells if "solution" not in cell.metadata.get("tags", ())
            ]
        written.append(out / f"{source.stem}.ipynb")
        jupytext.write(notebook, written[-1])
    return written


def fill(cells: list[Any]) -> None:
    """Run the cells one after another, as a notebook does, and put what they print below them."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    hidden = {"STATSMODELS_MNAR_DATA": "", "XDG_CACHE_HOME": os.devnull}  # for data shipped by all
    count = 0
    with mock.patch.dict(os.environ, hidden), mock.patch.object(sys, "argv", ["notebook"]):
        for cell in cells:
            if cell.cell_type != "code":
                continue
            count += 1
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(cell.source, f"cell {count}", "exec"), namespace)
            cell.execution_count = count
            text = printed.getvalue()
            if text:
                said = {"name": "stdout", "text": text}
                message = {"header": {"msg_type": "stream"}, "content": said}
                cell.outputs = [output_from_msg(message)]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("notebooks"), help="folder to write to")
    parser.add_argument("--without-solutions", action="store_true", help="for handing out")
    parser.add_argument("--run", action="store_true", help="run the cells and keep what they print")
    options = parser.parse_args(arguments)
    for path in make(options.out, solutions=not options.without_solutions, run=options.run):
        print(path)


if __name__ == "__main__":
    main()
