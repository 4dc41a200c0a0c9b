"""The README: its commands are what CI runs, its links lead somewhere, its command line exists."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from statsmodels_mnar.__main__ import _parser

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MARKED = re.compile(r"^<!-- command: (\w+) -->\n```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands() -> dict[str, str]:
    return dict(MARKED.findall(README))


def test_there_are_two_commands_of_one_line_each():
    assert commands().keys() == {"demo", "test"}
    assert all(text.count("\n") == 1 for text in commands().values())


@pytest.mark.parametrize("name", ["demo", "test"])
@pytest.mark.skipif(shutil.which("bash") is None, reason="the CI script needs bash")
def test_ci_runs_the_command_word_for_word(name, tmp_path):
    """CI's own function, with the command replaced by one that prints what would be run."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.search(rf"^step '[^']*' readme_command {name}$", script, re.MULTILINE)
    function = re.search(r"^readme_command\(\) \{\n.*?^\}", script, re.MULTILINE | re.DOTALL)
    assert function is not None
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "README.md").write_text(README, encoding="utf-8")
    # In place of the shell that would run the script: one that prints it.
    body = function[0].replace('bash -euo pipefail "$script"', 'echo ran; cat "$script"')
    assert body != function[0]
    lines = f"work={tmp_path}; copy={copy}\n{body}\nreadme_command {name}"
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", lines], capture_output=True, text=True, check=True
    ).stdout
    shown, _, executed = ran.partition("ran\n")
    assert shown == executed == commands()[name]


def test_commands_lead_to_the_demonstration_and_the_tests():
    demo, test = (shlex.split(commands()[name]) for name in ("demo", "test"))
    assert demo[-3:] == ["-m", "statsmodels_mnar", "demo"]
    assert test[-1] == ".venv/bin/pytest"


def test_command_lines_shown_are_accepted():
    shown = re.findall(r"^(?:statsmodels-mnar|python -m statsmodels_mnar) (.+)$", README, re.M)
    assert shown
    for line in shown:
        assert callable(_parser().parse_args(shlex.split(line)).run)


def test_links_and_pictures_lead_to_files():
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README)
    local = [target for target in targets if "://" not in target]
    assert len(local) > 10
    assert [target for target in local if not (ROOT / target).exists()] == []


def test_pictures_have_alternative_texts_and_are_small():
    pictures = re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", README)
    assert pictures
    for words, target in pictures:
        assert len(words) > 40
        assert (ROOT / target).stat().st_size < 100_000
