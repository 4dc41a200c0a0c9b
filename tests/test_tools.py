"""Files are written whole or not at all."""

import pytest

from statsmodels_mnar.tools import write_whole, written_whole


def test_a_file_replaces_its_predecessor_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "report.html"
    write_whole(path, "first")
    write_whole(path, b"second")
    assert path.read_text() == "second"
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_a_failed_write_keeps_the_old_file_and_removes_its_own(tmp_path):
    path = tmp_path / "report.html"
    write_whole(path, "old")
    with pytest.raises(RuntimeError, match="halfway"), written_whole(path) as beside:  # noqa: PT012
        beside.write_text("half")
        raise RuntimeError("halfway")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
