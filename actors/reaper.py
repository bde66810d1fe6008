"""The reaper: removes the VMs, snapshots, files and rows that nothing names any more.

Runs on worker threads of the root supervisor, at start and every minute. A row is written before its resource is made,
and removed after it. So to find orphans, list resources first, then rows: a resource without a row is an orphan. To
find lost resources, list rows first: a row without a resource is lost, unless the resource is still being made.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from actors import retention
from actors.cache import evict, free_disks
from actors.holds import end_holds
from actors.messages import Released
from actors.runtime import Runtime, post
from actors.vms import VmError
from storage import DatabaseUnavailable, JobState, LeaseState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage import Lease, Storage

__all__ = ["expire", "let_go", "make_room", "reap", "reap_unborn", "sweep"]

_log = logging.getLogger(__name__)

_GB = 2**30

_SETTLED = timedelta(hours=1)
"""Age at which a file without a row, or a VM without a job, is no longer being made."""

_UNUSED = timedelta(hours=3)
"""Longer than services that share an image store take to record the images they use (see `expire`)."""


def reap(runtime: Runtime) -> None:
    """Remove every VM, snapshot, file and row that nothing names; the next round repeats what fails."""
    vms, snapshots = (end_holds, _reap_vms, _reap_leases), (_reap_snapshots, _reap_snapshot_rows)
    for chore in (*vms, *snapshots, _reap_sources, _reap_images, sweep):
        try:
            chore(runtime)
        except (VmError, OSError) as error:
            _log.warning("clean-up is not complete, the next round tries again: %s", error)


def reap_unborn(runtime: Runtime) -> None:
    """Remove the source archives of builds that an earlier process did not create. Before the API starts."""
    try:
        _reap_sources(runtime, settled=timedelta())
    except (DatabaseUnavailable, OSError) as error:
        _log.warning("source archives of no build stay for now: %s", error)


def let_go(runtime: Runtime) -> None:
    """End the holds that are over, and destroy the VMs of finished jobs that are not held."""
    end_holds(runtime)
    _reap_leases(runtime)


def sweep(runtime: Runtime) -> None:
    """Free the disks and sources of finished builds, and what the cache holds beyond its budget."""
    storage = runtime.storage
    evict(storage, runtime.provider, runtime.settings.cache.max_bytes)
    free_disks(storage, runtime.provider)
    for build_uuid in storage.sources.all():
        if _is_finished(storage, build_uuid):
            storage.sources.remove(build_uuid)
    finished = {uuid for uuid in storage.sources.manifests() if _is_finished(storage, uuid)}
    for build_uuid in finished - storage.snapshots.builds():
        storage.sources.remove_manifest(build_uuid)


def make_room(runtime: Runtime, lacking: int) -> None:
    """Free cached and unneeded disks and unused images, since the host's disk lacks ``lacking`` bytes."""
    _log.info("the host's disk lacks %.1f GB: what is not needed goes", lacking / _GB)
    evict(runtime.storage, runtime.provider, runtime.settings.cache.max_bytes, room=lacking)
    sweep(runtime)
    _retire_images(runtime, _UNUSED)


def expire(runtime: Runtime) -> None:
    """Remove expired images, logs and artifacts, and log and artifact files that have no row."""
    _retire_images(runtime)
    storage, now = runtime.storage, runtime.clock.now()
    gone = retention.expire(storage, runtime.settings.retention, now)
    for what, share in (("logs", gone.logs), ("artifacts", gone.artifacts)):
        if share.builds:
            _log.info("the %s of %d builds are kept no longer: %d bytes are free", what, share.builds, share.bytes)
    for name in storage.log_retention.remove_strays():
        _log.warning("the logs of build %s, which is not in the database, are removed", name)
    if strays := storage.artifact_retention.remove_strays(now - _SETTLED):
        _log.warning("%d files of artifacts belonged to no job and were removed", strays)


def _is_finished(storage: Storage, build_uuid: str) -> bool:
    build = storage.builds.by_uuid(build_uuid)
    return build is not None and build.state.terminal


def _reap_vms(runtime: Runtime) -> None:
    """Destroy the VMs that no live lease names."""
    there = set(runtime.provider.list())
    for vm in there - {lease.uuid for lease in runtime.storage.leases.live()}:
        _log.warning("VM %s belongs to no lease and is destroyed", vm)
        _destroy(runtime, vm)
    runtime.host_disk.retain({lease.uuid for lease in runtime.storage.leases.live()})


def _reap_leases(runtime: Runtime) -> None:
    """End the leases of finished jobs that are not held, of finished renders, and of lost warm VMs."""
    leases = runtime.storage.leases
    for lease in leases.live():
        if lease.build_id is not None:
            if _is_rendered(runtime, lease, lease.build_id) and _destroy(runtime, lease.uuid):
                leases.end(lease.id)
        elif lease.job_id is not None and _is_over(runtime, lease.id, lease.job_id, lease.attempt):
            if _destroy(runtime, lease.uuid):
                leases.end(lease.id)
                post(runtime.crew.pool, Released(lease.id))
        elif lease.job_id is None and _is_lost(runtime, lease) and leases.end_unclaimed(lease.id):
            _log.warning("warm VM %s is gone, and so is its lease", lease.uuid)
            _destroy(runtime, lease.uuid)
            post(runtime.crew.pool, Released(lease.id))


def _reap_snapshots(runtime: Runtime) -> None:
    """Remove the snapshots that no row names, repeatedly, because one may be based on another."""
    kept = set(runtime.provider.snapshots())
    strays = kept - {snapshot.name for snapshot in runtime.storage.snapshots.all()}
    removed: Iterable[str] = strays
    while removed:
        removed = [name for name in strays if _remove_snapshot(runtime, name)]
        strays.difference_update(removed)
        for name in removed:
            _log.warning("snapshot %s belonged to no job and was removed", name)


def _reap_snapshot_rows(runtime: Runtime) -> None:
    """Remove the rows of snapshots that the provider lacks.

    Those of jobs with a live lease stay, because their snapshot may be in the making.
    """
    storage = runtime.storage
    rows = storage.snapshots.all()
    at_work = {lease.job_id for lease in storage.leases.live()}
    kept = set(runtime.provider.snapshots())
    for snapshot in rows:
        if snapshot.name not in kept and snapshot.job_id not in at_work:
            _log.warning("snapshot %s is not in the store, and is forgotten", snapshot.name)
            storage.snapshots.remove(snapshot.name)


def _reap_sources(runtime: Runtime, settled: timedelta = _SETTLED) -> None:
    """Remove the source archives without a build that are older than ``settled``."""
    before = runtime.clock.now() - settled
    for name in runtime.storage.sources.remove_strays(before, runtime.storage.builds.by_uuid):
        _log.warning("the source archive %s belongs to no build and was removed", name)


def _reap_images(runtime: Runtime) -> None:
    """Remove unfinished images of dead processes from the image store."""
    runtime.images.sweep()


def _retire_images(runtime: Runtime, unused: timedelta | None = None) -> None:
    """Remove the images that were pulled for jobs and not used for ``unused``, or the configured time."""
    in_use = {lease.image for lease in runtime.storage.leases.live() if lease.image is not None}
    for snapshot in runtime.storage.snapshots.all():
        if (image := runtime.provider.snapshot_image(snapshot.name)) is not None:
            in_use.add(image)
    for name in runtime.images.retire(in_use, runtime.clock.now(), unused):
        _log.info("the image %s was not used for long and is removed; a job that names it has it pulled again", name)


def _is_over(runtime: Runtime, lease_id: int, job_id: int, attempt: int) -> bool:
    """Tell whether a lease's job has ended without a hold on the VM, or has moved on to another attempt."""
    job = runtime.storage.jobs.get(job_id)
    if job is None or job.attempt != attempt:
        return True
    if job.state.terminal:
        return runtime.storage.holds.of_lease(lease_id) is None
    return job.state is JobState.SCHEDULED


def _is_rendered(runtime: Runtime, lease: Lease, build_id: int) -> bool:
    """Tell whether a build's render is over, or has started again in another VM."""
    render = runtime.storage.renders.get(build_id)
    return render is None or render.finished_at is not None or render.lease_id != lease.id


def _is_lost(runtime: Runtime, lease: Lease) -> bool:
    """Tell whether the VM of a lease without a job is gone, or was never made."""
    if lease.state is LeaseState.WARM:
        return not runtime.provider.alive(lease.uuid)
    return lease.created_at < runtime.clock.now() - _SETTLED


def _remove_snapshot(runtime: Runtime, name: str) -> bool:
    try:
        runtime.provider.remove_snapshot(name)
    except VmError as error:
        _log.info("snapshot %s stays for now: %s", name, error)
        return False
    return True


def _destroy(runtime: Runtime, vm: str) -> bool:
    try:
        runtime.provider.destroy(vm)
    except (VmError, OSError) as error:
        _log.warning("VM %s cannot be destroyed, the next round tries again: %s", vm, error)
        return False
    return True
