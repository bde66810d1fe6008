"""Token buckets, which allow a number of requests at once and refill within a minute."""

from __future__ import annotations

import threading
from collections import OrderedDict
from math import ceil
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from storage import Clock

# Considered: `limits` counts in windows and has no token bucket; its memory storage takes any number of keys, and reads
# the system's clock, which may jump.

_MINUTE = 60.0


@immutable
class BucketState:
    """The state of a bucket after a request: ``limit`` when full, ``left`` now.

    ``granted`` tells whether the request may proceed. ``full_in`` and ``retry_in`` are the seconds until the bucket is
    full, and until it holds at least one.
    """

    granted: bool
    limit: int
    left: int
    full_in: int
    retry_in: int


class TokenBuckets:
    """A bucket for each key, full at first and refilled within a minute. Safe in any thread.

    Only the ``tracked`` keys that were used last are remembered, so that ever new keys do not use up memory.
    """

    def __init__(self, per_minute: int, tracked: int, clock: Clock) -> None:
        self._limit = per_minute
        self._tracked = tracked
        self._clock = clock
        self._lock = threading.Lock()
        self._held: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """The content of each bucket and when it was computed, by key; the key used last is at the end."""

    def __len__(self) -> int:
        """Return the number of keys that are remembered."""
        return len(self._held)

    def take(self, key: str) -> BucketState:
        """Take one from the key's bucket unless it is empty; return the bucket's state."""
        with self._lock:
            now = self._clock.monotonic()
            held, at = self._held.pop(key, (float(self._limit), now))
            held = min(self._limit, held + (now - at) * self._limit / _MINUTE)
            granted = held >= 1
            held -= granted
            self._held[key] = held, now
            if len(self._held) > self._tracked:
                self._held.popitem(last=False)
        return BucketState(
            granted=granted,
            limit=self._limit,
            left=int(held),
            full_in=ceil((self._limit - held) * _MINUTE / self._limit),
            retry_in=0 if held >= 1 else ceil((1 - held) * _MINUTE / self._limit),
        )
