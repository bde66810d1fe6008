from __future__ import annotations

import errno
import logging
import queue
import threading
from typing import TYPE_CHECKING

import pykka
import pytest

from actors.addresses import Address
from actors.messages import ChildStopped
from actors.supervision import LogContextFilter, NoThread, Supervised, WorkerThreads, set_log_context, spawn
from actors.timer import Timer
from storage import DatabaseDamaged, DatabaseUnavailable, SystemClock
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator


class Parent(pykka.ThreadingActor):
    def __init__(self, received: queue.Queue[object]) -> None:
        super().__init__()
        self._received = received

    def on_receive(self, message: object) -> None:
        self._received.put(message)


class Child(Supervised[object, str]):
    """An actor that queues messages, raises the exceptions that it is sent, and runs callables as tasks."""

    def __init__(
        self, parent: Address[ChildStopped] | None, seen: queue.Queue[object], timer: Timer | None = None
    ) -> None:
        super().__init__(timer or Timer(SystemClock()), parent, retry_seconds=0.01)
        self._seen = seen

    def handle(self, message: object) -> None:
        if isinstance(message, Exception):
            raise message
        if callable(message):
            self.work("task", message)
        else:
            self._seen.put(message)

    def on_task_error(self, task: str, error: Exception) -> None:
        self._seen.put((task, error))

    def on_error(self, message: object, error: Exception) -> None:
        self._seen.put(("error", error))
        if isinstance(error, KeyError):
            raise error

    def teardown(self) -> None:
        self._seen.put("torn down")


@pytest.fixture
def received() -> queue.Queue[object]:
    """The messages to the parent."""
    return queue.Queue()


@pytest.fixture
def parent(received: queue.Queue[object]) -> Iterator[Address[ChildStopped]]:
    yield Address(Parent.start(received))
    pykka.ActorRegistry.stop_all()


@pytest.fixture
def seen() -> queue.Queue[object]:
    return queue.Queue()


def test_a_handler_that_raises_leaves_the_actor_standing(parent: Address[ChildStopped], seen: queue.Queue[object]):
    child = spawn(Child, parent, seen)
    child.post(error := ValueError("bad"))
    child.post("next")
    assert seen.get(timeout=60) == ("error", error)
    assert seen.get(timeout=60) == "next"


class Resting(Child):
    """An actor that queues each of its rests, too."""

    def __init__(self, parent: Address[ChildStopped], seen: queue.Queue[object]) -> None:
        Supervised.__init__(self, Timer(SystemClock()), parent, 0.01, lambda: seen.put("rested"))
        self._seen = seen


def test_an_actor_rests_whenever_it_waits_for_a_message(parent: Address[ChildStopped], seen: queue.Queue[object]):
    child = spawn(Resting, parent, seen)
    child.post("news")
    child.post(error := ValueError("bad"))
    assert [seen.get(timeout=60) for _ in range(5)] == ["rested", "news", "rested", ("error", error), "rested"]


class Steady(Child):
    """An actor without a job or build to fail, which raises for its first message."""

    on_error = Supervised.on_error

    def handle(self, message: object) -> None:
        self._seen.put(message)
        if self._seen.qsize() == 1:
            raise ValueError("this once")


def test_a_message_whose_handler_raised_is_handled_again(parent: Address[ChildStopped], seen: queue.Queue[object]):
    timer = Timer(SystemClock())
    timer.start()
    spawn(Steady, parent, seen, timer).post("news")
    assert [seen.get(timeout=30) for _ in range(2)] == ["news", "news"]
    timer.stop()


def test_a_parent_learns_of_its_childs_stop(
    parent: Address[ChildStopped], received: queue.Queue[object], seen: queue.Queue[object]
):
    child = spawn(Child, parent, seen)
    child.stop()
    assert seen.get(timeout=60) == "torn down"
    assert received.get(timeout=60) == ChildStopped(child.urn or "")


def test_a_parent_learns_of_its_childs_death(
    parent: Address[ChildStopped], received: queue.Queue[object], seen: queue.Queue[object]
):
    child = spawn(Child, parent, seen)
    child.post(KeyError("not even on_error can mend this"))
    assert received.get(timeout=60) == ChildStopped(child.urn or "")
    assert pykka.ActorRegistry.get_by_class(Child) == []


def test_a_tasks_result_or_error_is_a_message(parent: Address[ChildStopped], seen: queue.Queue[object]):
    child = spawn(Child, parent, seen)
    child.post(lambda: 42)
    assert seen.get(timeout=60) == 42
    error = OSError("broken")

    def broken() -> None:
        raise error

    child.post(broken)
    assert seen.get(timeout=60) == ("task", error)


def test_work_without_space_on_the_host_is_repeated(parent: Address[ChildStopped], seen: queue.Queue[object]):
    child = spawn(Child, parent, seen)
    failures = iter(
        (DatabaseUnavailable("full"), DatabaseDamaged("damaged"), OSError(errno.EMFILE, "Too many open files"))
    )

    def work() -> int:
        if error := next(failures, None):
            raise error
        return 42

    child.post(work)
    assert seen.get(timeout=60) == 42


def test_a_task_without_a_thread_waits_for_one(
    parent: Address[ChildStopped], seen: queue.Queue[object], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("actors.supervision._threads", WorkerThreads())  # none rests
    timer = Timer(SystemClock())
    timer.start()
    child = spawn(Child, parent, seen, timer)
    start, failures = threading.Thread.start, iter((True, True))

    def sometimes(thread: threading.Thread) -> None:
        if next(failures, False):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", sometimes)
    child.post(lambda: 42)
    assert seen.get(timeout=60) == 42
    timer.stop()


def test_an_actor_without_a_thread_is_not_registered(
    parent: Address[ChildStopped], seen: queue.Queue[object], monkeypatch: pytest.MonkeyPatch
):
    def never(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("actors.supervision._threads", WorkerThreads())  # none rests
    monkeypatch.setattr(threading.Thread, "start", never)
    with pytest.raises(NoThread, match="can't start"):
        spawn(Child, parent, seen)
    assert pykka.ActorRegistry.get_by_class(Child) == []


class Logging(Child):
    """An actor that queues its thread and first log context, and takes a message as its next one."""

    def begin(self) -> None:
        record = logging.makeLogRecord({})
        LogContextFilter().filter(record)
        self._seen.put((threading.get_ident(), getattr(record, "job", None)))

    def handle(self, message: object) -> None:
        set_log_context(job=str(message))


def test_an_actor_takes_over_a_thread_without_its_context(
    parent: Address[ChildStopped],
    received: queue.Queue[object],
    seen: queue.Queue[object],
    monkeypatch: pytest.MonkeyPatch,
):
    threads = WorkerThreads()
    monkeypatch.setattr("actors.supervision._threads", threads)
    first = spawn(Logging, parent, seen)
    first.post("of the first")
    thread, _ = seen.get(timeout=60)
    first.stop()
    assert isinstance(received.get(timeout=60), ChildStopped)
    until(lambda: threads.resting, "a thread that rests")
    spawn(Logging, parent, seen)
    assert [seen.get(timeout=60), seen.get(timeout=60)] == ["torn down", (thread, None)]


def test_the_mailbox_is_not_blocked_by_work(parent: Address[ChildStopped], seen: queue.Queue[object]):
    release = threading.Event()
    child = spawn(Child, parent, seen)
    child.post(lambda: release.wait(60))
    child.post("meanwhile")
    assert seen.get(timeout=60) == "meanwhile"
    release.set()
    assert seen.get(timeout=60) is True
