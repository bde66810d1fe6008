"""A single thread that sends delayed messages, so that no time-out needs a thread of its own."""

from __future__ import annotations

import heapq
import itertools
import threading
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, TypeVar

from storage import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.addresses import Address
    from storage import Clock

MessageT = TypeVar("MessageT")

_MIN_ROOM = 64

_TICK_SECONDS = 1.0
_STOP_SECONDS = 5.0
"""A process that did not run for this long was stopped: a busy host delays it by less."""

_LISTEN_SECONDS = 2.0
_FRESH_SECONDS = 30.0


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
    """Sends messages in the order in which they are due, and notices that the process was stopped.

    After a stop, by SIGSTOP or with the host, alarms wait until what happened meanwhile has been heard: a command that
    ended in time has not timed out.

    Most alarms are canceled long before they are due. So that they hold no memory until then, they are forgotten
    whenever the number of alarms has doubled.
    """

    def __init__(self, clock: Clock, running: Clock | None = None) -> None:
        """``running`` is the clock that shows a stop of the process: the host's, except in tests."""
        self._clock = clock
        self._running = running or SystemClock()
        self._ticked_at = self._running.monotonic()
        self._stopped_at = self._went_on_at = -inf
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

    def seconds_unwatched(self) -> float | None:
        """Return how long ago the process was stopped, if it goes on only now; else None. Safe in any thread."""
        with self._changed:
            now = self._tick()
            return now - self._stopped_at if now - self._went_on_at < _FRESH_SECONDS else None

    def _tick(self) -> float:
        """Note that the process runs; return the seconds of the clock that shows stops."""
        now = self._running.monotonic()
        if now - self._ticked_at > _STOP_SECONDS:
            self._stopped_at, self._went_on_at = self._ticked_at, now
        self._ticked_at = now
        return now

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
                now = self._tick()
                if not self._alarms:
                    self._changed.wait(_TICK_SECONDS)
                    continue
                left = self._alarms[0].due - self._clock.monotonic()
                left = max(left, self._went_on_at + _LISTEN_SECONDS - now)
                if left <= 0:
                    return heapq.heappop(self._alarms)
                self._changed.wait(min(left, _TICK_SECONDS))
            return None
