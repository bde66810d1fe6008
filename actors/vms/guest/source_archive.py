"""Source archives on the host: checked entry by entry, and described by a manifest.

The host unpacks no archive to its disk and keeps nothing large in memory. See engine.md, "The workspace".
"""

from __future__ import annotations

import gzip
import hashlib
import io
import posixpath
import stat
import tarfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from actors.vms.provider import VmError
from storage import DatabaseUnavailable
from storage.files import Bounds, Entry, EntryKind, WorkFailed, new_manifest

if TYPE_CHECKING:
    from storage.files import Confinement, ManifestWriter

MAX_ENTRIES = 1_000_000
MAX_NAME = 4_096
MAX_NAMES = 128 << 20
"""Bytes of all names together, which a manifest holds."""

DAMAGE_ERRORS = (tarfile.TarError, EOFError, OSError, zlib.error, ValueError)
"""Errors raised when a damaged archive is read."""

_CHUNK_BYTES = 1 << 18
_MAX_HEADER_BYTES = 1 << 20
"""The most bytes of one member's headers, with its long names and extended attributes."""

_MOST_CPU_SECONDS = 300
_CPU_SECONDS = 15
_CPU_SECONDS_OF_MB = 10
"""Seconds for each MB of the archive, which may be 1,000 times as large when it is unpacked."""

_IMPLIED_MODE = 0o755
_LINK_MODE = 0o777


class SourceError(VmError):
    """The source cannot be put into a VM; the message says why. Another attempt would not help."""


def write_manifest(
    archive: Path, manifest: Path, max_bytes: int, sha256: str = "", *, max_entries: int = MAX_ENTRIES
) -> None:
    """Check a gzipped tar and write its manifest, without unpacking it to disk.

    Takes about 10 ms per MiB of contents. Raises SourceError for a file that is not an intact gzipped tar; for absolute
    names, ``..``, devices, FIFOs and sparse files, links that lead out of the archive, entries below a link or a file;
    for more than ``max_entries``, 128 MiB of names or ``max_bytes`` unpacked; and if its SHA-256 (hex) is not the
    given one. Raises OSError if the file cannot be read at all, DatabaseUnavailable if the manifest cannot be written.
    """
    if sha256:
        _check_digest(archive, sha256.lower())
    with new_manifest(manifest) as entries, gzip.open(archive) as unpacked:
        stream = _BoundedStream(unpacked, max_bytes)
        try:
            _ManifestReader(stream, entries, max_entries).read()
            stream.drain()
        except DAMAGE_ERRORS as error:
            message = f"the source is not a valid gzipped tar: {error}"
            raise SourceError(message) from error


def write_manifest_confined(
    confinement: Confinement,
    owner: str,
    archive: Path,
    manifest: Path,
    max_bytes: int,
    sha256: str = "",
    *,
    most_cpu_seconds: int = _MOST_CPU_SECONDS,
) -> None:
    """Do what `write_manifest` does in a process of its own, in the turn of an organization.

    A hostile archive of few bytes may take `tarfile` hours, on Pythons before 3.11.10 and 3.12.6 (CVE-2024-6232).
    """
    try:
        confinement.run(
            _write_manifest,
            *(str(archive), str(manifest), max_bytes, sha256),
            bounds=check_bounds(archive, most_cpu_seconds),
            owner=owner,
            errors=(SourceError, DatabaseUnavailable, OSError),
        )
    except WorkFailed as error:
        message = f"the source cannot be checked: {error}"
        raise SourceError(message) from error


def check_bounds(archive: Path, most_cpu_seconds: int = _MOST_CPU_SECONDS) -> Bounds:
    """Return the bounds of a process that checks an archive. Raises OSError."""
    cpu_seconds = min(most_cpu_seconds, _CPU_SECONDS + _CPU_SECONDS_OF_MB * (archive.stat().st_size >> 20))
    return Bounds(cpu_seconds=cpu_seconds, memory_bytes=1 << 30, seconds=3 * cpu_seconds)


def _write_manifest(archive: str, manifest: str, max_bytes: int, sha256: str) -> None:
    write_manifest(Path(archive), Path(manifest), max_bytes, sha256)


def _check_digest(archive: Path, expected: str) -> None:
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        message = f"the source has the SHA-256 {found}, but {expected} was expected"
        raise SourceError(message)


class _ManifestReader:
    """Reader of an archive into a manifest, with the result of unpacking its members in order."""

    def __init__(self, stream: _BoundedStream, entries: ManifestWriter, max_entries: int) -> None:
        self._stream = stream
        self._entries = entries
        self._max_entries = max_entries
        self._members = self._name_bytes = 0
        self._parent = b""

    def read(self) -> None:
        """Read all members. Raises SourceError and the errors in DAMAGE_ERRORS."""
        with tarfile.open(fileobj=self._stream, mode="r|", encoding="utf-8", errors="surrogateescape") as tar:
            while True:
                self._stream.allow(tar.offset + _MAX_HEADER_BYTES)
                member = tar.next()
                if member is None:
                    return
                tar.members = []  # type: ignore[attr-defined] # not in typeshed; it would keep every member seen so far
                self._check(member)
                self._stream.allow(tar.offset)
                self._add(member, tar)

    def _check(self, member: tarfile.TarInfo) -> None:
        shown = repr(member.name[:200])
        for name in (member.name, member.linkname):
            if len(_encoded(name)) > MAX_NAME or "\0" in name:
                message = f"the source has a name of more than {MAX_NAME} bytes, or with a NUL: {shown}"
                raise SourceError(message)
        self._count_member(len(_encoded(member.name)) + len(_encoded(member.linkname)))
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk()) or member.issparse():
            message = f"the source has a device, FIFO, sparse or other special file: {shown}"
            raise SourceError(message)
        if member.name.startswith("/") or ".." in member.name.split("/"):
            message = f"the source has a name that leads out of it: {shown}"
            raise SourceError(message)
        self._entries.bytes += max(member.size, 0)
        self._stream.claim(self._entries.bytes)

    def _count_member(self, name_bytes: int) -> None:
        self._members += 1
        self._name_bytes += name_bytes
        if self._members > self._max_entries:
            message = f"the source has more than {self._max_entries} entries"
            raise SourceError(message)
        if self._name_bytes > MAX_NAMES:
            message = f"the source has names of more than {MAX_NAMES} bytes together"
            raise SourceError(message)

    def _add(self, member: tarfile.TarInfo, tar: tarfile.TarFile) -> None:
        name = posixpath.normpath(member.name)
        if name == "." and member.isdir():
            return
        path = _encoded(name)
        self._add_missing_folders(path)
        if member.isdir():
            self._entries.put(Entry(path, EntryKind.FOLDER, stat.S_IMODE(member.mode)))
            return
        if name == "." or self._entries.has_entries_below(path):
            message = f"the source has a folder and something else of the same name: {member.name[:200]!r}"
            raise SourceError(message)
        if path == self._parent:
            self._parent = b""
        if member.issym():
            self._entries.put(_link(path, member.linkname))
        elif member.islnk():
            self._entries.put(self._linked(path, member))
        else:
            content = tar.extractfile(member)
            digest = b"" if content is None else _digest(content)
            mode = stat.S_IMODE(member.mode)
            self._entries.put(Entry(path, EntryKind.FILE, mode, digest, member.size, member.offset_data))

    def _add_missing_folders(self, path: bytes) -> None:
        """Add the missing folders of a path.

        The parent of the last member is known to exist: members of one folder mostly follow each other.
        """
        parent = folder = _parent(path)
        missing: list[bytes] = []
        while folder and folder != self._parent:
            entry = self._entries.get(folder)
            if entry is None:
                missing.append(folder)
            elif entry.kind is EntryKind.FOLDER:
                break
            else:
                message = f"the source has an entry below a {entry.kind}: {_shown(path)}"
                raise SourceError(message)
            folder = _parent(folder)
        for folder in reversed(missing):
            self._count_member(len(folder))
            self._entries.put(Entry(folder, EntryKind.FOLDER, _IMPLIED_MODE))
        self._parent = parent

    def _linked(self, path: bytes, member: tarfile.TarInfo) -> Entry:
        """Return the entry of a hard link: that of its target under another name."""
        name = posixpath.normpath(member.linkname)
        shown = f"{member.name[:200]!r} to {member.linkname[:200]!r}"
        _check_target(name, shown)
        target = _encoded(name)
        entry = self._entries.get(target)
        while entry is None and target:
            target = _parent(target)
            entry = self._entries.get(target)
            if entry is not None and entry.kind is EntryKind.LINK:
                message = f"the source has a hard link through a link: {shown}"
                raise SourceError(message)
        if entry is None or entry.kind is EntryKind.FOLDER or target != _encoded(name):
            message = f"the source has a hard link to no file: {shown}"
            raise SourceError(message)
        if entry.kind is EntryKind.LINK:
            return _link(path, entry.content.decode(errors="surrogateescape"))
        return replace(entry, path=path)


def _link(path: bytes, target: str) -> Entry:
    folder = posixpath.dirname(path.decode(errors="surrogateescape"))
    _check_target(posixpath.normpath(posixpath.join(folder, target)), f"{_shown(path)} to {target[:200]!r}")
    return Entry(path, EntryKind.LINK, _LINK_MODE, _encoded(target))


def _check_target(target: str, shown: str) -> None:
    if target.startswith("/") or target.split("/", 1)[0] == "..":
        message = f"the source has a link that leads out of it: {shown}"
        raise SourceError(message)


def _digest(content: IO[bytes]) -> bytes:
    digest = hashlib.sha256()
    while chunk := content.read(_CHUNK_BYTES):
        digest.update(chunk)
    return digest.digest()


def _encoded(name: str) -> bytes:
    return name.encode(errors="surrogateescape")


def _shown(path: bytes) -> str:
    return repr(path.decode(errors="surrogateescape")[:200])


def _parent(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


class _BoundedStream(io.BufferedIOBase):
    """The unpacked stream; raises SourceError past ``max_bytes`` and ValueError past what `allow` allows."""

    def __init__(self, file: gzip.GzipFile, max_bytes: int) -> None:
        super().__init__()
        self._file = file
        self._max_bytes = max_bytes
        self._allowed = _MAX_HEADER_BYTES
        self._position = 0

    def allow(self, position: int) -> None:
        """Allow reading up to a position in the stream."""
        self._allowed = position

    def claim(self, size: int) -> None:
        """Raise SourceError for contents of more than ``max_bytes``, before they are read."""
        if size > self._max_bytes:
            message = f"the source unpacks to more than {self._max_bytes} bytes"
            raise SourceError(message)

    def read(self, size: int | None = -1, /) -> bytes:
        chunk = self._file.read(size)
        self._position += len(chunk)
        self.claim(self._position - _MAX_HEADER_BYTES)
        if self._position > self._allowed + _CHUNK_BYTES:
            message = "a header in it is too long"
            raise ValueError(message)
        return chunk

    def drain(self) -> None:
        """Read what follows the archive's end, up to the checksum of the gzip stream."""
        self._allowed = self._max_bytes + _MAX_HEADER_BYTES
        while self.read(_CHUNK_BYTES):
            pass
