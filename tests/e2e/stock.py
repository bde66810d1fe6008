"""The parked VMs of a daemon, and those that jobs had."""

from __future__ import annotations

from tests.e2e.daemon import Build, Daemon
from tests.state import run_sql
from tests.waiting import until


def await_stock(daemon: Daemon, size: int) -> set[str]:
    """Wait until so many VMs are parked and there are no others; return them.

    VMs are parked when the CPU is idle, so that this asks no command.
    """

    def look() -> list[set[str]]:
        leases = run_sql(daemon.state, "SELECT uuid, state FROM leases WHERE state <> 'ended'")
        full = [state for _, state in leases] == ["parked"] * size
        return [{uuid for uuid, _ in leases}] if full else []

    return until(look, f"a stock of {size} parked VMs")[0]


def vms_of(daemon: Daemon, build: Build) -> set[str]:
    """Return the VMs that the jobs of a build had."""
    jobs = {job["id"] for job in build.jobs().values()}
    rows = run_sql(daemon.state, "SELECT jobs.uuid, leases.uuid FROM leases JOIN jobs ON jobs.id = leases.job_id")
    return {vm for job, vm in rows if job in jobs}
