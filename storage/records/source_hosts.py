"""Accounts at source hosts, and the pushes and pull requests that builds were made for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from storage.records.builds import BuildState  # noqa: TC001 - a model reads the annotations

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["BuildOrigin", "HostConnection", "NewHostConnection", "NewOrigin", "OriginEvent", "RemoteRepository"]


@dataclass(frozen=True, slots=True)
class NewHostConnection:
    """An account at a source host, to be connected to an organization.

    ``remote_id`` is the host's own name for the connection, such as the id of an installation. ``credential`` is sealed
    when it is stored.
    """

    organization_id: int
    provider: str
    remote_id: str
    account: str
    account_type: str = ""
    name: str = ""
    credential: bytes | None = None


@dataclass(frozen=True, slots=True)
class HostConnection:
    """An account at a source host whose repositories an organization builds, without its credential."""

    id: int
    uuid: str
    organization_id: int
    provider: str
    remote_id: str
    account: str
    account_type: str
    name: str
    created_at: datetime
    updated_at: datetime
    synced_at: datetime | None
    suspended_at: datetime | None


@dataclass(frozen=True, slots=True)
class RemoteRepository:
    """A repository as its host describes it; ``remote_id`` stays when it is renamed or transferred."""

    remote_id: str
    url: str
    repo_name: str
    default_branch: str | None
    private: bool


class OriginEvent(StrEnum):
    """The event that a build was made for."""

    PUSH = "push"
    TAG = "tag"
    PULL_REQUEST = "pull_request"


@dataclass(frozen=True, slots=True)
class NewOrigin:
    """The push or pull request that a build is made for.

    ``ref`` is the full name of the branch or tag; of a pull request, that of its head. ``pull_request`` is its number
    and ``target_branch`` the branch it is to be merged into. ``actor`` is the login at the host of whom pushed or
    opened it; the author is the commit's own claim, which nobody has proven.
    """

    repository_id: int
    event: OriginEvent
    ref: str
    pull_request: int | None = None
    target_branch: str | None = None
    actor: str | None = None
    author_name: str | None = None
    author_email: str | None = None


@dataclass(frozen=True, slots=True)
class BuildOrigin:
    """The origin of a build, and how far its state was reported to the host.

    ``reported`` is the state of the build that the host was told of, ``report_id`` the host's name for it.
    ``report_at`` is when the next report is due; null if the host knows the final state, or gets none.
    """

    build_id: int
    repository_id: int | None
    event: OriginEvent
    ref: str
    pull_request: int | None
    target_branch: str | None
    actor: str | None
    author_name: str | None
    author_email: str | None
    reported: BuildState | None
    report_id: str | None
    report_at: datetime | None
    report_failures: int
    report_error: str | None
