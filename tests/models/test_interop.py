"""Storage, other processes, other packages' tables, and tests by name."""

from __future__ import annotations

import copy
import importlib
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula
from scipy import stats
from statsmodels.iolib.smpickle import load_pickle
from statsmodels.iolib.summary2 import summary_col

from statsmodels_mnar import GreeneSelectionLogit, ProbitSelection

from ..formulas import FORMULAS
from ..patience import PATIENCE

LOADING = {"normalization": "loading"}
FACTORS = ("y ~ x1 + C(level)", "s ~ x1 + C(level) + z")


@pytest.fixture(scope="module")
def data(logit_data: pd.DataFrame) -> pd.DataFrame:
    level = pd.cut(logit_data["x2"], [-np.inf, -0.5, 0.5, np.inf], labels=["low", "mid", "top"])
    return logit_data.assign(level=level.astype(str))


@pytest.fixture(scope="module")
def results(data: pd.DataFrame):
    return GreeneSelectionLogit.from_formula(*FORMULAS, data, **LOADING).fit()


@pytest.fixture(scope="module")
def factors(data: pd.DataFrame):
    return GreeneSelectionLogit.from_formula(*FACTORS, data, **LOADING).fit()


def assert_same(found, wanted):
    pd.testing.assert_series_equal(found.params, wanted.params, rtol=1e-10)
    pd.testing.assert_series_equal(found.bse, wanted.bse, rtol=1e-10)
    assert found.llf == pytest.approx(wanted.llf, abs=1e-8)


# -- storage -----------------------------------------------------------------------------------


@pytest.mark.parametrize("remove_data", [False, True])
def test_save_and_load(factors, data, tmp_path, remove_data):
    kept = copy.deepcopy(factors)
    kept.save(str(tmp_path / "fit.pickle"), remove_data=remove_data)
    found = load_pickle(str(tmp_path / "fit.pickle"))
    assert_same(found, factors)
    new = data.iloc[:7]
    pd.testing.assert_series_equal(found.predict(new), factors.predict(new))
    assert str(found.status) == str(factors.status)
    assert found.glance().equals(factors.glance())
    pd.testing.assert_frame_equal(found.tidy(), factors.tidy())
    assert "GreeneSelectionLogit" in str(found.summary())


def test_removing_the_data_makes_the_file_small(factors):
    small = copy.deepcopy(factors)
    small.remove_data()
    assert len(pickle.dumps(small)) < 0.2 * len(pickle.dumps(factors))


FRESH = """
import pickle, sys
import pandas as pd
results = pickle.load(open(sys.argv[1], "rb"))
new = pd.read_csv(sys.argv[2])
print(*results.predict(new).tolist())
print(*results.predict(new, which="mean-selected").tolist())
print(results.llf, results.status.name, len(str(results.summary())) > 1000)
"""

OWN_FUNCTIONS = """
import numpy as np

def squash(x):
    return np.tanh(x) + 0.1 * x
"""


@pytest.mark.parametrize("remove_data", [pytest.param(False, marks=pytest.mark.full), True])
def test_results_with_a_user_function_live_on_in_a_fresh_process(
    data, tmp_path, monkeypatch, remove_data
):
    (tmp_path / "own_functions.py").write_text(OWN_FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))
    own_functions = importlib.import_module("own_functions")
    squash = own_functions.squash  # noqa: F841 - the formulas find it in this scope
    fit = GreeneSelectionLogit.from_formula(
        "y ~ squash(x1) + center(x2)", "s ~ squash(x1) + center(x2) + bs(z, df=4)", data, **LOADING
    ).fit()
    new = data.iloc[100:105]
    before = fit.predict(new), fit.predict(new, which="mean-selected")
    if remove_data:
        fit.remove_data()
    (tmp_path / "fit.pickle").write_bytes(pickle.dumps(fit))
    new.to_csv(tmp_path / "new.csv", index=False)
    (tmp_path / "fresh.py").write_text(FRESH)
    package = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "fresh.py", "fit.pickle", "new.csv"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), package])},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    del sys.modules["own_functions"]
    assert done.returncode == 0, done.stderr
    mean, selected, rest = done.stdout.strip().splitlines()
    np.testing.assert_allclose(np.array(mean.split(), dtype=float), before[0], rtol=1e-12)
    np.testing.assert_allclose(np.array(selected.split(), dtype=float), before[1], rtol=1e-12)
    llf, status, printed = rest.split()
    assert float(llf) == pytest.approx(fit.llf, abs=1e-9)
    assert (status, printed) == ("CONVERGED", "True")


def test_a_loaded_model_can_be_fitted_again(factors):
    model = pickle.loads(pickle.dumps(factors)).model
    assert_same(model.fit(), factors)


def test_deepcopy_is_equal_and_apart(factors):
    other = copy.deepcopy(factors)
    assert_same(other, factors)
    before = factors.params.copy()
    other._results.params += 1.0
    pd.testing.assert_series_equal(factors.params, before)
    model = copy.deepcopy(factors.model)
    assert model is not factors.model
    assert_same(model.fit(), factors)


# -- formula engines -----------------------------------------------------------------------------


def test_formulaic_gives_the_numbers_of_patsy(data, monkeypatch, factors):
    pytest.importorskip("formulaic")
    monkeypatch.setattr(statsmodels.formula.options, "formula_engine", "formulaic")
    found = GreeneSelectionLogit.from_formula(*FACTORS, data, **LOADING).fit()
    assert found.model.design.outcome_spec.engine == "formulaic"
    assert factors.model.design.outcome_spec.engine == "patsy"
    np.testing.assert_allclose(found.params, factors.params, rtol=1e-9)
    np.testing.assert_allclose(found.bse, factors.bse, rtol=1e-9)
    new = data.iloc[:5]
    np.testing.assert_allclose(found.predict(new), factors.predict(new), rtol=1e-9)
    terms = found.wald_test_terms().table
    np.testing.assert_allclose(
        terms["statistic"].astype(float), factors.wald_test_terms().table["statistic"].astype(float)
    )


# -- tables of other packages ----------------------------------------------------------------------


def test_summary_col(results, data):
    probit = ProbitSelection.from_formula(*FORMULAS, data).fit()
    table = summary_col(
        [results, probit], stars=True, info_dict={"N": lambda fit: f"{fit.nobs:.0f}"}
    )
    frame = table.tables[0]
    assert frame.loc["loading"].tolist() == [f"{results.params['loading']:.4f}***", ""]
    assert frame.loc["select_z"].iloc[1].startswith(f"{probit.params['select_z']:.4f}")
    assert frame.loc["N"].tolist() == ["5000", "5000"]
    assert "Intercept" in table.as_latex()


def test_stargazer(results):
    stargazer = pytest.importorskip("stargazer.stargazer", reason="pip install stargazer")
    table = stargazer.Stargazer([results])
    for text in (table.render_latex(), table.render_html()):
        assert f"{results.params['x1']:.3f}" in text
        assert f"{results.bse['loading']:.3f}" in text
        assert "5000" in text


def test_maketables(results):
    maketables = pytest.importorskip("maketables", reason="pip install maketables")
    frame = maketables.ETable([results]).df
    assert f"{results.params['x1']:.3f}" in frame.loc[("coef", "x1")].iloc[0]
    assert f"{results.bse['loading']:.3f}" in frame.loc[("coef", "loading")].iloc[0]


# -- tests by name ---------------------------------------------------------------------------------


def contrast(results, names):
    """Rows of the identity for some parameters."""
    order = list(results.params.index)
    return np.eye(len(order))[[order.index(name) for name in names]]


def wald_by_hand(results, names):
    estimate = results.params[names].to_numpy()
    cov = results.cov_params().loc[names, names].to_numpy()
    return float(estimate @ np.linalg.solve(cov, estimate))


LEVELS = ["C(level)[T.mid]", "C(level)[T.top]"]


def test_wald_test_terms_over_both_equations(factors):
    table = factors.wald_test_terms().table
    wanted = {
        "x1": ["x1"],
        "C(level)": LEVELS,
        "select_C(level)": [f"select_{name}" for name in LEVELS],
        "select_z": ["select_z"],
    }
    for term, names in wanted.items():
        row = table.loc[term]
        statistic = wald_by_hand(factors, names)
        assert float(row["statistic"]) == pytest.approx(statistic, rel=1e-9)
        assert float(row["pvalue"]) == pytest.approx(stats.chi2.sf(statistic, len(names)))
        assert row["df_constraint"] == len(names)
    assert set(wanted) < set(table.index)


def test_wald_test_terms_combined_and_skipping_single_columns(factors):
    table = factors.wald_test_terms(skip_single=True, combine_terms=["C(level)"]).table
    assert list(table.index) == ["C(level)", "select_C(level)", "C(level)"]
    select = [f"select_{name}" for name in LEVELS]
    np.testing.assert_allclose(
        table["statistic"].astype(float),
        [wald_by_hand(factors, names) for names in (LEVELS, select, LEVELS + select)],
    )
    assert list(table["df_constraint"]) == [2, 2, 4]
    with pytest.raises(ValueError, match="no term contains 'nothing'"):
        factors.wald_test_terms(combine_terms=["nothing"])


def test_t_test_by_names(results):
    found = results.t_test("x1 = select_x1")
    cov = results.cov_params()
    variance = (
        cov.loc["x1", "x1"] + cov.loc["select_x1", "select_x1"] - 2 * cov.loc["x1", "select_x1"]
    )
    difference = results.params["x1"] - results.params["select_x1"]
    assert float(np.squeeze(found.effect)) == pytest.approx(difference)
    assert float(np.squeeze(found.sd)) == pytest.approx(np.sqrt(variance))
    assert float(np.squeeze(found.pvalue)) == pytest.approx(
        2 * stats.norm.sf(abs(difference) / np.sqrt(variance))
    )
    joint = results.wald_test("x1 = 0, select_z = 0, loading = 0", scalar=True)
    assert float(joint.statistic) == pytest.approx(
        wald_by_hand(results, ["x1", "select_z", "loading"]), rel=1e-9
    )
    by_matrix = results.wald_test(contrast(results, ["x1", "select_z", "loading"]), scalar=True)
    assert float(by_matrix.statistic) == pytest.approx(float(joint.statistic))


def test_conf_int(results):
    interval = results.conf_int(alpha=0.1)
    half = stats.norm.ppf(0.95) * results.bse
    np.testing.assert_allclose(interval[0], results.params - half)
    np.testing.assert_allclose(interval[1], results.params + half)
    assert list(interval.index) == list(results.params.index)


def test_compare_lr_test(results, data):
    smaller = GreeneSelectionLogit.from_formula("y ~ x1 + x2", FORMULAS[1], data, **LOADING).fit()
    statistic, pvalue, df = results.compare_lr_test(smaller)
    assert statistic == pytest.approx(2 * (results.llf - smaller.llf))
    assert df == 1
    assert pvalue == pytest.approx(stats.chi2.sf(statistic, 1))
    with pytest.raises(ValueError, match="fewer parameters"):
        smaller.compare_lr_test(results)
    fewer_rows = GreeneSelectionLogit.from_formula(
        "y ~ x1 + x2", FORMULAS[1], data.iloc[:4000], **LOADING
    ).fit()
    with pytest.raises(ValueError, match="same observations"):
        results.compare_lr_test(fewer_rows)


# -- another covariance ----------------------------------------------------------------------------


def test_results_with_another_covariance_stand_alone(results, data):
    clusters = np.arange(len(data)) // 10
    robust = results.get_robustcov_results("cluster", groups=clusters)
    refit = GreeneSelectionLogit.from_formula(*FORMULAS, data, **LOADING).fit(
        cov_type="cluster", cov_kwds={"groups": clusters}
    )
    assert_same(robust, refit)
    assert (robust.bse != results.bse).all()
    assert results.cov_type == "nonrobust"
    assert robust.cov_type == "cluster"
    np.testing.assert_allclose(robust.tvalues, robust.params / robust.bse)
    np.testing.assert_allclose(robust.cov_params(), refit.cov_params(), rtol=1e-9)
    assert robust.test_independence().method == "wald"
    assert results.test_independence().method == "lr"
    assert "500 clusters" in str(robust.summary())
    back = robust.get_robustcov_results("nonrobust")
    assert_same(back, results)
    assert_same(pickle.loads(pickle.dumps(robust)), robust)
    assert_same(copy.deepcopy(robust), robust)
