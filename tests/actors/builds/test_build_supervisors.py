from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pykka
import pytest

from actors.addresses import Address
from actors.builds.build_supervisors import BuildSupervisors
from actors.messages import BuildMessage, CancelBuild, Granted, Idle
from storage import Lease, NewBuild, SystemClock
from tests.records import assigned, new_job, new_pipeline
from tests.state import new_storage

AT_ONCE = 16


class _Supervisor(pykka.ThreadingActor):
    """An actor that handles nothing."""

    def on_receive(self, message: object) -> None: ...


class _Started:
    """Starts supervisors, and remembers the address of each by its build."""

    def __init__(self) -> None:
        self.addresses: dict[int, Address[BuildMessage]] = {}

    def __call__(self, build_id: int) -> Address[BuildMessage]:
        self.addresses[build_id] = Address(_Supervisor.start())
        return self.addresses[build_id]

    def idle(self, build_id: int, received: int, *, finished: bool = False) -> Idle:
        """Return the news that a build's supervisor is idle."""
        urn = self.addresses[build_id].urn
        assert urn is not None
        return Idle(build_id, urn, received, finished)


@pytest.fixture
def started() -> Iterator[_Started]:
    yield _Started()
    pykka.ActorRegistry.stop_all()


@pytest.fixture
def lease(tmp_path: Path) -> Iterator[Lease]:
    storage = new_storage(tmp_path / "state", SystemClock())
    build = storage.builds.create(new_pipeline(storage), NewBuild("main", "c0ffee"), (new_job(),))
    yield assigned(storage, storage.jobs.of_build(build.id)[0])
    storage.close()


def _cancel(build_id: int) -> CancelBuild:
    return CancelBuild(build_id, threading.Event())


def test_a_lease_starts_a_supervisor_past_the_throttle(started: _Started, lease: Lease):
    supervisors = BuildSupervisors(started)
    for build_id in range(AT_ONCE + 2):
        supervisors.send(_cancel(build_id))
    assert len(started.addresses) == AT_ONCE
    assert supervisors.is_waiting(AT_ONCE)

    supervisors.send(Granted(100, lease))

    assert 100 in started.addresses
    assert not supervisors.dismiss(started.idle(0, received=0)), "the cancel is still on its way"
    assert supervisors.dismiss(started.idle(0, received=1))
    assert AT_ONCE in started.addresses
    assert not supervisors.is_waiting(AT_ONCE)


def test_news_of_a_predecessor_dismisses_nothing(started: _Started):
    supervisors = BuildSupervisors(started)
    supervisors.start(1)
    stale = started.idle(1, received=0)
    supervisors.start(1)
    assert not supervisors.dismiss(stale)
    assert supervisors.build_of(stale.urn) is None


def test_a_dismissed_supervisor_is_forgotten_once_it_ended(started: _Started):
    supervisors = BuildSupervisors(started)
    supervisors.start(1)
    idle = started.idle(1, received=0, finished=True)
    assert supervisors.build_of(idle.urn) == 1
    assert supervisors.dismiss(idle)
    assert supervisors.build_of(idle.urn) is None
    assert supervisors.forget_dismissed(idle.urn)
    assert not supervisors.forget_dismissed(idle.urn)


def test_a_supervisor_is_restarted_three_times(started: _Started):
    supervisors = BuildSupervisors(started)
    supervisors.start(1)
    assert [supervisors.restart(1) for _ in range(4)] == [True, True, True, False]


def test_stopping_stops_the_dismissed_ones_too(started: _Started):
    supervisors = BuildSupervisors(started)
    supervisors.start(1)
    supervisors.start(2)
    supervisors.dismiss(started.idle(2, received=0))
    supervisors.stop()
    assert pykka.ActorRegistry.get_all() == []
