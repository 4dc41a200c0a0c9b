"""``statsmodels-mnar fit``, run as a user would."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection
from statsmodels_mnar.__main__ import main
from statsmodels_mnar.cli import parse_normalization
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.files import Reading, _found_separator, read_table

FORMULAS = ("y ~ x1 + x2", "s ~ x1 + x2 + z")


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    found = simulate_greene(1_000, rng=2).data.drop(columns="y_full")
    index = np.arange(len(found))
    return found.assign(branch=index % 30, region=index % 7, count=1 + index % 3)


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    data.to_csv(folder / "data.csv", index=False)
    data.to_csv(folder / "data.csv.gz", index=False)
    data.to_csv(folder / "data.tsv", index=False, sep="\t")
    data.to_csv(folder / "semicolons.csv", index=False, sep=";")
    data.to_csv(folder / "commas.csv", index=False, sep=";", decimal=",")
    latin = data.assign(ort="Köln").to_csv(index=False)
    (folder / "latin.csv").write_bytes(latin.encode("cp1252"))
    (folder / "excel.csv").write_bytes(b"PK\x03\x04 and so on")
    (folder / "bad.xlsx").write_text("no workbook")
    (folder / "empty.csv").touch()
    (folder / "header.csv").write_text("y,x1\n")
    (folder / "ragged.csv").write_text("a,b\n1,2\n3,4,5,6\n")
    (folder / "binary.csv").write_bytes(b"\xff\xfe\x00\x81" * 50)
    (folder / "bad.parquet").write_text("no parquet")
    return folder


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def fit(*arguments: str, file: str = "data.csv", formulas: tuple[str, str] = FORMULAS) -> int:
    return main(["fit", file, *formulas, *arguments])


@pytest.mark.parametrize(
    ("model", "options", "direct"),
    [
        pytest.param(
            "greene", ["--normalization", "loading"], (GreeneSelectionLogit, "loading"),
            marks=pytest.mark.full,
        ),
        ("greene", ["--normalization", "sigma=1"], (GreeneSelectionLogit, {"sigma": 1.0})),
        ("probit", [], (ProbitSelection, None)),
        ("biascorr", ["--normalization", "sigma=1"], (BiasCorrLogit, {"sigma": 1.0})),
    ],
)  # fmt: skip
def test_json_has_the_numbers_of_the_same_fit_in_python(
    model, options, direct, here, data, tmp_path, capsys
):
    path = tmp_path / "fit.json"
    assert fit("--model", model, *options, "--out", str(path)) == 0
    kind, normalization = direct
    own = {} if normalization is None else {"normalization": normalization}
    results = kind.from_formula(*FORMULAS, data, **own).fit()
    written = json.loads(path.read_text())
    assert written["model"] == kind.__name__
    # The file holds numbers as text, so that rows differ in the last digit.
    assert written["params"] == pytest.approx(results.params.to_dict(), rel=1e-6)
    assert written["bse"] == pytest.approx(results.bse.to_dict(), rel=1e-6)
    assert f"{kind.__name__} Results" in capsys.readouterr().out


def test_options_reach_the_fit(here, data, tmp_path):
    path = tmp_path / "fit.json"
    options = ["--normalization", "loading", "--penalty", "0.001", "--freq-weights", "count"]
    assert fit(*options, "--groups", "branch", "--out", str(path), "--quiet") == 0
    written = json.loads(path.read_text())
    results = GreeneSelectionLogit.from_formula(
        *FORMULAS, data, normalization="loading", freq_weights="count"
    ).fit(penalty=0.001, cov_type="cluster", cov_kwds={"groups": "branch"})
    assert written["bse"] == pytest.approx(results.bse.to_dict(), rel=1e-6)
    assert written["cov"]["type"] == "cluster"
    assert written["data"]["nobs"] == data["count"].sum()
    assert written["status"]["penalty"] == 0.001


def test_two_ways_of_clustering(here, capsys):
    assert fit("--model", "probit", "--groups", "branch", "--groups", "region") == 0
    assert "cluster" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz", "data.tsv", "semicolons.csv"])
def test_files_are_read(name, here, data):
    pd.testing.assert_frame_equal(read_table(name), data)


def test_parquet_is_read(data, tmp_path):
    pytest.importorskip("pyarrow")
    data.to_parquet(tmp_path / "data.parquet")
    pd.testing.assert_frame_equal(read_table(str(tmp_path / "data.parquet")), data)


def test_files_of_other_programs_are_read(data, here, tmp_path):
    pytest.importorskip("openpyxl")
    data.to_excel(tmp_path / "data.xlsx", index=False, sheet_name="loans")
    data.to_stata(tmp_path / "data.dta", write_index=False)
    for name, how in (
        ("data.xlsx", Reading(sheet="loans")),
        ("data.xlsx", None),
        ("data.dta", None),
    ):
        found = read_table(str(tmp_path / name), how)
        pd.testing.assert_frame_equal(found, data, check_dtype=False)
    with pytest.raises(ValueError, match=r"not an Excel file that can be read .*index 1"):
        read_table(str(tmp_path / "data.xlsx"), Reading(sheet="2"))
    pd.testing.assert_frame_equal(read_table("commas.csv", Reading(decimal=",")), data)
    assert set(read_table("latin.csv", Reading(encoding="cp1252"))["ort"]) == {"Köln"}


def test_values_of_stata_stay_numbers(data, tmp_path):
    labelled = data.assign(s=pd.Categorical(np.where(data.s == 1, "yes", "no")))
    labelled.to_stata(tmp_path / "labels.dta", write_index=False)
    assert read_table(str(tmp_path / "labels.dta"))["s"].tolist() == data["s"].tolist()


@pytest.fixture(scope="module")
def german(data, folder):
    """Formulas and options for a file as a German Excel saves it."""
    income = 1e4 * np.exp(data["x1"])

    def written(value: float) -> str:
        return f"{value:,.2f}".replace(",", " ").replace(".", ",").replace(" ", ".")

    pd.DataFrame(
        {
            "Antrags-Nr.": [f"{number:05d}" for number in range(len(data))],
            "Antragsdatum": [f"{1 + number % 28:02d}.10.2025" for number in range(len(data))],
            "Einkommen (€)": income.map(written),
            "Wohnt in Köln": np.where(data["x2"] == 1, "ja", "nein"),
            "Punkte": data["z"].map("{:.6f}".format).str.replace(".", ","),
            "Genehmigt": np.where(data["s"] == 1, "ja", "nein"),
            "Ausfall": data["y"].map({1.0: "ausgefallen", 0.0: "gezahlt"}),
        }
    ).to_csv(folder / "german.csv", sep=";", index=False, encoding="cp1252")
    covariates = "np.log(Q('Einkommen (€)')) + Q('Wohnt in Köln')"
    formulas = (
        f"I(Ausfall == 'ausgefallen') ~ {covariates}",
        f"I(Genehmigt == 'ja') ~ {covariates} + Punkte",
    )
    return formulas, ["--encoding", "cp1252", "--decimal", ",", "--thousands", "."]


def test_a_german_file_from_fit_to_scores(german, here, data, tmp_path):
    formulas, options = german
    out, scored = str(tmp_path / "fit.json"), str(tmp_path / "scored.csv")
    assert fit(*options, "--quiet", "--out", out, file="german.csv", formulas=formulas) == 0
    written = json.loads((tmp_path / "fit.json").read_text(encoding="utf-8"))
    direct = GreeneSelectionLogit.from_formula(*FORMULAS, data).fit()
    # Incomes have cents, so that logarithms differ in the seventh digit.
    assert written["params"]["Q('Wohnt in Köln')[T.nein]"] == pytest.approx(
        -direct.params["x2"], abs=1e-4
    )
    assert main(["predict", out, "german.csv", *options, "--out", scored]) == 0
    read = {"sep": ";", "encoding": "cp1252", "dtype": str}
    before, after = pd.read_csv("german.csv", **read), pd.read_csv(scored, **read)
    untouched = ["Antrags-Nr.", "Antragsdatum", "Genehmigt", "Ausfall"]
    pd.testing.assert_frame_equal(after[untouched], before[untouched])
    found = after["mean"].str.replace(",", ".").astype(float)
    np.testing.assert_allclose(found, direct.predict(data), atol=1e-4)


@pytest.mark.parametrize(
    ("formula", "leave", "message"),
    [
        ("y ~ x1", 4, "Einkommen (€) has numbers such as"),
        ("y ~ x1", 4, "use --thousands . --decimal ,"),
        ("I(Ausfall == 'ausgefallen') ~ Wohnt in Köln", 6, "Write Q('Wohnt in Köln')"),
        ("I(Ausfall == 'ausgefallen') ~ Antragsdatum", 6, "dates as text, such as 01.10.2025"),
        ("Ausfall ~ Punkte", 6, "Write I(Ausfall == 'ausgefallen')"),
    ],
)
def test_what_a_german_file_needs_is_said(formula, leave, message, german, here, capsys):
    formulas, options = german
    assert fit(*options[:leave], file="german.csv", formulas=(formula, formulas[1])) == 2
    check_message(message, capsys)


@pytest.mark.parametrize(
    ("written", "how", "message"),
    [
        (["1,234", "12,500"], Reading(), "use --decimal , where 1,234 is less than two"),
        (["1,234.5", "7"], Reading(), "use --thousands ,"),
        (["1 234,5", "7"], Reading(), 'use --thousands " " --decimal ,'),
        (["1\u202f234", "7"], Reading(), 'use --thousands " "'),
        (["1'234.5", "7"], Reading(), 'use --thousands "\'"'),
        (["1,5", "7"], Reading(decimal=",", thousands=","), "one mark has one meaning"),
    ],
)
def test_marks_of_numbers_are_found(written, how, message, tmp_path):
    path = tmp_path / "marks.csv"
    pd.DataFrame({"x": written, "n": 1}).to_csv(path, sep=";", index=False)
    with pytest.raises(ValueError, match=re.escape(message)):
        read_table(str(path), how)


def test_marks_of_thousands_are_read_where_all_values_are_such_numbers(tmp_path):
    path = tmp_path / "marks.csv"
    table = {
        "x": ["1\u00a0234,5", "-7", None], "code": ["1 234", "12 34", "5"], "n": [1, 2, 3],
    }  # fmt: skip
    pd.DataFrame(table).to_csv(path, sep=";", index=False)
    found = read_table(str(path), Reading(decimal=",", thousands=" "))
    assert found["x"].tolist()[:2] == [1234.5, -7.0] and np.isnan(found["x"][2])
    assert found["code"].tolist() == table["code"] and found["n"].tolist() == [1, 2, 3]


def test_separators_are_found():
    for sep in ",;|\t":
        lines = [f"a{sep}b{sep}c\n", f'1{sep}"x, y; z"{sep}3,5\n' if sep != "," else "1,2,3\n"]
        assert _found_separator(lines) == sep
    assert _found_separator(["single\n", "1\n"]) == ","


def test_standard_input_is_read(data, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(data.to_csv(index=False)))
    pd.testing.assert_frame_equal(read_table("-"), data)


def test_several_reports_and_quiet(here, tmp_path, capsys):
    paths = [tmp_path / f"fit.{suffix}" for suffix in ("html", "tex", "json")]
    outs = [text for path in paths for text in ("--out", str(path))]
    options = ["--model", "biascorr", "--normalization", "sigma=1"]  # has few pictures
    assert fit(*options, "--quiet", "--title", "Mine", *outs) == 0
    assert capsys.readouterr() == ("", "")
    assert "<h1>Mine</h1>" in paths[0].read_text(encoding="utf-8")
    assert r"\begin{tabular}" in paths[1].read_text(encoding="utf-8")
    assert json.loads(paths[2].read_text())["schema"] == 1


def test_without_matplotlib_the_page_has_no_figures(here, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("statsmodels_mnar.cli.find_spec", lambda name: None)
    path = tmp_path / "fit.html"
    assert fit("--model", "probit", "--quiet", "--out", str(path)) == 0
    assert "pip install 'statsmodels-mnar[plot]'" in capsys.readouterr().err
    assert "<img" not in path.read_text(encoding="utf-8")


def test_numpy_in_formulas_and_selection_without_a_left_side(here, capsys):
    formulas = ("y ~ np.exp(x1) + C(x2)", "~ x1 + x2 + z")
    assert fit("--model", "probit", formulas=formulas) == 0
    assert "np.exp(x1)" in capsys.readouterr().out


def test_a_fit_that_does_not_converge_has_its_own_exit_code(here, tmp_path, capsys):
    path = tmp_path / "fit.json"
    assert fit("--maxiter", "1", "--normalization", "loading", "--out", str(path)) == 3
    printed, said = capsys.readouterr()
    assert "not converged" in printed
    assert said.startswith("statsmodels-mnar: warning: not converged")
    assert json.loads(path.read_text())["status"]["converged"] is False


def test_warnings_are_one_line_on_stderr(here, capsys):
    formulas = ("y ~ x1 + x2", "s ~ x1 + x2")
    assert fit("--normalization", "loading", formulas=formulas) == 0
    said = capsys.readouterr().err
    assert said.startswith("statsmodels-mnar: warning: no exclusion restriction")
    lines = said.splitlines()
    assert len(lines) == 2 and all(line.startswith("statsmodels-mnar: warning: ") for line in lines)


def test_progress_is_shown_where_asked_for(here, capsys):
    assert fit("--normalization", "loading", "--quiet", "--progress") == 0
    printed, said = capsys.readouterr()
    assert printed == ""
    assert "newton" in said


FILES = [
    ("missing.csv", "missing.csv: no such file"),
    (".", ".: is a folder"),
    ("empty.csv", "the file is empty"),
    ("header.csv", "has no rows"),
    ("ragged.csv", "not a table separated by ','"),
    ("binary.csv", "not a text file in UTF-8"),
    ("commas.csv", "x1 has numbers such as"),
    ("commas.csv", "use --decimal ,"),
    ("latin.csv", "try --encoding cp1252"),
    ("excel.csv", "this looks like an Excel file; give it a name that ends in .xlsx"),
    ("bad.xlsx", "bad.xlsx: not an Excel file"),
]
EQUATIONS = [
    (("y ~ x1 + nope", FORMULAS[1]), "uses 'nope', which is not a column of the data"),
    (("y ~ x1 + nope", FORMULAS[1]), "the columns are x1, x2, z, s, y, branch"),
    (("y ~ x1 +", FORMULAS[1]), "cannot evaluate 'y ~ x1 +'"),
    (("y x1", FORMULAS[1]), "must have one '~'"),
    (("y ~ np.foo(x1)", FORMULAS[1]), "has no attribute 'foo'"),
    (("y ~ log(x1)", FORMULAS[1]), "Write np.log(...)."),
    (("x1 ~ x2", FORMULAS[1]), "must be 0/1 or boolean"),
]
OPTIONS = [
    (["--normalization", "sigma=a"], "'a' is not a number"),
    (["--normalization", "lod"], "--normalization lod is unknown"),
    (["--groups", "nope"], "--groups 'nope' is not a column"),
    (["--prob-weights", "nope"], "--prob-weights 'nope' is not a column"),
    (["--groups", "branch", "--cov-type", "HC0"], "belongs to --cov-type cluster"),
    (["--cov-type", "cluster"], "needs --groups"),
    (["--out", "x.pdf"], "must end in one of .html, .tex, .json"),
    (["--out", "nowhere/x.html"], "'nowhere' does not exist"),
    (["--alpha", "2"], "must lie between 0 and 1"),
    (["--penalty", "-1"], "--penalty -1.0"),
    (["--device", "abacus"], "--device abacus is not a torch device"),
]


@pytest.mark.parametrize(("name", "message"), FILES)
def test_unusable_files(name, message, here, capsys):
    assert fit(file=name) == 2
    check_message(message, capsys)


@pytest.mark.parametrize(("formulas", "message"), EQUATIONS)
def test_unusable_formulas(formulas, message, here, capsys):
    assert fit(formulas=formulas) == 2
    check_message(message, capsys)


@pytest.mark.parametrize(("options", "message"), OPTIONS)
def test_unusable_options(options, message, here, capsys):
    assert fit(*options) == 2
    check_message(message, capsys)


def test_unreadable_parquet(here, capsys):
    pytest.importorskip("pyarrow")
    assert fit(file="bad.parquet") == 2
    check_message("not a Parquet file", capsys)


def check_message(message, capsys):
    printed, said = capsys.readouterr()
    assert printed == ""
    assert said.startswith("statsmodels-mnar: ")
    assert message in said
    assert "Traceback" not in said


def test_options_are_checked_before_the_data_are_read(tmp_path, capsys):
    assert fit("--out", "x.pdf", file=str(tmp_path / "missing.csv")) == 2
    assert "x.pdf" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("free", "free"),
        ("sigma=1", {"sigma": 1.0}),
        ("rho=-0.5", {"rho": -0.5}),
        ("sigma = 2, rho = 0.5", {"sigma": 2.0, "rho": 0.5}),
    ],
)
def test_normalizations(text, meant):
    assert parse_normalization(text) == meant


# -- predict ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted(folder, data):
    results = ProbitSelection.from_formula(*FORMULAS, data).fit()
    results.to_json(folder / "fit.json")
    return results


def predict(*arguments: str) -> int:
    return main(["predict", "fit.json", *arguments])


def test_predictions_are_those_of_python(fitted, here, data, tmp_path, capsys):
    out = tmp_path / "scored.csv"
    assert predict("commas.csv", "--decimal", ",", "--which", "all", "--out", str(out)) == 0
    assert "1,000 rows written to " in capsys.readouterr().out
    scored = pd.read_csv(out, sep=";", decimal=",")
    assert list(scored)[: len(data.columns)] == list(data)
    for which in ("mean", "mean-selected", "mean-unselected", "prob-select", "p11", "p00"):
        np.testing.assert_allclose(scored[which], fitted.predict(data, which=which), atol=1e-6)


def test_parts_of_a_file_give_the_numbers_of_the_whole(fitted, here, data, tmp_path, monkeypatch):
    monkeypatch.setattr("statsmodels_mnar.cli._CHUNK", 300)
    for name in ("scored.csv", "scored.parquet"):
        out = tmp_path / name
        assert predict("data.csv", "--keep", "z", "--interval", "--out", str(out)) == 0
        scored = pd.read_csv(out) if name.endswith("csv") else pd.read_parquet(out)
        assert list(scored) == ["z", "mean", "mean_se", "mean_lower", "mean_upper"]
        whole = fitted.get_prediction(data).summary_frame()
        np.testing.assert_allclose(scored["mean_lower"], whole["ci_lower"], atol=1e-6)
        assert scored["z"].tolist() == data["z"].tolist()


def test_offsets_are_read_as_numbers(here, data, tmp_path):
    out, scored = str(tmp_path / "fit.json"), str(tmp_path / "scored.csv")
    assert fit("--model", "probit", "--offset", "count", "--quiet", "--out", out) == 0
    assert main(["predict", out, "commas.csv", "--decimal", ",", "--out", scored]) == 0
    direct = ProbitSelection.from_formula(*FORMULAS, data, offset="count").fit()
    found = pd.read_csv(scored, sep=";", decimal=",")["mean"]
    np.testing.assert_allclose(found, direct.predict(data), atol=1e-6)


def test_scores_are_written_like_the_file_that_was_read(fitted, here, data, tmp_path, capsys):
    marked = data.assign(id=[f"{n:05d}" for n in range(len(data))]).to_csv(sep="|", index=False)
    (here / "marked.csv").write_text(marked, encoding="utf-8-sig")
    out = tmp_path / "scored.csv"
    assert predict("marked.csv", "--keep", "id", "--out", str(out)) == 0
    assert out.read_bytes().startswith(b"\xef\xbb\xbfid|mean")
    assert out.read_text(encoding="utf-8-sig").splitlines()[1].startswith("00000|")
    (here / "tabs.txt").write_text(data.to_csv(sep="\t", index=False))
    assert predict("tabs.txt", "--keep", "z") == 0
    assert capsys.readouterr().out.splitlines()[1:][0] == "z\tmean"


def test_without_out_predictions_are_printed_and_gaps_are_counted(fitted, here, data, capsys):
    data.assign(x1=data.x1.where(data.index > 4)).to_csv(here / "gaps.csv", index=False)
    assert predict("gaps.csv", "--keep", "branch") == 0
    printed, said = capsys.readouterr()
    scored = pd.read_csv(io.StringIO(printed))
    assert list(scored) == ["branch", "mean"]
    assert scored["mean"].isna().sum() == 5
    assert "5 of 1,000 rows have a missing covariate" in said


def test_effects_of_levels_and_curves_are_in_the_file(here, data, tmp_path):
    formulas = "y ~ smooth(x1) + x2", "s ~ x1 + z + re(branch)"
    direct = ProbitSelection.from_formula(*formulas, data).fit()
    direct.to_json(here / "terms.json")
    out = tmp_path / "scored.csv"
    assert main(["predict", "terms.json", "data.csv", "--which", "p11", "--out", str(out)]) == 0
    scored = pd.read_csv(out)
    np.testing.assert_allclose(scored["p11"], direct.predict(data, which="p11"), atol=1e-6)


LENDER = pd.DataFrame(
    {
        "Einkommen": ["1200", "k.A.", *map(str, range(900, 998))],
        "Alter": [*range(20, 60)] * 2 + [*range(30, 50)],
        "Ausfall": ["ja", "nein", "offen", "nein", "ja"] * 20,
        "Filiale": [*range(4)] * 25,
    }
)


@pytest.fixture
def lender(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    LENDER.to_csv("lender.csv", index=False)

    def fit_lender(formula, *options, select="~ Alter + C(Filiale)"):
        return main(["fit", "lender.csv", formula, select, "--quiet", *options])

    return fit_lender


def test_a_text_that_means_missing_is_named_and_then_read_as_that(lender, capsys):
    formula = "I(Ausfall == 'ja') ~ Einkommen"
    assert lender(formula) == 2
    check_message("has numbers and the text 'k.A.' (1 row). If such a text means", capsys)
    assert lender(formula.replace("Einkommen", "np.log(Einkommen)")) == 2
    check_message("Einkommen has the text 'k.A.' (1 row)", capsys)
    assert lender(formula, "--na", "k.A.", "--na", "offen") == 0
    said = capsys.readouterr().err
    assert "note: 1 of 100 rows have a missing value and are left out" in said
    assert "count as 0" not in said


def test_levels_that_count_as_zero_are_said(lender, capsys):
    lender("I(Ausfall=='ja') ~ Alter")
    said = capsys.readouterr().err
    assert "Ausfall = 'ja' counts as 1, and 'nein' (40 rows), 'offen' (20 rows) count as 0" in said
    assert "--na" in said


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("I(Ausfall == 'ja') ~ alter", "Did you mean Alter?"),
        ("I(Ausfall == ja) ~ Alter", "Write 'ja' with quotation marks"),
        ("I(Ausfall = 'ja') ~ Alter", "Write == to compare"),
        ("I(Ausfall == 'ja') ~ Alter Filiale", "invalid syntax."),
    ],
)
def test_slips_in_formulas_are_answered(formula, message, lender, capsys):
    assert lender(formula) == 2
    check_message(message, capsys)


def test_names_with_spaces_need_quotation_marks(here, capsys):
    with pytest.raises(SystemExit):
        main(["fit", "my", "loans.csv", "y ~ x1", "s ~ x1 + z"])
    said = capsys.readouterr().err
    assert "unrecognized arguments: s ~ x1 + z" in said and "quotation marks" in said


def test_letters_are_not_garbled_by_a_wrong_encoding(lender, capsys):
    LENDER.to_csv("lender.csv", index=False, encoding="utf-8-sig")
    assert lender("I(Ausfall == 'ja') ~ Alter", "--encoding", "cp1252") == 2
    check_message("begins with the mark of UTF-8", capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.csv"], "nowhere.csv: no such file"),
        (["data.csv", "--keep", "nope"], "--keep 'nope' is not a column"),
        (["data.csv", "--out", "x.xlsx"], "must end in one of .csv, .tsv, .parquet"),
        (["data.csv", "--alpha", "2"], "must lie between 0 and 1"),
        (["scored.csv"], "have columns mean already"),
        (["ragged.csv"], "data lacks the column(s) x1, x2"),
    ],
)
def test_what_cannot_be_predicted(arguments, message, fitted, here, data, capsys):
    data.assign(mean=1.0).to_csv(here / "scored.csv", index=False)
    (here / "ragged.csv").write_text("a,b\n1,2\n")
    assert predict(*arguments) == 2
    check_message(message, capsys)


def test_results_without_a_record_of_formulas_say_so(fitted, here, capsys):
    record = json.loads((here / "fit.json").read_text()) | {"terms": None}
    (here / "old.json").write_text(json.dumps(record))
    assert main(["predict", "old.json", "data.csv"]) == 2
    check_message("has no record of what its formulas learned", capsys)


@pytest.mark.parametrize("name", ["german.csv", "page.html", "nowhere.json"])
def test_a_file_that_is_no_fit_is_named(name, german, here, capsys):
    (here / "page.html").write_text("<!doctype html>")
    assert main(["predict", name, "data.csv"]) == 2
    check_message(f"{name}: n", capsys)


def test_an_encoding_that_new_data_need_is_said(fitted, german, here, tmp_path, capsys):
    assert predict("german.csv", "--out", str(tmp_path / "scored.csv")) == 2
    check_message("german.csv: not a text file in UTF-8", capsys)


# -- advice ----------------------------------------------------------------------------------------


def test_advice_names_options_of_the_command(here, capsys):
    assert fit("--maxiter", "1") == 3
    said = capsys.readouterr().err
    assert "--maxiter" in said and "--penalty 1e-4" in said
    assert "start_params" not in said
    separated = ("y ~ x1", "s ~ x1 + z + C(s)")
    assert fit(formulas=separated) == 2
    said = capsys.readouterr().err
    assert "--penalty 1e-4" in said and "--method sgd" in said and "'" not in said.partition(":")[2]
