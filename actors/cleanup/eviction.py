"""Eviction of cached disks, longest unused first (engine.md, "Cache across builds")."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from actors.vms import VmError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from actors.vms import Providers
    from storage import CacheEntry, Snapshot, Storage

_log = logging.getLogger(__name__)


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
        return sum(self._snapshots[name].bytes or 0 for name in self._holders(names))

    def to_evict(self, oldest_first: Sequence[CacheEntry], in_use: Collection[str], budget: int) -> list[CacheEntry]:
        """Return the entries to drop so that the rest take at most ``budget`` bytes, longest unused first.

        A disk that exceeds the budget by itself goes before all others, or it would evict them all. A disk in use, or
        the base of one in use, always stays: dropping it would free nothing.
        """
        needed = {name for disk in in_use for name in self.chain(disk)}
        held = self._holders(entry.snapshot for entry in oldest_first)
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

    def _holders(self, names: Iterable[str]) -> Counter[str]:
        """Count, for each snapshot, the disks that are it or are based on it."""
        return Counter(below for name in names for below in self.chain(name))


def evict(storage: Storage, providers: Providers, max_bytes: int, room: int = 0) -> None:
    """Drop cache entries until the cache is within ``max_bytes`` and takes ``room`` bytes less than now.

    `free_disks` then frees their disks.
    """
    entries = storage.cache.entries()
    if not entries:
        return
    _measure(storage, providers, entries)
    forest = SnapshotForest(storage.snapshots.all())
    taken = forest.bytes(entry.snapshot for entry in entries)
    budget = min(max_bytes, taken - room) if room else max_bytes
    gone = forest.to_evict(entries, storage.snapshots.in_use(), max(0, budget))
    if gone:
        storage.cache.drop(gone)
        _log.info("%d of %d cached disks were evicted, the longest unused first", len(gone), len(entries))


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


def _measure(storage: Storage, providers: Providers, entries: list[CacheEntry]) -> None:
    """Measure the cached disks, and the disks that they are based on, that are not measured yet."""
    snapshots = {snapshot.name: snapshot for snapshot in storage.snapshots.all()}
    forest = SnapshotForest(snapshots.values())
    for name in {name for entry in entries for name in forest.chain(entry.snapshot)}:
        if (snapshot := snapshots[name]).bytes is None:
            storage.snapshots.measured(name, providers.of(snapshot).snapshot_bytes(name))
