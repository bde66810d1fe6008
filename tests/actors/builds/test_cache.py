"""Hits, misses, storing and eviction by a live engine over real VMs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from actors import CacheSettings
from actors.cleanup.retention import evict, free_disks
from actors.vms import VmError
from storage import Build, JobState, NewPipeline
from tests.actors.conftest import Host
from tests.e2e.pipelines import Graph, one
from tests.waiting import until

pytestmark = pytest.mark.sandbox


def cached(key: str) -> dict[str, Any]:
    return {"cache": {"policy": "forever", "key": key}}


def chain(*, deps: str = "deps-1") -> str:
    graph = Graph().step("base", "echo base >> made", **cached("base-1"))
    graph.step("deps", f"echo {deps} >> made", builds_in="base", **cached(deps))
    return graph.step("test", "cat made", builds_in="deps").ir()


def hits(host: Host, build: Build) -> dict[str, bool]:
    return {job.step_key: job.cache_hit for job in host.storage.jobs.of_build(build.id)}


def passed(host: Host, ir: str) -> Build:
    build = host.finish(host.build(ir))
    assert build.state == "passed", [
        (job.name, job.state, job.error_message) for job in host.storage.jobs.of_build(build.id)
    ]
    return build


def test_a_second_build_runs_only_what_is_not_cached(host: Host):
    first = passed(host, chain())
    assert hits(host, first) == {"base": False, "deps": False, "test": False}
    second = passed(host, chain())
    assert hits(host, second) == {"base": True, "deps": True, "test": False}
    assert host.log(second, "test") == b"base\ndeps-1\n"
    third = passed(host, chain(deps="deps-2"))
    assert hits(host, third) == {"base": True, "deps": False, "test": False}
    assert host.log(third, "test") == b"base\ndeps-2\n"


def test_a_hit_has_no_lease_attempt_or_debit(host: Host):
    """Its log names the job that made the disk."""
    passed(host, chain())
    debits = len(host.storage.ledger.page(host.pipeline.organization_id, 100, None).rows)
    second = passed(host, chain())
    job = host.job(second, "deps")
    assert (job.state, job.attempt, job.started_at, job.exit_code) == (JobState.PASSED, 0, None, None)
    assert host.storage.leases.of_job(job.id) is None
    assert host.storage.attempts.of_job(job.id) == []
    assert len(host.storage.ledger.page(host.pipeline.organization_id, 100, None).rows) == debits + 1
    assert b'the disk that "deps" left in build 1 is' in host.log(second, "deps")


def test_a_hit_has_the_artifacts_of_the_job_that_made_the_disk(host: Host):
    ir = one("echo report > report.txt", runner_args={"artifacts": ["*.txt"]}, **cached("k"))
    passed(host, ir)
    second = passed(host, ir)
    assert hits(host, second) == {"only": True}
    (left,) = host.storage.artifacts.of_job(host.job(second).id)
    assert (left.path, host.storage.artifacts.path(left).read_text()) == ("report.txt", "report\n")


def test_a_job_that_promises_other_artifacts_runs(host: Host):
    def leaving(*globs: str) -> set[str]:
        build = passed(host, one("touch a.txt b.log", runner_args={"artifacts": globs}, **cached("k")))
        return {each.path for each in host.storage.artifacts.of_job(host.job(build).id)}

    assert leaving("*.txt") == {"a.txt"}
    assert leaving("*.log") == {"b.log"}
    assert leaving("*.txt", "*.log") == {"a.txt", "b.log"}


def test_what_waits_for_a_hit_by_order_alone_goes_on_too(host: Host):
    graph = Graph().step("deps", "true", **cached("k")).step("after", "echo on", after=("deps",))
    passed(host, graph.ir())
    assert hits(host, passed(host, graph.ir())) == {"deps": True, "after": False}


def test_a_job_that_failed_is_not_stored(host: Host):
    ir = one("exit 3", **cached("k"), runner_args={"soft_fail": True})
    for _ in range(2):
        build = host.finish(host.build(ir))
        assert not host.job(build).cache_hit
    assert host.storage.cache.entries() == []


def test_a_key_means_something_to_its_pipeline_alone(host: Host):
    ir = one("true", **cached("k"))
    passed(host, ir)
    host.pipeline = host.storage.pipelines.create(
        host.pipeline.organization_id, NewPipeline("other", "Other", "https://example.org/a/other.git", "main")
    )
    assert not host.job(passed(host, ir)).cache_hit
    assert host.job(passed(host, ir)).cache_hit


def test_a_job_without_a_key_or_with_policy_none_is_not_cached(host: Host):
    for cache in ({"policy": "none", "key": "k"}, {"policy": "forever"}):
        for _ in range(2):
            assert not host.job(passed(host, one("true", cache=cache))).cache_hit
    assert list(host.provider.snapshots()) == []


def test_two_names_of_one_image_are_one(host: Host):
    passed(host, one("true", image="ubuntu:24.04", **cached("k")))
    assert host.job(passed(host, one("true", **cached("k")))).cache_hit


def test_an_unusable_cached_disk_is_dropped_and_made_again(host: Host):
    ir = chain()
    passed(host, ir)
    (base,) = (entry for entry in host.storage.cache.entries() if entry.job_name == "base")
    until(lambda: not list(host.provider.list()), "every VM to go")
    for snapshot in reversed(host.storage.snapshots.all()):
        host.provider.remove_snapshot(snapshot.name)
    again = passed(host, ir)
    assert hits(host, again) == {"base": False, "deps": False, "test": False}
    found = host.storage.cache.find(base.name)
    assert found is not None
    assert found.snapshot != base.snapshot


class _Gate:
    """Holds calls of a method until ``parties`` of them have arrived."""

    def __init__(self, parties: int, call: Callable[..., Any]) -> None:
        self.barrier = threading.Barrier(parties, timeout=60)
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        self.barrier.wait()
        return self._call(*arguments)


def test_of_two_builds_that_miss_at_once_both_run_and_one_stores(host: Host, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host.provider, "snapshot", _Gate(2, host.provider.snapshot))
    ir = one("true", **cached("k"))
    builds = [host.build(ir), host.build(ir)]
    for build in builds:
        assert host.finish(build).state == "passed"
        assert hits(host, build) == {"only": False}
    (entry,) = host.storage.cache.entries()
    until(lambda: list(host.provider.snapshots()) == [entry.snapshot], "the loser's disk to go")


def test_a_fully_cached_build_passes_on_a_full_host(host: Host):
    ir = Graph().step("a", "true", **cached("a")).step("b", "true", builds_in="a", **cached("b")).ir()
    passed(host, ir)
    graph = Graph()
    for number in range(5):
        graph.step(f"sleeper-{number}", "echo up; sleep 600")
    full = host.build(graph.ir())
    for number in range(4):
        host.says(full, b"up", f"sleeper-{number}")
    assert set(hits(host, passed(host, ir)).values()) == {True}
    host.engine.cancel(full.id)
    assert host.finish(full).state == "canceled"


def test_a_waiting_job_takes_a_disk_that_another_build_stores(host: Host, monkeypatch: pytest.MonkeyPatch):
    graph = Graph()
    for number in range(3):
        graph.step(f"sleeper-{number}", "echo up; sleep 600")
    full = host.build(graph.ir())
    for number in range(3):
        host.says(full, b"up", f"sleeper-{number}")
    gate = _Gate(2, host.provider.snapshot)
    monkeypatch.setattr(host.provider, "snapshot", gate)
    ir = one("true", **cached("k"))
    maker = host.build(ir)
    until(lambda: host.job(maker).state is JobState.RUNNING, "the maker to run")
    waiter = host.build(ir)
    assert host.job(waiter).state is JobState.SCHEDULED
    gate.barrier.wait()
    assert host.finish(waiter).state == "passed"
    assert hits(host, waiter) == {"only": True}
    assert hits(host, host.finish(maker)) == {"only": False}
    host.engine.cancel(full.id)
    host.finish(full)


def test_a_cancel_that_comes_first_wins_over_a_hit(host: Host, monkeypatch: pytest.MonkeyPatch):
    ir = one("true", **cached("k"))
    passed(host, ir)
    hit = host.storage.cache.hit

    def after_a_cancel(entry: Any, job: Any, *rest: Any) -> bool:
        host.storage.builds.request_cancel(job.build_id)
        host.storage.jobs.move(job.id, job.state, JobState.CANCELED)  # pool and supervisor may both come here
        return hit(entry, job, *rest)

    monkeypatch.setattr(host.storage.cache, "hit", after_a_cancel)
    build = host.finish(host.build(ir))
    assert (build.state, host.job(build).state) == ("canceled", JobState.CANCELED)


def test_a_hit_that_no_supervisor_saw_counts_for_the_next_one(host: Host):
    passed(host, chain())
    host.engine.stop()
    build = host.insert(chain())
    (entry,) = (entry for entry in host.storage.cache.entries() if entry.job_name == "base")
    assert host.storage.cache.hit(entry, host.job(build, "base"), JobState.PASSED, build.uuid, "cache hit")
    host.restart()
    assert host.finish(build).state == "passed"
    assert hits(host, build) == {"base": True, "deps": True, "test": False}


def test_a_disk_lost_only_to_the_cache_fails_no_job(host: Host, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise VmError("the disk is glued on")

    monkeypatch.setattr(host.provider, "snapshot", refuse)
    build = passed(host, one("echo ran", **cached("k")))
    assert host.log(build) == b"ran\nthe disk could not be kept for later builds: the disk is glued on\n"
    assert host.storage.cache.entries() == []


def test_nothing_is_kept_nor_found_where_the_cache_is_off(host: Host):
    ir = one("true", **cached("k"))
    passed(host, ir)
    host.settings = replace(host.settings, cache=CacheSettings(max_gb=0))
    host.restart()
    assert not host.job(passed(host, ir)).cache_hit
    until(lambda: not host.storage.cache.entries(), "the cache to be emptied")
    until(lambda: not list(host.provider.snapshots()), "every disk to go")


def test_what_disks_take_is_measured_when_the_build_is_over(host: Host):
    passed(host, one("head -c 3000000 /dev/urandom > file", **cached("k")))

    def measured() -> int | None:
        (entry,) = host.storage.cache.entries()
        return entry.bytes

    assert until(measured, "the measure") >= 3_000_000


def test_over_the_budget_unused_disks_are_evicted_first(host: Host):
    """Those of unfinished builds follow when the builds end."""
    for key in ("used", "unused"):
        passed(host, one("head -c 1000000 /dev/urandom > file", **cached(key)))
    graph = Graph().step("used", "head -c 1000000 /dev/urandom > file", **cached("used"))
    build = host.build(graph.step("test", "echo up; sleep 600", builds_in="used").ir())
    host.says(build, b"up", "test")
    evict(host.storage, host.providers, max_bytes=1000)
    free_disks(host.storage, host.providers)
    (left,) = host.storage.cache.entries()
    assert left.key == "used"
    assert list(host.provider.snapshots()) == [left.snapshot]
    host.engine.cancel(build.id)
    host.finish(build)
    until(lambda: host.storage.snapshots.in_use() == set(), "the build to let go")
    evict(host.storage, host.providers, max_bytes=1000)
    until(
        lambda: free_disks(host.storage, host.providers) or not list(host.provider.snapshots()),
        "room",
    )
    assert list(host.provider.snapshots()) == []


def test_room_is_made_by_as_much_as_is_lacking(host: Host):
    for key in ("old", "new"):
        passed(host, one("head -c 1000000 /dev/urandom > file", **cached(key)))
    evict(host.storage, host.providers, max_bytes=10**12, room=500_000)
    assert [entry.key for entry in host.storage.cache.entries()] == ["new"]


def test_a_changed_command_runs_though_its_key_did_not(host: Host):
    passed(host, one("true", **cached("k")))
    build = host.finish(host.build(one("false", **cached("k"))))
    assert (build.state, host.job(build).cache_hit, host.job(build).exit_code) == ("failed", False, 1)


def test_a_changed_environment_runs_though_the_key_did_not(host: Host):
    def of(target: str) -> str:
        return Graph().step("only", 'test "$TARGET" = staging', env={"TARGET": target}, **cached("k")).ir()

    passed(host, of("staging"))
    build = host.finish(host.build(of("production")))
    assert (build.state, host.job(build).cache_hit) == ("failed", False)
