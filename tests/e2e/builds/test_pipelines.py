"""Deleted pipelines and repeated requests, with a real daemon and real VMs."""

from __future__ import annotations

import pytest

from tests.e2e.daemon import Build, Client, Daemon, Pipeline
from tests.e2e.pipelines import one
from tests.waiting import until

CACHED = one("echo made here; touch made", cache={"policy": "ttl", "duration_seconds": 600, "key": "deletion"})


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"CI_DAEMON_POOL_PARKED": "1", "CI_DAEMON_POOL_MAX_VMS": "2"}


def delete(client: Client, pipeline: Pipeline) -> tuple[int, str | None]:
    answered = client.request("DELETE", f"pipelines/{pipeline.slug}")
    return answered.status_code, answered.json()["error"]["code"] if answered.content else None


def kept(daemon: Daemon) -> set[str]:
    """Return the names of the disks that jobs have left."""
    return {path.name for path in (daemon.state / "sandbox" / "trees" / "snapshots").iterdir()}


def debits(client: Client) -> list[dict[str, object]]:
    entries = client.get(f"/api/v0/billing/transactions/{client.org}")["data"]
    return [entry for entry in entries if entry["source"] == "vm_lease_debit"]


def test_a_pipeline_without_running_builds_goes_with_its_disks(daemon: Daemon, client: Client, pipeline: Pipeline):
    assert pipeline.build(CACHED).finish()["state"] == "passed"
    running = pipeline.build(one("echo begun; sleep 600"))
    running.says("begun")
    assert delete(client, pipeline) == (409, "pipeline_busy")
    running.cancel()
    assert running.finish()["state"] == "canceled"
    before = debits(client)
    assert len(before) == 2
    disks = kept(daemon)
    assert disks

    assert delete(client, pipeline) == (204, None)

    assert debits(client) == before
    again = client.pipeline().build(CACHED)
    assert again.path == f"pipelines/{pipeline.slug}/builds/1"
    assert again.finish()["state"] == "passed"
    assert not again.jobs()["only"]["cache_hit"]
    assert "made here" in again.log()
    until(lambda: not (disks & kept(daemon)), "the deleted pipeline's disks to go")


def test_a_request_repeated_after_a_crash_makes_no_second_build(daemon: Daemon, client: Client, pipeline: Pipeline):
    def send() -> dict[str, object]:
        body = {"branch": "main", "commit": "0" * 40, "pipeline_ir": one("echo once")}
        answered = client.request(
            "POST", f"pipelines/{pipeline.slug}/builds", json=body, headers={"Idempotency-Key": "once"}
        )
        assert answered.status_code == 201, answered.text
        return dict(answered.json())

    first = send()
    daemon.kill()
    daemon.start()
    again = send()
    assert again["id"] == first["id"]
    assert Build(client, f"pipelines/{pipeline.slug}/builds/1").finish()["state"] == "passed"
    assert len(client.get(f"pipelines/{pipeline.slug}/builds")["data"]) == 1
