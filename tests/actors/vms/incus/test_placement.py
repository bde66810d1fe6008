"""The choice of a member: by the part that is free, and where the parent's disk is."""

from __future__ import annotations

from dataclasses import replace

from actors.vms.incus.member import Member
from actors.vms.incus.placement import choose
from storage import Shape

ONE = Shape(cpu=1, memory_gb=1)


def member(name: str, cpus: int = 4, memory_gb: int = 16, state: str = "Online") -> Member:
    return Member(name, state, "", cpus, memory_gb * 1024)


def test_vms_spread_by_the_part_of_a_member_that_is_free():
    members, placed = [member("a", cpus=4), member("b", cpus=8)], []
    for _ in range(12):
        chosen = choose(members, placed, None)
        assert chosen is not None
        placed.append((chosen, ONE))
    assert [name for name, _ in placed].count("a") == 4


def test_a_fork_is_made_where_its_parents_disk_is():
    assert choose([member("a"), member("b")], [("b", ONE)], "b") == "b"


def test_memory_fills_a_member_too():
    large = Shape(cpu=1, memory_gb=10)
    assert choose([member("a"), member("b")], [("b", large)], None) == "a"


def test_a_member_that_is_evacuated_or_lost_gets_nothing():
    members = [member("a", state="Evacuated"), member("b", state="Offline"), member("c")]
    assert choose(members, [("c", ONE)] * 9, "a") == "c"
    assert choose(members[:2], [], "a") is None


def test_a_member_that_drains_gets_nothing_new_not_even_forks():
    drains = replace(member("a"), draining=True)
    assert choose([drains, member("b")], [("b", ONE)] * 9, "a") == "b"
    assert choose([drains], [], None) is None


def test_a_full_cluster_still_gets_what_the_pool_lets_through():
    assert choose([member("a")], [("a", ONE)] * 9, "a") == "a"
