"""Tables from files as people have them: CSV of any make, Excel, Stata, Parquet."""

from __future__ import annotations

import codecs
import csv
import io
import lzma
import re
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types as pdt

_EXCEL = (".xlsx", ".xlsm", ".xls", ".ods")
_PARQUET = (".parquet", ".pq")
_COMPRESSED = (".gz", ".bz2", ".zip", ".xz", ".zst", ".tar")  # by pandas' reading of a name
_SEPARATORS = ",;\t|"
# Raised over damaged archives, and no OSError as gzip's other errors are.
_BROKEN_ARCHIVE = (EOFError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error)
# How files of other kinds begin, for those that are called .csv.
_BEGINNINGS = (
    (b"PK\x03\x04", "an Excel file", ".xlsx"),
    (b"\xd0\xcf\x11\xe0", "an Excel file of an old kind", ".xls"),
    (b"PAR1", "a Parquet file", ".parquet"),
    (b"<stata_dta>", "a Stata file", ".dta"),
)
_DECIMAL_COMMA = re.compile(r"[-+]?\d+(,\d+)?")
_SPACES = " \u00a0\u202f"  # and the two at which no line breaks, as Excel writes them
_THOUSANDS = {".": ".", ",": ",", " ": _SPACES, "'": "'\u2019"}  # by the mark, how it is written
_LOOK = 200  # rows, to find the separator and decimal commas


@dataclass(frozen=True, slots=True)
class Reading:
    """How a file is read; None where that is to be found out."""

    sep: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    missing: tuple[str, ...] = ()  # texts that mean a missing value, besides pandas' own


def read_table(path: str, how: Reading | None = None) -> pd.DataFrame:
    """The file as a frame; what is wrong with it is said in one sentence.

    Parameters
    ----------
    path : str
        CSV (compressed or not), .tsv, .parquet, .xlsx, .xls, .ods or .dta, or "-" for CSV on the
        standard input.
    how : Reading, optional
    """
    data = next(read_chunks(path, None, how))
    if data.empty:
        raise ValueError(f"{path}: has no rows")
    return data


def read_chunks(
    path: str,
    rows: int | None,
    how: Reading | None = None,
    used: Collection[str] | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield the frames of a file, of so many rows each; all in one where ``rows`` is None.

    Excel files are read as a whole first. Where ``used`` names the columns that are computed with,
    the others of a CSV file stay the text that they are: 0042 as a number would be 42.
    """
    how = Reading() if how is None else how
    _check_there(path)
    suffix = Path(path).suffix.lower()
    if suffix in _PARQUET:
        whole = _other(path, "Parquet", "pyarrow", lambda: pd.read_parquet(path))
    elif suffix in _EXCEL:
        whole = _read_excel(path, how.sheet)
    elif suffix == ".dta":
        whole = _read_stata(path)
    else:
        yield from _read_csv(path, rows, how, used)
        return
    step = len(whole) if rows is None else rows
    for start in range(0, max(len(whole), 1), max(step, 1)):
        yield whole.iloc[start : start + step] if rows else whole


def _check_there(path: str) -> None:
    if path != "-" and not Path(path).is_file():
        raise ValueError(f"{path}: {'is a folder' if Path(path).is_dir() else 'no such file'}")


def _other(path: str, kind: str, needs: str, read: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    try:
        return read()
    except ImportError:
        raise ValueError(f"{path}: reading {kind} needs {needs}: pip install {needs}") from None
    except Exception as error:  # of many classes, and all of them about the file
        article = "an" if kind[0] in "AEIOU" else "a"
        raise ValueError(f"{path}: not {article} {kind} file that can be read ({error})") from None


def _read_excel(path: str, sheet: str | None) -> pd.DataFrame:
    needs = {".xls": "xlrd", ".ods": "odfpy"}.get(Path(path).suffix.lower(), "openpyxl")
    name = int(sheet) - 1 if sheet and sheet.isdecimal() else sheet
    return _other(path, "Excel", needs, lambda: pd.read_excel(path, sheet_name=name or 0))


def _read_stata(path: str) -> pd.DataFrame:
    """Values, not their labels: an indicator labelled "no" and "yes" stays 0 and 1."""
    data = _other(path, "Stata", "pandas", lambda: pd.read_stata(path, convert_categoricals=False))
    whole = [name for name in data if pdt.is_integer_dtype(data[name].dtype)]
    return data.astype(dict.fromkeys(whole, "int64"))


# -- CSV -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Text:
    """A CSV file, compressed or not, or the standard input, whose lines can be read repeatedly."""

    path: str
    encoding: str | None = None
    held: str | None = None  # of the standard input, which can be read once only

    @contextmanager
    def lines(self) -> Iterator[Any]:
        if self.held is not None:
            yield io.StringIO(self.held)
            return
        from pandas.io.common import get_handle

        encoding = self.encoding or "utf-8-sig"
        with get_handle(self.path, "r", encoding=encoding, compression="infer") as handles:
            yield handles.handle

    @property
    def compressed(self) -> bool:
        return self.held is None and Path(self.path).suffix.lower() in _COMPRESSED

    def separator(self, asked: str | None) -> str:
        """As asked for, by the name, or what the first rows have."""
        if asked is not None:
            if len(asked) != 1 or asked in '\r\n"':
                raise ValueError(f"--sep {asked!r} must be one character; a tab is $'\\t'")
            return asked
        if ".tsv" in Path(self.path).suffixes:
            return "\t"
        with self.lines() as lines:
            return _found_separator(list(islice(lines, _LOOK)))

    def header(self, sep: str) -> set[str]:
        with self.lines() as lines:
            return set(next((row for row in csv.reader(lines, delimiter=sep) if row), ()))


def manner_of(path: str, how: Reading) -> tuple[str, str]:
    """Return the separator and the encoding of a CSV file, for another to be written like it."""
    _check_there(path)
    text = _Text(path, how.encoding)
    encoding = how.encoding or "utf-8"
    if path == "-" or Path(path).suffix.lower() in (*_EXCEL, *_PARQUET, ".dta"):
        return how.sep or (";" if how.decimal == "," else ","), encoding
    if how.encoding is None and not text.compressed:
        with open(path, "rb") as file:
            marked = file.read(3) == codecs.BOM_UTF8  # by which Excel knows UTF-8
        encoding = "utf-8-sig" if marked else encoding
    try:
        return text.separator(how.sep), encoding
    except UnicodeDecodeError as error:
        raise ValueError(_no_text(path, how, error)) from None


def _read_csv(
    path: str, rows: int | None, how: Reading, used: Collection[str] | None
) -> Iterator[pd.DataFrame]:
    text = _Text(path, how.encoding, sys.stdin.read() if path == "-" else None)
    if text.held is None and not text.compressed:
        _check_beginning(path, how)
    sep = how.sep or ","
    try:
        sep = text.separator(how.sep)
        types = None if used is None else dict.fromkeys(text.header(sep) - set(used), str)
        with text.lines() as lines:
            found: Any = pd.read_csv(
                lines, sep=sep, decimal=how.decimal or ".", dtype=types, low_memory=False,
                chunksize=rows, na_values=list(how.missing),
            )  # fmt: skip
            for number, chunk in enumerate([found] if rows is None else found):
                if how.thousands is not None:
                    chunk = _without_thousands(chunk, how, types or ())
                if number == 0:
                    _check_columns(path, chunk, types or (), sep, how)
                    if not text.compressed:  # which have checks of their own
                        with text.lines() as again:
                            _check_fields(again, sep, path)
                yield chunk
    except pd.errors.EmptyDataError:
        raise ValueError(f"{path}: the file is empty") from None
    except UnicodeDecodeError as error:
        raise ValueError(_no_text(path, how, error)) from None
    except LookupError as error:
        raise ValueError(f"--encoding {how.encoding!r}: {error}") from None
    except (pd.errors.ParserError, csv.Error) as error:
        raise ValueError(
            f"{path}: not a table separated by {sep!r} ({str(error).strip()}); see --sep"
        ) from None
    except _BROKEN_ARCHIVE as error:
        raise ValueError(f"{path}: a broken archive ({error})") from None


def _found_separator(lines: list[str]) -> str:
    """The one that cuts the header and most rows into the same number of fields, above one."""
    best, most = ",", 0.0
    for sep in _SEPARATORS:
        counts = [len(row) for row in csv.reader(lines, delimiter=sep) if row]
        if counts and counts[0] > 1:
            alike = sum(count == counts[0] for count in counts) / len(counts)
            score = alike + counts[0] / 1e6
            if score > most:
                best, most = sep, score
    return best


def _check_beginning(path: str, how: Reading) -> None:
    with open(path, "rb") as file:
        start = file.read(16)
    encoding = (how.encoding or "utf").lower()
    if start.startswith(codecs.BOM_UTF8) and not encoding.startswith(("utf", "u8")):
        raise ValueError(
            f"{path}: begins with the mark of UTF-8, so its letters would be garbled in "
            f"{how.encoding}; leave --encoding out"
        )
    for bytes_, kind, suffix in _BEGINNINGS:
        if start.startswith(bytes_):
            raise ValueError(
                f"{path}: this looks like {kind}; give it a name that ends in {suffix}, or save it "
                "as CSV"
            )


def _no_text(path: str, how: Reading, error: UnicodeDecodeError) -> str:
    if how.encoding is not None:
        return f"{path}: not a text file in {how.encoding} ({error.reason})"
    guess = "utf-16" if error.object[:2] in (b"\xff\xfe", b"\xfe\xff") else "cp1252"
    return f"{path}: not a text file in UTF-8 ({error.reason}); try --encoding {guess}"


def _check_columns(
    path: str, data: pd.DataFrame, leave: Collection[str], sep: str, how: Reading
) -> None:
    """Refuse a header that was not cut, and numbers such as 12,5 that would be read as text."""
    if data.shape[1] == 1 and any(mark in str(data.columns[0]) for mark in _SEPARATORS):
        raise ValueError(f"{path}: {sep!r} does not separate its header; see --sep")
    for name in data.columns.difference(list(leave), sort=False):
        values = data[name].head(_LOOK).dropna()
        if pdt.is_numeric_dtype(values.dtype):
            continue
        texts = [str(value).strip() for value in values]
        advice = _number_marks(texts, how) if texts else ""
        if advice:
            example = max(texts, key=len)
            raise ValueError(f"{path}: {name} has numbers such as {example}; {advice}")


def _number_marks(texts: list[str], how: Reading) -> str:
    """Which option reads these texts as numbers, if one does that was not given."""
    comma = any("," in text for text in texts)
    if how.decimal is None and comma and all(map(_DECIMAL_COMMA.fullmatch, texts)):
        if all(re.fullmatch(r"[-+]?\d{1,3}(,\d{3})?", text) for text in texts):
            return "use --decimal , where 1,234 is less than two, or --thousands , where it is not"
        return "use --decimal ,"
    for mark in _THOUSANDS if how.thousands is None else ():
        for decimal in ",." if how.decimal is None else how.decimal:
            if decimal != mark and all(map(_grouped(mark, decimal).fullmatch, texts)):
                quoted = mark if mark in ".," else f'"{mark}"'
                return f"use --thousands {quoted}{' --decimal ,' * (decimal == ',')}"
    return ""


def _grouped(mark: str, decimal: str) -> re.Pattern[str]:
    """Numbers whose thousands may be marked."""
    return re.compile(rf"[-+]?(\d+|\d{{1,3}}([{_THOUSANDS[mark]}]\d{{3}})+)([{decimal}]\d*)?")


def _without_thousands(data: pd.DataFrame, how: Reading, leave: Collection[str]) -> pd.DataFrame:
    """Read columns of marked thousands as numbers; pandas would read dates such as 1.10.2025 so."""
    assert how.thousands is not None
    decimal = how.decimal or "."
    if decimal == how.thousands:
        raise ValueError(
            f"--thousands and --decimal are both {decimal!r}; one mark has one meaning"
        )
    found = {}
    for name in data.columns.difference(list(leave)):
        if pdt.is_numeric_dtype(data[name].dtype):
            continue
        numbers = _numbers(data[name], how.thousands, decimal)
        if numbers is not None:
            found[name] = numbers
    return data.assign(**found)


def _numbers(texts: pd.Series, mark: str, decimal: str) -> pd.Series | None:
    """The numbers that a column of texts writes with marked thousands; None if one is not that.

    All texts are looked at in one call, which a million rows need.
    """
    here = texts.notna().to_numpy()
    lines = [str(text).strip() for text in texts[here]]
    number = _grouped(mark, decimal)
    if not all(map(number.fullmatch, lines[:_LOOK])):
        return None
    whole = "\n".join(lines)
    if whole.count("\n") != max(len(lines) - 1, 0):  # line breaks within quotes
        return None
    if re.fullmatch(rf"(?:{number.pattern}(?:\n|\Z))*+", whole) is None:
        return None
    bare = whole.translate(str.maketrans(decimal, ".", _THOUSANDS[mark]))
    found = np.full(len(texts), np.nan)
    found[here] = np.array(bare.split("\n"), dtype=float) if lines else ()
    return pd.Series(found, index=texts.index, name=texts.name)


def _check_fields(lines: Iterable[str], sep: str, path: str) -> None:
    """Refuse what pandas mends in silence: names that occur twice, rows with too few fields."""
    rows = csv.reader(lines, delimiter=sep)
    header = next(row for row in rows if row)
    repeated = sorted({name for name in header if name and header.count(name) > 1})
    if repeated:
        raise ValueError(
            f"{path}: its header has more than one column {', '.join(repeated)}; rename them"
        )
    width = len(header)
    for row in rows:
        if len(row) != width and any(row):
            raise ValueError(
                f"{path}: line {rows.line_num} has {len(row)} fields and the header "
                f"{width}; the file is cut short, or separated by something else (--sep)"
            )
