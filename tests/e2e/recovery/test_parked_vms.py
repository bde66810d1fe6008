"""Parked VMs outlive their daemon: the next one uses or destroys them, and none is left behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

import httpx
import pytest

from actors.vms.host.vm_folder import VmFolder
from tests.crash.kills import kill_part
from tests.e2e.crashes import await_crash, start_to_crash
from tests.e2e.daemon import Build, Daemon, Pipeline
from tests.e2e.pipelines import one
from tests.e2e.stock import await_stock, vms_of
from tests.e2e.traces import traces
from tests.waiting import until

STOCK = min(2, os.cpu_count() or 1)


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"CI_DAEMON_POOL_PARKED": str(STOCK), "CI_DAEMON_POOL_MAX_VMS": "4", "CI_DAEMON_POOL_MAX_CPU": "100"}


@pytest.fixture(autouse=True)
def _it_serves_again(daemon: Daemon) -> Iterator[None]:
    yield
    if not daemon.running:
        daemon.start()


def nothing_else_is_left(daemon: Daemon, stock: set[str]) -> None:
    until(lambda: traces(daemon.state).keys() == stock, f"nothing but {stock}")


@pytest.mark.parametrize("end", [Daemon.kill, Daemon.stop], ids=["kill -9", "SIGTERM"])
def test_the_next_daemon_uses_the_parked_vms(daemon: Daemon, pipeline: Pipeline, end: Callable[[Daemon], object]):
    waiting = await_stock(daemon, STOCK)
    end(daemon)
    assert traces(daemon.state).keys() == waiting
    daemon.start()
    builds = [pipeline.build(one("echo ran")) for _ in waiting]
    assert [build.finish()["state"] for build in builds] == ["passed"] * len(builds)
    assert [build.log() for build in builds] == ["ran\n"] * len(builds)
    assert waiting <= set.union(*(vms_of(daemon, build) for build in builds))
    nothing_else_is_left(daemon, await_stock(daemon, STOCK))


def test_a_smaller_stock_after_a_restart_is_reached(daemon: Daemon):
    await_stock(daemon, STOCK)
    daemon.stop()
    daemon.start(CI_DAEMON_POOL_PARKED="0")
    await_stock(daemon, 0)
    nothing_else_is_left(daemon, set())
    daemon.stop()
    daemon.start()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "point",
    ["leases.reserve_parked", "provider.park", "launch.ready", "launch.greeting", "connections.add", "leases.parked"],
)
def test_a_crash_while_parking_leaves_no_vm(daemon: Daemon, pipeline: Pipeline, point: str, when: str):
    await_stock(daemon, STOCK)
    daemon.stop()
    daemon.end_vms()
    daemon.spawn("tests.crash.fault_injection", CRASH_POINT=point, CRASH_WHEN=when, CRASH_CALL="1")
    await_crash(daemon)
    daemon.start()
    nothing_else_is_left(daemon, await_stock(daemon, STOCK))
    build = pipeline.build(one("echo ran"))
    assert build.finish()["state"] == "passed"
    assert (build.log(), build.jobs()["only"]["attempt"]) == ("ran\n", 1)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("point", ["leases.assign", "provider.attach", "limits.make_groups", "launch.ready"])
def test_a_crash_while_attaching_loses_no_attempt(daemon: Daemon, pipeline: Pipeline, point: str, when: str):
    await_stock(daemon, STOCK)
    daemon.stop()
    start_to_crash(daemon, point, when)
    with suppress(httpx.TransportError):  # the daemon may die before it answers
        pipeline.build(one("echo ran"))
    await_crash(daemon)
    daemon.start()
    build = Build(pipeline.client, f"pipelines/{pipeline.slug}/builds/1")
    assert build.finish()["state"] == "passed"
    assert (build.log(), build.jobs()["only"]["attempt"]) == ("ran\n", 1)
    nothing_else_is_left(daemon, await_stock(daemon, STOCK))


@pytest.mark.parametrize("part", ["monitor", "init", "sshd", "network"])
def test_jobs_pass_though_their_parked_vms_were_hurt(daemon: Daemon, pipeline: Pipeline, part: str):
    """Behind the daemon's back, before the reaper looks for them."""
    hurt = [VmFolder(daemon.state / "sandbox" / "vms" / vm) for vm in await_stock(daemon, STOCK)]
    for vm in hurt:
        assert kill_part(vm, part, Random(0))
    if part != "sshd":  # all of the VM ends with it
        until(lambda: not any(vm.alive for vm in hurt), "the VMs' end")
    builds = [pipeline.build(one("echo ran")) for _ in hurt]
    assert [build.finish()["state"] for build in builds] == ["passed"] * len(builds)
    assert [(build.log(), build.jobs()["only"]["attempt"]) for build in builds] == [("ran\n", 1)] * len(builds)
    nothing_else_is_left(daemon, await_stock(daemon, STOCK))
