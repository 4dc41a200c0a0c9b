"""The command line's frame: demo, help, and how mistakes end."""

from __future__ import annotations

import subprocess
import sys

import pytest

from statsmodels_mnar.__main__ import main


def test_demo_prints_summaries_and_comparison(capsys):
    assert main(["demo", "--rows", "1000", "--seed", "1"]) == 0
    printed, said = capsys.readouterr()
    for text in (
        "GreeneSelectionLogit Results",
        "BiasCorrLogit Results",
        "Average marginal effects",
        "Beside the truth",
    ):
        assert text in printed
    assert said == ""


def test_demo_saves_figures_and_a_report(tmp_path, capsys):
    assert main(["demo", "--rows", "1000", "--out", str(tmp_path / "new")]) == 0
    names = {path.name for path in (tmp_path / "new").iterdir()}
    assert names == {"report.html", "effects.png", "profile.png", "probabilities.png"}
    assert "report.html" in capsys.readouterr().out


def test_user_mistakes_end_with_a_message_and_no_traceback(capsys):
    assert main(["demo", "--rows", "10"]) == 2
    assert "rows=10 is too few" in capsys.readouterr().err
    with pytest.raises(SystemExit) as error:
        main(["dmeo"])
    assert error.value.code == 2


@pytest.mark.parametrize("command", [[], ["demo"], ["fit"], ["replicate"]], ids=str)
def test_help_of_every_command(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([*command, "--help"])
    assert end.value.code == 0
    assert "usage: statsmodels-mnar" in capsys.readouterr().out


def test_exit_codes_are_documented(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = capsys.readouterr().out
    assert "exit codes:" in printed
    assert all(f"\n  {code} " in printed for code in (0, 1, 2, 3, 130))


def test_interruption_ends_without_a_traceback(monkeypatch, capsys):
    def interrupt(*args: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("statsmodels_mnar.__main__.demo", interrupt)
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == "statsmodels-mnar: interrupted\n"


def test_module_is_run_and_a_closed_pipe_is_no_error():
    """As ``python -m statsmodels_mnar demo | head -1``."""
    command = [sys.executable, "-m", "statsmodels_mnar", "demo", "--rows", "500"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 0
    assert said == ""
