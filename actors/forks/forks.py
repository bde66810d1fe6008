"""VMs with forks of the disks that jobs have left: made, held at a price, and destroyed."""

from __future__ import annotations

import logging
import shutil
import threading
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

from actors import vms
from actors.builds.attempt.assignment import spec_of
from actors.builds.attempt.environment import builds_images, job_environment
from actors.builds.attempt.kept_folders import JobFolders
from actors.builds.attempt.taken_files import FilesMissing
from actors.builds.attempt.told import variables_of
from actors.builds.attempt.vm import VmConnection
from actors.builds.attempt.workspace import await_next_second, lay_taken_files, populate_workspace
from actors.messages import TakeParked
from actors.scheduling.parked_vms import ParkedConnections
from actors.scheduling.pending_reason import admission_block
from actors.scheduling.scheduler import FairShare, leases_of_jobs
from storage import HoldEnd, Masker, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from actors.settings import EngineSettings
    from storage import Build, Clock, Job, Lease, Shape, Snapshot, Storage

_log = logging.getLogger(__name__)


class DiskGone(Exception):
    """The disk of a job is not kept, or no longer; the message says why that may be."""


class ForkBusy(Exception):
    """No VM can be made for a fork now; the message says why."""


@immutable
class Fork:
    """A VM of its own with a fork of a job's disk, and the way to it.

    ``disk`` is what the fork starts from, None for an image. ``variables`` are those of the job, without its secrets;
    ``masker`` hides these in what the VM says.
    """

    build: Build
    job: Job
    lease: Lease
    disk: Snapshot | None
    link: VmConnection
    variables: Mapping[str, str]
    masker: Masker


def is_guarded(storage: Storage, build: Build) -> bool:
    """Tell whether the disks of a build's jobs may hold what is not for every member."""
    jobs = storage.jobs.guarding(build.id)
    named = {name for _, secrets in jobs for name in secrets}
    return any(environment for environment, _ in jobs) or storage.job_secrets.names_limited(build, named)


def kept_disk(storage: Storage, job: Job) -> Snapshot | None:
    """Return the disk that a job has left last and that is still there, kept for a failure or cached."""
    return storage.kept_disks.of_job(job.id) or storage.snapshots.of_job(job.id)


class Forks:
    """Makes VMs with forks of disks. Safe in any thread; its calls block.

    A VM outlives this process for at most the time of its hold: then the reaper destroys it.
    """

    def __init__(
        self,
        storage: Storage,
        providers: vms.Providers,
        images: vms.Images,
        clock: Clock,
        settings: Callable[[], EngineSettings],
        changed: Callable[[], None],
        *,
        parked: ParkedConnections | None = None,
        take_parked: Callable[[TakeParked], None] = lambda _: None,
    ) -> None:
        """``changed`` tells the lease pool that there is another VM, or one less.

        ``take_parked`` asks it for a parked one, to which a connection may be ``parked``.
        """
        self._storage = storage
        self._providers = providers
        self._images = images
        self._clock = clock
        self._settings = settings
        self._changed = changed
        self._parked = parked or ParkedConnections()
        self._take_parked = take_parked
        self._reserving = threading.Lock()

    @property
    def clock(self) -> Clock:
        """The clock of its VMs."""
        return self._clock

    @property
    def settings(self) -> EngineSettings:
        """The settings in force."""
        return self._settings()

    @property
    def folder(self) -> Path:
        """The folder of the state, for files that have no name there."""
        return self._storage.directory

    @contextmanager
    def open(
        self, build: Build, job: Job, *, before: bool, seconds: int, opened_by: str, budget_id: int | None = None
    ) -> Iterator[Fork]:
        """Make a VM as `make` does, and destroy it afterwards."""
        fork = self.make(build, job, before=before, seconds=seconds, opened_by=opened_by, budget_id=budget_id)
        try:
            yield fork
        finally:
            fork.link.disconnect()
            self.end(fork.lease)

    def make(
        self,
        build: Build,
        job: Job,
        *,
        before: bool,
        seconds: int,
        opened_by: str,
        budget_id: int | None = None,
        held: Callable[[int], None] = lambda _: None,
        disk: Snapshot | None = None,
    ) -> Fork:
        """Make a VM with a fork of a job's disk, for its caller to `end`.

        The disk is as the job's command left it, or as it was ``before``. The VM costs what the job's costs, for at
        most ``seconds``, and the budget of an API key pays if one is given. Services of the job are not started.
        ``disk`` is a snapshot that the job has left, by default the last that is kept.
        ``held`` is given the id of the VM's hold, in the transaction that makes it. Raises DiskGone, ForkBusy and
        VmError, and what ``held`` raises.
        """
        storage = self._storage
        left = disk or kept_disk(storage, job)
        origin = None if left is None else storage.leases.by_uuid(left.name)
        if left is None or origin is None:
            raise DiskGone(self._why_gone(job))
        if before and any(edge.workspace for edge in storage.jobs.edges_to(job.id)):
            raise DiskGone("the job began in the workspace of another job, which is not kept: fork it as it ended")
        provider = self._providers.of(left)
        image = provider.snapshot_image(left.name)
        start = self._below(left) if before else left
        if image is None:
            raise DiskGone("the image that the disk lies on was removed or replaced: retry the job")
        with self._reserving:
            self._require_room(build.organization_id, origin.shape, provider.name)
            lease = self._reserve(
                build,
                origin,
                image,
                lambda lease: held(storage.holds.begin_fork(lease.id, job.id, seconds, opened_by, budget_id)),
            )
        self._changed()
        link = VmConnection(provider, self._clock, lease.uuid)
        try:
            try:
                self._give_disk(
                    provider, link, spec_of(lease, None if start is None else start.name, containers=builds_images(job))
                )
            except (vms.SnapshotNotFound, vms.ImageNotFound) as error:
                raise DiskGone(f"the disk was removed: {error}") from error
            if not storage.leases.active(lease.id, member=provider.member(lease.uuid)):
                raise vms.VmLost("it was ended while it was made")
            link.connected()
            if start is not None:
                await_next_second(self._clock, start, link)
            if before:
                self._populate(build, job, lease, start, link)
            return Fork(build, job, lease, start, link, self._variables(build, job, image), self.masker(build, job))
        except BaseException:
            link.disconnect()
            self.end(lease)
            raise

    def _reserve(self, build: Build, origin: Lease, image: str, hold: Callable[[Lease], None]) -> Lease:
        """Take a parked VM, or reserve a lease for one to make, and ``hold`` it in one transaction.

        ``origin`` is the lease of the VM that has left the disk.
        """
        leases = self._storage.leases
        asked = TakeParked(origin.provider, leases.ready, origin.member)
        self._take_parked(asked)
        parked = next(iter(asked.taken), None)
        try:
            with self._storage.transaction():
                lease = (
                    None
                    if parked is None
                    else leases.assign_fork(
                        parked.id, image, origin.shape, network=origin.network, organization_id=build.organization_id
                    )
                )
                if lease is None:
                    lease = leases.reserve_fork(
                        str(uuid.uuid4()),
                        origin.provider,
                        image,
                        origin.shape,
                        network=origin.network,
                        organization_id=build.organization_id,
                    )
                hold(lease)
                return lease
        except BaseException:
            if parked is not None:
                self._parked.discard(parked.uuid)
                self.end(parked)
            raise

    def _give_disk(self, provider: vms.Provider, link: VmConnection, spec: vms.VmSpec) -> None:
        """Attach the disk to a parked VM, or make a VM with it: also if the parked one is lost."""
        if provider.parked(spec.id):
            if (connection := self._parked.take(spec.id)) is not None:
                link.use(connection)
            try:
                provider.attach(spec)
            except (vms.SnapshotNotFound, vms.ImageNotFound):
                raise
            except vms.VmError as error:
                _log.warning("parked VM %s takes no disk, so that another is made: %s", spec.id, error)
                link.disconnect()
                provider.destroy(spec.id)
            else:
                return
        self._parked.discard(spec.id)
        provider.create(spec)

    def lengthen(self, fork: Fork, seconds: int) -> bool:
        """Hold a fork's VM for ``seconds`` from now; False if its hold has ended."""
        hold = self._storage.holds.of_lease(fork.lease.id)
        return hold is not None and self._storage.holds.lengthen(hold.id, seconds)

    def free_bytes(self) -> int:
        """Return the bytes that are free on the host's disk."""
        return shutil.disk_usage(self._storage.directory).free

    def written(self, lease: Lease) -> int:
        """Measure the bytes that a fork's VM has written; 0 if it is gone."""
        try:
            return self._providers.of(lease).disk(lease.uuid).bytes
        except vms.VmError:
            return 0

    def _why_gone(self, job: Job) -> str:
        settings = self._settings().retention
        if not job.state.terminal:
            return f"the job is {job.state}: its disk can be forked once it has failed"
        if not (settings.kept_disks_days and settings.kept_disks_gb):
            return "this service keeps no disks of failed jobs (retention.kept_disks_days)"
        return (
            f"the disk of the job is not kept: those of failed jobs are for {settings.kept_disks_days} days, and those "
            "of others while they are cached; retry the job to get another"
        )

    def _below(self, disk: Snapshot) -> Snapshot | None:
        """Return the snapshot that a disk started from, None for an image. Raises DiskGone."""
        below = None if disk.base is None else self._storage.snapshots.get(disk.base)
        if disk.base is not None and below is None:
            raise DiskGone("the disk that the job started from was removed: retry the job that left it")
        return below

    def _require_room(self, organization_id: int, shape: Shape, provider: str) -> None:
        """Raise ForkBusy unless there is room for another VM beside those of jobs."""
        storage, settings = self._storage, self._settings()
        block = admission_block(storage, settings.pool.low_disk_gb)
        if block is not None:
            raise ForkBusy(block.reason)
        load = FairShare()
        for each in leases_of_jobs(storage).values():
            if each.organization_id is not None:
                load.grant(each.id, each.organization_id, each.shape, 0.0)
        host = settings.pool.host(self._providers.named(provider).size())
        short = host.shortage(load.load(), shape) or settings.pool.organization().shortage(
            load.load(organization_id), shape
        )
        if short is not None:
            raise ForkBusy(f"there is no room for another VM beside those that run: {short}")

    def _populate(self, build: Build, job: Job, lease: Lease, start: Snapshot | None, link: VmConnection) -> None:
        """Lay what the job's command found: the source, files of other jobs, and what builds keep now.

        Raises DiskGone if that is gone, and VmError.
        """
        settings = self._settings()
        timeout = settings.jobs.source_timeout
        try:
            populate_workspace(self._storage, self._clock, build, lease, start, link, timeout=timeout)
            lay_taken_files(self._storage, self._clock, build, job, link, timeout=timeout)
        except (vms.SourceError, vms.SnapshotNotFound, vms.FilesNotLaid, FilesMissing) as error:
            raise DiskGone(f"what the job started from is not there any more: {error}") from error
        folders = JobFolders(
            self._storage, build, job, settings.cache, timeout=settings.artifacts.timeout, free=self.free_bytes
        )
        folders.lay(link.connected())

    def _variables(self, build: Build, job: Job, image: str) -> dict[str, str]:
        settings, storage = self._settings(), self._storage
        try:
            of_image = self._images.environment(image)
        except vms.ImageNotFound:
            of_image = {}
        return job_environment(
            build,
            job,
            settings.pages.page_of(build),
            of_jobs=settings.jobs.env,
            of_image=of_image,
            of_needed=variables_of(storage.told.outputs_given_to(job.id))[0],
            of_build=storage.builds.env(build.id),
            secrets={},
        )

    def masker(self, build: Build, job: Job) -> Masker:
        """Return what hides the secrets of a job in what the VM says."""
        return Masker.hiding(self._storage.job_secrets.current(build, job).values())

    def link(self, lease: Lease) -> VmConnection:
        """Return a way to the VM of a fork that another thread or process has made."""
        return VmConnection(self._providers.of(lease), self._clock, lease.uuid)

    def end(self, lease: Lease) -> None:
        """Destroy the VM, end its hold and its lease; what fails is left to the reaper."""
        storage = self._storage
        provider = self._providers.of(lease)
        hold = storage.holds.of_lease(lease.id)
        if hold is not None:  # before the VM is gone, which else would count as lost
            storage.holds.end(hold.id, HoldEnd.RELEASED)
        try:
            provider.destroy(lease.uuid)
        except vms.VmError as error:
            _log.warning("VM %s cannot be destroyed and is left to the reaper: %s", lease.uuid, error)
        else:
            storage.leases.end(lease.id)
        self._changed()
