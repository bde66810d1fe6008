"""Installations of the GitHub app, each bound to an organization, and their repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from actors.source_hosts.github.api import GithubNotFound
from actors.source_hosts.host import HostError
from actors.source_hosts.settings import GITHUB
from storage import JsonModel, NewHostConnection, RemoteRepository

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.source_hosts.github.api import GithubApi
    from storage import HostConnection, Storage

_USER, _ADMIN, _ACTIVE = "User", "admin", "active"


class _Owner(JsonModel):
    id: int
    login: str
    type: str = _USER


class _Installation(JsonModel):
    id: int
    account: _Owner
    suspended_at: str | None = None


class _Repository(JsonModel):
    id: int
    full_name: str
    clone_url: str
    default_branch: str | None = None
    private: bool = True


class Installations:
    """The bound installations. It blocks, and is safe in any thread.

    A delivery only says that something has changed: GitHub is asked for the current state, and the records follow it.
    So deliveries may be late or doubled, and one that was lost is made up for by the next.
    """

    def __init__(self, storage: Storage, api: GithubApi, *, sign_in_proves: bool) -> None:
        self._storage = storage
        self._api = api
        self._sign_in_proves = sign_in_proves

    def bind(self, organization_id: int, installation_id: int, subjects: Iterable[str] | None) -> HostConnection:
        """Bind an installation to an organization, and mirror its repositories.

        ``subjects`` are the caller's ids at GitHub, which signing in has proven if it is the GitHub of the app: one of
        them must be the account itself or an owner of it. The owner of the host, with None, needs no proof. Raises
        GithubNotFound without saying whether the installation exists, HostConnectedElsewhere and HostError.
        """
        installation = self._installation(str(installation_id))
        if subjects is not None and not (
            self._sign_in_proves and any(self._may_bind(installation, each) for each in subjects)
        ):
            raise GithubNotFound(f"there is no installation {installation_id} of an account that is yours at GitHub")
        connection = self._storage.host_connections.connect(_connection(organization_id, installation))
        return self._follow(connection, installation)

    def sync(self, connection: HostConnection) -> HostConnection:
        """Make the records of an installation what GitHub has.

        Raises GithubNotFound if it was uninstalled, after the removal of the records, and HostError.
        """
        try:
            installation = self._installation(connection.remote_id)
        except GithubNotFound:
            self._hand_over(connection, ())
            self._storage.host_connections.remove(connection)
            raise
        connection = self._storage.host_connections.connect(_connection(connection.organization_id, installation))
        return self._follow(connection, installation)

    def changed(self, installation_id: str) -> None:
        """Process a report that an installation or its repositories have changed. Raises HostError."""
        connection = self._storage.host_connections.find(GITHUB, installation_id)
        if connection is not None:
            try:
                self.sync(connection)
            except GithubNotFound:
                return

    def _follow(self, connection: HostConnection, installation: _Installation) -> HostConnection:
        connections = self._storage.host_connections
        if installation.suspended_at is not None:
            connections.suspend(connection)
        else:
            found = [_remote(each) for each in self._api.repositories(connection.remote_id)]
            connections.resume(connection)
            self._hand_over(connection, found)
            self._storage.repositories.follow(connection, found)
            connections.synced(connection)
        return connections.get(connection.id) or connection

    def _hand_over(self, connection: HostConnection, found: Iterable[RemoteRepository]) -> None:
        """Move repositories that an installation lost to those of the organization that have them."""
        gone = {each.remote_id for each in self._storage.repositories.of_connection(connection.id)}
        gone -= {each.remote_id for each in found}
        others = self._storage.host_connections.of_organization(connection.organization_id, GITHUB) if gone else ()
        for other in others:
            if other.id == connection.id or other.suspended_at is not None:
                continue
            try:
                theirs = [_remote(each) for each in self._api.repositories(other.remote_id)]
            except GithubNotFound:
                continue
            for each in theirs:
                if each.remote_id in gone:
                    self._storage.repositories.transfer(other, each)

    def _installation(self, installation_id: str) -> _Installation:
        found = self._api.as_app("GET", f"/app/installations/{int(installation_id)}")
        try:
            return _Installation.model_validate(found)
        except ValidationError:
            raise HostError(
                f"GitHub describes installation {installation_id} in a way that is not understood"
            ) from None

    def _may_bind(self, installation: _Installation, subject: str) -> bool:
        if installation.account.type == _USER:
            return str(installation.account.id) == subject
        if installation.suspended_at is not None or not subject.isdecimal():
            return False
        installation_id, organization = str(installation.id), installation.account.login
        try:
            login = self._api.request(installation_id, "GET", f"/user/{subject}")["login"]
            found = self._api.request(installation_id, "GET", f"/orgs/{organization}/memberships/{login}")
        except GithubNotFound:
            return False
        # The login could have gone to another person between the two requests.
        owns = found["role"] == _ADMIN and found["state"] == _ACTIVE
        return owns and str(found["user"]["id"]) == subject


def _connection(organization_id: int, installation: _Installation) -> NewHostConnection:
    account = installation.account
    return NewHostConnection(organization_id, GITHUB, str(installation.id), account.login, account_type=account.type)


def _remote(described: Any) -> RemoteRepository:  # noqa: ANN401 - JSON
    try:
        found = _Repository.model_validate(described)
    except ValidationError:
        raise HostError("GitHub describes a repository in a way that is not understood") from None
    return RemoteRepository(str(found.id), found.clone_url, found.full_name, found.default_branch, found.private)
