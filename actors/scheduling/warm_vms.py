"""Warm VMs: the tasks of the lease pool that make and destroy them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.builds.attempt.assignment import spec_of
from actors.vms import VmError
from storage import Lease, Shape

if TYPE_CHECKING:
    from actors.metrics import EngineMetrics
    from actors.vms import Images, Provider
    from storage import Storage

__all__ = ["DestroyWarm", "MakeWarm", "WarmMade", "destroy_warm", "make_warm"]


@dataclass(frozen=True, slots=True)
class MakeWarm:
    """Task: make a warm VM."""

    image: str

    def __str__(self) -> str:
        return f"make a warm VM of {self.image}"


@dataclass(frozen=True, slots=True)
class DestroyWarm:
    """Task: destroy a warm VM."""

    lease: Lease

    def __str__(self) -> str:
        return f"destroy the warm VM {self.lease.uuid}"


@dataclass(frozen=True, slots=True)
class WarmMade:
    """Worker: the warm VM of this lease is ready."""

    lease: Lease


def make_warm(storage: Storage, provider: Provider, images: Images, metrics: EngineMetrics, image: str) -> Lease:
    """Make a VM of an image without a job. Raises VmError; a missing image leaves no row behind."""
    images.path(image)
    lease = storage.leases.reserve_warm(str(uuid.uuid4()), provider=provider.name, image=image, shape=Shape())
    try:
        with metrics.making():
            provider.create(spec_of(lease))
    except VmError:
        storage.leases.end(lease.id)
        raise
    return lease


def destroy_warm(storage: Storage, provider: Provider, lease: Lease) -> None:
    """Destroy a VM without a job and end its lease, even if the destruction fails. Raises VmError."""
    try:
        provider.destroy(lease.uuid)
    finally:
        storage.leases.end(lease.id)
