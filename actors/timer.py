"""A single thread that sends delayed messages, so that no time-out needs a thread of its own."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pykka

if TYPE_CHECKING:
    from storage import Clock

__all__ = ["Alarm", "Timer"]


@dataclass(order=True, slots=True)
class Alarm:
    """A message that is due at ``due`` (monotonic seconds)."""

    due: float
    order: int
    address: pykka.ActorRef[Any] = field(compare=False)
    message: object = field(compare=False)
    canceled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        """Keep the message from being sent, unless it was already. Safe in any thread."""
        self.canceled = True


class Timer:
    """Sends messages when they are due, in the order in which they are due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._alarms: list[Alarm] = []
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

    def tell_after(self, seconds: float, address: pykka.ActorRef[Any], message: object) -> Alarm:
        """Send ``message`` to ``address`` in ``seconds``; return an alarm that can be canceled."""
        alarm = Alarm(self._clock.monotonic() + seconds, next(self._order), address, message)
        with self._changed:
            heapq.heappush(self._alarms, alarm)
            if self._alarms[0] is alarm:
                self._changed.notify()
        return alarm

    def _run(self) -> None:
        while (alarm := self._next()) is not None:
            if not alarm.canceled:
                with contextlib.suppress(pykka.ActorDeadError):
                    alarm.address.tell(alarm.message)

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
