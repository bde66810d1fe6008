"""Jobs take parked VMs, which get their disks, shapes and networks, and a new stock is made."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.e2e.daemon import Daemon, Pipeline
from tests.e2e.pipelines import Graph, one
from tests.e2e.stock import await_stock, vms_of
from tests.e2e.traces import traces
from tests.host_server import greeter, own_address
from tests.waiting import until

STOCK = min(2, os.cpu_count() or 1)
BURST = 12


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {
        "CI_DAEMON_POOL_PARKED": str(STOCK),
        "CI_DAEMON_POOL_MAX_VMS": "6",
        "CI_DAEMON_POOL_MAX_CPU": "100",
        "CI_DAEMON_POOL_MAX_MEMORY_GB": "100",
        "CI_DAEMON_SANDBOX_NETWORK_ALLOW": f"{own_address()}/32",
    }


@pytest.fixture
def port() -> Iterator[int]:
    """A port of this host that sends a line to each connection."""
    with greeter(own_address()) as port:
        yield port


@pytest.mark.parametrize(
    ("options", "seen"),
    [({}, "eth0 lo\nhello\n"), ({"runner_args": {"network": "off"}}, "lo\nunreachable\n")],
    ids=["on", "off"],
)
def test_a_parked_vm_gets_the_network_of_its_job(
    daemon: Daemon, pipeline: Pipeline, port: int, options: dict[str, object], seen: str
):
    waiting = await_stock(daemon, STOCK)
    look = f"""
        echo $(sed -n "s/^ *\\([a-z0-9]*\\):.*/\\1/p" /proc/net/dev | sort)
        timeout 5 cat </dev/tcp/{own_address()}/{port} || echo unreachable
    """
    build = pipeline.build(one(f"exec 2>/dev/null; {look}", **options))
    assert build.finish()["state"] == "passed"
    assert build.log() == seen
    assert vms_of(daemon, build) <= waiting


def test_parked_vms_take_any_shape_image_and_snapshot(daemon: Daemon, pipeline: Pipeline):
    waiting = await_stock(daemon, STOCK)
    small = pipeline.build(one("ulimit -f", runner_args={"memory_gb": 1, "disk_gb": 3}))
    assert small.finish()["state"] == "passed"
    assert small.log() == f"{3 * 2**20}\n"
    assert vms_of(daemon, small) <= waiting
    waiting = await_stock(daemon, STOCK)
    graph = Graph().step("parent", "echo made >file").step("child", "cat file", builds_in="parent")
    build = pipeline.build(graph.ir())
    assert build.finish()["state"] == "passed"
    assert build.log("child") == "made\n"
    assert vms_of(daemon, build) & waiting


def test_a_burst_larger_than_the_stock_is_served_at_once(daemon: Daemon, pipeline: Pipeline):
    waiting = await_stock(daemon, STOCK)
    graph = Graph()
    for number in range(BURST):
        graph.step(f"job-{number}", f"echo {number}")
    build = pipeline.build(graph.ir())
    assert build.finish()["state"] == "passed"
    assert {key: (job["attempt"], build.log(key)) for key, job in build.jobs().items()} == {
        f"job-{number}": (1, f"{number}\n") for number in range(BURST)
    }
    used = vms_of(daemon, build)
    assert len(used) == BURST
    assert waiting <= used
    stock = await_stock(daemon, STOCK)
    until(lambda: traces(daemon.state).keys() == stock, "nothing but the new stock")
