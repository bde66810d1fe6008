"""Worker threads, of which one leads: it reads requests, and serves those that do not take long.

A thread gives up the GIL in every query and system call, and has it back at once unless another thread wants it. With
several threads at work, each of those calls waits for switches between threads, which together take longer than the
rest of a short request. So while requests are short only one thread works. If one takes long, another thread leads.

Which task is served next is the subject of ``turns.py``.
"""

from __future__ import annotations

import logging
import threading
import time
from contextvars import copy_context
from typing import TYPE_CHECKING

from api.http.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from api.http.turns import Task

# Considered: waitress's `ThreadedTaskDispatcher` and other pools switch threads twice for each request, from the one
# that reads to one that serves and back, and let all that serve compete for the GIL.

_log = logging.getLogger(__name__)

_LONG_SECONDS = 0.005
_READ_SECONDS = 1.0
_UNREAD_SECONDS = 0.004
"""Seconds to serve tasks that wait before reading again: another caller may have sent something."""

_READ_SHARE = 4
"""The same as a multiple of the time to read, which thousands of connections make slow."""


class Workers:
    """A leading thread, and up to ``limit`` others that serve slow tasks.

    The others are former leaders: each finishes a slow task and ends. The leader calls ``read`` with the most seconds
    to wait for requests; ``read`` adds them as tasks, and returns False at the end. Any other thread ends that wait by
    ``wake``.
    """

    def __init__(self, limit: int, read: Callable[[float], bool], wake: Callable[[], None]) -> None:
        self._limit = limit
        self._read = read
        self._wake = wake
        self._turns = Turns()
        self._served: dict[int, Task] = {}
        self._read_by = 0.0
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
        """Serve a task in the turn of its caller, at the earliest when ``read`` returns."""
        self._turns.add(task)

    def hand_over(self) -> None:
        """Let another thread lead if this one does, because its task is going to wait."""
        task = self._served.get(threading.get_ident())
        if task is not None and self._turns.end(task, waits=True) and not self.leads:
            self._wake()
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
        for task in self._turns.empty():
            task.cancel()
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
        own = threading.get_ident()
        try:
            while (task := self._next()) is not None:
                self._served[own] = task
                try:
                    copy_context().run(task.service)
                except Exception:  # noqa: BLE001 - the boundary of a request; the worker serves the next one
                    _log.exception("a request failed in its worker thread")
                del self._served[own]
                self._turns.end(task)
        finally:
            if self.leads:
                self._end()

    def _next(self) -> Task | None:
        """Return this thread's next task, which the leader reads first; None if the thread ends."""
        with self._lock:
            if self.leads:
                self._serving_since = None
            elif self._is_full() and (task := self._turns.take()) is not None:
                return task
            else:
                self._leave()
        if not self.leads:
            if self._turns:
                self._wake()
            return None
        while (task := self._take()) is None:
            if not self._read_on():
                return None
        return task

    def _take(self) -> Task | None:
        """Return the task that the thread that leads serves now; None if it has to read first."""
        if not self._turns or time.monotonic() >= self._read_by:
            return None
        with self._lock:
            if self._is_full() or (task := self._turns.take()) is None:
                return None
            self._serving_since = time.monotonic()
            if not self._serving.is_set():
                self._serving.set()
            return task

    def _read_on(self) -> bool:
        """Read requests: at once if tasks wait, else when some come or the turn of one does."""
        began = time.monotonic()
        seconds = _READ_SECONDS
        if self._turns:
            due = self._turns.seconds() if began < self._read_by else 0.0
            seconds = _READ_SECONDS if due is None else min(due, _READ_SECONDS)
        goes_on = self._read(seconds)
        ended = time.monotonic()
        self._read_by = ended + max(_UNREAD_SECONDS, 0.0 if seconds else (ended - began) * _READ_SHARE)
        return goes_on

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
