"""The commit that broke the default branch of a real repository is searched and named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.daemon import Client, Daemon
from tests.git_repository import GitRepository
from tests.ports import reserved_port
from tests.waiting import until

PIPELINE = """
on:
  push: {branches: [main]}
jobs:
  prepare:
    run: echo prepared
  test:
    needs: prepare
    run: sh ./test.sh
  other:
    run: echo other
"""
NAME = "acme-web-ci"
BUILDS = f"pipelines/{NAME}/builds"
GOOD, BAD = "exit 0", "exit 7"


@pytest.fixture(scope="module")
def settings(settings: dict[str, str]) -> Iterator[dict[str, str]]:
    with reserved_port() as port:
        yield settings | {"CI_DAEMON_HTTP_LISTEN": f"127.0.0.1:{port}"}


@pytest.fixture
def repository(daemon: Daemon, client: Client, tmp_path: Path) -> Iterator[GitRepository]:
    """A connected repository whose first build has passed."""
    made = GitRepository(tmp_path)
    made.commit("Begin")
    made.push("main")
    daemon.command("repo", "connect", str(made.bare), "--org", client.org, "--poll", "1")
    until(lambda: daemon.json("repo", "show", str(made.bare), "--org", client.org)["checked_at"], "the first look")
    made.commit("First", **{".hm__ci.yml": PIPELINE, "test.sh": GOOD})
    made.push("main")
    assert ended(client, 1)["state"] == "passed"
    yield made
    daemon.command("repo", "remove", str(made.bare), "--org", client.org)


def ended(client: Client, number: int) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        answered = client.request("GET", f"{BUILDS}/{number}")
        record: dict[str, Any] = answered.json()
        return record if answered.status_code == 200 and record["state"] in {"passed", "failed", "canceled"} else None

    return until(found, f"the end of build {number}", 90)


def pushed(repository: GitRepository, count: int, fault: int, broken: str = BAD) -> list[str]:
    """Push that many commits at once, from one of which on the test is ``broken``; return them."""
    commits = [
        repository.commit(f"Change {each}", **{"a.txt": str(each), "test.sh": GOOD if each < fault else broken})
        for each in range(count)
    ]
    repository.push("main")
    return commits


def searched(client: Client, number: int) -> dict[str, Any]:
    """Return the search for what broke a build, once it has ended."""

    def found() -> dict[str, Any] | None:
        answered = client.request("GET", f"{BUILDS}/{number}/culprit")
        record: dict[str, Any] = answered.json()
        return record if answered.status_code == 200 and record["ended_at"] else None

    return until(found, "the end of the search", 180)


def test_one_of_32_commits_is_named_through_a_kill(daemon: Daemon, client: Client, repository: GitRepository):
    commits = pushed(repository, 32, 20)
    assert ended(client, 2)["state"] == "failed"

    until(lambda: client.request("GET", f"{BUILDS}/2/culprit").json().get("rounds"), "the first round", 60)
    daemon.kill()
    daemon.start()
    search = searched(client, 2)

    assert (search["state"], search["culprit"]) == ("found", commits[20]), search
    assert (search["subject"], search["commits"]) == ("Change 20", 32)
    assert search["rounds"] <= 5
    builds = search["builds"]
    assert len(builds) <= 4 * search["rounds"]
    numbers = [each["number"] for each in builds]
    for each in numbers:
        record = client.get(f"{BUILDS}/{each}")
        assert (record["priority"], record["branch"]) == ("culprit", "main")
        jobs = client.get(f"{BUILDS}/{each}/jobs")["data"]
        assert {job["step_key"] for job in jobs} == {"prepare", "test"}
    listed = {each["number"] for each in client.get(BUILDS)["data"]}
    assert {1, 2, *numbers} == listed
    assert json.dumps(daemon.json("build", "culprit", f"{client.org}/{NAME}/2")["culprit"]) == json.dumps(commits[20])


def test_a_flaky_job_is_told_from_a_broken_one(client: Client, repository: GitRepository):
    broken = 'test "$CI_BUILD_NUMBER" != 2'
    commits = pushed(repository, 8, 0, broken)
    assert ended(client, 2)["state"] == "failed"

    search = searched(client, 2)

    assert (search["state"], search["culprit"]) == ("flaky", commits[-1]), search


def test_a_search_is_stopped_by_hand_and_by_a_setting(daemon: Daemon, client: Client, repository: GitRepository):
    pushed(repository, 16, 8, "sleep 30; exit 1")
    assert client.request("GET", f"{BUILDS}/2/culprit").status_code == 404
    assert ended(client, 2)["state"] == "failed"
    until(lambda: client.request("GET", f"{BUILDS}/2/culprit").json().get("rounds"), "the first round", 60)

    stopped = daemon.json("build", "culprit", f"{client.org}/{NAME}/2", "--stop")

    assert stopped["state"] == "canceled"
    for each in stopped["builds"]:
        ended(client, each["number"])
    repository.commit("Mend it", **{"test.sh": GOOD})
    repository.push("main")
    newest = max(each["number"] for each in client.get(BUILDS)["data"])
    assert ended(client, newest)["state"] == "passed"
