"""Fits to data in partitions, streamed and on worker processes, equal the fit in memory."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from statsmodels.tools.sm_exceptions import ModelWarning

from statsmodels_mnar import (
    BiasCorrLogit,
    DesignError,
    Execution,
    GreeneSelectionLogit,
    MissingOutcomeWarning,
    NotInMemoryError,
    NoVariationError,
    ProbitSelection,
    SingularDesignError,
    exclusion_test,
    local_workers,
)
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.large.build import find_clusters
from statsmodels_mnar.large.partitions import draw_resamples
from statsmodels_mnar.optimize.solution import WITHIN
from tests.patience import PATIENCE

dask = pytest.importorskip("dask.dataframe")
pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

N = 1_500
# A spline, a centred column, strings and categories, of which one occurs nowhere.
FORMULA = "y ~ bs(x1, df=4) + center(x2) + g"
SELECT = "s ~ x1 + x2 + z + c"
ROUNDING = 1e-12  # relative, of a sum of 1,500 terms in another order


def simulated(seed: int) -> pd.DataFrame:
    data = simulate_greene(N, rng=seed).data
    rng = np.random.default_rng(seed)
    # Some partitions lack a level, and the first has the categories in another order of use.
    data["g"] = np.where(np.arange(N) < 450, "b", rng.choice(list("abc"), N))
    kinds = ["lo", "never", "mid", "hi"]
    data["c"] = pd.Categorical(rng.choice(["lo", "mid", "hi"], N), categories=kinds)
    data.loc[:200, "c"] = "hi"
    data["firm"] = rng.integers(0, 40, N)
    data["year"] = rng.choice(["y1", "y2", "y3"], N)
    data["count"] = rng.integers(1, 4, N).astype(float)
    data["known"] = 0.1 * rng.standard_normal(N)
    data.loc[5:50, "x1"] = np.nan
    return data


@pytest.fixture(autouse=True)
def dask_draws_too(leaves_global_state_alone):
    """dask's client chooses among workers with Python's global random state, which is put back."""
    state = random.getstate()
    yield
    random.setstate(state)


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return simulated(9)  # sigma and rho free: a maximum in the interior


def as_parquet(data: pd.DataFrame, folder: Path) -> str:
    for i, rows in enumerate(np.array_split(np.arange(len(data)), 3)):
        path = folder / f"part-{i}.parquet"
        data.iloc[rows].to_parquet(path, row_group_size=200, index=False)
    return str(folder)


@pytest.fixture(scope="module")
def parquet(data, tmp_path_factory) -> str:
    return as_parquet(data, tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def client(request):
    """Two workers for ``-m full``, and one by default: each is a process that imports torch."""
    n = 2 if any(item.get_closest_marker("full") for item in request.session.items) else 1
    # A worker that is told to end may say so in a warning.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with local_workers(n, silence_logs=50) as client:
            client.wait_for_workers(n, timeout=PATIENCE)
            yield client


@dataclass
class Ways:
    """The same data for ``from_formula``, in memory and in partitions."""

    request: pytest.FixtureRequest
    frame: pd.DataFrame
    parquet: str

    def __getitem__(self, name: str) -> tuple[Any, Execution]:
        if name == "blocks":
            return self.frame, Execution(partition_rows=700, threads=2)
        if name == "stream":
            return self.parquet, Execution(partition_rows=400, memory=100_000)
        client = self.request.getfixturevalue("client")  # started for those who ask
        return self.parquet, Execution(partition_rows=600, client=client)


WAYS = ("stream", "blocks", "cluster")


def in_turn(cases: Iterable[tuple[Any, ...]], omitted: Container[int] = ()) -> list[Any]:
    """Every case in every way, of which the default run takes one way each, in turn.

    Of the cluster, whose processes are dear, it takes the first turn only. The omitted cases, by
    number, it leaves to ``-m full``.
    """
    found = []
    for turn, case in enumerate(cases):
        usual = WAYS if turn < len(WAYS) else WAYS[:2]
        for way in WAYS:
            default = turn not in omitted and way == usual[turn % len(usual)]
            marks = () if default else pytest.mark.full
            found.append(pytest.param(*case, way, marks=marks))
    return found


@pytest.fixture
def ways(request, data, parquet):
    return Ways(request, data, parquet)


def quiet(fit, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return fit(*args, **options)


def assert_same(found, expected):
    """Log-likelihood, parameters and covariance, to what the package promises.

    Sums are added in another order, so that the paths of two searches part by rounding: each ends
    within ``WITHIN`` standard errors of the maximum (docs/large-data.md). A covariance changes by
    its own size over a fraction of a standard error on the flattest top here, hence 10 times that.
    """
    assert found.status is expected.status
    assert found.params.index.equals(expected.params.index)
    assert found.llf == pytest.approx(expected.llf, rel=ROUNDING)
    # A two-way clustered covariance may have negative variances: their size will do.
    errors = np.sqrt(np.abs(np.diag(expected.cov_params())))
    assert np.max(np.abs(found.params - expected.params) / errors) <= 2 * WITHIN
    difference = np.asarray(found.cov_params()) - np.asarray(expected.cov_params())
    assert np.max(np.abs(difference) / np.outer(errors, errors)) <= 20 * WITHIN


GREENE = [
    "free", "loading", "probit", "independent", {"sigma": 1.0}, {"rho": 0.5},
    {"sigma": 1.0, "rho": 0.5}, {"sigma": np.inf, "rho": 0.5},
]  # fmt: skip
MODELS = [(GreeneSelectionLogit, {"normalization": form}, {}) for form in GREENE]
MODELS += [(ProbitSelection, {}, {})]
MODELS += [
    (BiasCorrLogit, {"normalization": form}, {}) for form in ("free", "loading", "independent")
]
MODELS += [
    (BiasCorrLogit, {"normalization": {"sigma": 1.0}, "selection_model": "logit"}, {}),
    (
        BiasCorrLogit,
        {"normalization": {"sigma": 1.0}, "soft_selection": "rowwise", "soft_pseudolabels": True},
        {"penalty": 1e-4},
    ),
]


# Of the closed forms and of BiasCorr's, the default run takes the dearest and the simplest.
OMITTED = (3, 4, 5, 6, 7, 8, 9, 10, 11)


@pytest.mark.parametrize(("model", "options", "how", "way"), in_turn(MODELS, omitted=OMITTED))
def test_every_way_gives_the_fit_in_memory(model, options, how, way, ways):
    def fit(data, execution=None):
        built = model.from_formula(FORMULA, SELECT, data, execution=execution, **options)
        return quiet(built.fit, **how)

    expected = fit(ways.frame)
    assert expected.cov_type == ("stacked" if model is BiasCorrLogit else "nonrobust")
    assert_same(fit(*ways[way]), expected)


def mirrored(data: pd.DataFrame) -> pd.DataFrame:
    """With the labels exchanged, the errors' correlation has the other sign."""
    return data.assign(y=1.0 - data.y)


FACES = {
    "rho = 1": (lambda: simulated(2), "RHO_PLUS", "loading"),
    "rho = -1": (lambda: mirrored(simulated(2)), "RHO_MINUS", "loading"),
    "sigma = infinity": (lambda: simulated(5), "SIGMA_INFINITE", "probit"),
    "corner": (
        lambda: simulate_greene(120, rng=9).data,
        "RHO_PLUS",
        {"sigma": np.inf, "rho": 1.0},
    ),
}


@pytest.mark.parametrize(
    ("name", "way"), in_turn(((name,) for name in FACES), omitted=(0, 1, 2, 3))
)
def test_the_free_model_ends_on_its_faces_too(name, way, request, tmp_path):
    make, status, face = FACES[name]
    data = make()
    formulas = (FORMULA, SELECT) if len(data) == N else ("y ~ x1", "s ~ x1 + z")
    free = {"normalization": "free"}
    expected = quiet(GreeneSelectionLogit.from_formula(*formulas, data, **free).fit)
    assert expected.status.name == status  # the data of the other tests lie inside
    assert expected.model.normalization == pytest.approx(face)
    source, execution = Ways(request, data, as_parquet(data, tmp_path))[way]
    model = GreeneSelectionLogit.from_formula(*formulas, source, execution=execution, **free)
    found = quiet(model.fit)
    assert found._fit_info.faces.keys() == expected._fit_info.faces.keys()
    assert_same(found, expected)


@pytest.mark.full
def test_a_flat_top_has_one_highest_point():
    """Sigma and rho are hardly identified separately: the optimisers' paths part by rounding."""
    data = simulated(0)
    models = [
        GreeneSelectionLogit.from_formula(
            FORMULA, SELECT, data, normalization="free", execution=execution
        )
        for execution in (None, Execution(partition_rows=500))
    ]
    fits = [quiet(model.fit) for model in models]
    assert fits[0].status.converged and fits[0].bse["lnsigma"] > 5
    for found in fits[1:]:
        assert_same(found, fits[0])


@pytest.mark.parametrize(
    ("weights", "way"),
    [
        pytest.param({}, "stream", marks=pytest.mark.full),
        pytest.param({}, "blocks", marks=pytest.mark.full),
        pytest.param({}, "cluster", marks=pytest.mark.full),
        pytest.param({"freq_weights": "count"}, "blocks", marks=pytest.mark.full),
        ({"prob_weights": "count"}, "stream"),
    ],
)
def test_covariances_tests_and_summaries_are_those_in_memory(weights, way, ways):
    options = {"normalization": "loading", "offset_select": "known", **weights}
    expected = GreeneSelectionLogit.from_formula(FORMULA, SELECT, ways.frame, **options).fit()
    kinds = [("HC0", {}), ("HC1", {}), ("cluster", {"groups": "firm"})]
    kinds += [("cluster", {"groups": ["firm", "year"], "use_correction": False})]
    if "prob_weights" not in weights:
        kinds += [("nonrobust", {}), ("OPG", {})]
    source, execution = ways[way]
    found = GreeneSelectionLogit.from_formula(
        FORMULA, SELECT, source, execution=execution, **options
    ).fit()
    assert (found.nobs, found.nobs_selected) == (expected.nobs, expected.nobs_selected)
    assert (found.df_resid, found.df_model) == (expected.df_resid, expected.df_model)
    assert found.llnull == pytest.approx(expected.llnull, rel=ROUNDING)
    lines = [str(r.summary()).splitlines()[4:] for r in (found, expected)]
    assert [x for x in lines[0] if "Time:" not in x] == [x for x in lines[1] if "Time:" not in x]
    for cov_type, groups in kinds:
        one, two = (r.get_robustcov_results(cov_type, **groups) for r in (found, expected))
        assert_same(one, two)
        assert one.cov_kwds == two.cov_kwds
        tests = [r.test_independence("score").statistic for r in (one, two)]
        assert tests[0] == pytest.approx(tests[1], rel=20 * WITHIN)


@pytest.mark.parametrize(
    ("options", "method"),
    [
        ({"integration": "simulation"}, "newton"),
        pytest.param({}, "lbfgs", marks=pytest.mark.full),
    ],
)
def test_simulated_integrals_and_other_optimisers_run_over_partitions(options, method, data):
    small = data.iloc[:600]
    fits = [
        quiet(
            GreeneSelectionLogit.from_formula(
                "y ~ x1",
                "s ~ x1 + z",
                small,
                normalization={"sigma": 1.0},
                execution=execution,
                **options,
            ).fit,
            method=method,
        )
        for execution in (None, Execution(partition_rows=250))
    ]
    # Draws belong to the rows' places in the data, whatever the partition.
    assert fits[0].llf == pytest.approx(fits[1].llf, abs=1e-7)
    np.testing.assert_allclose(fits[0].params, fits[1].params, atol=1e-4)


def test_dask_frames_are_read(data, client, parquet):
    options = {"normalization": "loading"}
    expected = GreeneSelectionLogit.from_formula(FORMULA, SELECT, data, **options).fit()
    frame = dask.from_pandas(data, npartitions=4)
    model = GreeneSelectionLogit.from_formula(FORMULA, SELECT, frame, **options)
    assert model._frames.client is client  # the current one
    assert_same(model.fit(cov_type="nonrobust"), expected)
    read = GreeneSelectionLogit.from_formula(FORMULA, SELECT, dask.read_parquet(parquet), **options)
    assert read.design.n_partitions == 3
    assert_same(read.fit(), expected)


@pytest.mark.full  # test_tables.py has polars by default
def test_polars_frames_are_read(data):
    options = {"normalization": "loading"}
    polars = pytest.importorskip("polars")
    plain = polars.from_pandas(data.astype({"c": str}))  # polars has no order of categories
    fits = [
        GreeneSelectionLogit.from_formula(FORMULA, SELECT, frame, **options).fit()
        for frame in (data.astype({"c": str}), plain, plain.lazy())
    ]
    for found in fits[1:]:
        assert_same(found, fits[0])


# -- faults ----------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_worker_killed_in_mid_iteration_changes_nothing(
    client, data, parquet, tmp_path, monkeypatch
):
    from statsmodels_mnar.large.execution import DaskPartitions

    flag, original, evaluations = str(tmp_path / "dead"), DaskPartitions.map, []

    def deadly(function):
        """Once, in whichever worker comes first, ends the process that evaluates a partition."""

        def _sums(rows, *args):
            try:
                with open(flag, "x") as file:
                    file.write(str(os.getpid()))
            except FileExistsError:
                return function(rows, *args)
            os.kill(os.getpid(), signal.SIGKILL)

        return _sums

    def counted(self, function, *args, **options):
        if function.__name__ == "_sums":
            evaluations.append(function)
            if len(evaluations) == 3:
                function = deadly(function)
        return original(self, function, *args, **options)

    def model(client=None):
        execution = None if client is None else Execution(partition_rows=200, client=client)
        source = data if client is None else parquet
        return GreeneSelectionLogit.from_formula(
            FORMULA, SELECT, source, normalization="loading", execution=execution
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        undisturbed = model(client).fit()
        before = set(client.run(os.getpid).values())
        monkeypatch.setattr(DaskPartitions, "map", counted)
        found = model(client).fit()
        killed = int(Path(flag).read_text())
        assert killed in before and killed not in client.run(os.getpid).values()
        client.wait_for_workers(2, timeout=PATIENCE)  # the next test finds both
    assert len(evaluations) > 3
    assert found.llf == undisturbed.llf
    np.testing.assert_array_equal(found.params, undisturbed.params)  # to the last digit
    np.testing.assert_array_equal(found.cov_params(), undisturbed.cov_params())
    assert_same(found, model().fit())


DRIVER = """
import sys
from statsmodels_mnar import Execution, GreeneSelectionLogit, local_workers

if __name__ == "__main__":
    import os
    with local_workers(2) as client:
        pids = list(client.run(os.getpid).values())
        model = GreeneSelectionLogit.from_formula(
            "y ~ x1", "s ~ x1 + z", sys.argv[1], normalization="loading",
            execution=Execution(partition_rows=500, client=client))
        def show(step):
            print(*pids, flush=True)
            import time
            time.sleep(600)
        model.fit(callback=show)
"""


@pytest.mark.full
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_driver_leaves_no_workers(how, parquet, tmp_path):
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    driver = subprocess.Popen(
        [sys.executable, str(script), parquet], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert driver.stdout is not None
    with driver:
        pids = [int(pid) for pid in driver.stdout.readline().split()]
        assert len(pids) == 2
        driver.send_signal(how)
        assert driver.wait(PATIENCE) != 0
    deadline = time.monotonic() + PATIENCE
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [pid for pid in pids if alive(pid)]


def alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@pytest.mark.parametrize("on_cluster", [False, pytest.param(True, marks=pytest.mark.full)])
def test_bad_data_name_the_file_and_the_row(on_cluster, data, client, tmp_path):
    bad = data.copy()
    bad.loc[850, ["s", "y"]] = 1.0, 3.0
    folder = as_parquet(bad, tmp_path)
    execution = Execution(partition_rows=300, client=client if on_cluster else None)
    where = r"part-1\.parquet, rows 200 to 499: outcome 'y'.* first in row 850 of the data"
    with pytest.raises(DesignError, match=where):
        GreeneSelectionLogit.from_formula(FORMULA, SELECT, folder, execution=execution)
    bad = data.copy()
    bad.loc[1100, "z"] = np.inf
    with pytest.raises(DesignError, match=r"rows 1000 to 1499.*: infinite values in z.* row 1100"):
        GreeneSelectionLogit.from_formula(FORMULA, SELECT, bad, execution=Execution(500))


def test_checks_of_the_whole_data_see_what_no_partition_shows(data):
    def build(formula, select, frame, **options):
        return GreeneSelectionLogit.from_formula(
            formula, select, frame, normalization="loading", execution=Execution(500), **options
        )

    twice = data.assign(double=2.0 * data.x1 + data.x2)
    with pytest.raises(SingularDesignError, match="collinear columns"):
        build("y ~ x1 + x2 + double", SELECT, twice).fit()
    with pytest.raises(NoVariationError, match=f"all {N - 46} rows are selected"):
        build("y ~ x1", "s ~ x1 + z", data.assign(s=1, y=data.y_full)).fit()
    with pytest.raises(NoVariationError, match="outcome y is 1 on all"):
        build("y ~ x1", "s ~ x1 + z", data.assign(y=data.y.where(data.y.isna(), 1.0))).fit()
    with pytest.warns(MissingOutcomeWarning, match=r"^\d+ selected row\(s\)"):
        model = build("y ~ x1", "s ~ x1 + z", data.assign(y=data.y.where(data.index > 700)))
    complete = data.x1.notna() & (data.index <= 700)
    assert model.design.dropped.outcome == int((data.s[complete] == 1).sum())
    with pytest.warns(match="no exclusion restriction"):
        build("y ~ x1 + x2", "s ~ x1 + x2", data).fit()
    with pytest.raises(DesignError, match="must name a column"):
        build("y ~ x1", "s ~ x1 + z", data, offset=np.zeros(N))
    with pytest.raises(DesignError, match="missing='raise'"):
        build("y ~ x1", "s ~ x1 + z", data, missing="raise")


def test_an_empty_partition_and_one_without_labels_do_no_harm(data):
    gaps = data.copy()
    gaps.loc[600:899, "z"] = np.nan  # a whole partition
    gaps.loc[900:1199, ["s", "y"]] = 0, np.nan
    options = {"normalization": "loading", "freq_weights": "count"}
    gaps.loc[300:599, "count"] = 0.0
    fits = [
        GreeneSelectionLogit.from_formula(
            FORMULA, SELECT, gaps, execution=execution, **options
        ).fit(cov_type="cluster", cov_kwds={"groups": "firm"})
        for execution in (None, Execution(partition_rows=300))
    ]
    assert_same(fits[1], fits[0])


# -- checkpoints and progress ----------------------------------------------------------------------


class Stop(Exception):
    """In place of a power cut."""


@pytest.mark.parametrize(
    "kind", [GreeneSelectionLogit, pytest.param(BiasCorrLogit, marks=pytest.mark.full)]
)
def test_a_fit_resumes_from_its_checkpoint(kind, data, tmp_path, monkeypatch):
    from statsmodels_mnar.large.execution import LocalPartitions

    def model(frame=data):
        return kind.from_formula(
            "y ~ x1 + g", "s ~ x1 + z", frame, normalization={"sigma": 1.0},
            execution=Execution(partition_rows=500),
        )  # fmt: skip

    def stop(step):
        if step.iteration == 2:
            raise Stop

    path = tmp_path / "fit.npz"
    with pytest.raises(Stop):
        quiet(model().fit, checkpoint=path, callback=stop)
    again = model()
    passes = []
    original = LocalPartitions.map

    def counted(self, function, *args, **options):
        passes.append(function.__name__)
        return original(self, function, *args, **options)

    monkeypatch.setattr(LocalPartitions, "map", counted)
    resumed = quiet(again.fit, checkpoint=path, cov_type="nonrobust")
    resumed_passes, passes[:] = passes.count("_sums"), []
    whole = quiet(model().fit, cov_type="nonrobust")
    assert resumed_passes < passes.count("_sums")
    assert resumed.llf == whole.llf
    np.testing.assert_array_equal(resumed.params, whole.params)  # to the last digit
    assert os.listdir(tmp_path) == ["fit.npz"]
    with pytest.raises(ValueError, match="other data: the number of rows differs"):
        model(data.iloc[:1000]).fit(checkpoint=path)
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match="is not a checkpoint file"):
        model().fit(checkpoint=path)


def test_a_checkpoint_needs_partitions(data):
    with pytest.raises(ValueError, match="checkpoint is for data in partitions"):
        GreeneSelectionLogit.from_formula("y ~ x1", "s ~ x1 + z", data).fit(checkpoint="x.npz")


def test_progress_has_a_line_for_each_pass(data, capsys):
    model = GreeneSelectionLogit.from_formula(
        "y ~ x1", "s ~ x1 + z", data, normalization="loading", execution=Execution(1000)
    )
    results = model.fit(disp=True)
    shown = capsys.readouterr().err
    last = results._fit_info.solution.n_iter
    assert "start values: 100%" in shown and f"iteration {last}, log-lik" in shown
    assert " rows/s" in shown and "<" in shown  # speed, and the time left
    model.fit()
    assert capsys.readouterr().err == ""


# -- results ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(data):
    """The fit in memory and in partitions."""
    options = {"normalization": "loading", "freq_weights": "count", "offset": "known"}
    return [
        GreeneSelectionLogit.from_formula(
            "y ~ x1 * x2 + g", SELECT, data, execution=execution, **options
        ).fit()
        for execution in (None, Execution(partition_rows=700))
    ]


@pytest.mark.parametrize(
    "which",
    [
        pytest.param("mean", marks=pytest.mark.full),
        "mean-selected",
        pytest.param("prob-select", marks=pytest.mark.full),
        pytest.param("p10", marks=pytest.mark.full),
    ],
)
def test_average_predictions_and_effects_are_summed_over_partitions(which, pair):
    expected, found = (r.get_prediction(which=which, average=True) for r in pair)
    # Each fit is within 1e-6 standard errors of the maximum.
    np.testing.assert_allclose(found.summary_frame(), expected.summary_frame(), rtol=1e-6)
    for at in ("overall", "mean", "zero"):
        for method in ("dydx", "eydx"):
            expected, found = (r.get_margeff(at=at, method=method, which=which) for r in pair)
            assert found.names == expected.names
            np.testing.assert_allclose(found.margeff, expected.margeff, rtol=1e-6, atol=1e-9)
            np.testing.assert_allclose(found.margeff_se, expected.margeff_se, rtol=1e-6)
    held = [r.get_margeff(which="mean-selected", atexog={"x1": 0.5}).margeff for r in pair]
    np.testing.assert_allclose(held[1], held[0], rtol=1e-6)


def test_predictions_come_as_dask_series_or_parquet(pair, data, client, parquet, tmp_path):
    expected = pair[0].predict(data, which="p11")
    series = pair[1].predict(dask.from_pandas(data, npartitions=3), which="p11")
    assert series.npartitions == 3
    pd.testing.assert_series_equal(series.compute(), expected.rename("p11"))
    for name, source, own in [("a", parquet, client), ("b", data, None)]:
        files = pair[1].predict_parquet(
            source, tmp_path / name, which=["p11", "mean"], keep=["firm"], client=own,
            partition_rows=800,
        )  # fmt: skip
        assert len(files) >= 2 and sorted(files) == files
        written = pd.read_parquet(tmp_path / name)
        np.testing.assert_allclose(written.p11, expected)
        np.testing.assert_array_equal(written.firm, data.firm)
        assert list(written) == ["firm", "p11", "mean"]
    with pytest.raises(ValueError, match="is not empty"):
        pair[1].predict_parquet(data, tmp_path / "a")
    with pytest.raises(ValueError, match="data lacks the column"):
        pair[1].predict_parquet(data.drop(columns="x1"), tmp_path / "c")


@pytest.mark.full
def test_profiles_and_identification_need_no_rows_in_memory(pair, client, parquet):
    in_memory, parted = pair
    model = GreeneSelectionLogit.from_formula(
        "y ~ x1 * x2 + g", SELECT, parquet, normalization="loading", freq_weights="count",
        offset="known", execution=Execution(partition_rows=600, client=client),
    )  # fmt: skip
    on_workers = model.fit()
    expected = in_memory.profile("error_corr")
    for results in (parted, on_workers):
        found = results.profile("error_corr")
        np.testing.assert_allclose(found.interval, expected.interval, atol=1e-7)
        np.testing.assert_allclose(found.values, expected.values, atol=1e-6)
    reports = [r.identification_report().excluded for r in pair]
    assert reports[0] == reports[1]
    statistics = [exclusion_test(r).statistic for r in pair]
    assert statistics[1] == pytest.approx(statistics[0], rel=1e-7)


RESAMPLES = {
    "rows": {},
    "counts": {"counts": True},
    "weights": {"weighted": True},
    "gamma": {"weighted": True, "counts": True},
    "clusters": {"groups": "firm"},
    "weighted clusters": {"groups": "firm", "weighted": True},
}
REPLICATED = [(GreeneSelectionLogit, {"normalization": "loading"}, {}, how) for how in RESAMPLES]
REPLICATED += [(BiasCorrLogit, {"normalization": {"sigma": 1.0}}, {}, how) for how in RESAMPLES]
REPLICATED += [
    (BiasCorrLogit, {"normalization": "loading", "soft_selection": 0.3}, {}, "clusters"),
    (
        BiasCorrLogit,
        {"normalization": "loading", "soft_selection": "rowwise", "soft_pseudolabels": True},
        {"penalty": 1e-4},
        "weighted clusters",
    ),
]


def drawn(model, draws, n: int) -> np.ndarray:
    """The weights that the partitions draw, (B, n), on the places of all rows of the data."""
    weights = np.zeros((len(draws), n))
    found = draws.rows(model.plain_rows()).parts.map(lambda rows: (rows.key, rows.weight))
    for key, weight in found:
        weights[:, key.numpy()] = weight.numpy()
    return weights


@pytest.mark.parametrize(
    ("kind", "options", "fit", "how"),
    [
        # Counts, and clusters with weights, by one model or the other.
        pytest.param(*case, marks=() if i in (1, 13) else pytest.mark.full)
        for i, case in enumerate(REPLICATED)
    ],
)
def test_replicates_are_those_in_memory_under_the_same_weights(kind, options, fit, how, data):
    """First stages, s-bar, pseudolabels and all, by sums over partitions."""
    drawing = dict(RESAMPLES[how])
    groups = drawing.pop("groups", None)
    if "counts" in drawing:
        options = options | {"freq_weights": "count"}
    whole, parted = (
        kind.from_formula(
            "y ~ bs(x1, df=4) + g", "s ~ x1 + z + x2", data, execution=execution, **options
        )
        for execution in (None, Execution(partition_rows=400))
    )
    start = np.asarray(quiet(parted.fit, **fit).params)
    rows = parted.plain_rows()
    clusters = None if groups is None else find_clusters(rows, parted._frames, groups)
    draws = draw_resamples(rows, 3, np.random.default_rng(0), clusters=clusters, **drawing)
    weights = drawn(parted, draws, len(data))[:, whole.design.kept]
    expected = list(whole.refit_weights(weights, start, **fit))
    found = list(parted._refit_resamples(draws, start, **fit))
    for one, two in zip(found, expected, strict=True):
        assert one.status is two.status
        assert one.value == pytest.approx(two.value, rel=ROUNDING)
        difference = one.params - two.params  # measured in standard errors by the information
        assert np.sqrt(max(0.0, -difference @ two.hessian @ difference)) <= 2 * WITHIN


def test_clusters_are_drawn_whole_whatever_the_partitions(data, client, parquet):
    def weights(source, execution):
        model = GreeneSelectionLogit.from_formula(
            "y ~ x1", "s ~ x1 + z", source, normalization="loading", execution=execution
        )
        rows = model.plain_rows()
        clusters = find_clusters(rows, model._frames, "firm")
        draws = draw_resamples(rows, 5, np.random.default_rng(3), clusters=clusters)
        return drawn(model, draws, len(data))

    found = weights(data, Execution(partition_rows=700))
    spooled = weights(parquet, Execution(partition_rows=200, memory=0))
    np.testing.assert_array_equal(found, spooled)
    on_cluster = weights(parquet, Execution(partition_rows=500, client=client))
    np.testing.assert_array_equal(found, on_cluster)
    kept = data.x1.notna().to_numpy()
    counts = pd.DataFrame(found.T[kept]).groupby(data.firm[kept].to_numpy())
    assert (counts.nunique() == 1).all(axis=None)
    assert (counts.first().sum() == 40).all()  # as many clusters as there are


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        pytest.param("pairs", {}, marks=pytest.mark.full),
        pytest.param("cluster", {"groups": "firm"}, marks=pytest.mark.full),
        pytest.param("weighted", {"groups": "firm"}, marks=pytest.mark.slow),
        pytest.param("weighted", {}, marks=pytest.mark.slow),
    ],
)
def test_bootstrap_scatters_as_the_covariance_says(kind, options, client, parquet):
    model = GreeneSelectionLogit.from_formula(
        "y ~ x1", "s ~ x1 + z", parquet, normalization="loading",
        execution=Execution(partition_rows=1000, client=client),
    )  # fmt: skip
    results = model.fit()
    draws = results.bootstrap(60, kind, rng=0, **options)
    assert not draws.failed
    assert draws.kind == kind
    # The standard error of a standard deviation of 60 draws is 9%; firms differ by chance only.
    np.testing.assert_allclose(draws.bse / results.bse, 1.0, atol=0.4)
    assert np.all(np.abs(draws.bias) < 0.5 * results.bse)
    again = [results.bootstrap(3, kind, rng=0, **options).replicates for _ in range(2)]
    pd.testing.assert_frame_equal(*again)


@pytest.mark.full
def test_the_bootstrap_of_clusters_is_the_same_on_any_partitions(data, client, parquet):
    def replicates(source, execution):
        model = BiasCorrLogit.from_formula(
            "y ~ x1 + g", "s ~ x1 + z", source, normalization={"sigma": 1.0}, execution=execution
        )
        draws = model.fit().bootstrap(4, rng=2, groups="firm")
        assert draws.kind == "cluster" and not draws.failed
        return draws.replicates

    on_workers = replicates(parquet, Execution(partition_rows=600, client=client))
    here = replicates(data, Execution(partition_rows=400))
    # Standard errors of 1,500 rows are below one.
    pd.testing.assert_frame_equal(on_workers, here, rtol=0, atol=2 * WITHIN)


def test_bootstrap_takes_the_clusters_of_the_fit_and_checks_them(parquet):
    model = GreeneSelectionLogit.from_formula(
        "y ~ x1", "s ~ x1 + z", parquet, normalization="loading", execution=Execution(1000)
    )
    results = model.fit(cov_type="cluster", cov_kwds={"groups": "firm"})
    draws = results.bootstrap(3, rng=0)
    assert draws.kind == "cluster"
    explicit = model.fit().bootstrap(3, rng=0, groups="firm")
    pd.testing.assert_frame_equal(draws.replicates, explicit.replicates)
    for kind in ("cluster", "weighted"):
        with pytest.raises(ValueError, match=f"kind='{kind}' resamples one way.*here 2"):
            results.bootstrap(3, kind, groups=["firm", "year"])
    with pytest.raises(ValueError, match=r"kind='cluster' resamples one way.*here 0"):
        model.fit().bootstrap(3, "cluster")
    with pytest.raises(ValueError, match="give their names"):
        results.bootstrap(3, groups=np.zeros(N))
    with pytest.raises(DesignError, match="no column 'nowhere'"):
        results.bootstrap(3, groups="nowhere")


def test_what_needs_every_row_says_so(pair):
    found = pair[1]
    needs_rows = [
        lambda: found.predict(),
        lambda: found.get_prediction(),
        lambda: found.resid,
        lambda: found.get_margeff(at="median"),
        lambda: found.jackknife(),
        lambda: found.model.design.X,
        lambda: found.model.fit(method="sgd"),
    ]
    for call in needs_rows:
        with pytest.raises(NotInMemoryError, match="partitions"):
            call()
    with pytest.raises(ValueError, match="partitions"):
        found.get_influence()
    with pytest.raises(ValueError, match="give their names"):
        found.get_robustcov_results("cluster", groups=np.zeros(N))
    with pytest.raises(ValueError, match="no column 'nowhere'"):
        found.get_robustcov_results("cluster", groups="nowhere")


def test_results_survive_pickling_and_predict(pair, data):
    again = pickle.loads(pickle.dumps(pair[1]))
    np.testing.assert_allclose(again.predict(data), pair[0].predict(data))
    assert str(again.summary()) == str(pair[1].summary())
    with pytest.raises(ValueError, match="the data have been removed"):
        again.get_robustcov_results("HC0")


def test_biascorr_refuses_first_stages_that_need_all_rows(data):
    model = BiasCorrLogit.from_formula(
        "y ~ x1", "s ~ x1 + z", data, pseudolabel_model="mlp", execution=Execution(1000)
    )
    with pytest.raises(NotInMemoryError, match="pseudolabel_model='mlp'"):
        model.fit()


def test_the_formulaic_engine_is_refused(data, monkeypatch):
    import statsmodels.formula

    monkeypatch.setattr(statsmodels.formula.options, "formula_engine", "formulaic")
    with pytest.raises(DesignError, match="cannot learn from data in partitions"):
        GreeneSelectionLogit.from_formula("y ~ x1", "s ~ z", data, execution=Execution())


def test_what_is_not_there_is_an_attribute_error_for_python(pair):
    """``hasattr``, ``inspect.getmembers`` and notebooks' completion ask for every property."""
    found = pair[1]
    design = found.model.design
    assert not hasattr(design, "X")
    assert getattr(design, "kept", None) is None
    for holder in (found, found._results, found.model, design):
        for name in object.__dir__(holder):  # a ValueError here would break what lists an object
            hasattr(holder, name)
    with pytest.raises(NotInMemoryError, match="partitions"):  # and the reason is still said
        _ = design.X
