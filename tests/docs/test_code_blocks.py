"""Every Python example in the README and in docs/ runs, and the README's commands are complete.

A block fenced as ```python is executed; blocks of one file share a namespace, as a reader who types
them one after another would. A ```text block right after it must be what it prints. To show code
that must not run, fence it as ```python no-run.
"""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON_BLOCK = re.compile(r"^```python[ \t]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
OUTPUT_BLOCK = re.compile(r"\n*^```text[ \t]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND_BLOCK = re.compile(
    r"^<!-- command: (\w+) -->\n\s*```bash\n(.*?)^```", re.MULTILINE | re.DOTALL
)


def pages_with_examples() -> list[Path]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [p for p in pages if p.is_file() and PYTHON_BLOCK.search(p.read_text(encoding="utf-8"))]


# Of a second and more each; what they show is tested elsewhere.
LONG = (
    "identification", "comparison", "identification-report", "baselines", "many-fits",
    "why-biascorr", "plots", "exclusion", "selection-bias", "integration", "tables", "large-data",
    "replication", "start", "machine-learning", "masking-study",
)  # fmt: skip


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.full if page.stem in LONG else ())
        for page in pages_with_examples()
    ],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    namespace = {"__name__": "__main__"}
    for block in PYTHON_BLOCK.finditer(text):
        lines_above = text.count("\n", 0, block.start(1))
        # The blank lines make a traceback point at the line of the page.
        code = compile("\n" * lines_above + block[1], str(page), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, namespace)
        shown = OUTPUT_BLOCK.match(text, block.end() + 1)
        if shown:
            assert shown[1].rstrip() == printed.getvalue().rstrip()


def test_readme_commands_start_from_nothing_and_pin_torch():
    commands = dict(COMMAND_BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    assert {"demo", "test"} <= commands.keys()
    for command in (commands["demo"], commands["test"]):
        assert "-m venv .venv" in command
        assert "torch==" in command  # a range would bring gigabytes of CUDA packages on Linux
