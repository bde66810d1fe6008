"""A push at Forgejo, GitLab and Bitbucket: its build, the status there, and a failure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.daemon import Client, Daemon
from tests.forges.bitbucket import CLIENT, WEB, BitbucketServer
from tests.forges.forgejo import ForgejoServer
from tests.forges.gitlab import GitLabServer
from tests.forges.server import Asked, LocalHost, Reply, serving
from tests.git_repository import GitRepository
from tests.waiting import until

PIPELINE = """
import harmont as hm

@hm.pipeline("ci", triggers=[hm.push(branch="main")])
def ci():
    return hm.sh("test -e good", label="look")
"""
ZERO = "0" * 40


@dataclass
class AllHosts:
    """Three hosts at one address."""

    forgejo: ForgejoServer = field(default_factory=ForgejoServer)
    gitlab: GitLabServer = field(default_factory=GitLabServer)
    bitbucket: BitbucketServer = field(default_factory=lambda: BitbucketServer("team", {WEB: "web"}))

    def answer(self, asked: Asked) -> Reply:
        if asked.path.startswith("/api/v4/"):
            return self.gitlab.answer(asked)
        return (self.bitbucket if asked.path.startswith(("/2.0/", "/site/")) else self.forgejo).answer(asked)

    def push(self, kind: str, ref: str, old: str, new: str) -> tuple[dict[str, str], bytes]:
        """Return the delivery of a push."""
        moved = {"ref": ref, "before": old, "after": new}
        if kind == "forgejo":
            body = json.dumps({**moved, "repository": {"id": self.forgejo.id}, "pusher": {"login": "ann"}}).encode()
            return self.forgejo.headers("push", body, new), body
        if kind == "gitlab":
            body = json.dumps({**moved, "project": {"id": self.gitlab.id}, "user_username": "ann"}).encode()
            return self.gitlab.headers("Push Hook", new), body
        head = {"type": "branch", "name": ref.removeprefix("refs/heads/"), "target": {"hash": new}}
        pushed = {"changes": [{"old": {**head, "target": {"hash": old}}, "new": head}]}
        repository = {"uuid": WEB, "full_name": "team/web"}
        body = json.dumps({"repository": repository, "push": pushed, "actor": {"nickname": "ann"}}).encode()
        return self.bitbucket.headers("repo:push", body, request=new), body

    def states(self, kind: str) -> dict[str, str]:
        """Return the last state of each commit."""
        key = "commit" if kind == "bitbucket" else "sha"
        servers = {"forgejo": self.forgejo, "gitlab": self.gitlab, "bitbucket": self.bitbucket}
        return {each[key]: each["state"] for each in servers[kind].statuses}


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


def connect(client: Client, daemon: Daemon, local: LocalHost, hosts: AllHosts, kind: str) -> None:
    """Connect the host's repository, and wait for the first look at it."""
    if kind == "bitbucket":
        url = client.get("bitbucket/oauth-url")["url"]
        state = url.rpartition("state=")[2]
        body: dict[str, Any] = {"code": hosts.bitbucket.code, "state": state}
        assert client.request("POST", "/api/v0/integrations/bitbucket/connect", json=body).status_code == 201
        until(lambda: hosts.bitbucket.hooks.get("team/web"), "the webhook", 30)
    else:
        server = hosts.forgejo if kind == "forgejo" else hosts.gitlab
        body = {"url": f"{local.url}/{server.path}", "token": server.token, "provider": kind}
        answered = client.request("POST", "repos/connect", json=body)
        assert answered.status_code == 201, answered.text

    def looked() -> bool:
        return any(each["provider"] == kind and each["checked_at"] for each in daemon.json("repo", "list"))

    until(looked, "the first look", 60)


@pytest.mark.parametrize("kind", ["forgejo", "gitlab", "bitbucket"])
def test_a_push_is_built_and_its_state_is_shown(
    daemon: Daemon, client: Client, local: LocalHost, tmp_path: Path, kind: str
):
    hosts = local.host
    assert isinstance(hosts, AllHosts)
    path = {"forgejo": hosts.forgejo.path, "gitlab": hosts.gitlab.path, "bitbucket": "team/web"}[kind]
    repository = GitRepository(tmp_path)
    before = repository.commit("Begin", **{".hm__pipeline.py": PIPELINE})
    repository.push("main")
    served = local.folder / f"{path}.git"
    served.parent.mkdir(parents=True, exist_ok=True)
    served.symlink_to(repository.bare)
    connect(client, daemon, local, hosts, kind)

    good, bad = {"forgejo": ("success", "failure"), "gitlab": ("success", "failed")}.get(kind, ("SUCCESSFUL", "FAILED"))
    for files, state in (({"good": "1"}, good), ({}, bad)):
        if not files:
            repository.git("rm", "--quiet", "good")
        commit = repository.commit("Change", **files)
        repository.push("main")
        headers, body = hosts.push(kind, "refs/heads/main", before, commit)
        assert local.deliver(f"{daemon.url}/webhooks/{kind}", headers, body).status_code == 202
        until(lambda commit=commit, state=state: hosts.states(kind).get(commit) == state, f"{state} of {commit}", 90)
        before = commit
    tokens = {"forgejo": hosts.forgejo.token, "gitlab": hosts.gitlab.token, "bitbucket": hosts.bitbucket.access_token}
    assert tokens[kind] in local.git_passwords
