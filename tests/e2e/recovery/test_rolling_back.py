"""Rolling back on a daemon that is killed at every place of it: nothing twice, nothing lost."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import httpx
import pytest

from tests.e2e.crashes import await_crash, start_to_crash
from tests.e2e.daemon import Build, Daemon, Pipeline
from tests.e2e.sources import archive

GATE = {"environment": "production"}
IR = json.dumps(
    {
        "version": "1",
        "jobs": {
            "make": {
                "run": "cat /proc/sys/kernel/random/uuid >app; echo VERSION=$(cat app) >>$CI_OUTPUT",
                "artifacts": ["app"],
            },
            "deploy": {"run": "cat app; echo $VERSION", "files": {"make": ["app"]}, "needs": ["make"], "gate": GATE},
            "after": {"run": "echo after", "needs": ["deploy"]},
        },
    }
)


def deployed_by(pipeline: Pipeline) -> Build:
    build = pipeline.build(IR, source=archive({"a": "a"}))
    assert build.finish()["state"] == "passed"
    return build


@pytest.mark.parametrize(
    ("point", "when"),
    [
        ("sources.link", "after"),
        ("builds.create", "after"),
        ("artifacts.inherit", "before"),
        ("artifacts.inherit", "after"),
        ("leases.assign", "after"),
        ("files.lay", "after"),
        ("jobs.finish", "before"),
    ],
)
def test_a_rollback_is_made_once_through_a_kill(daemon: Daemon, pipeline: Pipeline, point: str, when: str):
    """A request without an answer is sent again, as a client does, with its key."""
    client = pipeline.client
    daemon.json("environment", "create", client.org, GATE["environment"])
    first, _ = (deployed_by(pipeline) for _ in "12")
    deployed = first.log("deploy")
    daemon.stop()
    start_to_crash(daemon, point, when)

    def ask() -> Any:
        key = {"Idempotency-Key": "back"}
        answered = client.request("POST", "environments/production/rollback", json={}, headers=key)
        assert answered.status_code == 201, answered.text
        return answered.json()["number"]

    with suppress(httpx.TransportError):
        ask()
    await_crash(daemon)
    daemon.start()
    assert ask() == 3
    back = Build(client, f"pipelines/{pipeline.slug}/builds/3")
    assert back.finish()["state"] == "passed"
    assert back.log("deploy") == deployed
    jobs = back.jobs()
    assert [(key, each["attempt"], each["taken_from"]) for key, each in jobs.items()] == [
        ("make", 0, 1),
        ("deploy", 1, None),
        ("after", 1, None),
    ]
    numbers = [each["number"] for each in daemon.json("environment", "history", client.org, "production")]
    assert numbers == [3, 2, 1]
    assert len(client.get(f"pipelines/{pipeline.slug}/builds")["data"]) == 3
    (artifact,) = client.get(f"{back.path}/artifacts")["data"]
    content = client.request("GET", f"{back.path}/artifacts/{artifact['id']}/download", follow_redirects=True)
    assert content.text.strip() == deployed.splitlines()[-1]
    assert daemon.command("ledger", "verify").returncode == 0
