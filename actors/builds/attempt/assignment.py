"""The assignment of a job actor: its job, its lease and its VM."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from actors.vms import SnapshotNotFound, VmSpec
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage import Build, Job, Lease, Snapshot, Storage

_NO_SERVICES: Mapping[str, str] = MappingProxyType({})


@immutable
class Assignment:
    """A job, its lease, and the jobs with which it shares disks.

    ``parent`` is the job in whose disk this one builds. ``disk_children`` is true if other jobs build in this one's
    disk, ``disk_children_of_failure`` if one of them does so even when this job fails. With ``takes_workspace`` it
    starts with the workspace of another job, and with ``workspace_takers``, or ``workspace_takers_after_failure``,
    others take its own; ``workspace_in_names`` if their disks may be cached.
    """

    build: Build
    job: Job
    lease: Lease
    parent: Job | None
    disk_children: bool
    disk_children_of_failure: bool
    takes_workspace: bool = False
    workspace_takers: bool = False
    workspace_takers_after_failure: bool = False
    workspace_in_names: bool = False


def spec_of(
    lease: Lease,
    snapshot: str | None = None,
    services: Mapping[str, str] = _NO_SERVICES,
    *,
    containers: bool = False,
) -> VmSpec:
    """Return the specification of a lease's VM, which starts from ``snapshot`` if one is given.

    ``services`` are the images of services by their names. With ``containers`` the job builds and runs images.
    """
    return VmSpec(
        id=lease.uuid,
        image=lease.image or "",
        snapshot=snapshot,
        shape=lease.shape,
        network=lease.network,
        services=services,
        containers=containers,
    )


def parent_disk(assignment: Assignment, storage: Storage) -> Snapshot | None:
    """Return the snapshot to start from, None for the image. Raises SnapshotNotFound."""
    parent = assignment.parent
    if parent is None:
        return None
    snapshot = storage.snapshots.of_job(parent.id)
    if snapshot is None:
        message = f'the step "{parent.name}" left no disk to build in'
        raise SnapshotNotFound(message)
    return snapshot
