"""Where the raw files of the data sets are, and how to get them."""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "STATSMODELS_MNAR_DATA"
_TIMEOUT = 60.0  # seconds


class DataFileError(FileNotFoundError, ValueError):
    """A raw file is nowhere to be found, cannot be fetched, or is not the file it should be.

    Examples
    --------
    >>> from statsmodels_mnar.datasets import DataFileError, load_mroz
    >>> try:
    ...     load_mroz("a folder that does not exist")
    ... except DataFileError as error:
    ...     print(str(error)[:24])
    Mroz87.csv was not found
    """


@dataclass(frozen=True, slots=True)
class RawFile:
    """One raw file of a data set.

    Its place inside a data folder is ``<data set>/<name>``, or ``<name>`` alone.
    """

    dataset: str
    name: str
    sha256: str
    url: str | None  # None where no public address serves these bytes
    source: str  # for the instructions


_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_UCI_SITE = "the UCI machine learning repository"

FILES: dict[str, RawFile] = {
    file.name: file
    for file in (
        RawFile(
            "adult",
            "adult.data",
            "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
            f"{_UCI}/adult/adult.data",
            _UCI_SITE,
        ),
        RawFile(
            "adult",
            "adult.test",
            "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
            f"{_UCI}/adult/adult.test",
            _UCI_SITE,
        ),
        RawFile(
            "german",
            "german.data",
            "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
            f"{_UCI}/statlog/german/german.data",
            _UCI_SITE,
        ),
        RawFile(
            "drug",
            "drug_consumption.data",
            "90b8cf500b07ad455baf9fe1dc519998c75a1df6d87f6bd7069176f0826ea8c1",
            f"{_UCI}/00373/drug_consumption.data",
            _UCI_SITE,
        ),
        RawFile(
            "credit_card",
            "AmEx.csv",
            "e98848feff1d59eadbb923aff470d3525f980757497bb9dcbf954bd5341802b8",
            None,
            "the data set AmEx of the R package HeckmanSelect, written with "
            "write.csv(AmEx, 'AmEx.csv', row.names = FALSE)",
        ),
        RawFile(
            "mroz",
            "Mroz87.csv",
            "c37436f8fb82b5217c44c8b823a1bfb32f2f21096eca3b760e409ba8279d0648",
            "https://vincentarelbundock.github.io/Rdatasets/csv/sampleSelection/Mroz87.csv",
            "the data set Mroz87 of the R package sampleSelection",
        ),
    )
}


def cache_dir() -> Path:
    """The folder downloads are kept in: ``$XDG_CACHE_HOME/statsmodels_mnar`` or ``~/.cache``'s.

    Examples
    --------
    >>> from statsmodels_mnar.datasets import cache_dir
    >>> cache_dir().name
    'statsmodels_mnar'
    """
    root = os.environ.get("XDG_CACHE_HOME")
    base = Path(root) if root and Path(root).is_absolute() else Path.home() / ".cache"
    return base / "statsmodels_mnar"


def find_file(
    name: str, path: str | os.PathLike[str] | None = None, *, download: bool = False
) -> Path:
    """The place of a raw file.

    Parameters
    ----------
    name : str
        One of ``FILES``.
    path : path-like, optional
        A folder that has the file, directly or under the data set's name. Nothing else is searched
        then. By default the folder named by the environment variable
        STATSMODELS_MNAR_DATA and then the per-user cache (:func:`cache_dir`) are.
    download : bool
        Fetch the file from its public source into the cache where it is not found. Its checksum
        must be that of the file these loaders were written for.

    Raises
    ------
    DataFileError
        Where the file is nowhere, or cannot be fetched, with what to do.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from statsmodels_mnar.datasets import find_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = (Path(folder) / "german.data").write_text("A11 6 A34")
    ...     find_file("german.data", folder).name
    'german.data'
    """
    file = FILES[name]
    named = os.environ.get(VARIABLE)
    if path is not None:
        folders = [Path(path)]
    else:
        folders = [Path(named)] if named else []
        folders.append(cache_dir())
    for folder in folders:
        for place in (folder / file.dataset / name, folder / name):
            if place.is_file():
                return place
    if download and path is None:
        return fetch(file, cache_dir() / file.dataset / name)
    raise DataFileError(_instructions(file, folders))


def fetch(file: RawFile, place: Path) -> Path:
    """Download a file, check it, and put it in its place in one step."""
    if file.url is None:
        raise DataFileError(
            f"{file.name} has no public address to download from. Take it from {file.source} and "
            f"put it at {place}"
        )
    try:
        with urllib.request.urlopen(file.url, timeout=_TIMEOUT) as response:
            content = response.read()
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        raise DataFileError(
            f"{file.name} could not be fetched from {file.url} ({error}). Without a network: "
            f"get the file elsewhere and put it at {place}, or name its folder in the environment "
            f"variable {VARIABLE}"
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise DataFileError(
            f"{file.url} served {len(content):,} bytes with sha256 {found}, not {file.sha256}: the "
            "file has changed or the download is incomplete. Nothing was kept."
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    # Written beside its place and renamed, so that no reader ever sees half a file.
    handle, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
        os.replace(temporary, place)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return place


def _instructions(file: RawFile, folders: list[Path]) -> str:
    remedy = "pass download=True, or " if file.url is not None else ""
    return (
        f"{file.name} was not found in {', '.join(map(str, folders))}: {remedy}get it from "
        f"{file.source} and pass its folder as path, or name the folder in the environment "
        f"variable {VARIABLE}"
    )
