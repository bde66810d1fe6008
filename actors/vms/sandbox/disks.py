"""The disks of VMs: layers on an image, frozen into snapshots (engine.md, "Leases").

Everything is in one folder that belongs to the VMs' root user, so all programs that write there run inside the mapping.
A disk is one folder for its whole life, and becomes a snapshot, or trash, by a single rename:

    disks/ID/          a VM's disk: upper (its writes), work (of overlayfs), root (the mount point), chain, netns;
                       services has a folder of these for each service
    snapshots/NAME/    a disk that is kept: upper, chain; or flat, the sum of its layers, if there were too many
    trash/…            disks and snapshots that are being removed

Disk keepers, processes of the launcher (``launcher/disk_files.py``), make these changes.
"""

from __future__ import annotations

import marshal
import os
import socket
import subprocess
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from actors.vms.host.ids import IdMap, run_mapped
from actors.vms.host.vms import LayerChain, SnapshotInUse, check_disk_name, check_snapshot_free, sync_snapshots
from actors.vms.launcher.broker import ENVIRONMENT, launcher_argv
from actors.vms.provider import SnapshotNotFound, VmError, VmLost

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.vms.host.zygote import Zygote


MAX_LAYERS = 64
"""The most snapshot layers of a disk. A mount takes a few more, in case a crash prevents flattening."""

_MEASURE = 'du -sxB1 -- "$1" 2>/dev/null; du -sx --inodes -- "$1" 2>/dev/null; true'
_INODE_BYTES = 16 << 10


class Disks:
    """All disks and snapshots of one provider. Every call may block; none needs a lock."""

    def __init__(self, folder: Path, idmap: IdMap, zygote: Zygote, max_layers: int = MAX_LAYERS) -> None:
        """Use ``folder``, which is made for the VMs' root if it is missing. Raises VmError."""
        self.folder = folder
        self._idmap = idmap
        self._zygote = zygote
        self._keepers = DiskKeepers(folder, idmap, zygote)
        self._max_layers = max_layers
        parts = [f"{folder.name}/{part}" for part in ("disks", "snapshots", "trash", "trash/disks", "trash/snapshots")]
        if not all((folder.parent / part).is_dir() for part in parts):
            folder.parent.mkdir(parents=True, exist_ok=True)
            install = ["install", "-d", "-m", "755", "--", folder.name, *parts]
            run_mapped(install, idmap=idmap.with_caller(), cwd=folder.parent)

    def names(self) -> set[str]:
        """Return the ids of all VMs that have a disk, or what is left of one."""
        return {path.name for place in ("disks", "trash/disks") for path in (self.folder / place).iterdir()}

    def snapshots(self) -> set[str]:
        """Return the names of all snapshots, or what is left of them."""
        return {path.name for place in ("snapshots", "trash/snapshots") for path in (self.folder / place).iterdir()}

    def chain_on(self, snapshot: str) -> LayerChain:
        """Return the chain of a disk that starts from this snapshot. Raises SnapshotNotFound."""
        check_disk_name(snapshot)
        folder = self.folder / "snapshots" / snapshot
        try:
            below = LayerChain.load(folder / "chain")
        except LookupError as error:
            message = f"no snapshot {snapshot!r} is in the store: the job that made it has to run again"
            raise SnapshotNotFound(message) from error
        if (folder / "flat").is_dir():
            return replace(below, layers=(f"{snapshot}/flat",))
        return replace(below, layers=(f"{snapshot}/upper", *below.layers))

    def layer_paths(self, chain: LayerChain) -> list[Path]:
        """Return the folders of the chain's layers, newest first."""
        return [self.folder / "snapshots" / layer for layer in chain.layers]

    def mounted(self, vm_id: str) -> Path:
        """Return the mount point of a VM's disk, in the mount namespace of its monitor."""
        return self.folder.resolve() / "disks" / check_disk_name(vm_id) / "root"

    def used_bytes(self, vm_id: str) -> int:
        """Return the bytes that a VM's own layer takes on the host's disk. Raises VmLost if there is none.

        The result is at least 16 KiB for each inode, as on a disk of the VM's own: empty files exhaust the host's
        inodes before its bytes.
        """
        upper = f"disks/{check_disk_name(vm_id)}/upper"
        if not (self.folder / upper).is_dir():
            message = f"VM {vm_id} has no disk"
            raise VmLost(message)
        services = f"disks/{vm_id}/services"
        return self._measure(upper) + (self._measure(services) if (self.folder / services).is_dir() else 0)

    def snapshot_bytes(self, snapshot: str) -> int:
        """Return the bytes of a snapshot's own layer, counted as for a VM; 0 if there is no such snapshot."""
        folder = f"snapshots/{check_disk_name(snapshot)}"
        flat = (self.folder / folder / "flat").is_dir()
        return self._measure(f"{folder}/flat" if flat else f"{folder}/upper")

    def freeze(self, vm_id: str, snapshot: str) -> None:
        """Make a snapshot of the disk of a VM that has ended. Safe to repeat after a crash. Raises VmError.

        What the VM wrote is synced before the disk has the name of a snapshot, so that one that is there after a power
        cut is whole: overlays do not sync what jobs write.
        """
        check_disk_name(vm_id)
        check_disk_name(snapshot)
        disk, kept = self.folder / "disks" / vm_id, (self.folder / "snapshots" / snapshot).exists()
        # Without its chain a disk cannot become a snapshot, but it still must not be in the way of one.
        has_disk = disk.exists() if kept else (disk / "chain").exists()
        check_snapshot_free(vm_id, snapshot, has_disk=has_disk, kept=kept)
        sync_snapshots(self.folder)
        self._keepers.change("freeze", vm_id, snapshot)
        chain = self.chain_on(snapshot)
        if len(chain.layers) >= self._max_layers:
            self._flatten(snapshot, chain)
        sync_snapshots(self.folder)

    def remove_snapshot(self, snapshot: str) -> None:
        """Free a snapshot; unknown names are fine. Raises SnapshotInUse, and VmError if files remain."""
        check_disk_name(snapshot)
        if user := next((name for name, chain in self._chains() if snapshot in chain.snapshots), None):
            message = f"snapshot {snapshot!r} is in use: {user} starts from it"
            raise SnapshotInUse(message)
        if snapshot in self.snapshots():
            self._keepers.change("remove", "snapshots", snapshot)

    def remove(self, vm_id: str) -> None:
        """Free the disk of a VM that has ended, or what is left of it. Raises VmError if files remain."""
        check_disk_name(vm_id)
        if vm_id in self.names():
            self._keepers.change("remove", "disks", vm_id)

    def close(self) -> None:
        """Let the processes that wait for work on disks end. They are started again when needed."""
        self._keepers.close()

    def _chains(self) -> Iterator[tuple[str, LayerChain]]:
        """Yield each disk and snapshot, as a phrase, with its chain; a flat snapshot needs only its image."""
        for place in ("disks", "snapshots"):
            for path in (self.folder / place).iterdir():
                try:
                    chain = LayerChain.load(path / "chain")
                except LookupError:
                    continue
                flat = (path / "flat").is_dir()
                yield f"{place.removesuffix('s')} {path.name}", replace(chain, layers=()) if flat else chain

    def _flatten(self, snapshot: str, chain: LayerChain) -> None:
        """Replace a snapshot's layers by their sum, made of links, so that the size hardly matters."""
        spec = {
            "snapshot": snapshot,
            "layers": chain.layers,
            "uid_map": str(self._idmap.uids[0]),
            "gid_map": str(self._idmap.gids[0]),
        }
        done = subprocess.run(
            launcher_argv("flatten"),
            cwd=self.folder / "snapshots",
            env=ENVIRONMENT,
            input=marshal.dumps(spec),
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            reason = done.stderr.decode(errors="replace").strip()[-1000:]
            message = f"the layers of snapshot {snapshot!r} cannot be merged: {reason}"
            raise VmError(message)

    def _measure(self, layer: str) -> int:
        printed = self._zygote.run_mapped(["sh", "-c", _MEASURE, "sh", layer], self._idmap, self.folder).split()
        return max(int(printed[0]), int(printed[2]) * _INODE_BYTES) if len(printed) == 4 else 0  # noqa: PLR2004 - du twice


_IDLE = 2
"""The most keepers that stay for the next request; a burst has more."""

_IDLE_SECONDS = 1.0
_DONE = b"0"
_ANSWER_BYTES = 4096


class DiskKeepers:
    """The keepers of one folder of disks, which may be used in any thread.

    Each does one piece of work at a time. A keeper is started when none is idle. It ends when it has been idle for
    ``idle_seconds``, or this process has ended.
    """

    def __init__(self, folder: Path, idmap: IdMap, zygote: Zygote, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._folder = folder
        self._idmap = idmap
        self._zygote = zygote
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []

    def change(self, *work: str) -> None:
        """Do a piece of work, which may be repeated. Raises VmError with the reason if it fails."""
        with self._lock:
            keeper = self._idle.pop() if self._idle else None
        answer = _ask(keeper, work) if keeper is not None else b""
        if keeper is None or not answer:  # it has ended meanwhile
            keeper = self._start()
            answer = _ask(keeper, work)
        if answer:
            self._keep(keeper)
        if answer != _DONE:
            reason = answer[1:].decode(errors="replace") or "the program for it was ended"
            message = f"the disk cannot be changed ({' '.join(work)}): {reason}"
            raise VmError(message)

    @property
    def idle(self) -> int:
        """The number of keepers that wait for work."""
        with self._lock:
            return len(self._idle)

    def close(self) -> None:
        """Let the idle keepers end. Others are started when needed."""
        with self._lock:
            idle, self._idle = self._idle, []
        for keeper in idle:
            keeper.close()

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        null = os.open(os.devnull, os.O_WRONLY)
        folder = os.open(self._folder, os.O_PATH | os.O_DIRECTORY)
        try:
            spec = {
                "uid_map": str(self._idmap.uids[0]),
                "gid_map": str(self._idmap.gids[0]),
                "idle_seconds": self._idle_seconds,
            }
            self._zygote.start("disks", spec, [null, null, folder, theirs.fileno()])
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(null)
            os.close(folder)
        return ours

    def _keep(self, keeper: socket.socket) -> None:
        with self._lock:
            if len(self._idle) < _IDLE:
                self._idle.append(keeper)
                return
        keeper.close()


def _ask(keeper: socket.socket, work: tuple[str, ...]) -> bytes:
    """Return a keeper's answer, or nothing if it has ended; its socket is closed then."""
    with suppress(ConnectionError):
        keeper.sendall(marshal.dumps(work))
        if answer := keeper.recv(_ANSWER_BYTES):
            return answer
    keeper.close()
    return b""
