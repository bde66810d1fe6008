"""VMs as machines: QEMU guests with a kernel of their own (engine.md, "Leases")."""

from __future__ import annotations

import marshal
import os
import resource
import select
import signal
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING

from actors.vms.description import Enforcement, ProviderDescription
from actors.vms.provider import SshEndpoint, VmDisk, VmError, VmLost, VmSpec
from actors.vms.qemu.acceleration import KVM, Accelerator
from actors.vms.qemu.command_line import Machine, command_line, files
from actors.vms.qemu.disks import Disks
from actors.vms.qemu.image_disks import ImageDisks
from actors.vms.qemu.launch import CONSOLE, start
from actors.vms.qemu.preparation import Preparation
from actors.vms.sandbox.cgroups import GroupLimits, remove_groups
from actors.vms.sandbox.host_vms import HostVms
from actors.vms.sandbox.keys import KeyPair
from actors.vms.sandbox.limits import VmLimits
from actors.vms.sandbox.network import RESOLVER, plan_network
from actors.vms.sandbox.vm_folder import VmFolder, VmRecord
from actors.vms.ssh import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from actors.vms.qemu.settings import QemuSettings
    from actors.vms.sandbox.disks import LayerChain
    from actors.vms.sandbox.host_vms import ImageRoots
    from actors.vms.sandbox.settings import SandboxSettings
    from actors.vms.sandbox.userns import IdMap
    from storage import Clock

__all__ = ["QemuProvider"]

_GB, _MB = 1 << 30, 1 << 20
_PROCESSES = 512
"""The most processes and threads of a machine on the host: QEMU, its monitor and its network."""

_CONNECT_SECONDS = 30.0
_FREEZE_SECONDS = 60.0
_END_SECONDS = 30.0
_FREEZE = "exec fsfreeze --freeze /run/ci-daemon/disk"
_OPEN_FILES = 65_536
_JOB_LIMITS = ((resource.RLIMIT_NOFILE, _OPEN_FILES, _OPEN_FILES),)

_LIMITS = (
    Enforcement("cpu", enforced=True, how="QEMU gives a machine no more processors"),
    Enforcement("memory", enforced=True, how="QEMU gives a machine no more memory"),
    Enforcement("pids", enforced=False, how="the processes of a machine are those of its own kernel"),
    Enforcement("disk", enforced=True, how="the disk of a machine is no larger"),
)


class QemuProvider(HostVms):
    """A provider that makes machines in a folder, as root or as any user with a range of sub-ids.

    See Provider for the calls. Machines are booted for their job: none is parked.
    """

    name = "qemu"
    description = ProviderDescription(parks=False, own_kernel=True, limits=_LIMITS)

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
    ) -> None:
        """Keep all VMs, disks and snapshots in ``folder``, which is made if it is missing.

        ``shared`` has the settings that machines share with sandboxes: their network, processes and time to start.
        """
        super().__init__(folder, images, VmLimits.of_host(shared.processes), base_image)
        self._disks = Disks(self._vms, folder / "snapshots")
        self._image_disks = ImageDisks(folder / "images", images, idmap)
        self._idmap = idmap
        self._clock = clock
        self._settings = settings
        self._shared = shared
        self._vms_at_once = vms_at_once
        self._preparation = Preparation(folder / "boot", settings, idmap)

    def park(self, vm_id: str) -> None:
        """Do nothing: machines are not parked."""

    def hurry(self, vm_id: str) -> None:
        """Do nothing: no machine is parked."""

    def attach(self, spec: VmSpec) -> None:
        """Make the whole VM, as there is no parked one."""
        self.create(spec)

    def create(self, spec: VmSpec) -> None:
        """Boot a machine and return when a job can start in it, or raise and leave nothing behind."""
        deadline = self._clock.monotonic() + self._shared.create_seconds
        chain = self._chain_of(spec)
        vm = self._vm(spec.id)
        vm.make()
        with vm.attaching(), self._destroyed_on_error(spec.id):
            self._start(vm, spec, chain, deadline)

    def _start(self, vm: VmFolder, spec: VmSpec, chain: LayerChain, deadline: float) -> None:
        prepared = self._preparation.done()
        image, base = self._image_disks.path(chain.image), self._of_base(self._image_disks.path)
        host, caller = KeyPair.make(), KeyPair.make()
        group = self.group_name(vm.id)
        vm.write(VmRecord(caller.private, host.public, tuple(map(str, self.limits.groups(group)))))
        memory = spec.shape.memory_gb * _GB + self._settings.overhead_mb * _MB
        self.limits.make_groups(group, GroupLimits(spec.shape.cpu, memory, _PROCESSES))
        below = self._disks.layers(chain)
        size = max([spec.shape.disk_gb * _GB, image.stat().st_size, *map(_virtual_size, below)])
        own = self._disks.make(vm.id, chain, size)
        seed = vm.folder / "seed"
        seed.touch(mode=0o600)
        seed.write_bytes(_padded(marshal.dumps(self._seed(spec, host, caller))))
        machine = Machine(
            prepared.program, prepared.accelerator.kvm, spec.shape, spec.network,
            prepared.boot.kernel, prepared.boot.initramfs, base, [own, *below, image], seed,
        )  # fmt: skip
        started = {
            "id": vm.id,
            "cgroups": [str(join_file) for join_file in self.limits.join_files(group)],
            "processes": _PROCESSES,
            "vms": self._vms_at_once,
            "uid_map": str(self._idmap.uids[0]),
            "gid_map": str(self._idmap.gids[0]),
            "network": plan_network(self._shared.network) if spec.network else None,
            "resolver": RESOLVER,
            "devices": [str(KVM)] if prepared.accelerator.kvm else [],
            "console": str(vm.folder / CONSOLE),
            "files": [(str(file.path), file.writable) for file in files(machine)],
            "largest_file": size + size // 8,
            "argv": command_line(machine),
        }
        start(vm, started, self._zygote, max(deadline - self._clock.monotonic(), 1.0))

    def _seed(self, spec: VmSpec, host: KeyPair, caller: KeyPair) -> dict[str, object]:
        """Return what the guest's PID 1 reads from a disk of its own."""
        return {
            "host_key": host.private,
            "authorized_key": caller.public,
            "processes": self._shared.processes,
            "job": {
                "limits": list(_JOB_LIMITS),
                "memory_bytes": spec.shape.memory_gb * _GB,
                "network": spec.network,
                "resolver": RESOLVER if spec.network else None,
            },
        }

    def accelerator(self) -> Accelerator:
        """Tell how machines run here, after a trial boot the first time. Raises VmError if they cannot."""
        return self._preparation.done().accelerator

    def connect(self, vm_id: str) -> SshEndpoint:
        """Connect to the VM's SSH server; also works after a restart of the daemon."""
        vm, record = self._running(vm_id)
        try:
            with vm.connect(_CONNECT_SECONDS) as monitor:
                _, descriptors, _, _ = socket.recv_fds(monitor, 1, 1, socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            message = f"VM {vm_id} does not answer: {error}"
            raise VmError(message) from error
        if not descriptors:
            message = f"QEMU of VM {vm_id} does not answer"
            raise VmError(message)
        return SshEndpoint(socket.socket(fileno=descriptors[0]), record.private_key, record.host_key)

    def parked(self, vm_id: str) -> bool:
        """Return False: machines are not parked."""
        self._vm(vm_id)
        return False

    def disk(self, vm_id: str) -> VmDisk:
        """Return the space of what the VM has written beyond its image or snapshot."""
        return VmDisk(self._disks.used_bytes(vm_id))

    def snapshot(self, vm_id: str, name: str) -> None:
        """Keep the VM's disk under ``name`` and end the VM, whose other parts wait for ``destroy``.

        The guest first completes its writes and refuses new ones, so that the file system is whole.
        """
        if not self._disks.check_free(vm_id, name):
            return
        vm = self._vm(vm_id)
        if vm.alive:
            with Connection(self.connect(vm_id), self._clock) as connection:
                done = connection.run(_FREEZE, timeout=_FREEZE_SECONDS)
            if done.exit_code != 0:
                message = f"the disk of VM {vm_id} cannot be frozen: {done.stderr.decode(errors='replace').strip()}"
                raise VmError(message)
            (vm.folder / "frozen").touch()
            _let_end(vm)
        if not (vm.folder / "frozen").exists():
            message = f"VM {vm_id} ended before its disk could be kept"
            raise VmLost(message)
        vm.end(_END_SECONDS)
        self._disks.keep(vm_id, name)

    def destroy(self, vm_id: str) -> None:
        """End the VM and free all that it held, in any state; ``list`` names it until all is gone."""
        vm = self._vm(vm_id)
        vm.end(_END_SECONDS)
        remove_groups(self._groups(vm_id, ""))
        vm.remove()

    def list(self) -> Iterable[str]:
        """Name every VM that has anything left on the host, running or not."""
        grouped = self.limits.names_with(self.group_name(""))
        return sorted(grouped | {path.name for path in self._vms.iterdir()})


def _let_end(vm: VmFolder) -> None:
    """Let QEMU complete its files and end. Raises VmError if it does not."""
    with suppress(VmLost, ProcessLookupError):
        monitor = os.pidfd_open(vm.monitor())
        try:
            signal.pidfd_send_signal(monitor, signal.SIGTERM)
            poll = select.poll()
            poll.register(monitor, select.POLLIN)
            if not poll.poll(_END_SECONDS * 1000):
                message = f"QEMU of VM {vm.id} does not end: see {vm.folder / 'log'}"
                raise VmError(message)
        finally:
            os.close(monitor)


def _virtual_size(overlay: Path) -> int:
    """Read the size of a disk from the header of its qcow2 file, which the service has made."""
    with overlay.open("rb") as file:
        file.seek(24)
        return int(struct.unpack(">Q", file.read(8))[0])


def _padded(content: bytes) -> bytes:
    """Return the content of a disk, whose size is a multiple of a sector."""
    return content + bytes(-len(content) % 512)
