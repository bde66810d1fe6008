"""Connected repositories, whatever their hosts (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import datetime  # noqa: TC003 - the model of a record reads the annotations
from typing import TYPE_CHECKING, Annotated, Self

from actors.repositories import fingerprint, server_hook
from actors.source_hosts import ConnectRefused, HostError
from api.errors.catalog import ApiError
from api.operations.operation import DELETE, GET, PATCH, POST, Call, HostOwner, Success, created, done, operation
from api.operations.things import REPOSITORIES, REPOSITORY, ThisMembership, ThisRepository
from storage import (
    GIT,
    DeployKey,
    HostConnectedElsewhere,
    MergeAgain,
    PullRequestBuild,
    Repository,
    Role,
    Storage,
    described,
    example,
    immutable,
    showing,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from actors.source_hosts import RepositoryConnector
    from api.fields import HostToken, RepositoryUrl, RequiredText
    from storage import HostConnection, PushOutcome


_PUSHES = 20
PULL_REQUESTS = "What is built of a pull request: its head, or the head merged into its target."
MERGE_AGAIN = (
    "Whose merges are built again when their target has moved: never, always, or of those labelled with `rebuild`."
)
_MOST_AT_ONCE = 8


@immutable
class RepoRegistration:
    """A way by which a repository is connected: its host, and the account there."""

    provider: str
    account: str


@immutable
class RepoSummary:
    """A connected repository, whatever its host.

    ``last_synced_at`` is the last comparison with it, ``last_error`` why the last look at it failed.
    """

    uuid: str
    full_name: str
    name: str
    owner: str
    clone_url: str
    default_branch: str | None
    private: bool
    last_synced_at: datetime | None
    last_error: str | None
    registrations: tuple[RepoRegistration, ...]

    @property
    def provider(self) -> str:
        """The kinds of its hosts."""
        return ", ".join(each.provider for each in self.registrations)

    @classmethod
    def of(cls, storage: Storage, repository: Repository) -> Self:
        """Return the record of a stored repository."""
        connection = storage.host_connections.get(repository.connection_id or 0)
        owner, _, name = repository.repo_name.rpartition("/")
        account = owner if connection is None else connection.account
        return cls(
            uuid=repository.uuid,
            full_name=repository.repo_name,
            name=name,
            owner=owner,
            clone_url=repository.url,
            default_branch=repository.default_branch,
            private=repository.private,
            last_synced_at=repository.checked_at if connection is None else connection.synced_at,
            last_error=repository.last_error,
            registrations=(RepoRegistration(repository.provider, account),),
        )


@immutable
class Repo:
    """A connected repository. ``last_error`` is why the last look at it failed.

    ``deploy_key`` and the fingerprint of its server's trusted key are set if it is fetched by ssh.
    """

    uuid: str
    full_name: str
    clone_url: str
    provider: str
    default_branch: str | None
    poll_seconds: int
    submodules: bool
    lfs: bool
    pull_requests: PullRequestBuild
    merge_again: MergeAgain
    checked_at: datetime | None
    next_check_at: datetime
    last_error: str | None
    deploy_key: str | None = example("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI ci-daemon:acme/web")
    host_key_fingerprint: str | None

    @classmethod
    def of(cls, storage: Storage, repository: Repository) -> Repo:
        """Return the record of a stored repository."""
        key = deploy_key_of(storage, repository)
        return Repo(
            uuid=repository.uuid,
            full_name=repository.repo_name,
            clone_url=repository.url,
            provider=repository.provider,
            default_branch=repository.default_branch,
            poll_seconds=repository.poll_seconds,
            submodules=repository.submodules,
            lfs=repository.lfs,
            pull_requests=repository.pull_requests,
            merge_again=repository.merge_again,
            checked_at=repository.checked_at,
            next_check_at=repository.next_check_at,
            last_error=repository.last_error,
            deploy_key=None if key is None else key.public_key,
            host_key_fingerprint=None if key is None else fingerprint(key.host_key),
        )


@immutable
class Push:
    """A push or pull request of the last seven days. ``outcome`` is its builds, or why there are none."""

    name: str = example("main")
    ref: str = example("refs/heads/main")
    pull_request: int | None = example(7)
    commit: str
    outcome: str = example("1 build: acme-web-ci #3")
    builds: tuple[str, ...] = example(["acme/acme-web-ci/3"])
    recorded_at: datetime

    @classmethod
    def of(cls, stored: PushOutcome) -> Self:
        """Return the record of a stored push."""
        return showing(cls, stored)


@immutable
class RepoWithPushes(Repo):
    """A connected repository with its last pushes, newest first."""

    pushes: tuple[Push, ...]

    @classmethod
    def with_pushes(cls, repo: Repo, outcomes: Iterable[PushOutcome]) -> Self:
        """Return the record of a repository and its pushes."""
        return showing(cls, repo, pushes=tuple(Push.of(each) for each in outcomes))


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
    """The body of ``PATCH …/repos/{id}``. What is not given stays as it is.

    ``submodules`` and ``lfs`` are parts besides a commit's own files that builds get.
    """

    submodules: bool | None = None
    lfs: bool | None = None
    pull_requests: PullRequestBuild | None = described(PULL_REQUESTS, default=None)
    merge_again: MergeAgain | None = described(MERGE_AGAIN, default=None)


@immutable
class RepoHookResponse:
    """Shell lines to run once on the repository's server, in the folder of the bare repository.

    They hold a token that is shown only now; the lines that were shown before report no more.
    """

    script: str


class Connecting:
    """Connects and disconnects repositories at their hosts. Safe in any thread.

    Only a few at once: a host may be slow, and other requests need threads, too.
    """

    def __init__(self, connector: Callable[[], RepositoryConnector]) -> None:
        self._connector = connector
        self._slots = threading.BoundedSemaphore(_MOST_AT_ONCE)

    @contextmanager
    def connector(self) -> Iterator[RepositoryConnector]:
        """Lend the connector. Raises ApiError ``busy``, and for its refusals."""
        if not self._slots.acquire(blocking=False):
            raise ApiError("busy", "other repositories are being connected just now", headers={"Retry-After": "10"})
        try:
            yield self._connector()
        except ConnectRefused as error:
            raise ApiError("repo_connect_refused", str(error)) from None
        except HostConnectedElsewhere as error:
            raise ApiError("repo_connected_elsewhere", str(error)) from None
        except HostError as error:
            raise ApiError("source_host_failed", str(error)) from None
        finally:
            self._slots.release()


RepoSummaryList = Annotated[list[RepoSummary], "The connected repositories, by full name."]


@operation("listOrgRepos", GET, REPOSITORIES, "The repositories.", tag="repo summaries")
def list_org_repos(call: Call, member: ThisMembership) -> RepoSummaryList:
    """List the repositories of the organization at all source hosts, each clone URL once."""
    found = call.storage.repositories.of_organization(member.organization.id)
    return [RepoSummary.of(call.storage, each) for each in found]


@operation(
    "connectRepo",
    POST,
    f"{REPOSITORIES}/connect",
    created("The repository is connected, and its host reports to this service."),
    role=Role.ADMIN,
    errors=("repo_connect_refused", "repo_connected_elsewhere", "source_host_failed", "busy"),
)
def connect_repo(call: Call, member: ThisMembership, body: ConnectRepoRequest) -> ConnectedRepo:
    """Build what is pushed to a repository at Forgejo, Gitea or GitLab; needs the role admin.

    The token must be of somebody who administers the repository: the webhook is made with it, commits get
    statuses, and it reads the repository. It is kept encrypted and never shown. Connecting again replaces the
    token and the webhook.
    """
    anywhere = isinstance(call.caller, HostOwner)
    with connecting(call).connector() as connector:
        connected, connection = connector.connect(
            member.organization.id, body.url, body.token, body.provider, anywhere=anywhere
        )
    edited = call.storage.repositories.edit(connected, submodules=body.submodules, lfs=body.lfs)
    return ConnectedRepo.of(edited, connection)


@operation("getRepo", GET, REPOSITORY, "The repository.")
def get_repo(call: Call, repository: ThisRepository) -> RepoWithPushes:
    """Show a connected repository, whatever its host."""
    pushes = call.storage.push_outcomes.latest(repository.id, _PUSHES)
    return RepoWithPushes.with_pushes(Repo.of(call.storage, repository), pushes)


@operation("updateRepo", PATCH, REPOSITORY, "The repository as it is now.", role=Role.ADMIN)
def update_repo(call: Call, repository: ThisRepository, body: UpdateRepoRequest) -> Repo:
    """Change what is built and packed of a repository; needs the role admin. What is not given stays."""
    edited = call.storage.repositories.edit(
        repository,
        submodules=body.submodules,
        lfs=body.lfs,
        pull_requests=body.pull_requests,
        merge_again=body.merge_again,
    )
    return Repo.of(call.storage, edited)


@operation(
    "disconnectRepo",
    DELETE,
    REPOSITORY,
    done("The repository is no longer connected."),
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
    with connecting(call).connector() as connector:
        connector.disconnect(repository)


@operation(
    "checkRepo",
    POST,
    f"{REPOSITORY}/check",
    Success("The repository, which is looked at soon.", 202),
    role=Role.ADMIN,
    tag="connected repo",
)
def check_repo(call: Call, repository: ThisRepository) -> Repo:
    """Look for pushes to a repository at once; needs the role admin.

    This makes up for reports that were lost, and shows whether it can be fetched.
    """
    call.storage.repository_checks.hasten(repository.id)
    call.engine.deliveries_added()
    return Repo.of(call.storage, call.storage.repositories.get(repository.id) or repository)


@operation(
    "makeRepoHook",
    POST,
    f"{REPOSITORY}/hook",
    "The hook.",
    role=Role.ADMIN,
    errors=("repo_reports_by_itself",),
    tag="connected repo",
)
def make_repo_hook(call: Call, repository: ThisRepository) -> RepoHookResponse:
    """Make a hook that reports pushes to a repository on a plain git server; needs the role admin."""
    if repository.provider != GIT or (repository.is_path and not isinstance(call.caller, HostOwner)):
        raise ApiError("repo_reports_by_itself", f"{repository.url} needs no hook of yours")
    token = call.storage.repositories.mint_token(repository)
    return RepoHookResponse(server_hook(call.service.url, token))


def deploy_key_of(storage: Storage, repository: Repository) -> DeployKey | None:
    """Return the key that a repository is fetched with by ssh; None for other repositories."""
    if repository.provider != GIT:
        return None
    credential = storage.repository_credentials.of(repository)
    return credential if isinstance(credential, DeployKey) else None


def connecting(call: Call) -> Connecting:
    """Return the way to the hosts of repositories. Raises ApiError if this door has none."""
    if call.service.connecting is None:
        raise ApiError("source_host_failed", "only the service itself asks the hosts of repositories")
    return call.service.connecting
