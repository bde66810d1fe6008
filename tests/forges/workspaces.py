"""Bitbucket as the service uses it, with a server for tests behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from actors.source_hosts import Bitbucket, BitbucketApi, BitbucketSettings, WebhookSecrets, Workspaces
from storage import Clock, HostConnection, NewHostConnection, RemoteRepository, Repository, Storage
from tests.forges.bitbucket import CLIENT, BitbucketServer
from tests.forges.server import LocalHost, serving

WEBHOOK = "https://ci.example.org/webhooks/bitbucket"


@dataclass
class Connected:
    """Bitbucket, its server, and what connects workspaces."""

    server: BitbucketServer
    local: LocalHost
    storage: Storage
    host: Bitbucket
    workspaces: Workspaces

    def connect(self, organization_id: int) -> Repository:
        """Connect the workspace, with what is done in the background; return its first repository."""
        self.workspaces.connect(organization_id, self.server.code)
        self.process()
        return self.storage.repositories.of_organization(organization_id)[0]

    def process(self) -> None:
        """Do what is planned, as the service does in the background."""
        while (planned := self.storage.deliveries.next_unassigned("bitbucket")) is not None:
            self.host.handle(planned)
            self.storage.deliveries.handled(planned)


@contextmanager
def bitbucket(storage: Storage, clock: Clock, folder: Path, server: BitbucketServer) -> Iterator[Connected]:
    """Serve Bitbucket."""
    with serving(server, folder) as local:
        yield opened(storage, clock, local, server)


def opened(storage: Storage, clock: Clock, local: LocalHost, server: BitbucketServer) -> Connected:
    """Return Bitbucket at a server."""
    settings = BitbucketSettings(*CLIENT, url=local.url, api_url=f"{local.url}/2.0")
    api, secrets = BitbucketApi(settings, local.network()), WebhookSecrets(storage)
    workspaces = Workspaces(storage, api, secrets, clock, WEBHOOK)
    return Connected(server, local, storage, Bitbucket(storage, api, secrets, workspaces), workspaces)


def workspace(storage: Storage, organization_id: int) -> HostConnection:
    """Return a workspace that is connected, with a repository, without asking Bitbucket."""
    new = NewHostConnection(organization_id, "bitbucket", "{acme}", "acme", "workspace", "Acme", b"")
    connection = storage.host_connections.connect(new)
    remote = RemoteRepository("{web}", "https://bitbucket.org/acme/app.git", "acme/app", "main", private=True)
    storage.repositories.put_remote(connection, remote)
    return connection
