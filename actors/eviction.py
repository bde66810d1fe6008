"""Which cached disks are to go when there are too many. Pure (engine.md, "Cache across builds")."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from storage import CacheEntry, Snapshot

__all__ = ["Forest"]


class Forest:
    """The snapshots there are, each of which may stand on another: what a disk takes is what its whole chain takes."""

    def __init__(self, snapshots: Iterable[Snapshot]) -> None:
        self._snapshots: Mapping[str, Snapshot] = {snapshot.name: snapshot for snapshot in snapshots}

    def chain(self, name: str | None) -> Iterator[str]:
        """Yield a snapshot, the one that it stands on, and so on down to the image."""
        while name is not None and (snapshot := self._snapshots.get(name)) is not None:
            yield name
            name = snapshot.base

    def bytes(self, names: Iterable[str]) -> int:
        """Return what disks take together; one that is not measured counts as nothing."""
        return sum(self._snapshots[name].bytes or 0 for name in self._holders(names))

    def excess(self, oldest_first: Sequence[CacheEntry], in_use: Collection[str], budget: int) -> list[CacheEntry]:
        """Return the entries to forget so that the rest take ``budget`` bytes at most: the longest unused first.

        Before those goes what is over the budget all by itself, which would otherwise drive everything else out. A disk
        in use, or that one in use stands on, stays whatever the budget: to forget it would free nothing.
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
        """Count how many of the disks stand on each snapshot, or are it."""
        return Counter(below for name in names for below in self.chain(name))
