"""The VMs in use: running jobs, renders, and VMs on hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from storage import Storage


@immutable
class VmInUse:
    """A VM in use. ``build`` is ORG/PIPELINE/NUMBER; without a ``step`` the build is being rendered.

    ``since`` is when its command started, before that when its lease was created; ``log_bytes`` is the size of the
    job's log.
    """

    build: str
    step: str | None
    state: str
    attempt: int
    vm: str
    provider: str
    image: str | None
    since: datetime
    log_bytes: int


def vms_in_use(storage: Storage) -> list[VmInUse]:
    """Return the VMs in use, the longest-running first."""
    return sorted(_vms_in_use(storage), key=lambda each: each.since)


def _vms_in_use(storage: Storage) -> Iterator[VmInUse]:
    held = {hold.lease_id for hold in storage.holds.open()}
    for lease in storage.leases.live():
        job = None if lease.job_id is None else storage.jobs.get(lease.job_id)
        build_id = lease.build_id if job is None else job.build_id
        build = None if build_id is None else storage.builds.get(build_id)
        if build is None:  # a parked VM, or a build that was deleted meanwhile
            continue
        yield VmInUse(
            build=build.name,
            step=None if job is None else job.step_key,
            state="rendering" if job is None else "held" if lease.id in held else job.state.value,
            attempt=lease.attempt,
            vm=lease.uuid,
            provider=lease.provider,
            image=lease.image,
            since=lease.started_at or lease.created_at,
            log_bytes=0 if job is None else storage.logs.reader(build.uuid, job.uuid).size(),
        )
