"""The disk of the host, and the retention of what is on it, for its owner (engine.md, "Logs")."""

from __future__ import annotations

import os

from actors.cleanup import Expired, KeptBytes, expire, kept_bytes, preview
from api.operations.operation import GET, POST, Call, Refused, owners_operation
from storage import CONFIRM, immutable

_RETENTION = "/retention"
_GIB = 2**30


@immutable
class DiskUse:
    """The file system of the state directory, and what is kept on it.

    With less than ``least_free_bytes`` free, jobs do not start. ``inodes`` is 0 on a file system that has no such
    bound. ``image_bytes`` are those of all images; other state directories may share them.
    """

    bytes: int
    free_bytes: int
    least_free_bytes: int
    inodes: int
    free_inodes: int
    kept: KeptBytes
    image_bytes: int


@owners_operation("getDiskUse", GET, "/disk")
def get_disk_use(call: Call) -> DiskUse:
    """Measure the disk, and what of the service is on it."""
    found = os.statvfs(call.storage.directory)
    return DiskUse(
        bytes=found.f_blocks * found.f_frsize,
        free_bytes=found.f_bavail * found.f_frsize,
        least_free_bytes=int(call.box.pool.low_disk_gb * _GIB),
        inodes=found.f_files,
        free_inodes=found.f_favail,
        kept=kept_bytes(call.storage),
        image_bytes=call.box.image_bytes(),
    )


@immutable
class ConfirmedClock:
    """The seconds that the clock was set by, which the owner has confirmed; None if it was not."""

    set_by_seconds: float | None


@owners_operation("previewRetention", GET, _RETENTION)
def preview_retention(call: Call) -> Expired:
    """Find what `run_retention` would remove."""
    return preview(call.storage, call.box.retention, call.clock.now())


@owners_operation("runRetention", POST, _RETENTION)
def run_retention(call: Call) -> Expired:
    """Remove what is older than the settings allow, and what is over their budgets. Raises Refused.

    Nothing is removed before the owner has confirmed a clock that was set.
    """
    call.storage.clock_steps.read()
    if call.storage.clock_steps.jump is not None:
        raise Refused(f"nothing was removed: {CONFIRM}")
    return expire(call.storage, call.box.retention, call.clock.now())


@owners_operation("confirmClock", POST, f"{_RETENTION}/confirm")
def confirm_clock(call: Call) -> ConfirmedClock:
    """Let retention go on after the clock was set."""
    call.storage.clock_steps.read()
    jump = call.storage.clock_steps.confirm()
    return ConfirmedClock(None if jump is None else jump.by.total_seconds())
