"""What must not change a likelihood or a fit, and what must change it in a known way.

Each test states a property of the mathematics, not of the code; data sets, models and options are
drawn by hypothesis (``cases.py``). The first half looks at the likelihood at any parameters, where
properties hold to rounding, the second half at fits.
"""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula as smf
import torch
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import expit, log_ndtr

from statsmodels_mnar import Execution
from statsmodels_mnar.errors import DesignError
from statsmodels_mnar.montecarlo import fit_many
from statsmodels_mnar.optimize.objective import Objective
from tests.trust.cases import BIASCORR, GREENE, MODELS, Case, cases, fit, said
from tests.trust.oracle import log_rows


def share(of: float) -> settings:
    """Fewer examples than the profile's, for tests that are repeated for every model."""
    return settings(max_examples=max(2, math.ceil(of * settings().max_examples)))


turns = count()


def in_turn(names: dict[str, Any]) -> pytest.MarkDecorator:
    """Every model, of which the default run takes one likelihood and one BiasCorr, in turn."""
    turn = next(turns)
    default = {tuple(kind)[turn % len(kind)] for kind in (GREENE, BIASCORR)}
    marks = {name: () if name in default else pytest.mark.full for name in names}
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=marks[name]) for name in names]
    )


EXACT = {"rtol": 1e-9, "atol": 1e-9}  # sums of a few hundred rows, in another order
TRAINED = {"rtol": 1e-6, "atol": 1e-6}  # the first stages of BiasCorr are fits themselves


def exactly(case: Case) -> dict[str, float]:
    return EXACT if case.is_likelihood else TRAINED


def built(case: Case, **more: Any) -> Any:
    """The model, of data on which BiasCorr's first stages exist."""
    model = case.build(**more)
    try:
        _ = model.rows
    except DesignError:
        reject()
    return model


def derivatives(model: Any, params: np.ndarray) -> tuple[float, pd.Series, pd.DataFrame]:
    names = model.param_names
    hessian = pd.DataFrame(model.hessian(params), names, names)
    return model.loglike(params), pd.Series(model.score(params), names), hessian


def check_same(one: Any, other: Any, params: Any, like: dict[str, float]) -> None:
    """Value and derivatives, by the names of the parameters and in units of their columns."""
    by_name = pd.Series(params, one.param_names)
    found = [derivatives(m, by_name[m.param_names].to_numpy()) for m in (one, other)]
    (value, score, hessian), (value2, score2, hessian2) = found
    order = one.param_names
    unit = np.sqrt(np.abs(np.diag(hessian))) + 1e-300
    assert_allclose(value2, value, **like)
    assert_allclose(score2[order] / unit, score / unit, atol=like["atol"] * len(one.endog))
    scale = np.outer(unit, unit)
    assert_allclose(hessian2.loc[order, order] / scale, hessian / scale, atol=10 * like["atol"])


# -- the likelihood --------------------------------------------------------------------------------


@in_turn(MODELS)
@share(0.3)
@given(data=st.data())
def test_the_likelihood_is_the_integral(name, data):
    case = data.draw(cases((name,)))
    model = built(case)
    params = case.params(model)
    weights = 1.0 if model.design.weights is None else model.design.weights
    assert_allclose(model.loglikeobs(params), weights * log_rows(model, params), rtol=1e-7)


@in_turn(MODELS)
@share(0.3)
@given(data=st.data())
def test_rows_may_come_in_any_order(name, data):
    case = data.draw(cases((name,)))
    order = case.rng.permutation(len(case.frame))
    one, other = built(case), built(case.on(case.frame.iloc[order]))
    params = case.params(one)
    check_same(one, other, params, exactly(case))
    by_row = pd.Series(one.loglikeobs(params), one.design.index)
    shuffled = pd.Series(other.loglikeobs(params), other.design.index)
    assert_allclose(shuffled[by_row.index], by_row, **exactly(case))


@in_turn(MODELS)
@share(0.3)
@given(data=st.data())
def test_terms_may_come_in_any_order(name, data):
    case = data.draw(cases((name,)))
    outcome, select = (tuple(case.rng.permutation(t)) for t in (case.outcome, case.select))
    one, other = built(case), built(replace(case, outcome=outcome, select=select))
    check_same(one, other, case.params(one), exactly(case))


def rescaled(case: Case) -> tuple[Case, dict[str, tuple[float, float]]]:
    """The covariates in other units: factor and shift of each."""
    units = {}
    for name in case.select:
        if name != "g":
            factor = float(case.rng.choice([-1, 1]) * 10.0 ** case.rng.uniform(-3, 3))
            spread = float(case.frame[name].std())
            units[name] = factor, float(case.rng.normal()) * abs(factor) * spread
    changed = {name: a * case.frame[name] + b for name, (a, b) in units.items()}
    return case.on(case.frame.assign(**changed)), units


def in_units(params: pd.Series, units: dict[str, tuple[float, float]]) -> pd.Series:
    """Coefficients of the same indices after covariates x became a x + b."""
    params = params.copy()
    for prefix in ("", "select_"):
        for name, (a, b) in units.items():
            if prefix + name in params:
                params[prefix + name] /= a
                params[f"{prefix}Intercept"] -= b * params[prefix + name]
    return params


@in_turn(MODELS)
@share(0.3)
@given(data=st.data())
def test_units_of_covariates_do_not_matter(name, data):
    case = data.draw(cases((name,)))
    changed, units = rescaled(case)
    one, other = built(case), built(changed)
    params = pd.Series(case.params(one), one.param_names)
    assert_allclose(
        other.loglikeobs(in_units(params, units).to_numpy()), one.loglikeobs(params), **TRAINED
    )


def flipped(case: Case) -> tuple[Case, dict[str, Any]]:
    """The other outcome called 1; offsets of its index and a fixed rho change sign with it."""
    frame = case.frame.assign(y=1.0 - case.frame["y"])
    if "offset" in frame:
        frame["offset"] = -frame["offset"]
    normalization = MODELS[case.model][1].get("normalization")
    if isinstance(normalization, dict) and "rho" in normalization:
        return case.on(frame), {"normalization": normalization | {"rho": -normalization["rho"]}}
    return case.on(frame), {}


def mirrored(params: np.ndarray, model: Any) -> np.ndarray:
    """beta and the dependence with the other sign."""
    signs = [
        1.0 if name.startswith("select_") or name == "lnsigma" else -1.0
        for name in model.param_names
    ]
    return params * np.array(signs)


@in_turn(MODELS)
@share(0.3)
@given(data=st.data())
def test_the_other_label_mirrors_beta_and_rho(name, data):
    case = data.draw(cases((name,)))
    other_case, options = flipped(case)
    one, other = built(case), built(other_case, **options)
    params = case.params(one)
    assert_allclose(
        other.loglikeobs(mirrored(params, one)), one.loglikeobs(params), **exactly(case)
    )


@in_turn(MODELS)
@share(0.3)
@given(data=st.data())
def test_frequency_weights_are_repetitions(name, data):
    case = data.draw(cases((name,), weights=("freq_weights",)))
    case.frame.loc[case.rng.random(len(case.frame)) < 0.1, "w"] = 0.0  # never seen
    one = built(case)
    params = case.params(one)
    check_same(one, built(repeated(case)), params, exactly(case))


def repeated(case: Case) -> Case:
    """Each row as often as its frequency weight says, without weights."""
    rows = case.frame.index.repeat(case.frame["w"].astype(int))
    options = {name: column for name, column in case.options.items() if name != "freq_weights"}
    return replace(case, frame=case.frame.loc[rows].reset_index(drop=True), options=options)


@in_turn(MODELS)
@share(0.3)
@given(data=st.data())
def test_sampling_weights_scale_the_likelihood(name, data):
    case = data.draw(cases((name,), weights=("prob_weights",)))
    factor = data.draw(st.floats(1e-3, 1e3))
    one, other = built(case), built(case.on(case.frame.assign(w=factor * case.frame["w"])))
    params = case.params(one)
    like = exactly(case) | {"atol": 1e-9 * factor * len(case.frame)}
    assert_allclose(other.loglike(params), factor * one.loglike(params), **like)
    assert_allclose(other.loglikeobs(params), factor * one.loglikeobs(params), **like)


def with_unselected(case: Case, index: np.ndarray) -> Case:
    """More unselected rows, whose offset in the selection equation is given."""
    case.frame["offset_select"] = case.frame.get("offset_select", 0.0)
    whole = case.frame.dropna(subset=[name for name in case.select])
    rows = whole.iloc[case.rng.integers(len(whole), size=len(index))]
    rows = rows.assign(s=0.0, y=np.nan, offset_select=index)
    return case.on(pd.concat([case.frame, rows], ignore_index=True), offset_select="offset_select")


@in_turn(GREENE)
@share(0.3)
@given(data=st.data())
def test_unselected_rows_add_the_probability_of_their_index(name, data):
    case = data.draw(cases((name,)))
    m = data.draw(st.integers(1, 20))
    more = with_unselected(case, case.rng.uniform(-3.0, 3.0, m))
    one, other = built(replace(case, options=more.options)), built(more)
    params = case.params(one)
    gamma = params[one.k_outcome : one.k_outcome + one.k_select]
    index = other.design.W[-m:] @ gamma + other.design.offset_select[-m:]
    weights = np.ones(m) if other.design.weights is None else other.design.weights[-m:]
    added = (weights * log_ndtr(-index)).sum()
    assert_allclose(other.loglike(params) - one.loglike(params), added, **EXACT)


@in_turn(MODELS)
@share(0.3)
@given(data=st.data())
def test_rows_that_were_never_to_be_selected(name, data):
    """They tell Greene's model nothing; BiasCorr counts their pseudolabels, as the paper does."""
    case = data.draw(cases((name,)))
    m = data.draw(st.integers(1, 20))
    more = with_unselected(case, np.full(m, -1e4))
    one, other = built(replace(case, options=more.options)), built(more)
    params = case.params(one)
    added = other.loglikeobs(params)[-m:]
    if case.is_likelihood:
        assert (added == 0.0).all()
        assert_allclose(other.loglike(params), one.loglike(params), **EXACT)
        return
    training = other.training_design
    soft, label = training.s[-m:], training.y[-m:]
    offset = 0.0 if training.offset is None else training.offset[-m:]
    index = training.X[-m:] @ params[: one.k_outcome] + offset
    nodes, node_weights = np.polynomial.hermite_e.hermegauss(80)
    theta = one.expand(params)
    loading = one.parametrized.kind == "loading"
    sigma = abs(theta[-1]) if loading else math.exp(theta[-2])
    positive = expit(index[:, None] + sigma * nodes) @ node_weights / math.sqrt(2.0 * math.pi)
    likely = label * positive + (1.0 - label) * (1.0 - positive)
    weights = 1.0 if other.design.weights is None else other.design.weights[-m:]
    # At s' > 1/2 such a row is impossible under the objective: its selection pulls upwards.
    low = soft < 0.5
    expected = weights * np.log((1.0 - soft) + soft * likely)
    assert_allclose(added[low], expected[low], rtol=1e-6)
    assert (added[~low] < -1e3).all()


@share(0.5)
@given(case=cases(), size=st.integers(1, 300))
def test_blocks_do_not_matter(case, size):
    model = built(case)
    params = model.expand(case.params(model))
    whole = model.objective().evaluate(params)
    blocks = Objective(model.rows, model.parametrized.form, block_size=size).evaluate(params)
    for name in ("value", "score", "hessian"):
        one, other = getattr(whole, name), getattr(blocks, name)
        assert_allclose(other, one, rtol=1e-9, atol=1e-9 * float(one.abs().max()))


@share(0.5)
@given(case=cases(rows=(400, 3_000)))
def test_threads_do_not_matter(case):
    model = built(case)
    params = case.params(model)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append((model.loglike(params), model.score(params)))
    finally:
        torch.set_num_threads(before)
    for value, score in found[1:]:
        assert_allclose(value, found[0][0], rtol=1e-12)
        assert_allclose(score, found[0][1], rtol=1e-8, atol=1e-10 * np.abs(found[0][1]).max())


@in_turn(MODELS)
@share(0.3)
@given(data=st.data())
def test_formulas_and_arrays_are_one_model(name, data):
    case = data.draw(cases((name,)))
    one = built(case)
    d = one.design
    kind, own = MODELS[name]
    weights = {} if d.weight_kind is None else {d.weight_kind: d.weights}
    other = kind(
        d.y, d.X, d.s, d.W, offset=d.offset, offset_select=d.offset_select, **weights, **own
    )
    params = case.params(one)
    assert_allclose(other.loglikeobs(params), one.loglikeobs(params), rtol=1e-12)


TERMS = ("x1", "C(g)", "g:x1", "center(x1)", "I(x1**2)", "np.exp(-x1**2)", "bs(x1, df=4)")


@share(1.0)
@given(
    case=cases(("loading",), weights=(None,), offsets=False).filter(lambda c: "g" in c.frame),
    terms=st.lists(st.sampled_from(TERMS), min_size=1, max_size=4, unique=True),
)
def test_patsy_and_formulaic_make_the_same_columns(case, terms):
    pytest.importorskip("formulaic")
    case.frame["x1"] /= case.frame["x1"].std()
    case = replace(case, outcome=tuple(terms))
    engine, designs = smf.options.formula_engine, []
    try:
        for each in ("patsy", "formulaic"):
            smf.options.formula_engine = each
            designs.append(case.build().design)
    finally:
        smf.options.formula_engine = engine
    one, other = designs
    assert one.X.shape == other.X.shape
    assert_allclose(one.kept, other.kept)
    # Names and the order of columns differ between the two, what the columns span does not.
    for left, right in ((one.X, other.X), (other.X, one.X)):
        coefficients = np.linalg.lstsq(left, right, rcond=None)[0]
        assert_allclose(left @ coefficients, right, atol=1e-7)


@in_turn(MODELS)
@share(0.3)
@given(data=st.data())
def test_partitions_do_not_matter(name, data):
    case = data.draw(cases((name,)))
    size, threads = data.draw(st.integers(20, 500)), data.draw(st.integers(1, 2))
    one = built(case)
    other = built(case, execution=Execution(partition_rows=size, threads=threads))
    params = case.params(one)
    assert_allclose(other.loglike(params), one.loglike(params), **exactly(case))
    assert_allclose(other.score(params), one.score(params), rtol=1e-5, atol=1e-6)


@in_turn(GREENE)
@share(0.3)
@given(data=st.data())
def test_probabilities_add_up(name, data):
    case = data.draw(cases((name,)))
    model = case.build()
    params = case.params(model)
    names = ("p11", "p10", "p01", "p00", "mean", "prob-select", "mean-selected", "mean-unselected")
    p = {which: model.predict(params, which=which) for which in names}
    like = {"rtol": 1e-7, "atol": 1e-12}
    assert_allclose(p["p11"] + p["p10"] + p["p01"] + p["p00"], 1.0, **like)
    assert_allclose(p["p11"] + p["p10"], p["mean"], **like)
    assert_allclose(p["p11"] + p["p01"], p["prob-select"], **like)
    assert_allclose(p["mean-selected"] * p["prob-select"], p["p11"], **like)
    assert_allclose(p["mean-unselected"] * (1.0 - p["prob-select"]), p["p10"], **like)
    # What the likelihood says of a row is its probability.
    d = model.design
    row = np.where(d.s == 0, 1.0 - p["prob-select"], np.where(d.y == 1, p["p11"], p["p01"]))
    weights = 1.0 if d.weights is None else d.weights
    assert_allclose(model.loglikeobs(params), weights * np.log(row), rtol=1e-6)


# -- fits ------------------------------------------------------------------------------------------

fits = share(0.6)


def probabilities(results: Any, which: str = "mean") -> pd.Series:
    return pd.Series(results.model.predict(results.params, which=which), results.model.design.index)


def check_same_fit(one: Any, other: Any, *, params: pd.Series | None = None) -> None:
    """The same maximum; parameters where they are identified."""
    assert other.converged
    assert_allclose(other.llf, one.llf, rtol=1e-9, atol=1e-6)
    if is_identified(one):
        expected = one.params if params is None else params
        errors = pd.Series(np.sqrt(np.diag(other.cov_params_default)), other.model.param_names)
        distance = (other.params - expected) / errors[expected.index]
        assert np.abs(distance).max() < 1e-3
    for which in ("mean", "prob-select"):
        p, q = (probabilities(r, which) for r in (one, other))
        assert_allclose(q[p.index], p, atol=1e-4)


def is_identified(results: Any) -> bool:
    """Whether the maximum is a point, of a regular information matrix."""
    errors = np.sqrt(np.diag(results.cov_params_default))
    if not np.isfinite(errors).all() or (errors == 0).any():
        return False
    correlation = results.cov_params_default / np.outer(errors, errors)
    return bool(np.linalg.eigvalsh(correlation)[0] > 1e-5)


@fits
@given(case=cases())
def test_fit_rows_in_any_order(case):
    one = case.fitted()
    order = case.rng.permutation(len(case.frame))
    check_same_fit(one, case.on(case.frame.iloc[order]).fit())


@fits
@given(case=cases())
def test_fit_terms_in_any_order(case):
    one = case.fitted()
    outcome, select = (tuple(case.rng.permutation(t)) for t in (case.outcome, case.select))
    check_same_fit(one, replace(case, outcome=outcome, select=select).fit())


@fits
@given(case=cases())
def test_fit_in_other_units(case):
    one = case.fitted()
    changed, units = rescaled(case)
    other = changed.fit()
    check_same_fit(one, other, params=in_units(one.params, units))
    effects, others = (r.get_margeff(dummy=False).summary_frame()["dy/dx"] for r in (one, other))
    for name, (a, _) in units.items():
        if name in effects:
            assert_allclose(a * others[name], effects[name], rtol=1e-2, atol=1e-4)


@fits
@given(case=cases())
def test_fit_of_the_other_label(case):
    one = case.fitted()
    other_case, options = flipped(case)
    other = other_case.fit(options)
    assert other.converged
    assert_allclose(other.llf, one.llf, rtol=1e-9, atol=1e-6)
    assert_allclose(probabilities(other), 1.0 - probabilities(one), atol=1e-4)
    assert_allclose(probabilities(other, "p01"), probabilities(one, "p11"), atol=1e-4)
    assert_allclose(other.error_corr, -one.error_corr, atol=1e-3)
    effects, others = (r.get_margeff().margeff for r in (one, other))
    assert_allclose(others, -effects, rtol=1e-2, atol=1e-3 * np.abs(effects).max())


COVARIANCES = ("nonrobust", "OPG", "HC0", "HC1")


def check_same_errors(one: Any, other: Any, cov_type: str, **how: Any) -> None:
    check_same_covariance(
        *(r.get_robustcov_results(cov_type, **how).cov_params_default for r in (one, other))
    )


def check_same_covariance(one: np.ndarray, other: np.ndarray) -> None:
    """To a thousandth of the standard errors."""
    errors = np.sqrt(np.diag(one))
    scale = np.outer(errors, errors)
    assert_allclose(other / scale, one / scale, atol=1e-3)


@fits
@given(case=cases(weights=("freq_weights",)), cov_type=st.sampled_from(COVARIANCES))
def test_fit_frequency_weights_are_repetitions(case, cov_type):
    one, other = case.fitted(), repeated(case).fit()
    assert other.converged
    assert_allclose(other.llf, one.llf, rtol=1e-9, atol=1e-6)
    assert (other.nobs, other.nobs_selected) == (one.nobs, one.nobs_selected)
    if is_identified(one):
        check_same_errors(one, other, cov_type)
        if "stacked" in one._more_cov_types:
            check_same_errors(one, other, "stacked")


@fits
@given(case=cases(weights=("prob_weights",)), factor=st.floats(1e-3, 1e3))
def test_fit_sampling_weights_of_any_scale(case, factor):
    one = case.fitted(cov_type="HC0")
    other = case.on(case.frame.assign(w=factor * case.frame["w"])).fit(cov_type="HC0")
    assert other.converged
    assert_allclose(other.llf, factor * one.llf, rtol=1e-8)
    assert_allclose(probabilities(other), probabilities(one), atol=1e-4)
    if is_identified(one):
        clusters = case.rng.integers(20, size=len(one.model.endog))
        check_same_errors(one, other, "HC0")
        check_same_errors(one, other, "cluster", groups=clusters)


@fits
@given(case=cases(tuple(GREENE)), m=st.integers(1, 30))
def test_fit_ignores_rows_that_were_never_to_be_selected(case, m):
    more = with_unselected(case, np.full(m, -1e4))
    one = replace(case, options=more.options).fitted()
    other = more.fit()
    assert_allclose(other.llf, one.llf, rtol=1e-9, atol=1e-6)
    assert_allclose(probabilities(other).iloc[:-m], probabilities(one), atol=1e-4)


@fits
@given(case=cases(), share_of=st.floats(0.01, 0.2))
def test_fit_ignores_rows_with_holes(case, share_of):
    one = case.fitted()
    holes = case.frame.sample(frac=share_of, random_state=0)
    column = case.rng.choice([name for name in case.select if name != "g"])
    holes = holes.assign(**{column: np.nan})
    check_same_fit(one, case.on(pd.concat([case.frame, holes], ignore_index=True)).fit())


@fits
@given(case=cases(missing=False))
def test_fit_does_not_read_types_indices_or_more_columns(case):
    one = case.fitted()
    frame = case.frame.convert_dtypes(dtype_backend="numpy_nullable")
    frame["y"], frame["s"] = frame["y"].astype("boolean"), frame["s"].astype("int8")
    if "g" in frame:
        levels = case.rng.permutation([*sorted(frame["g"].unique()), "unused"])
        frame["g"] = pd.Categorical(frame["g"], categories=sorted(levels))
    frame["unread"] = [[]] * len(frame)
    other = case.on(frame.set_index(pd.Index(["same label"] * len(frame)))).fit()
    assert_allclose(other.params, one.params, rtol=1e-6, atol=1e-9)


@pytest.mark.full
@fits
@given(case=cases(factors=True).filter(lambda case: "g" in case.frame))
def test_fit_with_another_reference_level(case):
    one = case.fitted()
    levels = case.frame["g"].dropna().unique()
    other = case.on(
        case.frame.assign(g=pd.Categorical(case.frame["g"], case.rng.permutation(levels)))
    ).fit()
    assert other.converged
    # A ridge depends on the coding of a factor: by no more than it subtracts in all.
    ridge = one._fit_info.penalty
    size = max(float((fit.params**2).sum()) for fit in (one, other))
    allowed = 1e-6 + 0.5 * ridge * one.nobs * size
    assert_allclose(other.llf, one.llf, rtol=1e-9, atol=allowed)
    assert_allclose(probabilities(other), probabilities(one), atol=2e-3 if ridge else 1e-4)


@fits
@given(case=cases(), data=st.data())
def test_fit_of_a_subset_is_the_fit_of_its_rows(case, data):
    keep = pd.Series(case.rng.random(len(case.frame)) < 0.8, case.frame.index)
    one = case.on(case.frame[keep]).fitted()
    how = data.draw(st.sampled_from(["mask", "labels"]))
    subset = keep if how == "mask" else list(case.frame.index[keep])
    other = case.fit({"subset": subset})
    assert_allclose(other.params, one.params, rtol=1e-6, atol=1e-9)


@fits
@given(case=cases(), size=st.integers(40, 500), cov_type=st.sampled_from(COVARIANCES))
def test_fit_of_partitions(case, size, cov_type):
    one = case.fitted(cov_type=None if case.options.get("prob_weights") else cov_type)
    how = {"execution": Execution(partition_rows=size)}
    other = case.fit(how, cov_type=one.cov_type)
    assert other.converged
    assert_allclose(other.llf, one.llf, rtol=1e-9, atol=1e-6)
    assert (other.nobs, other.nobs_selected, other.df_resid) == (
        one.nobs, one.nobs_selected, one.df_resid,
    )  # fmt: skip
    assert_allclose(other.predict(case.frame), one.predict(case.frame), atol=1e-4)
    if is_identified(one):
        check_same_covariance(one.cov_params_default, other.cov_params_default)


@fits
@given(case=cases())
def test_pickles_come_back_the_same(case):
    one = case.fitted()
    other = pickle.loads(pickle.dumps(one))
    assert other.llf == one.llf
    pd.testing.assert_series_equal(other.params, one.params)
    pd.testing.assert_frame_equal(other.cov_params(), one.cov_params())
    assert str(other.summary().tables[1]) == str(one.summary().tables[1])
    pd.testing.assert_series_equal(other.predict(case.frame), one.predict(case.frame))
    assert_allclose(other.model.loglike(one.params), one.model.loglike(one.params), rtol=1e-12)
    assert_allclose(other.get_margeff().margeff, one.get_margeff().margeff, rtol=1e-12)
    assert fit(other.model).params.equals(fit(one.model).params)


@fits
@given(case=cases(), seeds=st.lists(st.integers(0, 2**32 - 1), min_size=2, max_size=3))
def test_a_batch_is_its_single_fits(case, seeds):
    samples = []
    for seed in seeds:
        rows = np.random.default_rng(seed).integers(len(case.frame), size=len(case.frame))
        samples.append(case.on(case.frame.iloc[rows].reset_index(drop=True)))
    alone = [sample.fitted() for sample in samples]
    with said():
        together = list(fit_many([sample.build() for sample in samples]))
    for one, other in zip(alone, together, strict=True):
        assert not isinstance(other, str), other
        assert_allclose(other.llf, one.llf, rtol=1e-9, atol=1e-6)
        assert_allclose(probabilities(other), probabilities(one), atol=1e-4)


@fits
@given(case=cases())
def test_a_maximum_is_its_own_start(case):
    one = case.fitted()
    assume(not one.status.boundary)  # there the search goes on, on a face
    again = case.fit(start_params=one.params)
    assert again.solution.n_iter <= 1
    assert_allclose(again.llf, one.llf, rtol=1e-12, atol=1e-8)


@fits
@given(case=cases(), method=st.sampled_from(["bfgs", "lbfgs"]))
def test_optimisers_agree(case, method):
    one = case.fitted()
    assume(not one.status.boundary)
    other = case.fit(method=method)
    if other.converged and not other.status.boundary:
        assert other.llf <= one.llf + 1e-6 * abs(one.llf)
    if other.converged and is_identified(one):
        assert_allclose(other.llf, one.llf, rtol=1e-6)


@fits
@given(case=cases(), which=st.sampled_from(["mean", "linear", "prob-select", "mean-unselected"]))
def test_predictions_of_the_same_rows_as_new_data(case, which):
    one = case.fitted()
    frame = case.frame.loc[one.model.design.index]
    own = one.predict(which=which)
    assert_allclose(one.predict(frame, which=which), own, rtol=1e-9, atol=1e-12)
    assert_allclose(one.predict(frame.iloc[::-1], which=which)[::-1], own, rtol=1e-9, atol=1e-12)
    alone = one.predict(frame.iloc[[3]], which=which)
    assert_allclose(alone, np.asarray(own)[[3]], rtol=1e-9, atol=1e-12)
    prediction = one.get_prediction(which=which)
    assert_allclose(prediction.predicted, own, rtol=1e-9, atol=1e-12)


@fits
@given(case=cases(weights=(None, "prob_weights")), n_groups=st.integers(5, 40))
def test_names_of_clusters_do_not_matter(case, n_groups):
    one = case.fitted()
    groups = case.rng.integers(n_groups, size=len(one.model.endog))
    names = np.array([f"group {i}" for i in case.rng.permutation(n_groups)])[groups]
    found = [
        one.get_robustcov_results("cluster", groups=values).cov_params_default
        for values in (groups, names, -7 * groups, pd.Categorical(names))
    ]
    for other in found[1:]:
        assert_allclose(other, found[0], rtol=1e-9, atol=1e-12 * np.abs(found[0]).max())


@fits
@given(case=cases(weights=(None, "prob_weights")))
def test_rows_as_clusters_are_heteroskedasticity(case):
    one = case.fitted()
    rows = np.arange(len(one.model.endog))
    alone = one.get_robustcov_results("cluster", groups=rows, use_correction=False)
    robust = one.get_robustcov_results("HC0")
    assert_allclose(alone.cov_params_default, robust.cov_params_default, rtol=1e-7)


@fits
@given(
    case=cases(factors=False),
    which=st.sampled_from(["mean", "prob-select", "p11", "mean-selected"]),
    how=st.sampled_from(["dydx", "eyex", "dyex", "eydx"]),
)
def test_effects_in_other_units(case, which, how):
    """At the same fit: dy/dx goes with the unit, elasticities do not."""
    one = case.fitted()
    assume(not one.status.boundary)  # a face is another model
    factor = 10.0 ** case.rng.uniform(-3, 3)
    changed = case.on(case.frame.assign(x1=factor * case.frame["x1"])).build()
    params = in_units(one.params, {"x1": (factor, 0.0)})
    other = type(one._results)(
        replace(one._fit_info, model=changed, solution=moved(one, changed, params)), "HC0", {}
    )
    effects, others = (
        r.get_margeff(which=which, method=how, dummy=False).summary_frame().iloc[:, 0]
        for r in (one, other)
    )
    unit = factor if how in ("dydx", "eydx") else 1.0
    scale = pd.Series(1.0, effects.index)
    if "x1" in scale:
        scale["x1"] = unit
    assert_allclose(others * scale, effects, rtol=1e-6, atol=1e-9)


def moved(results: Any, model: Any, params: pd.Series) -> Any:
    """The solution at other parameters of another model."""
    return replace(results.solution, params=model.expand(params.to_numpy()))
