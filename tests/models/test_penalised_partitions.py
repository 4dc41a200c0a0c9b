"""Penalised terms of data in partitions: the fits, tables and predictions of rows in memory."""

from __future__ import annotations

import pickle
import random
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import statsmodels_mnar.design.terms as terms
from statsmodels_mnar import (
    BiasCorrLogit,
    DesignError,
    Execution,
    GreeneSelectionLogit,
    MissingOutcomeWarning,
    NotInMemoryError,
    ProbitSelection,
    local_workers,
)
from statsmodels_mnar.datasets import simulate_interviewers
from statsmodels_mnar.kernel.rows import Rows
from statsmodels_mnar.large.checkpoint import Journal
from statsmodels_mnar.large.partitions import ResampledObjective, draw_resamples
from tests.patience import PATIENCE

pytest.importorskip("pyarrow")

EVERYTHING = 10**9
CLOSE = 1e-6  # of estimates and their errors; sums are added in another order
CASES = {
    "selection": (ProbitSelection, "y ~ smooth(x1, df=6) + x2", "s ~ x1 + z + re(interviewer)"),
    "outcome": (GreeneSelectionLogit, "y ~ x2 + re(interviewer)", "s ~ smooth(x1) + z"),
    # Of log(v) some rows have no value; two factors, one of them of text that is missing at times.
    "two factors": (
        ProbitSelection,
        "y ~ np.log(v) + x2 + re(interviewer)",
        "s ~ x1 + z + re(area)",
    ),
}


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    found = simulate_interviewers(1_200, groups=40, separated=0.1, rng=1).data
    rng = np.random.default_rng(2)
    found["v"] = 2.0 + rng.standard_normal(len(found))
    found["area"] = rng.choice(["n", "e", "s", "w", None], len(found))
    found.loc[400:649, "x1"] = np.nan  # a partition without rows
    found.loc[found.index[:250], "interviewer"] = "i001"  # and one with a single level
    return found


@pytest.fixture(autouse=True)
def dask_draws_too(leaves_global_state_alone):
    """dask's client chooses among workers with Python's global random state, which is put back."""
    state = random.getstate()
    yield
    random.setstate(state)


@pytest.fixture(scope="module")
def parquet(data, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("data")
    data.to_parquet(folder / "all.parquet", row_group_size=50, index=False)
    return str(folder)


@pytest.fixture(scope="module")
def client():
    pytest.importorskip("distributed")
    with warnings.catch_warnings():  # a worker that is told to end may say so in a warning
        warnings.simplefilter("ignore")
        with local_workers(2, silence_logs=50) as client:
            client.wait_for_workers(2, timeout=PATIENCE)
            yield client


def built(case: str, data: Any, execution: Execution | None = None) -> Any:
    cls, outcome, select = CASES[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (MissingOutcomeWarning, RuntimeWarning))
        return cls.from_formula(outcome, select, data, execution=execution, env={"np": np})


def pair(case: str, many: int, data: pd.DataFrame, source: Any, execution: Execution) -> list[Any]:
    """The fit in memory, and that in partitions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terms, "MANY", many)
        return [built(case, data).fit(), built(case, source, execution).fit()]


PAIRS = [("selection", EVERYTHING), ("outcome", 20), ("selection", 20), ("outcome", EVERYTHING)]
PAIRS += [("two factors", EVERYTHING), ("two factors", 20)]


@pytest.fixture(
    scope="module",
    params=PAIRS[:3] + [pytest.param(each, marks=pytest.mark.full) for each in PAIRS[3:]],
    ids=lambda each: f"{each[0]}, {'columns' if each[1] == EVERYTHING else 'apart'}",
)
def both(request, data, parquet):
    """Fits in memory and of parquet in partitions, by columns and with the effects apart."""
    return pair(*request.param, data, parquet, Execution(partition_rows=250, memory=100_000))


def assert_same_fit(expected: Any, found: Any) -> None:
    assert found.params.index.equals(expected.params.index)
    np.testing.assert_allclose(found.params, expected.params, rtol=0.0, atol=CLOSE)
    np.testing.assert_allclose(found.bse, expected.bse, rtol=CLOSE)
    for name in ("llf", "aic", "llindep", "llnull"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=CLOSE)
    one, two = (r._results._fit_info.penalties for r in (expected, found))
    np.testing.assert_allclose(two.values, one.values, rtol=CLOSE)
    assert two.marginal == pytest.approx(one.marginal, abs=CLOSE)
    numbers = expected.penalised_terms().select_dtypes("number").columns
    tables = [r.penalised_terms()[numbers] for r in (expected, found)]
    np.testing.assert_allclose(*tables, rtol=1e-5, atol=1e-5)


def test_partitions_give_the_fit_in_memory(both):
    assert_same_fit(*both)
    assert both[1].model.design.n_partitions == 5
    pages = [str(r.summary()).splitlines()[4:] for r in both]
    one, two = ([line for line in page if "Time:" not in line] for page in pages)
    assert one == two


@pytest.mark.full
@pytest.mark.parametrize(("case", "many"), PAIRS[:3])
def test_workers_give_the_fit_in_memory(case, many, data, parquet, client):
    fits = pair(case, many, data, parquet, Execution(partition_rows=250, client=client))
    assert_same_fit(*fits)
    term = next(name for name in fits[0].penalised_terms().index if "re(" in name)
    np.testing.assert_allclose(*(r.group_effects(term) for r in fits), atol=CLOSE)
    means = [r.get_prediction(average=True, interval="wald").summary_frame() for r in fits]
    np.testing.assert_allclose(*means, atol=CLOSE)
    errors = [r.get_robustcov_results("cluster", groups="interviewer").bse for r in fits]
    np.testing.assert_allclose(*errors, rtol=CLOSE)


def test_levels_knots_and_centring_are_those_of_all_rows(both):
    one, two = (r.model.design for r in both)
    for expected, found in zip(one.penalised, two.penalised, strict=True):
        assert (found.name, found.start, found.apart) == (
            expected.name, expected.start, expected.apart,
        )  # fmt: skip
        if expected.kind == "re":
            assert list(found.basis.levels) == list(expected.basis.levels)
        else:
            np.testing.assert_array_equal(found.basis.knots, expected.basis.knots)
            np.testing.assert_allclose(
                found.basis.constraint, expected.basis.constraint, atol=1e-13
            )
    assert (one.outcome_names, one.select_names) == (two.outcome_names, two.select_names)
    assert one.nobs == two.nobs


def test_effects_curves_and_the_instrument_are_those_in_memory(both):
    expected, found = both
    for name, term in zip(
        expected.penalised_terms().index, expected.model.design.penalised, strict=True
    ):
        ask = "group_effects" if term.kind == "re" else "smooth_curve"
        tables = [getattr(r, ask)(name) for r in both]
        assert tables[0].index.equals(tables[1].index) or term.kind == "smooth"
        np.testing.assert_allclose(*tables, atol=CLOSE)
    assert found.instrument.columns == expected.instrument.columns
    assert found.instrument.statistic == pytest.approx(expected.instrument.statistic, rel=1e-5)


def test_robust_errors_and_tests_are_those_in_memory(both):
    for how in ({"cov_type": "HC0"}, {"cov_type": "cluster", "groups": "interviewer"}):
        errors = [r.get_robustcov_results(**how).bse for r in both]
        np.testing.assert_allclose(*errors, rtol=1e-5)
    for method in (None, "score", "wald"):
        tests = [r.test_independence(method).statistic for r in both]
        assert tests[0] == pytest.approx(tests[1], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("which", ["mean", "prob-select"])
def test_averages_effects_and_predictions_are_those_in_memory(both, data, which):
    new = data.dropna().head(4).assign(interviewer=["i001", "i002", "new", "newer"], v=2.0)
    calls = (
        lambda r: r.get_prediction(average=True, which=which, interval="wald"),
        lambda r: r.get_prediction(average=True, which=which, interval="wald", level="average"),
        lambda r: r.get_prediction(new, which=which),
        lambda r: r.get_prediction(new, which=which, level="average"),
        lambda r: r.get_margeff(which=which, interval="wald"),
    )
    for call in calls:
        one, two = (call(r).summary_frame() for r in both)
        assert list(one.index) == list(two.index)
        np.testing.assert_allclose(one, two, atol=CLOSE)


def test_predictions_are_written_to_parquet(both, data, tmp_path):
    new = data[data.v > 0].dropna().tail(300)  # numpy warns of the log of others
    both[1].predict_parquet(new, tmp_path / "out", which=["mean", "prob-select"], partition_rows=90)
    found = pd.read_parquet(tmp_path / "out")
    for which in found:
        np.testing.assert_allclose(found[which], both[0].predict(new, which=which), atol=CLOSE)


def test_resamples_eliminate_the_effects_of_every_replicate(both):
    """The objective of weights drawn in the partitions is that of the same weights in memory."""
    model, rows = both[1].model, both[1].model.rows
    draws = draw_resamples(rows, 3, np.random.default_rng(0))
    weight = np.zeros((3, rows.n))
    place = {key: i for i, key in enumerate(both[0].model.rows.key.tolist())}
    for part in draws.rows(rows).parts.map(_weights):
        for key, own in part:
            weight[:, place[key]] = own
    theta = model.expand(both[1].params) + 0.01 * np.arange(3)[:, None]
    objective = both[0].model.objective()
    expected = objective.evaluate(theta, 2, objective.rows.weight.new_tensor(weight))
    found = ResampledObjective(
        lambda which: draws.members(which).rows(rows), np.arange(3), objective.form
    ).evaluate(theta)
    for name in ("value", "score", "hessian"):
        one, two = (getattr(at, name).numpy() for at in (expected, found))
        np.testing.assert_allclose(two, one, rtol=1e-8, atol=1e-7)
    replicates = both[1].bootstrap(3, rng=0).replicates
    assert np.isfinite(replicates).all(axis=None)


def _weights(rows: Rows) -> list[tuple[int, np.ndarray]]:
    return list(zip(rows.key.tolist(), rows.weight.mT.numpy(), strict=True))


def test_results_without_their_rows_have_the_tables(both):
    expected = both[1]
    found = pickle.loads(pickle.dumps(expected))
    pd.testing.assert_frame_equal(found.penalised_terms(), expected.penalised_terms())
    assert str(found.summary()).splitlines()[6:] == str(expected.summary()).splitlines()[6:]


def test_interrupted_fits_go_on_from_their_checkpoint(data, tmp_path, monkeypatch):
    monkeypatch.setattr(terms, "MANY", 20)
    path, write = tmp_path / "fit.npz", Journal.__setitem__

    def fit(data, **options):
        return built("selection", data, Execution(partition_rows=400)).fit(**options)

    def stop(journal, key, sums):
        write(journal, key, sums)
        if len(journal) == 30:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "__setitem__", stop)
        with pytest.raises(KeyboardInterrupt):
            fit(data, checkpoint=path)
    size = path.stat().st_size
    again = fit(data, checkpoint=path)
    assert path.stat().st_size > size
    np.testing.assert_array_equal(again.params, fit(data).params)
    other = data.assign(interviewer=data.interviewer.to_numpy()[::-1])
    with pytest.raises(ValueError, match="the levels of a penalised term have other values"):
        fit(other, checkpoint=path)
    monkeypatch.setattr("statsmodels_mnar.large.partitions._KEPT", 100)
    with pytest.raises(ValueError, match=r"400 numbers here.*Leave checkpoint out"):
        fit(data, checkpoint=tmp_path / "large.npz")


REFUSED = {
    "re() of fractions": ("s ~ z + re(x1)", "looks like a measurement"),
    "one level": ("s ~ z + re(one)", "has one level"),
    "a level a row": ("s ~ z + re(own)", "a level of own of its own"),
    "few values": ("s ~ z + smooth(two)", "has 2 different values"),
    "text": ("s ~ z + smooth(interviewer)", "is not numeric"),
    "infinite": ("s ~ z + smooth(far)", "has infinite values"),
    "no column": ("s ~ z + re(nobody)", "not a column of data"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_refusals_are_those_in_memory(name, data):
    select, why = REFUSED[name]
    n = len(data)
    frame = data.assign(one=1, own=np.arange(n), two=np.arange(n) % 2, far=data.x2)
    frame.loc[frame.index[-1], "far"] = np.inf
    for execution in (None, Execution(partition_rows=400)):
        with pytest.raises(DesignError, match=why):
            ProbitSelection.from_formula("y ~ x2", select, frame, execution=execution)


def test_models_without_such_terms_refuse_before_rows_are_read(tmp_path, data, monkeypatch):
    def read(*_):
        raise AssertionError("the rows were read")

    monkeypatch.setattr("statsmodels_mnar.models.selection.build", read)
    with pytest.raises(DesignError, match=r"takes no penalised terms \(re\(interviewer\)\)"):
        BiasCorrLogit.from_formula("y ~ x2", "s ~ z + re(interviewer)", data, execution=Execution())


def test_penalties_are_not_estimated_anew_in_partitions(both):
    with pytest.raises(NotInMemoryError, match="use penalties='held'"):
        both[1].bootstrap(2, penalties="estimated")


def test_levels_travel_with_their_rows(data, monkeypatch):
    monkeypatch.setattr(terms, "MANY", 20)
    model = built("selection", data, Execution(partition_rows=250, memory=0))
    memory = built("selection", data)
    rows, whole = model.rows, memory.rows
    positions = np.arange(0, rows.n, 7)
    assert rows.take(positions).level.tolist() == whole.take(positions).level.tolist()
    chosen = np.arange(rows.apart.count) % 3 == 0
    one, two = rows.of_levels(chosen), whole.of_levels(chosen)
    assert one.apart == two.apart
    assert one.level.tolist() == two.level.tolist()
    np.testing.assert_allclose(one.X, two.X, atol=1e-13)
