"""The reader's tour in docs/architecture names the modules that a fit with its summary enters."""

import re
import sys
from pathlib import Path
from types import FrameType

import pytest

import statsmodels_mnar
from statsmodels_mnar import GreeneSelectionLogit
from statsmodels_mnar.datasets import simulate_greene

PACKAGE = Path(statsmodels_mnar.__file__).parent
PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
OF_OTHER_FORMS = {"models/free", "kernel/full_line"}  # which the tour names beside the way


@pytest.fixture
def entered():
    """The modules whose functions a fit with its summary calls."""
    simulated = simulate_greene(800, rng=1)  # few labels: a profile is traced for the intervals
    found: set[str] = set()

    def watch(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            found.add(str(path.relative_to(PACKAGE).with_suffix("")))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        GreeneSelectionLogit.from_formula(
            simulated.formula, simulated.select_formula, simulated.data
        ).fit().summary()
    finally:
        sys.setprofile(before)
    return found


def test_the_tour_of_a_fit_is_complete(entered):
    text = PAGE.read_text(encoding="utf-8")
    tour, rest = re.search(r"\*\*A fit\.\*\*(.*?)\n\n(These are .*?)\n\n", text, re.S).groups()
    named = set(re.findall(r"`((?:\w+/)?\w+)\.py`", tour))
    assert entered == named - OF_OTHER_FORMS
    assert f"These are the {len(entered)} modules" in rest
