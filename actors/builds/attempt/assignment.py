"""The assignment of a job actor: its job, its lease and its VM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.vms import VmSpec

if TYPE_CHECKING:
    from storage import Build, Job, Lease

__all__ = ["Assignment", "spec_of"]


@dataclass(frozen=True, slots=True)
class Assignment:
    """A job, its lease, and the jobs with which it shares disks.

    ``parent`` is the job in whose disk this one builds. ``disk_children`` is true if other jobs build in this one's
    disk, ``disk_children_of_failure`` if one of them does so even when this job fails.
    """

    build: Build
    job: Job
    lease: Lease
    parent: Job | None
    disk_children: bool
    disk_children_of_failure: bool


def spec_of(lease: Lease, snapshot: str | None = None) -> VmSpec:
    """Return the specification of a lease's VM, which starts from ``snapshot`` if one is given."""
    return VmSpec(id=lease.uuid, image=lease.image or "", snapshot=snapshot, shape=lease.shape, network=lease.network)
