"""The combined output of a command, kept in a file: its beginning, and of what is longer its end."""

from __future__ import annotations

import os

_CHUNK = 1 << 20


class Output:
    """A file to which output is moved from a pipe: its first ``head`` bytes, then ``tail`` as a ring.

    ``size`` is the number of bytes that came. ``lost`` counts later ones, which the file could not take for too long.
    """

    def __init__(self, file: int) -> None:
        self.file = file
        self.head = self.tail = self.size = self.lost = 0

    def keep(self, head: int, tail: int) -> None:
        """Set the numbers of bytes at the beginning and at the end that are kept."""
        self.head, self.tail = head, tail

    def move(self, pipe: int) -> int:
        """Move what is in a pipe; return the number of bytes, 0 at its end.

        Raises BlockingIOError if nothing is there, and OSError if the file cannot take it: it stays in the pipe then.
        """
        position, room = self._place(self.size)
        if room:
            count = os.splice(pipe, self.file, min(room, _CHUNK), offset_dst=position)
        else:
            count = len(os.read(pipe, _CHUNK))
        self.size += count
        return count

    def lose(self, pipe: int) -> int:
        """Take what is in a pipe and do not keep it. Raises BlockingIOError."""
        count = len(os.read(pipe, _CHUNK))
        self.lost += count
        return count

    @property
    def kept(self) -> int:
        """The number of bytes that the file has."""
        return min(self.size, self.head + self.tail)

    def block(self, offset: int, *, whole: bool) -> tuple[int, int, int]:
        """Return the bytes to read next at an offset: how many are left out before, position, number.

        The end of the output is only read when it is ``whole``, because until then it moves on.
        """
        if offset < self.head or not whole:
            return 0, offset, max(0, min(self.size, self.head) - offset)
        start = max(offset, self.size - self.tail)
        position, room = self._place(start)
        return start - offset, position, min(room, self.size - start)

    def _place(self, offset: int) -> tuple[int, int]:
        """Return where a byte of the output is in the file, and how many from there on follow each other."""
        if offset < self.head:
            return offset, self.head - offset
        if not self.tail:
            return self.head, 0
        place = (offset - self.head) % self.tail
        return self.head + place, self.tail - place
