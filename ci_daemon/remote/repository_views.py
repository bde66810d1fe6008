"""The fields of the API's records of connected repositories that commands read; others are ignored."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - pydantic reads the annotations

from storage import immutable

__all__ = [
    "ConnectedRepoView",
    "RegistrationView",
    "RepoHookView",
    "RepoPushView",
    "RepoSummaryView",
    "RepoView",
    "ShownRepoView",
]


@immutable
class RegistrationView:
    """A way by which a repository is connected."""

    provider: str


@immutable
class RepoSummaryView:
    """A connected repository in a list."""

    id: str
    full_name: str
    clone_url: str
    default_branch: str | None
    last_synced_at: datetime | None
    last_error: str | None
    registrations: list[RegistrationView]


@immutable
class RepoPushView:
    """A push or pull request, and its builds or why there are none."""

    name: str
    commit: str
    outcome: str
    builds: list[str]
    recorded_at: datetime


@immutable
class RepoView:
    """The fields of a connected repository. Key and fingerprint are set if it is fetched by ssh."""

    id: str
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
    deploy_key: str | None
    host_key_fingerprint: str | None


@immutable
class ShownRepoView(RepoView):
    """A connected repository, with its last pushes."""

    pushes: tuple[RepoPushView, ...] = ()


@immutable
class ConnectedRepoView:
    """A repository that was connected with a token."""

    id: str


@immutable
class RepoHookView:
    """A hook for the server of a repository, shown only once."""

    script: str
