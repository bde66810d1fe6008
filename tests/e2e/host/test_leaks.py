"""Jobs leave nothing of theirs on the host, and nothing that grows in the daemon or its zygote.

`make test` runs 40 jobs, `make test-leaks` LEAK_JOBS.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.e2e.daemon import Client, Daemon, Pipeline
from tests.e2e.footprint import footprint, memory, spare_connections
from tests.e2e.pipelines import Graph
from tests.e2e.stock import await_stock
from tests.waiting import until

JOBS = int(os.environ.get("LEAK_JOBS") or 40)
JOBS_OF_BUILD = 20
STOCK = 2
"""The parked VMs that a host with two cores keeps whatever jobs it has had."""

SECONDS = 120.0
IDLE_CONNECTIONS = 8
"""The connections to the database that the daemon keeps for new threads."""

KIB_OF_JOB, KIB_OF_NOISE = 8, 8192
"""The memory that a job may leave once caches and pools are full, and that of the difference of runs.

The allocator's free space grows for thousands of jobs, ever more slowly, by 1 to 4 KiB a job: what is in use does not.
"""


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("temporary")


@pytest.fixture(scope="module")
def daemon_type() -> type[Daemon]:
    """One with memory of its own: what a forked one begins to write to would count as grown."""
    return Daemon


@pytest.fixture(scope="module")
def settings(temporary: Path) -> dict[str, str]:
    return {
        "CI_DAEMON_POOL_PARKED": str(STOCK),
        "CI_DAEMON_POOL_MAX_VMS": "6",
        "CI_DAEMON_POOL_MAX_CPU": "100",
        "CI_DAEMON_POOL_MAX_MEMORY_GB": "100",
        "TMPDIR": str(temporary),
    }


def run(pipeline: Pipeline) -> None:
    """Run a build of jobs of all sorts: with and without network, artifacts, and another job's disk."""
    graph = Graph().step("parent", "echo made >file", runner_args={"artifacts": ["file"]})
    graph.step("child", "cat file", builds_in="parent")
    for number in range(JOBS_OF_BUILD - 2):
        graph.step(f"job-{number}", "true", runner_args={"network": "off"} if number % 2 else {})
    build = pipeline.build(graph.ir())
    assert build.finish()["state"] == "passed"
    assert {job["attempt"] for job in build.jobs().values()} == {1}


def test_jobs_leave_nothing_behind(daemon: Daemon, temporary: Path):
    pipeline = Client.create(daemon, "leaks@example.org", cents=10**9).pipeline()
    for _ in range(2):
        run(pipeline)
    await_stock(daemon, STOCK)
    before, used = footprint(daemon, temporary), [memory(daemon)]
    builds = JOBS // JOBS_OF_BUILD
    for some in (builds // 2, builds - builds // 2):
        for _ in range(some):
            run(pipeline)
        await_stock(daemon, STOCK)
        used.append(memory(daemon))

    def grown() -> dict[str, tuple[int, int]]:
        now = footprint(daemon, temporary)
        return {name: (before.get(name, 0), count) for name, count in now.items() if count > before.get(name, 0)}

    try:
        until(lambda: not grown(), "the end of what the jobs left", SECONDS)
    finally:
        sys.stdout.write(f"before: {before}\nafter {JOBS} jobs, grown: {grown()}\n")
        sys.stdout.write(f"KiB of memory before, after half of the jobs, and after all: {used}\n")
    assert spare_connections(daemon) <= IDLE_CONNECTIONS
    most = KIB_OF_NOISE + KIB_OF_JOB * JOBS / 2
    assert all(used[2][name] - used[1].get(name, 0) < most for name in used[2])
