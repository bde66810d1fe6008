"""What the actor of an attempt is given to do, and in what VM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.vms import VmSpec

if TYPE_CHECKING:
    from storage import Build, Job, Lease

__all__ = ["Assignment", "spec_of"]


@dataclass(frozen=True, slots=True)
class Assignment:
    """A job, its lease, and what its build's graph says of its disk.

    ``parent`` is the job in whose disk this one builds. ``heirs``: other jobs build in this one's disk;
    ``heirs_of_failure``: even when it fails.
    """

    build: Build
    job: Job
    lease: Lease
    parent: Job | None
    heirs: bool
    heirs_of_failure: bool


def spec_of(lease: Lease, snapshot: str | None = None) -> VmSpec:
    """Return what to make for a lease, from a snapshot where its job builds in another's disk."""
    return VmSpec(id=lease.uuid, image=lease.image or "", snapshot=snapshot, shape=lease.shape, network=lease.network)
