"""The repository watcher: when a repository is checked again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pykka
import pytest

from actors import JobSettings, PoolSettings
from actors.addresses import Address
from actors.messages import PollStorage, RepositoryWatcherMessage
from actors.parts import Parts
from actors.repositories.watcher import RepositoryWatcher
from actors.settings import LiveSettings
from actors.source_hosts import PlainGit
from actors.supervision import doing, spawn
from storage import SystemClock
from tests.actors.conftest import settings_with
from tests.actors.repositories.world import World
from tests.waiting import until


class Watched:
    """A watcher of one repository, whose rests end only while the timer runs."""

    def __init__(self, world: World) -> None:
        self.world = world
        parts = Parts(
            storage=world.storage,
            clock=SystemClock(),
            live_settings=LiveSettings(settings_with(PoolSettings(), JobSettings())),
        )
        self.timer = parts.timer
        self.address: Address[RepositoryWatcherMessage] = spawn(
            RepositoryWatcher, parts, pushes=lambda: self.world.pushes, hosts={"git": PlainGit(self.world.storage)}
        )

    def hasten(self) -> None:
        """Make the repository due, as a delivery does, and tell the watcher."""
        self.world.storage.repository_checks.hasten(self.world.repository.id)
        self.address.ask(PollStorage())

    def is_due(self) -> bool:
        return bool(self.world.storage.repository_checks.due(1))

    def is_idle(self) -> bool:
        """Tell whether no check is under way, or about to be."""
        self.address.ask(PollStorage())
        (watcher,) = pykka.ActorRegistry.get_by_class(RepositoryWatcher)
        return doing(watcher) == "no worker is under way"

    def checked(self) -> None:
        """Check the repository to the end."""
        self.hasten()
        until(lambda: not self.is_due() and self.is_idle(), "the check")

    def push(self) -> None:
        """Push what is not to be built."""
        self.world.remote.commit("Change [skip ci]")
        self.world.remote.push("main")


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(World(tmp_path))
    yield watched
    watched.address.stop()
    watched.world.storage.close()


@pytest.fixture
def timer(watched: Watched) -> Iterator[None]:
    """Let rests end."""
    watched.timer.start()
    yield
    watched.timer.stop()


def test_a_repository_where_nothing_moved_rests(watched: Watched):
    watched.checked()
    watched.hasten()

    assert watched.is_idle()
    assert watched.is_due()


@pytest.mark.usefixtures("timer")
def test_a_repository_that_has_rested_is_checked(watched: Watched):
    watched.checked()
    watched.hasten()

    until(lambda: not watched.is_due(), "the second check")


def test_a_push_that_follows_another_does_not_wait(watched: Watched):
    watched.world.check()  # the first one, in which nothing is a push
    for _ in range(3):
        watched.push()
        watched.checked()
