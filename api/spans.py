"""A part of a source as a file, which the server sends without holding a thread."""

from __future__ import annotations

import io
from typing import Protocol

__all__ = ["Source", "Span"]


class Source(Protocol):
    """Bytes that can be read from any offset."""

    def read(self, start: int, length: int) -> bytes:
        """Return up to ``length`` bytes from offset ``start``; fewer at the end."""
        ...


class Span(io.RawIOBase):
    """Bytes ``start`` to ``end`` (exclusive) of a source as a file. Never holds them all in memory."""

    def __init__(self, source: Source, start: int, end: int) -> None:
        super().__init__()
        self._source = source
        self._start = start
        self._size = end - start
        self._at = 0

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position, from 0."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position and return it."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return the next ``size`` bytes, or all that are left if they are fewer or ``size`` is negative.

        Raises OSError if the source has become shorter.
        """
        left = self._size - self._at
        size = left if size < 0 else min(size, left)
        data = self._source.read(self._start + self._at, size)
        if len(data) < size:
            raise OSError("what is sent is shorter than it was")
        self._at += size
        return data
