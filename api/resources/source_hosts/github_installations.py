"""Installations of the GitHub app (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, WithJsonSchema

from actors.source_hosts import HostError
from actors.source_hosts.github import GITHUB, GithubNotFound
from api.bodies import answer, read_body
from api.errors.catalog import ApiError
from api.fields import RequestBody, StoredRecord, Timestamp
from api.openapi.operations import Answer, operation
from storage import HostConnectedElsewhere, JsonModel, Role

if TYPE_CHECKING:
    from collections.abc import Generator

    import falcon

    from actors.source_hosts.github import Installations
    from api.middleware.authentication import Access, Membership
    from storage import HostConnection, Repository, Storage

_ERRORS = ("organization_not_found", "insufficient_org_role")
_LARGEST_ID = 2**53 - 1
_MOST_AT_ONCE = 8
"""GitHub may be slow, and other requests need threads too."""


def _number(value: object) -> object:
    """Return the number that a string of digits says; all else as it is."""
    return int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,16}", value, re.ASCII) else value


class ConnectInstallationRequest(RequestBody):
    """The body of ``POST …/github/installations``: the number in its page's address, also as a string."""

    installation_id: Annotated[
        int,
        BeforeValidator(_number),
        WithJsonSchema(
            {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9]{1,16}$"}], "examples": [4711]}
        ),
    ]


class GithubInstallationRecord(StoredRecord):
    """An installation of the app on an account at GitHub; its ``installation_id`` is in paths."""

    id: int
    installation_id: int
    account_login: str
    account_type: str
    created_at: Timestamp
    updated_at: Timestamp

    @classmethod
    def of(cls, connection: HostConnection) -> GithubInstallationRecord:
        """Return the record of a connection."""
        return cls.showing(
            connection,
            installation_id=int(connection.remote_id),
            account_login=connection.account,
        )


class GithubInstallationListRecord(JsonModel):
    """The installations of an organization, oldest first."""

    data: list[GithubInstallationRecord]


class GithubRepoRecord(StoredRecord):
    """A repository of an installation; ``last_synced_at`` is the last comparison with GitHub."""

    id: int
    installation_id: int
    gh_repo_id: int
    full_name: str
    name: str
    owner: str
    clone_url: str
    default_branch: str | None
    private: bool
    last_synced_at: Timestamp | None

    @classmethod
    def of(cls, repository: Repository, connection: HostConnection) -> GithubRepoRecord:
        """Return the record of a repository."""
        owner, _, name = repository.repo_name.rpartition("/")
        return cls.showing(
            repository,
            installation_id=int(connection.remote_id),
            gh_repo_id=int(repository.remote_id or 0),
            full_name=repository.repo_name,
            name=name,
            owner=owner,
            clone_url=repository.url,
            last_synced_at=connection.synced_at,
        )


class GithubRepoListRecord(JsonModel):
    """The repositories of an installation, oldest first."""

    data: list[GithubRepoRecord]


class GithubInstallationsResource:
    """``/api/v0/organizations/{org}/github/installations`` and the paths below it."""

    def __init__(self, storage: Storage, access: Access, installations: Installations | None) -> None:
        self._storage = storage
        self._access = access
        self._installations = installations
        self._slots = threading.BoundedSemaphore(_MOST_AT_ONCE)

    @operation(
        "listGithubInstallations",
        Answer(200, "The installations.", GithubInstallationListRecord),
        errors=("organization_not_found",),
    )
    def on_get_list(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """List the installations of the GitHub app that belong to the organization."""
        member = self._access.member(req, org)
        found = self._storage.host_connections.of_organization(member.organization.id, GITHUB)
        answer(resp, GithubInstallationListRecord(data=[GithubInstallationRecord.of(each) for each in found]))

    @operation(
        "connectGithubInstallation",
        Answer(201, "The installation.", GithubInstallationRecord),
        errors=(
            *_ERRORS,
            "github_installation_id_invalid",
            "github_installation_not_found",
            "github_installation_bound_elsewhere",
            "github_not_configured",
            "github_sync_failed",
            "busy",
        ),
        body=ConnectInstallationRequest,
    )
    def on_post_list(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Bind an installation of the GitHub app to the organization; needs the role admin.

        The caller must have signed in with GitHub, as the account that the app is installed on or as an owner of that
        organization at GitHub. Others find no such installation. Binding again is no error.
        """
        member = self._access.member(req, org, Role.ADMIN)
        body = read_body(req, ConnectInstallationRequest)
        if not 0 < body.installation_id <= _LARGEST_ID:
            raise ApiError(
                "github_installation_id_invalid", "installation_id: expected the number of an installation at GitHub"
            )
        installations = self._configured()
        with self._asking_github(str(body.installation_id)):
            try:
                bound = installations.bind(member.organization.id, body.installation_id, self._subjects(member))
            except HostConnectedElsewhere as error:
                raise ApiError("github_installation_bound_elsewhere", str(error)) from None
        answer(resp, GithubInstallationRecord.of(bound), status=201)

    @operation(
        "disconnectGithubInstallation",
        Answer(204, "The installation does not belong to the organization."),
        errors=(*_ERRORS, "github_installation_not_found"),
    )
    def on_delete(self, req: falcon.Request, resp: falcon.Response, org: str, id: str) -> None:
        """Build no more pushes to the repositories of an installation; needs the role admin.

        One that the organization does not have is no error. Its pipelines and builds stay. The app stays installed
        until its account removes it at GitHub.
        """
        connection = self._connection(self._access.member(req, org, Role.ADMIN), id)
        if connection is not None:
            self._storage.host_connections.remove(connection)
        resp.status = 204

    @operation(
        "listGithubInstallationRepos",
        Answer(200, "The repositories.", GithubRepoListRecord),
        errors=("organization_not_found", "github_installation_not_found"),
    )
    def on_get_repos(self, req: falcon.Request, resp: falcon.Response, org: str, id: str) -> None:
        """List the repositories of an installation: none of one that the organization does not have."""
        connection = self._connection(self._access.member(req, org), id)
        found = [] if connection is None else self._storage.repositories.of_connection(connection.id)
        records = [] if connection is None else [GithubRepoRecord.of(each, connection) for each in found]
        answer(resp, GithubRepoListRecord(data=records))

    @operation(
        "syncGithubInstallation",
        Answer(200, "The installation as it is now.", GithubInstallationRecord),
        errors=(*_ERRORS, "github_installation_not_found", "github_not_configured", "github_sync_failed", "busy"),
    )
    def on_post_sync(self, req: falcon.Request, resp: falcon.Response, org: str, id: str) -> None:
        """Compare an installation and its repositories with GitHub at once; needs the role admin.

        GitHub reports changes by itself; this makes up for reports that were lost.
        """
        member = self._access.member(req, org)
        connection = self._connection(member, id)
        if connection is None:
            raise _not_found(id)
        member.require(Role.ADMIN)
        installations = self._configured()
        with self._asking_github(id):
            answer(resp, GithubInstallationRecord.of(installations.sync(connection)))

    def _connection(self, member: Membership, installation_id: str) -> HostConnection | None:
        """Return an installation of a member's organization; None if it has none of that id.

        Raises ApiError for an id that is no number.
        """
        if not (installation_id.isascii() and installation_id.isdigit()):
            raise _not_found(installation_id)
        found = self._storage.host_connections.find(GITHUB, installation_id)
        return found if found is not None and found.organization_id == member.organization.id else None

    def _configured(self) -> Installations:
        if self._installations is None:
            raise ApiError("github_not_configured", "this service is no GitHub app: its owner makes one")
        return self._installations

    def _subjects(self, member: Membership) -> list[str]:
        """Return the caller's proven ids at GitHub."""
        identities = self._storage.identities.of_user(member.caller.user.id)
        return [each.subject for each in identities if each.provider == GITHUB]

    @contextmanager
    def _asking_github(self, installation_id: str) -> Generator[None]:
        """Turn GitHub's refusals and failures into ApiError; a few requests at once may wait for it."""
        if not self._slots.acquire(blocking=False):
            raise ApiError("busy", "other requests wait for GitHub just now", headers={"Retry-After": "10"})
        try:
            yield
        except GithubNotFound:
            raise _not_found(installation_id) from None
        except HostError as error:
            raise ApiError("github_sync_failed", str(error)) from None
        finally:
            self._slots.release()


def _not_found(installation_id: str) -> ApiError:
    return ApiError(
        "github_installation_not_found",
        f"the organization has no installation {installation_id}, or your identities at GitHub do not own its account",
    )
