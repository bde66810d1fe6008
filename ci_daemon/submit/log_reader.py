"""One job's log, line by line, as it is written."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ci_daemon.remote.operations import RequestFailed, ServiceUnreachable
from ci_daemon.submit.lines import LineSplitter
from ci_daemon.submit.retry import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ci_daemon.submit.build_reader import OpenLog

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
