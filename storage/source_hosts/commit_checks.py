"""The state of all pipelines of a commit, of which the commit's host is told under one name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.clock import DAY, SECOND
from storage.database.statements import Columns, Query, Write, insert_into, slot
from storage.models.source_hosts import CommitCheckRow
from storage.records.source_hosts import CommitCheck

if TYPE_CHECKING:
    from storage.database.connection import Database

_CHECK = Columns.of(CommitCheck, CommitCheckRow)
_KEPT = 30 * DAY
"""The time after which a commit that is built again is told anew."""


class CommitChecks:
    """The commits whose state is told to a host as one, and what was told last. Safe in any thread.

    A commit is looked at after each report of its builds, and before one begins it is noted that it will be, so that a
    crash between the two leaves the look only late.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        this = CommitCheckRow.id == slot("id")
        due = CommitCheckRow.select(*_CHECK.selected).where(CommitCheckRow.report_at <= slot("now"))
        self._due = Query(database, lambda: due.order_by(CommitCheckRow.report_at).limit(slot("limit")), _CHECK)
        self._due_of = Query(
            database,
            lambda: due.where(CommitCheckRow.repository == slot("repository_id")).order_by(CommitCheckRow.report_at),
            _CHECK,
        )
        self._find = Query(
            database,
            lambda: CommitCheckRow.select(*_CHECK.selected).where(
                CommitCheckRow.repository == slot("repository_id"), CommitCheckRow.report_id == slot("report_id")
            ),
            _CHECK,
        )
        self._insert = Write(
            database,
            lambda: insert_into(
                CommitCheckRow, "report_failures", "report_error", "state", "description", "report_id"
            ).on_conflict(
                conflict_target=[CommitCheckRow.repository, CommitCheckRow.commit],
                update={CommitCheckRow.report_at: slot("report_at")},
            ),
        )
        self._forget = Write(
            database,
            lambda: CommitCheckRow.delete().where(
                CommitCheckRow.report_at.is_null(), CommitCheckRow.recorded_at <= slot("before")
            ),
        )
        self._reported = Write(
            database,
            lambda: CommitCheckRow.update(
                {
                    CommitCheckRow.report_at: None,
                    CommitCheckRow.report_failures: 0,
                    CommitCheckRow.report_error: None,
                    CommitCheckRow.state: slot("state"),
                    CommitCheckRow.description: slot("description"),
                    CommitCheckRow.report_id: slot("report_id"),
                }
            ).where(this),
        )
        self._failed = Write(
            database,
            lambda: CommitCheckRow.update(
                {
                    CommitCheckRow.report_at: slot("next"),
                    CommitCheckRow.report_failures: CommitCheckRow.report_failures + 1,
                    CommitCheckRow.report_error: slot("why"),
                }
            ).where(this),
        )

    def look(self, repository_id: int, commit: str) -> None:
        """Note that the host of a commit may not know its state any more."""
        with self._database.write():
            now = self._database.now()
            self._forget.run(before=now - _KEPT)
            self._insert.run(repository_id=repository_id, commit_sha=commit, recorded_at=now, report_at=now)

    def due(self, limit: int) -> list[CommitCheck]:
        """Return the commits to look at now, the one that waits longest first."""
        return self._due.all(now=self._database.now(), limit=limit)

    def due_of(self, repository_id: int) -> list[CommitCheck]:
        """Return the commits of a repository to look at now."""
        return self._due_of.all(now=self._database.now(), repository_id=repository_id)

    def by_report(self, repository_id: int, report_id: str) -> CommitCheck | None:
        """Return the commit that the host of a repository knows the state of by this name."""
        return self._find.one(repository_id=repository_id, report_id=report_id)

    def reported(self, check: CommitCheck, state: str | None, description: str, report_id: str | None) -> None:
        """Note the state that the host was told of, None if there is nothing to tell."""
        with self._database.write():
            self._reported.run(id=check.id, state=state, description=description, report_id=report_id)

    def report_failed(self, check: CommitCheck, why: str, pause: float | None) -> None:
        """Note why a report failed, and the seconds until the next; None if it is given up."""
        with self._database.write():
            later = None if pause is None else self._database.now() + int(pause * SECOND)
            self._failed.run(id=check.id, next=later, why=why)
