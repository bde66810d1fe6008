"""A change of one ingredient of a disk's name runs the job (engine.md, "Cache across builds")."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any

import pytest

from actors.builds.attempt.disk_cache import CacheNames
from storage import Build, NewOrigin, NewPipeline, OriginEvent, SecretScope, VerifiedEvent
from tests.actors.conftest import Host, add_image
from tests.e2e.pipelines import Graph
from tests.waiting import until

CACHE = {"policy": "on_change", "key": "k"}


def chain(*, env: dict[str, str] | None = None, above: str = "true", **options: Any) -> str:
    """Return the IR of a cached step above two steps that are not."""
    graph = Graph().step("lowest", above).step("below", "true", builds_in="lowest")
    step = {"cmd": "true", "cache": CACHE, "label": "only"} | options
    return graph.step("only", step.pop("cmd"), builds_in="below", env=env or {"A": "b"}, **step).ir()


def hit(host: Host, ir: str, **fields: Any) -> bool:
    """Run a build that passes; tell whether its cached step was a hit."""
    build = host.finish(host.build(ir, **fields))
    assert build.state == "passed"
    return host.job(build).cache_hit


def args(**keys: Any) -> dict[str, Any]:
    return {"runner_args": keys}


CHANGES: dict[str, dict[str, Any]] = {
    "command": {"cmd": "echo"},
    "variable": {"env": {"A": "c"}},
    "more variables": {"env": {"A": "b", "C": "d"}},
    "policy": {"cache": {"policy": "forever", "key": "k"}},
    "key": {"cache": {"policy": "on_change", "key": "l"}},
    "network": args(network="off"),
    "processors": args(cpu=3),
    "memory": args(memory_gb=5),
    "disk": args(disk_gb=21),
    "secrets": args(secrets=["TOKEN"]),
    "the command two disks below": {"above": "echo"},
}


@pytest.mark.parametrize("changed", CHANGES)
def test_a_job_with_another_one_of_these_runs(host: Host, changed: str):
    host.storage.secrets.put(SecretScope(host.pipeline.organization_id), "TOKEN", "hush")
    assert not hit(host, chain())
    assert not hit(host, chain(**CHANGES[changed]))
    assert hit(host, chain())
    assert hit(host, chain(**CHANGES[changed]))


SAME: dict[str, dict[str, Any]] = {
    "time-out": {"timeout_seconds": 77},
    "label": {"label": "Another name"},
    "retries": args(retry={"limit": 2}),
    "default size": args(cpu=2, memory_gb=4, disk_gb=20),
}


@pytest.mark.parametrize("changed", SAME)
def test_a_job_with_another_one_of_these_hits(host: Host, changed: str):
    assert not hit(host, chain())
    assert hit(host, chain(**SAME[changed]))


def test_another_pipeline_of_the_organization_is_another(host: Host):
    assert not hit(host, chain())
    new = NewPipeline("other", "Other", "https://example.org/a/other.git", "main")
    host.pipeline = host.storage.pipelines.create(host.pipeline.organization_id, new)
    assert not hit(host, chain())
    assert hit(host, chain())


def test_a_disk_of_another_provider_is_another(host: Host):
    """One of a machine is no use to a sandbox."""
    build = host.finish(host.build(Graph().step("only", "true", cache=CACHE).ir()))
    names, job = CacheNames(host.storage, host.images), host.job(build)

    def of(provider: str) -> str | None:
        return names.of(build, job, provider=provider, image="debian:12", of_jobs={})

    assert None is not of("sandbox") == of("sandbox")
    assert of("sandbox") != of("qemu")


def test_the_variables_that_a_build_is_created_with_count(host: Host):
    assert not hit(host, chain())
    assert not hit(host, chain(), env={"TARGET": "staging"})
    assert not hit(host, chain(), env={"TARGET": "production"})
    assert hit(host, chain(), env={"TARGET": "staging"})


def test_the_variables_that_the_owner_gives_all_jobs_count(host: Host):
    assert not hit(host, chain())
    host.settings = replace(host.settings, jobs=replace(host.settings.jobs, env={"LANG": "de_DE.UTF-8"}))
    host.restart()
    assert not hit(host, chain())
    assert hit(host, chain())


def test_the_shell_that_a_build_is_made_with_counts(host: Host):
    for strict, hits in ((None, False), (True, False), (False, True), (True, True)):
        host.storage.pipelines.update(host.pipeline.id, strict_shell=strict)
        assert hit(host, chain()) is hits


def test_a_retry_runs_in_the_shell_of_the_first_run(host: Host):
    host.storage.pipelines.update(host.pipeline.id, strict_shell=True)
    build = host.finish(host.build(Graph().step("only", "false\necho done").ir()))
    assert build.state == "failed"
    host.storage.pipelines.update(host.pipeline.id, strict_shell=False)
    host.retry(build)
    host.engine.jobs_added(build.id)
    assert host.finish(build).state == "failed"
    assert host.job(build).attempt == 2


def test_an_image_replaced_under_its_name_is_another_one(host: Host):
    """VMs in memory start from the disk as before, as from one whose image was pulled again."""
    assert not hit(host, chain())
    folder = host.images.store.path("debian:12").parent
    shutil.rmtree(folder)
    add_image(folder.parent, "debian:12", {})
    assert not hit(host, chain())


def test_disks_on_an_image_that_is_gone_leave_the_cache(host: Host):
    """Nobody asks for their names any more, so none is found to be unusable."""
    assert not hit(host, chain())
    shutil.rmtree(host.images.store.path("debian:12").parent)
    until(lambda: host.storage.snapshots.in_use() == set(), "the build to let go")
    host.reaper().expire()
    assert host.storage.cache.entries() == []


def test_another_image_is_another_disk(host: Host):
    add_image(host.images.store.path("debian:12").parent.parent, "alpine:3", {})

    def of(image: str) -> str:
        return Graph().step("only", "true", image=image, cache=CACHE).ir()

    assert not hit(host, of("debian:12"))
    assert not hit(host, of("alpine:3"))
    assert hit(host, of("debian:12"))


def test_what_builds_in_the_disk_of_a_failure_is_not_cached(host: Host):
    def of(command: str) -> str:
        graph = Graph().step("below", command, runner_args={"soft_fail": True})
        return graph.step("only", "true", builds_in="below", cache=CACHE).ir()

    for _ in range(2):
        assert not hit(host, of("false"))
    assert host.storage.cache.entries() == []


def test_what_a_push_says_of_itself_does_not_count(host: Host):
    """A tag or the number of a pull request differs in each build, like CI_BRANCH and CI_COMMIT."""
    assert not hit(host, chain())
    repository = host.storage.repositories.connect(
        host.pipeline.organization_id, "https://example.org/a/demo.git", "a/demo", 86_400
    )

    def of_event(number: str) -> Build:
        build = host.insert(chain(), env={"CI_PULL_REQUEST": number, "CI_TARGET_BRANCH": "main"})
        origin = NewOrigin(repository.id, OriginEvent.PULL_REQUEST, "refs/pull/1/head", pull_request=1)
        host.storage.build_origins.record(build.id, origin, reports=False)
        host.engine.jobs_added(build.id)
        return host.finish(build)

    assert host.job(of_event("1")).cache_hit
    assert host.job(of_event("2")).cache_hit
    assert not hit(host, chain(), env={"CI_PULL_REQUEST": "3"})


@pytest.mark.parametrize("guarded_first", [True, False], ids=["the secret's disk is first", "the other's is first"])
def test_a_limited_secret_keeps_disks_among_its_builds(host: Host, guarded_first: bool):
    """Nobody leaves a disk for a job that has the secret, and nobody finds one of it."""
    scope = SecretScope(host.pipeline.organization_id)
    host.storage.secrets.put(scope, "TOKEN", "hush", {"branches": ["main"]})
    of_main = {"verified_event": VerifiedEvent.PUSH, "verified_ref": "refs/heads/main"}
    first, then = (of_main, {}) if guarded_first else ({}, of_main)
    assert [hit(host, chain(), **fields) for fields in (first, then, first, then)] == [False, False, True, True]
