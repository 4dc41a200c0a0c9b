"""The names of a fit are those that users call."""

from pathlib import Path

import pytest
from statsmodels.discrete.discrete_model import Logit

from statsmodels_mnar import BiasCorrLogit, GreeneSelectionLogit
from statsmodels_mnar.datasets import simulate_greene

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("kind", [GreeneSelectionLogit, BiasCorrLogit])
def test_every_public_name_is_statsmodels_own_or_documented(kind):
    sim = simulate_greene(800, rng=1)
    model = kind.from_formula(
        sim.formula, sim.select_formula, sim.data, normalization={"sigma": 1.0}
    )
    results = model.fit()
    text = "\n".join(path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md"))
    labelled = sim.data[sim.data.s == 1]
    logit = Logit.from_formula("y ~ x1", labelled).fit(disp=False)
    usual = {*dir(logit), "cov_params_default", "df_modelwc"}  # the last two of other models
    own = {name for name in dir(results) if not name.startswith("_")} - usual
    assert {"sigma", "profile", "bootstrap"} <= own
    assert sorted(name for name in own if name not in text) == []


def test_names_that_are_not_listed_still_work():
    sim = simulate_greene(800, rng=1)
    results = GreeneSelectionLogit.from_formula(sim.formula, sim.select_formula, sim.data).fit()
    assert "score_obsv" not in dir(results)
    assert results.score_obsv.shape == (800, len(results.params))
