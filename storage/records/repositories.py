"""Repositories whose pushes are built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Repository", "RepositoryHead"]


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository that belongs to an organization; ``url`` is a URL or an absolute path on this host.

    ``provider`` is the kind of its source host, ``git`` for a plain server, and ``remote_id`` the host's own id for it.
    ``default_branch`` is known once it was checked. ``last_error`` is why the last ``failures`` checks failed.
    """

    id: int
    uuid: str
    organization_id: int
    url: str
    repo_name: str
    poll_seconds: int
    default_branch: str | None
    created_at: datetime
    next_check_at: datetime
    checked_at: datetime | None
    failures: int
    last_error: str | None
    provider: str
    connection_id: int | None
    remote_id: str | None
    private: bool

    @property
    def is_path(self) -> bool:
        """True if the repository is a folder of this host."""
        return self.url.startswith("/")


@dataclass(frozen=True, slots=True)
class RepositoryHead:
    """The commit of a branch or tag, by its full name, that was looked at last."""

    ref: str
    commit: str
