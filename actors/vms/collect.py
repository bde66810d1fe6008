"""Files on their way out of a VM: listed and packed there, read here as a stream.

The job may have replaced the programs of its VM. So their output is checked for its format and its size, and nothing
large is kept in memory (engine.md, "A job attempt", 5).
"""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.vms.guest import script
from actors.vms.provider import VmError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from actors.vms.connection import Connection
    from actors.vms.stream import Stream

__all__ = ["Garbled", "Packed", "list_files", "pack"]

_MOST_FILES = 1_000_000
_LONGEST_PATH = 4_096
_LONGEST_HEADER = 1 << 16
_OVERHEAD = 1 << 15
"""Bytes that a tar may take for each file beyond its contents."""

_BLOCK = 512
_END = bytes(_BLOCK)
_SAID = 300


class Garbled(VmError):
    """The VM sent an invalid list of files or tar."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A file of a tar.

    ``blocks`` yields its ``file_size`` bytes: read them before the next file, or not at all. A hard link has no blocks;
    ``same_as`` names the earlier file.
    """

    path: str
    file_size: int
    blocks: Iterator[bytes]
    same_as: str | None = None


def list_files(connection: Connection, workspace: str = "/workspace", *, timeout: float) -> Generator[bytes]:
    """Yield the path of each regular file below a folder as it is found.

    Paths are relative to the folder and never lead out of it. Raises Garbled, also for more than a million files,
    ConnectionLost and CommandTimeout.
    """
    count = 0
    rest = b""
    with connection.stream(script("list", workspace=workspace), timeout=timeout) as listing:
        for block in listing:
            *paths, rest = (rest + block).split(b"\0")
            count += len(paths)
            if count > _MOST_FILES:
                message = f"the workspace has more than {_MOST_FILES:,} files"
                raise Garbled(message)
            for path in (*paths, rest):
                if len(path) > _LONGEST_PATH or (path is not rest and not _leads_to_a_file(path)):
                    message = "the VM does not list its files but something else"
                    raise Garbled(message)
            yield from (path.removeprefix(b"./") for path in paths)
    if listing.exit_code != 0 and not count:
        message = f"the VM cannot list its files: {_said(listing)}"
        raise Garbled(message)


def _leads_to_a_file(path: bytes) -> bool:
    start, *segments = path.split(b"/")
    return start == b"." and bool(segments) and not {b"", b".", b".."}.intersection(segments)


def pack(
    connection: Connection, paths: Sequence[str], workspace: str = "/workspace", *, max_bytes: int, timeout: float
) -> Generator[Packed]:
    """Yield files below a folder as they arrive in a tar.

    The VM is asked for ``paths``, but may send other files, or fewer. Raises Garbled, also for more than ``max_bytes``
    plus the tar's overhead and if the VM reports a failure at the end, ConnectionLost and CommandTimeout.
    """
    names = b"".join(b"./%s\0" % path.encode() for path in paths)
    with connection.stream(script("pack", workspace=workspace), stdin=names, timeout=timeout) as stream:
        yield from _Tar(_bounded(stream, max_bytes + _OVERHEAD * (len(paths) + 1))).files()
    if stream.exit_code != 0:
        message = f"not all files could be read: {_said(stream)}"
        raise Garbled(message)


class _Tar:
    """Reader of a stream of one or more tars: ustar, with the long names of GNU and pax."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._buffer = b""

    def files(self) -> Iterator[Packed]:
        """Yield the regular files and the hard links to them. Raises Garbled."""
        long_path = long_link = ""
        while header := self._header():
            try:
                member = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
            except tarfile.HeaderError as error:
                message = f"the VM sent what is no tar: {error}"
                raise Garbled(message) from error
            if member.type == tarfile.GNUTYPE_LONGNAME:
                long_path = _text(self._more_header(member.size))
            elif member.type == tarfile.GNUTYPE_LONGLINK:
                long_link = _text(self._more_header(member.size))
            elif member.type == tarfile.XHDTYPE:
                long_path = _pax_path(self._more_header(member.size)) or long_path
            else:
                path, long_path = (long_path or member.name).removeprefix("./"), ""
                link, long_link = (long_link or member.linkname).removeprefix("./"), ""
                content = self._content(max(0, member.size))
                if member.type == tarfile.LNKTYPE:
                    yield Packed(path, 0, iter(()), same_as=link)
                elif member.type in {tarfile.REGTYPE, tarfile.AREGTYPE}:
                    yield Packed(path, max(0, member.size), content)
                for _ in content:
                    pass

    def _header(self) -> bytes:
        """Return the next header; empty at the end."""
        while (header := self._take(_BLOCK)) == _END:
            pass
        if header and len(header) < _BLOCK:
            raise _torn()
        return header

    def _more_header(self, size: int) -> bytes:
        """Return the contents of a member that extends the header of the next one."""
        if not 0 <= size <= _LONGEST_HEADER:
            message = "the VM sent a tar with a header that is too long"
            raise Garbled(message)
        return b"".join(self._content(size))

    def _content(self, size: int) -> Iterator[bytes]:
        """Yield a member's bytes, then skip the padding. Raises Garbled if the tar ends early."""
        left = size
        while left:
            block = self._buffer or next(self._blocks, b"")
            if not block:
                raise _torn()
            self._buffer = block[left:]
            yield block[:left]
            left -= min(left, len(block))
        filling = -size % _BLOCK
        if len(self._take(filling)) < filling:
            raise _torn()

    def _take(self, size: int) -> bytes:
        """Return ``size`` bytes, fewer only at the end."""
        while len(self._buffer) < size and (block := next(self._blocks, b"")):
            self._buffer += block
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken


def _pax_path(records: bytes) -> str | None:
    """Return the path in a pax header, or None. Raises Garbled. Each record begins with its length."""
    while records:
        length = records.partition(b" ")[0]
        if not length.isdigit() or not 0 < int(length) <= len(records):
            message = "the VM sent a tar with a header that cannot be read"
            raise Garbled(message)
        keyword, _, value = records[len(length) + 1 : int(length) - 1].partition(b"=")
        if keyword == b"path":
            return _text(value)
        records = records[int(length) :]
    return None


def _text(name: bytes) -> str:
    return name.rstrip(b"\0").decode("utf-8", "surrogateescape")


def _bounded(blocks: Iterable[bytes], left: int) -> Iterator[bytes]:
    for block in blocks:
        left -= len(block)
        if left < 0:
            message = "the VM sends more than it was asked for"
            raise Garbled(message)
        yield block


def _said(stream: Stream) -> str:
    return stream.stderr.decode(errors="replace").strip()[-_SAID:] or f"exit code {stream.exit_code}"


def _torn() -> Garbled:
    return Garbled("the VM sent a tar that ends in the middle")
