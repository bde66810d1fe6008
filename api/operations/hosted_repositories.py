"""Connected repositories of a host, as its owner connects, lists and changes them.

The owner alone connects plain git servers, which may be in the host's own network, and repositories on the host.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime  # noqa: TC003 - a command reads the annotations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

from actors.repositories import (
    GitError,
    Remote,
    RemoteInvalid,
    fingerprint,
    heads_at,
    host_key,
    install_hook,
    new_deploy_key,
    remove_hook,
    renew_hook,
    server_hook,
)
from api.body import ABSENT, given
from api.errors.catalog import ApiError
from api.operations.deploy_keys import key_for
from api.operations.operation import DELETE, GET, PATCH, POST, Call, owners_operation
from api.operations.repositories import MERGE_AGAIN, PULL_REQUESTS, connecting, deploy_key_of
from api.operations.things import ThisMembership, ThisRepository  # noqa: TC001 - read in hints
from storage import (
    GIT,
    DeployKey,
    GitCredential,
    MergeAgain,
    PullRequestBuild,
    Repository,
    described,
    error_reason,
    immutable,
    repo_name,
    showing,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage import Organization, Storage

POLL_SECONDS = 60
"""The seconds between two looks at a repository on a plain git server, by default."""

_POLLS = (1, 86_400)

_REPOSITORIES = "/repositories/{org}"
_REPOSITORY = f"{_REPOSITORIES}/{{id}}"
_REFUSED = "repo_connect_refused"


@immutable
class HostedRepo:
    """A connected repository of any organization.

    ``last_error`` is also why its host is not told of builds, ``account`` whose token it is at its host.
    """

    uuid: str
    org: str
    url: str
    provider: str
    repo_name: str
    default_branch: str | None
    checked_at: datetime | None
    last_error: str | None
    poll_seconds: int
    submodules: bool
    lfs: bool
    pull_requests: PullRequestBuild
    merge_again: MergeAgain
    next_check_at: datetime
    account: str | None

    @classmethod
    def of(cls, storage: Storage, stored: Repository, error: str | None = None) -> HostedRepo:
        """Return the record of a stored repository; ``error`` is that of a report to its host."""
        organization = storage.organizations.by_id(stored.organization_id)
        connection = None if stored.connection_id is None else storage.host_connections.get(stored.connection_id)
        return showing(
            HostedRepo,
            stored,
            org=organization.slug if organization else "",
            last_error=error or stored.last_error,
            account=None if connection is None else connection.account,
        )


@immutable
class PlainRepo(HostedRepo):
    """A repository that was just connected.

    ``hook`` says whether its hook is installed; else its lines are there. ``unread`` is why it cannot be read yet. A
    repository that is fetched by ssh has a key.
    """

    hook: bool
    hook_script: str | None
    deploy_key: str | None
    host_key_fingerprint: str | None
    unread: str | None


@immutable
class RemovedRepo(HostedRepo):
    """A repository as it was; ``webhook_left`` is why its webhook may still be there."""

    webhook_left: str | None


@immutable
class RepoKey:
    """The public deploy key of a repository, and its server's trusted key, which before ``was`` another."""

    uuid: str
    deploy_key: str
    host_key_fingerprint: str
    was: str

    @classmethod
    def of(cls, repository: Repository, key: DeployKey, was: DeployKey) -> Self:
        """Return the record of a repository's key."""
        return cls(repository.uuid, key.public_key, fingerprint(key.host_key), fingerprint(was.host_key))


@immutable
class ConnectPlainRepoRequest:
    """The body of `connect_plain_repo`: an https or ssh URL, or a path on this host."""

    url: str
    full_name: str | None = None
    poll_seconds: int = described(
        f"The seconds between two looks for pushes; by default {POLL_SECONDS}.",
        default=POLL_SECONDS,
        word="SECONDS",
        bounds=_POLLS,
    )
    submodules: bool = described("Pack the files of submodules, too.", default=False)
    lfs: bool = described("Pack the files of git LFS, too.", default=False)
    organization_key: bool = described(
        "Fetch with the deploy key of the organization, not with one of its own; for ssh.", default=False
    )
    password: GitCredential | None = None


@immutable
class ConfigureRepoRequest:
    """The body of `configure_repo`. Absent fields stay as they are."""

    poll_seconds: int = described(
        "The seconds between two looks; only on the box.", default=ABSENT, word="SECONDS", bounds=_POLLS
    )
    submodules: bool = described("Pack the files of submodules, too, or do not.", default=ABSENT)
    lfs: bool = described("Pack the files of git LFS, too, or do not.", default=ABSENT)
    pull_requests: PullRequestBuild = described(PULL_REQUESTS, default=ABSENT)
    merge_again: MergeAgain = described(MERGE_AGAIN, default=ABSENT)
    password: GitCredential = ABSENT


@owners_operation("listHostedRepos", GET, "/repositories")
def list_hosted_repos(call: Call) -> Annotated[list[HostedRepo], "All connected repositories."]:
    """List the repositories of all organizations, oldest first."""
    repositories = call.storage.repositories.all()
    errors = call.storage.build_origins.errors_of(repositories)
    return [HostedRepo.of(call.storage, each, errors.get(each.id)) for each in repositories]


@owners_operation("connectPlainRepo", POST, _REPOSITORIES)
def connect_plain_repo(call: Call, member: ThisMembership, body: ConnectPlainRepoRequest) -> PlainRepo:
    """Build what is pushed from now on to a repository on a plain git server or on this host.

    The heads that it has are noted, so that all later ones are built. A repository on this host gets a hook if there
    is none. Raises RepositoryConnected.
    """
    address = _address(body.url)
    known_as = body.full_name or repo_name(f"file://host{address}" if address.startswith("/") else address)
    if known_as is None or known_as.count("/") != 1 or not all(known_as.split("/")):
        raise ApiError(_REFUSED, f"{body.url} names no owner and repository: give --name OWNER/REPO")
    credential, is_new = _credential(call.storage, member.organization, address, known_as, body)
    heads, unread = (None, None) if is_new else _heads(call, address, credential)
    storage = call.storage
    with storage.transaction():
        made = storage.repositories.connect(member.organization.id, address, known_as, body.poll_seconds)
        made = storage.repositories.edit(made, submodules=body.submodules, lfs=body.lfs)
        if credential is not None:
            storage.repository_credentials.put(made, credential)
        if heads is not None:
            storage.repository_checks.record_heads(made, heads)
        token = storage.repositories.mint_token(made)
    hooked = made.is_path and install_hook(Path(address), call.service.url, token)
    key = credential if isinstance(credential, DeployKey) else None
    return showing(
        PlainRepo,
        HostedRepo.of(storage, made),
        hook=hooked,
        hook_script=None if hooked else server_hook(call.service.url, token),
        deploy_key=key and key.public_key,
        host_key_fingerprint=key and fingerprint(key.host_key),
        unread=unread,
    )


@owners_operation("configureRepo", PATCH, _REPOSITORY)
def configure_repo(call: Call, repository: ThisRepository, body: ConfigureRepoRequest) -> HostedRepo:
    """Change how a repository is fetched and packed; it is looked at at once, and its hook is renewed."""
    changes = given(body)
    if (password := changes.pop("password", None)) is not None:
        if repository.provider != GIT or not repository.url.startswith("https:"):
            raise ApiError(_REFUSED, f"{repository.url} needs no user and token: only plain https servers do")
        call.storage.repository_credentials.put(repository, password)
    edited = call.storage.repositories.edit(repository, **changes)
    if edited.is_path:
        try:
            renew_hook(Path(edited.url), call.service.url)
        except OSError as error:
            message = f"the hook of {edited.url} cannot be renewed: {error_reason(error)}"
            raise ApiError(_REFUSED, message) from None
    return HostedRepo.of(call.storage, edited)


@owners_operation("removeRepo", DELETE, _REPOSITORY)
def remove_repo(call: Call, repository: ThisRepository) -> RemovedRepo:
    """Build no more pushes to a repository, and remove its hook or webhook. Its pipelines and builds stay."""
    was, left = HostedRepo.of(call.storage, repository), None
    if repository.provider == GIT:
        call.storage.repositories.remove(repository)
    else:
        with connecting(call).connector() as connector:
            left = connector.disconnect(repository)
    if repository.is_path:
        remove_hook(Path(repository.url))
    return showing(RemovedRepo, was, webhook_left=left)


@owners_operation("rotateRepoKey", POST, f"{_REPOSITORY}/key/rotate")
def rotate_repo_key(call: Call, repository: ThisRepository) -> RepoKey:
    """Make a new deploy key for an ssh repository; the former is forgotten."""
    former = _deploy_key(call, repository)
    if former.of_organization:
        organization = call.storage.organizations.by_id(repository.organization_id)
        slug = "" if organization is None else organization.slug
        raise ApiError(_REFUSED, f"{repository.url} has the organization's key: run `ci-daemon org rotate-key {slug}`")
    made = new_deploy_key(repository.repo_name, former.host_key)
    call.storage.repository_credentials.put(repository, made)
    return RepoKey.of(repository, made, former)


@owners_operation("trustRepoServer", POST, f"{_REPOSITORY}/key/trust")
def trust_repo_server(call: Call, repository: ThisRepository) -> RepoKey:
    """Trust the key that the server of an ssh repository has now, in place of the one that was trusted."""
    before = _deploy_key(call, repository)
    after = replace(before, host_key=_server_key(repository.url))
    call.storage.repository_credentials.put(repository, after)
    call.storage.repository_checks.hasten(repository.id)
    return RepoKey.of(repository, after, before)


def _deploy_key(call: Call, repository: Repository) -> DeployKey:
    found = deploy_key_of(call.storage, repository)
    if found is None:
        raise ApiError(_REFUSED, f"{repository.url} has no deploy key: only repositories with an ssh URL have one")
    return found


def _address(url: str) -> str:
    """Return a URL or an absolute path that may be stored. Raises ApiError."""
    if not url.isprintable():
        raise ApiError(_REFUSED, "the URL or path has characters that cannot be shown")
    if ":" not in url.partition("/")[0]:
        path = Path(url).resolve()
        if not (path / "HEAD").is_file() and not (path / ".git" / "HEAD").is_file():
            message = f"{path} is no git repository that this user can read: correct the path or its permissions"
            raise ApiError(_REFUSED, message)
        url = str(path)
    try:
        return Remote.parse(url).url
    except RemoteInvalid as error:
        raise ApiError(_REFUSED, str(error)) from None


def _credential(
    storage: Storage, organization: Organization, address: str, known_as: str, body: ConnectPlainRepoRequest
) -> tuple[GitCredential | DeployKey | None, bool]:
    """Return what a new repository is read with, and whether that is a new key, not at its server yet.

    Raises ApiError.
    """
    protocol = Remote.parse(address).protocol
    if body.organization_key and (protocol != "ssh" or body.password is not None):
        raise ApiError(_REFUSED, "--org-key is for ssh URLs, which have no user and token")
    if body.password is not None:
        if protocol != "https":
            raise ApiError(_REFUSED, "--user and --token-file are for https URLs")
        return body.password, False
    if protocol != "ssh":
        return None, False
    server_key = _server_key(address)
    if not body.organization_key:
        return new_deploy_key(known_as, server_key), True
    key, is_new = key_for(storage, organization)
    return DeployKey(key.private_key, key.public_key, server_key, of_organization=True), is_new


def _server_key(address: str) -> str:
    """Return the key that the server of an ssh repository has now. Raises ApiError."""
    try:
        return host_key(Remote.parse(address))
    except GitError as error:
        raise ApiError("source_host_failed", str(error)) from None


def _heads(
    call: Call, address: str, credential: GitCredential | DeployKey | None
) -> tuple[Mapping[str, str] | None, str | None]:
    """Return the heads of a repository, or why they cannot be read."""
    try:
        return heads_at(address, call.box.repositories, credential), None
    except GitError as error:
        return None, f"it cannot be read yet, and pushes before the first look that succeeds may be missed: {error}"
