"""Connected repositories, of the box or of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from storage import GitCredential


@immutable
class Repository:
    """A connected repository."""

    id: str
    org: str
    url: str
    provider: str
    repo_name: str
    default_branch: str | None
    checked_at: datetime | None
    last_error: str | None


@immutable
class RepositoryDetails(Repository):
    """A connected repository, how often it is looked at, and what is packed of it."""

    poll_seconds: int
    submodules: bool
    lfs: bool
    next_check_at: datetime


@immutable
class RepositoryPush:
    """A push or pull request, and its builds or why there are none."""

    name: str
    commit: str
    outcome: str
    builds: list[str]
    recorded_at: datetime


@immutable
class RepositoryKey:
    """The public deploy key of a repository that is fetched by ssh, and its server's trusted key."""

    id: str
    deploy_key: str
    host_key_fingerprint: str


@immutable
class RepositoryHook:
    """Shell lines for the server of a repository, shown only once."""

    id: str
    hook_script: str


@immutable
class HostedRepository:
    """A repository at Forgejo, Gitea or GitLab to connect: without a provider, its host is asked for it."""

    url: str
    token: str
    provider: str | None
    submodules: bool | None
    lfs: bool | None


@immutable
class RepositoryChanges:
    """Changes of a connected repository; what is None stays."""

    submodules: bool | None
    lfs: bool | None
    poll_seconds: int | None
    password: GitCredential | None


class Repositories(Protocol):
    """Connected repositories by their URLs. All methods raise Failure, RequestFailed and StorageError."""

    def all(self, org: str | None) -> Sequence[Repository]:
        """Return the repositories of an organization, or of all that the caller may see."""
        ...

    def show(self, org: str, url: str) -> tuple[RepositoryDetails, Sequence[RepositoryPush]]:
        """Return a repository and its last pushes, newest first."""
        ...

    def connect(self, org: str, hosted: HostedRepository) -> RepositoryDetails:
        """Build what is pushed to a repository of a source host, and let that report pushes."""
        ...

    def edit(self, org: str, url: str, changes: RepositoryChanges) -> RepositoryDetails:
        """Change a repository, and return it as it is now; it is looked at at once."""
        ...

    def remove(self, org: str, url: str) -> Repository:
        """Build no more pushes to a repository, and return it as it was."""
        ...

    def key(self, org: str, url: str) -> RepositoryKey:
        """Return the deploy key of a repository."""
        ...

    def make_hook(self, org: str, url: str) -> RepositoryHook:
        """Make a hook that reports pushes to a repository on a plain git server."""
        ...
