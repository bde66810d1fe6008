"""The parts that a job brings to a machine that waits: they arrive one by one while it runs."""

from __future__ import annotations

import _socket
import fcntl
import marshal
import os
import struct

from .. import outer
from ..kernel import MS_REMOUNT, copy_of_mount, mount
from .words import SEED_PART_BYTES

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_DEVICE = "/dev/vdc"
_FOLDER = f"{outer.FOLDER}/disk"
_CPU = "/sys/devices/system/cpu/cpu%d/online"
_DIRTY = "/proc/sys/vm/dirty_"
_DIRTY_LIMITS = {"expire_centisecs": 500, "background_bytes": 16 << 20, "bytes": 64 << 20}
"""Limits of data that is in memory alone.

It is on the disk, and so counted by the service, a few seconds after it was written, and what a snapshot has to write
does not grow with what the job wrote, nor with its memory. The host keeps in memory what comes to the disk.
"""

_NETLINK_KOBJECT_UEVENT = 15
_EVENT_BYTES = 1 << 13
_BLOCK_BYTES = 4096
_BLKGETSIZE64 = 0x80081272
_BLKFLSBUF = 0x1261
_EXT4_IOC_RESIZE_FS = 0x40086610
_GB = 1 << 30


class Arrivals:
    """The kernel's messages about devices that come."""

    def __init__(self) -> None:
        """Listen, from before any part can come."""
        self._events = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_DGRAM, _NETLINK_KOBJECT_UEVENT)
        self._events.bind((0, 1))
        self._memory_bytes = present_memory_bytes()

    def await_disk(self) -> None:
        """Wait for the job's disk."""
        self._await(lambda: os.path.exists(_DEVICE))

    def await_shape(self, cpus: int, memory_bytes: int) -> None:
        """Wait for the job's memory and processors; the first GB and processor are there from the boot on."""
        for number in range(1, cpus):
            self._await(lambda: os.path.exists(_CPU % number))  # noqa: B023 - called in this turn alone
            with open(_CPU % number, "wb", buffering=0) as file:
                file.write(b"1")
        self._await(lambda: present_memory_bytes() >= self._memory_bytes + memory_bytes - _GB)

    def _await(self, come: Callable[[], bool]) -> None:
        while not come():
            try:
                self._events.recv(_EVENT_BYTES)
            except OSError:  # there were more than the kernel keeps
                continue


def job_of(seed: str) -> dict[str, Any]:
    """Return what the service has written of the job, anew from the device."""
    device = os.open(seed, os.O_RDONLY)
    fcntl.ioctl(device, _BLKFLSBUF)
    content = os.pread(device, SEED_PART_BYTES, SEED_PART_BYTES)
    os.close(device)
    job: dict[str, Any] = marshal.loads(content)  # noqa: S302 - from the service itself
    return job


def mounted_disk() -> tuple[int, int]:
    """Mount the job's disk, grown to the size of its device.

    Returns descriptors of its root and of a new file beside it for the command's output. Raises OSError. What is new of
    a disk is zero, so its tables of inodes need not be made so: the kernel would do it at once as it grows, if told
    before, and else later.
    """
    os.mkdir(_FOLDER, 0o700)
    mount(_DEVICE, _FOLDER, "ext4")
    for limit, value in _DIRTY_LIMITS.items():
        with open(_DIRTY + limit, "wb", buffering=0) as file:
            file.write(b"%d" % value)
    device = os.open(_DEVICE, os.O_RDONLY)
    (size,) = struct.unpack("Q", fcntl.ioctl(device, _BLKGETSIZE64, bytes(8)))
    os.close(device)
    found = os.statvfs(_FOLDER)
    if found.f_blocks * found.f_frsize < size - size // 8:
        folder = os.open(_FOLDER, os.O_RDONLY)
        fcntl.ioctl(folder, _EXT4_IOC_RESIZE_FS, struct.pack("Q", size // _BLOCK_BYTES))
        os.close(folder)
    mount(_DEVICE, _FOLDER, "ext4", MS_REMOUNT, "noinit_itable")
    command = f"{_FOLDER}/command"
    for name in os.listdir(command):
        os.unlink(f"{command}/{name}")
    output = os.open(f"{command}/output", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    return copy_of_mount(f"{_FOLDER}/root"), output


def present_memory_bytes() -> int:
    """Return the memory that the kernel has by now."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
