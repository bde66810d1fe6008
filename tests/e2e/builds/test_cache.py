"""The cache as a user sees it across builds, with a real daemon and real VMs."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.crashes import await_crash, start_to_crash
from tests.e2e.daemon import Build, Client, Daemon, Pipeline
from tests.e2e.pipelines import Graph, one
from tests.e2e.sources import archive
from tests.state import run_sql
from tests.waiting import until

EXAMPLE = Path(__file__).parents[2] / "data" / "ir" / "03-cache.json"
COMMANDS = {
    "base": "echo base > /opt/base; echo base is made",
    "tool": "cp /opt/base /opt/tool; echo tool is made",
    "deps": "cp /opt/tool /opt/deps; echo deps is made",
    "warm": "cp /opt/deps warm; echo warm is made",
    "test": "cat warm; touch tested; ls",
    "lint": "cat /opt/tool; ls",
}


def example(**keys: str) -> str:
    """Return the example's pipeline with commands that work here; ``keys`` replaces cache keys of steps."""
    definition = json.loads(EXAMPLE.read_text())["pipelines"][0]["definition"]
    for node in definition["graph"]["nodes"]:
        step = node["step"]
        step["cmd"] = COMMANDS[step["key"]]
        if step["key"] in keys:
            step["cache"]["key"] = keys[step["key"]]
    return json.dumps(definition)


def cached(key: str) -> dict[str, Any]:
    return {"cache": {"policy": "ttl", "duration_seconds": 60, "key": key}}


def hits(build: Build) -> set[str]:
    """Return the steps that were cache hits."""
    return {key for key, job in build.jobs().items() if job["cache_hit"]}


def passed(pipeline: Pipeline, ir: str) -> Build:
    build = pipeline.build(ir)
    assert build.finish()["state"] == "passed", build.states()
    return build


def debits(client: Client) -> int:
    entries = client.get(f"/api/v0/billing/transactions/{client.org}?limit=100")["data"]
    return sum(entry["source"] == "vm_lease_debit" for entry in entries)


def test_a_second_build_of_the_example_runs_only_uncached_jobs(pipeline: Pipeline):
    first = passed(pipeline, example())
    assert hits(first) == set()
    assert first.log("test") == "base\ntested\nwarm\n"
    billed = debits(pipeline.client)
    second = passed(pipeline, example())
    assert hits(second) == {"base", "tool", "deps", "warm"}
    assert debits(pipeline.client) == billed + 2
    assert second.log("test") == "base\ntested\nwarm\n"
    assert second.log("lint") == "base\nwarm\n"


def test_a_hit_is_shown_in_the_log_and_in_the_record(pipeline: Pipeline):
    passed(pipeline, one("echo ran", **cached("k")))
    build = passed(pipeline, one("echo ran", **cached("k")))
    assert 'the disk that "only" left in build 1' in build.log()
    assert "ran\n" not in build.log()
    job = build.jobs()["only"]
    assert (job["cache_hit"], job["cache_key"], job["attempt"]) == (True, "k", 0)
    assert job["started_at"] is None
    assert job["finished_at"] is not None


def test_a_changed_key_misses_and_those_below_it_hit(pipeline: Pipeline):
    passed(pipeline, example())
    assert hits(passed(pipeline, example(deps="changed", warm="changed too"))) == {"base", "tool"}
    assert hits(passed(pipeline, example(deps="changed", warm="changed too"))) == {"base", "tool", "deps", "warm"}


def test_a_changed_command_or_variable_runs_under_its_old_key(pipeline: Pipeline):
    """The keys of on_change cover files alone, so the service itself has to see what else is another."""

    def ended(ir: str, **fields: Any) -> tuple[str, bool]:
        build = pipeline.build(ir, **fields)
        return build.finish()["state"], build.jobs()["only"]["cache_hit"]

    on_change: dict[str, Any] = {"cache": {"policy": "on_change", "key": "k"}}
    assert ended(one("true", **on_change)) == ("passed", False)
    assert ended(one("true", **on_change)) == ("passed", True)
    assert ended(one("false", **on_change)) == ("failed", False)
    checks = one('test "${TARGET:-staging}" = staging', **on_change)
    assert ended(checks) == ("passed", False)
    assert ended(checks, env={"TARGET": "production"}) == ("failed", False)
    assert ended(checks) == ("passed", True)


def test_no_other_pipeline_and_no_other_organization_hits(pipeline: Pipeline, daemon: Daemon):
    ir = one("true", **cached("k"))
    passed(pipeline, ir)
    assert hits(passed(pipeline.client.pipeline("another"), ir)) == set()
    stranger = Client.create(daemon, f"stranger-of-{pipeline.client.email}")
    assert hits(passed(stranger.pipeline(), ir)) == set()
    assert hits(passed(pipeline, ir)) == {"only"}


def test_the_owner_lists_and_clears_the_cache(pipeline: Pipeline, daemon: Daemon):
    passed(pipeline, example())
    mine = ("--org", pipeline.client.org, "--pipeline", pipeline.slug)

    def measured() -> Any:
        entries = daemon.json("cache", "list", *mine)
        return entries if all(entry["bytes"] is not None for entry in entries) else None

    assert {entry["job"] for entry in until(measured, "the measures")} == {"base", "tool", "deps", "warm"}
    stats = daemon.json("cache", "stats", *mine)
    assert (stats["entries"], stats["hits"]) == (4, 0)
    assert 0 < stats["bytes"] < stats["max_bytes"] == 50 * 2**30
    passed(pipeline, example())
    assert daemon.json("cache", "stats", *mine)["hits"] == 4
    assert daemon.json("cache", "clear", *mine)["entries"] == 4
    assert daemon.json("cache", "list", *mine) == []
    assert hits(passed(pipeline, example())) == set()


@pytest.mark.parametrize(
    ("point", "when"),
    [
        ("snapshots.add", "after"),
        ("provider.snapshot", "after"),
        ("jobs.finish", "before"),
        ("jobs.finish", "after"),
        ("cache.store", "after"),
    ],
)
def test_a_crash_while_storing_a_disk_leaves_no_orphan(daemon: Daemon, pipeline: Pipeline, point: str, when: str):
    """No build is lost."""
    ir = one("echo ran", **cached(f"{when} {point}"))
    daemon.stop()
    start_to_crash(daemon, point, when)
    build = pipeline.build(ir)
    await_crash(daemon)
    daemon.start()
    assert build.finish()["state"] == "passed"
    assert (build.log(), build.jobs()["only"]["attempt"]) == ("ran\n", 1)
    again = passed(pipeline, ir)
    assert passed(pipeline, ir).jobs()["only"]["cache_hit"]
    assert again.jobs()["only"]["cache_hit"] or (point, when) == ("jobs.finish", "after")
    nothing_is_left_over(daemon)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_while_a_job_passes_by_the_cache_stops_no_build(daemon: Daemon, pipeline: Pipeline, when: str):
    ir = Graph().step("deps", "echo deps > f", **cached(when)).step("test", "cat f", builds_in="deps").ir()
    passed(pipeline, ir)
    daemon.stop()
    start_to_crash(daemon, "cache.hit", when)
    with suppress(httpx.TransportError):  # the daemon may die before it answers
        pipeline.build(ir)
    await_crash(daemon)
    daemon.start()
    build = Build(pipeline.client, f"pipelines/{pipeline.slug}/builds/2")
    assert build.finish()["state"] == "passed"
    assert hits(build) == {"deps"}
    assert build.log("test") == "deps\n"
    nothing_is_left_over(daemon)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_while_populating_leaves_a_right_workspace(daemon: Daemon, pipeline: Pipeline, when: str):
    ir = Graph().step("deps", "touch made", **cached(when)).step("test", "ls; cat f", builds_in="deps").ir()
    pipeline.build(ir, source=archive({"f": "one\n", "gone": ""})).finish()
    daemon.stop()
    start_to_crash(daemon, "workspace.update", when)
    build = pipeline.build(ir, source=archive({"f": "two\n", "new": ""}))
    await_crash(daemon)
    daemon.start()
    assert build.finish()["state"] == "passed"
    assert build.log("test") == "f\nmade\nnew\ntwo\n"
    nothing_is_left_over(daemon)


def nothing_is_left_over(daemon: Daemon) -> None:
    """Check that exactly the disks of the cache's entries, and of failed jobs, are kept."""

    def kept() -> bool:
        entries = {entry["snapshot"] for entry in daemon.json("cache", "list")}
        disks = {path.name for path in (daemon.state / "sandbox" / "trees" / "snapshots").iterdir()}
        return disks == entries | {name for (name,) in run_sql(daemon.state, "SELECT snapshot FROM kept_disks")}

    until(kept, "the disks that nothing names to go")
