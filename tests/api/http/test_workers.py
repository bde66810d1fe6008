from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from queue import Empty, SimpleQueue

import pytest

from api.http import workers as workers_module
from api.http.workers import Caller, CallerKind, Workers
from tests.waiting import until

LIMIT = 3
REPORT = Caller(CallerKind.REPORT)
ADA, BOB = (Caller(CallerKind.KNOWN, name) for name in ("ada", "bob"))


class RecordingTask:
    """A task that records the thread that runs it."""

    def __init__(self, work: Callable[[], object] = lambda: None, caller: Caller = ADA) -> None:
        self.caller = caller
        self._work = work
        self.thread: threading.Thread | None = None
        self.begun = threading.Event()
        self.done = threading.Event()
        self.canceled = False

    def service(self) -> None:
        self.thread = threading.current_thread()
        self.begun.set()
        try:
            self._work()
        finally:
            self.done.set()

    def cancel(self) -> None:
        self.canceled = True


WAKE = RecordingTask()
"""Put among the tasks that arrive, it only ends a wait for them."""


class Crew:
    """Running workers, and the requests that they read."""

    def __init__(self) -> None:
        self.workers = Workers(LIMIT, self._read, lambda: self._arriving.put(WAKE))
        self.hold = threading.Event()
        self._arriving: SimpleQueue[RecordingTask | None] = SimpleQueue()
        self._watcher = threading.Thread(target=self.workers.run)
        self._watcher.start()

    def ask(self, work: Callable[[], object] = lambda: None, caller: Caller = ADA) -> RecordingTask:
        task = RecordingTask(work, caller)
        self._arriving.put(task)
        return task

    def ask_for_long(self) -> RecordingTask:
        task = self.ask(self.hold.wait)
        assert task.begun.wait(60)
        return task

    def end(self, timeout: float = 60.0) -> None:
        self._arriving.put(None)
        self._watcher.join(60)
        self.workers.close(timeout)

    def _read(self, seconds: float) -> bool:
        try:
            task = self._arriving.get(timeout=seconds)
        except Empty:
            return True
        if task is not None and task is not WAKE:
            self.workers.add_task(task)
        return task is not None


@pytest.fixture
def crew() -> Iterator[Crew]:
    crew = Crew()
    yield crew
    crew.hold.set()
    crew.end()
    assert crew.workers.alive == 0


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no task take so long that it loses the lead."""
    monkeypatch.setattr(workers_module, "_LONG_SECONDS", 600.0)


@pytest.mark.usefixtures("patience")
def test_one_thread_reads_and_serves_short_tasks(crew: Crew):
    tasks = [crew.ask() for _ in range(20)]
    assert all(task.done.wait(60) for task in tasks)

    assert len({task.thread for task in tasks}) == 1
    assert crew.workers.alive == 1


def test_a_long_task_holds_up_no_other(crew: Crew):
    long = crew.ask_for_long()
    short = crew.ask()

    assert short.done.wait(60)
    assert not long.done.is_set()
    assert short.thread is not long.thread


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("for_disk", [False, True])
def test_the_time_in_which_a_task_computes_nothing_is_told(
    crew: Crew, monkeypatch: pytest.MonkeyPatch, *, for_disk: bool
):
    """Also if it waits for the interpreter, beside a page that computes. But not if for the disk."""
    told: SimpleQueue[float] = SimpleQueue()
    end = workers_module.Turns.end

    def told_end(turns: workers_module.Turns, task: RecordingTask, *, delay: float = 0.0, **how: bool) -> bool:
        told.put(delay)
        return end(turns, task, delay=delay, **how)

    monkeypatch.setattr(workers_module.Turns, "end", told_end)
    wait = partial(crew.workers.wait_for_disk, lambda: crew.hold.wait() and None) if for_disk else crew.hold.wait
    long = crew.ask(wait)
    assert long.begun.wait(60)
    began = time.monotonic()
    until(lambda: time.monotonic() - began > 0.5, "some time to pass")
    crew.hold.set()
    assert long.done.wait(60)
    assert (told.get(timeout=60) > 0.25) is not for_disk


@pytest.mark.usefixtures("patience")
def test_a_task_that_will_wait_gives_the_lead_away(crew: Crew):
    alive = []

    def wait() -> None:
        for _ in range(3):
            crew.workers.hand_over()
            alive.append(crew.workers.alive)
        crew.hold.wait()

    waiting = crew.ask(wait)
    assert crew.ask().done.wait(60)
    assert not waiting.done.is_set()
    until(lambda: len(alive) == 3, "the third time that it gives the lead away")
    assert alive == [2, 2, 2]


def test_a_thread_that_lost_the_lead_ends_after_its_task(crew: Crew):
    crew.ask_for_long()
    until(lambda: crew.workers.alive == 2, "another thread that leads")
    crew.hold.set()

    until(lambda: crew.workers.alive == 1, "the end of the thread")


def test_tasks_above_the_limit_wait_for_a_thread(crew: Crew):
    for _ in range(LIMIT):
        crew.ask_for_long()
    until(lambda: crew.workers.alive == LIMIT + 1, "a thread that reads")
    left = [crew.ask() for _ in range(2)]
    until(lambda: crew.workers.waiting == 2, "the tasks that were read")
    assert not any(task.begun.is_set() for task in left)
    crew.hold.set()

    assert all(task.done.wait(60) for task in left)


@pytest.mark.usefixtures("patience")
def test_a_callers_next_task_waits_for_the_one_before(crew: Crew):
    """Another caller's does not; one that waits for something lets it begin."""
    released = threading.Event()

    def wait() -> None:
        released.wait(60)
        crew.workers.hand_over()
        crew.hold.wait()

    first = crew.ask(wait)
    assert first.begun.wait(60)
    second = crew.ask()
    released.set()
    assert second.done.wait(60)
    assert not first.done.is_set()


def test_a_caller_with_many_tasks_keeps_no_other_waiting(crew: Crew):
    order: list[str] = []
    blocking = [crew.ask_for_long() for _ in range(LIMIT)]
    left = [crew.ask(partial(order.append, "ada")) for _ in range(20)]
    left.append(crew.ask(partial(order.append, "bob"), BOB))
    until(lambda: crew.workers.waiting == len(left), "the tasks that were read")
    crew.hold.set()

    assert all(task.done.wait(60) for task in (*blocking, *left))
    assert order.index("bob") < 4


def test_others_are_read_while_the_tasks_of_one_caller_wait(crew: Crew):
    order: list[str] = []

    def work() -> None:
        threading.Event().wait(0.001)
        order.append("ada")

    gate = crew.ask_for_long()
    tasks = [RecordingTask(work) for _ in range(300)]
    for task in tasks:
        crew.workers.add_task(task)
    crew.hold.set()
    assert gate.done.wait(60)
    assert crew.ask(partial(order.append, "bob"), BOB).done.wait(60)

    assert all(task.done.wait(60) for task in tasks)
    assert order.index("bob") < len(tasks) // 2


def test_a_host_without_threads_delays_tasks_only(crew: Crew, monkeypatch: pytest.MonkeyPatch):
    refused = threading.Event()

    def refuse(_thread: threading.Thread) -> None:
        refused.set()
        raise RuntimeError("can't start new thread")

    assert crew.ask().done.wait(60)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        crew.ask_for_long()
        assert refused.wait(60)
        waiting = crew.ask()

    assert waiting.done.wait(60)


def test_a_task_that_fails_costs_no_worker(crew: Crew, caplog: pytest.LogCaptureFixture):
    def fail() -> None:
        raise ValueError("of the test")

    crew.ask(fail)

    assert crew.ask().done.wait(60)
    until(lambda: "of the test" in caplog.text, "the error in the log")


@pytest.mark.usefixtures("patience")
def test_a_tasks_context_ends_with_it(crew: Crew):
    """Or a line of the log would have the id of a request that is over."""

    variable, seen = ContextVar("variable", default="unset"), []
    crew.ask(lambda: variable.set("of the first"))
    second = crew.ask(lambda: seen.append(variable.get()))

    assert second.done.wait(60)
    assert seen == ["unset"]


def test_closing_waits_and_cancels_tasks_not_begun(crew: Crew):
    long = [crew.ask_for_long() for _ in range(LIMIT)]
    left = [crew.ask(), crew.ask(caller=REPORT)]
    crew.end(0.05)
    assert crew.workers.alive == LIMIT
    assert all(task.canceled and not task.begun.is_set() for task in left)
    crew.hold.set()

    assert all(task.done.wait(60) for task in long)


def test_reading_that_fails_ends_the_workers(monkeypatch: pytest.MonkeyPatch):
    def fail(_seconds: float) -> bool:
        raise OSError("of the test")

    failures: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    workers = Workers(LIMIT, fail, lambda: None)
    workers.run()
    workers.close(60)

    assert str(failures[0].exc_value) == "of the test"
