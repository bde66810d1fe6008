"""The VMs of one provider on this host, whatever they are made of, with the layers below their disks."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from actors.vms.description import HostSize
from actors.vms.host.control_groups import measure
from actors.vms.host.ids import restrict_to_owner
from actors.vms.host.vm_folder import VmFolder, VmRecord
from actors.vms.host.zygote import Zygote
from actors.vms.provider import ImageNotFound, SnapshotNotFound, VmError, VmLost, VmUse
from storage import error_reason, immutable
from storage.files import sync_file_system

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from actors.vms.host.control_groups import VmLimits
    from actors.vms.provider import VmSpec


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class SnapshotInUse(VmError):
    """A VM or another snapshot starts from this one, so it cannot be removed yet."""


@immutable
class LayerChain:
    """The layers below a disk: those of snapshots, newest first, over an image.

    A layer is ``NAME/upper`` or ``NAME/flat``. ``stamp`` tells the image from another one of the same name.
    """

    image: str
    stamp: str
    layers: tuple[str, ...] = ()

    def dumps(self) -> bytes:
        """Return the chain as the content of its file."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def load(cls, file: Path) -> LayerChain:
        """Read a chain's file. Raises LookupError if it is missing, or damaged by a crash of the host."""
        try:
            fields = json.loads(file.read_bytes())
            return cls(fields["image"], fields["stamp"], tuple(fields["layers"]))
        except (FileNotFoundError, ValueError) as error:
            raise LookupError(file) from error

    @property
    def snapshots(self) -> set[str]:
        """The names of the snapshots that the chain needs."""
        return {layer.partition("/")[0] for layer in self.layers}


class ImageRoots(Protocol):
    """The source of images."""

    def path(self, name: str) -> Path:
        """Return the root of an unpacked image, owned by the VMs' ids. Raises ImageNotFound."""
        ...


class SnapshotDisks(Protocol):
    """The disks that are kept as snapshots."""

    def chain_on(self, snapshot: str) -> LayerChain:
        """Return the chain of a disk that starts from this snapshot. Raises SnapshotNotFound."""
        ...

    def snapshots(self) -> set[str]:
        """Return the names of all snapshots, or what is left of them."""
        ...

    def snapshot_bytes(self, snapshot: str) -> int:
        """Return the bytes of a snapshot's own layer; 0 if there is no such snapshot."""
        ...

    def remove_snapshot(self, snapshot: str) -> None:
        """Free a snapshot; unknown names are fine. Raises SnapshotInUse."""
        ...


class HostVms(ABC):
    """The calls of Provider that all providers on this host answer alike, and what else they share."""

    _disks: SnapshotDisks

    def __init__(self, folder: Path, images: ImageRoots, limits: VmLimits, base_image: Callable[[], str]) -> None:
        """Keep the VMs in ``folder``, which is made if it is missing.

        ``base_image`` names the image whose sshd serves them.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        restrict_to_owner(folder)
        self.limits = limits
        self.vms_folder = folder / "vms"
        self.vms_folder.mkdir(exist_ok=True)
        self._images = images
        self._base_image = base_image
        self.zygote = Zygote()

    @abstractmethod
    def destroy(self, vm_id: str) -> None:
        """End the VM and free all that it held, in any state; ``list`` names it until all is gone."""

    def alive(self, vm_id: str) -> bool:
        """Tell whether the VM still runs, with its disk."""
        vm = self._vm(vm_id)
        return vm.attached and vm.alive

    def parked(self, vm_id: str) -> bool:
        """Tell whether the VM runs and waits for a disk."""
        vm = self._vm(vm_id)
        return vm.parked and vm.alive

    def member(self, vm_id: str) -> str | None:
        """Return None: all VMs are on this host."""
        return None

    def size(self) -> HostSize:
        """Return the size of this host."""
        return HostSize.here()

    def use(self, vm_id: str) -> VmUse:
        """Read the VM's control groups; the result is unknown if it has none, or is gone."""
        try:
            return measure(map(Path, self._vm(vm_id).record().groups))
        except VmLost:
            return VmUse()

    def snapshots(self) -> Iterable[str]:
        """Name every snapshot in the store."""
        return sorted(self._disks.snapshots())

    def snapshot_image(self, name: str) -> str | None:
        """Return a snapshot's image; None if either is missing, or the image was replaced."""
        try:
            return self._chain_on(name).image
        except (SnapshotNotFound, ImageNotFound):
            return None

    def snapshot_bytes(self, name: str) -> int:
        """Return the bytes of a snapshot's own layer; 0 if there is no such snapshot."""
        return self._disks.snapshot_bytes(name)

    def remove_snapshot(self, name: str) -> None:
        """Free a snapshot; unknown names are fine. Raises SnapshotInUse if a VM or snapshot starts from it."""
        self._disks.remove_snapshot(name)

    def monitor(self, vm_id: str) -> int:
        """Return the process that all others of a VM descend from. Raises VmLost."""
        return self._vm(vm_id).monitor()

    def group_name(self, vm_id: str) -> str:
        """Name a VM's control groups, uniquely on the host: those of other folders are beside them."""
        return f"{self._group_prefix}{vm_id}"

    @cached_property
    def _group_prefix(self) -> str:
        found = self.vms_folder.stat()
        return f"ci-daemon-{found.st_dev:x}-{found.st_ino:x}-"

    def close(self) -> None:
        """Let the zygote end; VMs live on."""
        self.zygote.close()

    def _vm(self, vm_id: str) -> VmFolder:
        return VmFolder(self.vms_folder / check_disk_name(vm_id))

    def _running(self, vm_id: str) -> tuple[VmFolder, VmRecord]:
        """Return a VM that runs, with its record. Raises VmLost."""
        vm = self._vm(vm_id)
        record = vm.record()
        if not vm.alive:
            message = f"VM {vm_id} has ended"
            raise VmLost(message)
        return vm, record

    def _groups(self, vm_id: str, *suffixes: str) -> set[Path]:
        """Return the control groups of a VM: those of its name with ``suffixes``, and those of its record."""
        named = {group for suffix in suffixes for group in self.limits.groups(self.group_name(vm_id) + suffix)}
        with suppress(VmLost):
            named |= {Path(group) for group in self._vm(vm_id).record().groups}
        return named

    @contextmanager
    def _destroyed_on_error(self, vm_id: str) -> Iterator[None]:
        """Destroy the VM if the block raises; an OSError becomes a VmError."""
        with ExitStack() as undo:
            undo.callback(self.destroy, vm_id)
            try:
                yield
            except OSError as error:
                message = f"VM {vm_id} could not be created: {error_reason(error)}"
                raise VmError(message) from error
            undo.pop_all()

    def _of_base(self, place: Callable[[str], Path]) -> Path:
        """Return the place of the image whose sshd serves the VMs. Raises VmError if there is none."""
        try:
            return place(self._base_image())
        except ImageNotFound as error:
            message = f"VMs need an image with sshd, run `ci-daemon image build`: {error}"
            raise VmError(message) from error

    def _chain_of(self, spec: VmSpec) -> LayerChain:
        """Return the layers that a VM's disk lies on. Raises ImageNotFound and SnapshotNotFound."""
        if spec.snapshot is None:
            return LayerChain(spec.image, self._stamp(spec.image))
        return self._chain_on(spec.snapshot)

    def _chain_on(self, snapshot: str) -> LayerChain:
        """Return the chain of a disk that starts from a snapshot. Raises SnapshotNotFound, ImageNotFound."""
        chain = self._disks.chain_on(snapshot)
        if chain.stamp != self._stamp(chain.image):
            message = f"snapshot {snapshot!r} was made on an image {chain.image!r} that has been replaced since"
            raise SnapshotNotFound(message)
        return chain

    def _stamp(self, image: str) -> str:
        """Return a text that changes when the image is replaced. Raises ImageNotFound."""
        return stamp_of(self._images.path(image))


def stamp_of(root: Path) -> str:
    """Return a text that changes when an image's tree is replaced."""
    found = root.stat()
    return f"{found.st_ino}-{found.st_ctime_ns}"


def sync_snapshots(folder: Path) -> None:
    """Sync all snapshots below a folder. Raises VmError."""
    try:
        sync_file_system(folder)
    except OSError as error:
        message = f"the host's disk did not keep a snapshot: {error_reason(error)}"
        raise VmError(message) from error


def check_snapshot_free(vm_id: str, snapshot: str, *, has_disk: bool, kept: bool) -> None:
    """Check that a VM's disk can become a snapshot, or has become it, as before a crash.

    Raises VmError if both are there, and VmLost if neither is.
    """
    if kept and has_disk:
        message = f"snapshot {snapshot!r} already exists"
        raise VmError(message)
    if not kept and not has_disk:
        message = f"VM {vm_id} has no disk to take a snapshot of"
        raise VmLost(message)


def check_disk_name(name: str) -> str:
    """Return ``name`` if it is safe as the name of a file. Raises VmError otherwise."""
    if not _NAME.fullmatch(name):
        message = f"{name!r} is not a valid name of a VM or snapshot: use at most 128 letters, digits, '.', '_' and '-'"
        raise VmError(message)
    return name
