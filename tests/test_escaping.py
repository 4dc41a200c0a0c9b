"""Names and labels are text in every HTML that the package writes."""

from __future__ import annotations

import warnings
from html import escape

import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection
from statsmodels_mnar.baselines import IPWLogit, NaiveLogit
from statsmodels_mnar.datasets import simulate_greene

EVIL = "<script>alert(1)</script>"
QUOTE = "x\"'><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def arrays():
    """Designs whose columns, outcome and selection indicator have hostile names."""
    data = simulate_greene(300, rng=1).data
    one = np.ones(300)
    exog = pd.DataFrame({"const": one, EVIL: data.x1, QUOTE: data.x2})
    select = exog.assign(**{f"{EVIL} z": data.z})
    return data.y.rename(f"{EVIL} y"), exog, data.s.rename(f"{EVIL} s"), select


@pytest.fixture(scope="module")
def results(arrays):
    return GreeneSelectionLogit(*arrays, normalization="loading").fit()


def check(html: str) -> None:
    for tag in ("<script", "<img"):
        assert tag not in html.lower().replace('<img src="data:', "")
    assert escape(EVIL) in html


SHOWN = {
    "summary": lambda r: r.summary().as_html(),
    "in a notebook": lambda r: r.summary()._repr_html_(),
    "one table": lambda r: r.summary().tables[1]._repr_html_(),
    "the header": lambda r: r.summary().tables[0].as_html(),
    "names given": lambda r: r.summary(
        yname=EVIL, xname=[f"{EVIL}{i}" for i in range(8)], title=EVIL
    ).as_html(),
    "summary2": lambda r: r.summary2()._repr_html_(),
    "effects": lambda r: r.get_margeff().summary()._repr_html_(),
    "bootstrap": lambda r: r.bootstrap(2, rng=0).summary()._repr_html_(),
    "frames": lambda r: r.tidy()._repr_html_(),
    "comparison": lambda r: r.get_margeff().summary_frame()._repr_html_(),
}


@pytest.mark.parametrize("name", SHOWN)
def test_names_are_text(results, name):
    check(SHOWN[name](results))


@pytest.mark.parametrize("kind", [NaiveLogit, IPWLogit, ProbitSelection, BiasCorrLogit])
def test_of_every_class(arrays, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(kind(*arrays).fit().summary()._repr_html_())


def test_levels_of_a_factor_are_text():
    data = simulate_greene(300, rng=1).data
    data["g"] = np.where(data.x2 > 0, EVIL, "!")
    model = GreeneSelectionLogit.from_formula(
        "y ~ x1 + g", "s ~ x1 + z", data, normalization="loading"
    )
    check(model.fit().summary().as_html())


def test_the_report_too(results, tmp_path):
    path = results.report(tmp_path / "fit.html", title=EVIL, figures=False)
    check(path.read_text(encoding="utf-8"))


def test_text_and_latex_are_as_before(results):
    summary = results.summary()
    before = str(summary)
    summary.as_html()
    assert str(summary) == before
    assert EVIL in before  # text is shown as it is
    assert "coef" in summary.as_latex()
