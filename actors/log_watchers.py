"""Log watchers: the readers that wait for a job's log to grow."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Self


class LogWatchers:
    """The current readers of each log, which is a file. Safe in any thread.

    A log is that of a job or of a build's render; its name is the job's or the build's UUID. Readers of a build are
    also woken after each change of its jobs' states. Who waits for the outcome of a push watches the
    repository's UUID instead.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed: defaultdict[str, set[threading.Event]] = defaultdict(set)

    def __len__(self) -> int:
        """Return the number of logs that have a reader."""
        return len(self._changed)

    def notify(self, uuid: str) -> None:
        """Wake the readers of a log, because it grew or the state of its job changed."""
        with self._lock:
            for changed in self._changed.get(uuid, ()):
                changed.set()

    def watch(self, uuid: str) -> Watch:
        """Return a context manager to wait for changes of a log."""
        return Watch(self, uuid)

    def add(self, uuid: str, changed: threading.Event) -> None:
        """Set an event at each change of a log from now on."""
        with self._lock:
            self._changed[uuid].add(changed)

    def remove(self, uuid: str, changed: threading.Event) -> None:
        """Forget an event."""
        with self._lock:
            self._changed[uuid].discard(changed)
            if not self._changed[uuid]:
                del self._changed[uuid]


class Watch:
    """One reader's wait for changes of a log; a context manager.

    Enter first, then read the log, then wait: a change after the read ends the wait.
    """

    def __init__(self, watchers: LogWatchers, uuid: str) -> None:
        self._watchers = watchers
        self._uuid = uuid
        self._changed = threading.Event()

    def __enter__(self) -> Self:
        self._watchers.add(self._uuid, self._changed)
        return self

    def __exit__(self, *_: object) -> None:
        self._watchers.remove(self._uuid, self._changed)

    def wait(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for a change since the last wait. Blocks the calling thread.

        A change that comes just as the time runs out is left for the next wait.
        """
        changed = self._changed.wait(timeout)
        if changed:
            self._changed.clear()
        return changed
