"""The choice of cached disks to evict. Pure (engine.md, "Cache across builds")."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from storage import CacheEntry, Snapshot

__all__ = ["Forest"]


class Forest:
    """All snapshots, each of which may be based on another. A disk takes what its whole chain takes."""

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

    def excess(self, oldest_first: Sequence[CacheEntry], in_use: Collection[str], budget: int) -> list[CacheEntry]:
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
