"""Admission block: the host starts nothing while its owner has drained it or its disk is nearly full."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage import Storage

__all__ = ["Standstill", "standstill"]

_GB = 2**30


@dataclass(frozen=True, slots=True)
class Standstill:
    """The reason why nothing starts, as a phrase; freeing ``lacking`` bytes of disk would end it."""

    reason: str
    lacking: int = 0


def standstill(storage: Storage, low_disk_gb: float) -> Standstill | None:
    """Return why nothing may start, or None if jobs may. Running jobs go on either way."""
    if storage.switches.drained_since() is not None:
        return Standstill("the owner has drained this host")
    free, low = shutil.disk_usage(storage.directory).free, int(low_disk_gb * _GB)
    if free >= low:
        return None
    reason = f"the host's disk has {free / _GB:.1f} GB left, below {low_disk_gb:g} GB nothing starts"
    return Standstill(reason, low - free)
