"""Merge queues at hosts, which take a push from a token that may push, and from no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from actors.repositories.commit_builds import CommitBuilds
from actors.repositories.settings import RepositorySettings
from actors.source_hosts import Github, GithubApi, RepositoryConnector
from storage import Repository, SystemClock
from tests.actors.repositories.test_merge_queue import Queue
from tests.clock import ManualClock
from tests.forges.bitbucket import BitbucketServer
from tests.forges.connected import forges
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
        made = AtHost(queue, local, lambda: "", lambda: setattr(local, "may_push", lambda _: False))
        if isinstance(server, BitbucketServer):
            queue.repository = at_bitbucket(server, queue, local)
            made.token = lambda: server.access_token
        elif "github" in kind:
            local.public = kind.startswith("public")
            github = closing.enter_context(GithubServer.serving())
            queue.repository = at_github(github, queue, local, tmp_path)
            local.may_push = github.may_push
            made.token = lambda: next(each for each in github.tokens if github.may_push(each))
            made.forbid = lambda: setattr(github.installations[7], "contents", "read")
        else:
            queue.repository = at_forge(kind, server, queue, local)
            made.token = lambda: server.token
        queue.check()
        yield made


def test_the_token_of_the_service_pushes_what_was_built(at_host: AtHost):
    assert at_host.passed().startswith("landed")
    assert set(at_host.local.pushed_with) == {at_host.token()}


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
