"""The contract between the service and its providers of VMs (engine.md, "Leases")."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from storage import Shape, immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from actors.vms.description import HostSize, ProviderDescription


USUAL_WEIGHT = 100
"""The weight of a VM among those that want the CPU, unless its `Provider` was told another."""


class VmError(Exception):
    """The provider failed; the message says what to do about it. Another attempt may succeed."""


class ImageNotFound(VmError):
    """No image of that name is in the store. Another attempt would not help."""


class SnapshotNotFound(VmError):
    """No snapshot of that name is in the store. Another attempt would not help."""


class ProviderAway(VmError):
    """The provider cannot be asked at present. VMs may run on, and nothing is known of any: ask again."""


class VmLost(VmError):
    """The VM is gone: its init ended, or it was never made."""


@immutable
class VmSpec:
    """A VM with a disk. ``id`` names it (a lease's UUID) and is enough to find it again.

    The disk starts from ``snapshot`` if one is given, else from ``image``. ``services`` are images of further disks, by
    the host names of the services that run from them. With ``containers`` it is set up for programs that build and run
    images.
    """

    id: str
    image: str
    snapshot: str | None = None
    shape: Shape = field(default_factory=Shape)
    network: bool = True
    services: Mapping[str, str] = field(default_factory=dict)
    containers: bool = False


class SshSocket(Protocol):
    """A connection to an SSH server: what SSH needs of a socket, with the same meaning."""

    def recv(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes that have come, nothing at the end. Raises TimeoutError."""

    def send(self, data: bytes, /) -> int:
        """Send some bytes, and return their number. Raises TimeoutError: then the same bytes follow."""

    def settimeout(self, seconds: float | None, /) -> None:
        """Let each following call wait for at most so many seconds."""

    def shutdown(self, how: int, /) -> None:
        """End what is sent, or hang up, which wakes who waits in `recv`."""

    def close(self) -> None:
        """Close the connection. Idempotent."""


class HostPipes(Protocol):
    """The way into a VM on this host for programs whose streams are pipes, beside its SSH server."""

    def start(self, script: str, streams: Sequence[int], /) -> None:
        """Start a shell script where those of SSH run, as the same user; return at once.

        The descriptors are its standard input, output and errors, and one that takes its exit code in decimal, with a
        newline, unless it is killed. Raises VmLost if the VM has ended, VmError if it takes no program.
        """


@immutable
class SshEndpoint:
    """An open socket to the SSH server of a VM, and the keys that authenticate both ends.

    ``private_key`` is a key in OpenSSH PEM form for the user ``root``; ``host_key`` is the VM's public key as
    ``"ecdsa-sha2-nistp256 AAAA..."``, the only one to accept. The user's login shell is a POSIX one. The caller closes
    the socket. ``pipes`` is a shorter way for much data, None where SSH is the only one.
    """

    socket: SshSocket
    private_key: str
    host_key: str
    user: str = "root"
    pipes: HostPipes | None = None


@immutable
class VmUse:
    """CPU time of a VM since it was made, and the memory that it holds, file cache included.

    None if unknown.
    """

    cpu_seconds: float | None = None
    memory_bytes: int | None = None


@immutable
class VmDisk:
    """Space that a VM takes on the host's disk.

    ``unmeasured`` is the number of files that may take more than ``bytes`` counts: unlinked files that are only mapped,
    or in flight between two processes.
    """

    bytes: int
    unmeasured: int = 0


class Provider(Protocol):
    """A maker of VMs, which finds them again, freezes their disks and frees them.

    Every call may block; none needs a lock. A VM belongs to no process: it outlives the caller and is found again by
    its id alone. A provider whose VMs are elsewhere may raise ProviderAway from calls that may block for it.
    """

    name: str

    @property
    def description(self) -> ProviderDescription:
        """Describe the VMs on this host, with all that they cannot do."""
        ...

    def park(self, vm_id: str) -> None:
        """Make a VM without a disk, at a low priority, and return when SSH answers on it.

        Raises VmError, and leaves nothing behind then.
        """
        ...

    def weigh(self, vm_id: str, weight: int) -> None:
        """Give a VM its share of the CPU that several want: now, or as it is made. It may be gone.

        A VM that nobody waits for yet has nearly none while it is parked.
        """
        ...

    def attach(self, spec: VmSpec) -> None:
        """Give a parked VM its disk, shape and network, or raise and leave nothing of the VM behind.

        Raises ImageNotFound, SnapshotNotFound or VmError. Open connections to the VM go on. A VM that has a disk
        already is left as it is.
        """
        ...

    def create(self, spec: VmSpec) -> None:
        """Park a VM and attach its disk, or raise as both do and leave nothing behind."""
        ...

    def connect(self, vm_id: str) -> SshEndpoint:
        """Connect to the VM's SSH server, parked or not; also works after a restart of the daemon.

        Raises VmLost if the VM does not run, VmError if it runs but does not answer.
        """
        ...

    def alive(self, vm_id: str) -> bool:
        """Tell whether the VM still runs, with its disk."""
        ...

    def parked(self, vm_id: str) -> bool:
        """Tell whether the VM runs and waits for a disk."""
        ...

    def member(self, vm_id: str) -> str | None:
        """Return the name of the member of a cluster that a VM is on; None if all VMs are on one host. Cheap."""
        ...

    def size(self) -> HostSize:
        """Return the processors and memory of the hosts of VMs, as last known. Cheap."""
        ...

    def use(self, vm_id: str) -> VmUse:
        """Return the CPU time and memory of the VM, as far as the host counts them. Cheap."""
        ...

    def disk(self, vm_id: str) -> VmDisk:
        """Return the space of what the VM has written beyond its image or snapshot."""
        ...

    def snapshot(self, vm_id: str, name: str) -> None:
        """Keep the VM's disk under ``name`` and end the VM. The cost does not depend on the size."""
        ...

    def snapshots(self) -> Iterable[str]:
        """Name every snapshot in the store."""
        ...

    def snapshot_image(self, name: str) -> str | None:
        """Return the image that a snapshot lies on, or None if no VM can start from the snapshot."""
        ...

    def snapshot_bytes(self, name: str) -> int:
        """Return the bytes that a snapshot takes beyond the layer below it; 0 if there is no such snapshot."""
        ...

    def remove_snapshot(self, name: str) -> None:
        """Free a snapshot that no VM and no other snapshot starts from; unknown names are fine."""
        ...

    def remove_image_copies(self) -> None:
        """Free the copies of images that were removed or replaced; VMs and snapshots stay whole."""
        ...

    def destroy(self, vm_id: str) -> None:
        """End the VM and free its processes, mounts and files; return when all are gone. Idempotent."""
        ...

    def list(self) -> Iterable[str]:
        """Name every VM that has anything left on the host, running or not."""
        ...

    def close(self) -> None:
        """Free what this process holds; VMs live on."""
        ...
