"""Parked VMs: the tasks of the lease pool that make, adopt and destroy them."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.vms import Connection, VmError

if TYPE_CHECKING:
    from actors.metrics import EngineMetrics
    from actors.vms import Provider
    from storage import Clock, Lease, Storage

__all__ = ["AdoptVm", "DestroyVm", "ParkVm", "ParkedConnections", "VmParked", "connect", "destroy", "park"]


class ParkedConnections:
    """The open connections to parked VMs; a job's attempt takes that of its VM. Safe in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, Connection] = {}

    def add(self, vm_id: str, connection: Connection) -> None:
        """Keep a connection until it is taken."""
        with self._lock:
            self._open[vm_id] = connection

    def take(self, vm_id: str) -> Connection | None:
        """Return the connection to a VM, if there is one that is alive; the caller closes it."""
        with self._lock:
            connection = self._open.pop(vm_id, None)
        if connection is None or connection.alive:
            return connection
        connection.close()
        return None

    def close(self, vm_id: str) -> None:
        """Close the connection to a VM, if there is one."""
        if connection := self.take(vm_id):
            connection.close()


@dataclass(frozen=True, slots=True)
class ParkVm:
    """Task: make a parked VM."""

    def __str__(self) -> str:
        return "park a VM"


@dataclass(frozen=True, slots=True)
class AdoptVm:
    """Task: connect to a parked VM that an earlier process made."""

    lease: Lease

    def __str__(self) -> str:
        return f"adopt the parked VM {self.lease.uuid}"


@dataclass(frozen=True, slots=True)
class DestroyVm:
    """Task: destroy a parked VM."""

    lease: Lease

    def __str__(self) -> str:
        return f"destroy the parked VM {self.lease.uuid}"


@dataclass(frozen=True, slots=True)
class VmParked:
    """Worker: the parked VM of this lease is ready."""

    lease: Lease


def park(
    storage: Storage, provider: Provider, connections: ParkedConnections, clock: Clock, metrics: EngineMetrics
) -> Lease:
    """Make a VM without a disk, and connect to it. Raises VmError."""
    lease = storage.leases.reserve_parked(str(uuid.uuid4()), provider=provider.name)
    try:
        with metrics.making():
            provider.park(lease.uuid)
        connect(provider, connections, clock, lease)
    except VmError:
        provider.destroy(lease.uuid)
        storage.leases.end(lease.id)
        raise
    return lease


def connect(provider: Provider, connections: ParkedConnections, clock: Clock, lease: Lease) -> None:
    """Connect to a parked VM. Raises VmError."""
    connections.add(lease.uuid, Connection(provider.connect(lease.uuid), clock))


def destroy(storage: Storage, provider: Provider, connections: ParkedConnections, lease: Lease) -> None:
    """Destroy a VM without a job and end its lease, even if the destruction fails. Raises VmError."""
    connections.close(lease.uuid)
    try:
        provider.destroy(lease.uuid)
    finally:
        storage.leases.end(lease.id)
