"""How many answers may hold a thread at once: log streams, and log requests that wait."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

__all__ = ["Place", "StreamBody", "Streams"]


class Streams:
    """The places for answers that take long, and the word that the server is about to close.

    There are fewer places than threads, so that short requests are always served.
    """

    def __init__(self, places: int) -> None:
        self._free = threading.BoundedSemaphore(places)
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


class Place:
    """One place for an answer that takes long; to be freed once, whoever comes first."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release
        self._freed = threading.Lock()

    def free(self) -> None:
        """Give the place back; doing so again does nothing."""
        if self._freed.acquire(blocking=False):
            self._release()


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
