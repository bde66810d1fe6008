"""Coverage, paused where it takes time and shows nothing new."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from coverage import Coverage


@contextmanager
def unmeasured() -> Iterator[None]:
    """Pause the measuring of coverage, if there is any, in this thread and in those that begin meanwhile."""
    measuring = Coverage.current()
    if measuring is None:
        yield
        return
    measuring.stop()
    try:
        yield
    finally:
        measuring.start()


def reached() -> int:
    """Return how many steps from line to line this process has measured so far, each once."""
    measuring = Coverage.current()
    collector = measuring and measuring._collector  # noqa: SLF001 - the public way writes all to a file
    return sum(map(len, collector.data.copy().values())) if collector else 0
