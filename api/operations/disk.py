"""The disk of the host, and what of the service takes how much of it, for its owner."""

from __future__ import annotations

import os

from actors.cleanup import KeptBytes, kept_bytes
from api.operations.operation import GET, Call, owners_operation
from storage import immutable

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
