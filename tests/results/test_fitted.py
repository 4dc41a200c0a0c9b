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
    usual = set(dir(logit))
    own = {name for name in dir(results) if not name.startswith("_")} - usual
    assert {"sigma", "profile", "bootstrap"} <= own
    assert sorted(name for name in own if name not in text) == []


def test_names_that_are_not_listed_still_work():
    sim = simulate_greene(800, rng=1)
    results = GreeneSelectionLogit.from_formula(sim.formula, sim.select_formula, sim.data).fit()
    hidden = {"score_obsv", "cov_params_default", "group_effects", "simulation_error"}
    assert not hidden & set(dir(results))
    assert not {"expand", "sibling", "parametrized"} & set(dir(results.model))
    assert {"fit", "loglike", "param_names", "design"} <= set(dir(results.model))
    assert results.score_obsv.shape == (800, len(results.params))
    assert results.cov_params_default.shape == (len(results.params),) * 2


def test_names_that_a_fit_has_a_use_for_are_listed():
    sim = simulate_greene(400, rng=1)
    sim.data["g"] = sim.data.index % 5
    formulas = f"{sim.formula} + re(g)", sim.select_formula
    terms = GreeneSelectionLogit.from_formula(*formulas, sim.data).fit()
    drawn = GreeneSelectionLogit.from_formula(
        sim.formula, sim.select_formula, sim.data,
        normalization={"sigma": 1.0, "rho": 0.5}, integration="simulation",
    ).fit()  # fmt: skip
    assert "group_effects" in dir(terms)
    assert "simulation_error" in dir(drawn)


def test_levels_that_are_the_clusters_have_no_clustered_errors():
    sim = simulate_greene(1_000, rng=1)
    data = sim.data.assign(officer=sim.data.index % 8)
    model = GreeneSelectionLogit.from_formula("y ~ x1", "s ~ x1 + z + C(officer)", data)
    results = model.fit(cov_type="cluster", cov_kwds={"groups": "officer"})
    text = " ".join(str(results.summary()).split())
    assert "from zero in one cluster only: C(officer) (7 levels)" in text
    assert results.instrument.verdict == "unknown"
    other = model.fit(cov_type="cluster", cov_kwds={"groups": data.index % 50})
    assert "one cluster only" not in " ".join(str(other.summary()).split())
