"""The gzipped tar of a backup, written and read as a stream.

The manifest is its last member: an archive that ends before it is truncated.
"""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import time
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import IO, TYPE_CHECKING, Protocol, cast

from ci_daemon.backup.manifest import MANIFEST, ArchiveMember, InvalidBackup, Manifest
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_COMPRESSION_LEVEL = 1
_MAX_TRAILER = 2**20
_READ_ERRORS = (EOFError, OSError, zlib.error, tarfile.TarError)


class ByteSink(Protocol):
    """Anything that accepts chunks of bytes."""

    def write(self, chunk: bytes, /) -> int:
        """Write all of a chunk; return its length."""
        ...


class HashingFile:
    """A file that is read or written, with the SHA-256 so far; ``progress`` gets the size of each chunk."""

    def __init__(self, file: IO[bytes], progress: Callable[[int], None] = lambda _: None) -> None:
        self._file = file
        self._progress = progress
        self._hash = hashlib.sha256()
        self._bytes = 0

    def read(self, size: int) -> bytes:
        """Read the next bytes."""
        return self._count(self._file.read(size))

    def write(self, chunk: bytes) -> None:
        """Write a chunk."""
        self._file.write(self._count(chunk))

    @property
    def member(self) -> ArchiveMember:
        """The size and digest of the bytes so far."""
        return ArchiveMember(self._bytes, self._hash.hexdigest())

    def _count(self, chunk: bytes) -> bytes:
        self._hash.update(chunk)
        self._bytes += len(chunk)
        self._progress(len(chunk))
        return chunk


@dataclass(slots=True)
class ArchiveWriter:
    """An archive that is being written."""

    tar: tarfile.TarFile
    progress: Callable[[int], None]
    members: dict[str, ArchiveMember] = field(default_factory=dict)

    def add(self, name: str, file: IO[bytes], size: int) -> None:
        """Add the next ``size`` bytes of a file. Raises OSError if there are fewer."""
        digest = HashingFile(file, self.progress)
        self.tar.addfile(_header(name, size), digest)  # type: ignore[arg-type] # tarfile only calls its read()
        self.members[name] = digest.member

    def finish(self, manifest: Manifest) -> None:
        """Add the manifest, the last member."""
        text = manifest.to_json()
        self.tar.addfile(_header(MANIFEST, len(text)), BytesIO(text))


@contextmanager
def archive_writer(out: ByteSink, progress: Callable[[int], None]) -> Iterator[ArchiveWriter]:
    """Write an archive to a stream, which stays open."""
    with (
        gzip.GzipFile(fileobj=cast("IO[bytes]", out), mode="wb", compresslevel=_COMPRESSION_LEVEL, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        yield ArchiveWriter(tar, progress)


@immutable
class ArchiveFile:
    """A file in an archive that is being read; it must be read before the next one is requested."""

    name: str
    size: int
    _file: IO[bytes]

    def read(self, size: int = -1) -> bytes:
        """Read the next bytes. Raises InvalidBackup if the archive is truncated or damaged there."""
        with _reading(f"in {self.name}"):
            return self._file.read(size)


def read_archive(stream: IO[bytes]) -> Iterator[ArchiveFile]:
    """Yield the files of an archive, the manifest last.

    Raises InvalidBackup if it is not an archive, is truncated or damaged, continues after the manifest, or contains
    anything but regular files.
    """
    finished = False
    position = "at its beginning"
    with gzip.GzipFile(fileobj=stream, mode="rb") as packed:
        with _reading(position):
            tar = tarfile.open(fileobj=packed, mode="r|")  # noqa: SIM115 - there is nothing to close but the stream
        while (member := _next(tar, position)) is not None:
            if finished:
                raise InvalidBackup(f"it contains {member.name} after the manifest")
            file = tar.extractfile(member) if member.isreg() else None
            if file is None:
                raise InvalidBackup(f"it contains {member.name}, which is not a regular file")
            yield ArchiveFile(member.name, member.size, file)
            position, finished = f"after {member.name}", member.name == MANIFEST
        with _reading(position):
            trailer = len(packed.read(_MAX_TRAILER))
    if trailer == _MAX_TRAILER:
        raise InvalidBackup("it continues after its end")
    if not finished:
        raise InvalidBackup(f"it is truncated {position}")


def _next(tar: tarfile.TarFile, position: str) -> tarfile.TarInfo | None:
    with _reading(position):
        return tar.next()


@contextmanager
def _reading(where: str) -> Iterator[None]:
    try:
        yield
    except _READ_ERRORS as error:
        raise InvalidBackup(f"it is truncated or damaged {where} ({error})") from error


def _header(name: str, size: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.size, header.mode, header.mtime = size, 0o600, int(time.time())
    return header
