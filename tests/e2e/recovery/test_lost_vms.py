"""The daemon is killed and VMs die while it is down: the next one checks every lease."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from storage import Storage, SystemClock
from tests.e2e.daemon import Build, Client, Daemon, Pipeline
from tests.e2e.pipelines import Graph, one
from tests.waiting import until

SLOW = "for i in $(seq 1 80); do echo line $i; sleep 0.1; done"
LOST = f"test $CI_ATTEMPT = 2 || {{ echo line 2; sleep 600; }}; {SLOW}"
LINES = "".join(f"line {number}\n" for number in range(1, 81))


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {
        "CI_DAEMON_POOL_PARKED": "1",
        "CI_DAEMON_POOL_MAX_VMS": "5",
        "CI_DAEMON_POOL_MAX_CPU": "100",
        "CI_DAEMON_POOL_MAX_VMS_PER_ORGANIZATION": "3",
        "CI_DAEMON_JOBS_SERVICE_RETRIES": "1",
    }


def leases(daemon: Daemon) -> dict[str | None, Any]:
    """Return the live leases by job id; None is the key of a parked VM, if it is ready."""
    live = daemon.json("lease", "list")
    return {lease["job_id"]: lease for lease in live if lease["job_id"] or lease["state"] == "parked"}


def end_vm(daemon: Daemon, lease: Any) -> None:
    """Kill a VM's init from outside, and remove nothing."""
    locks = daemon.state / "sandbox" / "vms" / lease["id"] / "lock"
    monitor = int(locks.read_text().splitlines()[-1].split()[0])
    inits = [pid for pid in _children(monitor) if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"init")]
    (init,) = inits
    os.kill(init, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{monitor}").exists(), "the VM's end")


def granted_at(daemon: Daemon, build: Build) -> datetime:
    """Return when the job of a build got its VM: jobs that get theirs at once may start in another order."""
    (record,) = build.jobs().values()
    with closing(Storage.open(daemon.state, SystemClock())) as storage:
        job = storage.jobs.by_uuid(record["id"])
        assert job is not None
        (attempt,) = storage.attempts.of_job(job.id)
    return attempt.created_at


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_every_lease_is_checked_when_the_daemon_starts(daemon: Daemon, pipeline: Pipeline, client: Client):
    graph = Graph().step("kept", SLOW).step("lost", LOST).step("lost-again", "sleep 600")
    running = pipeline.build(graph.step("after", "echo end", after=("kept", "lost")).ir())
    for key in ("kept", "lost"):
        running.says("line 2", key)
    running.job("lost-again", "running")
    queued = [pipeline.build(one(f"echo {number}")) for number in range(3)]
    until(lambda: None in leases(daemon), "a parked VM")
    ids = {key: job["id"] for key, job in running.jobs().items()}
    daemon.kill()
    held = leases(daemon)
    for lease in (held[None], held[ids["lost"]], held[ids["lost-again"]]):
        end_vm(daemon, lease)
    daemon.start()

    assert held[None]["id"] not in daemon.vms()
    until(lambda: running.jobs()["lost-again"]["attempt"] == 2, "the second attempt")
    running.job("lost-again", "running")
    end_vm(daemon, leases(daemon)[ids["lost-again"]])
    assert running.finish()["state"] == "failed"
    jobs = running.jobs()
    assert {key: (job["state"], job["attempt"], job["error_code"]) for key, job in jobs.items()} == {
        "kept": ("passed", 1, None),
        "lost": ("passed", 2, None),
        "lost-again": ("failed", 2, "vm_lost"),
        "after": ("passed", 1, None),
    }
    assert running.log("kept") == LINES
    assert running.log("lost").endswith(LINES)
    assert running.log("lost").count("attempt 2") == 1
    ended = [build.finish() for build in queued]
    assert [build.log() for build in queued] == ["0\n", "1\n", "2\n"]
    assert [record["state"] for record in ended] == ["passed"] * 3
    granted = [granted_at(daemon, build) for build in queued]
    assert granted == sorted(granted)
    entries = client.get(f"/api/v0/billing/transactions/{client.org}")["data"]
    assert [entry["source"] for entry in entries].count("vm_lease_debit") == 7


def test_nothing_is_left_of_the_vms_that_died(daemon: Daemon):
    def tidy() -> bool:
        live = set(daemon.vms())
        there = {path.name for path in (daemon.state / "sandbox" / "vms").iterdir()}
        disks = {path.name for path in (daemon.state / "sandbox" / "trees" / "disks").iterdir()}
        return there == disks == live

    until(tidy, "nothing but live leases")
