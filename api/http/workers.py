"""Worker threads, of which one leads: it reads requests, and serves those that do not take long.

A thread gives up the GIL in every query and system call, and has it back at once unless another thread wants it. With
several threads at work, each of those calls waits for switches between threads, which together take longer than the
rest of a short request. So while requests are short only one thread works. If one takes long, another thread leads.

Patient tasks are served one after the other, with a pause after each begins, so that a thousand of them at once leave
the CPU to all else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from contextvars import copy_context
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

# Considered: waitress's `ThreadedTaskDispatcher` and other pools switch threads twice for each request, from the one
# that reads to one that serves and back, and let all that serve compete for the GIL.

__all__ = ["Task", "Workers"]

_log = logging.getLogger(__name__)

_LONG_SECONDS = 0.005
_PAUSE_SECONDS = 0.004
"""Seconds from one patient task to the next: a thousand begin while source hosts wait."""

_READ_SECONDS = 1.0


class Task(Protocol):
    """Work for a worker thread: a connection with a request on it."""

    @property
    def patient(self) -> bool:
        """True if the task can wait for a moment; it is asked when the task is added."""
        ...

    def service(self) -> None:
        """Do the work. Runs in a worker thread."""
        ...

    def cancel(self) -> None:
        """Called when the task is dropped."""
        ...


class Workers:
    """A leading thread, and up to ``limit`` others that serve slow tasks.

    The others are former leaders: each finishes a slow task and ends. The leader calls ``read`` with the most seconds
    to wait for requests; ``read`` adds them as tasks, and returns False at the end.
    """

    def __init__(self, limit: int, read: Callable[[float], bool]) -> None:
        self._limit = limit
        self._read = read
        self._tasks: deque[Task] = deque()
        self._patient: deque[Task] = deque()
        self._pause_until = 0.0
        self._lock = threading.Lock()
        self._left = threading.Condition(self._lock)
        self._alive = 0
        self._leader: int | None = None
        self._serving_since: float | None = None
        self._serving = threading.Event()
        self._ended = threading.Event()

    @property
    def alive(self) -> int:
        """The number of running threads."""
        return self._alive

    @property
    def leads(self) -> bool:
        """True in the thread that leads."""
        return self._leader == threading.get_ident()

    def add_task(self, task: Task) -> None:
        """Serve a task as soon as ``read`` returns, and after a pause if it is patient."""
        (self._patient if task.patient else self._tasks).append(task)

    def hand_over(self) -> None:
        """Let another thread lead if this one does, because its task is going to wait."""
        with self._lock:
            if self.leads:
                self._start_leader()

    def run(self) -> None:
        """Serve until ``read`` returns False. The thread that calls this only watches the one that leads."""
        with self._lock:
            self._start_leader()
        while not self._ended.is_set():
            self._serving.wait()
            self._ended.wait(_LONG_SECONDS)
            with self._lock:
                if self._serving_since is None:
                    self._serving.clear()
                elif time.monotonic() - self._serving_since >= _LONG_SECONDS:
                    self._start_leader()

    def close(self, timeout: float) -> None:
        """Cancel tasks that did not start, and wait ``timeout`` seconds for busy threads, after `run`."""
        for tasks in (self._tasks, self._patient):
            while tasks:
                tasks.popleft().cancel()
        with self._lock:
            self._left.wait_for(lambda: not self._alive, timeout)

    def _start_leader(self) -> None:
        thread = threading.Thread(target=self._work, name="http-worker", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the host has no thread left: `run` tries again soon
            return
        self._alive += 1
        self._leader, self._serving_since = thread.ident, None

    def _work(self) -> None:
        try:
            while (task := self._next()) is not None:
                try:
                    copy_context().run(task.service)
                except Exception:  # noqa: BLE001 - the boundary of a request; the worker serves the next one
                    _log.exception("a request failed in its worker thread")
        finally:
            if self.leads:
                self._end()

    def _next(self) -> Task | None:
        """Return this thread's next task, which the leader reads first; None if the thread ends."""
        with self._lock:
            if self.leads:
                self._serving_since = None
            elif self._is_full() and (task := self._take()) is not None:
                return task
            else:
                self._leave()
                return None
        while True:
            if self._tasks or self._patient:
                with self._lock:
                    if not self._is_full() and (task := self._take()) is not None:
                        self._serving_since = time.monotonic()
                        if not self._serving.is_set():
                            self._serving.set()
                        return task
            if not self._read(self._seconds_to_read()):
                return None

    def _take(self) -> Task | None:
        """Remove and return the task to serve now.

        A patient one whose pause is over is first, so that none waits for ever.
        """
        now = time.monotonic()
        if self._patient and now >= self._pause_until:
            self._pause_until = now + _PAUSE_SECONDS
            return self._patient.popleft()
        return self._tasks.popleft() if self._tasks else None

    def _seconds_to_read(self) -> float:
        if not self._patient:
            return _READ_SECONDS
        left = self._pause_until - time.monotonic()
        return left if left > 0 else _PAUSE_SECONDS  # it is over, but no thread was free

    def _is_full(self) -> bool:
        """Tell whether no other thread could lead. The leader then only reads, and others take its tasks."""
        return self._alive > self._limit

    def _leave(self) -> None:
        self._alive -= 1
        self._left.notify_all()

    def _end(self) -> None:
        with self._lock:
            self._ended.set()
            self._serving.set()
            self._leave()
