"""Archives in the format that the kernel unpacks as its first root: cpio, "newc"."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_FOLDER, _FILE = 0o040755, 0o100755


def archive(files: Mapping[str, bytes], folders: Iterable[str] = ()) -> bytes:
    """Return an archive of files, by relative path, which root may execute, and of their and more folders."""
    parents = {parent for path in (*files, *folders) for parent in _parents(path)}
    entries = [(path, _FOLDER, b"") for path in sorted({*parents, *folders})]
    entries += [(path, _FILE, content) for path, content in files.items()]
    packed = [_entry(number, *entry) for number, entry in enumerate(entries, start=1)]
    return b"".join([*packed, _entry(0, "TRAILER!!!", 0, b"")])


def _parents(path: str) -> Iterable[str]:
    parts = path.split("/")[:-1]
    return ("/".join(parts[: end + 1]) for end in range(len(parts)))


def _entry(number: int, path: str, mode: int, content: bytes) -> bytes:
    name = path.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return _padded(head) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
