from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from actors.scheduling.pending_reason import Admission
from storage import Storage
from tests.clock import ManualClock


@pytest.fixture
def asked() -> list[int]:
    return []


@pytest.fixture
def admission(storage: Storage, clock: ManualClock, asked: list[int]) -> Admission:
    return Admission(storage, clock, asked.append, pause=10.0)


def test_a_drain_and_a_resume_change_it_until_the_next_check(storage: Storage, admission: Admission):
    assert not admission.changed
    storage.switches.drain()
    assert admission.changed
    assert admission.check(0) == "the owner has drained this host"
    assert (admission.drained, admission.changed) == (True, False)
    storage.switches.resume()
    assert admission.changed
    assert admission.check(0) is None
    assert (admission.drained, admission.changed) == (False, False)


def test_a_short_disk_blocks_and_asks_for_room_now_and_then(
    storage: Storage, clock: ManualClock, admission: Admission, asked: list[int]
):
    more_than_there_is = shutil.disk_usage(storage.directory).total / 2**30
    for _ in range(2):
        reason = admission.check(more_than_there_is)
        assert reason is not None
        assert "nothing starts" in reason
    assert len(asked) == 1
    clock.advance(10)
    admission.check(more_than_there_is)
    assert len(asked) == 2
    assert all(lacking > 0 for lacking in asked)


def test_a_draining_service_starts_nothing_and_asks_for_nothing(
    storage: Storage, admission: Admission, asked: list[int]
):
    admission.draining = True
    more_than_there_is = shutil.disk_usage(storage.directory).total / 2**30
    assert admission.check(more_than_there_is) == "the service is draining"
    assert asked == []


def test_a_disk_that_takes_no_files_blocks_and_says_why(admission: Admission, monkeypatch: pytest.MonkeyPatch):
    """No bytes of room are asked for, since they would not help."""
    monkeypatch.setattr("actors.scheduling.pending_reason.why_no_files", lambda _: "the folder /x cannot be written")
    assert admission.check(0) == "the folder /x cannot be written: until then nothing starts"
    monkeypatch.undo()
    assert admission.check(0) is None


def test_good_folders_are_looked_at_once_a_second_bad_ones_often(
    admission: Admission, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    looks: list[Path] = []
    monkeypatch.setattr("actors.scheduling.pending_reason.why_no_files", looks.append)
    assert [admission.check(0) for _ in range(3)] == [None] * 3
    assert len(looks) == 1
    clock.advance(1)
    monkeypatch.setattr("actors.scheduling.pending_reason.why_no_files", lambda _: "the folder /x cannot be written")
    assert admission.check(0) == "the folder /x cannot be written: until then nothing starts"
    monkeypatch.setattr("actors.scheduling.pending_reason.why_no_files", looks.append)
    assert admission.check(0) is None
    assert len(looks) == 2
