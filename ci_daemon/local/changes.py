"""Changes of a tree while it is built again and again."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import watchfiles

from ci_daemon.submit import PackError, pack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ci_daemon.submit import Archive

_GIT = ".git"
_QUIET_MS = 200
"""Changes that follow each other faster count as one, as when an editor or git writes many files."""
_SIGNAL_SECONDS = 0.5
"""The longest wait: a signal that arrives just before a wait begins does not end it."""


class TreeChanges:
    """Watches a tree, and compares it with what was packed of it last. A context manager."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self._sha256 = ""
        self._lock = threading.Lock()
        """Held while the tree is packed or compared, so that a change is compared with all of it."""

        self._changed = threading.Event()
        self._stop = threading.Event()
        self._on_change: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._watch, name="changes", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def pack(self) -> Archive:
        """Pack the tree as it is now. Changes from here on count. Raises PackError."""
        with self._lock:
            self._changed.clear()
            self._sha256 = ""
            archive = pack(self._tree)
            self._sha256 = archive.sha256
        return archive

    def wait(self) -> None:
        """Wait until the tree differs from what was packed."""
        while not self._changed.wait(_SIGNAL_SECONDS):
            pass

    @contextmanager
    def telling(self, on_change: Callable[[], None]) -> Iterator[None]:
        """Call ``on_change`` when the tree differs meanwhile, or at once if it has since it was packed.

        It is called in the watching thread or in this one, and may not use this object.
        """
        with self._lock:
            self._on_change = on_change
            if self._changed.is_set():
                on_change()
        try:
            yield
        finally:
            self._on_change = None

    def _watch(self) -> None:
        batches = watchfiles.watch(
            self._tree,
            watch_filter=lambda _, path: _GIT not in path.split("/"),
            debounce=_QUIET_MS,
            stop_event=self._stop,
            rust_timeout=_QUIET_MS,
            ignore_permission_denied=True,
            yield_on_timeout=True,
        )
        watches = False
        for batch in batches:
            if watches and not batch:
                continue
            watches = True  # what changed before is in no batch, so the tree is compared at once
            with self._lock:
                if (batch or self._sha256) and self.differs():
                    if (on_change := self._on_change) is not None:
                        on_change()
                    self._changed.set()

    def differs(self) -> bool:
        """Tell whether the tree would pack to something else; files that git ignores make no difference."""
        try:
            return pack(self._tree).sha256 != self._sha256
        except PackError:
            return True
