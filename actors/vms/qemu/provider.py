"""VMs as machines: QEMU guests with a kernel of their own (engine.md, "Leases")."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from actors.vms.description import Enforcement, ProviderDescription
from actors.vms.host.control_groups import GroupLimits, VmLimits, remove_groups
from actors.vms.host.network import RESOLVER, plan_network
from actors.vms.host.vm_folder import KeyPair, VmRecord
from actors.vms.host.vms import HostVms
from actors.vms.provider import USUAL_WEIGHT, SshEndpoint, VmDisk, VmError, VmLost, VmSpec
from actors.vms.qemu.disks import Disks, ImageDisks
from actors.vms.qemu.machine import (
    CONSOLE,
    Seed,
    attach,
    await_flat,
    commands,
    flatten,
    let_end,
    park,
    plug_disk,
    plug_services,
    plug_shape,
)
from actors.vms.qemu.program import KVM, PARKED, Accelerator, Preparation, command_line
from actors.vms.ssh import Connection
from storage import error_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from actors.vms.host.ids import IdMap
    from actors.vms.host.vms import ImageRoots
    from actors.vms.qemu.machine import Qmp
    from actors.vms.settings import QemuSettings, SandboxSettings
    from storage import Clock, Shape

_GB, _MB = 1 << 30, 1 << 20
_PROCESSES = 512
"""The most processes and threads of a machine on the host: QEMU, its monitor and its network."""

_MAX_LAYERS = 16
_PARKED_WEIGHT = 1

_CONNECT_SECONDS = 30.0
_ANSWER_BYTES = 1024
_MIN_SECONDS = 0.001
_FREEZE_SECONDS = 60.0
_END_SECONDS = 30.0
_FLATTEN_SECONDS = 1200.0
_FLATTENING = "flattening"
"""A file of a VM's folder that exists if the layers of its disk are being merged."""

_FREEZE = "exec fsfreeze --freeze /run/ci-daemon/disk"

_LIMITS = (
    Enforcement("cpu", enforced=True, how="QEMU gives a machine no more processors"),
    Enforcement("memory", enforced=True, how="QEMU gives a machine no more memory"),
    Enforcement("pids", enforced=True, how="a control group of the machine's own kernel"),
    Enforcement("disk", enforced=True, how="the disk of a machine is no larger"),
)


class QemuProvider(HostVms):
    """A provider that makes machines in a folder, as root or as any user with a range of sub-ids.

    See Provider for the calls. A machine boots as it is parked, in the smallest shape; the rest comes with its job.
    """

    name = "qemu"
    _disks: Disks
    description = ProviderDescription(parks=True, own_kernel=True, reserves=True, limits=_LIMITS)

    def __init__(
        self,
        folder: Path,
        images: ImageRoots,
        idmap: IdMap,
        clock: Clock,
        settings: QemuSettings,
        shared: SandboxSettings,
        vms_at_once: int = 8,
        base_image: Callable[[], str] = lambda: "debian:12",
        *,
        max_layers: int = _MAX_LAYERS,
    ) -> None:
        """Keep all VMs, disks and snapshots in ``folder``, which is made if it is missing.

        The layers of a snapshot are merged when they are ``max_layers``, while the first job on them runs.
        ``shared`` has the settings that machines share with sandboxes: their network, processes and time to start.
        """
        super().__init__(folder, images, VmLimits.of_host(shared.processes), base_image)
        self._disks = Disks(self.vms_folder, folder / "snapshots")
        self._image_disks = ImageDisks(folder / "images", images, idmap, self.zygote)
        self._idmap = idmap
        self._clock = clock
        self._settings = settings
        self._shared = shared
        self.vms_folder_at_once = vms_at_once
        self._max_layers = max_layers
        self._weights: dict[str, int] = {}
        self._preparation = Preparation(folder / "boot", settings, idmap)

    def create(self, spec: VmSpec) -> None:
        """Boot a machine and return when a job can start in it, or raise and leave nothing behind."""
        self._chain_of(spec)
        self._weights.setdefault(spec.id, USUAL_WEIGHT)
        self.park(spec.id)
        self.attach(spec)

    def weigh(self, vm_id: str, weight: int) -> None:
        """Set the share of the CPU of the VM's control groups."""
        self._weights[vm_id] = weight
        self.limits.set_weight(self.group_name(vm_id), weight)

    def park(self, vm_id: str) -> None:
        """Boot a machine without a job's disk, or raise and leave nothing behind."""
        deadline = self._clock.monotonic() + self._shared.create_seconds
        vm, network = self._vm(vm_id), plan_network(self._shared.network)
        prepared, base = self._preparation.done(), self._of_base(self._image_disks.path)
        vm.make()
        with self._destroyed_on_error(vm_id), vm.locked() as lock:
            host, caller, seed = KeyPair.make(), KeyPair.make(), Seed(vm.folder)
            seed.make(host, caller, self._shared.processes)
            group = self.group_name(vm_id)
            vm.write(VmRecord(caller.private, host.public, tuple(map(str, self.limits.groups(group)))))
            self.limits.make_groups(group, self._group_limits(PARKED))
            self.limits.set_weight(group, self._weights.get(vm_id, _PARKED_WEIGHT))
            parked = {
                "id": vm_id,
                "cgroups": self.limits.join_files(group),
                "processes": _PROCESSES,
                "vms": self.vms_folder_at_once,
                "uid_map": str(self._idmap.uids[0]),
                "gid_map": str(self._idmap.gids[0]),
                "network": network,
                "resolver": RESOLVER,
                "devices": [str(KVM)] if prepared.accelerator.kvm else [],
                "console": str(vm.folder / CONSOLE),
                "files": list(map(str, (prepared.boot.kernel, prepared.boot.initramfs, base, seed.path))),
                "argv": command_line(prepared.program, kvm=prepared.accelerator.kvm),
            }
            park(vm, parked, lock, self.zygote, self._left(deadline))

    def attach(self, spec: VmSpec) -> None:
        """Give a parked machine its disk, shape and network, or raise and leave nothing behind."""
        deadline = self._clock.monotonic() + self._shared.create_seconds
        vm = self._vm(spec.id)
        with vm.attaching(), self._destroyed_on_error(spec.id):
            self.weigh(spec.id, self._weights.get(spec.id, USUAL_WEIGHT))
            chain = self._chain_of(spec)
            image = self._image_disks.path(chain.image)
            disk = self._disks.make(spec.id, chain, max(spec.shape.disk_gb * _GB, image.stat().st_size))
            self.limits.widen_groups(self.group_name(spec.id), self._group_limits(spec.shape))
            layers = [*disk.layers, image]
            images = [self._image_disks.path(each) for each in spec.services.values()]
            services = self._disks.make_for_services(spec.id, spec.services, disk.size, images)
            job = {"network": spec.network, "largest_file": disk.size + disk.size // 8}

            def plug(qmp: Qmp) -> None:
                plug_shape(qmp, spec.shape)
                Seed(vm.folder).add_job(spec, self._clock.now().timestamp())  # the guest reads it once it has the disk
                plug_disk(qmp, layers)
                plug_services(qmp, services)

            attach(vm, job, plug, self._left(deadline))
            if len(chain.layers) >= self._max_layers:
                vm.folder.joinpath(_FLATTENING).touch()
                with commands(vm, self._left(deadline)) as qmp:
                    flatten(qmp)

    def accelerator(self) -> Accelerator:
        """Tell how machines run here, after a trial boot the first time. Raises VmError if they cannot."""
        return self._preparation.done().accelerator

    def remove_image_copies(self) -> None:
        """Remove the disks of images that were removed or replaced."""
        self._image_disks.remove_outdated()

    def connect(self, vm_id: str) -> SshEndpoint:
        """Connect to the VM's SSH server; also works after a restart of the daemon.

        QEMU may yet have to take it: the first to use it waits for that, with a deadline of its own.
        """
        vm, record = self._running(vm_id)
        try:
            with vm.connect(_CONNECT_SECONDS) as monitor:
                answer, descriptors, _, _ = socket.recv_fds(monitor, _ANSWER_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            message = f"VM {vm_id} does not answer: {error_reason(error)}"
            raise VmError(message) from error
        if not descriptors:
            message = f"QEMU of VM {vm_id} does not answer: {answer.decode() or 'it has ended'}"
            raise VmError(message)
        connection = socket.socket(fileno=descriptors[0])
        connection.setblocking(True)  # noqa: FBT003 - the function's own argument
        return SshEndpoint(connection, record.private_key, record.host_key)

    def disk(self, vm_id: str) -> VmDisk:
        """Return the space of what the VM has written beyond its image or snapshot."""
        return VmDisk(0 if self.parked(vm_id) else self._disks.used_bytes(vm_id))

    def snapshot(self, vm_id: str, name: str) -> None:
        """Keep the VM's disk under ``name`` and end the VM, whose other parts wait for ``destroy``.

        The guest first completes its writes and refuses new ones, so that the file system is whole.
        """
        if not self._disks.check_free(vm_id, name):
            return
        vm = self._vm(vm_id)
        if vm.alive:
            if vm.folder.joinpath(_FLATTENING).exists():
                with commands(vm, _FLATTEN_SECONDS) as qmp:
                    await_flat(qmp)
                self._disks.note_flat(vm_id)
            with Connection(self.connect(vm_id), self._clock) as connection:
                done = connection.run(_FREEZE, timeout=_FREEZE_SECONDS)
            if done.exit_code != 0:
                message = f"the disk of VM {vm_id} cannot be frozen: {done.stderr.decode(errors='replace').strip()}"
                raise VmError(message)
            (vm.folder / "frozen").touch()
            let_end(vm, _END_SECONDS)
        else:
            vm.check_boot()
        if not (vm.folder / "frozen").exists():
            message = f"VM {vm_id} ended before its disk could be kept"
            raise VmLost(message)
        vm.end(_END_SECONDS)
        self._disks.keep(vm_id, name)

    def destroy(self, vm_id: str) -> None:
        """End the VM and free all that it held, in any state; ``list`` names it until all is gone."""
        vm = self._vm(vm_id)
        self._weights.pop(vm_id, None)
        vm.occupy()
        vm.end(_END_SECONDS)
        remove_groups(self._groups(vm_id, ""))
        vm.remove()

    def list(self) -> Iterable[str]:
        """Name every VM that has anything left on the host, running or not."""
        grouped = self.limits.names_with(self.group_name(""))
        return sorted(grouped | {path.name for path in self.vms_folder.iterdir()})

    def _stamp(self, image: str) -> str:
        return self._image_disks.stamp(image)

    def _group_limits(self, shape: Shape) -> GroupLimits:
        """Return the limits of the control groups of a machine of this shape, with all that runs it."""
        return GroupLimits(shape.cpu, shape.memory_gb * _GB + self._settings.overhead_mb * _MB, _PROCESSES)

    def _left(self, deadline: float) -> float:
        return max(deadline - self._clock.monotonic(), _MIN_SECONDS)
