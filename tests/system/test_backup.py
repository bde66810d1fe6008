"""Moving a service: backed up on one machine during a build, restored and installed on another.

Each test continues where the one before ended.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.e2e.daemon import FINAL
from tests.system.machine import Machine
from tests.system.service import Build, Service
from tests.waiting import until

STATE, FILE = "/var/lib/ci-daemon", "/srv/ci-daemon.backup"
RUNNING = "echo begun; sleep 30; echo done"


@dataclass
class Saved:
    """The first machine's state when its backup was taken."""

    passed: Build
    log: list[str]
    running: Build
    balance: int
    setting: str


@pytest.fixture(scope="module")
def other() -> Iterator[Machine]:
    """A machine on which the ids of the first one's service belong to other users."""
    with Machine() as made:
        made.put_checkout("/srv/ci-daemon")
        made.run("useradd --create-home carl; useradd --system mallory")
        yield made


@pytest.fixture(scope="module")
def saved(other: Machine) -> Saved:
    """Take a backup on one machine, copy the file to the other one, and destroy the first."""
    with Machine() as machine:
        service = Service.installed_on(machine)
        passed = service.build("echo kept")
        passed.passes()
        machine.run("sed -i 's/^#parked = .*/parked = 1/' /etc/ci-daemon/ci-daemon.toml")
        running = service.build(RUNNING)
        running.says("begun")
        found = Saved(passed, passed.log(), running, balance(machine), "parked = 1")
        machine.run(f"ci-daemon backup {FILE}")
        shutil.copy(machine.root / FILE[1:], other.root / FILE[1:])
    return found


def balance(machine: Machine, command: str = "ci-daemon") -> int:
    cents: int = json.loads(machine.run(f"{command} --json org list").stdout)[0]["balance_cents"]
    return cents


def test_a_program_from_pip_restores_before_the_installation(other: Machine, saved: Saved):
    other.run("python3 -m venv /root/venv && /root/venv/bin/pip install --quiet /srv/ci-daemon", seconds=300)
    done = other.run(f"/root/venv/bin/ci-daemon restore {FILE}")
    assert "1 unfinished build to continue" in done.stdout
    assert done.stdout.endswith("next: `sudo ci-daemon install`, which gives it to the service and starts that\n")
    assert balance(other, "/root/venv/bin/ci-daemon") == saved.balance
    assert saved.setting in other.run(f"cat {STATE}/ci-daemon.toml.from-backup").stdout.splitlines()


@pytest.fixture(scope="module")
def moved(other: Machine, saved: Saved) -> Service:
    """The service on the other machine; the backup has its owner, so the installation asks for none."""
    installed: dict[str, Any] = json.loads(other.run("/root/venv/bin/ci-daemon install --json", seconds=900).stdout)
    assert installed["owner"] is None
    return replace(saved.running.service, machine=other, url=installed["url"])


def test_all_of_it_is_the_services_there(other: Machine, moved: Service):
    assert other.run("systemctl is-active ci-daemon").stdout.strip() == "active"
    assert other.run(f"stat -c '%U %G %a' {STATE} {STATE}/secret.key").stdout.splitlines() == [
        "ci-daemon ci-daemon 700",
        "ci-daemon ci-daemon 600",
    ]
    assert not other.run(f"find {STATE} -user root; find {STATE} -nouser -path '*/logs/*'").stdout
    assert moved.answers()


def test_ended_builds_are_restored_and_running_ones_retried(moved: Service, saved: Saved):
    assert replace(saved.passed, service=moved).log() == saved.log
    running = replace(saved.running, service=moved)
    until(lambda: running.state() in FINAL, "the end of the build that ran", 180)
    assert (running.state(), running.job()["attempt"]) == ("passed", 2)
    assert running.log()[-2:] == ["begun", "done"]


def test_it_builds_on(other: Machine, moved: Service):
    moved.build("true").passes()
    other.run("ci-daemon ledger verify")
