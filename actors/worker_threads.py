"""Threads that rest between tasks, so that a task seldom costs a new one."""

from __future__ import annotations

import threading
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_REST_SECONDS = 10.0


class Running:
    """A function that a worker thread runs, by its name."""

    def __init__(self, name: str, function: Callable[[], object]) -> None:
        self.name = name
        self._function = function
        self._ended = threading.Event()

    def run(self) -> None:
        """Run it, on the worker thread. The function raises nothing."""
        try:
            self._function()
        finally:
            self._ended.set()

    @property
    def ended(self) -> bool:
        """True once it has ended."""
        return self._ended.is_set()

    def wait(self, seconds: float) -> None:
        """Wait for its end, at most that long."""
        self._ended.wait(seconds)


class WorkerThreads:
    """As many threads as functions run at once; each ends when it has rested for ten seconds.

    Safe in any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._resting: list[SimpleQueue[Running]] = []

    def start(self, name: str, function: Callable[[], object]) -> Running:
        """Run a function that raises nothing.

        Raises RuntimeError if no thread rests and the host has no other.
        """
        running = Running(name, function)
        with self._lock:
            tasks = self._resting.pop() if self._resting else None
        if tasks is None:
            threading.Thread(target=self._work, args=(running,), name=name, daemon=True).start()
        else:
            tasks.put(running)
        return running

    def _work(self, running: Running) -> None:
        tasks: SimpleQueue[Running] = SimpleQueue()
        thread = threading.current_thread()
        while True:
            thread.name = running.name
            running.run()
            thread.name = "resting"
            with self._lock:
                self._resting.append(tasks)
            try:
                running = tasks.get(timeout=_REST_SECONDS)
            except Empty:
                with self._lock, suppress(ValueError):
                    self._resting.remove(tasks)
                    return
                running = tasks.get()  # it was given a task at the last moment
