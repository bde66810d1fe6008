"""Secrets in a real daemon: set through the API, visible in a job, and nowhere else."""

from __future__ import annotations

import json

import pytest

from tests.e2e.daemon import Daemon, Pipeline
from tests.e2e.pipelines import one

TOKEN = "hunter2-and-a-half"
ENV = "an-env-of-the-build"


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"CI_DAEMON_POOL_PARKED": "0", "CI_DAEMON_JOURNAL_LEVEL": "debug"}


def test_a_trace_shows_no_secret_and_a_short_one_spoils_no_log(pipeline: Pipeline):
    awkward = "pa$s'w\"o`r\\d&<x>!"
    for name, value in {"TOKEN": awkward, "DEBUG": "1"}.items():
        assert pipeline.client.request("PUT", f"secrets/{name}", json={"value": value}).status_code == 200
    command = 'set -x; : "$TOKEN"; { set +x; } 2>/dev/null; declare -p TOKEN; echo "tests: 101 passed"'
    build = pipeline.build(one(command, runner_args={"secrets": ["TOKEN", "DEBUG"]}))
    assert build.finish()["state"] == "passed"
    assert build.log().splitlines() == [
        "the secret DEBUG is too short to be masked: set a longer one",
        "+ : '***'",
        'declare -x TOKEN="***"',
        "tests: 101 passed",
    ]


def test_a_secret_is_masked_over_a_crash_and_in_no_file(daemon: Daemon, pipeline: Pipeline):
    client = pipeline.client
    assert client.request("PUT", "secrets/TOKEN", json={"value": TOKEN}).status_code == 200
    command = 'printf "begun ${TOKEN:0:9}"; sleep 3; echo "${TOKEN:9} $ENV"; printf "user:$TOKEN" | base64'
    build = pipeline.build(one(command, runner_args={"secrets": ["TOKEN"]}), env={"ENV": ENV})
    build.says("begun ")
    daemon.kill()
    daemon.start()
    assert build.finish()["state"] == "passed"
    first, second = build.log().splitlines()
    assert first == f"begun *** {ENV}"
    assert second.startswith("dXNlcj")
    assert "***" in second

    assert json.dumps(client.get("secrets")).count("TOKEN") == 1
    assert client.request("DELETE", "secrets/TOKEN").status_code == 204
    assert TOKEN not in daemon.log
    assert ENV not in daemon.log
    daemon.wait_until_idle()
    assert daemon.stop() == 0  # so that no file goes while they are read
    files = [file for file in daemon.state.rglob("*") if file.is_file()]
    assert any(file.name == "ci-daemon.sqlite3" for file in files)
    holding = {file.suffix for file in files if TOKEN.encode() in file.read_bytes() or b"hunter2" in file.read_bytes()}
    assert holding == set()
    assert {file.suffix for file in files if ENV.encode() in file.read_bytes()} == {".log"}
