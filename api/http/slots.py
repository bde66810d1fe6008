"""Requests that hold a thread: their slots, and how they wait."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import falcon

    from api.engine import ChangeWatch
    from storage import Clock

_POLL_SECONDS = 0.5


@immutable
class LogReader:
    """The account that reads a log, or the address if there is no account.

    ``public`` is true for everyone but members: they may read because the pipeline is public.
    """

    key: str
    public: bool


class StreamSlots:
    """Slots for long responses, and the flag that the server is about to close. Safe in any thread.

    There are fewer slots than threads, so that short requests are always served. A quarter of the slots is reserved for
    renders; readers of logs share the others. One reader holds at most its share of those, and readers of public
    pipelines together hold at most half, so that members always find a slot. The last eighth is for the renders of
    organizations that hold less than that.
    """

    def __init__(self, limit: int, per_reader: int | None = None) -> None:
        """Offer ``limit`` slots; ``per_reader`` is the most for one reader, by default all for readers."""
        self._limit = limit
        self._reader_limit = limit - limit // 4
        self._public_limit = max(1, self._reader_limit // 2)
        self._per_reader = per_reader or self._reader_limit
        self._lock = threading.Lock()
        self._taken = 0
        self._last = limit // 8
        self._renders: Counter[int] = Counter()
        self._readers: Counter[LogReader] = Counter()
        self._closing = threading.Event()

    @property
    def closing(self) -> bool:
        """True if every stream should end now."""
        return self._closing.is_set()

    def close(self) -> None:
        """End every stream within moments, and begin no new one."""
        self._closing.set()

    def acquire(self, organization_id: int) -> StreamSlot | None:
        """Take a slot to wait for a render; None if its organization may have no more, or at the end."""
        with self._lock:
            last = self._last if self._renders[organization_id] >= self._last else 0
            if self.closing or self._taken + last >= self._limit:
                return None
            self._taken += 1
            self._renders[organization_id] += 1
        return StreamSlot(lambda: self._release(organization_id))

    def acquire_for_reader(self, reader: LogReader) -> StreamSlot | None:
        """Take a slot to read a log; None if the reader may have no more, or at the end."""
        with self._lock:
            if self.closing or self._taken >= self._limit or not self._may_read(reader):
                return None
            self._taken += 1
            self._readers[reader] += 1
        return StreamSlot(lambda: self._release_reader(reader))

    def _may_read(self, reader: LogReader) -> bool:
        if self._readers.total() >= self._reader_limit or self._readers[reader] >= self._per_reader:
            return False
        return not reader.public or self._public_readers() < self._public_limit

    def _public_readers(self) -> int:
        return sum(count for reader, count in self._readers.items() if reader.public)

    def _release(self, organization_id: int) -> None:
        with self._lock:
            self._taken -= 1
            self._renders[organization_id] -= 1
            if not self._renders[organization_id]:
                del self._renders[organization_id]

    def _release_reader(self, reader: LogReader) -> None:
        with self._lock:
            self._taken -= 1
            self._readers[reader] -= 1
            if not self._readers[reader]:
                del self._readers[reader]


class StreamSlot:
    """One stream slot, to be released once; of several calls the first counts."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release
        self._released = threading.Lock()

    def release(self) -> None:
        """Release the slot; a second call does nothing."""
        if self._released.acquire(blocking=False):
            self._release()


class StreamBody:
    """The body of a stream. Releases its slot when the server is done with it, even if it never began."""

    def __init__(self, chunks: Generator[bytes], slot: StreamSlot) -> None:
        self._chunks = chunks
        self._slot = slot

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks

    def close(self) -> None:
        """End the stream. The server calls this after the last chunk, and when the client is gone."""
        try:
            self._chunks.close()
        finally:
            self._slot.release()


@immutable
class RequestWait:
    """Waits for a log to grow or a render to end.

    It waits in short turns, so that a closing server or a client that hung up is noticed soon.
    """

    clock: Clock
    slots: StreamSlots
    client_gone: Callable[[], bool]

    @classmethod
    def of(cls, req: falcon.Request, clock: Clock, slots: StreamSlots) -> RequestWait:
        """Return the wait for one request."""
        return cls(clock, slots, req.env.get("waitress.client_disconnected", _never))

    @property
    def over(self) -> bool:
        """True if the client hung up or the server is closing."""
        return self.slots.closing or self.client_gone()

    def wait(self, watch: ChangeWatch, until: float) -> bool:
        """Wait for a change until a monotonic time; True if there is one, False if the time is up or `over`."""
        while not self.over:
            left = until - self.clock.monotonic()
            if left <= 0:
                return False
            if watch.wait(min(left, _POLL_SECONDS)):
                return True
        return False


def _never() -> bool:
    return False
