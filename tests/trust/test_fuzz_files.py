"""The command ``fit`` on files that are not what they should be.

Whatever a file holds, the command ends with one of its documented exit codes and says why in a
line on stderr; what it does read is what Python's own csv module reads in the file.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import os
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statsmodels_mnar.__main__ import main
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.files import read_table
from tests.trust.limits import within

FORMULAS = ("y ~ x1 + x2", "s ~ x1 + x2 + z")
# One evaluation and a few Newton steps: the file is what is tried here.
QUICK = ("--normalization", "sigma=1,rho=0.3", "--quiet")
DATA = simulate_greene(300, rng=2).data.drop(columns="y_full")
TEXT = DATA.to_csv(index=False)
RAW = TEXT.encode()
LINES = RAW.splitlines(keepends=True)


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def run(file: str | Path, *options: str, formulas: tuple[str, str] = FORMULAS) -> Ended:
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),  # those that a user's terminal shows are no failures
        within(60),
    ):
        warnings.simplefilter("ignore")
        code = main(["fit", str(file), *formulas, *QUICK, *options])
    return Ended(code, out.getvalue(), err.getvalue())


def check_refused(ended: Ended, *words: str) -> None:
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("statsmodels-mnar: ")
    assert "Traceback" not in ended.err
    for word in words:
        assert word in ended.err


def parquet(frame: pd.DataFrame | None = None, **columns: list) -> bytes:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    frame = DATA if frame is None else frame
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    return buffer.getvalue()


def changed(raw: bytes, low: float, high: float, by: bytes = b"") -> bytes:
    """With a stretch, given as shares of the length, cut out and replaced."""
    return raw[: int(low * len(raw))] + by + raw[int(high * len(raw)) :]


def zipped(*members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for i, member in enumerate(members):
            archive.writestr(f"{i}.csv", member)
    return buffer.getvalue()


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty.csv": (lambda: b"", "the file is empty"),
    "newlines.csv": (lambda: b"\n\n\n", "the file is empty"),
    "headers_only.csv": (lambda: LINES[0], "has no rows"),
    "cut_in_a_row.csv": (lambda: b"".join(LINES[:50]) + b"0.5,0.1", "line 51 has 2 fields"),
    "short_row.csv": (
        lambda: b"".join([*LINES[:9], b"1,2\n", *LINES[9:]]),
        "line 10 has 2 fields and the header 5",
    ),
    "long_row.csv": (lambda: b"".join([*LINES[:9], b"1,2,3,4,5,6\n"]), "Expected 5 fields"),
    "long_rows.csv": (
        lambda: LINES[0] + b"".join(b"7," + line for line in LINES[1:]),
        "line 2 has 6 fields and the header 5",
    ),
    "mixed_separators.csv": (
        lambda: b"".join(LINES[:150]) + b"".join(LINES[150:]).replace(b",", b";"),
        "line 151 has 1 fields",
    ),
    "duplicated_headers.csv": (lambda: RAW.replace(b"x2", b"x1", 1), "more than one column x1"),
    "no_headers.csv": (lambda: b"".join(LINES[1:]), "uses 'y'"),
    "unnamed.csv": (lambda: b",,,,\n" + b"".join(LINES[1:]), "uses 'y'"),
    "utf16.csv": (lambda: TEXT.encode("utf-16"), "UTF-8"),
    "latin1.csv": (lambda: RAW.replace(b"x1", "xé".encode("latin-1")), "UTF-8"),
    "random.csv": (lambda: np.random.default_rng(0).bytes(5_000), ""),
    "words_in_a_column.csv": (lambda: changed(RAW, 0.5, 0.5, b"word"), ""),
    "open_quote.csv": (lambda: changed(RAW, 0.5, 0.5, b'\n"'), ""),
    "large_field.csv": (lambda: changed(RAW, 0.5, 0.5, b"a" * 200_000), "field larger than"),
    "cut.csv.gz": (lambda: changed(gzip.compress(RAW), 0.5, 1.0), "broken archive"),
    "damaged.csv.gz": (lambda: changed(gzip.compress(RAW), 0.4, 0.5, b"\0" * 9), ""),
    "random.csv.gz": (lambda: b"garbage", "gzip"),
    "random.csv.bz2": (lambda: b"garbage", ""),
    "random.csv.xz": (lambda: b"garbage", "broken archive"),
    "random.csv.zip": (lambda: b"garbage", "broken archive"),
    "random.csv.tar": (lambda: b"garbage", "broken archive"),
    "random.csv.zst": (lambda: b"garbage", ""),
    "two.csv.zip": (lambda: zipped(RAW, RAW), "Multiple files"),
    "none.csv.zip": (lambda: zipped(), "Zero files"),
    "empty.parquet": (lambda: b"", "not a Parquet file"),
    "random.parquet": (lambda: b"PAR1 garbage PAR1", "not a Parquet file"),
    "csv.parquet": (lambda: RAW, "not a Parquet file"),
    "cut.parquet": (lambda: changed(parquet(), 0.5, 1.0), "not a Parquet file"),
    "damaged.parquet": (lambda: changed(parquet(), 0.1, 0.3, b"\xff" * 900), "not a Parquet file"),
    "no_rows.parquet": (lambda: parquet(DATA.head(0)), "has no rows"),
    "parquet.csv": (lambda: parquet(), ""),
}
READ: dict[str, Callable[[], bytes]] = {
    "plain.csv": lambda: RAW,
    "bom.csv": lambda: b"\xef\xbb\xbf" + RAW,
    "dos.csv": lambda: RAW.replace(b"\n", b"\r\n"),
    "mac.csv": lambda: RAW.replace(b"\n", b"\r"),
    "blank_lines.csv": lambda: RAW.replace(b"\n", b"\n\n"),
    "no_last_newline.csv": lambda: RAW.rstrip(b"\n"),
    "semicolons.csv": lambda: RAW.replace(b",", b";"),
    "quoted.csv": lambda: DATA.to_csv(index=False, quoting=csv.QUOTE_ALL).encode(),
    "packed.csv.gz": lambda: gzip.compress(RAW),
    "packed.csv.zip": lambda: zipped(RAW),
    "plain.parquet": parquet,
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_are_refused(name, tmp_path):
    content, words = REFUSED[name]
    (tmp_path / name).write_bytes(content())
    check_refused(run(tmp_path / name), words)


@pytest.mark.parametrize("name", READ)
def test_files_that_are_read(name, tmp_path):
    (tmp_path / name).write_bytes(READ[name]())
    pd.testing.assert_frame_equal(read_table(str(tmp_path / name)), DATA)


def test_nul_bytes_do_not_shift_the_columns(tmp_path):
    file = tmp_path / "nul.csv"
    file.write_bytes(changed(RAW, 0.5, 0.5, b"\0\0"))
    ended = run(file)
    if ended.code == 0:
        different = (read_table(str(file)) != DATA) & DATA.notna()
        assert different.to_numpy().sum() <= 1
    else:
        check_refused(ended)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_places_that_are_no_files(suffix, tmp_path):
    (tmp_path / f"folder{suffix}").mkdir()
    check_refused(run(tmp_path / f"folder{suffix}"), "is a folder")
    check_refused(run(tmp_path / f"nowhere{suffix}"), "no such file")
    loop = tmp_path / f"loop{suffix}"
    loop.symlink_to(loop)
    check_refused(run(loop), "no such file")
    dangling = tmp_path / f"dangling{suffix}"
    dangling.symlink_to(tmp_path / "gone")
    check_refused(run(dangling), "no such file")
    check_refused(run("a" * 5_000 + suffix))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read it")
def test_a_file_that_may_not_be_read(suffix, tmp_path):
    file = tmp_path / f"secret{suffix}"
    file.write_bytes(RAW)
    file.chmod(0)
    check_refused(run(file), "ermission")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_error_of_the_system_is_a_message(suffix, tmp_path, monkeypatch):
    """Root reads any file, so refusal by the system is made here."""

    def refuse(*args, **options):
        raise PermissionError(13, "Permission denied", "secret")

    file = tmp_path / f"secret{suffix}"
    file.write_bytes(RAW)
    monkeypatch.setattr("pandas.read_csv", refuse)
    monkeypatch.setattr("pandas.read_parquet", refuse)
    check_refused(run(file), "Permission denied")


NESTED = {
    "lists": [[1, 2]] * len(DATA),
    "structs": [{"a": 1}] * len(DATA),
    "nothing": [None] * len(DATA),
    "dates": list(pd.date_range("2020", periods=len(DATA), tz="UTC")),
    "bytes": [b"a"] * len(DATA),
}


@pytest.mark.parametrize("name", NESTED)
def test_parquet_columns_of_types_that_are_no_numbers(name, tmp_path):
    file = tmp_path / "nested.parquet"
    file.write_bytes(parquet(**NESTED))
    assert run(file).code == 0  # such columns harm nobody who does not use them
    check_refused(run(file, formulas=(f"{name} ~ x1", FORMULAS[1])))
    check_refused(run(file, "--freq-weights", name))
    check_refused(run(file, "--offset", name))
    for ended in (
        run(file, formulas=(f"y ~ x1 + {name}", FORMULAS[1])),
        run(file, "--groups", name),
    ):
        if ended.code:  # dates are levels, and clusters
            check_refused(ended)


@pytest.mark.parametrize("sep", ["((", "||", "\\s+", "\n", '"', "ab"])
def test_separators_that_are_none(sep, tmp_path):
    file = tmp_path / "plain.csv"
    file.write_bytes(RAW)
    check_refused(run(file, "--sep", sep), "--sep")


# -- random damage ---------------------------------------------------------------------------------

PIECES = st.one_of(
    st.binary(max_size=12),
    st.sampled_from([b",", b";", b"\n", b"\r", b'"', b"\0", b"\xff", b"\xef\xbb\xbf", b"nan"]),
    st.sampled_from([b"1e999", b"-", b" ", b"'", b"\\", b"True", b"1,1,1,1,1\n", b",,,,\n", b"x1"]),
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, raw: bytes) -> bytes:
    """A file with up to four stretches cut out or replaced."""
    for _ in range(draw(st.integers(1, 4))):
        low = draw(st.integers(0, len(raw)))
        high = min(len(raw), low + draw(st.sampled_from([0, 0, 1, 2, 10, 10**6])))
        raw = raw[:low] + draw(PIECES) + raw[high:]
    return raw


SMALL = DATA.head(60)


@given(damaged(SMALL.to_csv(index=False).encode()))
def test_damaged_csv_files(tmp_path_factory, raw):
    file = tmp_path_factory.getbasetemp() / "damaged.csv"
    file.write_bytes(raw)
    ended = run(file)
    assert ended.code in (0, 2, 3)
    if ended.code == 2:
        check_refused(ended)
    else:
        assert "Traceback" not in ended.err
        check_read_as_python_does(file)


def check_read_as_python_does(file: Path) -> None:
    with file.open(encoding="utf-8-sig", newline="") as text:
        header, *rows = [row for row in csv.reader(text) if any(row)]
    table = read_table(str(file))
    table = table[table.notna().any(axis=1)]
    assert list(table.columns) == header
    assert len(table) == len(rows)
    for name, values in zip(header, zip(*rows, strict=True), strict=True):
        if not pd.api.types.is_float_dtype(table[name]):
            continue
        read = table[name].to_numpy(dtype=float)
        known = ~np.isnan(read)
        meant = np.array([float(v) for v, k in zip(values, known, strict=True) if k])
        np.testing.assert_allclose(read[known], meant, rtol=1e-14)


@given(damaged(parquet(SMALL)))
def test_damaged_parquet_files(tmp_path_factory, raw):
    file = tmp_path_factory.getbasetemp() / "damaged.parquet"
    file.write_bytes(raw)
    ended = run(file)
    assert ended.code in (0, 2, 3)
    if ended.code == 2:
        check_refused(ended)
