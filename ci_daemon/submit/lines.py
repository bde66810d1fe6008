"""Split a log that arrives in chunks of bytes into lines."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_LINE = 16 * 1024


class LineSplitter:
    """Turns chunks of UTF-8, split anywhere, into lines; invalid bytes are replaced.

    If carriage returns overwrite a line, as progress bars do, only its last version is kept. A line of more than
    16 Ki characters comes in pieces, so that a log without line ends needs little memory.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._partial = ""

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Yield the lines that the chunk completes."""
        *lines, self._partial = (self._partial + self._decoder.decode(chunk)).split("\n")
        for line in lines:
            yield _visible(line)
        while len(self._partial) > _MAX_LINE:
            piece, self._partial = self._partial[:_MAX_LINE], self._partial[_MAX_LINE:]
            yield _visible(piece)

    def end(self) -> Iterator[str]:
        """Yield the last line if the log does not end with a line end."""
        rest = self._partial + self._decoder.decode(b"", final=True)
        self._partial = ""
        if rest:
            yield _visible(rest)


def _visible(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]
