"""Merge queues at hosts, which take a push from a token that may push, and from no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from actors.repositories.commit_builds import CommitBuilds
from actors.repositories.settings import RepositorySettings
from actors.source_hosts import Github, GithubApi, RepositoryConnector
from actors.source_hosts.host import MOST_OPEN
from storage import MergeState, NewMerge, Repository, SystemClock
from tests.actors.repositories.test_merge_queue import Queue
from tests.clock import ManualClock
from tests.forges.bitbucket import WEB, BitbucketServer
from tests.forges.connected import forges
from tests.forges.deliveries import document
from tests.forges.forgejo import ForgejoServer
from tests.forges.gitlab import GitLabServer
from tests.forges.server import LocalHost, serving
from tests.forges.workspaces import opened
from tests.github_server import GithubServer

SERVICE = "https://ci.example.org"


@dataclass
class AtHost:
    """A queue of a repository at a host of one kind, which takes pushes with ``token``."""

    queue: Queue
    local: LocalHost
    token: Callable[[], str]
    forbid: Callable[[], None]
    """Takes the right to push from the service."""

    shown: Callable[[int, str, str], dict[str, Any]]
    """Describes an open pull request by its number, its branch and its head, as the host lists it."""

    pulls: list[dict[str, Any]]
    """The open pull requests of the host, the one that changed last first."""

    def passed(self, name: str = "a") -> str:
        """Return the state of a branch that was queued and whose builds have passed, and its reason."""
        (entry,) = self.queue.add(name)
        self.queue.look()
        self.queue.end(entry)
        self.queue.look()
        now = self.queue.now(entry)
        return f"{now.state}: {now.reason}"


def at_forge(kind: str, server: ForgejoServer | GitLabServer, queue: Queue, local: LocalHost) -> Repository:
    hosts = forges(queue.storage, local)
    queue.hosts[kind] = hosts[kind]
    url, connector = f"{local.url}/{server.path}", RepositoryConnector(queue.storage, hosts, SERVICE)
    return connector.connect(queue.repository.organization_id, url=url, token=server.token)[0]


def at_bitbucket(server: BitbucketServer, queue: Queue, local: LocalHost) -> Repository:
    connected = opened(queue.storage, ManualClock(), local, server)
    queue.hosts["bitbucket"] = connected.host
    connected.workspaces.connect(queue.repository.organization_id, server.code)
    connected.process()
    return next(each for each in queue.storage.repositories.all() if each.provider == "bitbucket")


def at_github(server: GithubServer, queue: Queue, local: LocalHost, folder: Path) -> Repository:
    url = f"{local.url}/acme/web.git"
    server.install(7, "acme", 70).add(701, "acme/web", url, private=not local.public)
    settings, clock = server.settings(folder / "app.pem"), ManualClock(SystemClock().now())
    host = Github(queue.storage, settings, GithubApi(settings, clock), sign_in_proves=True)
    queue.hosts["github"] = host
    connection = host.installations.bind(queue.repository.organization_id, 7, None)
    return queue.storage.repositories.of_connection(connection.id)[0]


def as_forgejo(server: Any, number: int, branch: str, head: str) -> dict[str, Any]:
    found: dict[str, Any] = document("forgejo-pull-request")["pull_request"]
    repository = {**found["base"]["repo"], "id": server.id}
    sides = {"base": ("main", "0" * 39 + "1"), "head": (branch, head)}
    both = {
        side: {**found[side], "ref": ref, "label": ref, "sha": commit, "repo_id": server.id, "repo": repository}
        for side, (ref, commit) in sides.items()
    }
    return {**found, "number": number, **both}


def as_gitlab(server: GitLabServer, number: int, branch: str, head: str) -> dict[str, Any]:
    found: dict[str, Any] = document("gitlab-open-merge-request")
    return found | {
        "iid": number,
        "sha": head,
        "source_branch": branch,
        "source_project_id": server.id,
        "target_project_id": server.id,
    }


def as_bitbucket(number: int, branch: str, head: str) -> dict[str, Any]:
    found: dict[str, Any] = document("bitbucket-pull-request")["pullrequest"]
    repository = {**found["destination"]["repository"], "uuid": WEB, "full_name": "acme/web"}
    source = {"branch": {"name": branch}, "commit": {"hash": head[:12]}, "repository": repository}
    return found | {"id": number, "source": source, "destination": {**source, "branch": {"name": "main"}}}


def as_github(url: str, number: int, branch: str, head: str) -> dict[str, Any]:
    repository = {"id": 701, "clone_url": url}
    both = {"head": {"ref": branch, "sha": head, "repo": repository}, "base": {"ref": "main", "repo": repository}}
    return {"number": number, "state": "open", "title": "T", "user": {"login": "ann"}, "draft": False, **both}


@pytest.fixture(params=["forgejo", "gitea", "gitlab", "bitbucket", "github", "public github"])
def at_host(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AtHost]:
    kind: str = request.param
    with ExitStack() as closing:
        servers = {"gitlab": GitLabServer, "bitbucket": BitbucketServer}
        server = servers[kind]() if kind in servers else ForgejoServer("gitea" if kind == "gitea" else "forgejo")
        local = closing.enter_context(serving(server, tmp_path / "host"))
        queue = Queue(tmp_path, RepositorySettings(ca_file=local.ca_file))
        queue.storage.repositories.remove(queue.repository)
        closing.callback(queue.storage.close)
        monkeypatch.setattr(CommitBuilds, "declared", queue.declared)
        path = server.path if isinstance(server, ForgejoServer | GitLabServer) else "acme/web"
        served = local.folder / f"{path}.git"
        served.parent.mkdir(parents=True)
        served.symlink_to(queue.remote.bare)
        local.may_push = lambda password: password == made.token()
        forbid = partial(setattr, local, "may_push", lambda _: False)
        made = AtHost(queue, local, lambda: "", forbid, partial(as_forgejo, server), server.pulls)
        if isinstance(server, BitbucketServer):
            queue.repository = at_bitbucket(server, queue, local)
            made.token, made.shown = lambda: server.access_token, as_bitbucket
        elif "github" in kind:
            local.public = kind.startswith("public")
            github = closing.enter_context(GithubServer.serving())
            queue.repository = at_github(github, queue, local, tmp_path)
            local.may_push = github.may_push
            made.token = lambda: next(each for each in github.tokens if github.may_push(each))
            made.forbid = partial(setattr, github.installations[7], "contents", "read")
            made.shown, made.pulls = partial(as_github, queue.repository.url), github.pulls
        else:
            queue.repository = at_forge(kind, server, queue, local)
            made.token = lambda: server.token
            if isinstance(server, GitLabServer):
                made.shown = partial(as_gitlab, server)
        queue.check()
        yield made


def test_a_token_that_may_not_push_throws_out_in_words(at_host: AtHost):
    at_host.forbid()
    said = at_host.passed()
    assert said.startswith("thrown_out: the host refuses the push to refs/heads/main: ")
    assert "the right to push there, then add it again" in said
    assert at_host.queue.main == at_host.queue.begin
    assert at_host.local.pushed_with == []


@pytest.mark.parametrize("at_host", ["github", "public github"], indirect=True)
def test_a_token_that_was_revoked_is_replaced(at_host: AtHost):
    """A token for pushes is kept for an hour, as one for fetches is."""
    assert at_host.passed("a").startswith("landed")
    at_host.local.revoked |= at_host.local.git_passwords
    assert at_host.passed("b").startswith("landed")


def test_a_pull_request_lands_that_changed_long_ago(at_host: AtHost):
    """A host lists those that changed last, and shows any by its number, also one that was closed."""
    queue, head = at_host.queue, at_host.queue.branch("topic")
    at_host.pulls += [at_host.shown(each, f"other-{each}", head) for each in range(100, 100 + MOST_OPEN)]
    at_host.pulls += [at_host.shown(7, "topic", head), at_host.shown(8, "topic", head) | {"state": "merged"}]
    add = queue.storage.merge_queues.add
    entries = [add(queue.repository, NewMerge(pull_request=each), "ann") for each in (7, 8, 9)]
    queue.look()
    assert queue.states(entries) == ["building", "left", "left"], queue.now(entries[0]).reason
    assert (queue.now(entries[0]).name, queue.now(entries[0]).head) == ("topic (#7)", head)
    queue.end(entries[0])
    queue.look()
    assert queue.now(entries[0]).state is MergeState.LANDED, queue.now(entries[0]).reason
    assert queue.main == queue.now(entries[0]).merge_commit
    assert set(at_host.local.pushed_with) == {at_host.token()}
