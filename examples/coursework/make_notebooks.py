"""Problem sets as notebooks, with or without their solutions.

python examples/coursework/make_notebooks.py --out notebooks [--without-solutions]

The percent files beside this one are the source of truth; a cell is part of the solution where it
has the tag "solution". Needs jupytext.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jupytext

HERE = Path(__file__).resolve().parent


def make(out: Path, *, solutions: bool = True) -> list[Path]:
    """Write a notebook, without outputs, for every problem set."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for source in sorted(HERE.glob("[0-9]_*.py")):
        notebook = jupytext.read(source)
        if not solutions:
            notebook.cells = [
                cell for cell in notebook.cells if "solution" not in cell.metadata.get("tags", ())
            ]
        written.append(out / f"{source.stem}.ipynb")
        jupytext.write(notebook, written[-1])
    return written


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("notebooks"), help="folder to write to")
    parser.add_argument("--without-solutions", action="store_true", help="for handing out")
    options = parser.parse_args(arguments)
    for path in make(options.out, solutions=not options.without_solutions):
        print(path)


if __name__ == "__main__":
    main()
