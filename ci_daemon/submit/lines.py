"""Split a log that arrives in blocks of bytes into lines."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LineSplitter"]

_LONGEST = 16 * 1024


class LineSplitter:
    """Turns blocks of UTF-8, split anywhere, into lines; invalid bytes are replaced.

    If carriage returns overwrite a line, as progress bars do, only its last version is kept. A line of more than
    16 Ki characters comes in pieces, so that a log without line ends needs little memory.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._open = ""

    def feed(self, block: bytes) -> Iterator[str]:
        """Yield the lines that the block completes."""
        *lines, self._open = (self._open + self._decoder.decode(block)).split("\n")
        for line in lines:
            yield _last_drawing(line)
        while len(self._open) > _LONGEST:
            piece, self._open = self._open[:_LONGEST], self._open[_LONGEST:]
            yield _last_drawing(piece)

    def end(self) -> Iterator[str]:
        """Yield the last line if the log does not end with a line end."""
        rest = self._open + self._decoder.decode(b"", final=True)
        self._open = ""
        if rest:
            yield _last_drawing(rest)


def _last_drawing(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]
