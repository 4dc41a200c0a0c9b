"""Where raw files are looked for, and how they are fetched."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from statsmodels_mnar.datasets import DataFileError, cache_dir, find_file, load_german
from statsmodels_mnar.datasets.loaders import FILES, VARIABLE, fetch

GERMAN = FILES["german.data"]


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no folder in the environment."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def put(folder: Path, text: str = "x") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / "german.data"
    place.write_text(text)
    return place


def served(folder: Path, content: bytes):
    """The German file as if it were public at a local address."""
    (folder / "public").write_bytes(content)
    url = (folder / "public").as_uri()
    return replace(GERMAN, url=url, sha256=hashlib.sha256(content).hexdigest())


def test_cache_follows_the_environment(tmp_path, monkeypatch):
    assert cache_dir() == tmp_path / "cache" / "statsmodels_mnar"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the XDG standard
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "statsmodels_mnar"


@pytest.mark.parametrize("below", ["", "german"])
def test_path_then_variable_then_cache(tmp_path, monkeypatch, below):
    cached = put(cache_dir() / below)
    assert find_file("german.data") == cached
    named = put(tmp_path / "named" / below)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "named"))
    assert find_file("german.data") == named
    given = put(tmp_path / "given" / below)
    assert find_file("german.data", tmp_path / "given") == given


def test_path_that_lacks_the_file_does_not_fall_back(tmp_path):
    put(cache_dir())
    with pytest.raises(DataFileError, match=r"not found in .*elsewhere.*download=True"):
        find_file("german.data", tmp_path / "elsewhere", download=True)


def test_missing_file_says_what_to_do():
    with pytest.raises(DataFileError, match=f"download=True.*UCI.*{VARIABLE}") as caught:
        load_german()
    assert isinstance(caught.value, ValueError)  # so that the command line shows the message alone
    assert isinstance(caught.value, FileNotFoundError)
    with pytest.raises(DataFileError, match=r"found.*HeckmanSelect") as caught:
        find_file("AmEx.csv")
    assert "download" not in str(caught.value)


def test_download_is_checked_and_kept(tmp_path, monkeypatch):
    monkeypatch.setitem(FILES, "german.data", served(tmp_path, b"1 2 3\n"))
    place = find_file("german.data", download=True)
    assert place == cache_dir() / "german" / "german.data"
    assert place.read_bytes() == b"1 2 3\n"
    (tmp_path / "public").unlink()
    assert find_file("german.data", download=True) == place  # no second download
    assert [p.name for p in place.parent.iterdir()] == ["german.data"]  # nothing temporary


def test_changed_file_is_refused(tmp_path):
    wrong = replace(served(tmp_path, b"right"), sha256="0" * 64)
    place = cache_dir() / "german.data"
    with pytest.raises(DataFileError, match=r"served 5 bytes with sha256 .* not 0000"):
        fetch(wrong, place)
    assert not place.parent.exists()


def test_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    place = cache_dir() / "german.data"
    with pytest.raises(OSError, match="disk full"):
        fetch(served(tmp_path, b"right"), place)
    assert list(place.parent.iterdir()) == []


def test_without_a_network_the_message_tells_where_to_put_the_file(tmp_path, monkeypatch):
    gone = replace(GERMAN, url=(tmp_path / "gone").as_uri())
    monkeypatch.setitem(FILES, "german.data", gone)
    with pytest.raises(DataFileError, match=rf"could not be fetched.*put it at .*{VARIABLE}"):
        find_file("german.data", download=True)


def test_file_without_an_address_is_not_fetched():
    with pytest.raises(DataFileError, match=r"no public address.*HeckmanSelect"):
        fetch(FILES["AmEx.csv"], cache_dir() / "AmEx.csv")


def test_checksums_are_those_of_the_shared_files(shared):
    for name, file in FILES.items():
        content = find_file(name, shared / "data").read_bytes()
        assert hashlib.sha256(content).hexdigest() == file.sha256, name
