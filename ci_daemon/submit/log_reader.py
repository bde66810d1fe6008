"""One job's log, line by line, as it is written."""

from __future__ import annotations

import codecs
import time
from typing import TYPE_CHECKING

from ci_daemon.remote.errors import Backoff, RequestFailed, ServiceUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ci_daemon.submit.build_reader import OpenLog

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


_WAIT_SECONDS = 20
_MIN_POLL_SECONDS = 0.3


def read_log(open_log: Callable[[int, int], OpenLog]) -> Iterator[str]:
    """Yield the lines of a log until its job is over and the log is read.

    ``open_log`` opens it from a byte on, and waits at most some seconds for a first byte. After an interruption
    the read resumes at the same byte. Raises RequestFailed and ServiceUnreachable.
    """
    splitter, backoff = LineSplitter(), Backoff()
    offset, complete = 0, False
    while not complete:
        began, started = offset, time.monotonic()
        try:
            with open_log(offset, _WAIT_SECONDS) as (chunks, last):
                for chunk in chunks:
                    offset += len(chunk)
                    yield from splitter.feed(chunk)
                complete = last
            backoff.reset()
        except (RequestFailed, ServiceUnreachable) as error:
            if isinstance(error, RequestFailed) and error.code == "log_expired":
                break
            backoff.wait_or_raise(error)
        # With too many log waits the service answers at once: then poll slowly instead.
        if offset == began and not complete:
            time.sleep(max(0.0, _MIN_POLL_SECONDS - (time.monotonic() - started)))
    yield from splitter.end()
