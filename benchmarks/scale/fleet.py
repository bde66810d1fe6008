"""A fleet in memory: as many members as wanted, with the delays that were measured on Incus."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms import SshEndpoint, VmDisk, VmError, VmLost
from benchmarks.scale.guests import HOST_KEY, SOCKET
from tests.memory.provider import MemoryProvider

if TYPE_CHECKING:
    from actors.vms import Images, VmSpec

FOLDER = "BENCHMARK_FLEET_FOLDER"
"""The environment's variable for the folder of the guests' socket and key."""

MEMBERS = "BENCHMARK_FLEET_MEMBERS"
"""The environment's variable for the number of members."""

DELAYS = "BENCHMARK_FLEET_DELAYS"
"""The environment's variable for the seconds to create a VM, connect to it, ask for it, delete it."""

NO_DELAYS = "0 0 0 0"
_MEASURED_ON_INCUS = "0.255 0.015 0.015 0.583"
_CPUS = 32


class SimulatedFleet(MemoryProvider):
    """A provider whose calls take as long as an engine's over TLS; the guests' process serves SSH.

    A VM is placed on the member with the most free vCPUs.
    """

    name = "sandbox"

    def __init__(self, images: Images, folder: Path, members: int, delays: tuple[float, ...]) -> None:
        super().__init__(images)
        self._create_seconds, self._connect_seconds, self._request_seconds, self._delete_seconds = delays
        self._socket = str(folder / SOCKET)
        self._private = (folder / HOST_KEY).read_text("ascii")
        self._public = (folder / f"{HOST_KEY}.pub").read_text("ascii")
        self._free = [_CPUS] * members
        self._placed: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    @classmethod
    def from_environment(cls, _directory: Path, images: Images, *_others: object, **_options: object) -> SimulatedFleet:
        """Open the fleet, given the arguments of another provider."""
        delays = tuple(map(float, os.environ.get(DELAYS, _MEASURED_ON_INCUS).split()))
        return cls(images, Path(os.environ[FOLDER]), int(os.environ[MEMBERS]), delays)

    def create(self, spec: VmSpec) -> None:
        """Place a VM and make it."""
        with self._lock:
            member = max(range(len(self._free)), key=self._free.__getitem__)
            if self._free[member] < spec.shape.cpu:
                message = "no member has room"
                raise VmError(message)
            self._free[member] -= spec.shape.cpu
            self._placed[spec.id] = member, spec.shape.cpu
        time.sleep(self._create_seconds)
        super().create(spec)

    def connect(self, vm_id: str) -> SshEndpoint:
        """Connect to a guest."""
        if not self.alive(vm_id):
            message = f"VM {vm_id} is gone"
            raise VmLost(message)
        time.sleep(self._connect_seconds)
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(self._socket)
        return SshEndpoint(connected, self._private, self._public)

    def disk(self, vm_id: str) -> VmDisk:
        """Ask for the size of a disk."""
        time.sleep(self._request_seconds)
        return super().disk(vm_id)

    def destroy(self, vm_id: str) -> None:
        """Delete a VM, unless there is none."""
        with self._lock:
            placed = self._placed.pop(vm_id, None)
        if placed is None:
            return
        time.sleep(self._delete_seconds)
        super().destroy(vm_id)
        with self._lock:
            member, cpus = placed
            self._free[member] += cpus
