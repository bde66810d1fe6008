from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pykka
import pytest

from actors.hub import LogHub, Watch
from actors.messages import Stirred
from actors.runtime import Crew
from actors.timer import Timer
from storage import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def crew() -> Iterator[Crew]:
    crew = Crew()
    crew.hub = LogHub.start(Timer(SystemClock()), crew)
    yield crew
    pykka.ActorRegistry.stop_all()


def stir(crew: Crew, job: str) -> None:
    assert crew.hub is not None
    crew.hub.tell(Stirred(job))


def test_a_change_wakes_every_reader_of_the_job(crew: Crew):
    with Watch(crew, "a") as one, Watch(crew, "a") as other:
        stir(crew, "a")
        assert one.wait(5)
        assert other.wait(5)


def test_a_change_between_the_look_and_the_wait_is_not_missed(crew: Crew):
    with Watch(crew, "a") as watch:
        stir(crew, "a")
        stir(crew, "a")
        assert watch.wait(5)


def test_other_jobs_changes_wake_nobody(crew: Crew):
    with Watch(crew, "a") as watch, Watch(crew, "b") as other:
        stir(crew, "b")
        assert other.wait(5)
        assert not watch.wait(0)


def test_one_change_ends_one_wait(crew: Crew):
    with Watch(crew, "a") as watch:
        stir(crew, "a")
        assert watch.wait(5)
        assert not watch.wait(0)


class StirredAtTheEnd(threading.Event):
    """An event that is set just after a wait for it has timed out."""

    def wait(self, timeout: float | None = None) -> bool:
        told = super().wait(timeout)
        self.set()
        return told


def test_a_change_just_as_a_wait_ends_is_left_for_the_next(crew: Crew, monkeypatch: pytest.MonkeyPatch):
    with Watch(crew, "a") as watch:
        monkeypatch.setattr(watch, "_changed", StirredAtTheEnd())
        assert not watch.wait(0)
        assert watch.wait(0)


def test_the_hub_forgets_readers_that_left(crew: Crew):
    with Watch(crew, "a"):
        pass
    assert crew.hub is not None
    hub = crew.hub._actor_weakref()
    with Watch(crew, "b") as barrier:
        stir(crew, "b")
        assert barrier.wait(5)
        assert set(hub._readers) == {"b"}


def test_a_reader_of_a_hub_that_is_gone_waits_its_time_out(crew: Crew):
    assert crew.hub is not None
    crew.hub.stop()
    with Watch(crew, "a") as watch:
        assert not watch.wait(0.01)
