"""The contract between the service and whatever makes its VMs (engine.md, "Leases: a VM over SSH")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from storage import Shape

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable

__all__ = [
    "Endpoint",
    "ImageNotFound",
    "Provider",
    "SnapshotNotFound",
    "VmDisk",
    "VmError",
    "VmLost",
    "VmSpec",
    "VmUse",
]


class VmError(Exception):
    """The provider could not do what it was asked; the message says what to do about it. Worth another attempt."""


class ImageNotFound(VmError):
    """No image of that name is in the store. Another attempt would not help."""


class SnapshotNotFound(VmError):
    """No snapshot of that name is in the store. Another attempt would not help."""


class VmLost(VmError):
    """The VM is gone: its init ended, or it was never made."""


@dataclass(frozen=True, slots=True)
class VmSpec:
    """What to make. ``id`` names the VM (a lease's UUID) and is all that is needed to find it again.

    The disk starts from ``snapshot`` where one is given, else from ``image``.
    """

    id: str
    image: str
    snapshot: str | None = None
    shape: Shape = field(default_factory=Shape)
    network: bool = True


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An open socket on which a VM speaks SSH, and the two keys that prove who is at either end of it.

    ``private_key`` is an ed25519 key in OpenSSH PEM form for the user ``root``; ``host_key`` is the VM's public key as
    ``"ssh-ed25519 AAAA..."``, the only one to accept. Whoever asked for the endpoint closes the socket.
    """

    socket: socket.socket
    private_key: str
    host_key: str
    user: str = "root"


@dataclass(frozen=True, slots=True)
class VmUse:
    """What a VM has used of CPUs since it was made, and holds of memory, file cache included. None is not known."""

    cpu_seconds: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class VmDisk:
    """What a VM takes of the host's disk: ``bytes``, and the number of files that take more, ``unmeasured``.

    These are files without a name that are only mapped, or on their way between two processes.
    """

    bytes: int
    unmeasured: int = 0


class Provider(Protocol):
    """Makes VMs, finds them again, freezes their disks and frees them. Every call may block; none needs a lock.

    A VM belongs to no process: it outlives the caller and is found again by its id alone.
    """

    name: str

    def create(self, spec: VmSpec) -> None:
        """Make a VM and return when SSH answers on it, or raise and leave nothing behind.

        Raises ImageNotFound, SnapshotNotFound or VmError.
        """
        ...

    def connect(self, vm_id: str) -> Endpoint:
        """Open the place where the VM speaks SSH; works again after a restart of the daemon.

        Raises VmLost where the VM does not run, VmError where it runs and does not answer.
        """
        ...

    def alive(self, vm_id: str) -> bool:
        """Tell whether the VM still runs."""
        ...

    def use(self, vm_id: str) -> VmUse:
        """Return what the VM uses, as far as the host counts it. Cheap."""
        ...

    def disk(self, vm_id: str) -> VmDisk:
        """Return what the VM has written to its disk beyond what it started from."""
        ...

    def snapshot(self, vm_id: str, name: str) -> None:
        """Keep the VM's disk as it is under ``name``; the VM ends with it. Costs the same for any size."""
        ...

    def snapshots(self) -> Iterable[str]:
        """Name every snapshot in the store."""
        ...

    def snapshot_image(self, name: str) -> str | None:
        """Return the image that a snapshot lies on; None where no VM can start from it, now or any more."""
        ...

    def snapshot_bytes(self, name: str) -> int:
        """Return the bytes that a snapshot takes beyond the one that it stands on; 0 where it is not there."""
        ...

    def remove_snapshot(self, name: str) -> None:
        """Free a snapshot that no VM and no other snapshot starts from; unknown names are fine."""
        ...

    def destroy(self, vm_id: str) -> None:
        """End the VM and free all it held: processes, mounts, files. Idempotent; returns when it is really gone."""
        ...

    def list(self) -> Iterable[str]:
        """Name every VM that has anything left on the host, running or not."""
        ...
