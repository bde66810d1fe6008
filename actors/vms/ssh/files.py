"""Files of this host that are sent into a VM: their pages go by a pipe, or their bytes by SSH."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

from actors.vms.provider import VmError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_READ_BYTES = 1 << 18


class FileCut(VmError):
    """A file of this host is gone, or has fewer bytes than it should."""


@immutable
class FileBytes:
    """All bytes of a file of this host, which are sent where it stands among others."""

    path: Path
    size: int

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes, for a way that takes no file. Raises FileCut."""
        left = self.size
        with self.opened() as file:
            while left and (chunk := os.read(file.number, min(left, _READ_BYTES))):
                left -= len(chunk)
                yield chunk
        if left:
            raise self.cut()

    def opened(self) -> OpenFile:
        """Open the file. Raises FileCut."""
        try:
            return OpenFile(os.open(self.path, os.O_RDONLY | os.O_CLOEXEC), self.size)
        except FileNotFoundError as error:
            raise self.cut() from error

    def cut(self) -> FileCut:
        """Return the error of a file that is not whole."""
        return FileCut(f"{self.path.name} is no longer kept whole on this host")


class OpenFile:
    """A file of this host that is being sent, and the number of its bytes that are left."""

    def __init__(self, number: int, left: int) -> None:
        self.number = number
        self.left = left

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.number)


def in_bytes(chunks: Iterable[bytes | FileBytes]) -> Iterator[bytes]:
    """Yield the same with the bytes of files. Raises FileCut."""
    for chunk in chunks:
        if isinstance(chunk, FileBytes):
            yield from chunk.chunks()
        else:
            yield chunk
