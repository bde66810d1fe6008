"""Disks of images: file systems in sparse files, made once, without root or loop mounts."""

from __future__ import annotations

import fcntl
import hashlib
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote
from uuid import UUID

from actors.vms.host.vms import stamp_of
from actors.vms.provider import ImageNotFound
from storage.files import sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.vms.host.ids import IdMap
    from actors.vms.host.vms import ImageRoots
    from actors.vms.host.zygote import Zygote

_SUFFIX = ".ext4"
_MB = 1 << 20
_LEAST_BYTES = 256 * _MB
_INODES = 1 << 16
_SECONDS = 600

_MEASURE = 'du -sxB1 -- "$1" && du -sx --inodes -- "$1"'
_MAKE = """
mount -t tmpfs -o mode=755,size=1m none /tmp
mkdir -m 755 /tmp/root
mkdir -m 700 /tmp/command
mount -c --rbind . /tmp/root
options=lazy_itable_init=1,nodiscard,root_owner=0:0
exec mke2fs -q -F -t ext4 -O ^has_journal -b 4096 -m 0 -N "$2" -E "$options" -d /tmp "$1"
"""
"""Make a file system of the working directory as `root`, beside a folder for the output of commands.

With -c, mount does not resolve the path of the folder, which may be closed to the mapped ids. A journal would cost each
disk half a megabyte as it grows, and for nothing: what becomes a snapshot was frozen, and a disk whose machine ended
otherwise is lost.
"""

_RECIPE = hashlib.sha256(_MAKE.encode()).hexdigest()[:8]
"""A part of each disk's name: those that another release has made in another way are outdated."""

_UUID_AT, _UUID_BYTES = 1024 + 104, 16
"""The place of a file system's id in its superblock."""


class ImageDisks:
    """A folder with the disks of images, which several processes may share. Safe in any thread."""

    def __init__(self, folder: Path, images: ImageRoots, idmap: IdMap, zygote: Zygote) -> None:
        """Keep the disks in ``folder``; programs of the ``zygote`` make them, where the trees can be mounted."""
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._images = images
        self._idmap = idmap
        self._zygote = zygote

    def path(self, name: str) -> Path:
        """Return the disk of an image, which is made if it is missing. Raises ImageNotFound and VmError."""
        tree = self._images.path(name)
        disk = self._place(name, tree)
        if not disk.exists():
            with self._alone():
                if not disk.exists():
                    self._remove_outdated()
                    unfinished = disk.with_suffix(".new")
                    self._make(tree, unfinished)
                    unfinished.rename(disk)
                    sync_folder(self._folder)
        return disk

    def remove_outdated(self) -> None:
        """Remove the disks of images that were removed or replaced, and of other releases.

        Running VMs have theirs open.
        """
        with self._alone():
            self._remove_outdated()

    def stamp(self, name: str) -> str:
        """Return the id of an image's disk, which is another one whenever it is made anew.

        An overlay on one disk fits no other disk, not even one of the same files. Raises ImageNotFound and VmError.
        """
        with self.path(name).open("rb") as disk:
            disk.seek(_UUID_AT)
            return str(UUID(bytes=disk.read(_UUID_BYTES)))

    def _place(self, name: str, tree: Path) -> Path:
        return self._folder / f"{quote(name, safe='')}@{stamp_of(tree)}-{_RECIPE}{_SUFFIX}"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other threads and processes from changing the folder."""
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _make(self, tree: Path, disk: Path) -> None:
        """Make a disk with some room to spare, which grows to the size of a VM's own disk when that starts."""
        printed = self._zygote.run_mapped(["sh", "-c", _MEASURE, "sh", "."], self._idmap, tree).split()
        used, inodes = int(printed[0]), int(printed[2])
        size = max(_LEAST_BYTES, used + used // 4 + inodes * 512 + 64 * _MB)
        disk.unlink(missing_ok=True)  # a program for a service that was killed may yet write to it
        descriptor = os.open(disk, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.truncate(descriptor, size // _MB * _MB)
            os.fchmod(descriptor, 0o666)  # for the ids of the tree; the folder above is closed to all others
            argv = ["timeout", str(_SECONDS), "unshare", "--mount", "sh", "-ec", _MAKE, "sh", "/proc/self/fd/3"]
            self._zygote.run_mapped([*argv, str(inodes + max(inodes // 4, _INODES))], self._idmap, tree, [descriptor])
            os.fchmod(descriptor, 0o600)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _remove_outdated(self) -> None:
        for disk in self._folder.iterdir():
            name = unquote(disk.name.rpartition("@")[0])
            with suppress(ImageNotFound):
                if disk == self._place(name, self._images.path(name)):
                    continue
            disk.unlink(missing_ok=True)
