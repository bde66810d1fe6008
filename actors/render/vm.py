"""The VM in which an archive is rendered, and its end."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from actors.vms import VmError
from storage import Shape

if TYPE_CHECKING:
    from actors.vms import Provider
    from storage import Lease, Storage

__all__ = ["RENDER_DISK_BYTES", "RENDER_SHAPE", "release"]

_log = logging.getLogger(__name__)

RENDER_SHAPE = Shape(cpu=1, memory_gb=2, disk_gb=10)

RENDER_DISK_BYTES = RENDER_SHAPE.disk_gb * 2**30


def release(storage: Storage, provider: Provider, lease: Lease) -> None:
    """Destroy the VM and end its lease, which stays for the reaper where that fails."""
    try:
        provider.destroy(lease.uuid)
    except VmError as error:
        _log.warning("the VM %s cannot be destroyed, the reaper will: %s", lease.uuid, error)
    else:
        storage.leases.end(lease.id)
