"""Admission: the host starts nothing while its owner has drained it, or its disk takes no files."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from storage import immutable, why_no_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from storage import Clock, Storage

_GB = 2**30

_GOOD_SECONDS = 1.0
"""Seconds for which the lease pool, which asks often, believes that the folders take files."""


@immutable
class AdmissionBlock:
    """The reason why nothing starts, as a phrase; freeing ``lacking`` bytes of disk would end it."""

    reason: str
    lacking: int = 0


def admission_block(
    storage: Storage, low_disk_gb: float, look: Callable[[Path], str | None] | None = None
) -> AdmissionBlock | None:
    """Return why nothing may start, or None if jobs may. Running jobs go on either way.

    ``look`` tells why the folders in the state directory take no files: `why_no_files`, unless it is given.
    """
    if storage.switches.drained_since() is not None:
        return AdmissionBlock("the owner has drained this host")
    free, low = shutil.disk_usage(storage.directory).free, int(low_disk_gb * _GB)
    if free >= low:
        hindrance = (look or why_no_files)(storage.directory)
        return None if hindrance is None else AdmissionBlock(f"{hindrance}: until then nothing starts")
    reason = f"the host's disk has {free / _GB:.1f} GB left, below {low_disk_gb:g} GB nothing starts"
    return AdmissionBlock(reason, low - free)


class Admission:
    """Decides for the lease pool whether any job may start, and asks for room on a nearly full disk.

    For the pool's thread only.
    """

    def __init__(self, storage: Storage, clock: Clock, ask_for_room: Callable[[int], None], pause: float) -> None:
        """Ask for missing bytes of disk by ``ask_for_room``, at most every ``pause`` seconds."""
        self._storage = storage
        self._clock = clock
        self._ask_for_room = ask_for_room
        self._pause = pause
        self._asked_at = float("-inf")
        self._good_until = float("-inf")
        self.draining = False
        """True while the service is about to stop."""
        self.drained = False
        """True if the owner had drained the host at the last `check`."""

    @property
    def changed(self) -> bool:
        """True if the owner has drained or resumed the host since the last `check`."""
        return self._is_drained() is not self.drained

    def check(self, low_disk_gb: float) -> str | None:
        """Return the reason why nothing may start, or None; ask for room if the disk is short."""
        self.drained = self._is_drained()
        if self.draining:
            return "the service is draining"
        block = admission_block(self._storage, low_disk_gb, self._look)
        now = self._clock.monotonic()
        if block is not None and block.lacking and now - self._asked_at >= self._pause:
            self._asked_at = now
            self._ask_for_room(block.lacking)
        return None if block is None else block.reason

    def _look(self, directory: Path) -> str | None:
        now = self._clock.monotonic()
        if now < self._good_until:
            return None
        hindrance = why_no_files(directory)
        if hindrance is None:
            self._good_until = now + _GOOD_SECONDS
        return hindrance

    def _is_drained(self) -> bool:
        return self._storage.switches.drained_since() is not None
