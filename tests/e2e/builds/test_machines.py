"""Machines beside sandboxes in one daemon: the host's choices, one cap, and a daemon that is killed."""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path

import pytest

from tests.actors.vms.qemu.machines import qemu_of
from tests.e2e.daemon import Client, Daemon, Pipeline
from tests.e2e.pipelines import one
from tests.machines import share_image_disks, unpacked_kernel
from tests.waiting import until

_numbers = itertools.count(1)

SECONDS = 300.0
"""The time for a machine that is emulated on a busy host to boot and run a job."""

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SHAPE = {"cpu": 2, "memory_gb": 2, "disk_gb": 3}
LOOK = f"""\
cat {BOOT_ID}; nproc; free -k | awk '/^Mem:/ {{ print $2 }}'
df -k --output=size / | tail -1"""
FULL = "waiting for a VM: host is full (2 of 2)"
KB_OF_GB = 1 << 20

LIVES_ON = f"{LOOK}; echo up; until [ -e /tmp/seen ]; do sleep 0.5; done; echo went on"


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {
        "CI_DAEMON_POOL_PARKED": "0",
        "CI_DAEMON_POOL_MAX_VMS": "2",
        "CI_DAEMON_POOL_MAX_CPU": "100",
        "CI_DAEMON_POOL_MAX_MEMORY_GB": "100",
        "CI_DAEMON_QEMU_SYSTEM": str(unpacked_kernel()),
        "CI_DAEMON_SANDBOX_CREATE_SECONDS": str(SECONDS),
    }


@pytest.fixture
def machines(daemon: Daemon) -> Client:
    """A user whose organization has machines, while all others have sandboxes."""
    share_image_disks(daemon.state / "qemu")
    client = Client.create(daemon, f"machines{next(_numbers)}@example.org")
    daemon.command("org", "set", client.org, "--provider", "qemu")
    return client


def providers(client: Client) -> list[str]:
    """Return what has made each VM that an organization is billed for."""
    window = {"from": "2000-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}
    builds = client.get(f"/api/v0/billing/usage/{client.org}/breakdown", params=window)["data"]
    return [job["provider"] for build in builds for job in build["jobs"]]


@pytest.mark.timeout(1800)
def test_machines_beside_sandboxes_share_a_cap_and_live_on(daemon: Daemon, pipeline: Pipeline, machines: Client):
    """A machine has its own kernel and the shape that was asked for, and the bill says what it was."""
    sandbox, machine = pipeline.build(one("sleep 600")), machines.pipeline().build(one(LIVES_ON, runner_args=SHAPE))
    for build in (sandbox, machine):
        build.job("only", "running", SECONDS)
    waiting = pipeline.build(one("true"))
    until(lambda: waiting.jobs()["only"]["pending_reason"] == FULL, "the third to wait")
    assert sorted(lease["provider"] for lease in daemon.json("lease", "list")) == ["qemu", "sandbox"]
    machine.says("up\n", seconds=SECONDS)
    kernel, cpus, memory_kb, disk_kb, _ = machine.log().split()
    assert kernel != BOOT_ID.read_text().strip()
    assert cpus == "2"
    assert 1.8 < int(memory_kb) / KB_OF_GB < 2
    assert 2.7 < int(disk_kb) / KB_OF_GB < 3

    daemon.kill()
    daemon.start()
    daemon.command("debug", f"{machines.org}/demo/1", "--", "touch", "/tmp/seen")
    assert machine.finish(SECONDS)["state"] == "passed"
    assert machine.log().endswith("up\nwent on\n")
    assert waiting.finish()["state"] == "passed"
    assert sandbox.cancel()["state"] in {"canceling", "canceled"}
    assert {client.org: providers(client) for client in (pipeline.client, machines)} == {
        pipeline.client.org: ["sandbox", "sandbox"],
        machines.org: ["qemu"],
    }


@pytest.mark.timeout(1800)
def test_a_machine_that_does_not_answer_ends_with_its_jobs_time(daemon: Daemon, machines: Client):
    """Its guest keeps no time any more, so the service does, and destroys it."""
    build = machines.pipeline().build(one("echo up; sleep 600", timeout_seconds=5))
    build.says("up\n", seconds=SECONDS)
    (lease,) = daemon.json("lease", "list")
    os.kill(int(qemu_of(daemon.state / "qemu", lease["id"]).name), signal.SIGSTOP)
    assert build.finish(SECONDS)["state"] == "failed"
    assert [job["error_code"] for job in build.jobs().values()] == ["step_timeout"]
    daemon.wait_until_idle()
