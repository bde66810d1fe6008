"""Large files that are written and synced, of which the disk begins with the first parts early."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from storage.files import write_and_sync

MIB = 1 << 20


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return the parts that the disk is to begin with, as starts and sizes, in order."""
    parts: list[tuple[int, int]] = []

    def begin(_file: int, start: ctypes.c_int64, size: ctypes.c_int64, _what: int) -> None:
        parts.append((start.value, size.value))

    monkeypatch.setattr(ctypes, "CDLL", lambda _name: SimpleNamespace(sync_file_range=begin))
    return parts


def chunks() -> Iterator[bytes]:
    for number in range(20):
        yield bytes([number]) * MIB


def test_a_large_file_is_begun_in_parts(tmp_path: Path, begun: list[tuple[int, int]]):
    with (tmp_path / "file").open("xb") as file:
        assert write_and_sync(file, chunks()) == 20 * MIB
    assert (tmp_path / "file").read_bytes() == b"".join(chunks())
    assert begun == [(0, 8 * MIB), (8 * MIB, 8 * MIB)]


def test_a_kernel_that_takes_no_hint_is_as_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: SimpleNamespace())
    with (tmp_path / "file").open("xb") as file:
        assert write_and_sync(file, chunks()) == 20 * MIB


def test_the_real_hint_leaves_the_file_whole(tmp_path: Path):
    with (tmp_path / "file").open("xb") as file:
        assert write_and_sync(file, [os.urandom(MIB), *chunks()]) == 21 * MIB
    assert (tmp_path / "file").read_bytes()[MIB:] == b"".join(chunks())
