"""The reaper: removes the VMs, snapshots, files and rows that nothing names any more, and held VMs.

Runs on worker threads of the root supervisor, at start and every minute. A row is written before its resource is made,
and removed after it. So to find orphans, list resources first, then rows: a resource without a row is an orphan. To
find lost resources, list rows first: a row without a resource is lost, unless the resource is still being made.
"""

from __future__ import annotations

import logging
import shutil
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from actors.cleanup import retention
from actors.cleanup.retention import evict, evict_folders, expire_kept_disks, free_disks
from actors.messages import Released
from actors.vms import ProviderAway, VmError
from storage import CONFIRM, DatabaseUnavailable, HoldEnd, JobState, LeaseState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from actors.parts import VmParts
    from actors.settings import JobSettings
    from actors.vms import Provider, Providers
    from storage import Build, Lease, Storage

_log = logging.getLogger(__name__)

_GB = 2**30

_ORPHAN_AGE = timedelta(hours=1)
"""Age at which a file without a row, or a VM without a job, is no longer being made."""

_UNUSED_IMAGE_AGE = timedelta(hours=3)
"""An image not recorded as used for so long is used by no service: each records its images hourly."""


def seconds_to_hold(storage: Storage, settings: JobSettings, build: Build) -> int:
    """Return for how many seconds to hold the VM of a failed job; 0 for not at all.

    If the host's disk is short, no VM is held, because the other jobs need the room.
    """
    if not build.debug:
        return 0
    has_room = shutil.disk_usage(storage.directory).free >= settings.min_free_bytes
    return settings.hold_seconds if has_room else 0


def end_holds(storage: Storage, providers: Providers) -> None:
    """End the holds that are over, or whose VM is lost. Their VMs are left to the reaper."""
    holds = storage.holds
    over = {hold.id for hold in holds.over()}
    for hold in holds.open():
        if hold.id in over:
            holds.end(hold.id, HoldEnd.EXPIRED)
        elif (lease := storage.leases.get(hold.lease_id)) is None or _is_lost(providers, lease):
            holds.end(hold.id, HoldEnd.LOST)


def _is_lost(providers: Providers, lease: Lease) -> bool:
    """Tell whether a VM is gone; False while it is being made, and if its provider does not answer."""
    if lease.state is LeaseState.CREATING:
        return False
    try:
        return not providers.of(lease).alive(lease.uuid)
    except ProviderAway:
        return False


class Reaper:
    """Removes orphans of a state directory and an image store. Its methods block.

    It tells ``pool`` the leases that it ends.
    """

    def __init__(self, parts: VmParts) -> None:
        self._storage = parts.storage
        self._providers = parts.providers
        self._images = parts.images
        self._clock = parts.clock
        self._host_disk = parts.host_disk
        self._live_settings = parts.live_settings
        self._pool = parts.addresses.pool

    def reap(self) -> None:
        """Remove every VM, snapshot, file and row that nothing names; the next round repeats what fails.

        While the database is damaged, only what rows say is over is removed: rows that cannot be read may name the
        rest.
        """
        if self._is_damaged:
            self.release_vms()
            return
        chores: list[Callable[[], None]] = [partial(end_holds, self._storage, self._providers), self._reap_leases]
        for provider in self._providers:
            chores += [
                partial(chore, provider) for chore in (self._reap_vms, self._reap_snapshots, self._reap_snapshot_rows)
            ]
        for chore in (*chores, self._reap_sources, self._images.sweep, self.sweep):
            try:
                chore()
            except (VmError, OSError) as error:
                _log.warning("clean-up is incomplete and is tried again in the next round: %s", error)

    def remove_orphans(self, before: datetime | None = None) -> None:
        """Remove an earlier process's VMs of previews, and its sources without a build.

        Called before the API starts. If this process has work of its own already, it began at ``before``, and what came
        later stays.
        """
        if self._is_damaged:
            return
        until = before or self._clock.now()
        try:
            self._end_previews(until)
            self._reap_sources(before=until)
        except (DatabaseUnavailable, OSError) as error:
            _log.warning("what belongs to no build could not be removed: %s", error)

    def release_vms(self) -> None:
        """End the holds that are over, and destroy the VMs of finished jobs and of forks that are not held."""
        end_holds(self._storage, self._providers)
        self._reap_leases()

    def sweep(self) -> None:
        """Free the disks of finished builds, and what the cache holds beyond its budget."""
        if self._is_damaged:
            return
        storage = self._storage
        evict(storage, self._providers, self._live_settings.now.cache.max_bytes)
        evict_folders(storage, self._live_settings.now.cache, self._clock.now())
        expire_kept_disks(storage, self._providers, self._live_settings.now.retention, self._clock.now())
        storage.kept_folders.remove_orphans(storage.timeline.ago(_ORPHAN_AGE))
        free_disks(storage, self._providers)
        for build_uuid in storage.workspaces.builds():
            if _is_finished(storage, build_uuid) or storage.builds.by_uuid(build_uuid) is None:
                storage.workspaces.remove(build_uuid)
        finished = {uuid for uuid in storage.sources.manifests() if _is_finished(storage, uuid)}
        for build_uuid in finished - storage.snapshots.builds():
            storage.sources.remove_manifest(build_uuid)

    def free_disk_space(self, lacking: int) -> None:
        """Free disks, unused images and the sources of finished builds, since the host's disk lacks bytes."""
        if self._is_damaged:
            return
        _log.info("the host's disk is short of %.1f GB: removing what is not needed", lacking / _GB)
        now, settings = self._clock.now(), self._live_settings.now
        expire_kept_disks(self._storage, self._providers, settings.retention, now, room=lacking)
        evict(self._storage, self._providers, settings.cache.max_bytes, room=lacking)
        self.sweep()
        self._remove_unused_images(_UNUSED_IMAGE_AGE)
        freed = retention.free_sources(self._storage, lacking)
        if freed.builds:
            _log.info("the sources of %d finished builds were removed: they cannot be rebuilt", freed.builds)

    def expire(self) -> None:
        """Remove expired images, files and audit entries, and log and artifact files without a row.

        Nothing expires while the clock is in doubt: see `ClockSteps`. Nothing is removed while the database is damaged.
        """
        if (damage := self._storage.integrity.damage) is not None:
            _log.error("retention removes nothing: %s", damage)
            return
        storage, now = self._storage, self._clock.now()
        self._remove_image_copies()
        if storage.clock_steps.jump is None:
            self._remove_unused_images()
            self._expire(now)
        else:
            _log.warning("retention removes nothing: %s", CONFIRM)
        for name in storage.log_retention.remove_orphans():
            _log.warning("the logs of build %s, which is not in the database, were removed", name)
        if orphans := storage.artifact_retention.remove_orphans(storage.timeline.ago(_ORPHAN_AGE)):
            _log.warning("%d artifact files belonged to no job and were removed", orphans)

    @property
    def _is_damaged(self) -> bool:
        return self._storage.integrity.damage is not None

    def _expire(self, now: datetime) -> None:
        expired = retention.expire(self._storage, self._live_settings.now.retention, now)
        for what, total in expired.files.items():
            if total.builds:
                _log.info(
                    "the %s of %d expired builds were removed: %d bytes are free", what, total.builds, total.bytes
                )
        if expired.audit:
            _log.info("%d expired audit entries were removed", expired.audit)

    def _reap_vms(self, provider: Provider) -> None:
        """Destroy the VMs of a provider that no live lease names."""
        existing = set(provider.list())
        for vm in existing - {lease.uuid for lease in self._storage.leases.live()}:
            _log.warning("VM %s has no lease and is destroyed", vm)
            self._destroy(provider.name, vm)
        self._host_disk.retain({lease.uuid for lease in self._storage.leases.live()})

    def _reap_leases(self) -> None:
        """End leases: of jobs and forks that are over and not held, of renders, of lost parked VMs."""
        leases = self._storage.leases
        for lease in leases.live():
            if lease.build_id is not None:
                if self._is_rendered(lease, lease.build_id) and self._destroy(lease.provider, lease.uuid):
                    leases.end(lease.id)
            elif self._is_over(lease):
                if self._destroy(lease.provider, lease.uuid):
                    leases.end(lease.id)
                    self._pool.post(Released(lease.id))
            elif not lease.is_fork and lease.job_id is None and self._is_lost(lease) and leases.end_unclaimed(lease.id):
                _log.warning("parked VM %s is lost: its lease has ended", lease.uuid)
                self._destroy(lease.provider, lease.uuid)
                self._pool.post(Released(lease.id))

    def _end_previews(self, before: datetime) -> None:
        leases = self._storage.leases
        for lease in leases.live():
            if lease.is_preview and lease.created_at <= before and leases.end_unclaimed(lease.id):
                self._destroy(lease.provider, lease.uuid)

    def _reap_snapshots(self, provider: Provider) -> None:
        """Remove a provider's snapshots that no row names, repeatedly, because one may be based on another."""
        kept = set(provider.snapshots())
        orphans = kept - {snapshot.name for snapshot in self._storage.snapshots.all()}
        removed: Iterable[str] = orphans
        while removed:
            removed = [name for name in orphans if _remove_snapshot(provider, name)]
            orphans.difference_update(removed)
            for name in removed:
                _log.warning("snapshot %s belonged to no job and was removed", name)

    def _reap_snapshot_rows(self, provider: Provider) -> None:
        """Remove the rows of a provider's snapshots that it lacks.

        Those of jobs with a live lease stay, because their snapshot may be in the making.
        """
        storage = self._storage
        rows = [each for each in storage.snapshots.all() if each.provider == provider.name]
        at_work = {lease.job_id for lease in storage.leases.live()}
        kept = set(provider.snapshots())
        for snapshot in rows:
            if snapshot.name not in kept and snapshot.job_id not in at_work:
                _log.warning("snapshot %s has no disk: its row was removed", snapshot.name)
                storage.snapshots.remove(snapshot.name)

    def _reap_sources(self, before: datetime | None = None) -> None:
        """Remove the source archives that no build keeps and that are from ``before``, or older than an hour."""
        before = before or self._storage.timeline.ago(_ORPHAN_AGE)
        owners = self._storage.source_retention.owners
        for name in self._storage.sources.remove_orphans(before, owners, self._storage.builds.by_uuid):
            _log.warning("the source archive %s is no build's and was removed", name)

    def _remove_unused_images(self, unused: timedelta | None = None) -> None:
        """Remove the images that were pulled for jobs and not used for ``unused``, or the configured time.

        Cached disks whose image is gone, or was replaced, leave the cache: no job asks for their names any more.
        """
        lost = set()
        in_use = self._images_of_leases()
        for snapshot in self._storage.snapshots.all():
            try:
                image = self._providers.of(snapshot).snapshot_image(snapshot.name)
            except ProviderAway:
                return  # an image that may be in use is left for the next round
            if image is None:
                lost.add(snapshot.name)
            else:
                in_use.add(image)
        self._storage.cache.drop(entry for entry in self._storage.cache.entries() if entry.snapshot in lost)
        for name in self._images.retire(in_use, self._clock.now(), unused):
            _log.info("image %s was not used for long and was removed; it is pulled again when a job names it", name)

    def _images_of_leases(self) -> set[str]:
        """Return the images that VMs and their jobs' services have started from, or are about to."""
        live, usable = self._storage.leases.live(), self._storage.registry_logins.usable
        jobs = [self._storage.jobs.get(lease.job_id) for lease in live if lease.job_id is not None]
        of_services = {
            self._images.resolve(service.image, partial(usable, job.organization_id, job.build_id))
            for job in jobs
            if job is not None
            for service in job.all_services.values()
        }
        return {lease.image for lease in live if lease.image is not None} | of_services

    def _remove_image_copies(self) -> None:
        for provider in self._providers:
            try:
                provider.remove_image_copies()
            except (VmError, OSError) as error:
                _log.warning("copies of images at the provider %s are left for the next hour: %s", provider.name, error)

    def _is_over(self, lease: Lease) -> bool:
        """Tell whether a VM of a job or of a fork is of no more use."""
        if lease.is_fork:
            return self._storage.holds.of_lease(lease.id) is None
        return lease.job_id is not None and self._has_ended(lease.id, lease.job_id, lease.attempt)

    def _has_ended(self, lease_id: int, job_id: int, attempt: int) -> bool:
        """Tell whether a lease's job has ended without a hold on the VM, or has moved on to another attempt."""
        job = self._storage.jobs.get(job_id)
        if job is None or job.attempt != attempt:
            return True
        if job.state.terminal:
            return self._storage.holds.of_lease(lease_id) is None
        return job.state is JobState.SCHEDULED

    def _is_rendered(self, lease: Lease, build_id: int) -> bool:
        """Tell whether a build's render is over, or has started again in another VM."""
        render = self._storage.renders.get(build_id)
        return render is None or render.finished_at is not None or render.lease_id != lease.id

    def _is_lost(self, lease: Lease) -> bool:
        """Tell whether the VM of a lease without a job is gone, or was never made; False if nobody can tell."""
        if lease.state is LeaseState.PARKED:
            provider = self._providers.of(lease)
            try:
                return not (provider.alive(lease.uuid) if lease.is_preview else provider.parked(lease.uuid))
            except ProviderAway:
                return False
        return self._storage.timeline.seconds_since(lease.created_at) > _ORPHAN_AGE.total_seconds()

    def _destroy(self, provider: str, vm: str) -> bool:
        try:
            self._providers.named(provider).destroy(vm)
        except (VmError, OSError) as error:
            _log.warning("VM %s cannot be destroyed and is tried again in the next round: %s", vm, error)
            return False
        return True


def _remove_snapshot(provider: Provider, name: str) -> bool:
    try:
        provider.remove_snapshot(name)
    except VmError as error:
        _log.info("snapshot %s cannot be removed yet: %s", name, error)
        return False
    return True


def _is_finished(storage: Storage, build_uuid: str) -> bool:
    build = storage.builds.by_uuid(build_uuid)
    return build is not None and build.state.terminal
