"""Stream slots for responses that hold a thread: log streams, log waits and waits for renders."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

__all__ = ["Place", "Reader", "StreamBody", "Streams"]


@dataclass(frozen=True, slots=True)
class Reader:
    """The account that reads a log, or the address if there is no account.

    ``public`` is true for everyone but members: they may read because the pipeline is public.
    """

    key: str
    public: bool


class Streams:
    """Slots for long responses, and the flag that the server is about to close. Safe in any thread.

    There are fewer slots than threads, so that short requests are always served. A quarter of the slots is reserved for
    renders; readers of logs share the others. One reader holds at most its share of those, and readers of public
    pipelines together hold at most half, so that members always find a slot.
    """

    def __init__(self, places: int, share: int | None = None) -> None:
        """Offer ``places`` slots; ``share`` is the most for one reader, by default all that readers may use."""
        self._places = places
        self._for_readers = places - places // 4
        self._for_public = max(1, self._for_readers // 2)
        self._share = share or self._for_readers
        self._lock = threading.Lock()
        self._taken = 0
        self._readers: Counter[Reader] = Counter()
        self._closing = threading.Event()

    @property
    def closing(self) -> bool:
        """True if every stream should end now."""
        return self._closing.is_set()

    def close(self) -> None:
        """End every stream within moments, and begin no new one."""
        self._closing.set()

    def take(self) -> Place | None:
        """Take a slot to wait for a render; None if all are taken or the server is closing."""
        with self._lock:
            if not self._any_free():
                return None
            self._taken += 1
        return Place(self._free)

    def take_to_read(self, reader: Reader) -> Place | None:
        """Take a slot to read a log; None if the reader may have no more, or as in `take`."""
        with self._lock:
            if not self._any_free() or not self._may_read(reader):
                return None
            self._taken += 1
            self._readers[reader] += 1
        return Place(lambda: self._free_reader(reader))

    def _any_free(self) -> bool:
        return not self.closing and self._taken < self._places

    def _may_read(self, reader: Reader) -> bool:
        if self._readers.total() >= self._for_readers or self._readers[reader] >= self._share:
            return False
        return not reader.public or self._public() < self._for_public

    def _public(self) -> int:
        return sum(count for reader, count in self._readers.items() if reader.public)

    def _free(self) -> None:
        with self._lock:
            self._taken -= 1

    def _free_reader(self, reader: Reader) -> None:
        with self._lock:
            self._taken -= 1
            self._readers[reader] -= 1
            if not self._readers[reader]:
                del self._readers[reader]


class Place:
    """One stream slot, to be freed once; of several calls the first counts."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release
        self._freed = threading.Lock()

    def free(self) -> None:
        """Free the slot; a second call does nothing."""
        if self._freed.acquire(blocking=False):
            self._release()


class StreamBody:
    """The body of a stream. Frees its slot when the server is done with it, even if it never began."""

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
