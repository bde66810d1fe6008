"""The cache of disks across builds: hits, and disks to keep (engine.md, "Cache across builds")."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from actors.builds.attempt.workspace import build_of_job, manifest_on_disk
from actors.builds.states import JobEvent, next_state
from actors.vms import ProviderAway, SnapshotNotFound
from storage import CacheName

if TYPE_CHECKING:
    from actors.engine_settings import LiveSettings
    from actors.log_watchers import LogWatchers
    from actors.metrics import EngineMetrics
    from actors.scheduling.provider_choice import ProviderChoice
    from actors.vms import Images, Providers
    from storage import Build, CacheEntry, Clock, Job, Lease, Storage

__all__ = ["DiskCache"]

_log = logging.getLogger(__name__)


class DiskCache:
    """Finds and keeps the disks that jobs leave for later builds. Safe in any thread."""

    def __init__(
        self,
        *,
        storage: Storage,
        providers: Providers,
        choice: ProviderChoice,
        images: Images,
        clock: Clock,
        live_settings: LiveSettings,
        metrics: EngineMetrics,
        watchers: LogWatchers,
    ) -> None:
        self._storage = storage
        self._providers = providers
        self._choice = choice
        self._images = images
        self._clock = clock
        self._live_settings = live_settings
        self._metrics = metrics
        self._watchers = watchers

    def take_hit(self, job_id: int) -> bool:
        """Let a scheduled job pass on a cache hit; tell whether it did. The caller lets its build go on.

        False if the cache has nothing for it, or cannot tell, or the job's state was changed meanwhile.
        """
        job = self._storage.jobs.get(job_id)
        if job is None or job.cache_key is None or (target := next_state(job.state, JobEvent.CACHE_HIT)) is None:
            return False
        build = self._storage.builds.get(job.build_id)
        provider = self._choice.of_job(job.id, job.build_id, self._images.resolve(job.image))
        entry = None if build is None else self._find(build, job, provider)
        if build is None or entry is None:
            return False
        notice = (
            f'cache hit: nothing is run, the disk that "{entry.job_name}" left in build {entry.build_number} '
            "is this job's"
        )
        if not self._storage.cache.hit(entry, job, target, build.uuid, notice):
            return False
        self._metrics.hit()
        self._watchers.notify(job.uuid)
        return True

    def lacks(self, build: Build, job: Job, lease: Lease) -> bool:
        """Tell whether the disk of a job's VM belongs in the cache, which has none of that provider yet."""
        return self._enabled and job.cache_key is not None and self._find(build, job, lease.provider) is None

    def keep(self, build: Build, job: Job, lease: Lease) -> None:
        """Store the disk of a job's VM in the cache for later builds, unless the cache has one already."""
        try:
            image = self._providers.of(lease).snapshot_image(lease.uuid)
        except ProviderAway:
            return
        if job.cache_key is None or image is None or not self._enabled:
            return
        if self._storage.cache.store(CacheName(build.pipeline_id, image, job.cache_key, lease.provider), lease.uuid):
            self._metrics.stored()

    @property
    def _enabled(self) -> bool:
        return self._live_settings.now.cache.max_bytes > 0

    def _find(self, build: Build, job: Job, provider: str) -> CacheEntry | None:
        """Return a job's cache entry, or None, also while the provider is away.

        An entry that cannot be used is dropped: see `_is_usable`.
        """
        if job.cache_key is None or not self._enabled:
            return None
        image = self._images.resolve(job.image)
        entry = self._storage.cache.find(CacheName(build.pipeline_id, image, job.cache_key, provider))
        try:
            if entry is None or self._is_usable(build, entry):
                return entry
        except ProviderAway:
            return None
        _log.warning("the cached disk %s is no longer usable and is removed from the cache", entry.snapshot)
        self._storage.cache.drop([entry])
        return None

    def _is_usable(self, build: Build, entry: CacheEntry) -> bool:
        """Tell whether a build's jobs can start from a cached disk.

        They cannot if the disk is gone or its image was replaced, if the source on it is unknown, or if the clock was
        set back, because its files would then seem newer than any source.
        """
        if self._providers.named(entry.name.provider).snapshot_image(entry.snapshot) != entry.name.image:
            return False
        if entry.created_at > self._clock.now():
            return False
        maker = build_of_job(self._storage, entry.job_id)
        if maker is not None and maker.id == build.id:
            return True
        try:
            manifest_on_disk(self._storage, maker)
        except SnapshotNotFound:
            return False
        return True
