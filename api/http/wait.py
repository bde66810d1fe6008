"""Waits in a request's thread, which end when the client or the server goes away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable

    import falcon

    from api.engine import ChangeWatch
    from api.http.slots import StreamSlots
    from storage import Clock

_POLL_SECONDS = 0.5


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
