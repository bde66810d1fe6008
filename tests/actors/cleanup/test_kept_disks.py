from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

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


GB = 2**30
ROUND = timedelta(minutes=10)
"""The time between two looks at the disks: the service looks more often."""


def failures() -> list[KeptDisk]:
    """Return the disks of a month's failed jobs: 200 builds of six jobs a working day.

    Of these jobs 4 in 100 fail. The disks take 0.3 GB in the middle and 0.6 GB on average, and ten at most.
    """
    random, found = Random(41), []
    for day in (each for each in range(28) if each % 7 < 5):
        for _ in range(sum(random.random() < 0.04 for _ in range(200 * 6))):
            size = min(10 * GB, int(random.lognormvariate(19.5, 1.2)))
            found.append(kept(str(len(found)), size=size, days=-day - random.uniform(8, 19) / 24))
    return sorted(found, key=lambda each: each.created_at)


def month(budget: int) -> tuple[float, float, float, float]:
    """Return the most GB after and before a look, the median hours of a disk, and all GB-seconds."""
    coming, disks, hours = failures()[::-1], list[KeptDisk](), list[float]()
    most = peak = used = 0
    for look in range(28 * 24 * 6):
        now = NOW + look * ROUND
        while coming and coming[-1].created_at <= now:
            disks.append(coming.pop())
        peak = max(peak, sum(each.bytes or 0 for each in disks))
        forest = SnapshotForest([Snapshot(each.snapshot, 1, "sandbox", NOW, None, each.bytes) for each in disks])
        gone = set(to_drop(disks, forest, set(), now - timedelta(days=2), budget))
        hours += [(now - each.created_at).total_seconds() / 3600 for each in disks if each.snapshot in gone]
        disks = [each for each in disks if each.snapshot not in gone]
        taken = sum(each.bytes or 0 for each in disks)
        most, used = max(most, taken), used + taken * int(ROUND.total_seconds())
    return most / GB, peak / GB, sorted(hours)[len(hours) // 2], used / GB


def test_a_month_of_a_busy_team_stays_below_its_bound():
    bounded, free = month(10 * GB), month(1000 * GB)
    said = " ".join(Path("docs/time-travel.md").read_text().split())
    assert bounded[0] <= 10
    assert (
        f"With the default of 10 GB the disks took {bounded[0]:.1f} GB at most after a look, {bounded[1]:.0f} GB just "
        f"before one, half of them were there for {bounded[2]:.0f} hours or more, and the month cost "
        f"{bounded[3] / 1e6:.0f} cents. Without that bound they would have taken {free[0]:.0f} GB, for "
        f"{free[3] / 1e6:.0f} cents."
    ) in said
