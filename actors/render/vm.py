"""The VM in which an archive is rendered: creation, disk limit and destruction."""

from __future__ import annotations

import logging
import shutil
import threading
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from actors import vms
from actors.builds.attempt.assignment import spec_of
from actors.builds.attempt.vm_connection import Abandoned
from actors.builds.outcome import DiskUse, disk_failure, seconds_to_full
from actors.render.envelope import RenderFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.builds.attempt.vm_connection import VmConnection
    from actors.cleanup.host_disk import HostDisk
    from actors.scheduling.parked_vms import ParkedConnections
    from storage import Lease, Storage

_log = logging.getLogger(__name__)


@contextmanager
def running_vm(
    storage: Storage, provider: vms.Provider, parked: ParkedConnections, lease: Lease, link: VmConnection
) -> Iterator[vms.Connection]:
    """Attach the disk to the parked VM of a lease, or make the VM, and connect; destroy it afterwards.

    While the provider is away, it waits without a limit. Raises VmError and Abandoned.
    """
    try:
        link.check()
        provider.hurry(lease.uuid)
        if (connection := parked.take(lease.uuid)) is not None:
            link.use(connection)
        link.check()
        link.patiently(lambda: _make(provider, lease))
        yield link.patiently(link.connected)
    finally:
        parked.discard(lease.uuid)
        link.disconnect()
        release(storage, provider, lease)


def _make(provider: vms.Provider, lease: Lease) -> None:
    if provider.parked(lease.uuid):
        provider.attach(spec_of(lease))
    else:
        provider.create(spec_of(lease))


def release(storage: Storage, provider: vms.Provider, lease: Lease) -> None:
    """Destroy the VM and end its lease; if that fails, leave both to the reaper."""
    try:
        provider.destroy(lease.uuid)
    except vms.VmError as error:
        _log.warning("VM %s cannot be destroyed and is left to the reaper: %s", lease.uuid, error)
    else:
        storage.leases.end(lease.id)


@contextmanager
def disk_limited(
    storage: Storage, provider: vms.Provider, lease: Lease, link: VmConnection, host_disk: HostDisk, *, min_free: int
) -> Iterator[None]:
    """Abandon the VM if it fills its disk, or leaves the host less than ``min_free`` bytes of disk.

    Raises RenderFailed in that case.
    """
    stopped, disk_full = threading.Event(), threading.Event()

    def watch() -> None:
        with ExitStack() as ended, suppress(vms.VmError, OSError):  # the VM is being destroyed
            ended.callback(host_disk.forget, lease.uuid)
            use = DiskUse(written=0, free=shutil.disk_usage(storage.directory).free)
            while not stopped.wait(seconds_to_full(use, lease.shape, min_free=min_free)):
                disk, free = provider.disk(lease.uuid), shutil.disk_usage(storage.directory).free
                limit = lease.shape.disk_gb * 2**30
                use = DiskUse(disk.bytes, free, host_disk.note(lease.uuid, disk, limit, free=free, min_free=min_free))
                if disk_failure(use, lease.shape) is not None:
                    disk_full.set()
                    link.abandon()
                    return

    threading.Thread(target=watch, name="render-disk", daemon=True).start()
    try:
        yield
    except (vms.VmError, Abandoned):
        if disk_full.is_set():
            message = f"render failed: it filled the VM's disk of {lease.shape.disk_gb} GB, or the host's disk"
            raise RenderFailed(message) from None
        raise
    finally:
        stopped.set()
