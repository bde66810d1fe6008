"""Repositories whose pushes are built."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["DeployKey", "GitCredential", "Repository", "RepositoryHead"]


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository that belongs to an organization; ``url`` is a URL or an absolute path on this host.

    ``provider`` is the kind of its source host, ``git`` for a plain server, and ``remote_id`` the host's own id for it.
    With ``submodules`` and ``lfs`` sources have these, too. ``default_branch`` is known once it was checked.
    ``last_error`` is why the last ``failures`` checks failed.
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
    submodules: bool
    lfs: bool

    @property
    def is_path(self) -> bool:
        """True if the repository is a folder of this host."""
        return self.url.startswith("/")


@dataclass(frozen=True, slots=True)
class RepositoryHead:
    """The commit of a branch or tag, by its full name, that was looked at last."""

    ref: str
    commit: str


@dataclass(frozen=True, slots=True)
class GitCredential:
    """The user and password, or token, of a fetch over https. Raises ValueError for what git cannot send."""

    username: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        for each in (self.username, self.password):
            if not each or not each.isprintable():
                raise ValueError("a user or password is empty, or has a character that cannot be shown")


@dataclass(frozen=True, slots=True)
class DeployKey:
    """The ed25519 key of a fetch over ssh, in OpenSSH's formats, and the trusted public key of the host."""

    private_key: str = field(repr=False)
    public_key: str
    host_key: str
