"""Workspaces of Bitbucket: connecting them, their tokens and webhooks, and Bitbucket as a source host."""

from __future__ import annotations

import json
import threading
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from pydantic import ValidationError

from actors.source_hosts.api_client import HostNetwork, HostRefused
from actors.source_hosts.bitbucket.api import BitbucketApi
from actors.source_hosts.bitbucket.payloads import events, open_pull_requests, repository_uuid
from actors.source_hosts.forge_host import commit_check_status, commit_status, skip_status
from actors.source_hosts.host import COMMIT_CHECK, ConnectRefused, HostError, HostNotConfigured
from actors.source_hosts.payloads import Claim, Token, WebhookSecrets, is_signed, required
from actors.source_hosts.settings import BitbucketSettings
from actors.timed_http import Deadline
from storage import GitCredential, HostConnectedElsewhere, JsonModel, NewHostConnection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.source_hosts.bitbucket.api import Grant
    from actors.source_hosts.host import CommitReport, HostEvent, PullRequest, Received, Report, Skip
    from storage import Clock, CommitCheck, Delivery, HostConnection, Repository, Storage


BITBUCKET = "bitbucket"
_TIMEOUT = 40.0
_EARLY = timedelta(minutes=5)
_SYNCED = timedelta(hours=1)
_CONNECTED, _LOOKED_AT, _DISCONNECTED = "workspace connected", "workspace looked at", "workspace disconnected"
_GONE = {403, 404}
_REFUSED = {400, 401, 403}


class _Revoked(HostError):
    """Bitbucket gives no more tokens."""

    def __init__(self) -> None:
        super().__init__("Bitbucket no longer lets the service in: connect the workspace again")


class _Credential(JsonModel):
    """The sealed part of a connection."""

    access_token: Token
    refresh_token: Token
    expires_at: datetime


class Workspaces:
    """The connected workspaces. It blocks where it asks Bitbucket. Safe in any thread.

    A workspace may have hundreds of repositories. So their webhooks are made and removed as the deliveries of a host
    are processed: in the background, with back-off, and on after a restart.
    """

    def __init__(
        self, storage: Storage, api: BitbucketApi, secrets: WebhookSecrets, clock: Clock, webhook_url: str
    ) -> None:
        self._storage = storage
        self._api = api
        self._secrets = secrets
        self._clock = clock
        self._webhook_url = webhook_url
        self._renewing = threading.Lock()

    @classmethod
    def unconfigured(cls, storage: Storage, clock: Clock) -> Workspaces:
        """Return those of a service without an OAuth consumer."""
        api = BitbucketApi(BitbucketSettings(), HostNetwork((), None, clock))
        return cls(storage, api, WebhookSecrets(storage), clock, "")

    @property
    def configured(self) -> bool:
        """True if workspaces can be connected."""
        return bool(self._api.settings.client_id)

    def authorize_url(self, state: str) -> str:
        """Return the page that asks a person to let the service in. Raises HostNotConfigured."""
        return self._api.authorize_url(state)

    def connect(self, organization_id: int, code: str) -> list[HostConnection]:
        """Connect the workspaces that the person of a code administrates; return them.

        Those of another organization stay there. Raises HostConnectedElsewhere if all are, ConnectRefused if there
        are none, HostNotConfigured and HostError.
        """
        deadline = Deadline(_TIMEOUT)
        grant = self._api.exchange(code, deadline)
        found = self._api.workspaces(grant.access_token, deadline)
        if not found:
            raise ConnectRefused("you administrate no workspace at Bitbucket")
        credential, connected, elsewhere = self._sealed(grant), [], None
        with self._storage.transaction():
            for each in found:
                new = NewHostConnection(
                    organization_id, BITBUCKET, each.uuid, each.slug, "workspace", each.name or each.slug, credential
                )
                try:
                    connection = self._storage.host_connections.connect(new)
                except HostConnectedElsewhere as error:
                    elsewhere = error
                    continue
                self._storage.host_connections.resume(connection)
                self._plan(_CONNECTED, connection)
                connected.append(connection)
        if elsewhere is not None and not connected:
            raise elsewhere
        return connected

    def of_organization(self, organization_id: int) -> list[HostConnection]:
        """Return the connected workspaces of an organization, oldest first."""
        found = self._storage.host_connections.of_organization(organization_id, BITBUCKET)
        return [each for each in found if each.suspended_at is None]

    def repositories(self, connection: HostConnection) -> list[Repository]:
        """Return the repositories of a workspace as last seen; look again soon if that is an hour ago."""
        if connection.synced_at is not None and self._clock.now() - connection.synced_at > _SYNCED:
            self._storage.host_connections.synced(connection)
            self._plan(_LOOKED_AT, connection)
        return self._storage.repositories.of_connection(connection.id)

    def look_at_all(self) -> None:
        """Look at every workspace soon."""
        for each in self._storage.host_connections.of_provider(BITBUCKET):
            self._plan(_LOOKED_AT, each)

    def disconnect(self, connection: HostConnection) -> None:
        """Disconnect a workspace; its webhooks and repositories are removed soon."""
        with self._storage.transaction():
            self._storage.host_connections.suspend(connection)
            self._plan(_DISCONNECTED, connection)

    def process(self, delivery: Delivery) -> None:
        """Do what was planned. Raises HostError, to be called again later."""
        connection = self._storage.host_connections.get(json.loads(delivery.body)["connection"])
        if connection is None:
            return
        match delivery.event, connection.suspended_at:
            case "workspace connected" | "workspace looked at", None:
                self._follow(connection, anew=delivery.event == _CONNECTED)
            case "workspace disconnected", datetime():
                self._remove(connection)
            case _:
                pass  # it was disconnected, or connected again, meanwhile

    def token(self, connection: HostConnection) -> str:
        """Return an access token that lives for minutes at least. Raises HostError if there is none."""
        with self._renewing:
            credential = self._credential(connection)
            if credential.expires_at - _EARLY > self._clock.now():
                return credential.access_token
            try:
                grant = self._api.refresh(credential.refresh_token)
            except HostRefused as error:
                if error.status in _REFUSED:
                    raise _Revoked from None
                raise
            renewed = self._sealed(grant)
            for each in self._storage.host_connections.of_organization(connection.organization_id, BITBUCKET):
                if self._credential(each).refresh_token == credential.refresh_token:
                    self._storage.host_connections.set_credential(each, renewed)
            return grant.access_token

    def _plan(self, event: str, connection: HostConnection) -> None:
        body = json.dumps({"connection": connection.id}).encode()
        self._storage.deliveries.receive(BITBUCKET, event, str(uuid4()), None, body)

    def _follow(self, connection: HostConnection, *, anew: bool) -> None:
        """Make the repositories those of the workspace, each with a webhook; ``anew`` in place of others."""
        found = self._api.repositories(self.token(connection), connection.remote_id)
        for repository in self._storage.repositories.follow(connection, found):
            token, name = self.token(connection), repository.repo_name
            try:
                if anew:
                    self._api.remove_webhook(token, name, self._webhook_url)
                elif self._api.has_webhook(token, name, self._webhook_url):
                    continue
                self._api.add_webhook(token, name, self._webhook_url, self._secrets.of(repository))
            except HostRefused as error:
                if error.status not in _GONE:
                    raise
                self._storage.repository_checks.note(repository, f"it has no webhook: {error}")
        self._storage.host_connections.synced(connection)

    def _remove(self, connection: HostConnection) -> None:
        """Remove a workspace, and its webhooks as far as Bitbucket still lets the service in."""
        for repository in self._storage.repositories.of_connection(connection.id):
            try:
                self._api.remove_webhook(self.token(connection), repository.repo_name, self._webhook_url)
            except HostRefused as error:
                if error.status not in _REFUSED | _GONE:
                    raise
            except _Revoked:
                break
            self._storage.repositories.remove(repository)
        self._storage.host_connections.remove(connection)

    def _credential(self, connection: HostConnection) -> _Credential:
        sealed = self._storage.host_connections.credential(connection)
        try:
            return _Credential.model_validate_json(sealed or b"")
        except ValidationError:
            raise _Revoked from None

    def _sealed(self, grant: Grant) -> bytes:
        expires_at = self._clock.now() + timedelta(seconds=grant.expires_in)
        credential = _Credential(
            access_token=grant.access_token, refresh_token=grant.refresh_token, expires_at=expires_at
        )
        return credential.model_dump_json().encode()


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

    def push_credential(self, repository: Repository) -> GitCredential | None:
        """Return the access token, whose right to push is the consumer's. Raises HostError."""
        return self.credential(repository)

    def renew_credential(self, repository: Repository) -> bool:
        """Return False: an access that was revoked disconnects the workspace."""
        return False

    def trusts(self, repository: Repository, login: str) -> bool:
        """Ask Bitbucket whether somebody, by its id, may push. Raises HostError."""
        return self._api.trusts(self._token(repository), repository.repo_name, login)

    def open_pull_requests(self, repository: Repository, number: int | None = None) -> list[PullRequest]:
        """Ask Bitbucket for the open pull requests. Raises HostError."""
        token, name = self._token(repository), repository.repo_name
        if number is None:
            found = self._api.open_pull_requests(token, name)
        else:
            found = self._api.open_pull_request(token, name, number)
        return open_pull_requests(found, repository.remote_id or "", repository.repo_name, self._api.settings.url)

    def report(self, repository: Repository, report: Report) -> str | None:
        """Show the status of the build's commit. Raises HostError."""
        status = commit_status(report)
        self._api.set_status(self._token(repository), repository.repo_name, status)
        return status.context

    def report_commit(self, repository: Repository, report: CommitReport, told: CommitCheck) -> str | None:
        """Show the status of all pipelines of a commit. Raises HostError."""
        self._api.set_status(self._token(repository), repository.repo_name, commit_check_status(report))
        return COMMIT_CHECK

    def report_skip(self, repository: Repository, skip: Skip) -> None:
        """Show a pipeline as skipped. Raises HostError."""
        self._api.set_status(self._token(repository), repository.repo_name, skip_status(skip))

    def _token(self, repository: Repository) -> str:
        connection = None
        if repository.connection_id is not None:
            connection = self._storage.host_connections.get(repository.connection_id)
        if connection is None:
            raise HostError(f"{repository.url} belongs to no workspace", final=True)
        return self._workspaces.token(connection)
