"""The cache of disks: names, hits, and disks to keep (engine.md, "Cache across builds")."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from functools import cached_property, partial
from typing import TYPE_CHECKING

from actors.builds.attempt.environment import declared_environment
from actors.builds.attempt.shared_workspaces import content_taken
from actors.builds.attempt.taken_files import FilesMissing, taken_artifacts
from actors.builds.attempt.told import variables_of
from actors.builds.attempt.workspace import build_of_job, manifest_on_disk
from actors.builds.states import JobEvent, next_state
from actors.vms import ImageNotFound, ProviderAway, SnapshotNotFound
from storage import NewCacheEntry, SealBroken

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.parts import VmParts
    from actors.vms import Images
    from storage import Build, CacheEntry, Job, Lease, Storage

_log = logging.getLogger(__name__)

_SHELL, _STRICT_SHELL = "bash -c", "bash -eo pipefail -c"
_OF_EVENT = frozenset(
    {
        "CI_EVENT",
        "CI_PULL_REQUEST",
        "CI_TARGET_BRANCH",
        "CI_BASE_COMMIT",
        "CI_MERGE_COMMIT",
        "CI_TAG",
        "CI_UPSTREAM_BUILD",
    }
)
"""Variables of what began a build, which differ in each, like CI_BRANCH and CI_COMMIT."""


class CacheNames:
    """The names of disks, made of everything that affects commands (engine.md, "Cache across builds").

    Safe in any thread.
    """

    def __init__(self, storage: Storage, images: Images) -> None:
        self._storage = storage
        self._images = images

    @cached_property
    def _key(self) -> bytes:
        """The key of the names: nobody without it can search them for the values of a build's variables."""
        return self._storage.vault.derive(b"names of cached disks")

    def of(self, build: Build, job: Job, *, provider: str, image: str, of_jobs: Mapping[str, str]) -> str | None:
        """Return the name of the disk that a job leaves if it passes now, whether it is to be cached or not.

        ``image`` is that of the store from which it starts, unless it builds in another job; ``of_jobs`` are the
        owner's variables for all jobs. None if nobody knows what exactly ran on the disk that it starts from. Raises
        ImageNotFound, and SealBroken.
        """
        below = self._below(job, image)
        if below is None:
            return None
        ingredients = {
            "organization": build.organization_id,
            "pipeline": build.pipeline_id,
            "provider": provider,
            "below": below,
            "shell": _STRICT_SHELL if build.strict_shell else _SHELL,
            "command": job.command,
            "env": declared_environment(
                job, of_jobs=of_jobs, of_needed=self._outputs_given(job), of_build=self._env_given(build)
            ),
            "secrets": sorted(job.secrets),
            "network": job.network,
            "size": (job.shape.cpu, job.shape.memory_gb, job.shape.disk_gb),
            "artifacts": sorted(job.artifacts),
            "policy": job.cache_policy,
            "key": job.cache_key,
        }
        if shared_with := self._storage.job_secrets.shared_with(build):
            ingredients["limited_secrets"] = shared_with
        if job.registries:
            ingredients["registries"] = sorted(job.registries)
        if job.identity_audience is not None:
            ingredients["identity"] = job.identity_audience
        if job.services:
            ingredients["services"] = self._of_services(build, job)
        if job.files or job.files_of:
            try:
                taken = taken_artifacts(self._storage, build, job)
            except FilesMissing:
                return None
            files = [(each.path, each.sha256, each.executable) for of_one in taken for each in of_one.artifacts]
            ingredients["files"] = sorted(files)
        takes_one, content = content_taken(self._storage, build, job)
        if takes_one:
            if content is None:
                return None
            ingredients["workspace"] = content
        text = json.dumps(ingredients, sort_keys=True)
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()

    def _of_services(self, build: Build, job: Job) -> dict[str, object]:
        """Return all of a job's services but the time that they may take to be ready. Raises ImageNotFound.

        Whether a job passes also depends on what it waits for, and on a service that ends before it.
        """
        logins = partial(self._storage.registry_logins.usable, build.organization_id, build.id)
        found: dict[str, object] = {}
        for name, service in job.all_services.items():
            image = self._images.identity(self._images.resolve(service.image, logins))
            parts = {key: value for key, value in service.document.items() if key != "ready_seconds"}
            found[name] = parts | {"image": image}
        return found

    def _below(self, job: Job, image: str) -> str | None:
        """Return the name of the disk that a job starts from, else the identity of its image."""
        if not self._storage.snapshots.has_parent(job.id):
            return self._images.identity(image)
        disk = self._storage.snapshots.below(job.id)
        return None if disk is None else disk.cache_name

    def _outputs_given(self, job: Job) -> dict[str, str]:
        return variables_of(self._storage.told.outputs_given_to(job.id))[0]

    def _env_given(self, build: Build) -> dict[str, str]:
        """Return the variables that a build was created with, without those that tell its event."""
        env = self._storage.builds.env(build.id)
        if env.keys().isdisjoint(_OF_EVENT) or self._storage.build_origins.get(build.id) is None:
            return env
        return {name: value for name, value in env.items() if name not in _OF_EVENT}


class DiskCache:
    """Finds and keeps the disks that jobs leave for later builds. Safe in any thread."""

    def __init__(self, parts: VmParts, *, names: CacheNames) -> None:
        self._storage = parts.storage
        self._providers = parts.providers
        self._choice = parts.choice
        self._images = parts.images
        self._names = names
        self._clock = parts.clock
        self._live_settings = parts.live_settings
        self._metrics = parts.metrics
        self._watchers = parts.watchers

    def take_hit(self, job_id: int) -> bool:
        """Let a scheduled job pass on a cache hit; tell whether it did. The caller lets its build go on.

        False if the cache has nothing for it, or cannot tell, or the job's state was changed meanwhile.
        """
        job = self._storage.jobs.get(job_id)
        if job is None or job.cache_key is None or (target := next_state(job.state, JobEvent.CACHE_HIT)) is None:
            return False
        build = self._storage.builds.get(job.build_id)
        name = None if build is None or not self._enabled else self._name(build, job)
        entry = None if build is None or name is None else self._find(build, name)
        if build is None or entry is None:
            return False
        notice = (
            f'cache hit: nothing is run, the disk that "{entry.job_name}" left in build {entry.build_number} '
            "is this job's: its command, variables, image, size and all else that can change it are the same"
        )
        shown = self._live_settings.now.preview_of(job)
        if shown is not None:
            notice += f"; preview: {shown}"
        with self._storage.transaction():
            hit = self._storage.cache.hit(entry, job, target, build.uuid, notice)
            if hit and shown is not None:
                self._storage.previews.add(build, job, entry.snapshot)
        if not hit:
            return False
        self._metrics.hit()
        self._watchers.notify(job.uuid)
        return True

    def lacks(self, build: Build, job: Job, lease: Lease) -> bool:
        """Tell whether the disk of a job's VM belongs in the cache, which has none of its name yet."""
        name = self._storage.attempts.cache_name(job.id)
        return self._enabled and job.cache_key is not None and name is not None and self._find(build, name) is None

    def keep(self, build: Build, job: Job, lease: Lease) -> None:
        """Store the disk of a job's VM in the cache for later builds, unless the cache has one already."""
        try:
            image = self._providers.of(lease).snapshot_image(lease.uuid)
        except ProviderAway:
            return
        disk = self._storage.snapshots.get(lease.uuid)
        if job.cache_key is None or image is None or disk is None or disk.cache_name is None or not self._enabled:
            return
        new = NewCacheEntry(disk.cache_name, build.pipeline_id, job.cache_key, image, lease.uuid)
        if self._storage.cache.store(new):
            self._metrics.stored()

    @property
    def _enabled(self) -> bool:
        return self._live_settings.now.cache.max_bytes > 0

    def _name(self, build: Build, job: Job) -> str | None:
        """Return the name of the disk that a scheduled job would leave, None if it is unknown."""
        logins = partial(self._storage.registry_logins.usable, build.organization_id, build.id)
        image = self._images.resolve(job.image, logins)
        provider = self._choice.of_job(job.id, build.id, image)
        of_jobs = self._live_settings.now.jobs.env
        try:
            return self._names.of(build, job, provider=provider, image=image, of_jobs=of_jobs)
        except (ImageNotFound, SealBroken):  # the job's attempt meets it, too, and says so
            return None

    def _find(self, build: Build, name: str) -> CacheEntry | None:
        """Return the entry of a name, or None, also while its provider is away.

        An entry that cannot be used is dropped: see `_is_usable`.
        """
        entry = self._storage.cache.find(name)
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
        if self._providers.named(entry.provider).snapshot_image(entry.snapshot) != entry.image:
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
