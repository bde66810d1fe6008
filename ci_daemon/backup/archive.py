"""The gzipped tar of a backup, written and read as a stream.

The manifest is its last member: an archive that ends before it is torn.
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

from ci_daemon.backup.manifest import MANIFEST, Manifest, Member, Unusable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Digest", "Packed", "Packer", "Written", "packing", "unpacked"]

_FAST = 1
_MOST_BEHIND = 2**20
_TORN = (EOFError, OSError, zlib.error, tarfile.TarError)


class Written(Protocol):
    """Anything that accepts blocks of bytes."""

    def write(self, block: bytes, /) -> int:
        """Write all of a block; return its length."""
        ...


class Digest:
    """A file that is read or written, with the SHA-256 so far; ``told`` gets the size of each block."""

    def __init__(self, file: IO[bytes], told: Callable[[int], None] = lambda _: None) -> None:
        self._file = file
        self._told = told
        self._hash = hashlib.sha256()
        self._bytes = 0

    def read(self, size: int) -> bytes:
        """Read the next bytes."""
        return self._counted(self._file.read(size))

    def write(self, block: bytes) -> None:
        """Write a block."""
        self._file.write(self._counted(block))

    @property
    def member(self) -> Member:
        """The size and digest of the bytes so far."""
        return Member(self._bytes, self._hash.hexdigest())

    def _counted(self, block: bytes) -> bytes:
        self._hash.update(block)
        self._bytes += len(block)
        self._told(len(block))
        return block


@dataclass(slots=True)
class Packer:
    """An archive that is being written."""

    tar: tarfile.TarFile
    told: Callable[[int], None]
    members: dict[str, Member] = field(default_factory=dict)

    def add(self, name: str, file: IO[bytes], size: int) -> None:
        """Add the next ``size`` bytes of a file. Raises OSError if there are fewer."""
        digest = Digest(file, self.told)
        self.tar.addfile(_header(name, size), digest)  # type: ignore[arg-type] # tarfile only calls its read()
        self.members[name] = digest.member

    def finish(self, manifest: Manifest) -> None:
        """Add the manifest, the last member."""
        text = manifest.encoded()
        self.tar.addfile(_header(MANIFEST, len(text)), BytesIO(text))


@contextmanager
def packing(out: Written, told: Callable[[int], None]) -> Iterator[Packer]:
    """Write an archive to a stream, which stays open."""
    with (
        gzip.GzipFile(fileobj=cast("IO[bytes]", out), mode="wb", compresslevel=_FAST, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        yield Packer(tar, told)


@dataclass(frozen=True, slots=True)
class Packed:
    """A file in an archive that is being read; it must be read before the next one is requested."""

    name: str
    size: int
    _file: IO[bytes]

    def read(self, size: int = -1) -> bytes:
        """Read the next bytes. Raises Unusable if the archive is torn or damaged there."""
        with _whole(f"in {self.name}"):
            return self._file.read(size)


def unpacked(stream: IO[bytes]) -> Iterator[Packed]:
    """Yield the files of an archive, the manifest last.

    Raises Unusable if it is not an archive, is torn or damaged, continues after the manifest, or contains anything but
    regular files.
    """
    finished = False
    reached = "at its beginning"
    with gzip.GzipFile(fileobj=stream, mode="rb") as packed:
        with _whole(reached):
            tar = tarfile.open(fileobj=packed, mode="r|")  # noqa: SIM115 - there is nothing to close but the stream
        while (member := _next(tar, reached)) is not None:
            if finished:
                raise Unusable(f"{member.name} stands in it after the manifest")
            file = tar.extractfile(member) if member.isreg() else None
            if file is None:
                raise Unusable(f"{member.name} in it is no plain file")
            yield Packed(member.name, member.size, file)
            reached, finished = f"after {member.name}", member.name == MANIFEST
        with _whole(reached):
            behind = len(packed.read(_MOST_BEHIND))
    if behind == _MOST_BEHIND:
        raise Unusable("it goes on after its end")
    if not finished:
        raise Unusable(f"it is torn {reached}")


def _next(tar: tarfile.TarFile, reached: str) -> tarfile.TarInfo | None:
    with _whole(reached):
        return tar.next()


@contextmanager
def _whole(where: str) -> Iterator[None]:
    try:
        yield
    except _TORN as error:
        raise Unusable(f"it is torn or damaged {where} ({error})") from error


def _header(name: str, size: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.size, header.mode, header.mtime = size, 0o600, int(time.time())
    return header
