"""Files as response bodies: the server sends a part of one without holding a thread."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path


class ByteSource(Protocol):
    """Bytes that can be read from any offset."""

    def read(self, start: int, length: int) -> bytes:
        """Return up to ``length`` bytes from offset ``start``; fewer at the end."""
        ...


class StoredFile:
    """A file on the disk as a source. It is open only during a read, however slow the client is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def size(self) -> int | None:
        """Return the size in bytes; None if the file does not exist."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return None

    def read(self, start: int, length: int) -> bytes:
        """Return up to ``length`` bytes from offset ``start``. Raises FileNotFoundError."""
        with self.path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), length, start)


class SourceSlice(io.RawIOBase):
    """Bytes ``start`` to ``end`` (exclusive) of a source as a file. Never holds them all in memory."""

    def __init__(self, source: ByteSource, start: int, end: int) -> None:
        super().__init__()
        self._source = source
        self._start = start
        self._size = end - start
        self._position = 0

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position, from 0."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position and return it."""
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Return the next ``size`` bytes, or all that are left if they are fewer or ``size`` is negative.

        Raises OSError if the source has become shorter.
        """
        left = self._size - self._position
        size = left if size < 0 else min(size, left)
        data = self._source.read(self._start + self._position, size)
        if len(data) < size:
            raise OSError("the file became shorter while it was sent")
        self._position += size
        return data
