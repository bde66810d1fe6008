"""One job's log, line by line, as it is written."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ci_daemon.submit.client import ApiError, ServiceUnreachable
from ci_daemon.submit.lines import LineSplitter
from ci_daemon.submit.patience import Patience

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_daemon.submit.client import Client

__all__ = ["read_log"]

_WAIT_SECONDS = 20
_LEAST_SECONDS = 0.3


def read_log(client: Client, path: str) -> Iterator[str]:
    """Yield the lines of the log at ``path`` until the job is over and the log is read.

    After an interruption it resumes at the same byte. Raises ApiError and ServiceUnreachable.
    """
    splitter, patience = LineSplitter(), Patience()
    offset, complete = 0, False
    while not complete:
        began, asked = offset, time.monotonic()
        try:
            with client.log(path, offset, _WAIT_SECONDS) as (blocks, last):
                for block in blocks:
                    offset += len(block)
                    yield from splitter.feed(block)
                complete = last
            patience.renew()
        except (ApiError, ServiceUnreachable) as fault:
            if isinstance(fault, ApiError) and fault.code == "log_expired":
                break
            patience.bear(fault)
        # With too many log waits the service answers at once: then poll slowly instead.
        if offset == began and not complete:
            time.sleep(max(0.0, _LEAST_SECONDS - (time.monotonic() - asked)))
    yield from splitter.end()
