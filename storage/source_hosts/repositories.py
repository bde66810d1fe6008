"""Repositories whose pushes are built (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.accounts.tokens import hashed
from storage.database.statements import Columns, Query, SqlValue, Write, insert_into, slot, written
from storage.errors import RepositoryConnected
from storage.models import OrganizationRow, PipelineRow, RepositoryRow
from storage.pipelines.clone_urls import clone_place
from storage.records import Repository

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.database.connection import Database
    from storage.records import HostConnection, Pipeline, RemoteRepository

GIT = "git"
"""The provider of repositories on plain servers."""

_REPOSITORY = Columns.of(Repository, RepositoryRow)
_RECONCILED = 86_400
"""The seconds between two looks at a repository whose host reports its pushes."""

_TOKEN_BYTES = 32


class Repositories:
    """The connected repositories. Those of closed organizations are not found. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        standing = OrganizationRow.closed_at.is_null()
        repositories = RepositoryRow.select(*_REPOSITORY.selected).join(OrganizationRow).where(standing)
        this = RepositoryRow.id == slot("id")
        self._get = Query(database, repositories.where(this), _REPOSITORY)
        self._all = Query(database, repositories.order_by(RepositoryRow.id), _REPOSITORY)
        self._by_url = Query(
            database,
            repositories.where(RepositoryRow.organization == slot("organization_id"), RepositoryRow.url == slot("url")),
            _REPOSITORY,
        )
        self._by_name = Query(
            database,
            repositories.where(
                RepositoryRow.organization == slot("organization_id"),
                peewee.fn.LOWER(RepositoryRow.repo_name) == peewee.fn.LOWER(slot("repo_name")),
            ),
            _REPOSITORY,
        )
        self._insert = Write(
            database,
            insert_into(
                RepositoryRow,
                "checked_at",
                "failures",
                "last_error",
                "token_hash",
                "submodules",
                "lfs",
                "heads_known",
                "pull_requests_known",
            ),
        )
        of_connection = RepositoryRow.connection == slot("connection_id")
        self._of_connection = Query(database, repositories.where(of_connection).order_by(RepositoryRow.id), _REPOSITORY)
        of_organization = RepositoryRow.organization == slot("organization_id")
        self._of_organization = Query(database, repositories.where(of_organization), _REPOSITORY)
        self._of_remote = Query(
            database,
            repositories.where(
                RepositoryRow.provider == slot("provider"), RepositoryRow.remote_id == slot("remote_id")
            ).order_by(RepositoryRow.id),
            _REPOSITORY,
        )
        self._describe = Write(
            database,
            RepositoryRow.update(
                {
                    RepositoryRow.url: slot("url"),
                    RepositoryRow.repo_name: slot("repo_name"),
                    RepositoryRow.default_branch: slot("default_branch"),
                    RepositoryRow.private: slot("private"),
                    RepositoryRow.provider: slot("provider"),
                    RepositoryRow.connection: slot("connection_id"),
                    RepositoryRow.remote_id: slot("remote_id"),
                    RepositoryRow.poll_seconds: slot("poll_seconds"),
                }
            ).where(this),
        )
        self._move_pipelines = Write(
            database,
            PipelineRow.update({PipelineRow.repository: slot("url"), PipelineRow.repo_name: slot("repo_name")}).where(
                PipelineRow.organization == slot("organization_id"),
                PipelineRow.repository == slot("before"),
                PipelineRow.source_slug.is_null(is_null=False),
                PipelineRow.deleted_at.is_null(),
            ),
        )
        self._rename = Write(database, RepositoryRow.update({RepositoryRow.url: slot("url")}).where(this))
        self._move = Write(
            database, RepositoryRow.update({RepositoryRow.connection: slot("connection_id")}).where(this)
        )
        self._edit = Write(
            database,
            RepositoryRow.update(
                {
                    RepositoryRow.poll_seconds: slot("poll_seconds"),
                    RepositoryRow.submodules: slot("submodules"),
                    RepositoryRow.lfs: slot("lfs"),
                    RepositoryRow.next_check_at: slot("now"),
                }
            ).where(this),
        )
        self._remove = Write(database, RepositoryRow.delete().where(this))
        self._by_token = Query(database, repositories.where(RepositoryRow.token_hash == slot("hash")), _REPOSITORY)
        self._set_token = Write(database, RepositoryRow.update({RepositoryRow.token_hash: slot("hash")}).where(this))

    def connect(self, organization_id: int, url: str, repo_name: str, poll_seconds: int) -> Repository:
        """Connect a repository, to be checked at once. Raises RepositoryConnected."""
        with self._database.write():
            if self.find(organization_id, url) is not None:
                raise RepositoryConnected(f"{url} is connected already: `ci-daemon repo list` shows it")
            now = self._database.now()
            repository_id = self._insert.insert(
                uuid=str(uuid4()),
                organization_id=organization_id,
                url=url,
                repo_name=repo_name,
                poll_seconds=poll_seconds,
                default_branch=None,
                created_at=now,
                next_check_at=now,
                provider=GIT,
                connection_id=None,
                remote_id=None,
                private=1,
            )
            return written(self.get(repository_id))

    def edit(
        self,
        repository: Repository,
        *,
        poll_seconds: int | None = None,
        submodules: bool | None = None,
        lfs: bool | None = None,
    ) -> Repository:
        """Change how a repository is checked and packed, and let it be checked at once; what is None stays."""
        with self._database.write():
            self._edit.run(
                id=repository.id,
                poll_seconds=repository.poll_seconds if poll_seconds is None else poll_seconds,
                submodules=int(repository.submodules if submodules is None else submodules),
                lfs=int(repository.lfs if lfs is None else lfs),
                now=self._database.now(),
            )
            return written(self.get(repository.id))

    def follow(self, connection: HostConnection, found: Sequence[RemoteRepository]) -> list[Repository]:
        """Make the repositories of a connection those that its host has; return them.

        One that was renamed, or transferred from another connection of the organization, keeps its heads: ids must be
        of all repositories of the host. One that the organization has connected by its URL before belongs to the
        connection from now on.
        """
        with self._database.write():
            for remote in found:
                self._move_here(connection, remote)
            known = {each.remote_id: each for each in self.of_connection(connection.id)}
            for remote in found:
                if (same := known.get(remote.remote_id)) is not None and same.url != remote.url:
                    self._free_url(same)
            for remote in found:
                self.put_remote(connection, remote)
                known.pop(remote.remote_id, None)
            for gone in known.values():
                self.remove(gone)
            return self.of_connection(connection.id)

    def transfer(self, connection: HostConnection, remote: RemoteRepository) -> Repository:
        """Give a connection a repository that another one of the organization had; it keeps its heads."""
        with self._database.write():
            self._move_here(connection, remote)
            return self.put_remote(connection, remote)

    def put_remote(self, connection: HostConnection, remote: RemoteRepository) -> Repository:
        """Add a repository of a connection, or bring its description up to date; its pipelines move with it."""
        with self._database.write():
            described: dict[str, SqlValue] = {
                "url": remote.url,
                "repo_name": remote.repo_name,
                "default_branch": remote.default_branch,
                "private": int(remote.private),
                "provider": connection.provider,
                "connection_id": connection.id,
                "remote_id": remote.remote_id,
                "poll_seconds": _RECONCILED,
            }
            of_remote = self.of_remote(connection.provider, remote.remote_id)
            same = next((each for each in of_remote if each.connection_id == connection.id), None)
            by_url = self.find(connection.organization_id, remote.url)
            if same is not None and by_url is not None and by_url.id != same.id:
                self.remove(by_url)  # the host gave its name to another
            known = same or by_url
            if known is not None:
                self._describe.run(id=known.id, **described)
                self._move_pipelines.run(
                    organization_id=known.organization_id, before=known.url, url=remote.url, repo_name=remote.repo_name
                )
                return written(self.get(known.id))
            now = self._database.now()
            return written(
                self.get(
                    self._insert.insert(
                        uuid=str(uuid4()),
                        organization_id=connection.organization_id,
                        created_at=now,
                        next_check_at=now,
                        **described,
                    )
                )
            )

    def _move_here(self, connection: HostConnection, remote: RemoteRepository) -> None:
        """Take a repository that another connection of the organization had."""
        for each in self.of_remote(connection.provider, remote.remote_id):
            if each.organization_id == connection.organization_id and each.connection_id != connection.id:
                self._move.run(id=each.id, connection_id=connection.id)

    def _free_url(self, repository: Repository) -> None:
        """Free the URL of a repository that is renamed, so that two may exchange their names."""
        self._rename.run(id=repository.id, url=repository.uuid)
        self._move_pipelines.run(
            organization_id=repository.organization_id,
            before=repository.url,
            url=repository.uuid,
            repo_name=repository.repo_name,
        )

    def get(self, repository_id: int) -> Repository | None:
        """Return a repository by row id."""
        return self._get.one(id=repository_id)

    def find(self, organization_id: int, url: str) -> Repository | None:
        """Return an organization's repository by URL or path."""
        return self._by_url.one(organization_id=organization_id, url=url)

    def of_pipeline(self, pipeline: Pipeline) -> Repository | None:
        """Return the connected repository of a pipeline: by its clone URL, or by name where that is not known."""
        same = self.find(pipeline.organization_id, pipeline.repository)
        if same is not None or pipeline.repo_name is None:
            return same
        place = clone_place(pipeline.repository)
        named = self._by_name.all(organization_id=pipeline.organization_id, repo_name=pipeline.repo_name)
        fitting = [each for each in named if place in {None, clone_place(each.url)}]
        return min(fitting, key=lambda each: each.id, default=None)

    def of_connection(self, connection_id: int) -> list[Repository]:
        """Return the repositories of a connection, oldest first."""
        return self._of_connection.all(connection_id=connection_id)

    def of_organization(self, organization_id: int) -> list[Repository]:
        """Return the repositories of an organization, by name."""
        found = self._of_organization.all(organization_id=organization_id)
        return sorted(found, key=lambda each: (each.repo_name.lower(), each.id))

    def of_remote(self, provider: str, remote_id: str) -> list[Repository]:
        """Return the repositories that a kind of host knows by this id, oldest first."""
        return self._of_remote.all(provider=provider, remote_id=remote_id)

    def all(self) -> list[Repository]:
        """Return every repository, oldest first."""
        return self._all.all()

    def remove(self, repository: Repository) -> None:
        """Remove a repository and its heads. Its pipelines and builds stay."""
        with self._database.write():
            self._remove.run(id=repository.id)

    def mint_token(self, repository: Repository) -> str:
        """Return a new token with which the repository's host reports pushes; an earlier one is dead."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with self._database.write():
            self._set_token.run(id=repository.id, hash=hashed(token))
        return token

    def by_token(self, token: str) -> Repository | None:
        """Return the repository of a token; None if the token is invalid."""
        return self._by_token.one(hash=hashed(token))
