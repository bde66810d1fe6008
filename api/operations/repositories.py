"""Repositories that are connected one by one, with a token (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from actors.source_hosts import ConnectRefused, HostError
from api.errors.catalog import ApiError
from api.operations.connected_repo import Repo, RepoWithPushes
from api.operations.operation import DELETE, GET, PATCH, POST, Call, operation
from api.operations.things import REPOSITORIES, REPOSITORY, ThisMembership, ThisRepository
from storage import GIT, HostConnectedElsewhere, Role, immutable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.source_hosts import RepositoryConnector
    from api.fields import HostToken, RepositoryUrl, RequiredText
    from storage import HostConnection, Repository

_PUSHES = 20
_MOST_AT_ONCE = 8


class Connecting:
    """Connects and disconnects repositories at their hosts. Safe in any thread.

    Only a few at once: a host may be slow, and other requests need threads, too.
    """

    def __init__(self, connector: RepositoryConnector) -> None:
        self._connector = connector
        self._slots = threading.BoundedSemaphore(_MOST_AT_ONCE)

    @contextmanager
    def connector(self) -> Iterator[RepositoryConnector]:
        """Lend the connector. Raises ApiError ``busy``, and for its refusals."""
        if not self._slots.acquire(blocking=False):
            raise ApiError("busy", "other repositories are being connected just now", headers={"Retry-After": "10"})
        try:
            yield self._connector
        except ConnectRefused as error:
            raise ApiError("repo_connect_refused", str(error)) from None
        except HostConnectedElsewhere as error:
            raise ApiError("repo_connected_elsewhere", str(error)) from None
        except HostError as error:
            raise ApiError("source_host_failed", str(error)) from None
        finally:
            self._slots.release()


@immutable
class ConnectRepoRequest:
    """The body of ``POST …/repos/connect``; ``provider`` is forgejo, gitea or gitlab, or is asked for.

    ``submodules`` and ``lfs`` say whether these are packed for builds, too. Without them a repository that is connected
    again keeps what it has.
    """

    url: RepositoryUrl
    token: HostToken
    provider: RequiredText | None = None
    submodules: bool | None = None
    lfs: bool | None = None


@immutable
class UpdateRepoRequest:
    """The body of ``PATCH …/repos/{id}``: the parts besides a commit's own files that builds get."""

    submodules: bool | None = None
    lfs: bool | None = None


@immutable
class ConnectedRepo:
    """A connected repository; ``account`` is whose token it is."""

    uuid: str
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
    def of(cls, repository: Repository, connection: HostConnection) -> Self:
        """Return the record of a repository."""
        owner, _, name = connection.name.rpartition("/")
        return cls(
            uuid=repository.uuid,
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


@operation(
    "connectRepo",
    POST,
    f"{REPOSITORIES}/connect",
    "The repository is connected, and its host reports to this service.",
    status=201,
    role=Role.ADMIN,
    errors=("repo_connect_refused", "repo_connected_elsewhere", "source_host_failed", "busy"),
)
def connect_repo(call: Call, member: ThisMembership, body: ConnectRepoRequest) -> ConnectedRepo:
    """Build what is pushed to a repository at Forgejo, Gitea or GitLab; needs the role admin.

    The token must be of somebody who administers the repository: the webhook is made with it, commits get
    statuses, and it reads the repository. It is kept encrypted and never shown. Connecting again replaces the
    token and the webhook.
    """
    with _connecting(call).connector() as connector:
        connected, connection = connector.connect(member.organization.id, body.url, body.token, body.provider)
    edited = call.storage.repositories.edit(connected, submodules=body.submodules, lfs=body.lfs)
    return ConnectedRepo.of(edited, connection)


@operation("getRepo", GET, REPOSITORY, "The repository.")
def get_repo(call: Call, repository: ThisRepository) -> RepoWithPushes:
    """Show a connected repository, whatever its host."""
    pushes = call.storage.push_outcomes.latest(repository.id, _PUSHES)
    return RepoWithPushes.with_pushes(Repo.of(call.storage, repository), pushes)


@operation("updateRepo", PATCH, REPOSITORY, "The repository as it is now.", role=Role.ADMIN)
def update_repo(call: Call, repository: ThisRepository, body: UpdateRepoRequest) -> Repo:
    """Change what is packed for builds of a repository; needs the role admin. What is not given stays."""
    edited = call.storage.repositories.edit(repository, submodules=body.submodules, lfs=body.lfs)
    return Repo.of(call.storage, edited)


@operation(
    "disconnectRepo",
    DELETE,
    REPOSITORY,
    "The repository is no longer connected.",
    status=204,
    role=Role.ADMIN,
    errors=("repo_connect_refused", "busy"),
)
def disconnect_repo(call: Call, repository: ThisRepository) -> None:
    """Build no more pushes to a repository that was connected by itself; needs the role admin.

    Its webhook is removed too, if its host answers. Its pipelines and builds stay.
    """
    if repository.is_path:
        raise ApiError("repo_connect_refused", f"{repository.url} is on the host: its owner disconnects it")
    if repository.provider == GIT:
        call.storage.repositories.remove(repository)
        return
    with _connecting(call).connector() as connector:
        connector.disconnect(repository)


def _connecting(call: Call) -> Connecting:
    if call.service.connecting is None:
        raise ApiError("source_host_failed", "only the service itself asks the hosts of repositories")
    return call.service.connecting
