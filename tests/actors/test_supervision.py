from __future__ import annotations

import errno
import queue
import threading
import time
from typing import TYPE_CHECKING

import pykka
import pytest

from actors.messages import ChildStopped, TaskDone, TaskFailed
from actors.supervision import NoThread, Supervised
from actors.timer import Timer
from storage import DatabaseUnavailable, SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.runtime import Address


class Parent(pykka.ThreadingActor):
    def __init__(self) -> None:
        super().__init__()
        self.received: queue.Queue[object] = queue.Queue()

    def on_receive(self, message: object) -> None:
        self.received.put(message)


class Child(Supervised):
    """An actor that queues messages, raises the exceptions that it is sent, and runs callables as tasks."""

    def __init__(self, parent: Address | None, seen: queue.Queue[object], timer: Timer | None = None) -> None:
        super().__init__(timer or Timer(SystemClock()), parent)
        self._seen = seen

    def handle(self, message: object) -> None:
        if isinstance(message, Exception):
            raise message
        if callable(message):
            self.work("task", message)
        else:
            self._seen.put(message)

    def on_error(self, message: object, error: Exception) -> None:
        self._seen.put(("error", error))
        if isinstance(error, KeyError):
            raise error

    def teardown(self) -> None:
        self._seen.put("torn down")


@pytest.fixture
def parent() -> Iterator[pykka.ActorRef[Parent]]:
    yield Parent.start()
    pykka.ActorRegistry.stop_all()


@pytest.fixture
def seen() -> queue.Queue[object]:
    return queue.Queue()


def test_a_handler_that_raises_leaves_the_actor_standing(parent: Address, seen: queue.Queue[object]):
    child = Child.start(parent, seen)
    child.tell(error := ValueError("bad"))
    child.tell("next")
    assert seen.get(timeout=5) == ("error", error)
    assert seen.get(timeout=5) == "next"


class Steady(Child):
    """An actor without a job or build to fail, which raises for its first message."""

    on_error = Supervised.on_error

    def handle(self, message: object) -> None:
        self._seen.put(message)
        if self._seen.qsize() == 1:
            raise ValueError("this once")


def test_who_is_there_for_all_handles_what_raised_again(
    parent: Address, seen: queue.Queue[object], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("actors.supervision._PAUSE", 0.01)
    timer = Timer(SystemClock())
    timer.start()
    Steady.start(parent, seen, timer).tell("news")
    while seen.qsize() < 2:
        time.sleep(0.001)
    assert [seen.get(), seen.get()] == ["news", "news"]
    timer.stop()


def test_a_parent_learns_of_its_childs_stop(parent: pykka.ActorRef[Parent], seen: queue.Queue[object]):
    child = Child.start(parent, seen)
    child.stop()
    assert seen.get(timeout=5) == "torn down"
    assert parent._actor_weakref().received.get(timeout=5) == ChildStopped(child.actor_urn)


def test_a_parent_learns_of_its_childs_death(parent: pykka.ActorRef[Parent], seen: queue.Queue[object]):
    child = Child.start(parent, seen)
    child.tell(KeyError("not even on_error can mend this"))
    assert parent._actor_weakref().received.get(timeout=5) == ChildStopped(child.actor_urn)
    assert not child.is_alive()


def test_work_comes_back_as_a_message_and_so_does_its_error(parent: Address, seen: queue.Queue[object]):
    child = Child.start(parent, seen)
    child.tell(lambda: 42)
    assert seen.get(timeout=5) == TaskDone("task", 42)
    error = OSError("broken")

    def broken() -> None:
        raise error

    child.tell(broken)
    assert seen.get(timeout=5) == TaskFailed("task", error)


def test_work_that_the_storage_or_the_host_has_no_room_for_is_done_again(
    parent: Address, seen: queue.Queue[object], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("actors.supervision._PAUSE", 0.01)
    child = Child.start(parent, seen)
    failures = iter((DatabaseUnavailable("full"), OSError(errno.EMFILE, "Too many open files")))

    def work() -> int:
        if error := next(failures, None):
            raise error
        return 42

    child.tell(work)
    assert seen.get(timeout=5) == TaskDone("task", 42)


def test_work_for_which_there_is_no_thread_waits_for_one(
    parent: Address, seen: queue.Queue[object], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("actors.supervision._PAUSE", 0.01)
    timer = Timer(SystemClock())
    timer.start()
    child = Child.start(parent, seen, timer)
    start, failures = threading.Thread.start, iter((True, True))

    def sometimes(thread: threading.Thread) -> None:
        if next(failures, False):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", sometimes)
    child.tell(lambda: 42)
    assert seen.get(timeout=5) == TaskDone("task", 42)
    timer.stop()


def test_an_actor_for_which_there_is_no_thread_has_never_been(
    parent: Address, seen: queue.Queue[object], monkeypatch: pytest.MonkeyPatch
):
    def never(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", never)
    with pytest.raises(NoThread, match="can't start"):
        Child.start(parent, seen)
    assert pykka.ActorRegistry.get_by_class(Child) == []


def test_the_mailbox_is_not_blocked_by_work(parent: Address, seen: queue.Queue[object]):
    release = threading.Event()
    child = Child.start(parent, seen)
    child.tell(lambda: release.wait(10))
    child.tell("meanwhile")
    assert seen.get(timeout=5) == "meanwhile"
    release.set()
    assert seen.get(timeout=5) == TaskDone("task", True)
