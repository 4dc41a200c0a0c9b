"""The example of masking studies runs without the files, and on them where they are."""

from __future__ import annotations

import random

import matplotlib.image
import pandas as pd
import pytest

from tests.examples.test_examples import load


@pytest.mark.full
def test_without_files_simulated_applications_are_studied(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("STATSMODELS_MNAR_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    example = load("masking_study")
    state = random.getstate()  # scikit-learn's booster draws from it
    example.main(["--rows", "800", "--repeats", "1", "--out", str(tmp_path / "figures")])
    random.setstate(state)
    assert "Simulated applications in their place" in capsys.readouterr().out
    frame = pd.read_csv(tmp_path / "figures" / "masking_study.csv")
    assert frame["dataset"].unique().tolist() == ["simulated"]
    assert frame["method"].nunique() == len(example.METHODS) and frame["mechanism"].nunique() == 5
    picture = matplotlib.image.imread(tmp_path / "figures" / "masking_study.png")
    assert picture[..., :3].std() > 0.05  # not a blank sheet


def test_problems_have_the_labels_that_the_page_says(shared):
    example = load("masking_study")
    found = {
        name: data[formula.partition("~")[0].strip()].notna().sum()
        for name, data, formula, _ in example.problems(str(shared / "data"), 4_000)
    }
    assert found == {"German": 1_000, "Adult": 4_000, "credit card": 3_144}
