"""Folders of a test that are found and removed when the test was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


class ClaimedFolder:
    """A new folder ``parent/PREFIX-…``, whose lock tells that its test still runs.

    What tests that were killed left of the same prefix is removed first; ``forget`` gets the name of each such folder,
    to remove what is not in it.
    """

    def __init__(self, parent: Path, prefix: str, forget: Callable[[str], None]) -> None:
        parent.mkdir(parents=True, exist_ok=True)
        with (parent / f"{prefix}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a folder that is made but not yet locked looks abandoned
            _remove_abandoned(parent, prefix, forget)
            self.path = Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=parent))
            self._lock = os.open(self.path, os.O_RDONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove the folder with all in it."""
        shutil.rmtree(self.path)
        os.close(self._lock)


def _remove_abandoned(parent: Path, prefix: str, forget: Callable[[str], None]) -> None:
    for left in parent.glob(f"{prefix}-*"):
        with suppress(OSError):
            descriptor = os.open(left, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                forget(left.name)
                shutil.rmtree(left)
            finally:
                os.close(descriptor)
