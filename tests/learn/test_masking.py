"""Masks do what they say, scores are right, and any method can be scored."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, roc_auc_score

from statsmodels_mnar.baselines import NaiveLogit
from statsmodels_mnar.datasets import simulate_credit
from statsmodels_mnar.learn import IPWClassifier, masking_study
from statsmodels_mnar.learn.masking import MECHANISMS, METHODS, SCORES, hide

FORMULA = "y ~ x1 + x2"


@pytest.fixture(scope="module")
def population():
    rng = np.random.default_rng(0)
    risk = rng.standard_normal(40_000)
    return (rng.random(40_000) < expit(risk)).astype(float), risk


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.standard_normal((1_500, 2)), columns=["x1", "x2"])
    return frame.assign(y=rng.random(1_500) < expit(frame.x1 - 0.7 * frame.x2 - 0.5))


@pytest.fixture(scope="module")
def study(data):
    methods = {
        **{name: name for name in ("oracle", "naive", "IPW")},
        "logistic": LogisticRegression(C=np.inf, tol=1e-8, max_iter=1_000),
        "IPW classifier": IPWClassifier(trim=0.01),
        "a function": lambda rows: NaiveLogit(*rows.arrays).fit(penalty=rows.penalty),
    }
    return masking_study(
        data, FORMULA, methods=methods, mechanisms={"MAR": 0.0, "MNAR 1": 1.0}, repeats=3
    )


@pytest.mark.parametrize("strength", MECHANISMS.values())
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_the_share_of_labels_is_kept(population, strength, share):
    kept = hide(*population, strength, share, np.random.default_rng(1))
    assert kept.mean() == pytest.approx(share)


def test_strength_is_the_labels_effect_given_the_index(population):
    """A probit of who keeps the label on (index, y) has the documented coefficients."""
    y, index = population
    for strength in (0.0, 1.0):
        kept = hide(y, index, strength, 0.5, np.random.default_rng(2)).astype(float)
        columns = np.column_stack([np.ones(len(y)), index, y])
        fit = sm.Probit(kept, columns).fit(disp=False)
        expected = np.array([1.0, strength / y.std()])
        assert (np.abs(fit.params[1:] - expected) < 4 * fit.bse[1:]).all()
    kept = hide(y, index, None, 0.5, np.random.default_rng(2))
    assert index[kept].min() > index[~kept].max()


def test_mechanisms_may_be_functions(population):
    y, index = population
    kept = hide(y, index, lambda y, index, rng: -y + 1e-3 * index, 0.5, np.random.default_rng(0))
    assert y[kept].mean() < y[~kept].mean()
    with pytest.raises(ValueError, match="40000 finite numbers"):
        hide(y, index, lambda y, index, rng: y[:5], 0.5, np.random.default_rng(0))


def test_one_row_for_each_mask_and_method(study):
    frame = study.frame
    assert len(frame) == 2 * 3 * 6 and (frame["error"] == "").all()
    assert frame["labelled_share"].eq(0.5).all() and frame["converged"].all()
    assert frame["mechanism"].tolist() == ["MAR"] * 18 + ["MNAR 1"] * 18
    assert frame[list(SCORES)].notna().all(axis=None)


def test_a_classifier_scores_as_the_model_behind_it(study):
    wide = study.frame.set_index(["mechanism", "repeat", "method"])[list(SCORES)]

    def of(name):
        return wide.xs(name, level="method").to_numpy()

    np.testing.assert_allclose(of("IPW classifier"), of("IPW"), atol=1e-8)
    np.testing.assert_allclose(of("a function"), of("naive"), atol=0)
    # The ridge of the one is small, the other has none.
    np.testing.assert_allclose(of("logistic"), of("naive"), atol=5e-3)


def test_scores_are_those_of_scikit_learn(data):
    """With a test mask of one's own, the oracle's scores can be made by hand."""
    test = np.arange(1_500) >= 1_000
    study = masking_study(
        data, FORMULA, methods=["oracle"], mechanisms={"MAR": 0.0}, repeats=1, test=test,
        penalty=0.0,
    )  # fmt: skip
    columns, y = data[["x1", "x2"]].to_numpy(), data.y.to_numpy(float)
    plain = LogisticRegression(C=np.inf, tol=1e-10).fit(columns[~test], y[~test])
    p = plain.predict_proba(columns[test])[:, 1]
    row = study.frame.iloc[0]
    assert row.auc == pytest.approx(roc_auc_score(y[test], p), abs=1e-5)
    assert row.brier == pytest.approx(brier_score_loss(y[test], p), abs=1e-5)
    assert row.accuracy == pytest.approx(plain.score(columns[test], y[test]), abs=0.003)
    assert row.prevalence_error == pytest.approx(p.mean() - y[test].mean(), abs=1e-5)
    assert row.effects_error == 0


def test_missing_not_at_random_biases_the_naive_logit(study):
    table = study.table("prevalence_error")
    assert table.loc["naive", "MNAR 1"] > 0.1 > 0.04 > table.loc["naive", "MAR"]
    lost = study.table("brier", against="oracle")
    assert "oracle" not in lost.index and lost.loc["naive", "MNAR 1"] > 0.01


def test_intervals_are_students_over_the_repeats(study):
    from scipy import stats

    tidy = study.summary_frame(alpha=0.1, against="oracle")
    cell = tidy.query("method == 'naive' and mechanism == 'MNAR 1' and score == 'brier'").iloc[0]
    frame = study.frame.query("mechanism == 'MNAR 1'").pivot(
        index="repeat", columns="method", values="brier"
    )
    lost = frame["naive"] - frame["oracle"]
    low, high = stats.t.interval(0.9, 2, loc=lost.mean(), scale=lost.sem())
    assert (cell.ci_lower, cell.ci_upper) == pytest.approx((low, high))
    assert (cell["mean"], cell["n"]) == pytest.approx((lost.mean(), 3))


def test_the_datas_own_selection_hides_the_labels():
    """Where some rows are unlabelled, those like them lose their label."""
    sim = simulate_credit(3_000, rng=0)
    seen = []

    def peek(rows):
        seen.append((rows.arrays[2].mean(), rows.select_names, rows.W, rows.arrays[2]))
        return NaiveLogit(*rows.arrays).fit(penalty=rows.penalty)

    study = masking_study(
        sim.data, sim.formula, sim.select_formula, methods={"peek": peek}, repeats=1,
        mechanisms={"MAR": 0.0},
    )  # fmt: skip
    share, names, W, s = seen[0]
    assert share == pytest.approx(sim.data.approved.mean(), abs=1e-3)
    assert study.n_rows == sim.data.approved.sum() and "mask_z" not in names
    hiding = sm.Probit(s, W).fit(disp=False).params
    own = sm.Probit.from_formula(sim.select_formula, sim.data).fit(disp=False).params
    assert np.corrcoef(W @ hiding, W @ own.loc[list(names)])[0, 1] > 0.95


def test_failures_are_kept_with_their_reason(data):
    def fails(rows):
        raise ValueError("no such method\nmore")

    study = masking_study(
        data, FORMULA, methods={"naive": "naive", "bad": fails}, mechanisms={"MAR": 0.0}, repeats=1
    )
    bad = study.frame.set_index("method").loc["bad"]
    assert bad["error"] == "ValueError: no such method" and np.isnan(bad["auc"])
    assert "no such method" in str(study) and study.summary_frame()["n"].min() == 0


@pytest.mark.full
def test_processes_give_the_same_numbers_and_all_methods_run(data):
    how = {"mechanisms": {"MNAR 1": 1.0}, "repeats": 2}
    here = masking_study(data, FORMULA, **how)
    there = masking_study(data, FORMULA, n_jobs=2, **how)
    columns = ["mechanism", "repeat", "method", *SCORES]
    pd.testing.assert_frame_equal(here.frame[columns], there.frame[columns])
    assert here.methods == tuple(METHODS) and (here.frame["error"] == "").all()
    errors = here.table("prevalence_error")["MNAR 1"]
    assert errors["Greene"] < 0.3 * errors["naive"]


def test_a_figure_has_a_line_for_each_method(study):
    ax = study.plot("auc", "oracle")
    assert len(ax.get_legend().get_texts()) == 5
    assert [label.get_text() for label in ax.get_xticklabels()] == ["MAR", "MNAR 1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["nothing"]}, "methods has 'nothing'"),
        ({"methods": {"a": 3}}, r"methods\['a'\]=3 must be one of"),
        ({"methods": []}, "methods is empty"),
        ({"mechanisms": {"a": "b"}}, r"mechanisms\['a'\]='b'"),
        ({"mechanisms": {}}, "mechanisms is empty"),
        ({"repeats": 0}, "repeats=0"),
        ({"labelled_share": 1.0}, r"labelled_share=1\.0"),
        ({"test": 1.0}, r"test=1\.0"),
        ({"test": [True]}, "test must be a share"),
    ],
)
def test_bad_options_are_named(data, options, message):
    with pytest.raises(ValueError, match=message):
        masking_study(data, FORMULA, **options)


def test_unknown_names_of_a_study_are_named(study):
    with pytest.raises(ValueError, match="score='f1' is unknown"):
        study.table("f1")
    with pytest.raises(ValueError, match="against='best' is none of the methods"):
        study.summary_frame(against="best")
