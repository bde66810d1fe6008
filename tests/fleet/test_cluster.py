"""The service on a cluster of three: lost members, a lost leader and majority, and what returns."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from storage import Storage, SystemClock
from tests.e2e.daemon import Build, Client, Daemon
from tests.e2e.pipelines import Graph, one
from tests.fleet.engine import INCUS
from tests.fleet.fleet import Fleet
from tests.fleet.member import Member
from tests.fleet.prepared_cluster import prepare
from tests.state import new_storage
from tests.waiting import until

pytestmark = pytest.mark.long

_JOBS = 100
_SECOND_TIME = "[ $CI_ATTEMPT -gt 1 ] || sleep 600"
_SECONDS = 400.0
_MEMBER = re.compile(r"runs on the member (\S+)")
_COUNTED = [str(number) for number in range(1, 41)]
_COUNTS = f"for number in {' '.join(_COUNTED)}; do echo $number; sleep 1; done; echo counted"


@pytest.fixture(scope="module")
def three() -> Iterator[Fleet]:
    """A cluster, in whose network the tests of this module run."""
    with Fleet(INCUS, 3) as fleet, fleet.switch.entered():
        yield fleet


@pytest.fixture(scope="module")
def daemon(three: Fleet, images_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A service whose VMs are on the cluster."""
    state = tmp_path_factory.mktemp("daemon") / "state"
    dear = {"CI_DAEMON_BILLING_CPU": "10000000"}  # so that a second of a job costs more than a cent
    daemon = Daemon(state, {"CI_DAEMON_IMAGES_DIR": str(images_dir), "CI_DAEMON_POOL_PARKED": "0", **dear})
    new_storage(state, SystemClock()).close()
    prepare(three, state, lost_seconds=2.0)
    try:
        daemon.start()
        yield daemon
        assert daemon.stop() == 0, daemon.log
    finally:
        daemon.kill()
    assert "Traceback" not in daemon.log


@pytest.fixture
def client(daemon: Daemon, request: pytest.FixtureRequest) -> Client:
    """A user of the test's own."""
    return Client.create(daemon, f"{request.node.name[:20]}@example.org")


def test_jobs_go_on_when_the_majority_was_lost(three: Fleet, daemon: Daemon, client: Client) -> None:
    """The service restarts while nobody can tell what runs; each job waits for that, and is tried once."""
    build = client.pipeline("away").build(one(_COUNTS))
    build.says("\n3\n", seconds=_SECONDS)
    (home,) = _members(daemon)
    leader = three.leader(three.members[0])
    others = [member for member in three.members if member.name != home]
    leader.kill_engine()
    others[0 if others[0] is not leader else 1].kill_engine()
    _restart(daemon)
    until(lambda: "waits for its provider" in daemon.log, "the job to notice", _SECONDS)
    late = client.pipeline("late").build(one("echo late"))
    for member in three.members:
        if not member.reachable():
            member.start_engine()
    assert [each.finish(_SECONDS)["state"] for each in (build, late)] == ["passed", "passed"]
    assert [each.jobs()["only"]["attempt"] for each in (build, late)] == [1, 1]
    assert [line for line in build.log().splitlines() if line.isdigit()] == _COUNTED


def test_a_leader_that_loses_its_power_ends_no_job(three: Fleet, daemon: Daemon, client: Client) -> None:
    """Running ones are followed through another member, and new ones begin."""
    with _drained_leader(three) as leader:
        build = client.pipeline("led").build(one(_COUNTS))
        build.says("\n3\n", seconds=_SECONDS)
        with _powerless(three, leader):
            later = client.pipeline("later").build(one("echo later"))
            assert [each.finish(_SECONDS)["state"] for each in (build, later)] == ["passed", "passed"]
            assert [each.jobs()["only"]["attempt"] for each in (build, later)] == [1, 1]
            assert [line for line in build.log().splitlines() if line.isdigit()] == _COUNTED


def test_the_child_of_a_disk_on_a_lost_member_says_so(three: Fleet, daemon: Daemon, client: Client) -> None:
    """Its parent's disk is on one member, and what it waits for runs on another."""
    with _drained_leader(three):
        graph = Graph().step("parent", "echo made >mark").step("waited", _COUNTS)
        graph.step("child", "cat mark", builds_in="parent", after=("waited",))
        build = client.pipeline("lost").build(graph.ir())
        build.says("\n3\n", "waited", seconds=_SECONDS)
        build.job("parent", "passed", _SECONDS)
        home, other = (_MEMBER.findall(build.log(key))[0] for key in ("parent", "waited"))
        assert home != other
        with _powerless(three, next(member for member in three.members if member.name == home)):
            assert build.finish(_SECONDS)["state"] == "failed"
            jobs = build.jobs()
            assert [jobs[key]["state"] for key in ("parent", "waited", "child")] == ["passed", "passed", "failed"]
            assert jobs["child"]["error_code"] == "snapshot_failed"
            assert f"the member {home} is offline" in jobs["child"]["error_message"]


def test_no_job_of_a_hundred_is_lost_or_billed_twice(
    three: Fleet, daemon: Daemon, client: Client, record_property: Callable[[str, object], None]
) -> None:
    """One member loses its power in the middle; what it leaves is removed when it is back."""
    graph, pipeline = Graph(), client.pipeline("hundred")
    for number in range(_JOBS):
        graph.step(f"job{number}", f"echo begun; {'sleep 1' if number else _SECOND_TIME}; echo done {number}")
    began = time.monotonic()
    build = pipeline.build(graph.ir())
    until(lambda: _passed(build) >= _JOBS // 5, "a fifth of the jobs", _SECONDS)
    (home,) = _MEMBER.findall(build.log("job0"))
    lost = next(member for member in three.members if member.name == home)
    lost.kill()
    assert build.finish(_SECONDS)["state"] == "passed"
    took = time.monotonic() - began
    retried, debited, cost = _billed(daemon, client, build)
    assert debited == cost
    assert all(f"done {number}" in build.log(f"job{number}") for number in range(_JOBS))
    assert retried["vm_lost"], retried
    record_property("seconds", round(took))
    record_property("retried", dict(retried))
    _return(three, lost)
    _restart(daemon)
    until(lambda: not _instances(three.members[0]), "the end of what was left", _SECONDS)


@contextmanager
def _drained_leader(fleet: Fleet) -> Iterator[Member]:
    """Let the leader get no VMs until the end of the block."""
    leader = fleet.leader(fleet.members[0])
    asked = fleet.first(but=leader)
    asked.run(f"incus cluster set {leader.name} scheduler.instance=manual")
    try:
        yield leader
    finally:
        fleet.members[0].run(f"incus cluster unset {leader.name} scheduler.instance")


@contextmanager
def _powerless(fleet: Fleet, member: Member) -> Iterator[None]:
    """Cut a member's power, and switch it on at the end of the block."""
    member.kill()
    try:
        yield
    finally:
        _return(fleet, member)


def _billed(daemon: Daemon, client: Client, build: Build) -> tuple[Counter[str], int, int]:
    """Return failed attempts by error code, the cents debited, and those of the leases that passed."""
    with closing(Storage.open(daemon.state, SystemClock())) as storage:
        organization = storage.organizations.by_slug(client.org)
        assert organization is not None
        debits = [-entry.amount_cents for entry in storage.ledger.entries(organization.id) if entry.amount_cents <= 0]
        jobs = [job for each in build.jobs().values() if (job := storage.jobs.by_uuid(each["id"])) is not None]
        attempts = [attempt for job in jobs for attempt in storage.attempts.of_job(job.id)]
        passed = [lease.amount_cents for job in jobs if (lease := storage.leases.of_job(job.id)) is not None]
        assert storage.ledger.verify() == []
    assert len(jobs) == len(passed) == len(debits) == _JOBS
    return Counter(each.error_code for each in attempts if each.error_code), sum(debits), sum(passed)


def _passed(build: Build) -> int:
    return sum(job["state"] == "passed" for job in build.jobs().values())


def _members(daemon: Daemon) -> set[str]:
    """Return the members that have VMs."""
    return {lease["member"] for lease in daemon.json("lease", "list") if lease["member"]}


def _restart(daemon: Daemon) -> None:
    assert daemon.stop() == 0, daemon.log
    daemon.start()


def _return(fleet: Fleet, member: Member) -> None:
    """Switch a member on, and wait until the others see it."""
    member.start()
    until(lambda: _states(fleet.first(but=member)) == {"ONLINE"}, f"the return of {member.name}")


def _states(asked: Member) -> set[str]:
    return set(asked.run("incus cluster list --format csv --columns s").split())


def _instances(asked: Member) -> list[str]:
    return asked.run("incus list --project ci --format csv --columns n").split()
