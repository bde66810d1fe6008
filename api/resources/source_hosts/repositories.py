"""Repositories that are connected one by one, with a token (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StringConstraints

from actors.source_hosts import ConnectRefused, HostError
from api.bodies import answer, read_body
from api.errors.responses import ApiError
from api.fields import RequestBody, RequiredText, Uuid
from api.openapi.operations import Answer, operation
from api.resources.source_hosts.connected_repo import RepoRecord, RepoWithPushesRecord, deploy_key_of
from api.resources.source_hosts.repo_deliveries import connected_repository
from storage import GIT, HostConnectedElsewhere, JsonModel, Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    import falcon

    from actors.source_hosts import RepositoryConnector
    from api.middleware.authentication import Access
    from storage import HostConnection, Repository, Storage

__all__ = ["ConnectRepoRequest", "ConnectedRepo", "RepositoriesResource", "UpdateRepoRequest"]

_PUSHES = 20
_MOST_AT_ONCE = 8
"""A host may be slow, and other requests need threads too."""

_VISIBLE = StringConstraints(min_length=1, max_length=255, pattern=r"^[!-~]+$")
_EXAMPLE_URL = {"examples": ["https://git.example.org/ada/hello"]}


class ConnectRepoRequest(RequestBody):
    """The body of ``POST …/repos/connect``; ``provider`` is forgejo, gitea or gitlab, or is asked for.

    ``submodules`` and ``lfs`` say whether these are packed for builds, too. Without them a repository that is connected
    again keeps what it has.
    """

    url: Annotated[str, _VISIBLE, Field(json_schema_extra=_EXAMPLE_URL)]
    token: Annotated[str, _VISIBLE]
    provider: RequiredText | None = None
    submodules: bool | None = None
    lfs: bool | None = None


class UpdateRepoRequest(RequestBody):
    """The body of ``PATCH …/repos/{id}``: the parts besides a commit's own files that builds get."""

    submodules: bool | None = None
    lfs: bool | None = None


class ConnectedRepo(JsonModel):
    """A connected repository; ``account`` is whose token it is."""

    id: Uuid
    full_name: str
    name: str
    owner: str
    clone_url: str
    default_branch: str | None
    private: bool
    provider: str
    account: str
    submodules: bool
    lfs: bool

    @classmethod
    def of(cls, repository: Repository, connection: HostConnection) -> ConnectedRepo:
        """Return the record of a repository."""
        owner, _, name = connection.name.rpartition("/")
        return cls(
            id=repository.uuid,
            full_name=connection.name,
            name=name,
            owner=owner,
            clone_url=repository.url,
            default_branch=repository.default_branch,
            private=repository.private,
            provider=repository.provider,
            account=connection.account,
            submodules=repository.submodules,
            lfs=repository.lfs,
        )


class RepositoriesResource:
    """``/api/v0/organizations/{org}/repos/connect`` and ``…/repos/{id}``."""

    def __init__(self, storage: Storage, access: Access, connector: RepositoryConnector) -> None:
        self._storage = storage
        self._access = access
        self._connector = connector
        self._slots = threading.BoundedSemaphore(_MOST_AT_ONCE)

    @operation(
        "connectRepo",
        Answer(201, "The repository is connected, and its host reports to this service.", ConnectedRepo),
        errors=(
            "organization_not_found",
            "insufficient_org_role",
            "repo_connect_refused",
            "repo_connected_elsewhere",
            "source_host_failed",
            "busy",
        ),
        body=ConnectRepoRequest,
    )
    def on_post_connect(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Build what is pushed to a repository at Forgejo, Gitea or GitLab; needs the role admin.

        The token must be of somebody who administers the repository: the webhook is made with it, commits get
        statuses, and it reads the repository. It is kept encrypted and never shown. Connecting again replaces the
        token and the webhook.
        """
        member = self._access.member(req, org, Role.ADMIN)
        body = read_body(req, ConnectRepoRequest)
        with self._slot():
            try:
                connected, connection = self._connector.connect(
                    member.organization.id, body.url, body.token, body.provider
                )
            except ConnectRefused as error:
                raise ApiError("repo_connect_refused", str(error)) from None
            except HostConnectedElsewhere as error:
                raise ApiError("repo_connected_elsewhere", str(error)) from None
            except HostError as error:
                raise ApiError("source_host_failed", str(error)) from None
        edited = self._storage.repositories.edit(connected, submodules=body.submodules, lfs=body.lfs)
        answer(resp, ConnectedRepo.of(edited, connection), status=201)

    @operation(
        "getRepo",
        Answer(200, "The repository.", RepoWithPushesRecord),
        errors=("organization_not_found", "repo_not_found"),
    )
    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str, id: str) -> None:
        """Show a connected repository, whatever its host."""
        found = connected_repository(self._storage, self._access.member(req, org), id)
        pushes = self._storage.push_outcomes.latest(found.id, _PUSHES)
        answer(resp, RepoWithPushesRecord.with_pushes(found, deploy_key_of(self._storage, found), pushes))

    @operation(
        "updateRepo",
        Answer(200, "The repository as it is now.", RepoRecord),
        errors=("organization_not_found", "insufficient_org_role", "repo_not_found"),
        body=UpdateRepoRequest,
    )
    def on_patch(self, req: falcon.Request, resp: falcon.Response, org: str, id: str) -> None:
        """Change what is packed for builds of a repository; needs the role admin. What is not given stays."""
        member = self._access.member(req, org)
        body = read_body(req, UpdateRepoRequest)
        found = connected_repository(self._storage, member, id)
        member.require(Role.ADMIN)
        edited = self._storage.repositories.edit(found, submodules=body.submodules, lfs=body.lfs)
        answer(resp, RepoRecord.of(edited, deploy_key_of(self._storage, edited)))

    @operation(
        "disconnectRepo",
        Answer(204, "The repository is no longer connected."),
        errors=("organization_not_found", "insufficient_org_role", "repo_not_found", "repo_connect_refused", "busy"),
    )
    def on_delete(self, req: falcon.Request, resp: falcon.Response, org: str, id: str) -> None:
        """Build no more pushes to a repository that was connected by itself; needs the role admin.

        Its webhook is removed too, if its host answers. Its pipelines and builds stay.
        """
        member = self._access.member(req, org)
        found = connected_repository(self._storage, member, id)
        member.require(Role.ADMIN)
        if found.is_path:
            raise ApiError("repo_connect_refused", f"{found.url} is on the host: its owner disconnects it")
        if found.provider == GIT:
            self._storage.repositories.remove(found)
        else:
            with self._slot():
                try:
                    self._connector.disconnect(found)
                except ConnectRefused as error:
                    raise ApiError("repo_connect_refused", str(error)) from None
        resp.status = 204

    @contextmanager
    def _slot(self) -> Iterator[None]:
        if not self._slots.acquire(blocking=False):
            raise ApiError("busy", "other repositories are being connected just now", headers={"Retry-After": "10"})
        try:
            yield
        finally:
            self._slots.release()
