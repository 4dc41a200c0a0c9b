"""Every kind of table at every call that takes a column by its name, and data that change later."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar import (
    BiasCorrLogit,
    DesignError,
    Execution,
    GreeneSelectionLogit,
    compare,
)
from statsmodels_mnar.baselines import NaiveLogit
from statsmodels_mnar.datasets import simulate_greene

OUTCOME, SELECT = "y ~ x1 + x2", "s ~ x1 + x2 + z"
N = 240
NEW = 30  # rows to predict for


def plain() -> pd.DataFrame:
    """Rows with clusters, offsets, weights, a score and a text column."""
    rng = np.random.default_rng(3)
    data = simulate_greene(N, rng=2).data[["y", "s", "x1", "x2", "z"]]
    data["firm"] = rng.integers(0, 12, N)
    data["region"] = rng.choice(list("abcd"), N)
    data["known"] = rng.normal(size=N) / 10
    data["times"] = rng.integers(1, 3, N)
    return data


class Stream:
    """A table that speaks Arrow's protocol and nothing else."""

    def __init__(self, data: pd.DataFrame) -> None:
        import pyarrow

        self._table = pyarrow.Table.from_pandas(data, preserve_index=False)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def polars_frame(data):
    return pytest.importorskip("polars").from_pandas(data)


def arrow_table(data):
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.Table.from_pandas(data, preserve_index=False)


KINDS = {
    "pandas": lambda data: data,
    "pandas, other labels": lambda data: data.set_axis([f"row {i}" for i in range(len(data))]),
    "pandas of arrow types": lambda data: data.convert_dtypes(dtype_backend="pyarrow"),
    "dict of arrays": lambda data: {name: data[name].to_numpy() for name in data},
    "dict of lists": lambda data: {name: data[name].tolist() for name in data},
    "dict of series": lambda data: {name: data[name] for name in data},
    "polars": polars_frame,
    "polars, lazy": lambda data: polars_frame(data).lazy(),
    "arrow table": arrow_table,
    "arrow batch": lambda data: arrow_table(data).to_batches()[0],
    "arrow stream": Stream,
}
SOME = ("dict of arrays", "polars, lazy", "arrow table")


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return plain()


def fitted(data, **options):
    model = GreeneSelectionLogit.from_formula(
        OUTCOME, SELECT, data, normalization="independent", offset="known", **options
    )
    return model.fit(cov_type="cluster", cov_kwds={"groups": "firm"})


@pytest.fixture(scope="module")
def clean(data):
    return fitted(data)


@pytest.fixture(scope="module")
def by_kind(data):
    """Fits of every kind of table, each made once."""
    return cache(lambda kind: fitted(KINDS[kind](data)))


@pytest.fixture(scope="module")
def expected(clean, data):
    """What the plain frame gives, call by call."""
    return {name: call(clean, lambda: data[:NEW]) for name, call in CALLS.items()}


def table_of(kind):
    return KINDS[kind](plain())


CALLS = {
    "fit": lambda results, table: results.bse,
    "get_robustcov_results": lambda results, table: (
        results.get_robustcov_results("cluster", groups="region").bse
    ),
    "two ways": lambda results, table: (
        results.get_robustcov_results("cluster", groups=("firm", "region")).bse
    ),
    "bootstrap": lambda results, table: results.bootstrap(3, rng=1, groups="region").replicates,
    "jackknife": lambda results, table: results.jackknife(groups="region").replicates,
    "population_metrics": lambda results, table: (
        results.get_robustcov_results("cluster", groups="region")
        .population_metrics("x1")
        .summary_frame()
    ),
    "get_margeff": lambda results, table: results.get_margeff(variables=["x1"]).summary_frame(),
    "get_margeff of new data": lambda results, table: results.get_margeff(
        variables=["x2"], data=table()
    ).summary_frame(),
    "probabilities_along": lambda results, table: results.probabilities_along("x1", [0.0, 1.0]),
    "probabilities_along new data": lambda results, table: results.probabilities_along(
        "x1", [0.0, 1.0], data=table()
    ),
    "predict": lambda results, table: results.predict(table(), which="p11"),
    "get_prediction": lambda results, table: results.get_prediction(
        table(), average=True
    ).summary_frame(),
    "impute": lambda results, table: results.impute(2, rng=0)[1][["y", "x1"]],
}


@pytest.mark.parametrize(
    ("kind", "call"),
    [  # every call of every kind of table, by default of two kinds each, in turn
        pytest.param(kind, call, marks=() if (i - j) % len(KINDS) < 2 else pytest.mark.full)
        for i, kind in enumerate(KINDS)
        for j, call in enumerate(CALLS)
    ],
)
def test_every_table_gives_the_numbers_of_the_plain_frame(by_kind, expected, data, kind, call):
    found = CALLS[call](by_kind(kind), lambda: KINDS[kind](data[:NEW]))
    same(found, expected[call])


def same(found, expected, rtol=1e-8):
    np.testing.assert_allclose(
        np.asarray(found, dtype=float), np.asarray(expected, dtype=float), rtol=rtol, atol=1e-12
    )


def polars_categories(data):
    polars = pytest.importorskip("polars")
    return polars_frame(data).with_columns(polars.col("region").cast(polars.Categorical))


def arrow_dictionary(data):
    table = arrow_table(data)
    at = table.column_names.index("region")
    return table.set_column(at, "region", table.column(at).dictionary_encode())


@pytest.mark.parametrize("execution", [None, Execution(partition_rows=7)], ids=["memory", "parts"])
@pytest.mark.parametrize("kind", [polars_categories, arrow_dictionary])
def test_levels_that_nobody_ordered_are_those_of_text(data, kind, execution):
    late = data.sort_values("region", ascending=False, ignore_index=True)  # d is in the first row
    options = {"normalization": "independent"}
    select = "s ~ x1 + z"
    text = GreeneSelectionLogit.from_formula("y ~ x1 + region", select, late, **options).fit()
    model = GreeneSelectionLogit.from_formula(
        "y ~ x1 + region", select, kind(late), execution=execution, **options
    )
    found = model.fit()
    assert list(found.params.index) == list(text.params.index)
    np.testing.assert_allclose(found.params, text.params, atol=1e-6)
    np.testing.assert_allclose(found.predict(kind(late[:NEW])), text.predict(late[:NEW]), atol=1e-8)


def test_levels_that_somebody_ordered_keep_their_order(data):
    polars = pytest.importorskip("polars")
    chosen = pd.Categorical(data.region, ["c", "a", "d", "b"])
    enum = polars_frame(data).with_columns(polars.col("region").cast(polars.Enum(list("cadb"))))
    for table in (arrow_table(data.assign(region=chosen)), enum, enum.to_arrow()):
        model = GreeneSelectionLogit.from_formula(
            "y ~ x1 + region", "s ~ x1 + z", table, normalization="independent"
        )
        names = [name for name in model.param_names if name.startswith("region")]
        assert names == ["region[T.a]", "region[T.d]", "region[T.b]"]


@pytest.mark.parametrize("kind", SOME)
def test_weights_and_offsets_by_name(data, kind):
    def numbers(table):
        return GreeneSelectionLogit.from_formula(
            OUTCOME, SELECT, table, normalization="independent",
            offset_select="known", freq_weights="times",
        ).fit().llf  # fmt: skip

    assert numbers(table_of(kind)) == pytest.approx(numbers(data), rel=1e-12)


@pytest.mark.parametrize("kind", SOME)
def test_partitions_of_every_table(clean, data, kind):
    found = fitted(table_of(kind), execution=Execution(partition_rows=150))
    same(found.bse, clean.bse, 1e-6)
    predicted = found.predict(table_of(kind), which="p11")
    np.testing.assert_allclose(predicted, found.predict(data, which="p11"), rtol=1e-9)


@pytest.mark.parametrize("kind", SOME)
def test_predictions_to_files_from_every_table(clean, data, kind, tmp_path):
    pytest.importorskip("pyarrow")
    files = clean.predict_parquet(
        table_of(kind), tmp_path / "out", keep=["firm"], partition_rows=150
    )
    found = pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)
    np.testing.assert_allclose(found["mean"], clean.predict(data), rtol=1e-9)
    assert (found["firm"].to_numpy() == data["firm"].to_numpy()).all()


def test_predict_says_what_reads_files(clean, tmp_path):
    for data in ("new.parquet", tmp_path):
        with pytest.raises(DesignError, match=r"names files.*predict_parquet"):
            clean.predict(data)


@pytest.mark.parametrize("kind", SOME)
def test_other_doors_take_every_table(data, kind):
    baseline = NaiveLogit.from_formula(OUTCOME, SELECT, table_of(kind)).fit()
    expected = NaiveLogit.from_formula(OUTCOME, SELECT, data).fit()
    np.testing.assert_allclose(baseline.predict(table_of(kind)), expected.predict(data), rtol=1e-9)
    options = {"cov_type": "cluster", "cov_kwds": {"groups": "firm"}, "variables": ["x1"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tables = [
            compare(OUTCOME, SELECT, each, ["naive"], **options).margeff
            for each in (table_of(kind), data)
        ]
    np.testing.assert_allclose(*tables, rtol=1e-9)


@pytest.mark.parametrize("kind", SOME)
def test_from_target_takes_every_table(data, kind):
    labelled, target = data[data.s == 1], data.drop(columns="y")
    sizes = []
    for make in (KINDS["pandas"], KINDS[kind]):
        model = BiasCorrLogit.from_target(
            "y ~ x1", "~ x1 + z", make(labelled), make(target), match_on=["x1", "z"], rng=0
        )
        sizes.append((model.design.nobs, model.design.X.sum()))
    assert sizes[0] == pytest.approx(sizes[1])


@pytest.mark.parametrize(
    "values", ["numpy", "list", "pandas", "polars", "arrow", "masked", "categorical"]
)
def test_clusters_as_values_of_every_kind(clean, data, values):
    region = data["region"]
    codes = region.map("abcd".index)
    given = {
        "numpy": lambda: region.to_numpy(),
        "list": region.tolist,
        "pandas": lambda: region,
        "polars": lambda: pytest.importorskip("polars").Series(region.tolist()),
        "arrow": lambda: pytest.importorskip("pyarrow").chunked_array([region.tolist()]),
        "masked": lambda: np.ma.array(codes.to_numpy(), mask=False),
        "categorical": lambda: pd.Categorical(region),
    }[values]()
    found = clean.get_robustcov_results("cluster", groups=given).bse
    expected = clean.get_robustcov_results("cluster", groups="region").bse
    np.testing.assert_allclose(found, expected, rtol=1e-12)


# -- data that change after the model was built ------------------------------------------------


def sort_rows(data):
    with warnings.catch_warnings():  # deprecated from pandas 3.1 on
        warnings.simplefilter("ignore")
        data.sort_values("x2", inplace=True)


def overwrite(data):
    data["x1"] = 0.0
    data["firm"] = 1


def write_through(data):
    data.loc[:, "x1"] = 0.0
    data.iloc[:, data.columns.get_loc("firm")] = 1
    data.iloc[:, data.columns.get_loc("region")] = "a"


def drop_rows(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data.drop(index=data.index[:50], inplace=True)


def rename(data):
    data.columns = [f"_{name}" for name in data]


def relabel(data):
    data.index = data.index[::-1]


def drop_columns(data):
    del data["firm"], data["x1"]
    data.pop("region")


CHANGES = [sort_rows, overwrite, write_through, drop_rows, rename, relabel, drop_columns]
LATER = ("get_robustcov_results", "two ways", "get_margeff", "impute", "population_metrics")


@pytest.mark.parametrize("change", CHANGES)
def test_what_the_user_does_to_the_frame_later_does_not_matter(expected, data, change):
    own = data.copy()
    model = GreeneSelectionLogit.from_formula(
        OUTCOME, SELECT, own, normalization="independent", offset="known"
    )
    change(own)
    results = model.fit(cov_type="cluster", cov_kwds={"groups": "firm"})
    same(results.bse, expected["fit"])
    for call in LATER:
        same(CALLS[call](results, None), expected[call])


@pytest.mark.parametrize("change", [sort_rows, overwrite, drop_rows])
def test_nor_does_it_in_partitions(expected, data, change):
    own = data.copy()
    model = GreeneSelectionLogit.from_formula(
        OUTCOME, SELECT, own, normalization="independent", offset="known",
        execution=Execution(partition_rows=150),
    )  # fmt: skip
    change(own)
    results = model.fit(cov_type="cluster", cov_kwds={"groups": "firm"})
    same(results.bse, expected["fit"], 1e-6)
    for call in ("get_robustcov_results", "two ways"):
        same(CALLS[call](results, None), expected[call], 1e-6)


@pytest.mark.parametrize("wrap", [dict, pd.DataFrame], ids=["dict", "frame"])
def test_arrays_that_change_later(clean, data, wrap):
    arrays = {name: data[name].to_numpy(copy=True) for name in data}
    model = GreeneSelectionLogit.from_formula(
        OUTCOME, SELECT, wrap(arrays), normalization="independent", offset="known"
    )
    arrays["firm"][:] = 0
    arrays["x1"][:] = 0.0
    results = model.fit(cov_type="cluster", cov_kwds={"groups": "firm"})
    np.testing.assert_allclose(results.bse, clean.bse, rtol=1e-9)
    effect = results.get_margeff(variables=["x1"]).margeff
    np.testing.assert_allclose(effect, clean.get_margeff(variables=["x1"]).margeff, rtol=1e-9)


def test_a_polars_frame_that_changes_later(clean, data):
    table = polars_frame(data)
    model = GreeneSelectionLogit.from_formula(
        OUTCOME, SELECT, table, normalization="independent", offset="known"
    )
    table[0, "x1"] = 100.0
    table.drop_in_place("firm")
    results = model.fit(cov_type="cluster", cov_kwds={"groups": "firm"})
    np.testing.assert_allclose(results.bse, clean.bse, rtol=1e-9)


def test_the_frame_is_not_copied_until_it_is_written_to(data):
    """Copies of a large frame would double its memory; before pandas 3 there is no other way."""
    if int(pd.__version__.split(".")[0]) < 3:
        pytest.skip("pandas copies on write from version 3 on")
    model = GreeneSelectionLogit.from_formula(OUTCOME, SELECT, data)
    assert np.shares_memory(model.frame["x1"].to_numpy(), data["x1"].to_numpy())


def test_values_of_the_callers_scope_are_kept_too(data):
    cut, table = [0.0], {"scale": 2.0}
    model = GreeneSelectionLogit.from_formula(
        "y ~ I(x1 > cut[0]) + I(x2 * table['scale'])", SELECT, data, normalization="independent"
    )
    results = model.fit()
    expected = results.predict(data)
    cut[0], table["scale"] = 5.0, 0.0
    np.testing.assert_array_equal(results.predict(data), expected)


def test_the_normalization_is_kept_too(data):
    fixed = {"sigma": 1.0}
    model = GreeneSelectionLogit.from_formula(OUTCOME, SELECT, data, normalization=fixed)
    fixed["sigma"] = 9.0
    assert model.normalization == {"sigma": 1.0}


# -- rows that subset repeats or reorders ------------------------------------------------------


@pytest.mark.parametrize("subset", ["repeated", "as many", "reordered"])
def test_clusters_of_rows_that_subset_repeats_or_reorders(data, subset):
    rng = np.random.default_rng(0)
    rows = {
        "repeated": np.r_[np.arange(100), np.arange(100), np.arange(200)],
        "as many": rng.integers(0, N, N),
        "reordered": rng.permutation(N),
    }[subset]
    options = {"normalization": "independent"}
    results = GreeneSelectionLogit.from_formula(OUTCOME, SELECT, data, rows, **options).fit()
    taken = data.iloc[rows].reset_index(drop=True)
    other = GreeneSelectionLogit.from_formula(OUTCOME, SELECT, taken, **options).fit()
    expected = other.get_robustcov_results("cluster", groups="region").bse
    for groups in ("region", data["region"]):
        found = results.get_robustcov_results("cluster", groups=groups).bse
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    if subset == "repeated":  # 400 values can only be those of the rows used
        found = results.get_robustcov_results("cluster", groups=taken["region"].to_numpy()).bse
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    else:
        with pytest.raises(ValueError, match="groups has 240 values, which may be meant for"):
            results.get_robustcov_results("cluster", groups=data["region"].to_numpy())
