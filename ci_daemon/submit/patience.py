"""Retry calls while the service restarts or is at its limits."""

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
    """Back-off that times out ``seconds`` after the first of consecutive faults."""

    def __init__(self, seconds: float = 60.0) -> None:
        self._seconds = seconds
        self._since: float | None = None
        self._pause = _FIRST_PAUSE

    def renew(self) -> None:
        """Reset after a success."""
        self._since = None
        self._pause = _FIRST_PAUSE

    def bear(self, fault: ApiError | ServiceUnreachable) -> None:
        """Sleep before the next try, or raise the fault if it is permanent or the time is up."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if not fault.passing or now + self._pause > self._since + self._seconds:
            raise fault
        time.sleep(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)


def persist(call: Callable[[], T]) -> T:
    """Retry a call until it succeeds. Raises its last ApiError or ServiceUnreachable when the time is up."""
    patience = Patience()
    while True:
        try:
            return call()
        except (ApiError, ServiceUnreachable) as fault:
            patience.bear(fault)
