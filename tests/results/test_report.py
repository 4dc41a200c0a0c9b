"""Reports: the page is whole, valid, self-contained, and says what the numbers say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import matplotlib.image
import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar import (
    BiasCorrLogit,
    GreeneSelectionLogit,
    NoExclusionRestrictionWarning,
    ProbitSelection,
    WeakIdentificationWarning,
    exclusion_test,
)
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.results import findings, page
from statsmodels_mnar.results.findings import gather, read
from tests.patience import PATIENCE

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)


def fitted(n: int = 1_000, loading: float = 1.5, model: Any = GreeneSelectionLogit, **options: Any):
    simulated = simulate_greene(n, loading=loading, rng=4)
    how = {} if model is ProbitSelection else {"normalization": "loading"}
    formulas = simulated.formula, simulated.select_formula
    return model.from_formula(*formulas, simulated.data, **(how | options)).fit()


@pytest.fixture(scope="module")
def results():
    return fitted()


@pytest.fixture(scope="module")
def report(results, tmp_path_factory):
    return results.report(tmp_path_factory.mktemp("report") / "fit.html")


@pytest.fixture(scope="module")
def tree(report):
    """The page is written as well-formed XML, which a parser without mercy reads."""
    return ElementTree.fromstring(report.read_text(encoding="utf-8").split("\n", 1)[1])


def text_of(element: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def sentences(results: Any, *, refits: bool = False, alpha: float = 0.05) -> str:
    raw = getattr(results, "_results", results)
    found = gather(raw, alpha, None, refits=refits, progress=False)
    return "\n".join(f"{each.kind}: {each.text}" for each in read(raw, found))


# -- the page --------------------------------------------------------------------------------------


def test_page_has_all_sections_in_order(tree):
    headings = [element.text for element in tree.iter("h2")]
    assert headings == [
        "What the data say",
        "Data",
        "Estimates",
        "Effects and probabilities",
        "Identification",
        "Sensitivity",
        "Calibration",
        "The summary as text",
    ]
    assert len(list(tree.iter("h1"))) == 1
    assert tree.get("lang") == "en"


def test_ids_are_unique_and_sections_are_labelled(tree):
    names = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(names) == len(set(names))
    assert [element.get("aria-labelledby") for element in tree.iter("section")] == names


def test_pictures_are_embedded_and_described(tree):
    pictures = list(tree.iter("img"))
    assert len(pictures) == 6
    for picture in pictures:
        assert picture.get("src").startswith("data:image/png;base64,iVBOR")
        assert len(picture.get("alt")) > 40
        assert int(picture.get("width")) > 0


def test_nothing_is_loaded_from_elsewhere(report, tree):
    without_pictures = re.sub(r'src="data:[^"]*"', "", report.read_text(encoding="utf-8"))
    assert "://" not in without_pictures
    assert "url(" not in without_pictures
    assert "@import" not in without_pictures
    for element in tree.iter():
        assert element.tag not in ("script", "link", "iframe", "object")
        assert element.get("href") is None


def test_tables_have_captions_and_headers(tree):
    tables = list(tree.iter("table"))
    assert len(tables) >= 8
    for table in tables:
        assert text_of(table.find("caption"))
        cells = [row.findall("th") + row.findall("td") for row in table.iter("tr")]
        assert len({len(row) for row in cells}) == 1
        for row in table.find("tbody"):
            assert row.find("th").get("scope") == "row"


def test_numbers_are_those_of_the_results(results, tree):
    tables = {text_of(table.find("caption")): table for table in tree.iter("table")}
    outcome = tables["Outcome equation: y"]
    for row in outcome.find("tbody"):
        name, coefficient, error = (text_of(cell) for cell in list(row)[:3])
        assert coefficient == f"{results.params[name]:.4f}".replace("-", "\N{MINUS SIGN}")
        assert error == f"{results.bse[name]:.4f}"
    effects = results.get_margeff(which="mean-unselected")
    shown = tables["Average marginal effects on P(y = 1 | s = 0)"]
    first = [text_of(row[1]).replace("\N{MINUS SIGN}", "-") for row in shown.find("tbody")]
    assert first == [f"{value:.4f}" for value in effects.margeff]


def test_names_from_the_data_are_escaped(tmp_path):
    simulated = simulate_greene(600, rng=0)
    name = "<script>alert('x')</script> & co"
    data = simulated.data.rename(columns={"x1": name})
    quoted = f'Q("{name}")'
    model = GreeneSelectionLogit.from_formula(
        f"y ~ {quoted} + x2", f"s ~ {quoted} + x2 + z", data, normalization="loading"
    )
    path = model.fit().report(tmp_path / "fit.html", title="a < b", figures=False)
    text = path.read_text(encoding="utf-8")
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "<h1>a &lt; b</h1>" in text
    ElementTree.fromstring(text.split("\n", 1)[1])


@pytest.mark.skipif(BROWSER is None, reason="install chromium")
@pytest.mark.parametrize("width", [1000, 390], ids=["desktop", "phone"])
def test_page_opens_in_a_browser(report, width, tmp_path):
    picture = tmp_path / "page.png"
    said = subprocess.run(
        [
            BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--enable-logging=stderr", f"--user-data-dir={tmp_path / 'profile'}",
            f"--screenshot={picture}", f"--window-size={width},3000", report.as_uri(),
        ],
        capture_output=True, text=True, timeout=PATIENCE, check=True,
    ).stderr  # fmt: skip
    assert "Refused to" not in said  # what the page's own policy forbids
    assert "CONSOLE" not in said
    pixels = matplotlib.image.imread(picture)[..., :3]
    assert pixels.shape == (3000, width, 3)
    for part in np.array_split(pixels, 6):  # text or pictures all the way down
        assert part.std() > 0.02
    assert (pixels[:, -8:] == 1.0).all()  # nothing sticks out to the right


def test_pictures_can_be_left_out(results, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="figures=False"):
        results.report(tmp_path / "fit.html")
    path = results.report(tmp_path / "fit.html", figures=False)
    assert "<img" not in path.read_text(encoding="utf-8")


@pytest.mark.full
def test_report_of_arrays(tmp_path):
    data = simulate_greene(600, rng=0).data
    constant = np.ones(len(data))
    X = np.column_stack([constant, data.x1])
    W = np.column_stack([constant, data.x1, data.z])
    model = GreeneSelectionLogit(data.y, X, data.s, W, normalization="loading")
    path = model.fit().report(tmp_path / "fit.html")
    assert path.read_text(encoding="utf-8").count("<img") == 6


def test_biascorr_reports_what_it_has_and_says_what_it_has_not(tmp_path):
    results = fitted(model=BiasCorrLogit, normalization={"sigma": 1.0})
    text = results.report(tmp_path / "fit.html").read_text(encoding="utf-8")
    assert "No profile: " in text
    assert "No sensitivity to the dependence: " in text
    assert "not the likelihood of the observed data" in text
    assert "Selection is not ignorable" not in text
    assert text.count("<img") == 3


def test_an_outcome_without_covariates_has_a_report_without_effects(tmp_path, monkeypatch):
    """And a picture that cannot be drawn is replaced by the reason."""
    data = simulate_greene(600, rng=0).data
    model = GreeneSelectionLogit.from_formula("y ~ 1", "s ~ x1 + z", data, normalization="loading")
    results = model.fit()

    def refuse_to_draw(*args: Any) -> None:
        raise ValueError("too few rows")

    monkeypatch.setattr(type(results._results), "plot_calibration", refuse_to_draw)
    text = results.report(tmp_path / "fit.html").read_text(encoding="utf-8")
    assert "Average effects" not in text
    assert text.count("<img") == 2  # profile and prevalence, without the calibration
    assert "No picture: too few rows." in text


# -- what it says ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("loading", "word"), [(1.5, "more"), (-1.5, "less")])
def test_dependence_is_read_with_its_sign(loading, word):
    said = sentences(fitted(2_000, loading))
    assert "finding: Selection is not ignorable" in said
    assert f"labelled ones have y = 1 {word} often than unlabelled ones" in said


def test_independence_that_is_not_rejected_is_no_proof():
    said = sentences(fitted(2_000, 0.0))
    assert "do not reject that selection is ignorable" in said
    assert "does not prove it" in said
    assert "is not ignorable" not in said


def test_no_direction_is_claimed_where_the_dependence_is_fixed():
    said = sentences(fitted(2_000, normalization="independent"))
    assert "Selection is not ignorable" in said
    assert "often" not in said


def test_shares_are_observed_and_predicted_means(results):
    found = gather(results._results, 0.05, None, refits=False, progress=False)
    design = results.model.design
    unlabelled = results.predict(which="mean-unselected")[~design.labelled]
    assert found.shares.predicted["labelled"] == design.y[design.labelled].mean()
    assert found.shares.predicted["unlabelled"] == pytest.approx(unlabelled.mean(), rel=1e-12)
    assert found.shares.predicted["all"] == pytest.approx(results.predict().mean(), rel=1e-12)


def test_shares_are_weighted():
    results = fitted(freq_weights=np.tile([1.0, 3.0], 500))
    found = gather(results._results, 0.05, None, refits=False, progress=False)
    design = results.model.design
    seen = design.labelled
    weights = np.tile([1.0, 3.0], 500)
    observed = np.average(design.y[seen], weights=weights[seen])
    predicted = results.predict(which="mean-unselected")
    assert found.shares.predicted["labelled"] == pytest.approx(observed, rel=1e-12)
    assert found.shares.predicted["unlabelled"] == pytest.approx(
        np.average(predicted[~seen], weights=weights[~seen]), rel=1e-12
    )


def test_outcomes_and_factors_that_are_text_are_named_as_in_the_data(tmp_path):
    simulated = simulate_greene(600, rng=4).data
    data = simulated.assign(
        loan=np.where(simulated["y"] == 1, "lost", "paid"),
        my_decision=np.where(simulated["s"] == 1, "yes", "no"),
        officer=pd.cut(simulated["z"], [-9, -0.7, 0, 0.7, 9], labels=["A", "B", "C", "D"]),
    ).rename(columns={"my_decision": "my decision"})
    data["loan"] = data["loan"].where(simulated["s"] == 1)
    formulas = "I(loan == 'lost') ~ x1", "I(Q('my decision') == 'yes') ~ x1 + officer"
    results = GreeneSelectionLogit.from_formula(*formulas, data).fit()
    said = sentences(results)
    assert "Share of loan = 'lost': " in said and "P(loan = 'lost')" in said
    assert "Exclusion restriction: officer (3 levels) moves my decision (Wald" in said
    assert "I(" not in said
    page = results.report(tmp_path / "page.html", figures=False).read_text(encoding="utf-8")
    assert "<h1>GreeneSelectionLogit: loan</h1>" in page
    assert "P(loan = &#x27;lost&#x27; | my decision != &#x27;yes&#x27;)" in page


def test_strength_of_the_exclusion_is_that_of_the_test(results):
    found = gather(results._results, 0.05, None, refits=False, progress=False)
    assert found.exclusion == exclusion_test(results)
    assert "Exclusion restriction: z moves s (Wald" in sentences(results)


@pytest.mark.parametrize(
    ("n", "words"),
    [
        (600, "perfectly correlated"),
        pytest.param(2_000, "has another maximum at error_corr", marks=pytest.mark.full),
    ],
)
def test_a_weak_exclusion_and_none_at_all_are_cautions(n, words):
    rng = np.random.default_rng(0)
    data = simulate_greene(n, rng=4).data.assign(noise=rng.standard_normal(n))
    model = GreeneSelectionLogit.from_formula("y ~ x1 + x2", "s ~ x1 + x2 + noise", data)
    with pytest.warns(WeakIdentificationWarning, match=words):
        weak = model.fit()
    assert "the instrument is weak" in weak.weak
    assert "caution: Exclusion restriction: noise does not detectably move s" in sentences(weak)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoExclusionRestrictionWarning)
        warnings.simplefilter("ignore", WeakIdentificationWarning)
        none = GreeneSelectionLogit.from_formula(
            "y ~ x1 + x2", "s ~ x1 + x2", data, normalization="loading"
        ).fit()
    assert "caution: No variable moves s without entering" in sentences(none)


def test_a_wide_profile_is_a_caution(results):
    raw = results._results
    found = gather(raw, 0.05, None, refits=True, progress=False)
    said = [each.text for each in read(raw, found)]
    assert not any("of its range" in text for text in said)
    wide = replace(found.profile, interval=(-0.9, 0.9), pieces=((-0.9, -0.2), (0.0, 0.9)))
    found = replace(found, identification=replace(found.identification, profile=wide))
    assert any("covers 80% of its range" in each.text for each in read(raw, found))


def test_boundary_is_told():
    simulated = simulate_greene(400, rng=4)
    results = GreeneSelectionLogit.from_formula(
        simulated.formula, simulated.select_formula, simulated.data, normalization="free"
    ).fit()
    assert results.status.boundary
    assert "caution: The likelihood rises to the boundary" in sentences(results)


@pytest.mark.filterwarnings("ignore::statsmodels.tools.sm_exceptions.ConvergenceWarning")
def test_a_fit_that_did_not_converge_is_the_first_thing_said():
    simulated = simulate_greene(1_000, rng=4)
    results = GreeneSelectionLogit.from_formula(
        simulated.formula, simulated.select_formula, simulated.data, normalization="loading"
    ).fit(maxiter=1)
    assert sentences(results).startswith("caution: The fit is not at a maximum")


def test_effects_are_named_by_size_and_the_rest_counted():
    p = 9
    ramp = np.arange(1.0, p + 1)
    effects = findings.MarginalEffects(
        0.01 * ramp, 0.01**2 * np.eye(p), tuple(f"v{i}" for i in range(p)),
        "mean", "overall", "dydx", "", "y",
    )  # fmt: skip
    found: Any = SimpleNamespace(alpha=0.05, effects={"mean": effects})
    said = [each.text for each in findings._about_effects(found, "y")]
    assert "v8 +9.0 (+7.0 to +11.0)" in said[0]
    assert said[0].endswith(", and 2 more.")  # of eight with z of 2 and more, six are named
    assert said[1] == "Not distinguishable from zero: v0."


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ([], "neither its sign nor its significance changes"),
        ([0.7], "tips at 0.70 (the sign changes). None of these lies among"),
        ([0.1, 0.7], "1 of these lies among the values that the data do not reject, -0.20 to 0.30"),
    ],
)
def test_tipping_points_are_put_beside_the_profile_interval(at, words):
    tipping = pd.DataFrame({"at": pd.Series(at, dtype=float), "change": "the sign changes"})
    found: Any = SimpleNamespace(
        variable="x",
        effect=SimpleNamespace(tipping=tipping),
        profile=SimpleNamespace(interval=(-0.2, 0.3)),
        prevalence=None,
    )
    (said,) = findings._about_sensitivity(found)
    assert words in said.text


# -- JSON and LaTeX --------------------------------------------------------------------------------


def refuse(constant: str) -> Any:
    raise AssertionError(f"{constant} is not JSON")


def test_json_holds_the_fit(results, tmp_path):
    path = results.report(tmp_path / "fit.json", alpha=0.1)
    written = json.loads(path.read_text(), parse_constant=refuse)
    assert written["params"] == results.params.to_dict()
    assert written["bse"] == results.bse.to_dict()
    np.testing.assert_array_equal(written["cov"]["matrix"], results.cov_params())
    assert written["conf_int"]["x1"] == results.conf_int(0.1).loc["x1"].tolist()
    assert written["dependence"]["error_corr"]["estimate"] == results.error_corr
    assert written["status"]["name"] == "converged"
    assert written["independence"]["p_value"] == results.test_independence().pvalue
    effects = results.get_margeff(which="mean-unselected")
    assert written["effects"]["mean-unselected"]["z"]["effect"] == effects.margeff[2]
    assert written["versions"]["numpy"] == np.__version__
    assert written["data"] == {
        "nobs": 1_000.0,
        "labelled": results.nobs_selected,
        "missing_ratio": results.eta,
        "dropped": {"subset": 0, "missing": 0, "outcome": 0},
        "outcome": "y",
        "select": "s",
        "weights": None,
        "constant": True,
    }


def test_every_key_of_the_json_is_documented(results, tmp_path):
    written = json.loads(results.report(tmp_path / "fit.json").read_text())
    methods = type(results._results).report, type(results._results).to_json
    text = " ".join(method.__doc__ for method in methods)
    for key, value in written.items():
        assert f"``{key}``" in text
        if key in ("data", "status", "cov", "identification", "likelihoods", "apart", "accuracy"):
            assert all(re.search(rf"\b{name}\b", text) for name in value)


def test_json_has_no_numbers_that_json_does_not_know(tmp_path):
    simulated = simulate_greene(1_000, rng=4)
    formulas = simulated.formula, simulated.select_formula
    limit = GreeneSelectionLogit.from_formula(*formulas, simulated.data, normalization="probit")
    path = limit.fit().report(tmp_path / "fit.json")
    written = json.loads(path.read_text(), parse_constant=refuse)
    assert written["dependence"]["sigma"] == {
        "estimate": "inf",
        "std_error": None,
        "conf_low": None,
        "conf_high": None,
    }


def tabulars(text: str) -> list[list[list[str]]]:
    """The rows of every tabular as cells; each row must have as many as the tabular has columns."""
    found = []
    for columns, body in re.findall(
        r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", text, re.S
    ):
        lines = [line for line in body.split("\n") if line.endswith(r" \\") and "multi" not in line]
        rows = [re.split(r"(?<!\\)&", line.removesuffix(r"\\")) for line in lines]
        assert {len(row) for row in rows} == {len(columns)}
        found.append([[cell.strip() for cell in row] for row in rows])
    return found


def test_latex_has_the_tables(results, tmp_path):
    text = results.report(tmp_path / "fit.tex").read_text(encoding="utf-8")
    header, parameters, *effects = tabulars(text)
    assert results.get_margeff().interval == "profile"  # the sections say so
    assert header[0] == ["Dep. Variable:", "y", "No. Observations:", "1,000"]
    stubs = [row[0] for row in parameters]
    sections = [stub for stub in stubs if stub.startswith(r"\textit")]
    titles = ("Outcome: y", "Selection: s", "Dependence")
    assert sections == [rf"\textit{{{title} (profile intervals)}}" for title in titles]
    row = stubs.index("x1")
    assert parameters[row][1] == f"{results.params['x1']:.4f}"
    assert [row[0] for row in effects[-1]] == ["", "x1", "x2", "z"]


def test_latex_escapes_names_and_notes(tmp_path):
    data = simulate_greene(600, rng=4).data.rename(columns={"x1": "share_%", "y": "a&b"})
    model = BiasCorrLogit.from_formula(
        "Q('a&b') ~ Q('share_%') + x2", "s ~ x2 + z", data, normalization={"sigma": 1.0}
    )
    text = model.fit().report(tmp_path / "fit.tex").read_text(encoding="utf-8")
    assert r"Q('share\_\%')" in text
    assert r"g\_s, g\_y" in text  # in the text below the tables
    body = text.partition("\n")[2]  # the first line is a comment
    assert not re.search(r"(?<!\\)[_%#~^<>]", re.sub(r"\$[<>|]\$", "", body))
    tabulars(text)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="install pdflatex (TeX Live)")
def test_latex_compiles(results, tmp_path):
    biascorr = fitted(model=BiasCorrLogit, normalization={"sigma": 1.0})
    for number, fit in enumerate((results, biascorr)):
        fit.report(tmp_path / f"fit{number}.tex")
    (tmp_path / "all.tex").write_text(
        r"\documentclass{article}\usepackage{booktabs}\begin{document}"
        r"\input{fit0}\input{fit1}\end{document}"
    )
    subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"],
        cwd=tmp_path, check=True, capture_output=True, timeout=PATIENCE,
    )  # fmt: skip


# -- files and arguments ---------------------------------------------------------------------------


def test_a_report_is_whole_or_not_there(results, tmp_path, monkeypatch):
    path = tmp_path / "fit.json"
    path.write_text("the old one")

    def fail(*names: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        results.report(path)
    assert path.read_text() == "the old one"
    assert [each.name for each in tmp_path.iterdir()] == ["fit.json"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "fit.pdf"}, r"must end in one of \.html, \.tex, \.json"),
        ({"path": "nowhere/fit.html"}, "'nowhere' does not exist"),
        ({"alpha": 1.5}, "alpha=1.5"),
        ({"variable": "z"}, "variable='z' is not a column of the outcome equation"),
    ],
)
def test_wrong_arguments_are_named(options, message, results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        results.report(**({"path": "fit.html"} | options))
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_tables():
    shown = [page.number(v) for v in (0.5, -0.5, np.nan, np.inf, 1.23456e7)]
    assert shown == ["0.5000", "\N{MINUS SIGN}0.5000", "", "inf", "1.2346e+07"]
