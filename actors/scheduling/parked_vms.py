"""Parked VMs: tasks of the lease pool that make and destroy them, and the open connections to them."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future, InvalidStateError
from typing import TYPE_CHECKING

from actors import vms
from actors.vms import VmError
from storage import error_reason, immutable

if TYPE_CHECKING:
    from actors.metrics import EngineMetrics
    from actors.vms import Connection, Provider
    from storage import Clock, Lease, Storage


class ParkedConnections:
    """The connections to parked VMs, open or expected. Safe in any thread.

    A job's attempt takes that of its VM.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._expected: dict[str, Future[Connection | None]] = {}

    def expect(self, vm_id: str) -> None:
        """Note that a VM is being parked, so that `take` waits for it."""
        with self._lock:
            self._expected[vm_id] = Future()

    def add(self, vm_id: str, connection: Connection) -> None:
        """Keep the connection to a VM until it is taken; close it if `discard` was called meanwhile."""
        with self._lock:
            future = self._expected.get(vm_id)
        if future is None:
            connection.close()
            return
        try:
            future.set_result(connection)
        except InvalidStateError:
            connection.close()

    def take(self, vm_id: str) -> Connection | None:
        """Return the connection to a VM once it is there; the caller closes it.

        None if no VM of that id was parked by this process, if its parking or its connection failed, or if it is
        discarded meanwhile.
        """
        with self._lock:
            future = self._expected.get(vm_id)
        if future is None:
            return None
        try:
            connection = future.result()
        except CancelledError:
            return None
        with self._lock:
            self._expected.pop(vm_id, None)
        if connection is None or connection.alive:
            return connection
        connection.close()
        return None

    def discard(self, vm_id: str) -> None:
        """Close the connection to a VM, or expect none any more."""
        with self._lock:
            future = self._expected.pop(vm_id, None)
        if future is not None and not future.cancel() and (connection := future.result()) is not None:
            connection.close()


@immutable
class ParkVm:
    """Task: make the parked VM of this lease."""

    lease: Lease

    def __str__(self) -> str:
        return f"park the VM {self.lease.uuid}"


@immutable
class DestroyVm:
    """Task: destroy a parked VM."""

    lease: Lease

    def __str__(self) -> str:
        return f"destroy the parked VM {self.lease.uuid}"


@immutable
class VmParked:
    """Worker: the parked VM of this lease is ready, on a member if there are several."""

    lease: Lease
    member: str | None


def park(
    provider: Provider, connections: ParkedConnections, clock: Clock, metrics: EngineMetrics, lease: Lease
) -> VmParked:
    """Make a VM without a disk, and connect to it. Raises VmError and leaves nothing behind but the lease.

    No error is transient (`Supervised.work`): a job that has taken the VM makes another one of its name by then.
    """
    try:
        _park(provider, connections, clock, metrics, lease.uuid)
    except OSError as error:
        message = f"VM {lease.uuid} could not be parked: {error_reason(error)}"
        raise VmError(message) from error
    return VmParked(lease, provider.member(lease.uuid))


def _park(provider: Provider, connections: ParkedConnections, clock: Clock, metrics: EngineMetrics, vm_id: str) -> None:
    try:
        with metrics.making():
            provider.park(vm_id)
        connections.add(vm_id, vms.Connection(provider.connect(vm_id), clock))
    except BaseException:
        try:
            provider.destroy(vm_id)
        finally:
            connections.discard(vm_id)
        raise


def destroy(storage: Storage, provider: Provider, connections: ParkedConnections, lease: Lease) -> None:
    """Destroy a VM without a job and end its lease, even if the destruction fails. Raises VmError."""
    connections.discard(lease.uuid)
    try:
        provider.destroy(lease.uuid)
    finally:
        storage.leases.end(lease.id)
