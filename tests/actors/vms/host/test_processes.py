"""A process is identified by its id and start time, so that no other process is ever killed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.vms.host.vm_folder import ProcessIdentity
from tests.processes import ended


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with ended(subprocess.Popen(["sleep", "60"])) as process:
        yield process


def started(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def test_a_process_is_killed_and_waited_for(sleeper: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity(sleeper.pid, started(sleeper.pid))
    assert identity.alive
    assert identity.kill(5)
    assert not identity.alive
    assert identity.kill(5)
    assert sleeper.wait(5) == -9


def test_a_later_process_of_the_same_id_is_left_alone(sleeper: subprocess.Popen[bytes]) -> None:
    earlier = ProcessIdentity(sleeper.pid, started(sleeper.pid) - 1)
    assert not earlier.alive
    assert earlier.kill(5)
    assert sleeper.poll() is None


def test_killing_a_missing_process_does_nothing(sleeper: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity(sleeper.pid, started(sleeper.pid))
    sleeper.kill()
    sleeper.wait(5)
    assert not identity.alive
    assert identity.kill(5)


@pytest.mark.parametrize(
    ("line", "parsed"),
    [("12 34\n", ProcessIdentity(12, 34)), ("12 34", None), ("12\n", None), ("", None), ("12 3", None)],
)
def test_a_line_counts_when_it_was_written_to_its_end(line: str, parsed: ProcessIdentity | None) -> None:
    assert ProcessIdentity.parse(line) == parsed
