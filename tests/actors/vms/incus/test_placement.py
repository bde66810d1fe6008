"""The choice of a member: by the part that is free, and where the parent's disk is."""

from __future__ import annotations

from dataclasses import replace

from actors.vms.incus.fleet import Member, choose, is_current
from storage import Shape

ONE = Shape(cpu=1, memory_gb=1)


def member(name: str, cpus: int = 4, memory_gb: int = 16, state: str = "Online") -> Member:
    return Member(name, state, "", cpus, memory_gb * 1024)


def test_vms_spread_by_the_part_of_a_member_that_is_free():
    members, placed = [member("a", cpus=4), member("b", cpus=8)], []
    for _ in range(12):
        chosen = choose(members, placed, ONE, None)
        assert chosen is not None
        placed.append((chosen, ONE))
    assert [name for name, _ in placed].count("a") == 4


def test_a_fork_is_made_where_its_parents_disk_is():
    assert choose([member("a"), member("b")], [("b", ONE)], ONE, "b") == "b"


def test_memory_fills_a_member_too():
    large = Shape(cpu=1, memory_gb=10)
    assert choose([member("a"), member("b")], [("b", large)], ONE, None) == "a"


def test_a_member_that_is_evacuated_or_lost_gets_nothing():
    members = [member("a", state="Evacuated"), member("b", state="Offline"), member("c")]
    assert choose(members, [("c", ONE)] * 9, ONE, "a") == "c"
    assert choose(members[:2], [], ONE, "a") is None


def test_a_member_that_drains_gets_nothing_new_not_even_forks():
    drains = replace(member("a"), draining=True)
    assert choose([drains, member("b")], [("b", ONE)] * 9, ONE, "a") == "b"
    assert choose([drains], [], ONE, None) is None


def test_a_full_cluster_still_gets_what_the_pool_lets_through():
    assert choose([member("a")], [("a", ONE)] * 99, ONE, "a") == "a"
    assert choose([member("a"), member("b")], [("a", ONE), ("b", ONE)] * 99, ONE, "a") == "a"


def test_a_member_with_fewer_processors_than_a_vm_is_left_out():
    """The engine starts no machine there, and a container would have less than its shape."""
    wide = Shape(cpu=4, memory_gb=1)
    members = [member("a", cpus=2, memory_gb=64), member("b", cpus=4)]
    assert choose(members, [("b", ONE)] * 9, wide, None) == "b"
    assert choose(members, [], wide, "a") == "b"
    assert choose(members[:1], [], wide, None) == "a"


def test_a_member_whose_size_is_not_known_yet_takes_vms_too():
    two, unknown = Shape(cpu=2, memory_gb=1), replace(member("b"), cpus=None, memory_mb=None)
    assert choose([member("a", cpus=2), unknown], [("a", two)], two, None) == "b"


def test_a_disk_is_copied_from_a_full_member_to_one_with_room():
    large = Shape(cpu=1, memory_gb=8)
    full = [("a", large)]
    assert choose([member("a"), member("b")], full, large, "a") == "a"
    assert choose([member("a"), member("b")], full * 2, large, "a") == "b"
    assert choose([member("a"), member("b")], full * 2 + [("b", large)] * 2, large, "a") == "a"


def test_processors_fill_a_member_of_a_parents_disk_too():
    assert choose([member("a"), member("b")], [("a", ONE)] * 15, ONE, "a") == "a"
    assert choose([member("a", memory_gb=64), member("b")], [("a", ONE)] * 16, ONE, "a") == "b"


def test_a_vm_goes_where_it_fits_rather_than_where_more_is_free():
    large = Shape(cpu=1, memory_gb=10)
    members = [member("a", cpus=4, memory_gb=16), member("b", cpus=4, memory_gb=8)]
    assert choose(members, [("a", ONE)], large, None) == "a"


def test_a_list_that_its_own_database_could_not_give_is_old():
    """The leader of three is lost, and its successor has heard of nobody yet."""
    a, b, c = (replace(member(name), votes=True) for name in "abc")
    beyond = [replace(member(f"d{number}"), state="Offline") for number in range(9)]
    assert is_current([a, b, replace(c, state="Offline"), *beyond])
    assert not is_current([a, replace(b, state="Offline"), replace(c, state="Offline"), *beyond])
    assert is_current(beyond)
