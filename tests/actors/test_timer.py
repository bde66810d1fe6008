from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field

import pykka
import pytest

from actors.addresses import Address
from actors.timer import Timer
from storage import SystemClock


@dataclass
class Record:
    """The messages that an actor received; it is complete with as many as are expected."""

    expected: int
    received: list[object] = field(default_factory=list)
    complete: threading.Event = field(default_factory=threading.Event)


class Text(str):
    """A text that can be referred to weakly."""

    __slots__ = ("__weakref__",)


class Recorder(pykka.ThreadingActor):
    def __init__(self, record: Record) -> None:
        super().__init__()
        self._record = record

    def on_receive(self, message: object) -> None:
        self._record.received.append(message)
        if len(self._record.received) == self._record.expected:
            self._record.complete.set()


@pytest.fixture
def timer() -> Iterator[Timer]:
    timer = Timer(SystemClock())
    timer.start()
    yield timer
    timer.stop()
    pykka.ActorRegistry.stop_all()


def record(expected: int) -> tuple[Address[str], Record]:
    kept = Record(expected)
    return Address(Recorder.start(kept)), kept


def test_messages_come_in_the_order_in_which_they_are_due(timer: Timer):
    address, recorder = record(3)
    timer.tell_after(0.06, address, "third")
    timer.tell_after(0.02, address, "first")
    timer.tell_after(0.04, address, "second")
    assert recorder.complete.wait(60)
    assert recorder.received == ["first", "second", "third"]


def test_a_canceled_alarm_is_not_sent(timer: Timer):
    address, recorder = record(1)
    timer.tell_after(0.01, address, "canceled").cancel()
    timer.tell_after(0.02, address, "sent")
    assert recorder.complete.wait(60)
    assert recorder.received == ["sent"]


def test_canceled_alarms_are_not_kept_until_they_are_due(timer: Timer):
    address, recorder = record(1)
    timer.tell_after(0.05, address, "sent")
    messages: weakref.WeakSet[Text] = weakref.WeakSet()
    for number in range(1000):
        messages.add(message := Text(number))
        timer.tell_after(3600, address, message).cancel()
    del message
    assert len(messages) < 100
    assert recorder.complete.wait(60)
    assert recorder.received == ["sent"]


def test_a_dead_actor_does_not_affect_others(timer: Timer):
    gone, _ = record(1)
    gone.stop()
    address, recorder = record(1)
    timer.tell_after(0.0, gone, "lost")
    timer.tell_after(0.01, address, "sent")
    assert recorder.complete.wait(60)


def test_an_earlier_alarm_wakes_a_timer_with_a_later_one(timer: Timer):
    address, recorder = record(1)
    timer.tell_after(3600, address, "much later")
    timer.tell_after(0.01, address, "soon")
    assert recorder.complete.wait(60)
    assert recorder.received == ["soon"]
