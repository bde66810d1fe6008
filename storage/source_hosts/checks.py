"""Checks of repositories: when each is due, and the heads that were looked at last."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import peewee

from storage.database.instants import SECOND
from storage.database.statements import Columns, Query, Write, insert_into, slot
from storage.models import OrganizationRow, RepositoryHeadRow, RepositoryRow
from storage.records import Repository, RepositoryHead

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from storage.database.connection import Database
    from storage.source_hosts.repositories import Repositories

_REPOSITORY = Columns.of(Repository, RepositoryRow)
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
            RepositoryRow.select(*_REPOSITORY.selected)
            .join(OrganizationRow)
            .where(
                OrganizationRow.closed_at.is_null(),
                RepositoryRow.next_check_at <= slot("now"),
                RepositoryRow.id.not_in(peewee.SQL("(SELECT value FROM json_each(:busy))")),
            )
            .group_by(organization)
            .order_by(oldest),
            _REPOSITORY,
        )
        self._due = Query(
            database,
            RepositoryRow.select(*_REPOSITORY.selected)
            .join(OrganizationRow)
            .where(OrganizationRow.closed_at.is_null(), RepositoryRow.next_check_at <= slot("now"))
            .order_by(RepositoryRow.next_check_at)
            .limit(slot("limit")),
            _REPOSITORY,
        )
        self._checked = Write(
            database,
            RepositoryRow.update(
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
            RepositoryRow.update(
                {
                    RepositoryRow.next_check_at: slot("next"),
                    RepositoryRow.failures: RepositoryRow.failures + 1,
                    RepositoryRow.last_error: slot("why"),
                }
            ).where(this),
        )
        self._put_off = Write(
            database, RepositoryRow.update(next_check_at=slot("next"), last_error=slot("why")).where(this)
        )
        self._know_heads = Write(database, RepositoryRow.update(heads_known=1).where(this))
        self._know_pull_requests = Write(database, RepositoryRow.update(pull_requests_known=1).where(this))
        self._note = Write(database, RepositoryRow.update(last_error=slot("why")).where(this))
        earlier = peewee.fn.MIN(RepositoryRow.next_check_at, slot("by"))
        self._hasten = Write(database, RepositoryRow.update({RepositoryRow.next_check_at: earlier}).where(this))
        self._hasten_all = Write(database, RepositoryRow.update({RepositoryRow.next_check_at: slot("now")}))
        self._heads = Query(
            database,
            RepositoryHeadRow.select(*_HEAD.selected).where(RepositoryHeadRow.repository == slot("id")),
            _HEAD,
        )
        self._head = Query(database, RepositoryHeadRow.select(*_HEAD.selected).where(*head), _HEAD)
        self._put_head = Write(database, insert_into(RepositoryHeadRow).on_conflict("REPLACE"))
        self._drop_head = Write(database, RepositoryHeadRow.delete().where(*head))

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
        """Note a head's new commit or its deletion; False, and no change, if it is not at ``old``."""
        with self._database.write():
            found = self._head.one(id=repository.id, ref=ref)
            if self._repositories.get(repository.id) is None or (found and found.commit) != old:
                return False
            if new is None:
                self._drop_head.run(id=repository.id, ref=ref)
            else:
                self._put_head.run(repository_id=repository.id, ref=ref, commit_sha=new, adopted=0)
            return True
