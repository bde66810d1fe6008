"""Bear with a service that restarts or is at its limits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from ci_daemon.submit.client import ApiError, ServiceUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Patience", "persist"]

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0


class Patience:
    """So many seconds of it from the first fault in a row, with growing pauses."""

    def __init__(self, seconds: float = 60.0) -> None:
        self._seconds = seconds
        self._since: float | None = None
        self._pause = _FIRST_PAUSE

    def renew(self) -> None:
        """Note that all is well again."""
        self._since = None
        self._pause = _FIRST_PAUSE

    def bear(self, fault: ApiError | ServiceUnreachable) -> None:
        """Return after a pause, or raise the fault where waiting does not help, or has not helped for too long."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if not fault.passing or now + self._pause > self._since + self._seconds:
            raise fault
        time.sleep(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)


def persist(call: Callable[[], T]) -> T:
    """Call until it works. Raises its ApiError or ServiceUnreachable when patience ends."""
    patience = Patience()
    while True:
        try:
            return call()
        except (ApiError, ServiceUnreachable) as fault:
            patience.bear(fault)
