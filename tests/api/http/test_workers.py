from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from api.http.workers import WorkerPool
from tests.waiting import until


class RecordingTask:
    """A task that records the thread that runs it."""

    def __init__(self, work: Callable[[], object] = lambda: None) -> None:
        self._work = work
        self.thread: threading.Thread | None = None
        self.done = threading.Event()
        self.canceled = False

    def service(self) -> None:
        self.thread = threading.current_thread()
        try:
            self._work()
        finally:
            self.done.set()

    def cancel(self) -> None:
        self.canceled = True


def test_threads_are_made_when_they_are_needed():
    workers = WorkerPool(3)
    hold = threading.Event()
    tasks = [RecordingTask(hold.wait) for _ in range(5)]
    assert workers.alive == 0
    for task in tasks:
        workers.add_task(task)
    assert workers.alive == 3
    hold.set()

    assert all(task.done.wait(5) for task in tasks)
    workers.close(5)
    assert workers.alive == 0


def test_the_worker_that_rested_last_works_next():
    workers = WorkerPool(3)
    hold = threading.Event()
    held = [RecordingTask(hold.wait) for _ in range(3)]
    for task in held:
        workers.add_task(task)
    hold.set()
    assert all(task.done.wait(5) for task in held)
    threads = set()
    for _ in range(20):
        until(lambda: workers.idle == 3, "three resting threads")
        task = RecordingTask()
        workers.add_task(task)
        assert task.done.wait(5)
        threads.add(task.thread)

    assert len(threads) == 1
    workers.close(5)


def test_a_task_that_fails_costs_no_worker(caplog: pytest.LogCaptureFixture):
    def fail() -> None:
        raise ValueError("of the test")

    workers = WorkerPool(1)
    failing, next_one = RecordingTask(fail), RecordingTask()
    workers.add_task(failing)
    workers.add_task(next_one)

    assert next_one.done.wait(5)
    assert next_one.thread is failing.thread
    assert "of the test" in caplog.text
    workers.close(5)


def test_closing_waits_and_cancels_tasks_not_begun():
    workers = WorkerPool(1)
    hold = threading.Event()
    working, waiting, late = RecordingTask(hold.wait), RecordingTask(), RecordingTask()
    workers.add_task(working)
    workers.add_task(waiting)
    workers.close(0.05)

    assert workers.alive == 1
    assert waiting.canceled
    assert not waiting.done.is_set()
    workers.add_task(late)
    hold.set()
    workers.close(5)
    assert workers.alive == 0
    assert late.canceled
