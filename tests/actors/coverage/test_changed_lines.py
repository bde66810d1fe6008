"""The lines that changed between two archives."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from actors.coverage.changed_lines import changed_in
from actors.coverage.formats import lines_of
from storage.files import Bounds, Confinement, WorkFailed


def changed(folder: Path, old: bytes, new: bytes) -> list[tuple[int, int]]:
    """Return the runs of changed lines of one file that stands behind others in its archives."""
    for name, content in (("old", old), ("new", new)):
        (folder / name).write_bytes(gzip.compress(b"other\n" + content + b"more"))
    parts = [[("a", 6, len(each))] for each in (new, old)]
    found = changed_in([str(folder / "new"), str(folder / "old")], parts)
    return list(lines_of(int(found.get("a", "0"), 16)))


def test_new_and_changed_lines_are_found(tmp_path: Path):
    old = b"one\ntwo\nthree\nfour\n"
    assert changed(tmp_path, old, b"one\ntwo\nand a half\nthree\nFOUR\n") == [(3, 3), (5, 5)]
    assert changed(tmp_path, old, b"zero\n" + old) == [(1, 1)]
    assert changed(tmp_path, old, old + b"five") == [(5, 5)]
    assert changed(tmp_path, old, b"one\nthree\nfour\n") == []
    assert changed(tmp_path, b"", b"a\nb\n") == [(1, 2)]
    assert changed(tmp_path, b"a\na\n", b"a\na\na\n") == [(3, 3)]


def test_a_file_that_is_only_in_the_new_archive_is_all_new(tmp_path: Path):
    for name in ("old", "new"):
        (tmp_path / name).write_bytes(gzip.compress(b"a\nb\n"))
    found = changed_in([str(tmp_path / "new"), str(tmp_path / "old")], [[("a", 0, 4)], []])
    assert found == {"a": "6"}


def test_files_past_the_bytes_of_all_are_not_compared(tmp_path: Path):
    for name in ("old", "new"):
        (tmp_path / name).write_bytes(gzip.compress(bytes(40 * 2**20), 1))
    parts = [("a", 0, 20 * 2**20), ("b", 20 * 2**20, 20 * 2**20)]
    found = changed_in([str(tmp_path / "new"), str(tmp_path / "old")], [parts, []])
    assert found.keys() == {"a"}


def test_a_comparison_that_takes_too_long_ends(tmp_path: Path):
    """Many lines that are often there take the square of their number."""
    numbers = [number % 200 for number in range(100_000)]
    files = {"new": numbers, "old": [number * 7 % 200 for number in numbers]}
    parts = []
    for name, lines in files.items():
        content = b"".join(b"%d\n" % line for line in lines)
        (tmp_path / name).write_bytes(gzip.compress(content))
        parts.append([("a", 0, len(content))])
    confinement = Confinement()
    try:
        with pytest.raises(WorkFailed, match="it took more than 1 s of CPU time"):
            confinement.run(
                changed_in, [str(tmp_path / name) for name in files], parts,
                bounds=Bounds(cpu_seconds=1, memory_bytes=256 << 20, seconds=60), owner="acme",
            )  # fmt: skip
    finally:
        confinement.close()
