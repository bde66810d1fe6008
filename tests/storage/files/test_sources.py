from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from storage.files.sources import Sources


def test_an_archive_lies_where_its_path_says_until_it_is_removed(tmp_path: Path):
    sources = Sources(tmp_path)
    sources.store("b", b"archive")
    assert sources.path("b") == tmp_path / "b.tar.gz"
    assert sources.path("b").read_bytes() == b"archive"
    assert sources.all() == ["b"]
    sources.remove("b")
    sources.remove("b")
    assert list(tmp_path.iterdir()) == []


def test_an_archive_written_in_part_leaves_nothing(tmp_path: Path):
    sources = Sources(tmp_path)
    sources.path("b").mkdir()
    with pytest.raises(IsADirectoryError):
        sources.store("b", b"archive")
    assert [path.name for path in tmp_path.iterdir()] == ["b.tar.gz"]


def test_a_manifest_goes_when_another_archive_comes(tmp_path: Path):
    sources = Sources(tmp_path)
    sources.manifest("b").touch()
    assert sources.manifests() == ["b"]
    assert sources.all() == []
    sources.store("b", b"another archive")
    assert sources.manifests() == []


def test_a_manifest_without_a_build_is_an_orphan_also_when_half(tmp_path: Path):
    sources = Sources(tmp_path)
    for name in ("b.manifest", "gone.manifest", "b.manifest.0123.partial", "b.partial"):
        (tmp_path / name).touch()
    later = datetime.now(UTC) + timedelta(hours=1)
    removed = sources.remove_orphans(later, set, lambda build: "a build" if build == "b" else None)
    assert sorted(removed) == ["b.manifest.0123.partial", "b.partial", "gone.manifest"]


def test_an_archive_goes_if_it_is_old_and_no_build_keeps_it(tmp_path: Path):
    sources = Sources(tmp_path)
    for build in ("kept", "expired", "new"):
        sources.store(build, b"archive")
    for build in ("kept", "expired"):
        os.utime(sources.path(build), (0, 0))
    hour_ago = datetime.now(UTC) - timedelta(hours=1)
    assert sources.remove_orphans(hour_ago, lambda: {"kept"}, lambda _: "a build") == ["expired.tar.gz"]
    assert sources.all() == ["kept", "new"]


def test_an_archive_of_no_build_passes_and_leaves_nothing(tmp_path: Path):
    sources = Sources(tmp_path)
    with sources.passing(b"archive") as (archive, manifest):
        manifest.touch()
        assert archive.read_bytes() == b"archive"
        assert {archive.parent, manifest.parent} == {tmp_path}
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_of_it_is_an_orphan(tmp_path: Path):
    sources = Sources(tmp_path)
    with sources.passing(b"archive") as (_, manifest):
        manifest.touch()
        later = datetime.now(UTC) + timedelta(hours=1)
        assert len(sources.remove_orphans(later, set, lambda _: None)) == 2
        assert list(tmp_path.iterdir()) == []


def test_a_linked_archive_is_new_and_outlives_the_first(tmp_path: Path):
    sources = Sources(tmp_path)
    sources.store("first", b"archive")
    os.utime(sources.path("first"), (0, 0))
    sources.link("first", "second")
    assert sources.remove_orphans(datetime.now(UTC) - timedelta(hours=1), set, lambda _: None) == []
    sources.remove("first")
    assert sources.path("second").read_bytes() == b"archive"
    with pytest.raises(FileNotFoundError):
        sources.link("first", "third")
