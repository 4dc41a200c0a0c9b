"""The command line and the examples, run as a user would."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from statsmodels_mnar.__main__ import main

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def test_demo_prints_summary_and_comparison(capsys):
    assert main(["demo", "--rows", "1000", "--seed", "1"]) == 0
    printed = capsys.readouterr().out
    for text in ("GreeneSelectionLogit Results", "naive logit", "BiasCorr", "truth"):
        assert text in printed


def test_user_mistakes_end_with_a_message_and_no_traceback(capsys):
    assert main(["demo", "--rows", "10"]) == 2
    assert "rows=10 is too few" in capsys.readouterr().err
    with pytest.raises(SystemExit) as error:
        main(["dmeo"])
    assert error.value.code == 2


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    assert "Results" in capsys.readouterr().out
