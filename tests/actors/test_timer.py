from __future__ import annotations

import threading
from collections.abc import Iterator

import pykka
import pytest

from actors.timer import Timer
from storage import SystemClock


class Recorder(pykka.ThreadingActor):
    def __init__(self, expected: int) -> None:
        super().__init__()
        self.received: list[object] = []
        self.complete = threading.Event()
        self._expected = expected

    def on_receive(self, message: object) -> None:
        self.received.append(message)
        if len(self.received) == self._expected:
            self.complete.set()


@pytest.fixture
def timer() -> Iterator[Timer]:
    timer = Timer(SystemClock())
    timer.start()
    yield timer
    timer.stop()
    pykka.ActorRegistry.stop_all()


def record(expected: int) -> tuple[pykka.ActorRef[Recorder], Recorder]:
    address = Recorder.start(expected)
    return address, address._actor_weakref()  # type: ignore[return-value]


def test_messages_come_in_the_order_in_which_they_are_due(timer: Timer):
    address, recorder = record(3)
    timer.tell_after(0.06, address, "third")
    timer.tell_after(0.02, address, "first")
    timer.tell_after(0.04, address, "second")
    assert recorder.complete.wait(5)
    assert recorder.received == ["first", "second", "third"]


def test_a_canceled_alarm_is_not_sent(timer: Timer):
    address, recorder = record(1)
    timer.tell_after(0.01, address, "canceled").cancel()
    timer.tell_after(0.02, address, "sent")
    assert recorder.complete.wait(5)
    assert recorder.received == ["sent"]


def test_an_actor_that_is_gone_harms_nobody_else(timer: Timer):
    gone, _ = record(1)
    gone.stop()
    address, recorder = record(1)
    timer.tell_after(0.0, gone, "lost")
    timer.tell_after(0.01, address, "sent")
    assert recorder.complete.wait(5)


def test_an_earlier_alarm_wakes_a_timer_that_waits_for_a_later_one(timer: Timer):
    address, recorder = record(1)
    timer.tell_after(3600, address, "much later")
    timer.tell_after(0.01, address, "soon")
    assert recorder.complete.wait(5)
    assert recorder.received == ["soon"]
