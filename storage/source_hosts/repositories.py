"""Repositories whose pushes are built, and when each is checked.

See wire-decisions.md, "Source hosts".
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.database.clock import SECOND
from storage.database.statements import Columns, Query, SqlValue, Write, insert_into, slot, written
from storage.errors import RepositoryConnected
from storage.models.accounts import OrganizationRow
from storage.models.pipelines import PipelineRow
from storage.models.source_hosts import RepositoryHeadRow, RepositoryRow
from storage.pipelines.clone_urls import clone_place
from storage.records.builds import HEADS
from storage.records.source_hosts import MergeAgain, PullRequestBuild, Repository, RepositoryHead
from storage.vault import hashed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from storage.database.connection import Database
    from storage.records.pipelines import Pipeline
    from storage.records.source_hosts import HostConnection, RemoteRepository


GIT = "git"
"""The provider of repositories on plain servers."""

_REPOSITORY = Columns.of(Repository, RepositoryRow)
_OF_PIPELINE: Columns[tuple[int, Repository]] = Columns(lambda *found: found, PipelineRow.id, _REPOSITORY)
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
        self._get = Query(database, lambda: repositories.where(this), _REPOSITORY)
        self._all = Query(database, lambda: repositories.order_by(RepositoryRow.id), _REPOSITORY)
        self._by_url = Query(
            database,
            lambda: repositories.where(
                RepositoryRow.organization == slot("organization_id"), RepositoryRow.url == slot("url")
            ),
            _REPOSITORY,
        )
        self._by_name = Query(
            database,
            lambda: repositories.where(
                RepositoryRow.organization == slot("organization_id"),
                peewee.fn.LOWER(RepositoryRow.repo_name) == peewee.fn.LOWER(slot("repo_name")),
            ),
            _REPOSITORY,
        )
        same_url = (RepositoryRow.organization == PipelineRow.organization) & (
            RepositoryRow.url == PipelineRow.repository
        )
        self._of_pipelines = Query(
            database,
            lambda: (
                PipelineRow.select(*_OF_PIPELINE.selected)
                .join(RepositoryRow, on=same_url)
                .join(OrganizationRow, on=RepositoryRow.organization == OrganizationRow.id)
                .where(PipelineRow.id.in_(peewee.SQL("(SELECT value FROM json_each(:ids))")), standing)
            ),
            _OF_PIPELINE,
        )
        self._insert = Write(
            database,
            lambda: insert_into(
                RepositoryRow,
                "checked_at",
                "failures",
                "last_error",
                "token_hash",
                "submodules",
                "lfs",
                "heads_known",
                "pull_requests_known",
                "pull_requests",
                "merge_again",
            ),
        )
        of_connection = RepositoryRow.connection == slot("connection_id")
        self._of_connection = Query(
            database, lambda: repositories.where(of_connection).order_by(RepositoryRow.id), _REPOSITORY
        )
        of_organization = RepositoryRow.organization == slot("organization_id")
        self._of_organization = Query(database, lambda: repositories.where(of_organization), _REPOSITORY)
        self._of_remote = Query(
            database,
            lambda: repositories.where(
                RepositoryRow.provider == slot("provider"), RepositoryRow.remote_id == slot("remote_id")
            ).order_by(RepositoryRow.id),
            _REPOSITORY,
        )
        self._describe = Write(
            database,
            lambda: RepositoryRow.update(
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
            lambda: PipelineRow.update(
                {PipelineRow.repository: slot("url"), PipelineRow.repo_name: slot("repo_name")}
            ).where(
                PipelineRow.organization == slot("organization_id"),
                PipelineRow.repository == slot("before"),
                PipelineRow.source_slug.is_null(is_null=False),
                PipelineRow.deleted_at.is_null(),
            ),
        )
        self._rename = Write(database, lambda: RepositoryRow.update({RepositoryRow.url: slot("url")}).where(this))
        self._move = Write(
            database, lambda: RepositoryRow.update({RepositoryRow.connection: slot("connection_id")}).where(this)
        )
        self._edit = Write(
            database,
            lambda: RepositoryRow.update(
                {
                    RepositoryRow.poll_seconds: slot("poll_seconds"),
                    RepositoryRow.submodules: slot("submodules"),
                    RepositoryRow.lfs: slot("lfs"),
                    RepositoryRow.pull_requests: slot("pull_requests"),
                    RepositoryRow.merge_again: slot("merge_again"),
                    RepositoryRow.next_check_at: slot("now"),
                }
            ).where(this),
        )
        self._remove = Write(database, lambda: RepositoryRow.delete().where(this))
        self._by_token = Query(
            database, lambda: repositories.where(RepositoryRow.token_hash == slot("hash")), _REPOSITORY
        )
        self._set_token = Write(
            database, lambda: RepositoryRow.update({RepositoryRow.token_hash: slot("hash")}).where(this)
        )

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
        pull_requests: PullRequestBuild | None = None,
        merge_again: MergeAgain | None = None,
    ) -> Repository:
        """Change how a repository is checked and built, and let it be checked at once; None stays."""
        with self._database.write():
            self._edit.run(
                id=repository.id,
                poll_seconds=repository.poll_seconds if poll_seconds is None else poll_seconds,
                submodules=int(repository.submodules if submodules is None else submodules),
                lfs=int(repository.lfs if lfs is None else lfs),
                pull_requests=pull_requests or repository.pull_requests,
                merge_again=merge_again or repository.merge_again,
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
        return self.find(pipeline.organization_id, pipeline.repository) or self._named(pipeline)

    def of_pipelines(self, pipelines: Iterable[Pipeline]) -> dict[int, Repository]:
        """Return the connected repositories of pipelines by the pipelines' ids; one that has none is left out."""
        wanted = {each.id: each for each in pipelines}
        found = dict(self._of_pipelines.all(ids=json.dumps(sorted(wanted))))
        for pipeline in wanted.values():
            if pipeline.id not in found and (named := self._named(pipeline)) is not None:
                found[pipeline.id] = named
        return found

    def _named(self, pipeline: Pipeline) -> Repository | None:
        if pipeline.repo_name is None:
            return None
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


_HEAD = Columns.of(RepositoryHead, RepositoryHeadRow)
_FIRST_PAUSE = 60 * SECOND
_LONGEST_PAUSE = 3600 * SECOND
_DOUBLINGS = 12
_PUT_OFF = 30 * SECOND


class RepositoryChecks:
    """The checks of connected repositories. Safe in any thread.

    The heads are the record of what was built: a push is a head that differs. Its builds and the move of the head are
    one transaction, so no push is built twice. Pushes during downtime are found at the next check.
    """

    def __init__(self, database: Database, repositories: Repositories) -> None:
        self._database = database
        self._repositories = repositories
        this = RepositoryRow.id == slot("id")
        head = (RepositoryHeadRow.repository == slot("id"), RepositoryHeadRow.ref == slot("ref"))
        oldest = peewee.fn.MIN(RepositoryRow.next_check_at)
        organization = peewee.NodeList((peewee.SQL("+"), RepositoryRow.organization), glue="")  # not by its index
        self._next = Query(
            database,  # SQLite takes the other columns from the row of the minimum
            lambda: (
                RepositoryRow.select(*_REPOSITORY.selected)
                .join(OrganizationRow)
                .where(
                    OrganizationRow.closed_at.is_null(),
                    RepositoryRow.next_check_at <= slot("now"),
                    RepositoryRow.id.not_in(peewee.SQL("(SELECT value FROM json_each(:busy))")),
                )
                .group_by(organization)
                .order_by(oldest)
            ),
            _REPOSITORY,
        )
        self._due = Query(
            database,
            lambda: (
                RepositoryRow.select(*_REPOSITORY.selected)
                .join(OrganizationRow)
                .where(OrganizationRow.closed_at.is_null(), RepositoryRow.next_check_at <= slot("now"))
                .order_by(RepositoryRow.next_check_at)
                .limit(slot("limit"))
            ),
            _REPOSITORY,
        )
        self._checked = Write(
            database,
            lambda: RepositoryRow.update(
                {
                    RepositoryRow.default_branch: slot("default_branch"),
                    RepositoryRow.checked_at: slot("now"),
                    RepositoryRow.next_check_at: slot("next"),
                    RepositoryRow.failures: 0,
                    RepositoryRow.last_error: None,
                }
            ).where(this),
        )
        self._failed = Write(
            database,
            lambda: RepositoryRow.update(
                {
                    RepositoryRow.next_check_at: slot("next"),
                    RepositoryRow.failures: RepositoryRow.failures + 1,
                    RepositoryRow.last_error: slot("why"),
                }
            ).where(this),
        )
        self._put_off = Write(
            database, lambda: RepositoryRow.update(next_check_at=slot("next"), last_error=slot("why")).where(this)
        )
        self._know_heads = Write(database, lambda: RepositoryRow.update(heads_known=1).where(this))
        merges = (RepositoryRow.pull_requests == PullRequestBuild.MERGED, RepositoryRow.merge_again != MergeAgain.NEVER)
        self._look_again = Write(database, lambda: RepositoryRow.update(pull_requests_known=0).where(this, *merges))
        self._know_pull_requests = Write(database, lambda: RepositoryRow.update(pull_requests_known=1).where(this))
        self._note = Write(database, lambda: RepositoryRow.update(last_error=slot("why")).where(this))
        earlier = peewee.fn.MIN(RepositoryRow.next_check_at, slot("by"))
        self._hasten = Write(database, lambda: RepositoryRow.update({RepositoryRow.next_check_at: earlier}).where(this))
        self._hasten_all = Write(database, lambda: RepositoryRow.update({RepositoryRow.next_check_at: slot("now")}))
        self._heads = Query(
            database,
            lambda: RepositoryHeadRow.select(*_HEAD.selected).where(RepositoryHeadRow.repository == slot("id")),
            _HEAD,
        )
        self._head = Query(database, lambda: RepositoryHeadRow.select(*_HEAD.selected).where(*head), _HEAD)
        self._put_head = Write(database, lambda: insert_into(RepositoryHeadRow).on_conflict("REPLACE"))
        self._drop_head = Write(database, lambda: RepositoryHeadRow.delete().where(*head))

    def due(self, limit: int) -> list[Repository]:
        """Return repositories that are to be checked now, the one that waits longest first."""
        return self._due.all(now=self._database.now(), limit=limit)

    def next_of_each(self, busy: Collection[int]) -> list[Repository]:
        """Return the repository of each organization that waits longest for its check, without the busy ones."""
        return self._next.all(now=self._database.now(), busy=json.dumps(list(busy)))

    def hasten(self, repository_id: int, by: int | None = None) -> None:
        """Let a repository be checked at once, or by an instant."""
        with self._database.write():
            self._hasten.run(id=repository_id, by=self._database.now() if by is None else by)

    def hasten_all(self) -> None:
        """Let every repository be checked at once, as at the start of the service."""
        with self._database.write():
            self._hasten_all.run(now=self._database.now())

    def checked(self, repository: Repository, default_branch: str | None) -> None:
        """Note a check that succeeded; the next is due after the repository's interval."""
        with self._database.write():
            now = self._database.now()
            self._checked.run(
                id=repository.id,
                default_branch=default_branch,
                now=now,
                next=now + repository.poll_seconds * SECOND,
            )

    def failed(self, repository: Repository, why: str) -> None:
        """Note a check that failed; the next waits ever longer, an hour at most."""
        with self._database.write():
            first = min(repository.poll_seconds * SECOND, _FIRST_PAUSE)
            pause = min(first << min(repository.failures, _DOUBLINGS), _LONGEST_PAUSE)
            self._failed.run(id=repository.id, next=self._database.now() + pause, why=why)

    def put_off(self, repository: Repository, why: str) -> None:
        """Note why a check left pushes for the next one, which is due in half a minute; it did not fail."""
        with self._database.write():
            self._put_off.run(id=repository.id, next=self._database.now() + _PUT_OFF, why=why)

    def note(self, repository: Repository, why: str) -> None:
        """Note what is wrong with a repository until its next check that succeeds."""
        with self._database.write():
            self._note.run(id=repository.id, why=why)

    def heads(self, repository_id: int) -> dict[str, str]:
        """Return the commits that were looked at last, by the full name of their branch or tag."""
        return {each.ref: each.commit for each in self._heads.all(id=repository_id)}

    def record_heads(self, repository: Repository, heads: Mapping[str, str]) -> None:
        """Adopt the heads of a repository that was connected just now, whose past is not built.

        Those that were recorded before stay.
        """
        with self._database.write():
            found = self._repositories.get(repository.id)
            if found is not None and not found.heads_known:
                for ref, commit in heads.items():
                    self._put_head.run(repository_id=repository.id, ref=ref, commit_sha=commit, adopted=1)
                self._know_heads.run(id=repository.id)

    def know_pull_requests(self, repository: Repository) -> None:
        """Note that the pull requests are built that were open when a repository was connected."""
        with self._database.write():
            self._know_pull_requests.run(id=repository.id)

    def take_back(self, repository: Repository, ref: str, old: str | None) -> None:
        """Take an adopted head back to its commit before a push, so that the push is found.

        Nothing changes for a head that was moved since it was adopted: its pushes were found.
        """
        with self._database.write():
            found = self._head.one(id=repository.id, ref=ref)
            if found is not None and found.adopted and old is None:
                self._drop_head.run(id=repository.id, ref=ref)
            elif found is not None and found.adopted:
                self._put_head.run(repository_id=repository.id, ref=ref, commit_sha=old, adopted=1)

    def move_head(self, repository: Repository, ref: str, old: str | None, new: str | None) -> bool:
        """Note a head's new commit or its deletion; False, and no change, if not at ``old``.

        The repository's pull requests are looked at anew if a branch moves into which they are merged.
        """
        with self._database.write():
            found = self._head.one(id=repository.id, ref=ref)
            if self._repositories.get(repository.id) is None or (found and found.commit) != old:
                return False
            if new is None:
                self._drop_head.run(id=repository.id, ref=ref)
            else:
                self._put_head.run(repository_id=repository.id, ref=ref, commit_sha=new, adopted=0)
                if ref.startswith(HEADS) and old is not None:
                    self._look_again.run(id=repository.id)
            return True
