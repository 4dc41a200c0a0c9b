"""Write what the examples of a page print into the page, and what they draw into its pictures.

``python tests/docs/regenerate.py README.md docs/start.md`` runs the Python blocks of each page in
one namespace, as test_code_blocks.py does, and replaces each ```text block that follows one. The
picture that a block saves replaces the image that the page shows next. Those of
``examples/reject_inference.py``, ``credit_card.py`` and ``masking_study.py`` are copied by hand.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from test_code_blocks import OUTPUT_BLOCK, PYTHON_BLOCK


def regenerate(page: Path) -> bool:
    """Return whether the page has changed."""
    text = page.read_text(encoding="utf-8")
    pieces, end = [], 0
    namespace = {"__name__": "__main__"}
    for block in PYTHON_BLOCK.finditer(text):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(block[1], str(page), "exec"), namespace)
        saved = re.search(r'savefig\("([^"]+)"', block[1])
        image = re.compile(r"!\[[^\]]*\]\(([^)]+)\)").search(text, block.end())
        if saved and image:
            shutil.copy(saved[1], page.parent / image[1])
        shown = OUTPUT_BLOCK.match(text, block.end() + 1)
        if shown:
            pieces += [text[end : shown.start(1)], printed.getvalue().rstrip() + "\n"]
            end = shown.end(1)
    changed = "".join(pieces) + text[end:]
    page.write_text(changed, encoding="utf-8")
    return changed != text


if __name__ == "__main__":
    pages = [Path(name).resolve() for name in sys.argv[1:]]
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            print(page, "changed" if regenerate(page) else "unchanged", flush=True)
