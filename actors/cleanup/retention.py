"""Retention of logs, artifacts, sources and the audit, by age and size (engine.md, "Logs").

Cached disks are evicted, longest unused first (engine.md, "Cache across builds").
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

from actors.vms import VmError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from actors.settings import CacheSettings, RetentionSettings
    from actors.vms import Providers
    from storage import CacheEntry, KeptDisk, KeptFiles, KeptFolder, Retention, Snapshot, Storage

_BATCH = 100
_DAY = timedelta(days=1)
_GB = 2**30

_log = logging.getLogger(__name__)


@immutable
class ExpiredTotal:
    """The expired part of one kind: a number of builds, and of bytes."""

    builds: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, parts: Iterable[KeptFiles]) -> ExpiredTotal:
        """Return the sum of some parts."""
        sizes = [part.bytes for part in parts]
        return cls(len(sizes), sum(sizes))

    def __add__(self, other: ExpiredTotal) -> ExpiredTotal:
        """Return the sum of both."""
        return ExpiredTotal(self.builds + other.builds, self.bytes + other.bytes)


@immutable
class Expired:
    """The files of each kind that were removed, or are due, by its name; ``audit`` counts entries."""

    files: Mapping[str, ExpiredTotal]
    audit: int = 0


def due(oldest_first: Iterable[KeptFiles], before: datetime | None, excess: int) -> Iterator[KeptFiles]:
    """Yield what is due: everything from before an instant, then more until ``excess`` bytes are freed."""
    for each in oldest_first:
        old = before is not None and each.finished_at < before
        if not old and excess <= 0:
            return
        if old or each.bytes:
            excess -= each.bytes
            yield each


def preview(storage: Storage, settings: RetentionSettings, now: datetime) -> Expired:
    """Return what is due, without removing it."""
    audit = storage.audit.expirable(now - settings.audit_days * _DAY) if settings.audit_days else 0
    return Expired({rule.kind: ExpiredTotal.of(rule.due(now)) for rule in _rules(storage, settings)}, audit)


def expire(storage: Storage, settings: RetentionSettings, now: datetime) -> Expired:
    """Remove what is due, and finish the removals of an earlier process."""
    audit = storage.audit.expire(now - settings.audit_days * _DAY) if settings.audit_days else 0
    return Expired({rule.kind: rule.expire(now) for rule in _rules(storage, settings)}, audit)


def free_sources(storage: Storage, lacking: int) -> ExpiredTotal:
    """Remove the sources of the builds that finished first, until ``lacking`` bytes are freed."""
    storage.source_retention.measure()
    going = list(due(storage.source_retention.oldest_first(), None, lacking))
    storage.source_retention.expire(going)
    return ExpiredTotal.of(going)


@immutable
class _Rule:
    """The age limit and the budget of one kind."""

    kind: str
    retention: Retention
    days: int
    gb: float

    def due(self, now: datetime) -> Iterator[KeptFiles]:
        before = now - self.days * _DAY if self.days else None
        excess = self.retention.bytes() - int(self.gb * _GB) if self.gb else 0
        return due(self.retention.oldest_first(), before, excess)

    def expire(self, now: datetime) -> ExpiredTotal:
        self.retention.finish_expiring()
        removed, expired = ExpiredTotal(), self.due(now)
        while batch := list(islice(expired, _BATCH)):
            self.retention.expire(batch)
            removed += ExpiredTotal.of(batch)
        return removed


def _rules(storage: Storage, settings: RetentionSettings) -> tuple[_Rule, ...]:
    """Return the rule of each kind, after measuring the files of builds that finished since the last time."""
    storage.log_retention.measure()
    storage.source_retention.measure()
    return (
        _Rule("logs", storage.log_retention, settings.logs_days, settings.logs_gb),
        _Rule("artifacts", storage.artifact_retention, settings.artifacts_days, settings.artifacts_gb),
        _Rule("sources", storage.source_retention, settings.sources_days, settings.sources_gb),
    )


class SnapshotForest:
    """All snapshots, each of which may be based on another. A disk takes what its whole chain takes. Pure."""

    def __init__(self, snapshots: Iterable[Snapshot]) -> None:
        self._snapshots: Mapping[str, Snapshot] = {snapshot.name: snapshot for snapshot in snapshots}

    def chain(self, name: str | None) -> Iterator[str]:
        """Yield a snapshot, its base, and so on down to the image."""
        while name is not None and (snapshot := self._snapshots.get(name)) is not None:
            yield name
            name = snapshot.base

    def bytes(self, names: Iterable[str]) -> int:
        """Return the bytes that disks take together; a snapshot that is not measured counts as 0."""
        return sum(map(self.own_bytes, self.holders(names)))

    def own_bytes(self, name: str) -> int:
        """Return the bytes of a snapshot beyond its base."""
        return self._snapshots[name].bytes or 0

    def to_evict(self, oldest_first: Sequence[CacheEntry], in_use: Collection[str], budget: int) -> list[CacheEntry]:
        """Return the entries to drop so that the rest take at most ``budget`` bytes, longest unused first.

        A disk that exceeds the budget by itself goes before all others, or it would evict them all. A disk in use, or
        the base of one in use, always stays: dropping it would free nothing.
        """
        needed = {name for disk in in_use for name in self.chain(disk)}
        held = self.holders(entry.snapshot for entry in oldest_first)
        taken = self.bytes(entry.snapshot for entry in oldest_first)
        gone: list[CacheEntry] = []
        for entry in sorted(oldest_first, key=lambda entry: self.bytes([entry.snapshot]) <= budget):
            if taken <= budget:
                break
            if entry.snapshot in needed:
                continue
            gone.append(entry)
            for name in self.chain(entry.snapshot):
                held[name] -= 1
                if not held[name] and name not in needed:
                    taken -= self._snapshots[name].bytes or 0
        return gone

    def holders(self, names: Iterable[str]) -> Counter[str]:
        """Count, for each snapshot, the disks that are it or are based on it."""
        return Counter(below for name in names for below in self.chain(name))


@immutable
class KeptBytes:
    """The sizes of what the service keeps. ``disks`` are those of jobs, including those in the ``cache``."""

    database: int
    logs: int
    artifacts: int
    sources: int
    disks: int
    cache: int
    folders: int


def kept_bytes(storage: Storage) -> KeptBytes:
    """Return the sizes of the service's data."""
    snapshots = storage.snapshots.all()
    forest = SnapshotForest(snapshots)
    return KeptBytes(
        database=storage.database_bytes(),
        logs=storage.log_retention.bytes(),
        artifacts=storage.artifact_retention.bytes(),
        sources=storage.source_retention.bytes(),
        disks=forest.bytes(each.name for each in snapshots),
        cache=forest.bytes(each.snapshot for each in storage.cache.entries(None, None)),
        folders=sum(each.file_size for each in storage.kept_folders.all()),
    )


def evict(storage: Storage, providers: Providers, max_bytes: int, room: int = 0) -> None:
    """Drop cache entries until the cache is within ``max_bytes`` and takes ``room`` bytes less than now.

    `free_disks` then frees their disks.
    """
    entries = storage.cache.entries()
    if not entries:
        return
    _measure(storage, providers, [entry.snapshot for entry in entries])
    forest = SnapshotForest(storage.snapshots.all())
    taken = forest.bytes(entry.snapshot for entry in entries)
    budget = min(max_bytes, taken - room) if room else max_bytes
    gone = forest.to_evict(entries, storage.snapshots.in_use(), max(0, budget))
    if gone:
        storage.cache.drop(gone)
        _log.info("%d of %d cached disks were evicted, the longest unused first", len(gone), len(entries))


MOST_KEPT_DISKS = 500
"""The most disks of failed jobs that are kept, whatever their size."""


def to_drop(
    kept: Sequence[KeptDisk],
    forest: SnapshotForest,
    needed: Collection[str],
    before: datetime | None,
    budget: int,
    served: Sequence[KeptDisk] = (),
) -> list[str]:
    """Return which disks to keep no longer: those of failed jobs from before an instant, then more.

    The rest are at most `MOST_KEPT_DISKS`, and take at most ``budget`` bytes beside the snapshots that are ``needed``
    anyway. Of the organization whose disks take most, the oldest goes first. Those ``served`` by previews, which end
    when their time is up, are none too old. ``kept`` has the oldest first. Pure.
    """
    gone = [each for each in kept if before is not None and each.created_at < before]
    left: dict[int, deque[KeptDisk]] = {}
    for each in sorted((*kept[len(gone) :], *served), key=lambda each: each.created_at):
        left.setdefault(each.organization_id, deque()).append(each)
    holders = forest.holders(each.snapshot for of in left.values() for each in of)
    taken = sum(forest.own_bytes(name) for name in holders if name not in needed)
    sizes = {of: sum(each.bytes or 0 for each in disks) for of, disks in left.items()}
    count = len(kept) + len(served) - len(gone)
    while count > MOST_KEPT_DISKS or (count and taken > budget):
        of = max(left, key=lambda each: (sizes[each], len(left[each])))
        oldest = left[of].popleft()
        gone.append(oldest)
        count -= 1
        sizes[of] -= oldest.bytes or 0
        if not left[of]:
            del left[of]
        for name in forest.chain(oldest.snapshot):
            holders[name] -= 1
            if not holders[name] and name not in needed:
                taken -= forest.own_bytes(name)
    return [each.snapshot for each in gone]


def expire_kept_disks(
    storage: Storage, providers: Providers, settings: RetentionSettings, now: datetime, room: int = 0
) -> None:
    """Charge the disks of failed jobs, and keep those, and those of previews, no longer that are due.

    With ``room``, more go until they take so many bytes less than now. `free_disks` then frees them. None is too old
    while the clock is in doubt.
    """
    storage.previews.end_late()
    names = {each.snapshot for each in (*storage.kept_disks.all(), *storage.previews.disks())}
    _measure(storage, providers, list(names))
    storage.kept_disks.charge()
    if not names:
        return
    kept, served = storage.kept_disks.all(), storage.previews.disks()
    forest = SnapshotForest(storage.snapshots.all())
    others = storage.snapshots.in_use() | {entry.snapshot for entry in storage.cache.entries()}
    needed = set(forest.holders(others))
    before = now - settings.kept_disks_days * _DAY if storage.clock_steps.jump is None else None
    budget = settings.kept_disks_bytes
    if room:
        budget = min(budget, max(0, sum(each.bytes or 0 for each in (*kept, *served)) - room))
    gone = to_drop(kept, forest, needed, before, budget, served)
    if gone:
        storage.kept_disks.drop(gone)
        storage.previews.end_of_disks(gone, "its disk was removed to make room for others")
        _log.info("%d of %d disks of failed jobs and previews are kept no longer", len(gone), len(kept) + len(served))


def evict_folders(storage: Storage, settings: CacheSettings, now: datetime) -> None:
    """Remove the folders that no job got for long, and more until the rest is within its budget."""
    folders = storage.kept_folders.all()
    before, left = now - settings.folders_days * _DAY, sum(each.file_size for each in folders)
    going: list[KeptFolder] = []
    for each in folders:
        if each.last_used_at >= before and left <= settings.folders_bytes:
            break
        left -= each.file_size
        going.append(each)
    if going:
        storage.kept_folders.drop(going)
        _log.info("%d of %d folders that jobs keep were removed, the longest unused first", len(going), len(folders))


def free_disks(storage: Storage, providers: Providers) -> int:
    """Remove the snapshots that nothing needs any more, and return how many.

    The newest go first, because they may be based on older ones.
    """
    freed = 0
    for snapshot in reversed(storage.snapshots.unneeded()):
        try:
            providers.of(snapshot).remove_snapshot(snapshot.name)
        except VmError as error:
            _log.info("snapshot %s cannot be removed yet: %s", snapshot.name, error)
        else:
            storage.snapshots.remove(snapshot.name)
            freed += 1
    return freed


def _measure(storage: Storage, providers: Providers, disks: list[str]) -> None:
    """Measure disks, and the disks that they are based on, that are not measured yet."""
    snapshots = {snapshot.name: snapshot for snapshot in storage.snapshots.all()}
    forest = SnapshotForest(snapshots.values())
    for name in {name for disk in disks for name in forest.chain(disk)}:
        if (snapshot := snapshots[name]).bytes is None:
            storage.snapshots.measured(name, providers.of(snapshot).snapshot_bytes(name))
