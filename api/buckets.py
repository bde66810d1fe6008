"""Token buckets: so many requests at once, and as many again within a minute."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage import Clock

__all__ = ["Buckets", "Level"]

_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Level:
    """What a bucket holds after somebody asked: ``limit`` when full, ``left`` now.

    ``full_in`` and ``retry_in`` are the seconds until it is full, and until it holds one at least.
    """

    granted: bool
    limit: int
    left: int
    full_in: int
    retry_in: int


class Buckets:
    """A bucket for each of many keys, which start full and fill again within a minute. Safe in any thread.

    As many as ``tracked`` are remembered, those that were asked last: who comes from ever other keys costs no memory.
    """

    def __init__(self, per_minute: int, tracked: int, clock: Clock) -> None:
        self._limit = per_minute
        self._tracked = tracked
        self._clock = clock
        self._lock = threading.Lock()
        self._held: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By key, the one asked last at the end: how much the bucket held, and when."""

    def take(self, key: str) -> Level:
        """Take one from the key's bucket, unless it is empty; return what is left."""
        with self._lock:
            now = self._clock.monotonic()
            held, at = self._held.pop(key, (float(self._limit), now))
            held = min(self._limit, held + (now - at) * self._limit / _MINUTE)
            granted = held >= 1
            held -= granted
            self._held[key] = held, now
            if len(self._held) > self._tracked:
                self._held.popitem(last=False)
        return Level(
            granted=granted,
            limit=self._limit,
            left=int(held),
            full_in=ceil((self._limit - held) * _MINUTE / self._limit),
            retry_in=0 if held >= 1 else ceil((1 - held) * _MINUTE / self._limit),
        )
