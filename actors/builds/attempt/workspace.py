"""A job's workspace, populated from its build's source (engine.md, "The workspace").

A disk always holds the source of the build whose job left it. So the row of a snapshot, by its job, tells which source
is on the disk. Nothing in the VM is asked for that, because earlier jobs could have changed it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from actors import vms
from actors.builds.attempt.taken_files import taken_files
from storage import DatabaseUnavailable, ManifestUnreadable
from storage.files import content_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from actors.builds.attempt.vm import VmConnection
    from storage import Build, Clock, Job, Lease, Snapshot, Storage

_GB = 2**30
_HOST_PAUSE = 1.0
_SECOND = timedelta(seconds=1)


def populate_workspace(
    storage: Storage,
    clock: Clock,
    build: Build,
    lease: Lease,
    disk: Snapshot | None,
    connection: VmConnection,
    *,
    timeout: float,
) -> None:
    """Make the workspace in a lease's VM match a build's archive; the VM started from ``disk``, if given.

    Raises SourceError, SnapshotNotFound if it is no longer known which source is on the disk, VmError and Abandoned.
    """
    current = None
    if disk is not None:
        maker = build_of_job(storage, disk.job_id)
        if maker is not None and maker.id == build.id:
            return
        current = manifest_on_disk(storage, maker)
        await_next_second(clock, disk, connection)
    vms.update_workspace(
        connection.connected(),
        storage.sources.path(build.uuid),
        _patient_manifest(storage, clock, build, lease, connection, timeout) if build.has_source else None,
        current,
        time=int(clock.now().timestamp()),
        timeout=timeout,
    )


def lay_taken_files(
    storage: Storage, clock: Clock, build: Build, job: Job, connection: VmConnection, *, timeout: float
) -> list[str]:
    """Put the files that a job takes into its VM's workspace; return what was laid, in lines of words.

    Raises FilesMissing, FilesNotLaid, VmError and Abandoned.
    """
    if not job.files and not job.files_of:
        return []
    taken = taken_files(storage, build, job)
    vms.lay_files(connection.connected(), taken.files, time=int(clock.now().timestamp()), timeout=timeout)
    return taken.words


def _patient_manifest(
    storage: Storage, clock: Clock, build: Build, lease: Lease, connection: VmConnection, patience: float
) -> Path:
    """Return the manifest of a build's archive; on a full disk of the host, try for ``patience`` seconds.

    Raises SourceError and Abandoned.
    """
    since = clock.monotonic()
    while True:
        try:
            return source_manifest(storage, build, lease.shape.disk_gb * _GB)
        except DatabaseUnavailable as error:
            if clock.monotonic() - since >= patience:
                message = f"the source could not be checked on the host for {patience:g} s: {error}"
                raise vms.SourceError(message) from error
        connection.pause(_HOST_PAUSE)


def build_of_job(storage: Storage, job_id: int) -> Build | None:
    """Return the build of a job."""
    job = storage.jobs.get(job_id)
    return None if job is None else storage.builds.get(job.build_id)


def manifest_on_disk(storage: Storage, maker: Build | None) -> Path | None:
    """Return the manifest of the source on a disk that a job of ``maker`` left; None if it had no source.

    Raises SnapshotNotFound if the manifest is missing or damaged.
    """
    if maker is not None and not maker.has_source:
        return None
    try:
        if maker is not None:
            manifest = storage.sources.manifest(maker.uuid)
            content_bytes(manifest)
            return manifest
    except ManifestUnreadable:
        pass
    message = "the source on the disk to build in is unknown: start the build again"
    raise vms.SnapshotNotFound(message)


def source_manifest(storage: Storage, build: Build, max_bytes: int) -> Path:
    """Return the manifest of a build's archive; write it if it does not exist. Raises SourceError."""
    manifest = storage.sources.manifest(build.uuid)
    try:
        size = content_bytes(manifest)
    except ManifestUnreadable:
        archive = storage.sources.path(build.uuid)
        write = vms.write_source_manifest_confined
        write(storage.confinement, build.organization_slug, archive, manifest, max_bytes, build.source_sha256)
        return manifest
    if size > max_bytes:
        message = f"the source unpacks to {size} bytes and the disk has {max_bytes}: ask for more with disk_gb"
        raise vms.SourceError(message)
    return manifest


def await_next_second(clock: Clock, disk: Snapshot, connection: VmConnection) -> None:
    """Wait until newly written files get a later second than all files on a disk.

    They get their time in whole seconds, and some tools compare no finer: Python takes byte code to belong to any
    source of the same size and second.
    """
    now = clock.now()
    later = disk.created_at.replace(microsecond=0) + _SECOND
    if disk.created_at <= now < later:
        connection.pause((later - now).total_seconds())
