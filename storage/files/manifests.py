"""Manifests: the entries of a source archive, in a separate file (engine.md, "The workspace").

A manifest is a small SQLite file, so that archives of any size can be compared in little memory. Its keys are paths
with a NUL for each slash: in their order a folder comes right before everything below it.
"""

from __future__ import annotations

import os
import secrets
from contextlib import closing, contextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import quote

import apsw

from storage.data_classes import immutable
from storage.errors import DatabaseUnavailable, ManifestUnreadable
from storage.files.kinds import sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_SCHEMA = """
CREATE TABLE {schema}.entries (
    path BLOB PRIMARY KEY,
    kind TEXT NOT NULL,
    mode INTEGER NOT NULL,
    content BLOB NOT NULL,
    size INTEGER NOT NULL,
    start INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE {schema}.archive (bytes INTEGER NOT NULL) STRICT;
"""
_DIFFERS = "(old.kind, old.mode, old.content) IS NOT (new.kind, new.mode, new.content)"
_WANTED = f"(new.kind IS NOT NULL AND :everything OR {_DIFFERS})"
_DIFFERENCES = f"""
SELECT path, old.kind, new.kind FROM new.entries AS new FULL JOIN old.entries AS old USING (path)
WHERE {_WANTED} ORDER BY path
"""  # noqa: S608 - made of constants
_WRITTEN = f"""
SELECT path, new.kind, new.mode, new.content, new.size, new.start
FROM new.entries AS new LEFT JOIN old.entries AS old USING (path) WHERE {_WANTED}
ORDER BY new.kind = :folder, new.start, path DESC
"""  # noqa: S608 - made of constants

_AT = "SELECT * FROM new.entries WHERE path = ?"
_BELOW = "SELECT * FROM new.entries WHERE path > ? AND path < ? ORDER BY path LIMIT ?"


class EntryKind(StrEnum):
    """The kinds of entries that a source archive may have."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"


@immutable
class Entry:
    """A file, folder or symbolic link of an archive, with permission bits.

    ``path`` is relative and has no ``.`` or ``..``. ``content`` is the SHA-256 of a file or the target of a link. A
    file's content is the ``size`` bytes at offset ``start`` of the decompressed archive. Hard links to one file share a
    start.
    """

    path: bytes
    kind: EntryKind
    mode: int
    content: bytes = b""
    size: int = 0
    start: int = 0


@immutable
class Difference:
    """A path at which two manifests differ; None means no entry."""

    path: bytes
    before: EntryKind | None
    after: EntryKind | None


class ManifestWriter:
    """A manifest that is being written; created by `new_manifest`."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.bytes = 0
        """Total size of the contents of all files, in bytes."""

    def get(self, path: bytes) -> Entry | None:
        """Return the entry at a path."""
        found = self._connection.execute("SELECT * FROM entries WHERE path = ?", (_key(path),))
        return next(map(_entry, found), None)

    def put(self, entry: Entry) -> None:
        """Add an entry, or replace the one with the same path."""
        row = (_key(entry.path), entry.kind, entry.mode, entry.content, entry.size, entry.start)
        self._connection.execute("REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)", row)

    def has_entries_below(self, path: bytes) -> bool:
        """Tell whether there is an entry below a folder."""
        key = _key(path)
        below = self._connection.execute(
            "SELECT 1 FROM entries WHERE path > ? AND path < ?", (key + b"\0", key + b"\1")
        )
        return next(below, None) is not None


@contextmanager
def new_manifest(path: Path) -> Iterator[ManifestWriter]:
    """Write a manifest; its file appears complete and synced at the end, or not at all.

    Raises DatabaseUnavailable if the disk is full or read-only.
    """
    partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}.partial")
    try:
        with _translated_disk_errors(), closing(apsw.Connection(str(partial))) as connection:
            connection.pragma("journal_mode", "off")
            connection.pragma("synchronous", "off")
            connection.execute("BEGIN")
            connection.execute(_SCHEMA.format(schema="main"))
            writer = ManifestWriter(connection)
            yield writer
            connection.execute("INSERT INTO archive VALUES (?)", (writer.bytes,))
            connection.execute("COMMIT")
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def content_bytes(manifest: Path) -> int:
    """Return the total size of an archive's file contents, in bytes. Raises ManifestUnreadable."""
    with _translated_errors(), closing(_compared(manifest, None)) as connection:
        return int(next(iter(connection.execute("SELECT bytes FROM new.archive")))[0])


def entries_below(manifest: Path, folder: bytes, most: int) -> list[Entry]:
    """Return at most ``most`` entries below a folder, in the order of paths.

    Raises ManifestUnreadable.
    """
    key = _key(folder)
    with _translated_errors(), closing(_compared(manifest, None)) as connection:
        return list(map(_entry, connection.execute(_BELOW, (key + b"\0", key + b"\1", most))))


def entries_at(manifest: Path, paths: Iterable[bytes]) -> list[Entry]:
    """Return the entries at some paths, without those that are not there. Raises ManifestUnreadable."""
    with _translated_errors(), closing(_compared(manifest, None)) as connection:
        return [_entry(row) for path in paths for row in connection.execute(_AT, (_key(path),))]


def differences(new: Path | None, old: Path | None, *, everything: bool = False) -> Iterator[Difference]:
    """Yield the paths at which a manifest differs from an older one, each folder before its contents.

    With ``everything`` all entries of the new one are included. None stands for an empty manifest. Raises
    ManifestUnreadable.
    """
    with _translated_errors(), closing(_compared(new, old)) as connection:
        for path, before, after in connection.execute(_DIFFERENCES, {"everything": everything}):
            yield Difference(_path(path), before and EntryKind(before), after and EntryKind(after))


def changed_entries(new: Path | None, old: Path | None, *, everything: bool = False) -> Iterator[Entry]:
    """Yield the entries of a manifest that are new or changed since an older one, in unpacking order.

    Links come first, then files by start, then folders, deepest first, so that they keep their times. Arguments and
    errors are those of `differences`.
    """
    with _translated_errors(), closing(_compared(new, old)) as connection:
        yield from map(_entry, connection.execute(_WRITTEN, {"everything": everything, "folder": EntryKind.FOLDER}))


def _compared(new: Path | None, old: Path | None) -> apsw.Connection:
    connection = apsw.Connection(":memory:", flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)
    for schema, path in (("new", new), ("old", old)):
        uri = ":memory:" if path is None else f"file:{quote(str(path))}?mode=ro&immutable=1"
        connection.execute(f"ATTACH ? AS {schema}", (uri,))
        if path is None:
            connection.execute(_SCHEMA.format(schema=schema))
    return connection


def _key(path: bytes) -> bytes:
    return path.replace(b"/", b"\0")


def _path(key: bytes) -> bytes:
    return key.replace(b"\0", b"/")


def _entry(row: tuple[bytes, str, int, bytes, int, int]) -> Entry:
    path, kind, mode, content, size, start = row
    return Entry(_path(path), EntryKind(kind), mode, content, size, start)


@contextmanager
def _translated_disk_errors() -> Iterator[None]:
    try:
        yield
    except (apsw.FullError, apsw.IOError, apsw.ReadOnlyError, apsw.CantOpenError) as error:
        raise DatabaseUnavailable(f"the manifest of a source archive cannot be written now: {error}") from error


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise ManifestUnreadable(f"the manifest of a source archive cannot be read: {error}") from error
