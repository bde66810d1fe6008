"""The fields of the API's records of connected repositories that commands read; others are ignored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 - pydantic reads the annotations

__all__ = ["ConnectedRepoView", "RegistrationView", "RepoHookView", "RepoSummaryView", "RepoView"]


@dataclass(frozen=True, slots=True)
class RegistrationView:
    """A way by which a repository is connected."""

    provider: str


@dataclass(frozen=True, slots=True)
class RepoSummaryView:
    """A connected repository in a list."""

    id: str
    full_name: str
    clone_url: str
    default_branch: str | None
    last_synced_at: datetime | None
    last_error: str | None
    registrations: list[RegistrationView]


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class ConnectedRepoView:
    """A repository that was connected with a token."""

    id: str


@dataclass(frozen=True, slots=True)
class RepoHookView:
    """A hook for the server of a repository, shown only once."""

    script: str
