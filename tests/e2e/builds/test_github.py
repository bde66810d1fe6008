"""From pushes and pull requests at GitHub to their check runs, with a GitHub on this host."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.daemon import Build, Client, Daemon
from tests.forges.all_hosts import AllHosts
from tests.forges.server import LocalHost, serving
from tests.git_repository import GitRepository
from tests.github_server import APP_ID, WEBHOOK_SECRET, GithubServer
from tests.waiting import until

PIPELINE = """
import harmont as hm

@hm.pipeline("ci", triggers=[hm.push(branch="main")])
def ci():
    return hm.sh("sh ./check", label="check")
"""
LOOK = """
import harmont as hm

@hm.pipeline("ci", triggers=[hm.push(branch="main"), hm.pull_request(branches="main")])
def ci():
    args = {"secrets": ["TOKEN"]}
    return hm.scratch().sh("echo [${TOKEN-none}]", key="look", label="look", image="debian:12", runner_args=args)
"""


@pytest.fixture(scope="module")
def github() -> Iterator[GithubServer]:
    with GithubServer.serving() as github:
        yield github


@pytest.fixture(scope="module")
def https(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHost]:
    """Serve private repositories."""
    with serving(AllHosts(), tmp_path_factory.mktemp("https")) as https:
        yield https


@pytest.fixture(scope="module")
def settings(
    settings: dict[str, str], github: GithubServer, https: LocalHost, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    key = tmp_path_factory.mktemp("github") / "app.pem"
    github.settings(key)
    own = {"APP_ID": APP_ID, "WEBHOOK_SECRET": WEBHOOK_SECRET, "PRIVATE_KEY": str(key)}
    own |= {"API_URL": github.url, "WEB_URL": github.url}
    trusted = {"CI_DAEMON_REPOSITORIES_CA_FILE": str(https.ca_file)}
    return settings | trusted | {f"CI_DAEMON_GITHUB_{name}": value for name, value in own.items()}


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


def of_pipelines(github: GithubServer) -> list[dict[str, Any]]:
    """Return the check runs of pipelines, without those of whole commits."""
    return [each for each in github.check_runs.values() if each["name"] != "ci-daemon"]


def ended(github: GithubServer, number: int) -> dict[str, Any]:
    """Return a pipeline's check run that is made as this one, once it has ended."""

    def run() -> dict[str, Any] | None:
        runs = of_pipelines(github)
        return runs[number] if len(runs) > number and runs[number]["status"] == "completed" else None

    return until(run, f"the end of check run {number}", 120)


def test_a_push_has_a_check_run_and_is_run_again_from_there(
    daemon: Daemon, client: Client, github: GithubServer, repository: GitRepository
):
    assert daemon.json("github", "bind", "7", "--org", client.org)["repositories"] == ["acme/web"]
    until(lambda: daemon.json("repo", "list")[0]["checked_at"], "the first look")
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
    assert len(of_pipelines(github)) == 3
    until(lambda: whole(github, mended) == ["success"], "the check of the whole commit")
    until(lambda: set(whole(github, commit)) == {"failure"}, "the check of the commit before")

    aside = repository.commit("Aside")
    repository.push("HEAD:aside")
    slug = client.get("pipelines")["data"][0]["slug"]
    daemon.json("build", "start", f"{client.org}/{slug}", "--ref", "aside")
    named = ended(github, 3)
    assert (named["name"], named["head_sha"], named["conclusion"]) == (failed["name"], aside, "success")
    until(lambda: whole(github, aside) == ["success"], "the check of a commit that somebody named")


def whole(github: GithubServer, commit: str) -> list[str | None]:
    """Return the conclusions of the check runs of a whole commit, as they were made."""
    runs = [each for each in github.check_runs.values() if each["head_sha"] == commit and each["name"] == "ci-daemon"]
    return [each.get("conclusion") for each in runs]


def shown(github: GithubServer, commit: str, state: str, number: int = 0) -> dict[str, Any]:
    """Return a commit's check run of this number, once it has a status or conclusion."""

    def look() -> dict[str, Any] | None:
        runs = [each for each in of_pipelines(github) if each["head_sha"] == commit]
        run = runs[number] if len(runs) > number else {}
        return run if state in (run.get("status"), run.get("conclusion")) else None

    return until(look, f"{state} of {commit}", 60)


def test_a_strangers_pull_request_waits_with_each_commit(
    daemon: Daemon, client: Client, github: GithubServer, tmp_path: Path
):
    """It is approved by the button of its check, has no secrets, and is run again from there."""
    client.request("PUT", "secrets/TOKEN", json={"value": "hunter2-and-a-half"})
    github.permissions["ann"] = "write"
    app = GitRepository(tmp_path, "app")
    before = app.commit("Begin")
    app.push("main")
    github.install(8, "acme", 70).add(801, "acme/app", str(app.bare))
    daemon.command("github", "bind", "8", "--org", client.org)
    until(lambda: daemon.json("repo", "list")[-1]["checked_at"], "the first look")
    report = partial(deliver, daemon, installation={"id": 8}, repository={"id": 801})

    def change(action: str, commit: str) -> None:
        base = {"id": 801, "clone_url": str(app.bare)}
        pull = {"title": "Change", "user": {"login": "eve"}, "base": {"ref": "main", "repo": base}}
        pull |= {"head": {"sha": commit, "ref": "topic", "repo": {"id": 900, "clone_url": "https://fork.example"}}}
        report("pull_request", action=action, number=1, pull_request=pull, sender={"login": "eve"})

    def propose(action: str, message: str) -> str:
        commit = app.commit(message)
        app.push("HEAD:refs/pull/1/head")
        change(action, commit)
        return commit

    def press(action: str, run: dict[str, Any], login: str, **fields: Any) -> None:
        report("check_run", action=action, check_run={"id": run["id"]}, sender={"login": login}, **fields)

    def log(number: int) -> str:
        return Build(client, f"pipelines/acme-app-ci/builds/{number}").log("look")

    ours = app.commit("Add a pipeline", **{".hm__pipeline.py": LOOK})
    app.push("main")
    report("push", ref="refs/heads/main", before=before, after=ours, sender={"login": "ann"})
    assert shown(github, ours, "completed")["conclusion"] == "success"
    assert "[***]" in log(1)

    first = propose("opened", "Try")
    waits = shown(github, first, "queued")
    assert waits["output"]["title"] == "Build 2 waits for an approval"
    assert "eve may not push to acme" in waits["output"]["summary"]
    assert [each["identifier"] for each in waits["actions"]] == ["approve"]

    second = propose("synchronize", "Try again")
    shown(github, first, "cancelled")
    waits = shown(github, second, "queued")
    for login in ("eve", "ann"):
        press("requested_action", waits, login, requested_action={"identifier": "approve"})
    passed = shown(github, second, "completed")
    assert (passed["id"], passed["conclusion"]) == (waits["id"], "success")
    assert client.get("pipelines/acme-app-ci/builds/3")["approved_by"] == "ann at github"
    assert "[none]" in log(3)

    press("rerequested", passed, "ann")
    again = shown(github, second, "completed", 1)
    assert (again["conclusion"], again["output"]["title"]) == ("success", "Build 4 passed")
    assert "[none]" in log(4)

    third = propose("synchronize", "And again")
    assert shown(github, third, "queued")["output"]["title"] == "Build 5 waits for an approval"
    change("closed", third)
    shown(github, third, "cancelled")


def test_a_repository_that_came_while_the_service_was_away(
    daemon: Daemon, client: Client, github: GithubServer, tmp_path: Path
):
    installed = github.install(9, "ada", 71, "User")
    daemon.command("github", "bind", "9", "--org", client.org)
    assert daemon.stop() == 0
    installed.add(901, "ada/new", str(GitRepository(tmp_path).bare))
    daemon.start()
    until(lambda: "ada/new" in [each["repo_name"] for each in daemon.json("repo", "list")], "the repository")


def test_a_revoked_token_of_fetches_is_replaced(
    daemon: Daemon, client: Client, github: GithubServer, https: LocalHost, tmp_path: Path
):
    repository = GitRepository(tmp_path, "secret")
    before = repository.commit("Begin", **{".hm__pipeline.py": PIPELINE, "check": "true\n"})
    repository.push("main")
    (https.folder / "acme").mkdir()
    (https.folder / "acme" / "secret.git").symlink_to(repository.bare)
    github.install(10, "acme", 70).add(1001, "acme/secret", f"{https.url}/acme/secret.git", private=True)
    daemon.command("github", "bind", "10", "--org", client.org)
    until(lambda: daemon.json("repo", "list")[-1]["checked_at"], "the first look")
    https.revoked |= https.git_passwords
    assert len(https.revoked) == 1

    commit = repository.commit("Change", check="echo changed\n")
    repository.push("main")
    moved = {"ref": "refs/heads/main", "before": before, "after": commit}
    deliver(daemon, "push", installation={"id": 10}, repository={"id": 1001}, sender={"login": "ann"}, **moved)
    assert shown(github, commit, "completed")["conclusion"] == "success"
