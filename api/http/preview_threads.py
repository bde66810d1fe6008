"""The threads that serve requests to previews, apart from those of the service.

What is behind a preview is a stranger's program, which answers when it likes, or never. Its requests take threads from
the previews of others at most, and from these only a share.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict, deque
from contextvars import copy_context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from api.http.workers import Task

_MOST, _MOST_OF_ONE = 64, 6
"""Requests to previews at once, of all and of one: browsers open six connections to a host."""

_MOST_WAITING = 100
"""Requests to one preview that wait for a thread; the connections of others are closed."""

_IDLE_SECONDS = 10.0

_log = logging.getLogger(__name__)


class PreviewThreads:
    """Serves requests to previews in their order, of each preview a few at a time. Safe in any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: OrderedDict[str, deque[Task]] = OrderedDict()
        self._served: Counter[str] = Counter()
        self._alive = self._idle = 0
        self._closed = False

    def add(self, preview: str, task: Task) -> None:
        """Serve a request to the preview with a UUID."""
        with self._changed:
            waiting = self._waiting.setdefault(preview, deque())
            if not self._closed and len(waiting) < _MOST_WAITING:
                waiting.append(task)
                if sum(map(len, self._waiting.values())) > self._idle and self._alive < _MOST:
                    self._start()
                self._changed.notify()
                return
        task.cancel()

    def close(self, timeout: float) -> None:
        """Drop what waits, and wait ``timeout`` seconds for what is served."""
        with self._changed:
            self._closed = True
            dropped = [task for tasks in self._waiting.values() for task in tasks]
            self._waiting.clear()
            self._changed.notify_all()
        for task in dropped:
            task.cancel()
        with self._changed:
            self._changed.wait_for(lambda: not self._alive, timeout)

    def _start(self) -> None:
        try:
            threading.Thread(target=self._work, name="preview-worker", daemon=True).start()
        except RuntimeError:  # the host has no thread left: one that is there serves it
            return
        self._alive += 1

    def _work(self) -> None:
        try:
            while (taken := self._next()) is not None:
                preview, task = taken
                try:
                    copy_context().run(task.service)
                except Exception:  # noqa: BLE001 - the boundary of a request; the worker serves the next one
                    _log.exception("a request to a preview failed in its worker thread")
                finally:
                    with self._changed:
                        self._served[preview] -= 1
                        if not self._served[preview]:
                            del self._served[preview]
                        self._changed.notify()
        finally:
            with self._changed:
                self._alive -= 1
                self._changed.notify_all()

    def _next(self) -> tuple[str, Task] | None:
        """Return the next request and its preview; None if there is none for a while, or at the end."""
        with self._changed:
            self._idle += 1
            try:
                while (taken := self._take()) is None:
                    if self._closed or not self._changed.wait(_IDLE_SECONDS):
                        return None
                return taken
            finally:
                self._idle -= 1

    def _take(self) -> tuple[str, Task] | None:
        preview = next((each for each in self._waiting if self._served[each] < _MOST_OF_ONE), None)
        if preview is None:
            return None
        tasks = self._waiting.pop(preview)
        task = tasks.popleft()
        if tasks:
            self._waiting[preview] = tasks
        self._served[preview] += 1
        return preview, task
