"""Cache hits, and eviction from the cache (engine.md, "Cache across builds")."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from actors.eviction import Forest
from actors.messages import Stirred
from actors.runtime import Runtime, post
from actors.states import JobEvent, next_state
from actors.vms import SnapshotNotFound, VmError
from actors.workspace import maker_of, manifest_held
from storage import CacheName

if TYPE_CHECKING:
    from actors.vms import Provider
    from storage import Build, CacheEntry, Job, Storage

__all__ = ["cached_disk", "evict", "free_disks", "keep_disk", "take_hit"]

_log = logging.getLogger(__name__)


def take_hit(runtime: Runtime, job_id: int) -> bool:
    """Let a scheduled job pass on a cache hit; tell whether it did. The caller lets its build go on.

    False if the cache has nothing for it, or the job's state was changed meanwhile.
    """
    job = runtime.storage.jobs.get(job_id)
    if job is None or job.cache_key is None or (target := next_state(job.state, JobEvent.CACHE_HIT)) is None:
        return False
    build = runtime.storage.builds.get(job.build_id)
    entry = None if build is None else cached_disk(runtime, build, job)
    if build is None or entry is None:
        return False
    notice = (
        f'cache hit: nothing is run, the disk that "{entry.job_name}" left in build {entry.build_number} is this job\'s'
    )
    if not runtime.storage.cache.hit(entry, job, target, build.uuid, notice):
        return False
    runtime.observations.hit()
    post(runtime.crew.hub, Stirred(job.uuid))
    return True


def cached_disk(runtime: Runtime, build: Build, job: Job) -> CacheEntry | None:
    """Return a job's cache entry, or None. An entry that cannot be used is dropped: see `_is_usable`."""
    if job.cache_key is None or not runtime.settings.cache.max_bytes:
        return None
    image = runtime.images.resolve(job.image)
    entry = runtime.storage.cache.find(CacheName(build.pipeline_id, image, job.cache_key))
    if entry is None or _is_usable(runtime, build, entry):
        return entry
    _log.warning("the cached disk %s cannot be used any more and is forgotten", entry.snapshot)
    runtime.storage.cache.drop([entry])
    return None


def _is_usable(runtime: Runtime, build: Build, entry: CacheEntry) -> bool:
    """Tell whether a build's jobs can start from a cached disk.

    They cannot if the disk is gone or its image was replaced, if the source on it is unknown, or if the clock was set
    back, because its files would then seem newer than any source.
    """
    if runtime.provider.snapshot_image(entry.snapshot) != entry.name.image or entry.created_at > runtime.clock.now():
        return False
    maker = maker_of(runtime.storage, entry.job_id)
    if maker is not None and maker.id == build.id:
        return True
    try:
        manifest_held(runtime.storage, maker)
    except SnapshotNotFound:
        return False
    return True


def keep_disk(runtime: Runtime, build: Build, job: Job, snapshot: str) -> None:
    """Store a job's disk in the cache for later builds, unless the cache has one already."""
    image = runtime.provider.snapshot_image(snapshot)
    if job.cache_key is None or image is None or not runtime.settings.cache.max_bytes:
        return
    if runtime.storage.cache.store(CacheName(build.pipeline_id, image, job.cache_key), snapshot):
        runtime.observations.stored()


def evict(storage: Storage, provider: Provider, max_bytes: int, room: int = 0) -> None:
    """Drop cache entries until the cache is within ``max_bytes`` and takes ``room`` bytes less than now.

    `free_disks` then frees their disks.
    """
    entries = storage.cache.entries()
    if not entries:
        return
    _measure(storage, provider, entries)
    forest = Forest(storage.snapshots.all())
    taken = forest.bytes(entry.snapshot for entry in entries)
    budget = min(max_bytes, taken - room) if room else max_bytes
    gone = forest.excess(entries, storage.snapshots.in_use(), max(0, budget))
    if gone:
        storage.cache.drop(gone)
        _log.info("%d of %d cached disks are forgotten, the longest unused ones", len(gone), len(entries))


def free_disks(storage: Storage, provider: Provider) -> int:
    """Remove the snapshots that nothing needs any more, and return how many.

    The newest go first, because they may be based on older ones.
    """
    freed = 0
    for snapshot in reversed(storage.snapshots.unneeded()):
        try:
            provider.remove_snapshot(snapshot.name)
        except VmError as error:
            _log.info("snapshot %s stays for now: %s", snapshot.name, error)
        else:
            storage.snapshots.remove(snapshot.name)
            freed += 1
    return freed


def _measure(storage: Storage, provider: Provider, entries: list[CacheEntry]) -> None:
    """Measure the cached disks, and the disks that they are based on, that are not measured yet."""
    snapshots = {snapshot.name: snapshot for snapshot in storage.snapshots.all()}
    forest = Forest(snapshots.values())
    for name in {name for entry in entries for name in forest.chain(entry.snapshot)}:
        if snapshots[name].bytes is None:
            storage.snapshots.measured(name, provider.snapshot_bytes(name))
