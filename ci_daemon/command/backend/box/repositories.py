"""Connected repositories of the box."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from actors.repositories import fingerprint, remove_hook, renew_hook, server_hook
from ci_daemon.command.backend.repositories import (
    HostedRepository,
    RepositoryChanges,
    RepositoryDetails,
    RepositoryHook,
    RepositoryKey,
    RepositoryPush,
)
from ci_daemon.command.support.lookup import find_organization, find_repository
from ci_daemon.command.support.session import Failure
from ci_daemon.overview import repository_errors
from storage import GIT, DeployKey, error_reason, immutable

if TYPE_CHECKING:
    from ci_daemon.command.support.session import Session
    from storage import Repository, Storage

_PUSHES = 20


@immutable
class BoxRepository(RepositoryDetails):
    """A repository with the account at its host whose token it is."""

    account: str | None


class BoxRepositories:
    """Repositories in a storage."""

    def __init__(self, session: Session, storage: Storage) -> None:
        self._session = session
        self._storage = storage

    def all(self, org: str | None) -> list[BoxRepository]:
        """Return the repositories of an organization, or all; an error may also be that of a report to a host."""
        errors = repository_errors(self._storage)
        wanted = None if org is None else find_organization(self._storage, org).id
        found = [each for each in self._storage.repositories.all() if wanted in {None, each.organization_id}]
        return [repository_of(self._storage, each, errors.get(each.id)) for each in found]

    def show(self, org: str, url: str) -> tuple[BoxRepository, list[RepositoryPush]]:
        """Return a repository and its last pushes, newest first."""
        found = find_repository(self._storage, url, org)
        shown = repository_of(self._storage, found, repository_errors(self._storage).get(found.id))
        return shown, [
            RepositoryPush(each.name, each.commit, each.outcome, each.builds, each.recorded_at)
            for each in self._storage.push_outcomes.latest(found.id, _PUSHES)
        ]

    def connect(self, org: str, hosted: HostedRepository) -> BoxRepository:
        """Build what is pushed to a repository of a source host, and let that report pushes."""
        from ci_daemon.command.backend.box.forges import connect_at_forge  # noqa: PLC0415 - the others ask no host

        connected = connect_at_forge(self._session, self._storage, find_organization(self._storage, org), hosted)
        connected = self._storage.repositories.edit(connected, submodules=hosted.submodules, lfs=hosted.lfs)
        return repository_of(self._storage, connected, connected.last_error)

    def edit(self, org: str, url: str, changes: RepositoryChanges) -> BoxRepository:
        """Change a repository, and return it as it is now; it is looked at at once, and its hook is renewed."""
        found = find_repository(self._storage, url, org)
        if changes.password is not None:
            if found.provider != GIT or not found.url.startswith("https:"):
                raise Failure(f"{found.url} needs no user and token: only plain https servers do")
            self._storage.repository_credentials.put(found, changes.password)
        found = self._storage.repositories.edit(
            found, poll_seconds=changes.poll_seconds, submodules=changes.submodules, lfs=changes.lfs
        )
        if found.is_path:
            try:
                renew_hook(Path(found.url), self._session.service_url())
            except OSError as error:
                raise Failure(f"the hook of {found.url} cannot be renewed: {error_reason(error)}") from None
        return repository_of(self._storage, found, found.last_error)

    def remove(self, org: str, url: str) -> BoxRepository:
        """Build no more pushes to a repository, and return it as it was; warn if its webhook may stay."""
        found = find_repository(self._storage, url, org)
        was, left = repository_of(self._storage, found, found.last_error), None
        if found.provider == GIT:
            self._storage.repositories.remove(found)
        else:
            from ci_daemon.command.backend.box.forges import disconnect_at_forge  # noqa: PLC0415 - as above

            left = disconnect_at_forge(self._session, self._storage, found)
        if left is not None:
            click.echo(f"its webhook may still be there: {left}", err=True)
        if found.is_path:
            remove_hook(Path(found.url))
        return was

    def key(self, org: str, url: str) -> RepositoryKey:
        """Return the deploy key of a repository."""
        found = find_repository(self._storage, url, org)
        key = deploy_key(self._storage, found)
        return RepositoryKey(found.uuid, key.public_key, fingerprint(key.host_key))

    def make_hook(self, org: str, url: str) -> RepositoryHook:
        """Make a hook that reports pushes to a repository on a plain git server."""
        found = find_repository(self._storage, url, org)
        if found.provider != GIT:
            raise Failure(f"{found.url} is at a host that reports pushes by itself")
        token = self._storage.repositories.mint_token(found)
        return RepositoryHook(found.uuid, server_hook(self._session.service_url(), token))


def deploy_key(storage: Storage, repository: Repository) -> DeployKey:
    """Return the key that a repository is fetched with. Raises Failure."""
    found = storage.repository_credentials.of(repository)
    if not isinstance(found, DeployKey):
        raise Failure(f"{repository.url} has no deploy key: only repositories with an ssh URL have one")
    return found


def repository_of(storage: Storage, each: Repository, error: str | None) -> BoxRepository:
    """Return the view of a stored repository, and why it cannot be fetched or its host is not told."""
    organization = storage.organizations.by_id(each.organization_id)
    connection = None if each.connection_id is None else storage.host_connections.get(each.connection_id)
    return BoxRepository(
        id=each.uuid,
        org=organization.slug if organization else "",
        url=each.url,
        provider=each.provider,
        repo_name=each.repo_name,
        default_branch=each.default_branch,
        checked_at=each.checked_at,
        last_error=error,
        poll_seconds=each.poll_seconds,
        submodules=each.submodules,
        lfs=each.lfs,
        next_check_at=each.next_check_at,
        account=None if connection is None else connection.account,
    )
