"""Files of a data set: their schemas are compared before anything is read."""

from __future__ import annotations

import datetime
import decimal
import os

import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar import DesignError, Execution, GreeneSelectionLogit
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.design.sources import find_source

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
dataset = pytest.importorskip("pyarrow.dataset")

N = 400
FORMULA, SELECT = "y ~ x1 + x2", "s ~ x1 + x2 + z"


@pytest.fixture(scope="module")
def data():
    return simulate_greene(N, rng=1).data.drop(columns="y_full")


@pytest.fixture
def write(tmp_path):
    """A folder with a file for each table."""

    def make(*tables):
        for i, table in enumerate(tables):
            if isinstance(table, pd.DataFrame):
                table = pa.Table.from_pandas(table, preserve_index=False)
            pq.write_table(table, tmp_path / f"part-{i}.parquet")
        return tmp_path

    return make


def halves(data, **changes):
    """Two tables, of which the second has columns made anew."""
    second = data.iloc[N // 2 :]
    return data.iloc[: N // 2], second.assign(**{k: how(second) for k, how in changes.items()})


def built(folder, formula=FORMULA, select=SELECT, **options):
    execution = Execution(partition_rows=150)
    options = {"normalization": "loading", "execution": execution} | options
    return GreeneSelectionLogit.from_formula(formula, select, folder, **options)


def read(folder, columns):
    """All rows, as the partitions have them."""
    source = find_source(folder, 150)
    return pd.concat([one() for one in source.readers(columns)], ignore_index=True)


# -- columns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("lacking", [0, 1])
def test_a_file_without_a_column_is_named(lacking, data, write):
    tables = list(halves(data))
    tables[lacking] = tables[lacking].drop(columns="x2")
    says = f"part-{lacking}.parquet has no column 'x2', which is read.*part-{1 - lacking}.parquet"
    with pytest.raises(DesignError, match=says):
        built(write(*tables))


def test_an_outcome_of_another_name_does_not_make_rows_unlabelled(data, write):
    """Without a selection column, rows whose outcome is missing count as unselected."""
    first, second = halves(data)
    folder = write(first, second.rename(columns={"y": "Y"}))
    with pytest.raises(DesignError, match=r"part-1.parquet has no column 'y' \(it has 'Y'\)"):
        built(folder, select="~ x1 + x2 + z")


def test_names_in_the_calling_scope_do_not_stand_in_for_a_column_of_some_files(data, write):
    first, second = halves(data)
    x2 = 0.0  # noqa: F841
    with pytest.raises(DesignError, match=r"part-0.parquet has no column 'x2'"):
        built(write(first.drop(columns="x2"), second))


def test_columns_that_are_not_read_may_differ(data, write):
    first, second = halves(data)
    found = built(write(first.assign(note="a"), second.assign(other=1, note=2))).fit()
    expected = GreeneSelectionLogit.from_formula(FORMULA, SELECT, data, normalization="loading")
    assert found.llf == pytest.approx(expected.fit().llf, rel=1e-9)


def test_two_columns_of_one_name_are_refused(data, write):
    first, second = (pa.Table.from_pandas(half, preserve_index=False) for half in halves(data))
    twice = second.append_column("x1", second.column("x1"))
    with pytest.raises(DesignError, match=r"part-1.parquet has more than one column 'x1'"):
        built(write(first, twice))


def test_predictions_compare_schemas_too(data, write, tmp_path_factory):
    first, second = halves(data)
    results = GreeneSelectionLogit.from_formula(
        FORMULA, SELECT, data, normalization="loading"
    ).fit()
    folder = write(first, second.drop(columns="x2"))
    with pytest.raises(DesignError, match=r"part-1.parquet has no column 'x2'"):
        results.predict_parquet(folder, tmp_path_factory.mktemp("out") / "new")


def test_columns_of_folder_names_are_read(data, tmp_path):
    for month, half in zip((1, 2), halves(data), strict=True):
        place = tmp_path / f"month={month}"
        place.mkdir()
        half.to_parquet(place / "part.parquet", index=False)
    found = built(tmp_path, "y ~ x1 + month").fit()
    whole = data.assign(month=np.where(np.arange(N) < N // 2, 1, 2))
    expected = GreeneSelectionLogit.from_formula(
        "y ~ x1 + month", SELECT, whole, normalization="loading"
    ).fit()
    assert found.llf == pytest.approx(expected.llf, rel=1e-9)


# -- types -----------------------------------------------------------------------------------------

DATE = datetime.date(2020, 1, 1)
DIFFERENT = {
    "text": lambda d: d.x1.astype(str),
    "time": lambda d: pd.Timestamp("2020-01-01"),
    "date": lambda d: [DATE] * len(d),
    "lists": lambda d: [[1.0]] * len(d),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_a_column_of_another_meaning_is_refused_with_both_files(what, data, write):
    folder = write(*halves(data, x1=DIFFERENT[what]))
    says = r"'x1' is .* in part-1.parquet, but double in part-0.parquet. Write the files with one"
    with pytest.raises(DesignError, match=says):
        built(folder)


SAME = {
    "float32": lambda d: d.x1.astype("float32"),
    "integers": lambda d: d.x1.round().astype("int32"),
    "booleans": lambda d: d.x1 > 0,
    "decimals": lambda d: [decimal.Decimal(repr(round(v, 3))) for v in d.x1],
    "nothing": lambda d: None,
    "nothing, as text": lambda d: pd.array([None] * len(d), dtype="string"),
    "nothing, as times": lambda d: pd.Series(pd.NaT, d.index),
    "nullable integers": lambda d: d.x1.round().astype("Int64"),
}


@pytest.mark.parametrize("turned", [False, True], ids=["in the second", "in the first"])
@pytest.mark.parametrize("what", SAME)
def test_numbers_of_other_types_and_empty_columns_keep_their_values(what, turned, data, write):
    tables = halves(data, x1=SAME[what])
    tables = tables[::-1] if turned else tables
    found = read(write(*tables), ["x1", "z"])
    expected = [[np.nan if pd.isna(v) else float(v) for v in table.x1] for table in tables]
    # pyarrow's conversion of decimals may differ from Python's in the last bit.
    np.testing.assert_allclose(found.x1.to_numpy(float), np.concatenate(expected), rtol=3e-16)
    np.testing.assert_array_equal(found.z, np.concatenate([table.z for table in tables]))


def test_float32_in_the_first_file_does_not_narrow_the_others(data, write):
    first, second = halves(data)
    found = read(write(first.assign(x1=first.x1.astype("float32")), second), ["x1"])
    np.testing.assert_array_equal(found.x1[N // 2 :], second.x1)  # every digit
    assert found.x1.dtype == np.float64


def test_small_integers_in_the_first_file_do_not_limit_the_others(data, write):
    first, second = halves(data)
    large = np.arange(len(second)) * 1_000 + 300
    tables = first.assign(k=np.uint8(3)), second.assign(k=large)
    found = read(write(*tables), ["k"])
    np.testing.assert_array_equal(found.k, [3] * len(first) + large.tolist())


@pytest.mark.parametrize("turned", [False, True])
def test_files_of_unlabelled_rows_may_have_an_empty_outcome(turned, data, write):
    """Written by pandas, such a column has no type at all."""
    first, second = halves(data, y=lambda d: None, s=lambda d: 0)
    tables = (second, first) if turned else (first, second)
    found = built(write(*tables)).fit()
    whole = pd.concat(tables, ignore_index=True).astype({"y": float})
    expected = GreeneSelectionLogit.from_formula(FORMULA, SELECT, whole, normalization="loading")
    assert found.llf == pytest.approx(expected.fit().llf, rel=1e-9)


def test_levels_as_text_and_as_categories_are_the_same_levels(data, write):
    first, second = halves(data, x2=lambda d: np.where(d.x2 > 0, "u", "v"))
    levels = pd.Categorical(np.where(first.x2 > 0, "u", "v"))
    found = built(write(first.assign(x2=levels), second)).fit()
    whole = data.assign(x2=np.where(data.x2 > 0, "u", "v"))
    expected = GreeneSelectionLogit.from_formula(FORMULA, SELECT, whole, normalization="loading")
    assert found.llf == pytest.approx(expected.fit().llf, rel=1e-9)


def test_files_with_levels_of_their_own_have_those_of_text(data, write):
    group = np.where(data.index < N // 2, "b", "c")
    group[::5] = np.where(data.index[::5] < N // 2, "c", "a")  # no a in the first file
    data = data.assign(g=group)
    expected = GreeneSelectionLogit.from_formula("y ~ x1 + g", SELECT, data).param_names
    own = [half.assign(g=half.g.astype("category")) for half in halves(data)]
    assert built(write(*own), "y ~ x1 + g").param_names == expected
    coded = [pa.Table.from_pandas(half, preserve_index=False) for half in halves(data)]
    at = coded[0].column_names.index("g")
    coded = [half.set_column(at, "g", half.column(at).dictionary_encode()) for half in coded]
    assert built(write(*coded), "y ~ x1 + g").param_names == expected


def test_a_schema_that_the_user_gives_is_kept(data, write):
    folder = write(*halves(data))
    schema = pq.read_schema(folder / "part-0.parquet")
    place = schema.get_field_index("x1")
    schema = schema.set(place, pa.field("x1", pa.float32())).remove_metadata()
    found = read(dataset.dataset(folder, schema=schema), ["x1"])
    assert found.x1.dtype == np.float32


# -- files that are none ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a-readme.txt", "readme.txt", "part-9.parquet"])
@pytest.mark.parametrize("content", [b"", b"hello", b"PAR1" + b"x" * 100 + b"PAR1"])
def test_a_stray_or_broken_file_is_named(name, content, data, write):
    folder = write(*halves(data))
    (folder / name).write_bytes(content)
    with pytest.raises(DesignError, match=f"^{name} is among the files of data.*Move it elsewhere"):
        built(folder)


def test_a_file_that_is_cut_is_named(data, write):
    folder = write(*halves(data))
    path = folder / "part-1.parquet"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DesignError, match=r"^part-1.parquet is among the files.*write it again"):
        built(folder)
    with pytest.raises(DesignError, match=r"^part-1.parquet is among the files"):
        built(path)


def test_damaged_rows_are_reported_with_their_file(data, write):
    folder = write(*halves(data))
    path = folder / "part-1.parquet"
    content = bytearray(path.read_bytes())
    content[4:1_500] = b"\xff" * 1_496  # pages of the first columns, not the footer
    path.write_bytes(bytes(content))
    with pytest.raises(DesignError, match=r"part-1.parquet: its rows cannot be read.*damaged"):
        built(folder)


@pytest.mark.parametrize("change", ["rewritten", "removed"])
def test_a_file_that_changes_after_the_fit_is_named(change, data, tmp_path):
    path = tmp_path / "loans.parquet"
    table = data.assign(y=data.y.fillna(0.0), firm=np.arange(N) % 20)

    def write(rows):  # of the same layout to the byte, whatever the order of the rows
        pq.write_table(
            pa.Table.from_pandas(rows, preserve_index=False), path,
            compression="none", use_dictionary=False, write_statistics=False,
        )  # fmt: skip

    write(table)
    results = built(path).fit()
    expected = results.get_robustcov_results("cluster", groups="firm").bse
    later = path.stat().st_mtime_ns + 10_000_000
    if change == "removed":
        path.unlink()
    else:
        write(table.sort_values("z"))
        os.utime(path, ns=(later, later))
    with pytest.raises(DesignError, match=r"^loans.parquet was written to or removed .* again"):
        results.get_robustcov_results("cluster", groups="firm")
    again = built(path).fit() if change == "rewritten" else None
    if again is not None:
        found = again.get_robustcov_results("cluster", groups="firm").bse
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_folder_without_files_is_refused(tmp_path):
    with pytest.raises(DesignError, match="without files"):
        built(tmp_path)
