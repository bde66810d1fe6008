from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from actors.cleanup.retention import MOST_KEPT_DISKS, SnapshotForest, to_drop
from storage import KeptDisk, Snapshot

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def kept(name: str, of: int = 1, size: int | None = 1, days: float = 0) -> KeptDisk:
    return KeptDisk(name, of, NOW - timedelta(days=days), size)


def dropped(disks: list[KeptDisk], budget: int = 100, *, days: float = 2, needed: str = "", base: str = "") -> str:
    """Return the disks to drop, by letter; those in ``base`` are below all of them."""
    below = [Snapshot(name, 1, "sandbox", NOW, None, 5) for name in base]
    snapshots = [Snapshot(each.snapshot, 1, "sandbox", NOW, base or None, each.bytes) for each in disks]
    return "".join(
        to_drop(disks, SnapshotForest([*below, *snapshots]), set(needed), NOW - timedelta(days=days), budget)
    )


def test_disks_go_after_their_days():
    assert dropped([kept("a", days=3), kept("b", days=2.1), kept("c", days=1.9)]) == "ab"


def test_none_is_too_old_while_the_clock_is_in_doubt():
    disks = [kept("a", days=3)]
    assert to_drop(disks, SnapshotForest([]), set(), None, 100) == []


def test_over_the_budget_the_oldest_of_who_has_most_go_first():
    disks = [kept("a", of=1, size=2), kept("b", of=2, size=4), kept("c", of=2, size=4), kept("d", of=1, size=1)]
    assert dropped(disks, 11) == ""
    assert dropped(disks, 10) == "b"
    assert dropped(disks, 3) == "bc"
    assert dropped(disks, 0) == "bcad"


def test_a_disk_below_counts_once_unless_it_is_needed_anyway():
    disks = [kept("a"), kept("b")]
    assert dropped(disks, 7, base="z") == ""
    assert dropped(disks, 6, base="z") == "a"
    assert dropped(disks, 2, base="z", needed="z") == ""


def test_their_number_is_bounded_whatever_their_size():
    disks = [kept(str(each), size=None) for each in range(MOST_KEPT_DISKS + 2)]
    assert dropped(disks) == "01"


@given(sizes=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), max_size=20), budget=st.integers(0, 60))
def test_what_stays_fits_the_budget(sizes: list[tuple[int, int]], budget: int):
    disks = [kept(str(number), of, size) for number, (of, size) in enumerate(sizes)]
    forest = SnapshotForest([Snapshot(each.snapshot, 1, "sandbox", NOW, None, each.bytes) for each in disks])
    gone = to_drop(disks, forest, set(), None, budget)
    left = [each for each in disks if each.snapshot not in gone]
    assert sum(each.bytes or 0 for each in left) <= budget
    assert not gone or sum(each.bytes or 0 for each in disks) > budget
