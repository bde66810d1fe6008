"""VMs in memory: objects of this process with the contract of real VMs, for tests about actors."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from actors.vms import (
    HostSize,
    ImageNotFound,
    Provider,
    ProviderAway,
    ProviderDescription,
    Providers,
    SnapshotNotFound,
    SshEndpoint,
    VmDisk,
    VmError,
    VmLost,
    VmSpec,
    VmUse,
)
from actors.vms.host.vm_folder import KeyPair
from actors.vms.host.vms import check_disk_name
from tests.memory.guest import Guest
from tests.memory.server import serve


class _Images(Protocol):
    """The source of images, whose names alone matter."""

    def path(self, name: str) -> object:
        """Raise ImageNotFound if there is no such image."""
        ...


@dataclass(frozen=True)
class _Snapshot:
    image: str
    base: str | None
    own_files: dict[str, bytes]
    files: dict[str, bytes]


@dataclass
class _Vm:
    spec: VmSpec | None = None
    image: str = ""
    base_files: dict[str, bytes] = field(default_factory=dict)
    guest: Guest = field(default_factory=Guest)
    alive: bool = True
    snapshot: str | None = None
    host_key: KeyPair = field(default_factory=KeyPair.make)
    caller: KeyPair = field(default_factory=KeyPair.make)
    sockets: list[socket.socket] = field(default_factory=list)

    @property
    def own_files(self) -> dict[str, bytes]:
        """The files that were written since the VM was made."""
        return {path: data for path, data in self.guest.files.copy().items() if self.base_files.get(path) is not data}

    def end(self) -> None:
        self.alive = False
        for each in self.sockets:
            with suppress(OSError):  # the connection has ended
                each.shutdown(socket.SHUT_RDWR)
        self.guest.end()


@dataclass
class World:
    """The VMs and snapshots of a host; they outlive the providers that are opened on it."""

    vms: dict[str, _Vm] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)
    snapshots: dict[str, _Snapshot] = field(default_factory=dict)
    image_copies: set[str] = field(default_factory=set)
    lock: threading.RLock = field(default_factory=threading.RLock)


def only(*providers: Provider) -> Providers:
    """Return the providers of a host that has these."""
    opened = {each.name: each for each in providers}
    return Providers({name: partial(opened.__getitem__, name) for name in opened}, opened)


class MemoryProvider:
    """A provider of VMs in a world, with the name of one in whose place it is. See Provider for the calls."""

    description = ProviderDescription(parks=True, own_kernel=False, reserves=True, limits=())

    def __init__(self, images: _Images, world: World | None = None, name: str = "sandbox") -> None:
        self.name = name
        self._images = images
        self._world = world or World()
        self.members: dict[str, str] = {}
        self.away = False
        """True while every question to it raises ProviderAway; VMs run on."""

    def create(self, spec: VmSpec) -> None:
        self.park(spec.id)
        self.attach(spec)

    def park(self, vm_id: str) -> None:
        self._ask()
        check_disk_name(vm_id)
        with self._world.lock:
            if vm_id in self._world.vms:
                message = f"VM {vm_id} exists already"
                raise VmError(message)
            self._world.vms[vm_id] = _Vm()

    def weigh(self, vm_id: str, weight: int) -> None:
        with self._world.lock:
            self._world.weights[vm_id] = weight

    def weights(self) -> list[int]:
        """Return the weights of all VMs, in the order in which they were made."""
        with self._world.lock:
            return [self._world.weights.get(each, 100) for each in self._world.vms]

    def attach(self, spec: VmSpec) -> None:
        self._ask()
        with self._world.lock:
            if self._vm(spec.id).spec is not None:
                message = f"VM {spec.id} has a disk already"
                raise VmError(message)
            try:
                self._attach(spec)
            except VmError:
                self.destroy(spec.id)
                raise

    def _attach(self, spec: VmSpec) -> None:
        vm = self._vm(spec.id)
        image, files = spec.image, dict[str, bytes]()
        if spec.snapshot is not None:
            base = self._snapshot(spec.snapshot)
            image, files = base.image, base.files
        self._images.path(image)
        self._world.image_copies.add(image)
        vm.spec, vm.image, vm.base_files = spec, image, files
        vm.guest.files.update(files)

    def connect(self, vm_id: str) -> SshEndpoint:
        self._ask()
        with self._world.lock:
            vm = self._vm(vm_id)
            if not vm.alive:
                message = f"VM {vm_id} has ended"
                raise VmLost(message)
            client, server = serve(vm.guest, vm.host_key.private, vm.caller.public)
            vm.sockets.append(server)
        return SshEndpoint(client, vm.caller.private, vm.host_key.public)

    def alive(self, vm_id: str) -> bool:
        self._ask()
        vm = self._world.vms.get(vm_id)
        return vm is not None and vm.spec is not None and vm.alive

    def parked(self, vm_id: str) -> bool:
        self._ask()
        vm = self._world.vms.get(vm_id)
        return vm is not None and vm.spec is None and vm.alive

    def member(self, vm_id: str) -> str | None:
        return self.members.get(vm_id)

    def size(self) -> HostSize:
        return HostSize.here()

    def use(self, vm_id: str) -> VmUse:
        vm = self._world.vms.get(vm_id)
        return VmUse() if vm is None else VmUse(0.0, _size(vm.guest.files))

    def disk(self, vm_id: str) -> VmDisk:
        self._ask()
        return VmDisk(_size(self._vm(vm_id).own_files))

    def snapshot(self, vm_id: str, name: str) -> None:
        self._ask()
        check_disk_name(name)
        with self._world.lock:
            vm = self._vm(vm_id)
            vm.end()
            if vm.spec is None:
                message = f"VM {vm_id} has no disk to take a snapshot of"
                raise VmLost(message)
            if vm.snapshot == name:
                return
            if name in self._world.snapshots:
                message = f"a snapshot {name} exists already"
                raise VmError(message)
            vm.snapshot = name
            files = vm.guest.files.copy()
            self._world.snapshots[name] = _Snapshot(vm.image, vm.spec.snapshot, vm.own_files, files)

    def snapshots(self) -> Iterable[str]:
        return sorted(self._world.snapshots)

    def snapshot_image(self, name: str) -> str | None:
        self._ask()
        try:
            image = self._snapshot(name).image
            self._images.path(image)
        except (SnapshotNotFound, ImageNotFound):
            return None
        return image

    def snapshot_bytes(self, name: str) -> int:
        snapshot = self._world.snapshots.get(name)
        return 0 if snapshot is None else _size(snapshot.own_files)

    def remove_snapshot(self, name: str) -> None:
        with self._world.lock:
            users = {vm.spec.snapshot for vm in self._world.vms.values() if vm.spec and vm.snapshot is None}
            if name in users | {snapshot.base for snapshot in self._world.snapshots.values()}:
                message = f"snapshot {name} is in use"
                raise VmError(message)
            self._world.snapshots.pop(name, None)

    @property
    def image_copies(self) -> set[str]:
        """The images that jobs started from, as a provider has copies of them that keeps its VMs elsewhere."""
        return self._world.image_copies

    def remove_image_copies(self) -> None:
        self._ask()
        for image in sorted(self.image_copies):
            try:
                self._images.path(image)
            except ImageNotFound:
                self._world.image_copies.remove(image)

    def destroy(self, vm_id: str) -> None:
        self._ask()
        check_disk_name(vm_id)
        with self._world.lock:
            vm = self._world.vms.pop(vm_id, None)
        if vm is not None:
            vm.end()

    def crash(self, vm_id: str) -> None:
        """End a VM by itself: it is listed until it is destroyed."""
        self._vm(vm_id).end()

    def list(self) -> Iterable[str]:
        self._ask()
        return sorted(self._world.vms)

    def close(self) -> None:
        pass

    def _ask(self) -> None:
        if self.away:
            message = "the provider does not answer"
            raise ProviderAway(message)

    def _vm(self, vm_id: str) -> _Vm:
        try:
            return self._world.vms[vm_id]
        except KeyError:
            message = f"VM {vm_id} was never made or is gone"
            raise VmLost(message) from None

    def _snapshot(self, name: str) -> _Snapshot:
        try:
            return self._world.snapshots[name]
        except KeyError:
            message = f"no snapshot {name!r}"
            raise SnapshotNotFound(message) from None


def _size(files: dict[str, bytes]) -> int:
    return sum(map(len, files.copy().values()))
