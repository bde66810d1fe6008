"""VMs as instances of an Incus or LXD server or cluster (engine.md, "Leases").

An instance is the outer layer of a VM alone: a container of the base image with the launcher as its init, or a machine
that boots it. The job's disk is a volume, which is attached while the instance runs, so a parked container takes any
image and any snapshot.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms.host.ids import restrict_to_owner
from actors.vms.host.vm_folder import VmFolder
from actors.vms.images.staging import StoreLocks
from actors.vms.incus.disks import EngineDisks, EngineImages, EngineParts
from actors.vms.incus.engine import Engine, access_of
from actors.vms.incus.exec_streams import ExecStreams
from actors.vms.incus.fleet import Places
from actors.vms.incus.instances import CONTAINERS, KINDS, Instances
from actors.vms.incus.launch import Launch, connect_sshd, write_out
from actors.vms.incus.machines import MachineImage
from actors.vms.incus.outer_images import ContainerImage, OuterImages
from actors.vms.incus.outer_layers import OuterLayers
from actors.vms.incus.refusals import EngineAway, EngineError
from actors.vms.incus.volumes import BASE, Names, Volumes
from actors.vms.provider import SnapshotNotFound, SshEndpoint, VmDisk, VmError, VmLost, VmSpec, VmUse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from actors.vms.description import HostSize
    from actors.vms.host.ids import IdMap
    from actors.vms.host.vms import ImageRoots
    from actors.vms.incus.volumes import Volume
    from actors.vms.settings import IncusSettings, SandboxSettings
    from storage import Clock

_IMAGE_GB = 8
"""The most GB that an image may take; the engine counts it as part of the disk."""

_WRITE_SECONDS = 20.0


class IncusProvider:
    """A provider that makes VMs on an engine. See Provider for the calls."""

    name = "incus"
    description = CONTAINERS.description
    """The description of the default kind of VMs; an instance of this class describes its own kind."""

    def __init__(
        self,
        folder: Path,
        images: ImageRoots,
        idmap: IdMap,
        clock: Clock,
        settings: IncusSettings,
        shared: SandboxSettings,
        base_image: Callable[[], str] = lambda: "debian:12",
        system: Path = Path("/"),
    ) -> None:
        """Keep the VMs' keys in ``folder``, which is made if it is missing.

        ``shared`` has the settings that all VMs share: the networks that they may reach, and nested user namespaces.
        Machines boot a kernel of ``system``.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        restrict_to_owner(folder)
        self._vms = folder / "vms"
        self._vms.mkdir(exist_ok=True)
        self._engine = Engine(access_of(folder, settings), settings.project)
        self._places = Places(self._engine, self._vms, clock, settings.lost_seconds)
        self._streams = ExecStreams(self._engine)
        self._names = Names(settings.prefix)
        self._instances = Instances(self._engine, settings.profile, self._names)
        kind = KINDS[settings.instances]
        self.description = kind.description
        volumes, locks = Volumes(self._engine, settings.storage), StoreLocks(folder / "locks")
        self._volumes = volumes
        of_containers, of_machines = (
            OuterImages(self._engine, self._names, images, base_image, locks, content)
            for content in (ContainerImage(idmap), MachineImage(idmap, system, folder))
        )
        self._outer_layers = OuterLayers(self._instances, of_machines if kind.is_machine else of_containers, kind)
        parts = EngineParts(self._engine, volumes, self._instances, self._streams, self._names)
        self._images = EngineImages(parts, images, idmap, of_containers, locks)
        self._disks = EngineDisks(volumes, self._images, self._names)
        self._launch = Launch(parts, self._outer_layers, self._places, settings, shared, clock)

    def create(self, spec: VmSpec) -> None:
        """Make a VM and return when its sshd answers, or raise and leave nothing behind."""
        self._check_parent(spec)
        vm, parent, image = self._vm(spec.id), self._disks.check(spec), self._outer_layers.image()
        vm.make()
        with self._destroyed_on_error(spec.id):
            member = self._places.take(spec.id, parent, spec.shape)
            with vm.attaching(), self._disks_beside(spec, member) as disks:
                self._launch.park(vm, image, member, spec.shape)
                self._give(spec, member, disks)

    def weigh(self, vm_id: str, weight: int) -> None:
        """Do nothing: the engine divides the CPU of its members."""

    def park(self, vm_id: str) -> None:
        """Make an instance without a job's disk, or raise and leave nothing behind."""
        if not self.description.parks:
            return
        vm, image = self._vm(vm_id), self._outer_layers.image()
        vm.make()
        with self._destroyed_on_error(vm_id):
            self._launch.park(vm, image, self._places.take(vm_id, None))

    def attach(self, spec: VmSpec) -> None:
        """Give a parked VM its disk, shape and network, or raise and leave nothing behind."""
        if not self.description.parks:
            self.create(spec)
            return
        self._check_parent(spec)
        with self._vm(spec.id).attaching(), self._destroyed_on_error(spec.id):
            member = self._places.of(spec.id)
            with self._disks_beside(spec, member) as disks:
                self._give(spec, member, disks)

    def connect(self, vm_id: str) -> SshEndpoint:
        """Connect to the VM's SSH server; also works after a restart of the daemon."""
        instance, record = self._names.vm(vm_id), self._vm(vm_id).record()
        try:
            program = connect_sshd(self._streams, instance)
        except VmError as error:
            if not self._runs(vm_id):
                message = f"VM {vm_id} has ended"
                raise VmLost(message) from error
            raise
        return SshEndpoint(program, record.private_key, record.host_key)

    def alive(self, vm_id: str) -> bool:
        """Tell whether the VM still runs, with its disk. Raises EngineAway."""
        return self._vm(vm_id).attached and self._runs(vm_id)

    def parked(self, vm_id: str) -> bool:
        """Tell whether the VM runs and waits for a disk, and its member takes jobs. Raises EngineAway."""
        takes_jobs = self.description.parks and self._waits(vm_id) and self._places.takes_vms(self._places.of(vm_id))
        return takes_jobs and self._instances.runs(self._names.vm(vm_id))

    def member(self, vm_id: str) -> str | None:
        """Return the name of the member that a VM is on; None if the engine is no cluster."""
        return self._places.of(vm_id)

    def size(self) -> HostSize:
        """Return the size of the members that take VMs, as last known; this host's until then."""
        return self._places.size()

    def use(self, vm_id: str) -> VmUse:
        """Return the CPU time and memory of the VM's instance; unknown if it is gone, or no member answers."""
        try:
            return self._instances.use(self._names.vm(vm_id))
        except EngineAway:
            return VmUse()

    def disk(self, vm_id: str) -> VmDisk:
        """Return the space of what the VM has written beyond its image or snapshot."""
        self._places.check(self._places.of(vm_id))
        if self._waits(vm_id):
            return VmDisk(0)
        base = self._disks.base_bytes(vm_id)
        return VmDisk(max(0, sum(self._used_bytes(vm_id)) - base))

    def snapshot(self, vm_id: str, name: str) -> None:
        """Keep the VM's disk under ``name`` and end the VM, whose keys wait for ``destroy``."""
        instance = self._names.vm(vm_id)
        self._places.check(self._places.of(vm_id))
        if not self._disks.check_free(vm_id, name):
            return
        used, _ = self._used_bytes(vm_id)
        self._instances.remove(instance)
        self._disks.keep(vm_id, name, used)

    def snapshots(self) -> Iterable[str]:
        """Name every snapshot on the engine."""
        return self._disks.snapshots()

    def snapshot_image(self, name: str) -> str | None:
        """Return a snapshot's image; None if either is missing, or the image was replaced."""
        return self._disks.snapshot_image(name)

    def snapshot_bytes(self, name: str) -> int:
        """Return the bytes of a snapshot beyond the one below it; 0 if there is no such snapshot."""
        return self._disks.snapshot_bytes(name)

    def remove_snapshot(self, name: str) -> None:
        """Remove a snapshot; unknown names are fine. Raises SnapshotInUse if a VM or snapshot starts from it."""
        self._disks.remove_snapshot(name)

    def remove_image_copies(self) -> None:
        """Remove the volumes of images that were removed or replaced, and what a killed service was filling."""
        self._images.remove_outdated()

    def destroy(self, vm_id: str) -> None:
        """Remove the VM's instance, disks and keys, in any state; ``list`` names it until all is gone.

        Raises VmLost and EngineAway while its member is offline.
        """
        instance, vm = self._names.vm(vm_id), self._vm(vm_id)
        self._places.check(self._places.of(vm_id))
        self._instances.remove(instance)
        self._disks.remove(vm_id)
        vm.remove()

    def list(self) -> Iterable[str]:
        """Name every VM that has anything left, running or not."""
        made = self._names.of_kind("vm", self._instances.names())
        return sorted({*made, *self._disks.vms(), *(path.name for path in self._vms.iterdir())})

    def close(self) -> None:
        """Close the connections to the engine; VMs live on."""
        self._engine.close()

    def _waits(self, vm_id: str) -> bool:
        """Tell whether a VM was made and no disk attached."""
        vm = self._vm(vm_id)
        return vm.folder.exists() and vm.parked

    def _runs(self, vm_id: str) -> bool:
        """Tell whether a VM's instance runs; it does not on a member that is lost. Raises EngineAway."""
        try:
            self._places.check(self._places.of(vm_id))
        except VmLost:
            return False
        try:
            return self._instances.runs(self._names.vm(vm_id))
        except EngineError as error:  # it neither has it nor lacks it
            message = f"the engine does not tell whether VM {vm_id} runs: {error}"
            raise EngineAway(message) from error

    def _check_parent(self, spec: VmSpec) -> None:
        """Raise SnapshotNotFound if the parent is on a lost member, EngineAway if nobody can tell."""
        if spec.snapshot is None:
            return
        try:
            self._places.check(self._volumes.member(self._names.snapshot(spec.snapshot)))
        except VmLost as error:
            message = f"the disk to start from cannot be read, so the build has to run again: {error}"
            raise SnapshotNotFound(message) from error

    def _vm(self, vm_id: str) -> VmFolder:
        self._names.vm(vm_id)
        return VmFolder(self._vms / vm_id)

    def _used_bytes(self, vm_id: str) -> tuple[int, int]:
        """Return the bytes of a job's disk and of those of its services together.

        They are of half a minute ago if the VM's member cannot write now. Once its instance has gone, those of services
        are no more.
        """
        instance = self._names.vm(vm_id)
        with suppress(VmError):
            write_out(self._streams, instance, _WRITE_SECONDS)
        used = self._instances.disk_bytes(instance)
        return (self._disks.used_bytes(vm_id), 0) if used is None else used

    @contextmanager
    def _disks_beside(self, spec: VmSpec, member: str | None) -> Iterator[Future[Sequence[Volume]]]:
        """Make the disks of a VM while the block runs: both mostly wait for the engine."""
        with ThreadPoolExecutor(1, "engine-disks") as beside:
            yield beside.submit(self._disks.make, spec, member, _IMAGE_GB)

    def _give(self, spec: VmSpec, member: str | None, made: Future[Sequence[Volume]]) -> None:
        disk, *_ = self._launch.attach(spec, member, made)
        if BASE in disk.labels:
            self._disks.note_base(disk, *self._used_bytes(spec.id))

    @contextmanager
    def _destroyed_on_error(self, vm_id: str) -> Iterator[None]:
        """Destroy a VM whose making fails. Raises VmError if another thread has destroyed it meanwhile."""
        with ExitStack() as undo:
            undo.callback(self.destroy, vm_id)
            yield
            if not self._vm(vm_id).folder.exists():
                message = f"VM {vm_id} was destroyed while it was made"
                raise VmError(message)
            undo.pop_all()
