"""Installations of the GitHub app (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import datetime  # noqa: TC003 - the model of a record reads the annotations
from typing import TYPE_CHECKING, Annotated

from actors.source_hosts import GITHUB, HostError
from api.errors.catalog import ApiError
from api.operations.operation import (
    DELETE,
    GET,
    POST,
    PUT,
    Call,
    Found,
    Refused,
    Whole,
    created,
    done,
    operation,
    owners_operation,
)
from api.operations.things import ORGANIZATION, ThisMembership, ThisUser
from storage import HostConnectedElsewhere, HostConnection, Role, immutable, showing, shown_as

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from actors.source_hosts import Installations
    from api.fields import InstallationNumber
    from storage import Repository

_INSTALLATIONS = f"{ORGANIZATION}/github/installations"
_INSTALLATION = f"{_INSTALLATIONS}/{{id}}"
_LARGEST_ID = 2**53 - 1
_MOST_AT_ONCE = 8
"""GitHub may be slow, and other requests need threads too."""


class GithubApp:
    """The GitHub app of the service, which may have none. Safe in any thread."""

    def __init__(self, installations: Callable[[], Installations] | None) -> None:
        self._open = installations
        self._slots = threading.BoundedSemaphore(_MOST_AT_ONCE)

    @property
    def configured(self) -> bool:
        """True if there is an app."""
        return self._open is not None

    @contextmanager
    def asked(self, installation_id: str) -> Generator[Installations]:
        """Lend the installations, a few at once; turn the refusals and failures of GitHub into ApiError."""
        from actors.source_hosts import GithubNotFound  # noqa: PLC0415 - most services have no app

        if self._open is None:
            raise ApiError("github_not_configured", "this service is no GitHub app: its owner makes one")
        if not self._slots.acquire(blocking=False):
            raise ApiError("busy", "other requests wait for GitHub just now", headers={"Retry-After": "10"})
        try:
            yield self._open()
        except GithubNotFound:
            raise _not_found(installation_id) from None
        except HostError as error:
            raise ApiError("github_sync_failed", str(error)) from None
        finally:
            self._slots.release()


@immutable
class ConnectInstallationRequest:
    """The body of ``POST …/github/installations``: the number in its page's address, also as a string."""

    installation_id: InstallationNumber


@immutable
class BoundInstallation:
    """The account of an installation at GitHub, and its repositories."""

    account: str
    repositories: tuple[str, ...]


@immutable
class GithubInstallationRecord:
    """An installation of the app on an account at GitHub; its ``installation_id`` is in paths."""

    row: int = shown_as("id")
    installation_id: int
    account_login: str
    account_type: str
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, connection: HostConnection) -> GithubInstallationRecord:
        """Return the record of a connection."""
        return showing(
            GithubInstallationRecord,
            connection,
            row=connection.id,
            installation_id=int(connection.remote_id),
            account_login=connection.account,
        )


@immutable
class GithubRepoRecord:
    """A repository of an installation; ``last_synced_at`` is the last comparison with GitHub."""

    row: int = shown_as("id")
    installation_id: int
    gh_repo_id: int
    full_name: str
    name: str
    owner: str
    clone_url: str
    default_branch: str | None
    private: bool
    last_synced_at: datetime | None

    @classmethod
    def of(cls, repository: Repository, connection: HostConnection) -> GithubRepoRecord:
        """Return the record of a repository."""
        owner, _, name = repository.repo_name.rpartition("/")
        return showing(
            GithubRepoRecord,
            repository,
            row=repository.id,
            installation_id=int(connection.remote_id),
            gh_repo_id=int(repository.remote_id or 0),
            full_name=repository.repo_name,
            name=name,
            owner=owner,
            clone_url=repository.url,
            last_synced_at=connection.synced_at,
        )


InstallationList = Annotated[
    list[GithubInstallationRecord],
    Whole("The installations of an organization, oldest first.", "GithubInstallationList"),
]
RepoList = Annotated[
    list[GithubRepoRecord], Whole("The repositories of an installation, oldest first.", "GithubRepoList")
]


def _installation(call: Call, member: ThisMembership, id: str) -> HostConnection:
    found = _connection(call, member, id)
    if found is None:
        raise _not_found(id)
    return found


_ThisInstallation = Annotated[HostConnection, Found(_installation, ("github_installation_not_found",))]


@operation("listGithubInstallations", GET, _INSTALLATIONS, "The installations.")
def list_installations(call: Call, member: ThisMembership) -> InstallationList:
    """List the installations of the GitHub app that belong to the organization."""
    found = call.storage.host_connections.of_organization(member.organization.id, GITHUB)
    return [GithubInstallationRecord.of(each) for each in found]


@operation(
    "connectGithubInstallation",
    POST,
    _INSTALLATIONS,
    created("The installation."),
    role=Role.ADMIN,
    errors=(
        "github_installation_id_invalid",
        "github_installation_not_found",
        "github_installation_bound_elsewhere",
        "github_not_configured",
        "github_sync_failed",
        "busy",
    ),
)
def connect_installation(
    call: Call, user: ThisUser, member: ThisMembership, body: ConnectInstallationRequest
) -> GithubInstallationRecord:
    """Bind an installation of the GitHub app to the organization; needs the role admin.

    The caller must have signed in with GitHub, as the account that the app is installed on or as an owner of that
    organization at GitHub. Others find no such installation. Binding again is no error.
    """
    if not 0 < body.installation_id <= _LARGEST_ID:
        raise ApiError(
            "github_installation_id_invalid", "installation_id: expected the number of an installation at GitHub"
        )
    identities = call.storage.identities.of_user(user.id)
    subjects = [each.subject for each in identities if each.provider == GITHUB]
    with call.later.github.asked(str(body.installation_id)) as installations:
        try:
            bound = installations.bind(member.organization.id, body.installation_id, subjects)
        except HostConnectedElsewhere as error:
            raise ApiError("github_installation_bound_elsewhere", str(error)) from None
    return GithubInstallationRecord.of(bound)


@operation(
    "disconnectGithubInstallation",
    DELETE,
    _INSTALLATION,
    done("The installation does not belong to the organization."),
    role=Role.ADMIN,
    errors=("github_installation_not_found",),
)
def disconnect_installation(call: Call, member: ThisMembership, id: str) -> None:
    """Build no more pushes to the repositories of an installation; needs the role admin.

    One that the organization does not have is no error. Its pipelines and builds stay. The app stays installed
    until its account removes it at GitHub.
    """
    connection = _connection(call, member, id)
    if connection is not None:
        call.storage.host_connections.remove(connection)


@operation(
    "listGithubInstallationRepos",
    GET,
    f"{_INSTALLATION}/repos",
    "The repositories.",
    errors=("github_installation_not_found",),
)
def list_installation_repos(call: Call, member: ThisMembership, id: str) -> RepoList:
    """List the repositories of an installation: none of one that the organization does not have."""
    connection = _connection(call, member, id)
    if connection is None:
        return []
    found = call.storage.repositories.of_connection(connection.id)
    return [GithubRepoRecord.of(each, connection) for each in found]


@operation(
    "syncGithubInstallation",
    POST,
    f"{_INSTALLATION}/sync",
    "The installation as it is now.",
    role=Role.ADMIN,
    errors=("github_not_configured", "github_sync_failed", "busy"),
)
def sync_installation(call: Call, connection: _ThisInstallation, id: str) -> GithubInstallationRecord:
    """Compare an installation and its repositories with GitHub at once; needs the role admin.

    GitHub reports changes by itself; this makes up for reports that were lost.
    """
    with call.later.github.asked(id) as installations:
        return GithubInstallationRecord.of(installations.sync(connection))


@owners_operation("bindGithubInstallation", PUT, _INSTALLATION)
def bind_installation(call: Call, member: ThisMembership, id: str) -> BoundInstallation:
    """Bind an installation of the app to an organization, without proof of whose it is. Raises Refused."""
    from actors.source_hosts import GithubNotFound  # noqa: PLC0415 - most services have no app

    installations = call.box.installations()
    if installations is None:
        raise Refused("this service is no GitHub app: `ci-daemon github setup` makes one")
    try:
        bound = installations.bind(member.organization.id, int(id), None)
    except GithubNotFound:
        raise Refused(
            f"the app has no installation {id}: its page at GitHub, whose address ends in its number, is among the"
            " installed apps in the settings of its account"
        ) from None
    except (HostConnectedElsewhere, HostError) as error:
        raise Refused(str(error)) from None
    repositories = call.storage.repositories.of_connection(bound.id)
    return BoundInstallation(bound.account, tuple(each.repo_name for each in repositories))


def _connection(call: Call, member: ThisMembership, installation_id: str) -> HostConnection | None:
    """Return an installation of a member's organization; None if it has none of that id.

    Raises ApiError for an id that is no number.
    """
    if not (installation_id.isascii() and installation_id.isdigit()):
        raise _not_found(installation_id)
    found = call.storage.host_connections.find(GITHUB, installation_id)
    return found if found is not None and found.organization_id == member.organization.id else None


def _not_found(installation_id: str) -> ApiError:
    return ApiError(
        "github_installation_not_found",
        f"the organization has no installation {installation_id}, or your identities at GitHub do not own its account",
    )
