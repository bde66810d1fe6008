"""A GitHub app at a local server, with one installation that an organization has bound."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from actors.source_hosts import Github, GithubApi
from storage import HostConnection, Repository, Storage, SystemClock
from tests.clock import ManualClock
from tests.github_server import GithubServer
from tests.records import new_owner


@dataclass
class App:
    """The app, and GitHub behind it."""

    host: Github
    api: GithubApi
    server: GithubServer
    storage: Storage
    organization_id: int

    def bound(self) -> HostConnection:
        return self.host.installations.bind(self.organization_id, 7, None)

    def repositories(self) -> list[Repository]:
        return self.storage.repositories.of_organization(self.organization_id)

    def deliver(self, event: str, **payload: Any) -> None:
        """Handle a delivery of the installation that has no repository yet."""
        body = json.dumps({"installation": {"id": 7}, **payload}).encode()
        self.storage.deliveries.receive("github", event, f"{event}-{len(self.server.asked)}", None, body)
        assert self.process() == 1

    def process(self) -> int:
        """Handle the deliveries that wait without a repository; return their number."""
        number = 0
        while (delivery := self.storage.deliveries.next_unassigned("github")) is not None:
            self.host.handle(delivery)
            self.storage.deliveries.handled(delivery)
            number += 1
        return number


@pytest.fixture
def server() -> Iterator[GithubServer]:
    with GithubServer.serving() as server:
        server.install(7, "acme", 70).add(701, "acme/web", "https://github.example/acme/web.git")
        yield server


@pytest.fixture
def clock() -> ManualClock:
    """A clock that begins now, because GitHub's answers name moments of the host's."""
    return ManualClock(SystemClock().now())


@pytest.fixture
def app(storage: Storage, server: GithubServer, clock: ManualClock, tmp_path: Path) -> App:
    settings = server.settings(tmp_path / "app.pem")
    api = GithubApi(settings, clock)
    return App(
        Github(storage, settings, api, sign_in_proves=True), api, server, storage, new_owner(storage).organization.id
    )
