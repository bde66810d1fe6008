"""A file system that loses its power: ext4 in a file, cut off without writing anything back."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from contextlib import suppress
from pathlib import Path

from tests.waiting import until

_SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN: from now on every write fails, and nothing that waits is written."""

_WITHOUT_JOURNAL = 2
"""EXT4_GOING_FLAGS_NOLOGFLUSH: what the journal has in memory is lost, too."""


class CutDisk:
    """A disk of its own below a folder, mounted at ``mount``. Only root can have one."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.mount = folder / "disk"
        self._file = folder / "disk.img"
        self.mount.mkdir()
        with self._file.open("wb") as file:
            file.truncate(megabytes << 20)
        _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,nodiscard", str(self._file))
        self.plug_in()

    def plug_in(self) -> None:
        """Mount it; the file system recovers from its journal."""
        _run("mount", "-t", "ext4", "-o", "loop", str(self._file), str(self.mount))

    def cut(self) -> None:
        """Cut its power: what nobody has synced is lost, but for what the kernel happened to write."""
        folder = os.open(self.mount, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(folder, _SHUTDOWN, struct.pack("I", _WITHOUT_JOURNAL))
        finally:
            os.close(folder)

    def unplug(self) -> None:
        """Unmount it, once nothing uses it, and wait until the kernel has forgotten what was on it."""
        device = (
            Path("/proc/self/mountinfo").read_text().partition(f" {self.mount} ")[2].partition(" /dev/")[2].split()[0]
        )
        until(self._unmounted, f"nothing to use {self.mount}")
        until(lambda: not Path("/sys/fs/ext4", device).exists(), f"the end of {device}")

    def close(self) -> None:
        """Remove it, mounted or not; its device goes with its last user."""
        with suppress(subprocess.CalledProcessError):
            _run("umount", "--lazy", str(self.mount))

    def _unmounted(self) -> bool:
        with suppress(subprocess.CalledProcessError):
            _run("umount", str(self.mount))
        return not os.path.ismount(self.mount)


def _run(*command: str) -> None:
    subprocess.run(command, capture_output=True, check=True)
