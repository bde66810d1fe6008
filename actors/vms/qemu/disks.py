"""The disks of machines, and those of images below them (engine.md, "Leases").

A machine's disk is a qcow2 overlay on an image's disk, and is kept as a snapshot. It is one folder for its whole life:
below its VM's folder, and as a snapshot, in which it becomes by one rename:

    vms/ID/disk/         overlay (its writes), chain (the layers below it)
    vms/ID/services/     an overlay on an image's disk for each service, which is gone with the VM
    snapshots/NAME/      the same

An image's disk is a file system in a sparse file, made once, without root or loop mounts.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import struct
import subprocess
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote
from uuid import UUID

from actors.vms.host.vms import (
    LayerChain,
    SnapshotInUse,
    check_disk_name,
    check_snapshot_free,
    stamp_of,
    sync_snapshots,
)
from actors.vms.provider import ImageNotFound, SnapshotNotFound, VmError, VmLost
from storage import immutable
from storage.files import sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from actors.vms.host.ids import IdMap
    from actors.vms.host.vms import ImageRoots
    from actors.vms.host.zygote import Zygote


_OVERLAY, _CHAIN = "overlay", "chain"
_OPTIONS = "cluster_size=8k"
"""The default is 64 KiB, which each block of a guest's file system would take.

With extended entries, which allow for less, QEMU 7.2 ends as it merges layers.
"""


@immutable
class Disk:
    """A disk of so many bytes, and the files of its layers above the image: its own first."""

    size: int
    layers: tuple[Path, ...]


class Disks:
    """All disks and snapshots of one provider. Every call may block; none needs a lock."""

    def __init__(self, vms: Path, snapshots: Path) -> None:
        snapshots.mkdir(exist_ok=True)
        self._vms = vms
        self._snapshots = snapshots

    def make(self, vm_id: str, chain: LayerChain, at_least: int) -> Disk:
        """Make the disk of a VM over a chain, no smaller than its parent's. Raises VmError."""
        folder = self._folder(vm_id)
        folder.mkdir()
        (folder / _CHAIN).write_bytes(chain.dumps())
        below = [self._snapshots / layer for layer in chain.layers]
        size = max([at_least, *map(_virtual_size, below)])
        overlay = folder / _OVERLAY
        _make_overlay(overlay, size)
        return Disk(size, (overlay, *below))

    def make_for_services(
        self, vm_id: str, names: Iterable[str], at_least: int, images: Sequence[Path]
    ) -> list[tuple[Path, Path]]:
        """Make the disks of a VM's services over those of their images; return both layers of each.

        They are gone with the VM. Raises VmError.
        """
        disks = []
        for name, image in zip(names, images, strict=True):
            overlay = self._of_services(vm_id) / name
            overlay.parent.mkdir(exist_ok=True)
            _make_overlay(overlay, max(at_least, image.stat().st_size))
            disks.append((overlay, image))
        return disks

    def chain_on(self, snapshot: str) -> LayerChain:
        """Return the chain of a disk that starts from this snapshot. Raises SnapshotNotFound."""
        try:
            below = LayerChain.load(self._snapshots / check_disk_name(snapshot) / _CHAIN)
        except LookupError as error:
            message = f"no snapshot {snapshot!r} is in the store: the job that made it has to run again"
            raise SnapshotNotFound(message) from error
        return LayerChain(below.image, below.stamp, (f"{snapshot}/{_OVERLAY}", *below.layers))

    def used_bytes(self, vm_id: str) -> int:
        """Return the bytes that a VM's own layers take on the host's disk. Raises VmLost if there is none."""
        services = self._of_services(vm_id)
        try:
            beside = sum(map(_bytes, services.iterdir())) if services.exists() else 0
            return _bytes(self._folder(vm_id) / _OVERLAY) + beside
        except FileNotFoundError as error:
            message = f"VM {vm_id} has no disk"
            raise VmLost(message) from error

    def snapshot_bytes(self, snapshot: str) -> int:
        """Return the bytes of a snapshot's own layer; 0 if there is no such snapshot."""
        with suppress(FileNotFoundError):
            return _bytes(self._snapshots / check_disk_name(snapshot) / _OVERLAY)
        return 0

    def snapshots(self) -> set[str]:
        """Return the names of all snapshots."""
        return {path.name for path in self._snapshots.iterdir()}

    def check_free(self, vm_id: str, snapshot: str) -> bool:
        """Tell whether the VM's disk must yet become this snapshot. Raises VmError and VmLost if it cannot."""
        kept = (self._snapshots / check_disk_name(snapshot)).exists()
        has_disk = (self._folder(vm_id) / _CHAIN).exists()
        check_snapshot_free(vm_id, snapshot, has_disk=has_disk, kept=kept)
        return has_disk

    def note_flat(self, vm_id: str) -> None:
        """Note that a VM's own layer now lies on the image itself."""
        chain = self._folder(vm_id) / _CHAIN
        noted = chain.with_suffix(".new")
        noted.write_bytes(replace(LayerChain.load(chain), layers=()).dumps())
        noted.rename(chain)

    def keep(self, vm_id: str, snapshot: str) -> None:
        """Make a snapshot, synced, of the disk of a VM that has ended. Raises VmError."""
        sync_snapshots(self._snapshots)
        self._folder(vm_id).rename(self._snapshots / snapshot)
        sync_snapshots(self._snapshots)

    def remove_snapshot(self, snapshot: str) -> None:
        """Free a snapshot; unknown names are fine. Raises SnapshotInUse."""
        check_disk_name(snapshot)
        if user := next((name for name, chain in self._chains() if snapshot in chain.snapshots), None):
            message = f"snapshot {snapshot!r} is in use: {user} starts from it"
            raise SnapshotInUse(message)
        with suppress(FileNotFoundError):
            shutil.rmtree(self._snapshots / snapshot)

    def _folder(self, vm_id: str) -> Path:
        return self._vms / check_disk_name(vm_id) / "disk"

    def _of_services(self, vm_id: str) -> Path:
        return self._vms / check_disk_name(vm_id) / "services"

    def _chains(self) -> Iterator[tuple[str, LayerChain]]:
        """Yield each disk and snapshot, as a phrase, with its chain."""
        disks = ((f"disk {path.name}", path / "disk") for path in self._vms.iterdir())
        snapshots = ((f"snapshot {path.name}", path) for path in self._snapshots.iterdir())
        for phrase, folder in (*disks, *snapshots):
            with suppress(LookupError):
                yield phrase, LayerChain.load(folder / _CHAIN)


def _make_overlay(overlay: Path, size: int) -> None:
    argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-o", _OPTIONS, str(overlay), str(size)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        message = "qemu-img is not installed: run `sudo apt-get install -y qemu-utils`"
        raise VmError(message) from error
    if done.returncode != 0:
        message = f"the disk {overlay} cannot be made: {done.stderr.strip()}"
        raise VmError(message)


def _bytes(overlay: Path) -> int:
    return overlay.stat().st_blocks * 512


def _virtual_size(overlay: Path) -> int:
    """Read the size of a disk from the header of its qcow2 file, which the service has made."""
    with overlay.open("rb") as file:
        file.seek(24)
        return int(struct.unpack(">Q", file.read(8))[0])


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
disk half a megabyte as it grows, and for nothing: a disk is frozen before it becomes a snapshot, and is lost if its
machine ended without that.
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
