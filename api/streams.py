"""How many answers may hold a thread at once: log streams, and log requests that wait."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

__all__ = ["Place", "StreamBody", "Streams"]


class Streams:
    """The places for answers that take long, and the word that the server is about to close.

    There are fewer places than threads, so that short requests are always served. A quarter of them is none for who
    reads a log, so that builds can always be rendered.
    """

    def __init__(self, places: int) -> None:
        self._free = threading.BoundedSemaphore(places)
        self._for_readers = threading.BoundedSemaphore(places - places // 4)
        self._closing = threading.Event()

    @property
    def closing(self) -> bool:
        """Whether every stream should end now."""
        return self._closing.is_set()

    def close(self) -> None:
        """Have every stream end, within moments, and no new one begin."""
        self._closing.set()

    def take(self) -> Place | None:
        """Take a place, or None where all are taken or the server is closing."""
        if self.closing or not self._free.acquire(blocking=False):
            return None
        return Place(self._free.release)

    def take_to_read(self) -> Place | None:
        """Take one of the places for readers, or None as in `take`."""
        if not self._for_readers.acquire(blocking=False):
            return None
        place = self.take()
        if place is None:
            self._for_readers.release()
            return None
        return Place(place.free, self._for_readers.release)


class Place:
    """One place for an answer that takes long; to be freed once, whoever comes first."""

    def __init__(self, *releases: Callable[[], None]) -> None:
        self._releases = releases
        self._freed = threading.Lock()

    def free(self) -> None:
        """Give the place back; doing so again does nothing."""
        if self._freed.acquire(blocking=False):
            for release in self._releases:
                release()


class StreamBody:
    """The body of a streaming answer: frees its place when the server is done with it, even if it was never begun."""

    def __init__(self, blocks: Generator[bytes], place: Place) -> None:
        self._blocks = blocks
        self._place = place

    def __iter__(self) -> Iterator[bytes]:
        return self._blocks

    def close(self) -> None:
        """End the stream. The server calls this after the last block, and when the client is gone."""
        try:
            self._blocks.close()
        finally:
            self._place.free()
