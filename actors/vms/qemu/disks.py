"""The disks of machines: qcow2 overlays on an image's disk, kept as snapshots (engine.md, "Leases").

A disk is one folder for its whole life: below its VM's folder, and as a snapshot, in which it becomes by one rename:

    vms/ID/disk/         overlay (its writes), chain (the layers below it)
    snapshots/NAME/      the same
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from actors.vms.host.vms import LayerChain, SnapshotInUse, check_disk_name, check_snapshot_free, sync_snapshots
from actors.vms.provider import SnapshotNotFound, VmError, VmLost
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
        argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-o", _OPTIONS, str(overlay), str(size)]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            message = "qemu-img is not installed: run `sudo apt-get install -y qemu-utils`"
            raise VmError(message) from error
        if done.returncode != 0:
            message = f"the disk of VM {vm_id} cannot be made: {done.stderr.strip()}"
            raise VmError(message)
        return Disk(size, (overlay, *below))

    def chain_on(self, snapshot: str) -> LayerChain:
        """Return the chain of a disk that starts from this snapshot. Raises SnapshotNotFound."""
        try:
            below = LayerChain.load(self._snapshots / check_disk_name(snapshot) / _CHAIN)
        except LookupError as error:
            message = f"no snapshot {snapshot!r} is in the store: the job that made it has to run again"
            raise SnapshotNotFound(message) from error
        return LayerChain(below.image, below.stamp, (f"{snapshot}/{_OVERLAY}", *below.layers))

    def used_bytes(self, vm_id: str) -> int:
        """Return the bytes that a VM's own layer takes on the host's disk. Raises VmLost if there is none."""
        try:
            return _bytes(self._folder(vm_id) / _OVERLAY)
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

    def _chains(self) -> Iterator[tuple[str, LayerChain]]:
        """Yield each disk and snapshot, as a phrase, with its chain."""
        disks = ((f"disk {path.name}", path / "disk") for path in self._vms.iterdir())
        snapshots = ((f"snapshot {path.name}", path) for path in self._snapshots.iterdir())
        for phrase, folder in (*disks, *snapshots):
            with suppress(LookupError):
                yield phrase, LayerChain.load(folder / _CHAIN)


def _bytes(overlay: Path) -> int:
    return overlay.stat().st_blocks * 512


def _virtual_size(overlay: Path) -> int:
    """Read the size of a disk from the header of its qcow2 file, which the service has made."""
    with overlay.open("rb") as file:
        file.seek(24)
        return int(struct.unpack(">Q", file.read(8))[0])
