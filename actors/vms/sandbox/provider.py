"""VMs as sandboxes: namespaces, image layers and an sshd, without privileges (engine.md, "Leases")."""

from __future__ import annotations

import os
import select
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from actors.vms.description import ProviderDescription
from actors.vms.host.control_groups import SERVICE_LIMITS, VmLimits, remove_groups
from actors.vms.host.network import RESOLVER, plan_network
from actors.vms.host.pipes import PROGRAMS, PipesToVm
from actors.vms.host.vm_folder import KeyPair, VmRecord
from actors.vms.host.vms import HostVms, LayerChain
from actors.vms.provider import USUAL_WEIGHT, SshEndpoint, VmDisk, VmError, VmLost, VmSpec
from actors.vms.sandbox.disks import MAX_LAYERS, Disks
from actors.vms.settings import SandboxSettings
from storage import error_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from actors.vms.host.ids import IdMap
    from actors.vms.host.vm_folder import VmFolder
    from actors.vms.host.vms import ImageRoots
    from actors.vms.host.zygote import Zygote
    from storage import Clock


_GB = 1 << 30
_SERVICE = "@service"
"""The end of the name of the control groups of the service's own part of a VM."""

_PARKED_WEIGHT = 1

_DEFAULTS = SandboxSettings()
_CONNECT_SECONDS = 10.0
_END_SECONDS = 30.0


class SandboxProvider(HostVms):
    """A provider that makes VMs in a folder, as root or as any user with a range of sub-ids.

    See Provider for the calls. The only state in memory is the connection on which each new VM proved that it answers:
    the first ``connect`` to the VM returns it.
    """

    name = "sandbox"
    _disks: Disks

    def __init__(
        self,
        folder: Path,
        images: ImageRoots,
        idmap: IdMap,
        clock: Clock,
        settings: SandboxSettings = _DEFAULTS,
        vms_at_once: int = 8,
        max_layers: int = MAX_LAYERS,
        base_image: Callable[[], str] = lambda: "debian:12",
    ) -> None:
        """Keep all VMs, disks and snapshots in ``folder``, which is made if it is missing. Raises VmError.

        Resources that the kernel counts by user are shared among ``vms_at_once`` VMs. The layers of a snapshot are
        merged when they are ``max_layers``. ``base_image`` names the image whose sshd serves the VMs.
        """
        super().__init__(folder, images, VmLimits.of_host(settings.processes), base_image)
        self._disks = Disks(folder / "trees", idmap, self.zygote, max_layers)
        self._idmap = idmap
        self._clock = clock
        self._settings = settings
        self.vms_folder_at_once = vms_at_once
        self._ready_connections: dict[str, socket.socket] = {}
        self._weights: dict[str, int] = {}

    @property
    def description(self) -> ProviderDescription:
        """Describe the sandboxes of this host."""
        limits = tuple(self.limits.describe())
        return ProviderDescription(parks=True, own_kernel=False, reserves=True, limits=limits)

    def create(self, spec: VmSpec) -> None:
        """Make a VM and return when its sshd answers, or raise and leave nothing behind."""
        self._base_layers(spec)
        self._weights.setdefault(spec.id, USUAL_WEIGHT)
        self.park(spec.id)
        self.attach(spec)

    def weigh(self, vm_id: str, weight: int) -> None:
        """Set the share of the CPU of the VM's control groups, of the job's part and of the service's."""
        self._weights[vm_id] = weight
        for part in ("", _SERVICE):
            self.limits.set_weight(self.group_name(vm_id) + part, weight)

    def remove_image_copies(self) -> None:
        """Do nothing: VMs use the trees of the store."""

    def park(self, vm_id: str) -> None:
        """Make a VM without a disk, or raise and leave nothing behind."""
        deadline = self._clock.monotonic() + self._settings.create_seconds
        vm = self._vm(vm_id)
        base, network = self._of_base(self._images.path), plan_network(self._settings.network)
        vm.make()
        with self._destroyed_on_error(vm_id), vm.locked() as lock:
            host, caller = KeyPair.make(), KeyPair.make()
            group = self.group_name(vm_id)
            groups = (*self.limits.groups(group), *self.limits.groups(group + _SERVICE))
            vm.write(VmRecord(caller.private, host.public, tuple(map(str, groups))))
            self.limits.make_groups(group + _SERVICE, SERVICE_LIMITS)
            self.limits.set_weight(group + _SERVICE, self._weights.get(vm_id, _PARKED_WEIGHT))
            parked = {
                "id": vm_id,
                "base": str(base),
                "disks": str(self._disks.folder / "disks"),
                "cgroups": self.limits.join_files(group + _SERVICE),
                "user_namespaces": self._settings.user_namespaces,
                "processes": self._settings.processes,
                "vms": self.vms_folder_at_once,
                "uid_map": str(self._idmap.uids[0]),
                "gid_map": str(self._idmap.gids[0]),
                "network": network,
                "host_key": host.private,
                "authorized_key": caller.public,
            }
            self._ready_connections[vm_id] = park_vm(vm, parked, lock, self.zygote, self._clock, deadline)

    def attach(self, spec: VmSpec) -> None:
        """Give a parked VM its disk, shape and network, or raise and leave nothing behind."""
        deadline = self._clock.monotonic() + self._settings.create_seconds
        vm = self._vm(spec.id)
        with vm.attaching(), self._destroyed_on_error(spec.id):
            chain, layers = self._base_layers(spec)
            group = self.group_name(spec.id)
            self.limits.make_groups(group, self.limits.of_job(spec.shape))
            self.weigh(spec.id, self._weights.get(spec.id, USUAL_WEIGHT))
            attached = {
                "monitor": vm.monitor(),
                "disk": str(self._disks.folder / "disks" / spec.id),
                "layers": [str(layer) for layer in layers],
                "services": [
                    {"name": name, "image": str(self._images.path(image))} for name, image in spec.services.items()
                ],
                "chain": chain.dumps(),
                "cgroups": self.limits.join_files(group),
                "job": {
                    "limits": self.limits.of_processes(spec.shape),
                    "memory_bytes": spec.shape.memory_gb * _GB,
                    "network": spec.network,
                    "resolver": RESOLVER if spec.network else None,
                    "services": list(spec.services),
                    "containers": spec.containers,
                },
            }
            attach_disk(vm, attached, self.zygote, self._clock, deadline)

    def connect(self, vm_id: str) -> SshEndpoint:
        """Connect to the VM's SSH server; also works after a restart of the daemon."""
        vm, record = self._running(vm_id)
        opened = self._ready_connections.pop(vm_id, None)
        if opened is None or _is_closed(opened):
            try:
                opened = vm.connect(_CONNECT_SECONDS)
            except OSError as error:
                message = f"VM {vm_id} does not answer: {error_reason(error)}"
                raise VmError(message) from error
            opened.settimeout(None)
        return SshEndpoint(opened, record.private_key, record.host_key, pipes=PipesToVm.of(vm))

    def disk(self, vm_id: str) -> VmDisk:
        """Return the space of what the VM has written beyond its image or snapshot."""
        vm, used = self._vm(vm_id), self._disks.used_bytes(vm_id)
        try:
            monitor, groups = vm.monitor(), [Path(group) for group in vm.record().groups]
        except VmLost:
            return VmDisk(used)
        unlinked, in_doubt = self.zygote.measure_unlinked(monitor, self._disks.mounted(vm_id), groups)
        return VmDisk(used + unlinked, in_doubt)

    def snapshot(self, vm_id: str, name: str) -> None:
        """Keep the VM's disk under ``name`` and end the VM, whose other parts wait for ``destroy``."""
        vm = self._vm(vm_id)
        self._close_ready_connection(vm_id)
        if name not in self._disks.snapshots():
            vm.check_boot()
        vm.end_guest(_END_SECONDS)
        self._disks.freeze(vm_id, name)

    def destroy(self, vm_id: str) -> None:
        """End the VM and free all that it held, in any state; ``list`` names it until all is gone."""
        vm = self._vm(vm_id)
        vm.occupy()
        vm.end(_END_SECONDS)
        self._close_ready_connection(vm_id)
        self._weights.pop(vm_id, None)
        remove_groups(self._groups(vm_id, "", _SERVICE))
        self._disks.remove(vm_id)
        vm.remove()

    def close(self) -> None:
        """Close the connections that nobody asked for, and let the zygote and keepers end; VMs live on."""
        for vm_id in tuple(self._ready_connections):
            self._close_ready_connection(vm_id)
        self._disks.close()
        super().close()

    def _base_layers(self, spec: VmSpec) -> tuple[LayerChain, Sequence[Path]]:
        """Return the chain of the VM's disk, and the folders of its layers, newest first."""
        chain = self._chain_of(spec)
        return chain, [*self._disks.layer_paths(chain), self._images.path(chain.image)]

    def _close_ready_connection(self, vm_id: str) -> None:
        if opened := self._ready_connections.pop(vm_id, None):
            opened.close()

    def list(self) -> Iterable[str]:
        """Name every VM that has anything left on the host, running or not."""
        grouped = {name.removesuffix(_SERVICE) for name in self.limits.names_with(self.group_name(""))}
        return sorted(grouped | self._disks.names() | {path.name for path in self.vms_folder.iterdir()})


def _is_closed(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, 0)
    return bool(poll.poll(0))


_GREETING = b"SSH-"
_READY = b"ready"
_MIN_SECONDS = 0.001


def park_vm(
    vm: VmFolder, spec: dict[str, Any], lock: int, zygote: Zygote, clock: Clock, deadline: float
) -> socket.socket:
    """Start the VM that ``spec`` describes; return a connection on which its sshd has sent its greeting.

    Its processes hold the ``lock``, too. The connection is opened before the VM exists and waits in the listener's
    queue, so that sshd answers as soon as it runs. Raises VmError; the caller then ends what was started.
    """
    with ExitStack() as undo:
        listener = undo.enter_context(vm.listen("ssh", socket.SOCK_STREAM))
        control = undo.enter_context(vm.listen("control", socket.SOCK_SEQPACKET))
        programs = undo.enter_context(vm.bind(PROGRAMS, socket.SOCK_DGRAM))
        connection = undo.enter_context(vm.connect(_left(clock, deadline)))
        with _run(vm, "vm", spec, zygote, [lock, *(each.fileno() for each in (listener, control, programs))]) as report:
            # From now on only the VM's processes hold the listeners: if they die, the queued connection is reset. If
            # this process held them too, the connection would wait until the deadline.
            listener.close()
            control.close()
            programs.close()
            await_ready(vm, report.fileno(), _left(clock, deadline))
        await_greeting(vm, connection, _left(clock, deadline))
        undo.pop_all()
    return connection


def attach_disk(vm: VmFolder, spec: dict[str, Any], zygote: Zygote, clock: Clock, deadline: float) -> None:
    """Attach the disk that ``spec`` describes to a parked VM.

    Raises VmError; the VM is then of no more use.
    """
    with vm.connect(_left(clock, deadline), "control", socket.SOCK_SEQPACKET) as control:
        control.settimeout(None)
        with _run(vm, "attach", spec, zygote, [control.fileno()]) as report:
            await_ready(vm, report.fileno(), _left(clock, deadline))
        await_ready(vm, control.fileno(), _left(clock, deadline))


def _run(vm: VmFolder, program: str, spec: dict[str, Any], zygote: Zygote, descriptors: list[int]) -> IO[bytes]:
    """Start a program of the launcher; return the pipe that it reports to."""
    read, write = os.pipe()
    report = os.fdopen(read, "rb", buffering=0)
    try:
        with (vm.folder / "log").open("ab") as log:
            zygote.start(program, spec, [write, log.fileno(), *descriptors])
    except BaseException:
        report.close()
        raise
    finally:
        os.close(write)
    return report


def await_ready(vm: VmFolder, report: int, seconds: float) -> None:
    """Wait for the word ``ready`` on a descriptor. Raises VmError if another comes, or none."""
    poll = select.poll()
    poll.register(report, select.POLLIN)
    if not poll.poll(seconds * 1000):
        message = f"VM {vm.id} did not start in time: {vm.log() or 'its log is empty'}"
        raise VmError(message)
    status, _, why = os.read(report, select.PIPE_BUF).partition(b"\n")[0].partition(b" ")
    if status != _READY:
        reason = ": ".join(filter(None, (why.decode(errors="replace"), vm.log())))
        message = f"VM {vm.id} could not be created: {reason or 'its launcher ended without a message'}"
        raise VmError(message)


def await_greeting(vm: VmFolder, connection: socket.socket, seconds: float) -> None:
    """Wait for the first bytes of the SSH protocol, without consuming them."""
    connection.settimeout(seconds)
    try:
        greeting = connection.recv(len(_GREETING), socket.MSG_PEEK)
    except OSError as error:
        message = f"the sshd of VM {vm.id} does not answer: {error_reason(error)}"
        raise VmError(message) from error
    if greeting != _GREETING:
        message = f"the sshd of VM {vm.id} ended at once: run `/usr/sbin/sshd -t` in the base image to see why"
        raise VmError(message)
    connection.settimeout(None)


def _left(clock: Clock, deadline: float) -> float:
    return max(deadline - clock.monotonic(), _MIN_SECONDS)
