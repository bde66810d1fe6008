"""Pushes and pull requests at Forgejo, GitLab and Bitbucket: their builds, and the states there."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.e2e.daemon import Client, Daemon
from tests.forges.all_hosts import EVE, AllHosts, Kind, Report
from tests.forges.bitbucket import CLIENT
from tests.forges.server import LocalHost, serving
from tests.git_repository import GitRepository
from tests.waiting import until

PIPELINE = """
import harmont as hm

@hm.pipeline("ci", triggers=[hm.push(branch="main"), hm.pull_request(branches="main")])
def ci():
    of_good = {"paths": ["good"]}
    return hm.scratch().sh("test -e good", key="look", label="look", image="debian:12", runner_args=of_good)
"""
GOOD = {"forgejo": "success", "gitlab": "success", "bitbucket": "SUCCESSFUL"}
BAD = {"forgejo": "failure", "gitlab": "failed", "bitbucket": "FAILED"}
WAITING = {"forgejo": "pending", "gitlab": "pending", "bitbucket": "INPROGRESS"}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHost]:
    with serving(AllHosts(), tmp_path_factory.mktemp("hosts")) as local:
        yield local


@pytest.fixture(scope="module")
def settings(settings: dict[str, str], local: LocalHost) -> dict[str, str]:
    return settings | {
        "CI_DAEMON_REPOSITORIES_CA_FILE": str(local.ca_file),
        "CI_DAEMON_REPOSITORIES_NETWORKS": '["127.0.0.0/8", "::1/128"]',
        "CI_DAEMON_BITBUCKET_CLIENT_ID": CLIENT[0],
        "CI_DAEMON_BITBUCKET_CLIENT_SECRET": CLIENT[1],
        "CI_DAEMON_BITBUCKET_URL": local.url,
        "CI_DAEMON_BITBUCKET_API_URL": f"{local.url}/2.0",
    }


@dataclass
class Site:
    """A repository at one kind of host that a client has connected, with a first commit."""

    kind: Kind
    hosts: AllHosts
    local: LocalHost
    client: Client
    repository: GitRepository
    open_before: str = ""
    """The head of a pull request from a fork that was open when the repository was connected."""

    @property
    def page(self) -> str:
        return f"pipelines/{'-'.join(self.hosts.path(self.kind).split('/')[-2:])}-ci/builds"

    def report(self, report: Report) -> None:
        """Report something to the service."""
        headers, body = report
        answered = self.local.deliver(f"{self.client.daemon.url}/webhooks/{self.kind}", headers, body)
        assert answered.status_code == 202, answered.text

    def push(self, **files: str) -> str:
        """Push a commit to main, and report it; return the commit."""
        before = self.repository.git("rev-parse", "origin/main")
        commit = self.repository.commit("Change", **files)
        self.repository.push("main")
        self.report(self.hosts.push(self.kind, "refs/heads/main", before, commit))
        return commit

    def fork(self, number: int) -> str:
        """Push the only commit of a pull request from a fork, which is good; return it."""
        path, ref = self.hosts.fork(self.kind, number)
        commit = self.repository.commit(f"Pull request {number}", good=str(number))
        self.repository.git("push", "--quiet", str(self.local.folder / f"{path}.git"), f"HEAD:{ref}")
        return commit

    def open_pull_request(self, number: int, author: Any) -> str:
        """Open a pull request from a fork; return its commit."""
        commit = self.fork(number)
        self.report(self.hosts.pull_request(self.kind, number, author, commit))
        return commit

    def listed(self) -> Any:
        """Return the repository as it is listed; None until it is connected."""
        listed = self.client.daemon.json("repo", "list")
        return next((each for each in listed if each["provider"] == self.kind), None)

    def shows(self, commit: str, state: str) -> str:
        """Wait until the host shows a state of a commit; return its description."""

        def look() -> str | None:
            told = self.hosts.told(self.kind, commit)
            return told[-1][1] if told and told[-1][0] == state else None

        return until(look, f"{state} of {commit}", 90)


@pytest.fixture(scope="module", params=["forgejo", "gitlab", "bitbucket"])
def site(
    request: pytest.FixtureRequest, daemon: Daemon, local: LocalHost, tmp_path_factory: pytest.TempPathFactory
) -> Site:
    kind, hosts = request.param, local.host
    assert isinstance(hosts, AllHosts)
    repository = GitRepository(tmp_path_factory.mktemp(kind))
    repository.commit("Begin", **{".hm__pipeline.py": PIPELINE})
    repository.push("main")
    for path in {hosts.path(kind), hosts.fork(kind, 1)[0]}:
        served = local.folder / f"{path}.git"
        served.parent.mkdir(parents=True, exist_ok=True)
        if path == hosts.path(kind):
            served.symlink_to(repository.bare)
        else:
            repository.git("clone", "--quiet", "--bare", str(repository.bare), str(served))
    made = Site(kind, hosts, local, Client.create(daemon, f"{kind}@example.org"), repository)
    made.open_before = made.fork(9)
    hosts.show_open(kind, 9, "ann", made.open_before)
    repository.git("reset", "--quiet", "--hard", "origin/main")
    _connect(made)
    return made


def _connect(site: Site) -> None:
    """Connect the host's repository, and wait for the first look at it."""
    client, hosts, kind = site.client, site.hosts, site.kind
    if kind == "bitbucket":
        url = client.get("bitbucket/oauth-url")["url"]
        state = url.rpartition("state=")[2]
        body: dict[str, Any] = {"code": hosts.bitbucket.code, "state": state}
        assert client.request("POST", "/api/v0/integrations/bitbucket/connect", json=body).status_code == 201
        until(lambda: hosts.bitbucket.hooks.get("team/web"), "the webhook")
    else:
        body = {"url": f"{site.local.url}/{hosts.path(kind)}", "token": hosts.secret(kind), "provider": kind}
        answered = client.request("POST", "repos/connect", json=body)
        assert answered.status_code == 201, answered.text

    until(lambda: site.listed() and site.listed()["checked_at"], "the first look", 60)


def test_a_push_is_built_and_its_state_is_shown(site: Site):
    site.shows(site.push(good="1"), GOOD[site.kind])
    site.repository.git("rm", "--quiet", "good")
    site.shows(site.push(), BAD[site.kind])
    assert site.hosts.secret(site.kind) in site.local.git_passwords


def test_a_pull_request_of_before_the_connection_is_built(site: Site):
    """The push of the test before declares its pipeline. The host does not say who pushed, so it waits."""
    assert site.shows(site.open_before, WAITING[site.kind]).endswith("waits for an approval")
    assert [each["commit"] for each in site.client.get(site.page)["data"]].count(site.open_before) == 1


def test_a_pull_request_of_a_stranger_waits_for_an_approval(site: Site):
    """It needs the pipelines of the test before, because a fork makes none."""
    commit = site.open_pull_request(1, "eve")
    assert site.shows(commit, WAITING[site.kind]).endswith("waits for an approval")
    latest = site.client.get(site.page)["data"][0]
    author = EVE if site.kind == "bitbucket" else "eve"
    repo_name = "/".join(site.hosts.path(site.kind).split("/")[-2:])
    assert latest["commit"] == commit
    assert latest["pending_reason"] == f"waiting for approval: {author} may not push to {repo_name}"
    approved = site.client.request("POST", f"{site.page}/{latest['number']}/approve")
    assert approved.status_code == 200, approved.text
    site.shows(commit, GOOD[site.kind])


def test_a_pull_request_of_a_member_is_built_at_once(site: Site):
    commit = site.open_pull_request(2, "ann")
    site.shows(commit, GOOD[site.kind])
    assert not [each for _, each in site.hosts.told(site.kind, commit) if "approval" in each]


def test_a_build_by_name_is_shown_at_its_commit(site: Site):
    """The push of a test before declares its pipeline; no trigger wants the branch."""
    site.repository.git("reset", "--quiet", "--hard", "origin/main")
    commit = site.repository.commit("Aside", good="aside")
    site.repository.push("HEAD:aside")
    started = site.client.request("POST", f"{site.page.removesuffix('/builds')}/start", json={"ref": "aside"})
    assert started.status_code in {200, 201, 202}, started.text
    site.shows(commit, GOOD[site.kind])


@pytest.mark.parametrize("site", ["forgejo"], indirect=True)
def test_an_untouched_folder_merges_with_a_required_check(site: Site):
    """The host merges what has `ci-daemon` as a success alone; no pipeline has the folder in its paths."""
    forgejo, repository = site.hosts.forgejo, site.repository
    forgejo.bare = repository.bare
    rule = {"rule_name": "main", "enable_status_check": True, "status_check_contexts": ["ci-daemon"]}
    assert _asked(site, "branch_protections", **rule) == 201

    def opened(number: int, change: str) -> str:
        repository.git("push", "--quiet", "origin", f"{change}:refs/pull/{number}/head")
        site.hosts.show_open("forgejo", number, "ann", change)
        assert _asked(site, f"pulls/{number}/merge", Do="merge") == 405, "nothing is reported yet"
        site.report(site.hosts.pull_request("forgejo", number, "ann", change))
        return change

    repository.git("reset", "--quiet", "--hard", "origin/main")
    main = repository.git("rev-parse", "HEAD")
    docs = opened(71, repository.commit("Explain", docs__guide="how\n"))
    until(lambda: _asked(site, "pulls/71/merge", Do="merge") == 200, "the merge", 60)
    assert repository.git("ls-remote", "origin", "refs/heads/main").split()[0] == docs != main
    assert docs not in [each["commit"] for each in site.client.get(site.page)["data"]]
    (told,) = {
        each["description"] for each in forgejo.statuses if (each["sha"], each["context"]) == (docs, "ci-daemon")
    }
    assert told.startswith("Skipped: ")

    (repository.path / "good").unlink(missing_ok=True)
    (repository.path / "good").symlink_to("nowhere")
    bad = opened(72, repository.commit("Break"))
    site.shows(bad, BAD["forgejo"])
    assert _asked(site, "pulls/72/merge", Do="merge") == 405
    forgejo.protections.clear()
    repository.git("fetch", "--quiet", "origin")
    repository.git("reset", "--quiet", "--hard", "origin/main")


def _asked(site: Site, below: str, **body: Any) -> int:
    """Ask the host, as a maintainer does; return its status."""
    url = f"{site.local.url}/api/v1/repos/{site.hosts.forgejo.path}/{below}"
    token = {"Authorization": f"token {site.hosts.forgejo.token}"}
    return httpx.post(
        url, json=body, headers=token, verify=ssl.create_default_context(cafile=site.local.ca_file)
    ).status_code


@pytest.mark.parametrize("site", ["forgejo", "gitlab"], indirect=True)
def test_a_revoked_token_is_said_and_replaced(site: Site):
    server = site.hosts.forgejo if site.kind == "forgejo" else site.hosts.gitlab
    site.local.revoked.add(server.token)
    server.token = f"{server.token}-renewed"
    commit = site.push(good="renewed")
    until(lambda: site.listed()["last_error"], "the error", 60)
    said = site.listed()["last_error"]
    assert "the token: give others with `ci-daemon repo edit`, or another token with `ci-daemon repo connect`" in said
    failing = site.client.daemon.json("status")["repositories"]
    assert {"url": site.listed()["url"], "last_error": said} in failing
    _connect(site)
    site.shows(commit, GOOD[site.kind])
    assert site.listed()["last_error"] is None
