"""The size of an engine's members, by which the pool's caps are reckoned."""

from __future__ import annotations

from pathlib import Path

from actors.settings import PoolSettings
from actors.vms import HostSize
from actors.vms.incus.fleet import Member, known_size, note_size, size_of

MEMBERS = [
    Member("a", "Online", "", 4, 16 * 1024),
    Member("b", "Online", "", 8, 32 * 1024),
    Member("c", "Offline", "", 4, 16 * 1024),
    Member("d", "Online", "", 4, 16 * 1024, draining=True),
]


def test_only_members_that_take_vms_count():
    assert size_of(MEMBERS) == HostSize(12, 48)
    assert size_of(MEMBERS[2:]) is None


def test_a_size_is_that_of_this_host_until_it_is_known(tmp_path: Path):
    assert known_size(tmp_path) == HostSize.here()
    note_size(tmp_path, HostSize(12, 48))
    assert known_size(tmp_path) == HostSize(12, 48)


def test_caps_are_by_the_size_of_all_members_unless_they_are_set():
    caps = PoolSettings().host(HostSize(12, 48))
    assert (caps.vms, caps.cpu, caps.memory_gb) == (24, 48, 48)
    assert PoolSettings(max_vms=3).host(HostSize(12, 48)).vms == 3
