"""A single thread that sends delayed messages, so that no time-out needs a thread of its own."""

from __future__ import annotations

import heapq
import itertools
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from actors.addresses import Address
    from storage import Clock

__all__ = ["Alarm", "Timer", "seconds_since"]

MessageT = TypeVar("MessageT")

_MIN_ROOM = 64


@dataclass(order=True, slots=True)
class Alarm:
    """A message that is due at ``due`` (monotonic seconds)."""

    due: float
    order: int
    send: Callable[[], None] = field(compare=False)
    canceled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        """Keep the message from being sent, unless it was already. Safe in any thread."""
        self.canceled = True


class Timer:
    """Sends messages when they are due, in the order in which they are due.

    Most alarms are canceled long before they are due. So that they hold no memory until then, they are forgotten
    whenever the number of alarms has doubled.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._alarms: list[Alarm] = []
        self._room = _MIN_ROOM
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="timer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Send nothing more; return when the thread has ended."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def tell_after(self, seconds: float, address: Address[MessageT], message: MessageT) -> Alarm:
        """Send ``message`` to ``address`` in ``seconds``; return an alarm that can be canceled."""
        alarm = Alarm(self._clock.monotonic() + seconds, next(self._order), partial(address.post, message))
        with self._changed:
            if len(self._alarms) >= self._room:
                self._forget_canceled()
            heapq.heappush(self._alarms, alarm)
            if self._alarms[0] is alarm:
                self._changed.notify()
        return alarm

    def _forget_canceled(self) -> None:
        self._alarms = [alarm for alarm in self._alarms if not alarm.canceled]
        heapq.heapify(self._alarms)
        self._room = max(_MIN_ROOM, 2 * len(self._alarms))

    def _run(self) -> None:
        while (alarm := self._next()) is not None:
            if not alarm.canceled:
                alarm.send()

    def _next(self) -> Alarm | None:
        with self._changed:
            while not self._stopped:
                while self._alarms and self._alarms[0].canceled:
                    heapq.heappop(self._alarms)
                if not self._alarms:
                    self._changed.wait()
                    continue
                left = self._alarms[0].due - self._clock.monotonic()
                if left <= 0:
                    return heapq.heappop(self._alarms)
                self._changed.wait(left)
            return None


def seconds_since(moment: datetime, clock: Clock) -> float:
    """Return the seconds since a stored moment; 0 if the host's clock was set back to before it."""
    return max(0.0, (clock.now() - moment).total_seconds())
