from __future__ import annotations

from pathlib import Path

import pytest

from storage.sources import Sources


def test_an_archive_lies_where_its_path_says_until_it_is_removed(tmp_path: Path):
    sources = Sources(tmp_path)
    sources.store("b", b"archive")
    assert sources.path("b") == tmp_path / "b.tar.gz"
    assert sources.path("b").read_bytes() == b"archive"
    assert sources.all() == ["b"]
    sources.remove("b")
    sources.remove("b")
    assert list(tmp_path.iterdir()) == []


def test_an_archive_that_could_not_be_written_whole_leaves_nothing(tmp_path: Path):
    sources = Sources(tmp_path)
    sources.path("b").mkdir()
    with pytest.raises(IsADirectoryError):
        sources.store("b", b"archive")
    assert [path.name for path in tmp_path.iterdir()] == ["b.tar.gz"]
