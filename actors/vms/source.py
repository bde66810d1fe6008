"""A build's source archive: looked through on the host, unpacked in the VM (engine.md, "A job attempt").

Nothing is unpacked on the host, and nothing of any size is held in memory there.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import posixpath
import tarfile
import zlib
from typing import TYPE_CHECKING

from actors.vms.guest import script
from actors.vms.provider import VmError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.vms.connection import Connection

__all__ = ["SourceError", "check", "lay"]

MAX_MEMBERS = 1_000_000
MAX_NAME = 4_096
_BLOCK = 1 << 18
_HEADERS = 1 << 20
"""Bytes that the headers of one member may take, with its long names and extended attributes."""


class SourceError(VmError):
    """The source archive cannot be laid into a VM; the message says why. Another attempt would not help."""


def check(archive: Path, max_bytes: int, sha256: str = "") -> None:
    """Look through a gzipped tar without unpacking it; takes about 10 ms for a MiB of its contents.

    Raises SourceError for what is no such archive or damaged; for absolute names, ``..``, devices and FIFOs, links that
    lead out of the archive, members below a link; for more than a million members or ``max_bytes`` unpacked; and where
    its SHA-256 (hex) is not the given one. Raises OSError where the file cannot be read at all.
    """
    if sha256:
        _check_digest(archive, sha256.lower())
    with gzip.open(archive) as unpacked:
        stream = _Bounded(unpacked, max_bytes)
        try:
            _check_members(stream)
            stream.drain()
        except (tarfile.TarError, EOFError, OSError, zlib.error, ValueError) as error:
            message = f"the source is not a whole gzipped tar: {error}"
            raise SourceError(message) from error


def lay(connection: Connection, archive: Path, workspace: str = "/workspace", *, timeout: float = 600.0) -> None:
    """Unpack a checked archive over the workspace in the VM, owned by root; files that it does not name stay.

    Raises SourceError where the VM cannot unpack it, ConnectionLost, and CommandTimeout after ``timeout`` seconds.
    """
    done = connection.run(script("lay", workspace=workspace), stdin=_blocks(archive), timeout=timeout)
    if done.exit_code != 0:
        reason = done.stderr.decode(errors="replace").strip()[-1000:]
        message = f"the source cannot be unpacked in the VM: {reason}"
        raise SourceError(message)


def _blocks(archive: Path) -> Iterator[bytes]:
    with archive.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def _check_digest(archive: Path, expected: str) -> None:
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        message = f"the source has the SHA-256 {found}, expected was {expected}"
        raise SourceError(message)


def _check_members(stream: _Bounded) -> None:
    links: set[str] = set()
    declared = count = 0
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        while True:
            stream.allow(tar.offset + _HEADERS)
            member = tar.next()
            if member is None:
                return
            tar.members = []  # type: ignore[attr-defined] # typeshed lacks it; it would hold every member seen so far
            count += 1
            declared += max(member.size, 0)
            if count > MAX_MEMBERS:
                message = f"the source has more than {MAX_MEMBERS} members"
                raise SourceError(message)
            stream.claim(declared)
            _check_member(member, links)


def _check_member(member: tarfile.TarInfo, links: set[str]) -> None:
    shown = repr(member.name[:200])
    if len(member.name.encode(errors="surrogateescape")) > MAX_NAME or len(member.linkname) > MAX_NAME:
        message = f"the source has a name of more than {MAX_NAME} bytes: {shown}"
        raise SourceError(message)
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        message = f"the source has a device, FIFO or other special file: {shown}"
        raise SourceError(message)
    if member.name.startswith("/") or ".." in member.name.split("/"):
        message = f"the source has a name that leads out of it: {shown}"
        raise SourceError(message)
    name = posixpath.normpath(member.name)
    if any(parent in links for parent in _parents(name)):
        message = f"the source has a member below a link: {shown}"
        raise SourceError(message)
    if member.issym() or member.islnk():
        _check_link(member, name, links)
    else:
        links.discard(name)


def _check_link(member: tarfile.TarInfo, name: str, links: set[str]) -> None:
    folder = posixpath.dirname(name) if member.issym() else ""
    target = posixpath.normpath(posixpath.join(folder, member.linkname))
    if target.startswith("/") or target.split("/", 1)[0] == "..":
        message = f"the source has a link that leads out of it: {member.name[:200]!r} to {member.linkname[:200]!r}"
        raise SourceError(message)
    if member.islnk() and any(parent in links for parent in _parents(target)):
        message = f"the source has a hard link through a link: {member.name[:200]!r}"
        raise SourceError(message)
    links.add(name)


def _parents(name: str) -> Iterator[str]:
    while name := posixpath.dirname(name):
        yield name


class _Bounded(io.BufferedIOBase):
    """The unpacked stream; raises SourceError past ``max_bytes`` and ValueError past what `allow` granted."""

    def __init__(self, file: gzip.GzipFile, max_bytes: int) -> None:
        super().__init__()
        self._file = file
        self._max_bytes = max_bytes
        self._allowed = _HEADERS
        self._position = 0

    def allow(self, position: int) -> None:
        """Let reading go on up to a position in the stream."""
        self._allowed = position

    def claim(self, size: int) -> None:
        """Refuse contents that would not fit, before they are read."""
        if size > self._max_bytes:
            message = f"the source unpacks to more than {self._max_bytes} bytes"
            raise SourceError(message)

    def read(self, size: int | None = -1, /) -> bytes:
        block = self._file.read(size)
        self._position += len(block)
        self.claim(self._position - _HEADERS)
        if self._position > self._allowed + _BLOCK:
            message = "a header in it is too long"
            raise ValueError(message)
        return block

    def drain(self) -> None:
        """Read what follows the archive's end, to the checksum of the whole."""
        self._allowed = self._max_bytes + _HEADERS
        while self.read(_BLOCK):
            pass
