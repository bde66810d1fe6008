"""One connected repository, whatever its host: how it is fetched, and how its pushes are reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from actors.repositories import fingerprint, server_hook
from api.bodies import answer
from api.errors.responses import ApiError
from api.fields import StoredRecord, Timestamp, Uuid
from api.openapi.operations import Answer, operation
from api.resources.source_hosts.repo_deliveries import connected_repository
from storage import GIT, DeployKey, JsonModel, Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    import falcon

    import storage
    from api.engine import EngineInterface
    from api.middleware.authentication import Access
    from storage import PushOutcome, Storage

__all__ = ["ConnectedRepoResource", "RepoHookResponse", "RepoRecord", "RepoWithPushesRecord", "deploy_key_of"]

_ERRORS = ("organization_not_found", "repo_not_found")
_ADMIN_ERRORS = (*_ERRORS, "insufficient_org_role")


class RepoRecord(StoredRecord):
    """A connected repository. ``last_error`` is why the last look at it failed.

    ``deploy_key`` and the fingerprint of its server's trusted key are set if it is fetched by ssh.
    """

    id: Uuid
    full_name: str
    clone_url: str
    provider: str
    default_branch: str | None
    poll_seconds: int
    submodules: bool
    lfs: bool
    checked_at: Timestamp | None
    next_check_at: Timestamp
    last_error: str | None
    deploy_key: Annotated[str | None, Field(examples=["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI ci-daemon:acme/web"])]
    host_key_fingerprint: str | None

    @classmethod
    def of(cls, repository: storage.Repository, key: DeployKey | None) -> RepoRecord:
        """Return the record of a repository and its deploy key."""
        return cls.showing(repository, **_shown(repository, key))


class PushRecord(StoredRecord):
    """A push or pull request of the last seven days. ``outcome`` is its builds, or why there are none."""

    name: Annotated[str, Field(examples=["main"])]
    ref: Annotated[str, Field(examples=["refs/heads/main"])]
    pull_request: Annotated[int | None, Field(examples=[7])]
    commit: str
    outcome: Annotated[str, Field(examples=["1 build: acme-web-ci #3"])]
    builds: Annotated[list[str], Field(examples=[["acme/acme-web-ci/3"]])]
    recorded_at: Timestamp


class RepoWithPushesRecord(RepoRecord):
    """A connected repository with its last pushes, newest first."""

    pushes: list[PushRecord]

    @classmethod
    def with_pushes(
        cls, repository: storage.Repository, key: DeployKey | None, outcomes: Iterable[PushOutcome]
    ) -> RepoWithPushesRecord:
        """Return the record of a repository, its deploy key and its pushes."""
        pushes = [PushRecord.showing(each) for each in outcomes]
        return cls.showing(repository, **_shown(repository, key), pushes=pushes)


class RepoHookResponse(JsonModel):
    """Shell lines to run once on the repository's server, in the folder of the bare repository.

    They hold a token that is shown only now; the lines that were shown before report no more.
    """

    script: str


class ConnectedRepoResource:
    """``/api/v0/organizations/{org}/repos/{id}/check`` and ``…/hook``."""

    def __init__(self, storage: Storage, engine: EngineInterface, access: Access, url: str) -> None:
        self._storage = storage
        self._engine = engine
        self._access = access
        self._url = url

    @operation("checkRepo", Answer(202, "The repository, which is looked at soon.", RepoRecord), errors=_ADMIN_ERRORS)
    def on_post_check(self, req: falcon.Request, resp: falcon.Response, org: str, id: str) -> None:
        """Look for pushes to a repository at once; needs the role admin.

        This makes up for reports that were lost, and shows whether it can be fetched.
        """
        member = self._access.member(req, org)
        found = connected_repository(self._storage, member, id)
        member.require(Role.ADMIN)
        self._storage.repository_checks.hasten(found.id)
        self._engine.deliveries_added()
        now = connected_repository(self._storage, member, id)
        answer(resp, RepoRecord.of(now, deploy_key_of(self._storage, now)), status=202)

    @operation(
        "makeRepoHook", Answer(200, "The hook.", RepoHookResponse), errors=(*_ADMIN_ERRORS, "repo_reports_by_itself")
    )
    def on_post_hook(self, req: falcon.Request, resp: falcon.Response, org: str, id: str) -> None:
        """Make a hook that reports pushes to a repository on a plain git server; needs the role admin."""
        member = self._access.member(req, org)
        found = connected_repository(self._storage, member, id)
        member.require(Role.ADMIN)
        if found.provider != GIT or found.is_path:
            raise ApiError("repo_reports_by_itself", f"{found.url} needs no hook of yours")
        token = self._storage.repositories.mint_token(found)
        answer(resp, RepoHookResponse(script=server_hook(self._url, token)))


def deploy_key_of(storage: Storage, repository: storage.Repository) -> DeployKey | None:
    """Return the key that a repository is fetched with by ssh; None for other repositories."""
    if repository.provider != GIT:
        return None
    credential = storage.repository_credentials.of(repository)
    return credential if isinstance(credential, DeployKey) else None


def _shown(repository: storage.Repository, key: DeployKey | None) -> dict[str, str | None]:
    """Return the fields of a record that have other names, or are of the key."""
    return {
        "id": repository.uuid,
        "full_name": repository.repo_name,
        "clone_url": repository.url,
        "deploy_key": None if key is None else key.public_key,
        "host_key_fingerprint": None if key is None else fingerprint(key.host_key),
    }
