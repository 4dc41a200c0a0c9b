"""The command line's frame: demo, help, and how mistakes end."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from statsmodels_mnar import __version__
from statsmodels_mnar.__main__ import main
from statsmodels_mnar.datasets import simulate_greene


def test_demo_prints_summaries_and_comparison_and_saves_figures(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--rows", "1000", "--seed", "1"]) == 0
    printed, said = capsys.readouterr()
    for text in (
        "GreeneSelectionLogit Results",
        "BiasCorrLogit Results",
        "Average marginal effects",
        "Beside the truth",
        "What it shows",
        "In demo: report.html",
    ):
        assert text in printed
    assert said == ""
    names = {path.name for path in (tmp_path / "demo").iterdir()}
    assert names == {"report.html", "effects.png", "profile.png", "probabilities.png"}


@pytest.mark.full
def test_demo_without_matplotlib_says_how_to_get_figures(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("statsmodels_mnar.demo.find_spec", lambda name: None)
    assert main(["demo", "--rows", "500", "--out", str(tmp_path / "new" / "folder")]) == 0
    assert "Figures need matplotlib: pip install" in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["report.html"]


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"statsmodels-mnar {__version__}\n"


def test_user_mistakes_end_with_a_message_and_no_traceback(capsys):
    assert main(["demo", "--rows", "10"]) == 2
    assert "rows=10 is too few" in capsys.readouterr().err
    assert main(["demo", "--seed", "-1"]) == 2
    assert "seed=-1" in capsys.readouterr().err
    with pytest.raises(SystemExit) as error:
        main(["dmeo"])
    assert error.value.code == 2


@pytest.mark.parametrize("command", [[], ["demo"], ["fit"]], ids=str)
def test_help_of_every_command(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([*command, "--help"])
    assert end.value.code == 0
    assert "usage: statsmodels-mnar" in capsys.readouterr().out


def test_replication_is_a_command_of_the_clone(capsys):
    assert main(["replicate", "table1", "--data", "files"]) == 2
    assert "python -m examples.replication" in capsys.readouterr().err


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


def test_module_is_run_and_a_closed_pipe_is_no_error(tmp_path):
    """As ``python -m statsmodels_mnar fit data.csv ... | head -1``."""
    sim = simulate_greene(500, rng=1)
    sim.data.to_csv(tmp_path / "data.csv", index=False)
    command = [sys.executable, "-m", "statsmodels_mnar", "fit", str(tmp_path / "data.csv")]
    command += [sim.formula, sim.select_formula]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 0
    assert said == ""


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for one process")
def test_ctrl_c_ends_a_running_command(tmp_path):
    """A signal in the middle of the fits, which the first progress bar announces."""
    simulate_greene(20_000).data.to_csv(tmp_path / "data.csv", index=False)
    command = [sys.executable, "-m", "statsmodels_mnar", "fit", "data.csv", "y ~ x1 + x2"]
    command += [
        "s ~ x1 + x2 + z",
        "--out",
        "report.html",
        "--progress",
        "--normalization",
        "loading",
    ]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        process.stderr.read(1)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130
    assert said.endswith("statsmodels-mnar: interrupted\n")
    assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]
