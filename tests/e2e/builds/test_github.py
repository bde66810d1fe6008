"""From a push at GitHub to its check run, and again from there, with a GitHub on this host."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.daemon import Client, Daemon
from tests.git_repository import GitRepository
from tests.github_server import APP_ID, WEBHOOK_SECRET, GithubServer
from tests.waiting import until

PIPELINE = """
import harmont as hm

@hm.pipeline("ci", triggers=[hm.push(branch="main")])
def ci():
    return hm.sh("sh ./check", label="check")
"""
ZERO = "0" * 40


@pytest.fixture(scope="module")
def github() -> Iterator[GithubServer]:
    with GithubServer.serving() as github:
        yield github


@pytest.fixture(scope="module")
def settings(
    settings: dict[str, str], github: GithubServer, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    key = tmp_path_factory.mktemp("github") / "app.pem"
    github.settings(key)
    own = {"APP_ID": APP_ID, "WEBHOOK_SECRET": WEBHOOK_SECRET, "PRIVATE_KEY": str(key)}
    own |= {"API_URL": github.url, "WEB_URL": github.url}
    return settings | {f"CI_DAEMON_GITHUB_{name}": value for name, value in own.items()}


@pytest.fixture
def repository(github: GithubServer, tmp_path: Path) -> GitRepository:
    made = GitRepository(tmp_path)
    made.commit("Begin", **{".hm__pipeline.py": PIPELINE, "check": "true\n"})
    made.push("main")
    github.install(7, "acme", 70).add(701, "acme/web", str(made.bare))
    return made


_numbers = count(1)


def deliver(daemon: Daemon, event: str, **payload: Any) -> None:
    body = json.dumps({"installation": {"id": 7}, "repository": {"id": 701}, **payload}).encode()
    signature = "sha256=" + hmac.new(WEBHOOK_SECRET.encode(), body, "sha256").hexdigest()
    headers = {"X-GitHub-Event": event, "X-GitHub-Delivery": f"{next(_numbers)}", "X-Hub-Signature-256": signature}
    for expected in (202, 200):
        assert httpx.post(f"{daemon.url}/webhooks/github", content=body, headers=headers).status_code == expected


def ended(github: GithubServer, number: int) -> dict[str, Any]:
    """Return the check run that is made as this one, once it has ended."""

    def run() -> dict[str, Any] | None:
        runs = list(github.check_runs.values())
        return runs[number] if len(runs) > number and runs[number]["status"] == "completed" else None

    return until(run, f"the end of check run {number}", 120)


def test_a_push_has_a_check_run_and_is_run_again_from_there(
    daemon: Daemon, client: Client, github: GithubServer, repository: GitRepository
):
    assert daemon.json("github", "bind", "7", "--org", client.org)["repositories"] == ["acme/web"]
    until(lambda: daemon.json("repo", "list")[0]["checked_at"], "the first look", 30)
    before = repository.git("rev-parse", "HEAD")

    commit = repository.commit("Try", check="echo it breaks; exit 3\n")
    repository.push("main")
    deliver(daemon, "push", ref="refs/heads/main", before=before, after=commit, sender={"login": "ada"})
    failed = ended(github, 0)
    assert (failed["name"].startswith("ci/"), failed["head_sha"], failed["conclusion"]) == (True, commit, "failure")
    assert "it breaks" in failed["output"]["summary"]
    assert "exit code 3" in failed["output"]["summary"]
    shown = [state for number, state in github.states if number == failed["id"]]
    assert shown[-1] == "failure"
    assert set(shown) <= {"queued", "in_progress", "failure"}

    deliver(daemon, "check_run", action="rerequested", check_run={"id": failed["id"]}, sender={"login": "ben"})
    again = ended(github, 1)
    assert (again["name"], again["head_sha"], again["conclusion"]) == (failed["name"], commit, "failure")
    assert again["external_id"] != failed["external_id"]

    mended = repository.commit("Mend", check="true\n")
    repository.push("main")
    deliver(daemon, "push", ref="refs/heads/main", before=commit, after=mended, sender={"login": "ada"})
    assert ended(github, 2)["conclusion"] == "success"
    assert len(github.check_runs) == 3
