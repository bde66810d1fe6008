"""A disk whose syncs of write-ahead logs a test counts, holds back, and lets fail."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import until

_SYNC = os.fdatasync


class HeldDisk:
    """Takes the place of `os.fdatasync` while a test runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.syncs = 0
        """The syncs that have ended well."""

        self.failure: OSError | None = None
        """The error of the next syncs."""

        self._waiting = 0
        self._open = threading.Event()
        self._open.set()
        monkeypatch.setattr(os, "fdatasync", self._sync)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold back all syncs until the end of the body."""
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()

    def await_sync(self) -> None:
        """Wait until a thread syncs."""
        until(lambda: self._waiting, "a sync")

    def _sync(self, file: int) -> None:
        assert Path(f"/proc/self/fd/{file}").readlink().name.endswith("-wal")
        self._waiting += 1
        assert self._open.wait(60)
        self._waiting -= 1
        if self.failure is not None:
            raise self.failure
        _SYNC(file)
        self.syncs += 1
