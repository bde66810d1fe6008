"""VMs as machines: QEMU guests with a kernel of their own (engine.md, "Leases")."""

from __future__ import annotations

import marshal
import os
import resource
import select
import signal
import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms.description import Enforcement, ProviderDescription
from actors.vms.provider import ImageNotFound, SnapshotNotFound, SshEndpoint, VmDisk, VmError, VmLost, VmSpec, VmUse
from actors.vms.qemu.acceleration import KVM, Accelerator, find_accelerator, require_program
from actors.vms.qemu.boot_files import BootFiles
from actors.vms.qemu.command_line import Machine, command_line, files
from actors.vms.qemu.disks import Disks
from actors.vms.qemu.image_disks import ImageDisks, stamp_of
from actors.vms.qemu.launch import CONSOLE, start
from actors.vms.sandbox.cgroups import GroupLimits, remove_groups
from actors.vms.sandbox.disks import LayerChain, check_disk_name
from actors.vms.sandbox.keys import KeyPair
from actors.vms.sandbox.limits import VmLimits
from actors.vms.sandbox.network import RESOLVER, plan_network
from actors.vms.sandbox.resource_use import measure
from actors.vms.sandbox.userns import restrict_to_owner
from actors.vms.sandbox.vm_folder import VmFolder, VmRecord
from actors.vms.sandbox.zygote import Zygote
from actors.vms.ssh import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actors.vms.qemu.settings import QemuSettings
    from actors.vms.sandbox.provider import ImageRoots
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


class QemuProvider:
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
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        restrict_to_owner(folder)
        self._folder = folder
        self._vms = folder / "vms"
        self._vms.mkdir(exist_ok=True)
        self._disks = Disks(self._vms, folder / "snapshots")
        self._images = images
        self._image_disks = ImageDisks(folder / "images", images, idmap)
        self._idmap = idmap
        self._clock = clock
        self._settings = settings
        self._shared = shared
        self._vms_at_once = vms_at_once
        self._base_image = base_image
        self._limits = VmLimits.of_host(shared.processes)
        self._zygote = Zygote()
        self._preparing = threading.Lock()
        self._boot: tuple[str, BootFiles, Accelerator] | None = None

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
        try:
            with vm.attaching():
                self._start(vm, spec, chain, deadline)
        except OSError as error:
            self.destroy(spec.id)
            message = f"VM {spec.id} could not be created: {error}"
            raise VmError(message) from error
        except BaseException:
            self.destroy(spec.id)
            raise

    def _start(self, vm: VmFolder, spec: VmSpec, chain: LayerChain, deadline: float) -> None:
        program, boot, accelerator = self._prepared()
        image, base = self._image_disks.path(chain.image), self._base_disk()
        host, caller = KeyPair.make(), KeyPair.make()
        group = self._group_name(vm.id)
        vm.write(VmRecord(caller.private, host.public, tuple(map(str, self._limits.groups(group)))))
        memory = spec.shape.memory_gb * _GB + self._settings.overhead_mb * _MB
        self._limits.make_groups(group, GroupLimits(spec.shape.cpu, memory, _PROCESSES))
        below = self._disks.layers(chain)
        size = max([spec.shape.disk_gb * _GB, image.stat().st_size, *map(_virtual_size, below)])
        own = self._disks.make(vm.id, chain, size)
        seed = vm.folder / "seed"
        seed.touch(mode=0o600)
        seed.write_bytes(_padded(marshal.dumps(self._seed(spec, host, caller))))
        machine = Machine(
            program, accelerator.kvm, spec.shape, spec.network, boot.kernel, boot.initramfs, base,
            [own, *below, image], seed,
        )  # fmt: skip
        started = {
            "id": vm.id,
            "cgroups": [str(join_file) for join_file in self._limits.join_files(group)],
            "processes": _PROCESSES,
            "vms": self._vms_at_once,
            "uid_map": str(self._idmap.uids[0]),
            "gid_map": str(self._idmap.gids[0]),
            "network": plan_network(self._shared.network) if spec.network else None,
            "resolver": RESOLVER,
            "devices": [str(KVM)] if accelerator.kvm else [],
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
        return self._prepared()[2]

    def connect(self, vm_id: str) -> SshEndpoint:
        """Connect to the VM's SSH server; also works after a restart of the daemon."""
        vm = self._vm(vm_id)
        record = vm.record()
        if not vm.alive:
            message = f"VM {vm_id} has ended"
            raise VmLost(message)
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

    def alive(self, vm_id: str) -> bool:
        """Tell whether the VM still runs, with its disk."""
        vm = self._vm(vm_id)
        return vm.attached and vm.alive

    def parked(self, vm_id: str) -> bool:
        """Return False: machines are not parked."""
        check_disk_name(vm_id)
        return False

    def use(self, vm_id: str) -> VmUse:
        """Read the VM's control groups; the result is unknown if it has none, or is gone."""
        try:
            return measure(map(Path, self._vm(vm_id).record().groups))
        except VmLost:
            return VmUse()

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

    def snapshots(self) -> Iterable[str]:
        """Name every snapshot in the store."""
        return self._disks.names()

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

    def destroy(self, vm_id: str) -> None:
        """End the VM and free all that it held, in any state; ``list`` names it until all is gone."""
        vm = self._vm(vm_id)
        vm.end(_END_SECONDS)
        groups = set(self._limits.groups(self._group_name(vm_id)))
        with suppress(VmLost):
            groups |= {Path(group) for group in vm.record().groups}
        remove_groups(groups)
        vm.remove()

    def list(self) -> Iterable[str]:
        """Name every VM that has anything left on the host, running or not."""
        grouped = self._limits.names_with(self._group_name(""))
        return sorted(grouped | {path.name for path in self._vms.iterdir()})

    def close(self) -> None:
        """Let the zygote end; VMs live on."""
        self._zygote.close()

    def _vm(self, vm_id: str) -> VmFolder:
        return VmFolder(self._vms / check_disk_name(vm_id))

    def _group_name(self, vm_id: str) -> str:
        """Name a VM's control groups, uniquely on the host: those of other folders are beside them."""
        found = self._vms.stat()
        return f"ci-daemon-{found.st_dev:x}-{found.st_ino:x}-{vm_id}"

    def _base_disk(self) -> Path:
        try:
            return self._image_disks.path(self._base_image())
        except ImageNotFound as error:
            message = f"VMs need an image with sshd, run `ci-daemon image build`: {error}"
            raise VmError(message) from error

    def _chain_of(self, spec: VmSpec) -> LayerChain:
        if spec.snapshot is None:
            return LayerChain(spec.image, stamp_of(self._images.path(spec.image)))
        return self._chain_on(spec.snapshot)

    def _chain_on(self, snapshot: str) -> LayerChain:
        """Return the chain of a disk that starts from a snapshot. Raises SnapshotNotFound, ImageNotFound."""
        chain = self._disks.chain_on(snapshot)
        if chain.stamp != stamp_of(self._images.path(chain.image)):
            message = f"snapshot {snapshot!r} was made on an image {chain.image!r} that has been replaced since"
            raise SnapshotNotFound(message)
        return chain

    def _prepared(self) -> tuple[str, BootFiles, Accelerator]:
        """Return QEMU, the boot files and the accelerator, found the first time. Raises VmError."""
        with self._preparing:
            if self._boot is None:
                program = require_program()
                boot = BootFiles.make(self._folder / "boot", self._settings.system)
                self._boot = program, boot, self._chosen(program, boot)
            return self._boot

    def _chosen(self, program: str, boot: BootFiles) -> Accelerator:
        if self._settings.acceleration == "auto":
            return find_accelerator(program, boot, self._idmap)
        return Accelerator(self._settings.acceleration == "kvm", "the configuration says so")


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
