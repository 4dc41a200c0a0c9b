"""The worked analysis runs where the data are, and says what is missing where they are not."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "credit_card.py"


@pytest.fixture
def main():
    return runpy.run_path(str(SCRIPT))["main"]


def test_absent_data_end_it_with_advice(main, tmp_path):
    with pytest.raises(SystemExit, match=r"AmEx\.csv was not found in .*HeckmanSelect"):
        main(["--data", str(tmp_path)])


@pytest.mark.slow
def test_page_shows_what_the_analysis_prints(main, shared, tmp_path, capsys):
    main(["--data", str(shared / "data"), "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    page = (SCRIPT.parents[1] / "docs" / "credit-card.md").read_text(encoding="utf-8")
    sections = printed.strip().split("\n\n")
    assert len(list(tmp_path.glob("*.png"))) == 9
    for section in sections[:-1]:  # the last names the folder
        assert section.rstrip() in page
