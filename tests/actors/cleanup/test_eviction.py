from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from actors.cleanup.retention import SnapshotForest
from storage import CacheEntry, Snapshot

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def snapshot(name: str, size: int | None = 1, base: str | None = None) -> Snapshot:
    return Snapshot(name, 1, "sandbox", NOW, base, size)


def entry(name: str, age: int = 0) -> CacheEntry:
    used_at = NOW - timedelta(seconds=age)
    return CacheEntry(1, "o", "p", name, name, "i", "j", 1, 1, name, "sandbox", None, 0, NOW, used_at)


def to_evict(snapshots: list[Snapshot], cached: str, budget: int, in_use: str = "") -> str:
    """Return the disks to evict, by letter; ``cached`` lists the cached disks, longest unused first."""
    return "".join(
        gone.snapshot for gone in SnapshotForest(snapshots).to_evict([entry(name) for name in cached], in_use, budget)
    )


def test_the_longest_unused_go_first_and_no_more_than_has_to():
    disks = [snapshot("a", 4), snapshot("b", 4), snapshot("c", 4)]
    assert to_evict(disks, "abc", 12) == ""
    assert to_evict(disks, "abc", 11) == "a"
    assert to_evict(disks, "bca", 4) == "bc"


def test_the_size_of_a_disk_includes_its_bases_once():
    disks = [snapshot("a", 5), snapshot("b", 1, "a"), snapshot("c", 1, "a")]
    forest = SnapshotForest(disks)
    assert (forest.bytes("b"), forest.bytes("bc"), forest.bytes("abc")) == (6, 7, 7)
    assert list(forest.chain("c")) == ["c", "a"]


def test_a_base_disk_is_evicted_with_the_disks_on_it():
    assert to_evict([snapshot("a", 5), snapshot("b", 1, "a"), snapshot("c", 2)], "abc", 6) == "ab"


def test_disks_of_unfinished_builds_stay_over_any_budget():
    """So do the disks below them."""
    disks = [snapshot("a", 5), snapshot("b", 1, "a"), snapshot("c", 2)]
    assert to_evict(disks, "abc", 0, in_use="b") == "c"
    assert to_evict(disks, "ac", 0, in_use="b") == "c"


def test_a_disk_larger_than_the_budget_is_evicted_alone():
    assert to_evict([snapshot("a", 1), snapshot("b", 1), snapshot("c", 9)], "abc", 5) == "c"


def test_unmeasured_and_missing_disks_count_as_0_bytes():
    forest = SnapshotForest([snapshot("a", None), snapshot("b", 3, "gone")])
    assert forest.bytes(["a", "b", "nowhere"]) == 3
    assert forest.to_evict([entry("a"), entry("b")], (), 2) == [entry("b")]


@st.composite
def forests(draw: st.DrawFn) -> list[Snapshot]:
    disks: list[Snapshot] = []
    for number in range(draw(st.integers(1, 12))):
        base = draw(st.none() | st.sampled_from(disks).map(lambda below: below.name)) if disks else None
        disks.append(snapshot(f"s{number}", draw(st.integers(0, 9)), base))
    return disks


@given(disks=forests(), budget=st.integers(0, 60), data=st.data())
def test_whatever_stands_on_what_the_rest_fits_or_is_in_use(disks: list[Snapshot], budget: int, data: st.DataObject):
    names = [disk.name for disk in disks]
    cached = [entry(name) for name in data.draw(st.lists(st.sampled_from(names), unique=True))]
    in_use = set(data.draw(st.lists(st.sampled_from(names), unique=True)))
    forest = SnapshotForest(disks)
    gone = forest.to_evict(cached, in_use, budget)
    needed = {name for disk in in_use for name in forest.chain(disk)}
    rest = [each.snapshot for each in cached if each not in gone]
    assert not {each.snapshot for each in gone} & needed
    assert forest.bytes(rest) <= budget or set(rest) <= needed
    if forest.bytes(each.snapshot for each in cached) <= budget:
        assert gone == []
