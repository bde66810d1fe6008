"""Turns of organizations at renders, of which none has all places, and room for their sources."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from actors import JobSettings, PoolSettings
from actors.builds.retrying import wait_reason
from actors.messages import Reschedule
from actors.parts import VmParts
from actors.render import RenderSettings
from actors.render.discovery import Shares
from actors.render.pool import RenderPool
from actors.render.vm import WaitingVm
from actors.settings import LiveSettings
from actors.supervision import spawn
from storage import Build, BuildSettings, BuildState, NewBuild, Pipeline, Render, Storage
from tests.actors.conftest import images_in_memory, settings_with
from tests.clock import ManualClock
from tests.memory.provider import MemoryProvider, only
from tests.records import new_pipeline
from tests.state import new_storage
from tests.waiting import until


class Slow:
    """A rendering that lasts until it is let go."""

    def __init__(self, world: World, render: Render) -> None:
        self.organization_id = render.organization_id
        self._world, self._build_id, self._over = world, render.build_id, threading.Event()

    def run(self) -> None:
        self._world.running[self._build_id] = self
        self._over.wait(60)
        self._world.storage.renders.cancel(self._build_id)
        del self._world.running[self._build_id]

    def abandon(self) -> None:
        self._over.set()


class World:
    """A render pool whose renders last."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.storage: Storage = new_storage(folder / "state", self.clock)
        self.acme = new_pipeline(self.storage)
        self.other = new_pipeline(self.storage, "Other", "bea@example.org")
        self.running: dict[int, Slow] = {}
        settings = settings_with(PoolSettings(low_disk_gb=0), JobSettings())
        live_settings = LiveSettings(replace(settings, render=RenderSettings(vms=3)))
        images = images_in_memory(folder / "images")
        parts = VmParts(
            storage=self.storage,
            clock=self.clock,
            live_settings=live_settings,
            providers=only(MemoryProvider(images)),
            images=images,
        )
        self.timer = parts.timer
        self.pool = spawn(
            RenderPool,
            parts,
            rendering=lambda render: Slow(self, render),  # type: ignore[arg-type] # the pool asks no more of it
            waiting=WaitingVm(parts),
        )

    def ask(self, pipeline: Pipeline, url: str | None = None) -> Build:
        new = NewBuild("main", "0" * 40, source_archive=None if url else b"-")
        return self.storage.renders.begin(pipeline, new, url)

    def begun(self, *builds: Build) -> bool:
        """Make the pool look; tell whether exactly these builds are being rendered."""
        self.pool.ask(Reschedule())
        return set(self.running) == {each.id for each in builds}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.pool.stop()
    for each in tuple(world.running.values()):
        each.abandon()
    until(lambda: not world.running, "the end of the renders")
    world.storage.close()


def test_renders_of_one_organization_leave_a_place_to_others(world: World):
    ours = [world.ask(world.acme) for _ in range(4)]
    until(lambda: world.begun(*ours[:2]), "all but one place taken")
    theirs = world.ask(world.other)
    until(lambda: world.begun(*ours[:2], theirs), "the other organization's render")
    world.running[ours[0].id].abandon()
    until(lambda: world.begun(ours[1], ours[2], theirs), "the next render")


def test_a_source_is_downloaded_when_there_is_room_for_it(world: World):
    world.storage.build_room.settings = BuildSettings(max_source_gb=1 / 1024)
    kept = NewBuild("main", "0" * 40, pipeline_ir="{}", source_archive=b"-" * 2**20)
    large = world.storage.builds.create_unplanned(world.acme, kept)
    by_url, theirs = world.ask(world.acme, "http://192.0.2.1/a.tar.gz"), world.ask(world.other, "http://192.0.2.1/")
    until(lambda: world.begun(theirs), "the other organization's render")
    assert wait_reason(world.storage, by_url) == (
        "waiting for room: the sources of the organization's builds that have not ended take too many GB"
    )
    assert wait_reason(world.storage, theirs) is None
    world.storage.builds.move(large.id, BuildState.SCHEDULED, BuildState.PASSED)
    until(lambda: world.begun(by_url, theirs), "the render that waited")


def test_owners_share_places():
    shares, began = Shares(3, 2), time.monotonic()
    with ExitStack() as held:
        taken = [held.enter_context(shares.one_of(owner, 0.01)) for owner in ("a", "a", "a", "b", "c")]
        assert taken == [True, True, False, True, False]
    with shares.one_of("a", 60) as again:
        assert again
    assert time.monotonic() - began < 10
