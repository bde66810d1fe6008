from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.builds.attempt.log import AttemptLog, LogNotKept
from actors.builds.attempt.vm import Abandoned, VmConnection
from actors.vms import ImageStore, SandboxProvider
from actors.vms.host import IdMap
from storage import Build, NewBuild, Storage, SystemClock
from tests.clock import ManualClock
from tests.records import new_job, new_pipeline
from tests.state import new_storage


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    storage = new_storage(tmp_path / "state", SystemClock())
    yield storage
    storage.close()


@pytest.fixture
def build(storage: Storage) -> Build:
    return storage.builds.create(new_pipeline(storage), NewBuild("main", "c0ffee"), (new_job(),))


@pytest.fixture
def connection(tmp_path: Path) -> VmConnection:
    idmap, clock = IdMap.of_caller(), SystemClock()
    return VmConnection(SandboxProvider(tmp_path, ImageStore(tmp_path, idmap), idmap, clock), clock, "no-vm")


@pytest.fixture
def outputs() -> list[str]:
    return []


@pytest.fixture
def log(storage: Storage, build: Build, connection: VmConnection, outputs: list[str], clock: ManualClock) -> AttemptLog:
    (job,) = storage.jobs.of_build(build.id)
    return AttemptLog(storage, build, job, connection, lambda: outputs.append("output"), clock=clock, patience=60.0)


def _text(storage: Storage, build: Build) -> bytes:
    (job,) = storage.jobs.of_build(build.id)
    reader = storage.logs.reader(build.uuid, job.uuid)
    return reader.read(0, reader.size())


def test_a_notice_is_written_masked_and_announced(storage: Storage, build: Build, log: AttemptLog, outputs: list[str]):
    log.hide(["hunter2-and-a-half"])
    log.notice("the password is hunter2-and-a-half")
    assert b"the password is ***" in _text(storage, build)
    assert log.masked("not hunter2-and-a-half") == "not ***"
    assert outputs == ["output"]


def test_a_closed_log_is_continued_by_the_next_write(storage: Storage, build: Build, log: AttemptLog):
    log.opened().output(b"one\n")
    log.close()
    log.opened().output(b"two\n")
    log.end()
    assert _text(storage, build) == b"one\ntwo\n"


def test_the_end_writes_what_masking_held_back(storage: Storage, build: Build, log: AttemptLog):
    log.hide(["hunter2-and-a-half"])
    log.opened().output(b"hunter2-")
    assert _text(storage, build) == b""
    log.end()
    assert _text(storage, build) == b"hunter2-"


def test_an_abandoned_attempt_opens_its_log_no_more(
    storage: Storage, build: Build, log: AttemptLog, connection: VmConnection
):
    log.opened().output(b"one\n")
    log.close()
    connection.abandon()
    with pytest.raises(Abandoned):
        log.notice("too late")
    assert _text(storage, build) == b"one\n"


def test_only_what_can_change_is_waited_for(log: AttemptLog, connection: VmConnection):
    """A wait ends at once when the attempt is abandoned."""
    with pytest.raises(OSError, match="broken"):
        log.wait_for_room(OSError(errno.EIO, "broken"))
    connection.abandon()
    with pytest.raises(Abandoned):
        log.wait_for_room(OSError(errno.ENOSPC, "full"))


def test_the_wait_for_room_ends_with_the_logs_patience(log: AttemptLog, clock: ManualClock):
    """It begins anew when something was written."""
    full = OSError(errno.ENOSPC, "No space left on device")
    for _ in range(2):
        log.wait_for_room(full)
        clock.advance(59)
        log.wait_for_room(full)
        log.notice("written")
    log.wait_for_room(full)
    clock.advance(60)
    with pytest.raises(LogNotKept, match="could not be kept on the host for 60 s: No space left on device"):
        log.wait_for_room(full)
