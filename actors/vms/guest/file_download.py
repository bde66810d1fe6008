"""Download of files from a VM: listed and packed there, read here as a stream.

The job may have replaced the programs of its VM. So their output is checked for its format and its size, and nothing
large is kept in memory (engine.md, "The end").
"""

from __future__ import annotations

import shlex
import tarfile
from typing import TYPE_CHECKING

from actors.vms.guest import in_workspace
from actors.vms.provider import VmError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from actors.vms.ssh.connection import Connection
    from actors.vms.ssh.pipes import PipeStream
    from actors.vms.ssh.stream import Stream

_MAX_FILES = 1_000_000
_MAX_PATH_BYTES = 4_096
_MAX_HEADER_BYTES = 1 << 16
_OVERHEAD = 1 << 15
"""Bytes that a tar may take for each file beyond its contents."""

_TAR_BLOCK = 512
_END_OF_ARCHIVE = bytes(_TAR_BLOCK)
_MAX_ERROR_CHARS = 300


class InvalidDownload(VmError):
    """The VM sent an invalid list of files or tar."""


@immutable
class DownloadedFile:
    """A file of a tar.

    ``chunks`` yields its ``file_size`` bytes: read them before the next file, or not at all. A hard link has no chunks;
    ``same_as`` names the earlier file.
    """

    path: str
    file_size: int
    chunks: Iterator[bytes]
    same_as: str | None = None
    executable: bool = False


@immutable
class ListedFile:
    """An entry of the workspace by its path, which never leads out of it; ``target`` is that of a link.

    ``kind`` is ``f`` for a file, ``l`` for a link, ``d`` for a folder, and another letter for the rest.
    """

    path: bytes
    kind: str
    target: bytes


_RECORD = r"-printf '%y%p\0%l\0'"


def list_files(connection: Connection, *, timeout: float) -> Generator[ListedFile]:
    """Yield all of the workspace but its folders, as it is found.

    Raises InvalidDownload, also for more than a million
    files, ConnectionLost and CommandTimeout. It is raised at the end if the VM cannot read all folders.
    """
    with connection.stream(in_workspace(f"exec find . ! -type d {_RECORD}"), timeout=timeout) as listing:
        yield from _listed(listing)
    if listing.exit_code != 0:
        message = f"the VM cannot list all its files: {_error_of(listing)}"
        raise InvalidDownload(message)


def list_below(connection: Connection, paths: Iterable[bytes], *, deep: bool, timeout: float) -> Generator[ListedFile]:
    """Yield these entries of the workspace, without those that are missing.

    With ``deep`` they are folders, and the files in them are yielded. Raises as `list_files` does.
    """
    names = b"".join(b"./%s\0" % path for path in paths)
    what = "-type f" if deep else "-maxdepth 0"
    find = shlex.quote(f'exec find "$@" {what} {_RECORD}')
    program = f"exec xargs -0r sh -c {find} sh"
    with connection.stream(in_workspace(program), stdin=names, timeout=timeout) as listing:
        yield from _listed(listing)
    if deep and listing.exit_code != 0:
        message = f"the VM cannot list all its files: {_error_of(listing)}"
        raise InvalidDownload(message)


def _listed(listing: Iterable[bytes]) -> Iterator[ListedFile]:
    count = 0
    rest = b""
    named: bytes | None = None
    for chunk in listing:
        *texts, rest = (rest + chunk).split(b"\0")
        if len(rest) > _MAX_PATH_BYTES + 1:
            raise _invalid_list()
        for text in texts:
            if named is None:
                named = text
                continue
            path = named[1:]
            if max(len(path), len(text)) > _MAX_PATH_BYTES or not _is_file_path(path):
                raise _invalid_list()
            count += 1
            if count > _MAX_FILES:
                message = f"the workspace has more than {_MAX_FILES:,} files"
                raise InvalidDownload(message)
            yield ListedFile(path.removeprefix(b"./"), named[:1].decode(errors="replace"), text)
            named = None
    if rest or named is not None:
        raise _invalid_list()


def _invalid_list() -> InvalidDownload:
    return InvalidDownload("the VM sent an invalid list of its files")


def _is_file_path(path: bytes) -> bool:
    start, *segments = path.split(b"/")
    return start == b"." and bool(segments) and not {b"", b".", b".."}.intersection(segments)


def download_files(
    connection: Connection, paths: Sequence[str], *, max_bytes: int, timeout: float
) -> Generator[DownloadedFile]:
    """Yield files below a folder as they arrive in a tar.

    The VM is asked for ``paths``, but may send other files, or fewer. Raises InvalidDownload, also for more than
    ``max_bytes`` plus the tar's overhead and if the VM reports a failure at the end, ConnectionLost and CommandTimeout.
    """
    names = b"".join(b"./%s\0" % path.encode(errors="surrogateescape") for path in paths)
    with connection.transfer(in_workspace("exec xargs -0 tar -cf -"), stdin=[names], timeout=timeout) as stream:
        yield from TarReader(_bounded(stream, max_bytes + _OVERHEAD * (len(paths) + 1))).files()
    if stream.exit_code != 0:
        message = f"not all files could be read: {_error_of(stream)}"
        raise InvalidDownload(message)


class TarReader:
    """Reader of a stream of one or more tars: ustar, with the long names of GNU and pax.

    `tarfile` parses each header, but not the stream: it would read a long name of any size into memory.
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._buffer = b""

    def files(self) -> Iterator[DownloadedFile]:
        """Yield the regular files and the hard links to them. Raises InvalidDownload."""
        long_path = long_link = ""
        while header := self._header():
            try:
                member = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
            except tarfile.HeaderError as error:
                message = f"the VM sent an invalid tar: {error}"
                raise InvalidDownload(message) from error
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
                    yield DownloadedFile(path, 0, iter(()), same_as=link)
                elif member.type in {tarfile.REGTYPE, tarfile.AREGTYPE}:
                    yield DownloadedFile(path, max(0, member.size), content, executable=bool(member.mode & 0o100))
                for _ in content:
                    pass

    def _header(self) -> bytes:
        """Return the next header; empty at the end."""
        while (header := self._take(_TAR_BLOCK)) == _END_OF_ARCHIVE:
            pass
        if header and len(header) < _TAR_BLOCK:
            raise _truncated()
        return header

    def _more_header(self, size: int) -> bytes:
        """Return the contents of a member that extends the header of the next one."""
        if not 0 <= size <= _MAX_HEADER_BYTES:
            message = "the VM sent a tar with a header that is too long"
            raise InvalidDownload(message)
        return b"".join(self._content(size))

    def _content(self, size: int) -> Iterator[bytes]:
        """Yield a member's bytes, then skip the padding. Raises InvalidDownload if the tar ends early."""
        left = size
        while left:
            chunk = self._buffer or next(self._chunks, b"")
            if not chunk:
                raise _truncated()
            self._buffer = chunk[left:]
            yield chunk[:left]
            left -= min(left, len(chunk))
        filling = -size % _TAR_BLOCK
        if len(self._take(filling)) < filling:
            raise _truncated()

    def _take(self, size: int) -> bytes:
        """Return ``size`` bytes, fewer only at the end."""
        while len(self._buffer) < size and (chunk := next(self._chunks, b"")):
            self._buffer += chunk
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken


def _pax_path(records: bytes) -> str | None:
    """Return the path in a pax header, whose records begin with their length. Raises InvalidDownload."""
    while records:
        length = records.partition(b" ")[0]
        if not length.isdigit() or not 0 < int(length) <= len(records):
            message = "the VM sent a tar with a header that cannot be read"
            raise InvalidDownload(message)
        keyword, _, value = records[len(length) + 1 : int(length) - 1].partition(b"=")
        if keyword == b"path":
            return _text(value)
        records = records[int(length) :]
    return None


def _text(name: bytes) -> str:
    return name.rstrip(b"\0").decode("utf-8", "surrogateescape")


def _bounded(chunks: Iterable[bytes], left: int) -> Iterator[bytes]:
    for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            message = "the VM sent more than was requested"
            raise InvalidDownload(message)
        yield chunk


def _error_of(stream: Stream | PipeStream) -> str:
    return stream.stderr.decode(errors="replace").strip()[-_MAX_ERROR_CHARS:] or f"exit code {stream.exit_code}"


def _truncated() -> InvalidDownload:
    return InvalidDownload("the VM sent a tar that ends in the middle")
