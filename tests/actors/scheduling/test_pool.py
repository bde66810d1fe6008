from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from actors.cleanup.reaper import Reaper
from actors.messages import Reschedule
from actors.settings import Timings
from actors.vms import Images, Provider
from storage import Build, JobState, Lease, Outcome, VerifiedEvent
from tests.actors.conftest import Host
from tests.e2e.pipelines import Graph, one
from tests.records import assigned
from tests.state import run_sql
from tests.waiting import until

LONG = "sleep 600"
HostOf = Callable[..., Host]


@pytest.fixture
def host_of(tmp_path: Path, provider: Provider, images: Images) -> Iterator[HostOf]:
    """Make a host with settings for its pool; its engine is not started."""
    with ExitStack() as opened:
        yield lambda **pool: opened.enter_context(closing(Host(tmp_path, provider, images, **pool)))


def many(number: int, cmd: str = LONG) -> str:
    graph = Graph()
    for each in range(number):
        graph.step(f"job-{each}", cmd)
    return graph.ir()


def leases(host: Host, number: int) -> list[Lease]:
    """Wait for a number of leases of jobs, live or ended; return them in the order of their grants."""

    def look() -> list[Lease] | None:
        made = [host.storage.leases.get(lease_id) for lease_id in range(1, number + 1)]
        found = [lease for lease in made if lease is not None and lease.job_id is not None]
        return found if len(found) == number else None

    return until(look, f"{number} leases")


def waits(host: Host, build: Build, why: str, key: str = "only") -> None:
    until(lambda: host.engine.pending_reason(host.job(build, key)) == f"waiting for a VM: {why}", why)


def test_an_organization_with_1_job_comes_before_one_with_1000(host_of: HostOf):
    host = host_of(max_vms=2)
    host.engine.start()
    full = host.build(many(999))
    first, _ = leases(host, 2)
    until(lambda: host.job(full, "job-0").state is JobState.RUNNING, "running")
    assert first.job_id == host.job(full, "job-0").id
    build = host.build(one("true"), host.other_pipeline())
    host.provider.destroy(first.uuid)
    assert host.finish(build).state == "passed"
    assert leases(host, 3)[2].organization_id == build.organization_id


def test_vms_that_are_free_at_once_go_to_organizations_in_turns(host_of: HostOf):
    host = host_of(max_vms=4)
    builds = [host.build(many(10)), host.build(many(10), host.other_pipeline())]
    host.engine.start()
    ours, theirs = (build.organization_id for build in builds)
    assert [lease.organization_id for lease in leases(host, 4)] == [ours, theirs, ours, theirs]


def test_who_weighs_more_gets_more(host_of: HostOf):
    host = host_of(max_vms=4)
    host.build(many(10))
    heavy = host.build(many(10), host.other_pipeline())
    host.storage.organizations.configure(heavy.organization_id, weight=3)
    host.engine.start()
    assert sum(lease.organization_id == heavy.organization_id for lease in leases(host, 4)) == 3


def test_a_pull_request_gets_its_vm_before_a_flood_of_schedules(host_of: HostOf):
    host = host_of(max_vms=1)
    flood = [host.insert(one("true"), verified_event=VerifiedEvent.SCHEDULE) for _ in range(100)]
    build = host.insert(one("true"), verified_event=VerifiedEvent.PULL_REQUEST)
    host.engine.start()
    assert [lease.job_id for lease in leases(host, 2)] == [host.job(build).id, host.job(flood[0]).id]


def test_builds_come_to_a_full_host_without_a_look_for_each(host_of: HostOf, monkeypatch: pytest.MonkeyPatch):
    """The pool looks at its queue soon, once for all of them; what they need is found all the same."""
    host = host_of(max_vms=1)
    host.engine.start()
    running = host.build(one(LONG))
    until(lambda: host.job(running, "only").state is JobState.RUNNING, "running")
    looks: list[object] = []
    oldest = host.storage.queue.oldest
    monkeypatch.setattr(host.storage.queue, "oldest", lambda: looks.append(None) or oldest())
    began = host.clock.monotonic()
    waiting = [host.build(one("true")) for _ in range(50)]
    until(lambda: looks, "a look at the queue")
    host.engine.addresses.pool.ask(Reschedule())
    assert len(looks) <= 2 + (host.clock.monotonic() - began) * 12  # ten a second, and one for each second's poll
    host.engine.cancel(running.id)
    assert host.finish(waiting[-1]).state == "passed"


def test_what_was_used_before_a_restart_is_remembered(host_of: HostOf):
    host = host_of(max_vms=1)
    host.engine.start()
    host.finish(host.build(one("sleep 0.2")))
    until(lambda: not host.storage.leases.live(), "the lease ended")
    host.engine.stop()
    host.build(one(LONG))
    host.build(one(LONG), other := host.other_pipeline())
    host.restart()
    assert leases(host, 2)[1].organization_id == other.organization_id


def test_an_organization_at_its_cap_does_not_stop_others(host_of: HostOf):
    host = host_of(max_vms_per_organization=1)
    host.engine.start()
    host.build(one(LONG))
    second = host.build(one(LONG))
    waits(host, second, "its organization has all 1 VMs that it may have")
    assert host.finish(host.build(one("true"), host.other_pipeline())).state == "passed"
    assert host.job(second).attempt == 0


def test_a_job_larger_than_its_organizations_cap_runs_alone(host_of: HostOf):
    host = host_of(max_cpu_per_organization=1)
    host.engine.start()
    held, waiting = host.build(one(LONG)), host.build(one("true"))
    host.says(held, b"", "only")
    waits(host, waiting, "its organization has 2 of 1 vCPUs, it needs 2")
    host.engine.cancel(held.id)
    assert host.finish(waiting).state == "passed"


def test_jobs_over_the_hosts_caps_wait_with_a_reason(host_of: HostOf):
    host = host_of(max_memory_gb=5)
    host.engine.start()
    held, following, last = (host.build(one(LONG)) for _ in range(3))
    waits(host, following, "4 of 5 GB of memory are taken, it needs 4")
    waits(host, last, "4 of 5 GB of memory are taken, the job before it needs 4")
    for build in (last, following, held):
        host.engine.cancel(build.id)


def test_a_job_without_a_vm_in_time_ends_with_the_reason(host_of: HostOf):
    host = host_of(max_vms=1, queue_timeout=1)
    host.engine.start()
    held = host.build(one(LONG))
    host.says(held, b"")
    waiting = host.build(Graph().step("only", "true").step("next", "true", after=("only",)).ir())
    assert host.finish(waiting).state == "failed"
    job = host.job(waiting)
    assert (job.state, job.error_code, job.attempt) == (JobState.TIMED_OUT, "lease_failed", 0)
    assert job.error_message == ("no VM within 1 s: waiting for a VM: host is full (1 of 1)")
    assert host.job(waiting, "next").state is JobState.SKIPPED
    assert host.storage.builds.get(held.id).state == "running"  # type: ignore[union-attr] # it exists


def test_a_job_that_may_fail_may_also_get_no_vm_in_time(host_of: HostOf):
    host = host_of(max_vms=1, queue_timeout=1)
    host.engine.start()
    host.says(host.build(one(LONG)), b"")
    waiting = host.build(one("true", runner_args={"soft_fail": True}))
    assert host.finish(waiting).state == "passed"
    assert (host.job(waiting).state, host.job(waiting).soft_failed) == (JobState.TIMED_OUT, True)


def test_time_without_a_service_is_no_waiting(host_of: HostOf):
    host = host_of(max_vms=1, queue_timeout=60)
    build = host.build(many(2, "true"))
    run_sql(host.storage.directory, "UPDATE jobs SET queued_at = queued_at - 3600000000")
    host.engine.start()
    assert host.finish(build).state == "passed"


def test_a_job_in_back_off_says_so_and_is_granted_after_it(host_of: HostOf):
    host = host_of()
    build = host.build(one("true"))
    job = host.job(build)
    lease = assigned(host.storage, job, image="debian:12")
    host.storage.leases.start(lease.id, job.id)
    assert host.storage.jobs.retry(
        job.id, JobState.RUNNING, Outcome(exit_code=1), lease_id=lease.id, billable=True, backoff_seconds=2
    )
    host.storage.leases.end(lease.id)
    host.engine.start()
    assert host.engine.pending_reason(host.job(build)) == "waiting 2 s before attempt 2"
    not_before = host.job(build).not_before
    assert host.finish(build).state == "passed"
    second = leases(host, 2)[1]
    assert not_before is not None
    assert not_before <= second.created_at


def test_a_drained_host_starts_nothing_until_resume(host_of: HostOf):
    """A restart does not change that."""
    host = host_of(parked=1)
    host.engine.start()
    running = host.build(one(LONG))
    until(lambda: host.job(running).state is JobState.RUNNING, "running")
    host.drain()
    build = host.build(one("true"))
    waits(host, build, "the owner has drained this host")
    assert not host.engine.draining
    host.restart()
    waits(host, build, "the owner has drained this host")
    assert host.job(running).state is JobState.RUNNING
    assert host.job(build).attempt == 0
    host.storage.switches.resume()
    assert host.finish(build).state == "passed"
    host.engine.cancel(running.id)


def test_drain_and_resume_are_noticed_without_another_event(host_of: HostOf):
    host = host_of()
    host.storage.switches.drain()
    host.engine.start()
    build = host.build(one("true"))
    waits(host, build, "the owner has drained this host")
    host.storage.switches.resume()
    assert host.finish(build).state == "passed"


def test_a_full_disk_blocks_jobs_until_space_is_freed(host_of: HostOf, monkeypatch: pytest.MonkeyPatch):
    """The service frees space, and the jobs start by themselves."""
    real, free, made = shutil.disk_usage, [2 * 2**30], []

    def usage(path: Any) -> Any:
        return real(path)._replace(free=free[0])

    monkeypatch.setattr("actors.scheduling.pending_reason.shutil.disk_usage", usage)
    monkeypatch.setattr(Reaper, "free_disk_space", lambda _, lacking: made.append(lacking))
    host = host_of(parked=1, low_disk_gb=5.0, timings=Timings(disk=0.05))
    host.engine.start()
    build = host.build(one("true"))
    waits(host, build, "the host's disk has 2.0 GB left, below 5 GB nothing starts")
    until(lambda: len(made) > 1, "room asked for again")
    assert set(made) == {3 * 2**30}
    assert host.storage.leases.live() == []
    free[0] = 6 * 2**30
    assert host.finish(build).state == "passed"
