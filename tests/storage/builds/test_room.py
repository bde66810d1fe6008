"""Bounds of the builds of an organization that have not ended, and of their sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage import Build, BuildSettings, BuildState, NewBuild, Storage, TooManyBuilds
from tests.clock import ManualClock
from tests.records import new_pipeline
from tests.state import new_storage


class Rooms:
    """A storage whose organizations may have three builds that have not ended, with 1 MiB of sources."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.room = storage.build_room
        self.room.settings = BuildSettings(max_unfinished=3, max_source_gb=1 / 1024)
        self.acme, self.other = new_pipeline(storage), new_pipeline(storage, "Other", "bea@example.org")

    def build(self, **fields: Any) -> Build:
        return self.storage.builds.create_unplanned(self.acme, NewBuild("main", "c0ffee", **fields))

    def end(self, build: Build) -> None:
        self.storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.PASSED)

    def lack(self, *, from_fork: bool = False) -> str:
        """Return why there is no room for a build; nothing if there is."""
        self.room.require(self.other.organization_id)
        try:
            self.room.require(self.acme.organization_id, from_fork=from_fork)
        except TooManyBuilds as error:
            return str(error)
        return ""


@pytest.fixture
def rooms(tmp_path: Path) -> Iterator[Rooms]:
    storage = new_storage(tmp_path, ManualClock())
    yield Rooms(storage)
    storage.close()


def test_builds_are_counted_until_they_end(rooms: Rooms):
    builds = [rooms.build() for _ in range(2)]
    assert rooms.lack() == ""
    builds.append(rooms.build())
    assert rooms.lack() == "3 builds of the organization have not ended, of 3 at most"
    rooms.end(builds[1])
    assert rooms.lack() == ""


def test_sources_are_counted_until_their_builds_end(rooms: Rooms):
    first = rooms.build(source_archive=b"-" * 2**20)
    assert rooms.lack() == (
        "the sources of builds of the organization that have not ended take 0.0 GB, of 0.000976562 GB at most"
    )
    assert not rooms.room.has_source_room(rooms.acme.organization_id)
    rooms.end(first)
    assert rooms.lack() == ""
    assert rooms.room.has_source_room(rooms.acme.organization_id)


def test_a_source_that_builds_share_counts_once(rooms: Rooms):
    first = rooms.build(source_archive=b"-" * (2**20 - 1))
    rooms.build(source_of=first.uuid)
    assert rooms.lack() == ""


def test_builds_from_forks_leave_half_to_others(rooms: Rooms):
    rooms.room.settings = BuildSettings(max_unfinished=4, max_source_gb=1 / 1024)
    rooms.build(from_fork=True)
    assert rooms.lack(from_fork=True) == ""
    rooms.build(from_fork=True)
    assert (
        rooms.lack(from_fork=True)
        == "2 builds of pull requests from forks of the organization have not ended, of 2 at most"
    )
    assert rooms.lack() == ""
