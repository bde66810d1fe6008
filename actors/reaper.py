"""Clean-up of what nothing names any more. Runs on worker threads of the root supervisor, at start and every minute."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from actors.messages import Released
from actors.retention import expire_logs
from actors.runtime import Runtime, post
from actors.vms import VmError
from storage import JobState

if TYPE_CHECKING:
    from storage import Lease

__all__ = ["expire", "reap", "sweep"]

_log = logging.getLogger(__name__)


def reap(runtime: Runtime) -> None:
    """Destroy every VM that no live lease names, and end every lease whose job is over.

    A lease's row is written before its VM is made, so that of two lists taken in this order, VMs then leases, the
    second names everything of the first that is wanted.
    """
    storage, provider = runtime.storage, runtime.provider
    there = set(provider.list())
    live = storage.leases.live()
    for vm in there - {lease.uuid for lease in live}:
        _log.warning("VM %s belongs to no lease and is destroyed", vm)
        _destroy(runtime, vm)
    for lease in live:
        if _is_over(runtime, lease) and _destroy(runtime, lease.uuid):
            storage.leases.end(lease.id)
            post(runtime.crew.pool, Released(lease.id))
    kept = set(provider.snapshots())
    for name in kept - {snapshot.name for snapshot in storage.snapshots.all()}:
        _log.warning("snapshot %s belongs to no job and is removed", name)
        provider.remove_snapshot(name)
    sweep(runtime)


def sweep(runtime: Runtime) -> None:
    """Free the disks and source archives of builds that are over, the newest disk first: it may stand on an older."""
    storage = runtime.storage
    for snapshot in reversed(storage.snapshots.of_finished_builds()):
        try:
            runtime.provider.remove_snapshot(snapshot.name)
        except VmError as error:
            _log.info("snapshot %s stays for now: %s", snapshot.name, error)
        else:
            storage.snapshots.remove(snapshot.name)
    for build_uuid in storage.sources.all():
        build = storage.builds.by_uuid(build_uuid)
        if build is not None and build.state.terminal:
            storage.sources.remove(build_uuid)


def expire(runtime: Runtime) -> None:
    """Remove the logs that are kept no longer, and those of builds that the storage knows nothing of."""
    storage = runtime.storage
    logs = expire_logs(storage, runtime.retention, runtime.clock.now())
    if logs.count:
        _log.info("the logs of %d builds are kept no longer and were removed: %d bytes", logs.count, logs.bytes)
    for name in storage.log_retention.remove_strays():
        _log.warning("the logs of build %s, which is not in the database, are removed", name)


def _is_over(runtime: Runtime, lease: Lease) -> bool:
    if lease.job_id is None:
        return False
    job = runtime.storage.jobs.get(lease.job_id)
    if job is None or job.state.terminal or job.attempt != lease.attempt:
        return True
    return job.state is JobState.SCHEDULED  # its attempt closed with this lease, and the next one brings its own


def _destroy(runtime: Runtime, vm: str) -> bool:
    try:
        runtime.provider.destroy(vm)
    except VmError as error:
        _log.warning("VM %s cannot be destroyed, the next round tries again: %s", vm, error)
        return False
    return True
