"""Repositories at Forgejo, Gitea and GitLab: the part of the box that asks them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from actors.source_hosts import ConnectRefused, HostError
from ci_daemon.command.support.session import Failure, Session
from ci_daemon.source_hosts import open_source_hosts
from storage import HostConnectedElsewhere, SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_daemon.command.backend.repositories import HostedRepository
    from storage import Organization, Repository, Storage


def connect_at_forge(
    session: Session, storage: Storage, organization: Organization, hosted: HostedRepository
) -> Repository:
    """Connect a repository with its token, and make its webhook. Raises Failure."""
    config = session.config()
    with _failures():
        connector = open_source_hosts(storage, config, SystemClock(), session.service_url()).connector
        return connector.connect(organization.id, hosted.url, hosted.token, hosted.provider, anywhere=True)[0]


def disconnect_at_forge(session: Session, storage: Storage, repository: Repository) -> str | None:
    """Remove a repository with its webhook; return why the webhook may still be there. Raises Failure."""
    config = session.config()
    with _failures():
        connector = open_source_hosts(storage, config, SystemClock(), session.service_url()).connector
        return connector.disconnect(repository)


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except (ConnectRefused, HostError, HostConnectedElsewhere) as error:
        raise Failure(str(error)) from None
