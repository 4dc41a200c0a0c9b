"""BiasCorr: its objective, its first stages, its degenerate cases and its results."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import torch
from scipy.special import expit, log_ndtr, ndtr
from statsmodels.tools.numdiff import approx_fprime
from statsmodels.tools.sm_exceptions import ModelWarning

from statsmodels_mnar import BiasCorrLogit, GreeneSelectionLogit, Status
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.errors import NoVariationError, PerfectSeparationError
from statsmodels_mnar.kernel.integration import Simulation, normal_draws
from statsmodels_mnar.kernel.rows import Moments
from statsmodels_mnar.models.first_stage import MLP
from statsmodels_mnar.optimize.objective import Objective
from tests.patience import PATIENCE

FORMULAS = ("y ~ x1 + x2", "s ~ x1 + x2 + z")
SIGMA_ONE = {"normalization": {"sigma": 1.0}}


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    """600 rows of Greene's model on an index that is neither sorted nor a range."""
    frame = simulate_greene(600).data
    return frame.set_index(np.random.default_rng(0).permutation(600) + 5_000)


def build(data: pd.DataFrame, **options) -> BiasCorrLogit:
    return BiasCorrLogit.from_formula(*FORMULAS, data, **options)


@pytest.fixture(scope="module")
def results(data: pd.DataFrame):
    return build(data, **SIGMA_ONE).fit()


def designs(data: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The two designs, built without the package."""
    X = sm.add_constant(data[["x1", "x2"]])
    return X, sm.add_constant(data[["x1", "x2", "z"]])


def parameters(seed: int = 0) -> np.ndarray:
    """beta, gamma, lnsigma, athrho away from any optimum."""
    rng = np.random.default_rng(seed)
    return np.concatenate([0.5 * rng.standard_normal(7), [0.3, -0.6]])


def soft_rows(data: pd.DataFrame, g_s=sm.Probit) -> tuple[np.ndarray, np.ndarray]:
    """s' and y' by statsmodels: lines 4 to 13 of Algorithm 1, by hand."""
    X, W = designs(data)
    seen = data["s"] == 1
    p_select = g_s(data["s"], W).fit(disp=0).predict(W)
    p_outcome = sm.Logit(data["y"][seen], X[seen]).fit(disp=0).predict(X)
    soft = np.where(seen, 1.0, p_select[~seen].mean())
    return soft, np.where(seen, data["y"], p_outcome > 0.5)


# -- the objective ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["random", "halton"])
def test_objective_is_the_papers_equation(data, kind):
    """L-hat' with its own draws, written as in the paper."""
    integration = Simulation(50, kind, rng=3)
    model = build(data, integration=integration)
    model = model._staged(0.0)  # first stages by maximum likelihood, as statsmodels has them
    X, W = (design.to_numpy() for design in designs(data))
    soft, label = soft_rows(data)
    params = parameters()
    beta, gamma = params[:3], params[3:7]
    sigma, rho = np.exp(params[7]), np.tanh(params[8])
    keys = torch.as_tensor(model.design.kept)
    e = normal_draws(keys, 50, kind, 3).numpy()  # (n, R)

    index = (X @ beta)[:, None] + sigma * e
    f = np.where(label[:, None] == 1, expit(index), 1.0 - expit(index))
    probit = ((W @ gamma)[:, None] + rho * e) / np.sqrt(1.0 - rho**2)
    s = soft[:, None]
    rows = np.log(np.mean(((1.0 - s) + s * f) * ndtr((2.0 * s - 1.0) * probit), axis=1))

    # s-bar comes from another Newton, whose last digits differ: the same value in both.
    fixed = build(data, integration=integration, soft_selection=float(soft.min()))._staged(0.0)
    np.testing.assert_allclose(fixed.loglikeobs(params), rows, rtol=1e-12, atol=1e-12)
    assert fixed.loglike(params) == pytest.approx(rows.sum(), rel=1e-12)
    np.testing.assert_allclose(model.loglikeobs(params), rows, rtol=1e-7)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"soft_selection": "rowwise"},
        {"soft_pseudolabels": True},
        {"integration": Simulation(30)},
        {"normalization": "loading"},
        SIGMA_ONE,
    ],
    ids=["default", "rowwise", "soft labels", "simulation", "loading", "sigma one"],
)
def test_derivatives_agree_with_differences(data, options):
    model = build(data, **options)
    params = parameters()[: model.nparams]
    score = model.score(params)
    np.testing.assert_allclose(
        score, approx_fprime(params, model.loglike, centered=True), rtol=1e-6, atol=1e-4
    )
    np.testing.assert_allclose(model.score_obs(params).sum(0), score, rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(
        model.hessian(params),
        approx_fprime(params, model.score, centered=True),
        rtol=1e-5,
        atol=1e-3,
    )


def test_derivatives_agree_with_autograd(data):
    """Against torch's derivatives of the paper's equation, with the model's own draws."""
    model = build(data, integration=Simulation(20, rng=1))
    rows = model.training_design
    X, W, y, s = (torch.as_tensor(v) for v in (rows.X, rows.W, rows.y, rows.s))
    e = normal_draws(torch.as_tensor(rows.kept), 20, "halton", 1)

    def objective(params: torch.Tensor) -> torch.Tensor:
        index = (X @ params[:3])[:, None] + params[7].exp() * e
        rho = params[8].tanh()
        probit = ((W @ params[3:7])[:, None] + rho * e) / (1.0 - rho**2).sqrt()
        f = torch.sigmoid((2.0 * y - 1.0)[:, None] * index)
        tilt = (2.0 * s - 1.0)[:, None]
        # Not torch.special.ndtr: erfc has second derivatives, and no tail is needed here.
        chosen = 0.5 * torch.erfc(-tilt * probit / 2.0**0.5)
        return ((1.0 - s[:, None] + s[:, None] * f) * chosen).mean(1).log().sum()

    params = torch.as_tensor(parameters())
    gradient = torch.autograd.functional.jacobian(objective, params).numpy()
    hessian = torch.autograd.functional.hessian(objective, params).numpy()
    np.testing.assert_allclose(model.score(params), gradient, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(model.hessian(params), hessian, rtol=1e-9, atol=1e-7)


def test_zero_soft_selection_is_greenes_method(data):
    """With s' = 0 pseudolabels have no say."""
    ours = build(data, soft_selection=0.0, **SIGMA_ONE).fit(cov_type="nonrobust", penalty=0.0)
    greene = GreeneSelectionLogit.from_formula(*FORMULAS, data, **SIGMA_ONE).fit()
    assert ours.llf == pytest.approx(greene.llf, rel=1e-10)
    np.testing.assert_allclose(ours.params, greene.params, rtol=1e-4, atol=1e-5)


# -- Algorithm 1 -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "g_s"), [("probit", sm.Probit), ("logit", sm.Logit)])
def test_soft_selection_is_the_mean_prediction_of_unlabelled_rows(data, name, g_s):
    soft, _ = soft_rows(data, g_s)
    model = build(data, selection_model=name, **SIGMA_ONE)
    found = model.fit(penalty=0.0)
    assert found.soft_selection == pytest.approx(soft.min(), abs=1e-8)
    assert found.first_stage.select.name == name
    np.testing.assert_allclose(found.model.training_design.s, soft, atol=1e-8)
    # The default penalty moves it in the fifth digit.
    assert model.fit().soft_selection == pytest.approx(soft.min(), abs=2e-4)


def test_pseudolabels_are_those_of_a_logit_on_the_original_index(data, results):
    _, label = soft_rows(data)
    unseen = data["s"] == 0
    expected = pd.Series(label[unseen], index=data.index[unseen], name="pseudolabel")
    pd.testing.assert_series_equal(results.pseudolabels, expected)


def test_labelled_rows_keep_their_labels(data):
    training = build(data).training_design
    seen = (data["s"] == 1).to_numpy()
    np.testing.assert_array_equal(training.y[seen], data["y"][seen])
    np.testing.assert_array_equal(training.s[seen], 1.0)


def test_outcomes_of_unselected_rows_are_not_read(data, results):
    recorded = data.assign(y=data["y_full"])
    again = build(recorded, **SIGMA_ONE).fit()
    np.testing.assert_array_equal(again.params, results.params)


def test_given_soft_selection_takes_the_place_of_the_mean(data, results):
    found = build(data, soft_selection=0.3, **SIGMA_ONE).fit()
    assert found.soft_selection == 0.3
    assert set(found.model.training_design.s) == {0.3, 1.0}
    same = build(data, soft_selection=results.soft_selection, **SIGMA_ONE).fit()
    np.testing.assert_allclose(same.params, results.params, rtol=1e-8)


def test_rowwise_soft_selection_is_each_rows_prediction(data):
    _, W = designs(data)
    unseen = (data["s"] == 0).to_numpy()
    predicted = sm.Probit(data["s"], W).fit(disp=0).predict(W).to_numpy()
    model = build(data, soft_selection="rowwise", **SIGMA_ONE)._staged(0.0)
    np.testing.assert_allclose(model.training_design.s[unseen], predicted[unseen], atol=1e-8)
    # Rows below one half still pull the selection index down, so there is a finite maximum.
    assert predicted[unseen].min() < 0.5 < predicted[unseen].max()
    found = model.fit(penalty=0.0)
    assert found.converged
    assert np.isfinite(found.bse).all()
    assert found.soft_selection == pytest.approx(predicted[unseen].mean(), abs=1e-8)


def test_soft_pseudolabels_are_probabilities(data):
    X, _ = designs(data)
    seen = data["s"] == 1
    p = sm.Logit(data["y"][seen], X[seen]).fit(disp=0).predict(X[~seen])
    found = build(data, soft_pseudolabels=True, **SIGMA_ONE).fit(penalty=0.0)
    np.testing.assert_allclose(found.pseudolabels, p, atol=1e-8)
    assert found.converged
    assert np.isfinite(found.bse).all()


def test_weights_count_as_replicated_rows(data):
    small = data.iloc[:400]
    counts = np.random.default_rng(1).integers(1, 4, len(small))
    weighted = build(small, freq_weights=counts, **SIGMA_ONE).fit()
    repeated = small.loc[small.index.repeat(counts)].reset_index(drop=True)
    replicated = build(repeated, **SIGMA_ONE).fit()
    assert weighted.soft_selection == pytest.approx(replicated.soft_selection, abs=1e-9)
    assert weighted.eta == pytest.approx(replicated.eta)
    np.testing.assert_allclose(weighted.params, replicated.params, rtol=1e-5, atol=1e-6)
    for cov_type in ("nonrobust", "HC0"):
        np.testing.assert_allclose(
            weighted.get_robustcov_results(cov_type).bse,
            replicated.get_robustcov_results(cov_type).bse,
            rtol=1e-4,
        )
    # The kernel's bandwidth counts rows.
    np.testing.assert_allclose(weighted.bse, replicated.bse, rtol=0.05)


def test_offsets_reach_the_first_stages(data):
    X, W = designs(data)
    seen = data["s"] == 1
    known, known_select = np.sin(3.0 * data["x1"]), np.cos(2.0 * data["z"])
    probit = sm.families.Binomial(sm.families.links.Probit())
    g_s = sm.GLM(data["s"], W, offset=known_select, family=probit).fit(tol=1e-14)
    g_y = sm.Logit(data["y"][seen], X[seen], offset=known[seen]).fit(disp=0)
    found = build(data, offset=known, offset_select=known_select, **SIGMA_ONE).fit(penalty=0.0)
    p_select = g_s.predict(W[~seen], offset=known_select[~seen])
    assert found.soft_selection == pytest.approx(p_select.mean(), abs=1e-7)
    label = g_y.predict(X[~seen], offset=known[~seen]) > 0.5
    np.testing.assert_array_equal(found.pseudolabels, label)


def test_offset_that_is_a_column_moves_its_coefficient_only(data):
    options = {"offset": data["x1"], "offset_select": 0.5 * data["z"]}
    moved = build(data, **options, **SIGMA_ONE).fit(penalty=0.0)
    results = build(data, **SIGMA_ONE).fit(penalty=0.0)  # a penalty knows coefficients only
    params = moved.params.copy()
    params["x1"] += 1.0
    params["select_z"] += 0.5
    np.testing.assert_allclose(params, results.params, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(moved.bse, results.bse, rtol=1e-4)


def test_scikit_learn_classifiers_serve_as_first_stages(data):
    linear_model = pytest.importorskip("sklearn.linear_model")
    tree = pytest.importorskip("sklearn.tree")
    g_s = linear_model.LogisticRegression(C=1e10, tol=1e-10, max_iter=1000)
    g_y = tree.DecisionTreeClassifier(max_depth=2, random_state=0)
    found = build(data, selection_model=g_s, pseudolabel_model=g_y, **SIGMA_ONE).fit()
    soft, _ = soft_rows(data, sm.Logit)
    assert found.soft_selection == pytest.approx(soft.min(), abs=1e-5)
    X, _ = designs(data)
    seen = data["s"] == 1
    by_hand = g_y.fit(X[seen].to_numpy(), data["y"][seen]).predict_proba(X[~seen].to_numpy())[:, 1]
    np.testing.assert_array_equal(found.pseudolabels, by_hand > 0.5)
    assert found.cov_type == "HC0"
    with pytest.raises(ValueError, match="cov_type='stacked' needs first stages"):
        found.get_robustcov_results("stacked")
    assert not hasattr(g_s, "coef_")  # the user's object stays as it was
    assert "DecisionTreeClassifier" in found.summary().as_text()


def test_mlp_is_a_function_of_its_rng(data):
    def labels(rng: int) -> pd.Series:
        return build(
            data, pseudolabel_model=MLP(rng=rng, epochs=40)
        ).first_stage.outcome.probability

    np.testing.assert_array_equal(labels(0), labels(0))
    assert np.abs(labels(0) - labels(1)).max() > 1e-3


def test_mlp_knows_weights_as_replicated_rows(data):
    small = data.iloc[:300]
    counts = np.random.default_rng(1).integers(1, 4, len(small))
    settings = MLP(epochs=50)
    weighted = build(small, freq_weights=counts, pseudolabel_model=settings).first_stage
    place = np.repeat(np.arange(len(small)), counts)
    repeated = small.iloc[place].reset_index(drop=True)
    replicated = build(repeated, pseudolabel_model=settings).first_stage
    np.testing.assert_allclose(
        weighted.outcome.probability[place], replicated.outcome.probability, rtol=1e-8
    )


def test_mlp_by_name_has_the_default_settings(data):
    named = build(data, pseudolabel_model="mlp", **SIGMA_ONE).fit()
    assert named.cov_type == "HC0"
    assert "mlp(5, 2)" in named.summary().as_text()
    given = build(data, pseudolabel_model=MLP(), **SIGMA_ONE).fit()
    np.testing.assert_array_equal(named.params, given.params)


# -- determinism -----------------------------------------------------------------------------------


@pytest.mark.parametrize("integration", ["quadrature", Simulation(50, rng=2)], ids=["quad", "sim"])
def test_block_size_does_not_matter(data, integration):
    model = build(data, integration=integration, normalization="free")
    form, params = model.parametrized.form, parameters()
    whole = Objective(model.rows, form).evaluate(params)
    for size in (7, 333):
        parts = Objective(model.rows, form, block_size=size).evaluate(params)
        for name in ("value", "score", "hessian"):
            expected = getattr(whole, name).numpy()
            np.testing.assert_allclose(
                getattr(parts, name).numpy(), expected, rtol=1e-10, atol=1e-10 * abs(expected).max()
            )


def test_row_order_does_not_matter(data, results):
    again = build(data.sample(frac=1.0, random_state=1), **SIGMA_ONE).fit()
    np.testing.assert_allclose(again.params, results.params, rtol=1e-7)
    pd.testing.assert_series_equal(
        again.pseudolabels.sort_index(), results.pseudolabels.sort_index()
    )


PROGRAM = """
import json, torch
from statsmodels_mnar import BiasCorrLogit
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.kernel.integration import Simulation
data = simulate_greene(2_000).data
formulas = ("y ~ x1 + x2", "s ~ x1 + x2 + z")
converged = BiasCorrLogit.from_formula(*formulas, data, normalization={"sigma": 1.0}).fit()
draws = Simulation(20, "random", rng=1, redraw=True)
stopped = BiasCorrLogit.from_formula(*formulas, data, integration=draws).fit(method="sgd", tol=5e-3)
print(json.dumps([torch.get_num_threads(), [*converged.params, *converged.bse], [*stopped.params]]))
"""


@pytest.mark.full
def test_number_of_threads_does_not_matter():
    def run(threads: int) -> list:
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
        place = Path(__file__).resolve().parents[2]
        out = subprocess.run(
            command,
            env=environment,
            cwd=place,
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        return json.loads(out.stdout)

    one, two = run(1), run(2)
    assert one[0] == 1
    for first, second in zip(one[1:], two[1:], strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-10, atol=1e-10)


# -- degenerate cases ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["newton", "sgd"])
def test_both_kinds_of_rows_are_needed(data, method):
    everyone = data.assign(y=data["y_full"], s=1)
    with pytest.raises(NoVariationError, match="all 600 rows are selected"):
        build(everyone).fit(method=method)
    with pytest.raises(NoVariationError, match="none of the 600 rows is selected"):
        build(data.assign(s=0, y=np.nan)).fit(method=method)
    with pytest.raises(NoVariationError, match="the outcome y is 1 on all"):
        build(data.assign(y=data["y"].where(data["y"].isna(), 1.0))).fit(method=method)


@pytest.mark.parametrize(
    "soft", [0.5, *(pytest.param(soft, marks=pytest.mark.full) for soft in (0.7, 1.0))]
)
def test_soft_selection_of_one_half_needs_a_penalty(data, soft):
    model = build(data, soft_selection=soft, **SIGMA_ONE)
    with pytest.raises(ValueError, match=r"no finite maximum\. Use a ridge penalty.*method='sgd'"):
        model.fit(penalty=0.0)
    for penalty in ({}, {"penalty": 1e-3}):
        with pytest.warns(ModelWarning, match="penalty alone holds the selection coefficients"):
            assert model.fit(**penalty).converged


def separated(data: pd.DataFrame) -> pd.DataFrame:
    """z tells selection without error."""
    return data.assign(z=np.where(data["s"] == 1, 1.0, -1.0) * (0.1 + data["z"].abs()))


def test_separated_selection_names_the_column_and_the_remedies(data):
    with pytest.raises(PerfectSeparationError, match=r"separated by z:.*ridge.*drop.*'sgd'"):
        build(separated(data), **SIGMA_ONE).fit(penalty=0.0)


@pytest.mark.parametrize(
    "normalization",
    [pytest.param(None, id="default"),
     pytest.param({"sigma": 1.0}, id="sigma one", marks=pytest.mark.full)],
)  # fmt: skip
def test_the_default_penalty_holds_separated_equations_and_says_so(data, normalization):
    side = np.where(data["y"].isna(), np.sign(data["x1"]), 2.0 * data["y"] - 1.0)
    cases = {
        "selection": (separated(data), "z predicts the selection without error"),
        "outcome": (data.assign(x1=side * (0.1 + data["x1"].abs())), "x1 predicts the outcome"),
    }
    for equation, (frame, text) in cases.items():
        with pytest.warns(ModelWarning, match=f"alone holds the {equation} coefficients: {text}"):
            found = build(frame, normalization=normalization).fit()
        assert found.converged and np.isfinite(found.bse).all()
        assert found.instrument.verdict == ("unknown" if equation == "selection" else "strong")
        assert text in " ".join(str(found.summary()).split())
        again = pickle.loads(pickle.dumps(found))
        again.remove_data()
        assert again.held_by_penalty == found.held_by_penalty != ()
    assert build(data, normalization=normalization).fit().held_by_penalty == ()


def test_collinear_columns_are_divided_by_the_penalty_and_named(data):
    twice = data.assign(copy=2.0 * data["x1"])
    model = BiasCorrLogit.from_formula("y ~ x1 + x2 + copy", "s ~ x1 + x2 + z", twice)
    with pytest.warns(ModelWarning, match="divides the effect on the outcome: .* combination of"):
        found = model.fit()
    assert found.params["x1"] == pytest.approx(2.0 * found.params["copy"], rel=1e-4)


@pytest.mark.parametrize("cls", [BiasCorrLogit, GreeneSelectionLogit])
def test_units_and_origins_of_columns_do_not_matter_to_the_penalty(data, cls):
    moved = data.assign(x1=2_000.0 + 3.0 * data["x1"], z=0.05 + 0.01 * data["z"])
    before, after = (
        cls.from_formula(*FORMULAS, frame).fit(penalty=1e-2) for frame in (data, moved)
    )
    assert after.params["x1"] * 3.0 == pytest.approx(before.params["x1"], rel=1e-5)
    assert after.params["select_z"] * 0.01 == pytest.approx(before.params["select_z"], rel=1e-5)
    assert after.bse["x1"] * 3.0 == pytest.approx(before.bse["x1"], rel=1e-4)
    np.testing.assert_allclose(after.predict(moved), before.predict(data), rtol=1e-5)


def test_the_default_penalty_is_the_papers_weight_decay(data):
    model = build(data)
    found = model.fit()
    assert found._fit_info.penalty == 1e-4
    np.testing.assert_array_equal(found.params, model.fit(penalty=1e-4).params)
    assert model.fit(method="sgd", tol=5e-3)._fit_info.penalty == 0.0


def test_the_loading_form_is_the_default_and_sgd_takes_the_free_one(data):
    for cls in (BiasCorrLogit, GreeneSelectionLogit):
        model = cls.from_formula(*FORMULAS, data)
        assert model.normalization == "loading"
        stopped = model.fit(method="sgd", tol=5e-3)
        assert stopped.model.normalization == "free"
        named = cls.from_formula(*FORMULAS, data, normalization="loading")
        with pytest.raises(ValueError, match="normalization='loading': method='sgd'"):
            named.fit(method="sgd")
        drawn = cls.from_formula(*FORMULAS, data, integration=Simulation(20))
        assert drawn.normalization == "free"  # the loading form has no use for draws


def test_summary_neither_claims_a_likelihood_nor_tests_the_dependence(data):
    found = build(data).fit()
    text = str(found.summary())
    assert "BiasCorr, newton" in text and "ML, newton" not in text
    line = next(line for line in text.splitlines() if line.startswith("loading"))
    assert len(line.split()) == 5  # name, estimate, error and interval
    assert found.tidy().loc["loading", ["statistic", "p_value"]].isna().all()
    assert "compare() fits Greene's model" in " ".join(text.split())
    line = next(v for v in str(found.summary2()).splitlines() if v.startswith("loading"))
    assert len(line.split()) == 5


def test_separated_selection_has_a_penalised_maximum_of_all_steps(data):
    """The ridge of g_s makes s-bar a number that does not depend on where Newton gave up."""
    frame = separated(data)
    soft = {}
    for penalty in (1e-4, 1e-2):
        with pytest.warns(ModelWarning, match="penalty alone holds the selection"):
            found = build(frame, **SIGMA_ONE).fit(penalty=penalty)
        assert found.converged
        assert found.first_stage.select.fit.converged
        soft[penalty] = found.soft_selection
    assert 1e-6 < soft[1e-4] < soft[1e-2] < 0.5
    _, W = designs(frame)
    unseen = (frame["s"] == 0).to_numpy()
    gamma = found.first_stage.select.fit.params.numpy()
    assert ndtr(W[unseen] @ gamma).mean() == pytest.approx(soft[1e-2], rel=1e-12)


def test_separated_outcome_is_refused(data):
    side = np.where(data["y"].isna(), np.sign(data["x1"]), 2.0 * data["y"] - 1.0)
    frame = data.assign(x1=side * (0.1 + data["x1"].abs()))
    with pytest.raises(PerfectSeparationError, match="the outcome equation is perfectly separated"):
        build(frame, **SIGMA_ONE).fit(penalty=0.0)


def test_pseudolabels_of_one_class_warn(data):
    rng = np.random.default_rng(0)
    often = data.assign(y=np.where(data["s"] == 1, rng.random(len(data)) < 0.95, np.nan))
    with pytest.warns(ModelWarning, match=r"all \d+ pseudolabels are 1"):
        build(often, **SIGMA_ONE).fit()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"selection_model": "tree"}, r"selection_model='tree' is unknown; use one of \['probit'"),
        ({"selection_model": "mlp"}, "selection_model='mlp' is unknown"),
        ({"pseudolabel_model": "probit"}, r"pseudolabel_model='probit' is unknown.*'mlp'"),
        ({"pseudolabel_model": 3}, "pseudolabel_model=3 must have the methods fit and predict"),
        ({"soft_selection": 1.5}, r"soft_selection=1.5 must be a number in \[0, 1\]"),
        ({"soft_selection": -0.1}, "soft_selection=-0.1 must be"),
        ({"soft_selection": np.nan}, "soft_selection=nan must be"),
        ({"soft_selection": "mean"}, "soft_selection='mean' must be .* or 'rowwise'"),
        ({"soft_selection": np.array([0.1, 0.2])}, "soft_selection=.* must be"),
        ({"normalization": "probit"}, "normalization='probit' is not defined for BiasCorr"),
    ],
)
def test_bad_options_are_refused(data, options, message):
    with pytest.raises(ValueError, match=message):
        build(data, **options)


def test_unknown_fit_options_are_refused(data):
    with pytest.raises(TypeError, match="unexpected option"):
        build(data).fit(lr=0.1)
    with pytest.raises(ValueError, match="HC3"):
        build(data).fit(cov_type="HC3")
    with pytest.raises(ValueError, match="unknown"):
        build(data).fit(method="adam")


# -- results ---------------------------------------------------------------------------------------


def test_bias_condition_tells_numbers_and_verdict(results):
    condition = results.bias_condition
    share = 1.0 - results.nobs_selected / results.nobs
    assert condition.eta == results.eta == pytest.approx(share)
    assert condition.threshold == pytest.approx(1.0 / (2.0 - results.soft_selection))
    assert condition.holds is False
    words = str(condition)
    assert f"{share:.4f} <= 1/(2 - s-bar) = {condition.threshold:.4f}" in words
    assert "does not hold" in words and "sufficient, not necessary" in words


def test_bias_condition_holds_where_most_labels_are_missing(data):
    kept = data["s"].eq(1) & (np.arange(len(data)) % 4 == 0)
    frame = data.assign(s=kept.astype(int), y=data["y"].where(kept))
    condition = build(frame, **SIGMA_ONE).fit().bias_condition
    assert condition.holds is True
    assert condition.eta > condition.threshold
    assert "> 1/(2 - s-bar)" in str(condition) and "theorem holds" in str(condition)


@pytest.mark.parametrize("name", ["aic", "bic", "llr", "llr_pvalue", "prsquared"])
def test_what_needs_a_likelihood_is_absent(results, name):
    assert not hasattr(results, name)
    assert not hasattr(results._results, name)
    assert name not in results.summary().as_text().lower()


def test_there_is_no_test_of_independence(results):
    with pytest.raises(ValueError, match="BiasCorr has no test of independence"):
        results.test_independence()


@pytest.mark.parametrize("cov_type", ["stacked", "nonrobust", "HC0"])
def test_summary_names_classifiers_and_covariance(data, results, cov_type):
    text = results.get_robustcov_results(cov_type).summary().as_text()
    assert "g_s:" in text and "probit" in text
    assert "g_y:" in text and "logit" in text
    assert cov_type in text
    words = " ".join(text.split())
    expected = "carrying the error of g_s" if cov_type == "stacked" else "given the pseudolabels"
    assert expected in words
    assert "not the likelihood of the observed data" in words
    assert f"{results.soft_selection:.4f}" in text


def test_default_covariance_is_stacked(results):
    assert results.cov_type == "stacked"
    assert np.linalg.eigvalsh(results.cov_params()).min() > 0


def test_pred_table_counts_as_scikit_learn_does(data, results):
    metrics = pytest.importorskip("sklearn.metrics")
    seen = data["s"] == 1
    p = results.predict(data[seen])
    for threshold in (0.5, 0.7):
        expected = metrics.confusion_matrix(data["y"][seen], p > threshold)
        np.testing.assert_array_equal(results.pred_table(threshold), expected)


def test_classification_agrees_with_scikit_learn(data, results):
    metrics = pytest.importorskip("sklearn.metrics")
    new = simulate_greene(500, rng=7).data
    y, p = new["y_full"], results.predict(new)
    np.testing.assert_allclose(
        results.classification(y, new),
        [
            metrics.accuracy_score(y, p > 0.5),
            metrics.f1_score(y, p > 0.5),
            metrics.roc_auc_score(y, p),
            metrics.brier_score_loss(y, p),
        ],
        rtol=1e-12,
    )
    own = results.classification(data["y_full"])
    assert own["accuracy"] == pytest.approx(
        metrics.accuracy_score(data["y_full"], results.predict() > 0.5)
    )
    assert np.isnan(results.classification(np.ones(500), new)["auc"])  # no pair to compare
    with pytest.raises(ValueError, match="y must be 500 labels"):
        results.classification(y[:-1], new)
    with pytest.raises(ValueError, match="coded 0 and 1"):
        results.classification(y + 1, new)


def test_predicted_class_is_the_sign_of_the_index(data, results):
    """The paper predicts by L(x'beta) > 0.5; averaging over the error does not move the sign."""
    np.testing.assert_array_equal(
        results.predict(data) > 0.5, results.predict(data, which="linear") > 0.0
    )


def test_sbar_path_refits_at_each_value(data, results):
    path = results.sbar_path([0.1, 0.3], y=data["y_full"])
    assert list(path.index) == [0.1, 0.3]
    assert path.index.name == "soft_selection"
    assert list(path.columns) == ["Intercept", "x1", "x2", "accuracy", "f1", "auc", "brier"]
    alone = build(data, soft_selection=0.3, **SIGMA_ONE).fit()
    np.testing.assert_allclose(path.loc[0.3, "Intercept":"x2"], alone.params[:3], rtol=1e-6)
    assert path.loc[0.3, "accuracy"] == alone.classification(data["y_full"])["accuracy"]


@pytest.mark.full
def test_sbar_path_has_nine_values_by_default(results):
    assert len(results.sbar_path()) == 9


def test_sbar_path_follows_the_papers_descent(data):
    stopped = build(data).fit(method="sgd", tol=5e-3)
    path = stopped.sbar_path([0.2], tol=5e-3)
    alone = build(data, soft_selection=0.2).fit(method="sgd", tol=5e-3)
    np.testing.assert_allclose(path.loc[0.2], alone.params[:3], rtol=1e-12)


def test_results_survive_a_pickle(data, results):
    again = pickle.loads(pickle.dumps(results))
    np.testing.assert_array_equal(again.params, results.params)
    np.testing.assert_array_equal(again.bse, results.bse)
    assert again.soft_selection == results.soft_selection
    pd.testing.assert_series_equal(again.pseudolabels, results.pseudolabels)
    np.testing.assert_array_equal(again.predict(data), results.predict(data))
    assert (
        again.summary().as_text().splitlines()[5:] == results.summary().as_text().splitlines()[5:]
    )


def test_arrays_and_formulas_agree(data, results):
    X, W = designs(data)
    found = BiasCorrLogit(data["y"], X, data["s"], W, **SIGMA_ONE).fit()
    np.testing.assert_allclose(found.params.to_numpy(), results.params.to_numpy(), rtol=1e-8)
    np.testing.assert_allclose(found.bse.to_numpy(), results.bse.to_numpy(), rtol=1e-6)
    pd.testing.assert_series_equal(found.pseudolabels, results.pseudolabels)


# -- standard errors -------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize(
    ("given", "penalty"),
    [(None, 0.0), (None, 1e-2), pytest.param(0.3, 0.0, marks=pytest.mark.slow)],
)
def test_stacked_covariance_is_the_infinitesimal_jackknife(given, penalty, monkeypatch):
    """The sum of squared derivatives of the estimates in each row's weight, through all steps.

    Soft pseudolabels, which are differentiable; hard ones are compared with the bootstrap. The
    means and variances of the columns in the penalty are held, as the covariance takes them.
    """
    held = Moments.of
    monkeypatch.setattr(Moments, "of", classmethod(lambda cls, X, weights=None: held(X)))
    data = simulate_greene(50, rng=1, sigma=1.0).data

    def fit(weights: np.ndarray, cov_type: str = "HC0"):
        model = build(
            data, prob_weights=weights, normalization={"sigma": 1.0, "rho": 0.3},
            soft_pseudolabels=True, soft_selection=given,
        )  # fmt: skip
        return model.fit(cov_type=cov_type, penalty=penalty)

    ones, step = np.ones(len(data)), 1e-2
    influence = np.array(
        [
            (fit(ones + h).params - fit(ones - h).params).to_numpy() / (2.0 * step)
            for h in step * np.eye(len(data))
        ]
    )
    found = fit(ones, "stacked")
    np.testing.assert_allclose(np.linalg.norm(influence, axis=0), found.bse, rtol=1e-3)
    np.testing.assert_allclose(
        influence.T @ influence, found.cov_params(), rtol=1e-3, atol=1e-3 * found.bse.min() ** 2
    )
    assert (found.bse[:3] > fit(ones).bse[:3]).all()  # HC0 leaves the first stages out


@pytest.mark.slow
def test_stacked_standard_errors_agree_with_the_pairs_bootstrap():
    """150 refits of all steps; s-bar stays below one half in all of them. Prints the ratios."""
    data = simulate_greene(1_000).data
    found = build(data, **SIGMA_ONE).fit()
    rng = np.random.default_rng(0)
    draws = []
    for _ in range(150):
        sample = data.iloc[rng.integers(0, len(data), len(data))].reset_index(drop=True)
        draws.append(build(sample, **SIGMA_ONE).fit(cov_type="nonrobust").params.to_numpy())
    table = pd.DataFrame({"bootstrap": np.std(draws, axis=0, ddof=1)}, index=found.params.index)
    for cov_type in ("stacked", "HC0", "nonrobust"):
        errors = found.get_robustcov_results(cov_type).bse
        table[cov_type] = errors / table["bootstrap"]
    print(f"\n{table.round(3).to_string()}")
    assert table["stacked"][:3].between(0.8, 1.2).all(), table


@pytest.mark.parametrize("rho", [0.0, 0.7, -0.99])
def test_rho_tempers_the_selection_index_even_without_sigma(data, rho):
    """Integrated over e, an unlabelled row without an outcome is PHI(c_rho w'gamma)."""
    model = build(data, soft_selection=0.3, normalization={"sigma": 1e-8, "rho": rho})
    _, W = designs(data)
    params = np.zeros(model.nparams)
    params[model.k_outcome :] = np.linspace(-0.5, 0.8, model.k_select)
    unseen = (data["s"] == 0).to_numpy()
    t, c = np.arctanh(rho), 2 * 0.3 - 1
    tempered = c * np.cosh(t) / np.sqrt(1 + (c * np.sinh(t)) ** 2)
    # beta = 0: the outcome factor is 1 - s-bar + s-bar/2
    expected = np.log(0.85) + log_ndtr(tempered * (W.to_numpy() @ params[model.k_outcome :]))
    np.testing.assert_allclose(model.loglikeobs(params)[unseen], expected[unseen], rtol=1e-8)


def test_a_free_fit_that_ends_at_large_sigma_is_held_there_and_says_so():
    simulated = simulate_greene(1_000)
    results = BiasCorrLogit.from_formula(
        simulated.formula, simulated.select_formula, simulated.data, normalization="free"
    ).fit(penalty=0.0)
    assert results.status is Status.SIGMA_INFINITE
    assert results.sigma == pytest.approx(50.0)
    assert "Outcome: y (logit scale, sigma held at 50)" in str(results.summary())
    assert "a sigma held at 50" in " ".join(str(results.summary()).split())


def test_soft_selection_survives_the_removal_of_the_data(data):
    results = build(data, **SIGMA_ONE).fit()
    soft, size = results.soft_selection, len(pickle.dumps(results))
    results.remove_data()
    assert results.soft_selection == soft
    assert f"{soft:.4f}" in str(results.summary())
    assert len(pickle.dumps(results)) < 0.3 * size
