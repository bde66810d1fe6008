"""Repositories at Forgejo, Gitea and GitLab: the part of `ci-daemon repo` that asks them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from actors.source_hosts import ConnectRefused, HostError
from ci_daemon.command.support.session import Failure, Session
from ci_daemon.source_hosts import open_source_hosts
from storage import HostConnectedElsewhere, SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage import Organization, Repository, Storage

__all__ = ["connect_at_forge", "disconnect_at_forge"]

_MAX_TOKEN = 4096


def connect_at_forge(
    session: Session, storage: Storage, organization: Organization, url: str, token_file: TextIO, provider: str | None
) -> Repository:
    """Connect a repository with the token in a file, and make its webhook. Raises Failure."""
    config = session.config()
    token = token_file.read(_MAX_TOKEN).strip()
    with _failures():
        connector = open_source_hosts(storage, config, SystemClock(), config.http.url).connector
        return connector.connect(organization.id, url, token, provider, anywhere=True)[0]


def disconnect_at_forge(session: Session, storage: Storage, repository: Repository) -> str | None:
    """Remove a repository with its webhook; return why the webhook may still be there. Raises Failure."""
    config = session.config()
    with _failures():
        connector = open_source_hosts(storage, config, SystemClock(), config.http.url).connector
        return connector.disconnect(repository)


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except (ConnectRefused, HostError, HostConnectedElsewhere) as error:
        raise Failure(str(error)) from None
