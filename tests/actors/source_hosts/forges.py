"""A forge on the loopback and a connected repository there, of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.source_hosts import ForgeHost, RepositoryConnector
from actors.source_hosts.host import Report, ReportState
from storage import NewBuild, NewOrigin, NewPipeline, OriginEvent, Repository, Storage
from tests.forges.connected import forges
from tests.forges.deliveries import changed
from tests.forges.forgejo import ForgejoServer
from tests.forges.gitlab import GitLabServer
from tests.forges.server import LocalHost, serving
from tests.records import new_job

SERVICE = "https://ci.example.org"
KINDS = ("forgejo", "gitea", "gitlab")
COMMIT = "c0ffee" * 6 + "c0ff"


@dataclass
class Forged:
    """A forge of one kind, and what connects its repositories."""

    kind: str
    server: ForgejoServer | GitLabServer
    local: LocalHost
    storage: Storage
    hosts: dict[str, ForgeHost]
    connector: RepositoryConnector

    @property
    def host(self) -> ForgeHost:
        return self.hosts[self.kind]

    @property
    def url(self) -> str:
        """The address of the repository's page."""
        root = self.server.root if isinstance(self.server, ForgejoServer) else ""
        return f"{self.local.url}{root}/{self.server.path}"

    def connect(self, organization_id: int, **given: Any) -> Repository:
        arguments = {"url": self.url, "token": self.server.token, **given}
        return self.connector.connect(organization_id, **arguments)[0]

    def push(self, **changes: Any) -> tuple[dict[str, str], bytes]:
        """Return the headers and the body of the delivery of a push, as the forge signs it."""
        if isinstance(self.server, GitLabServer):
            body = changed("gitlab-push", {"project.id": self.server.id, **changes})
            headers = self.server.headers("Push Hook")
        else:
            body = changed("forgejo-push", {"repository.id": self.server.id, **changes})
            headers = self.server.headers("push", body)
        return {name.upper(): value for name, value in headers.items()}, body


@contextmanager
def forged(kind: str, storage: Storage, folder: Path, **of_server: Any) -> Iterator[Forged]:
    """Serve a forge of one kind."""
    server = GitLabServer(**of_server) if kind == "gitlab" else ForgejoServer(kind, **of_server)
    with serving(server, folder) as local:
        hosts = forges(storage, local)
        yield Forged(kind, server, local, storage, hosts, RepositoryConnector(storage, hosts, SERVICE))


def report(storage: Storage, repository: Repository, state: ReportState = ReportState.PASSED) -> Report:
    """Return the report of a new build of a push."""
    pipeline = storage.pipelines.by_slug(repository.organization_id, "ci") or storage.pipelines.create(
        repository.organization_id, NewPipeline("ci", "CI", repository.url, "main")
    )
    build = storage.builds.create(pipeline, NewBuild("main", COMMIT), [new_job()])
    origin = NewOrigin(repository.id, OriginEvent.PUSH, "refs/heads/main")
    storage.build_origins.record(build.id, origin, reports=True)
    recorded = storage.build_origins.get(build.id)
    assert recorded is not None
    return Report(state, build, recorded, f"https://ci.example.org/acme/pipelines/ci/builds/{build.number}")
