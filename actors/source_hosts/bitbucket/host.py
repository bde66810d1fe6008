"""Bitbucket, as the rest of the service sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.source_hosts.bitbucket.payloads import events, open_pull_requests, repository_uuid
from actors.source_hosts.bitbucket.workspaces import BITBUCKET
from actors.source_hosts.commit_status import commit_status
from actors.source_hosts.delivery_headers import required
from actors.source_hosts.host import HostError, HostNotConfigured
from actors.source_hosts.webhook_secrets import Claim, is_signed
from storage import GitCredential

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.source_hosts.bitbucket.api import BitbucketApi
    from actors.source_hosts.bitbucket.workspaces import Workspaces
    from actors.source_hosts.host import HostEvent, PullRequest, Received, Report
    from actors.source_hosts.webhook_secrets import WebhookSecrets
    from storage import Delivery, Repository, Storage


class Bitbucket:
    """The `SourceHost` of the repositories of connected workspaces."""

    provider = BITBUCKET
    max_bytes = 8 * 2**20
    reports = True

    def __init__(self, storage: Storage, api: BitbucketApi, secrets: WebhookSecrets, workspaces: Workspaces) -> None:
        self._storage = storage
        self._api = api
        self._secrets = secrets
        self._workspaces = workspaces

    def receive(self, headers: Mapping[str, str], body: bytes) -> Received:
        """Find the repository by its id and its own secret.

        Raises HostNotConfigured, DeliveryInvalid and DeliveryUnsigned.
        """
        if not self._workspaces.configured:
            raise HostNotConfigured("set bitbucket.client_id and bitbucket.client_secret")
        event, name = required(headers, "X-Event-Key"), required(headers, "X-Request-UUID")
        claim, signature = Claim(event, name, repository_uuid(body)), headers.get("X-HUB-SIGNATURE", "")
        candidates = self._storage.repositories.of_remote(BITBUCKET, claim.remote_id or "")
        return self._secrets.received(claim, candidates, lambda secret: is_signed(signature, secret, body))

    def events(self, delivery: Delivery) -> tuple[HostEvent, ...]:
        """Return the pushes, or the pull request, of a delivery."""
        return events(delivery.event, delivery.body, self._api.settings.url)

    def handle(self, delivery: Delivery) -> None:
        """Do what connecting or disconnecting a workspace planned. Raises HostError."""
        self._workspaces.process(delivery)

    def reconcile(self) -> None:
        """Plan to look at every connected workspace."""
        if self._workspaces.configured:
            self._workspaces.look_at_all()

    def credential(self, repository: Repository) -> GitCredential | None:
        """Return the access token. Raises HostError."""
        return GitCredential("x-token-auth", self._token(repository))

    def renew_credential(self, repository: Repository) -> bool:
        """Return False: an access that was revoked disconnects the workspace."""
        return False

    def trusts(self, repository: Repository, login: str) -> bool:
        """Ask Bitbucket whether somebody, by its id, may push. Raises HostError."""
        return self._api.trusts(self._token(repository), repository.repo_name, login)

    def open_pull_requests(self, repository: Repository) -> list[PullRequest]:
        """Ask Bitbucket for the open pull requests. Raises HostError."""
        found = self._api.open_pull_requests(self._token(repository), repository.repo_name)
        return open_pull_requests(found, repository.remote_id or "", repository.repo_name, self._api.settings.url)

    def report(self, repository: Repository, report: Report) -> str | None:
        """Show the status of the build's commit. Raises HostError."""
        status = commit_status(report)
        self._api.set_status(self._token(repository), repository.repo_name, status)
        return status.context

    def _token(self, repository: Repository) -> str:
        connection = None
        if repository.connection_id is not None:
            connection = self._storage.host_connections.get(repository.connection_id)
        if connection is None:
            raise HostError(f"{repository.url} belongs to no workspace", final=True)
        return self._workspaces.token(connection)
