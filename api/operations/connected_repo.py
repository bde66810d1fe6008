"""One connected repository, whatever its host: how it is fetched, and how its pushes are reported."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime  # noqa: TC003 - the model of a record reads the annotations
from typing import TYPE_CHECKING, Self

from actors.repositories import fingerprint, server_hook
from api.errors.catalog import ApiError
from api.operations.operation import POST, Call, operation
from api.operations.things import REPOSITORY, ThisRepository
from storage import GIT, DeployKey, Repository, Role, Storage, example, immutable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage import PushOutcome


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
        return cls(
            name=stored.name,
            ref=stored.ref,
            pull_request=stored.pull_request,
            commit=stored.commit,
            outcome=stored.outcome,
            builds=tuple(stored.builds),
            recorded_at=stored.recorded_at,
        )


@immutable
class RepoWithPushes(Repo):
    """A connected repository with its last pushes, newest first."""

    pushes: tuple[Push, ...]

    @classmethod
    def with_pushes(cls, repo: Repo, outcomes: Iterable[PushOutcome]) -> Self:
        """Return the record of a repository and its pushes."""
        known = {each.name: getattr(repo, each.name) for each in fields(Repo)}
        return cls(**known, pushes=tuple(Push.of(each) for each in outcomes))


@immutable
class RepoHookResponse:
    """Shell lines to run once on the repository's server, in the folder of the bare repository.

    They hold a token that is shown only now; the lines that were shown before report no more.
    """

    script: str


@operation(
    "checkRepo", POST, f"{REPOSITORY}/check", "The repository, which is looked at soon.", status=202, role=Role.ADMIN
)
def check_repo(call: Call, repository: ThisRepository) -> Repo:
    """Look for pushes to a repository at once; needs the role admin.

    This makes up for reports that were lost, and shows whether it can be fetched.
    """
    call.storage.repository_checks.hasten(repository.id)
    call.engine.deliveries_added()
    return Repo.of(call.storage, call.storage.repositories.get(repository.id) or repository)


@operation("makeRepoHook", POST, f"{REPOSITORY}/hook", "The hook.", role=Role.ADMIN, errors=("repo_reports_by_itself",))
def make_repo_hook(call: Call, repository: ThisRepository) -> RepoHookResponse:
    """Make a hook that reports pushes to a repository on a plain git server; needs the role admin."""
    if repository.provider != GIT or repository.is_path:
        raise ApiError("repo_reports_by_itself", f"{repository.url} needs no hook of yours")
    token = call.storage.repositories.mint_token(repository)
    return RepoHookResponse(server_hook(call.service.url, token))


def deploy_key_of(storage: Storage, repository: Repository) -> DeployKey | None:
    """Return the key that a repository is fetched with by ssh; None for other repositories."""
    if repository.provider != GIT:
        return None
    credential = storage.repository_credentials.of(repository)
    return credential if isinstance(credential, DeployKey) else None
