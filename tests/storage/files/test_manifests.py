from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from storage import DatabaseUnavailable, ManifestUnreadable
from storage.files.manifests import (
    Difference,
    Entry,
    EntryKind,
    changed_entries,
    content_bytes,
    differences,
    new_manifest,
)

FILE, FOLDER, LINK = EntryKind.FILE, EntryKind.FOLDER, EntryKind.LINK


def manifest(path: Path, *entries: Entry) -> Path:
    with new_manifest(path) as writer:
        for entry in entries:
            writer.put(entry)
            writer.bytes += entry.size
    return path


def file(path: bytes, content: bytes = b"", start: int = 512) -> Entry:
    return Entry(path, FILE, 0o644, content, len(content), start)


def folder(path: bytes, mode: int = 0o755) -> Entry:
    return Entry(path, FOLDER, mode)


def test_differences_have_each_folder_before_its_content(tmp_path: Path):
    old = manifest(tmp_path / "old", folder(b"a"), file(b"a/b"), file(b"a-b"), file(b"same"), folder(b"mode"))
    new = manifest(tmp_path / "new", file(b"a"), file(b"a-b", b"x"), file(b"same"), folder(b"mode", 0o700), file(b"n"))
    assert list(differences(new, old)) == [
        Difference(b"a", FOLDER, FILE),
        Difference(b"a/b", FILE, None),
        Difference(b"a-b", FILE, FILE),
        Difference(b"mode", FOLDER, FOLDER),
        Difference(b"n", None, FILE),
    ]
    assert [each.path for each in differences(new, old, everything=True)] == [
        b"a", b"a/b", b"a-b", b"mode", b"n", b"same",
    ]  # fmt: skip


def test_what_is_written_comes_in_the_order_of_unpacking(tmp_path: Path):
    link = Entry(b"z", LINK, 0o777, b"target")
    late, early = file(b"a/f", b"1", 2048), file(b"b", b"2", 512)
    new = manifest(tmp_path / "new", folder(b"a"), late, early, folder(b"a/c"), link)
    assert list(changed_entries(new, None)) == [link, early, late, folder(b"a/c"), folder(b"a")]
    assert list(changed_entries(new, manifest(tmp_path / "old", early, folder(b"a")))) == [link, late, folder(b"a/c")]
    assert len(list(changed_entries(new, new, everything=True))) == 5


def test_nothing_stands_for_a_manifest_without_entries(tmp_path: Path):
    some = manifest(tmp_path / "it's 100% #1?", file(b"f", b"12345"))
    assert list(differences(None, some)) == [Difference(b"f", FILE, None)]
    assert list(changed_entries(None, some)) == list(differences(None, None)) == []
    assert content_bytes(some) == 5


def test_a_manifest_appears_whole_or_not_at_all(tmp_path: Path):
    def broken() -> Iterator[None]:
        with new_manifest(tmp_path / "x") as writer:
            writer.put(file(b"f"))
            raise KeyError

    with pytest.raises(KeyError):
        next(broken())
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_reported_as_such(tmp_path: Path):
    with pytest.raises(DatabaseUnavailable, match="cannot be written now"), new_manifest(tmp_path / "x"):
        raise apsw.FullError("database or disk is full")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", [None, b"", b"SQLite format 3\0", b"no database" * 100])
def test_a_missing_or_damaged_manifest_is_reported_as_such(tmp_path: Path, damage: bytes | None):
    path = tmp_path / "x"
    if damage is not None:
        path.write_bytes(damage)
    for read in (
        content_bytes,
        lambda path: list(differences(None, path)),
        lambda path: list(changed_entries(path, None)),
    ):
        with pytest.raises(ManifestUnreadable):
            read(path)
