"""Worker threads, which serve requests."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from typing import Protocol

# Considered: waitress's `ThreadedTaskDispatcher` starts every thread at once and wakes them in turn. A
# `ThreadPoolExecutor` wakes them in turn too, cannot tell a connection that its request was dropped, and keeps the
# process alive while a request runs.

__all__ = ["Task", "WorkerPool"]

_log = logging.getLogger(__name__)


class Task(Protocol):
    """Work for a worker thread: a connection with a request on it."""

    def service(self) -> None:
        """Do the work. Runs in a worker thread."""
        ...

    def cancel(self) -> None:
        """Called when the task is dropped."""
        ...


class WorkerPool:
    """Up to ``limit`` threads, started when they are needed.

    The worker that became idle last gets the next task, because its caches and its thread's database connection are
    still warm. Waitress uses its workers in turn, which costs a third more per request.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)
        self._idle: list[queue.SimpleQueue[Task | None]] = []
        self._waiting: deque[Task] = deque()
        self._alive = 0
        self._closed = False

    @property
    def alive(self) -> int:
        """The number of running threads."""
        return self._alive

    @property
    def idle(self) -> int:
        """The number of threads that wait for a task."""
        return len(self._idle)

    def add_task(self, task: Task) -> None:
        """Run a task as soon as a worker is free."""
        with self._lock:
            if self._idle:
                self._idle.pop().put(task)
            elif self._alive < self._limit and not self._closed:
                self._alive += 1
                threading.Thread(target=self._work, args=(task,), name="http-worker", daemon=True).start()
            else:
                self._waiting.append(task)

    def close(self, timeout: float) -> None:
        """End the threads, waiting up to ``timeout`` seconds for busy ones; cancel tasks that did not start."""
        deadline = time.monotonic() + timeout
        with self._lock:
            self._closed = True
            abandoned, self._waiting = self._waiting, deque()
            for inbox in self._idle:
                inbox.put(None)
            self._idle.clear()
            while self._alive and (left := deadline - time.monotonic()) > 0:
                self._ended.wait(left)
        for task in abandoned:
            task.cancel()

    def _work(self, first: Task) -> None:
        inbox: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        task: Task | None = first
        while task is not None:
            try:
                task.service()
            except Exception:  # noqa: BLE001 - the boundary of a request; the worker serves the next one
                _log.exception("a request failed in its worker thread")
            task = self._next(inbox)
        with self._lock:
            self._alive -= 1
            self._ended.notify_all()

    def _next(self, inbox: queue.SimpleQueue[Task | None]) -> Task | None:
        with self._lock:
            if self._closed:
                return None
            if self._waiting:
                return self._waiting.popleft()
            self._idle.append(inbox)
        return inbox.get()
