"""A connected repository on this host, and what builds its pushes, without any actor."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path

from actors import JobSettings, PoolSettings
from actors.addresses import Address
from actors.log_watchers import LogWatchers
from actors.repositories.commit_builds import CommitBuilds, CommitParts
from actors.repositories.pull_requests import PullRequestBuilds
from actors.repositories.pushes import PushBuilds
from actors.repositories.settings import RepositorySettings
from actors.settings import LiveSettings
from actors.source_hosts import PlainGit
from actors.source_hosts.host import HostError, HostEvent, PullRequest, SourceHost
from storage import (
    Declaration,
    DeclaringRepository,
    Delivery,
    NewHostConnection,
    Pipeline,
    RemoteRepository,
    Repository,
    Storage,
)
from tests.actors.conftest import discovery_in, images_in_memory, settings_with
from tests.clock import ManualClock
from tests.git_repository import GitRepository
from tests.memory.provider import MemoryProvider, only
from tests.records import new_owner
from tests.state import new_storage

_DEFAULTS = RepositorySettings()


class _Host(PlainGit):
    """A host whose deliveries are changes of pull requests, with some that are ``open``, or an error."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.open: list[PullRequest] | HostError = []

    def events(self, delivery: Delivery) -> tuple[HostEvent, ...]:
        return (PullRequest(**json.loads(delivery.body)),)

    def open_pull_requests(self, repository: Repository, number: int | None = None) -> list[PullRequest]:
        if isinstance(self.open, HostError):
            raise self.open
        return [each for each in self.open if number in {None, each.number}]


class World:
    """A repository with pull requests of strangers, which wait, so that nothing is rendered."""

    def __init__(self, folder: Path, repositories: RepositorySettings = _DEFAULTS) -> None:
        self.clock = ManualClock()
        self.storage = new_storage(folder / "state", self.clock)
        self.remote = GitRepository(folder / "git")
        self.remote.commit("Begin")
        self.remote.push("main")
        organization_id = new_owner(self.storage).organization.id
        self.repository = self.storage.repositories.connect(organization_id, str(self.remote.bare), "acme/web", 86_400)
        self.pipeline = self.declare()
        settings = replace(settings_with(PoolSettings(), JobSettings()), repositories=repositories)
        live_settings = LiveSettings(settings)
        self.host = _Host(self.storage)
        self.hosts: dict[str, SourceHost] = {"git": self.host, "forgejo": self.host}
        images = images_in_memory(folder / "images")
        parts = CommitParts(
            storage=self.storage,
            clock=self.clock,
            discovery=discovery_in(self.storage, only(MemoryProvider(images)), images, self.clock, live_settings),
            live_settings=live_settings,
            root=Address(),
            hosts=self.hosts,
        )
        self.pull_requests = PullRequestBuilds(parts, CommitBuilds(parts))
        self.pushes = PushBuilds(parts, folder / "mirrors", LogWatchers())
        self.names = count()

    def declare(self) -> Pipeline:
        """Return the pipeline that the repository declares, made if it is not known."""
        return self.storage.declarations.register(
            DeclaringRepository(self.repository.organization_id, "acme/web", self.repository.url),
            "ci",
            "main",
            Declaration("ci", allow_manual=True, triggers=({"event": "pull_request", "branches": ["main"]},)),
        )

    def connect_at_host(self) -> None:
        """Connect the repository at its host, which reports its pull requests from then on."""
        new = NewHostConnection(self.repository.organization_id, "forgejo", "1", "ci-bot", "token", "acme/web", b"")
        described = RemoteRepository("1", self.repository.url, "acme/web", "main", private=True)
        connection = self.storage.host_connections.connect(new)
        self.repository = self.storage.repositories.put_remote(connection, described)
        self.storage.repository_checks.hasten(self.repository.id)

    def change(self, commit: str, number: int = 1, action: str = "opened") -> PullRequest:
        """Return a change of a pull request from a fork."""
        return PullRequest(
            number=number,
            action=action,
            title="Change",
            head_commit=commit,
            head_ref=f"refs/pull/{number}/head",
            url=self.repository.url,
            branch="topic",
            target_branch="main",
            from_fork=True,
            author="eve",
        )

    def report(self, commit: str, number: int = 1, action: str = "opened") -> None:
        """Receive a report of a change."""
        body = json.dumps(asdict(self.change(commit, number, action))).encode()
        self.storage.deliveries.receive(
            self.repository.provider, "pull_request", str(next(self.names)), self.repository, body
        )

    def arrive(self, commit: str, number: int = 1) -> None:
        """Let a commit be the head of a pull request."""
        self.remote.push("--force", f"{commit}:refs/pull/{number}/head")

    def check(self) -> list[str | None]:
        """Check the repository while it is due; return the commits that were built so far, oldest first."""
        while due := self.storage.repository_checks.due(1):
            self.pushes.check(due[0])
        return self.built()

    def built(self) -> list[str | None]:
        """Return the commits that were built so far, oldest first."""
        return [each.commit for each in reversed(self.storage.builds.page(self.pipeline.id, 100, None).rows)]

    def reported(self, number: int = 0) -> Delivery:
        """Return a report by its place in the order of arrival."""
        return self.storage.deliveries.latest(100)[-1 - number]
