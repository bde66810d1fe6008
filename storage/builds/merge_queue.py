"""The merge queues of repositories, as rows: what waits, what is built, and what has landed."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.builds.build_rows import BUILD, existing_builds
from storage.database.statements import Columns, Query, Write, insert_into, slot, written
from storage.errors import MergeQueued, MergeQueueFull
from storage.models.builds import BuildRow
from storage.models.source_hosts import BuildOriginRow, QueuedMergeRow
from storage.records.source_hosts import MergeState, QueuedMerge

if TYPE_CHECKING:
    from storage.database.connection import Database
    from storage.records.builds import Build
    from storage.records.source_hosts import NewMerge, Repository

_ENTRY = Columns.of(QueuedMerge, QueuedMergeRow)
_MOST_OPEN = 200


def _progress() -> Columns[tuple[int, tuple[object, ...]]]:
    return Columns(
        lambda repository_id, *told: (repository_id, told),
        QueuedMergeRow.repository,
        QueuedMergeRow.id,
        QueuedMergeRow.state,
        QueuedMergeRow.merge_commit,
        BuildRow.id,
        (BuildRow.finished_at.is_null(), bool),
    )


class MergeQueues:
    """The entries of all merge queues. Safe in any thread.

    What a queue does next follows from these rows, the states of builds and the heads of the repository, so that
    nothing is lost if the service ends at any moment.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        entries = QueuedMergeRow.select(*_ENTRY.selected)
        this, is_open = QueuedMergeRow.id == slot("id"), QueuedMergeRow.ended_at.is_null()
        of_repository = QueuedMergeRow.repository == slot("repository_id")
        self._get = Query(database, lambda: entries.where(this), _ENTRY)
        self._by_uuid = Query(
            database, lambda: entries.where(of_repository, QueuedMergeRow.uuid == slot("uuid")), _ENTRY
        )
        self._open = Query(database, lambda: entries.where(of_repository, is_open).order_by(QueuedMergeRow.id), _ENTRY)
        self._ended = Query(
            database,
            lambda: (
                entries.where(of_repository, QueuedMergeRow.ended_at.is_null(is_null=False))
                .order_by(QueuedMergeRow.ended_at.desc())
                .limit(slot("limit"))
            ),
            _ENTRY,
        )
        progress = _progress()
        self._progress = Query(
            database,
            lambda: (
                QueuedMergeRow.select(*progress.selected)
                .join(BuildRow, peewee.JOIN.LEFT_OUTER, on=BuildRow.merge_commit == QueuedMergeRow.merge_commit)
                .where(is_open)
            ),
            progress,
        )
        self._builds = Query(
            database,
            lambda: (
                existing_builds()
                .join(BuildOriginRow, on=BuildOriginRow.build == BuildRow.id)
                .where(
                    BuildRow.merge_commit == slot("merge_commit"),
                    peewee.Expression(BuildOriginRow.repository, "+ 0 =", slot("repository_id")),
                    BuildOriginRow.ref == slot("ref"),
                )
                .order_by(BuildRow.id)
            ),
            BUILD,
        )
        self._insert = Write(database, lambda: insert_into(QueuedMergeRow, "base_commit", "merge_commit", "ended_at"))
        open_one = (this, is_open)
        self._find = Write(
            database,
            lambda: QueuedMergeRow.update(
                {
                    QueuedMergeRow.branch: slot("branch"),
                    QueuedMergeRow.target: slot("target"),
                    QueuedMergeRow.head: slot("head"),
                }
            ).where(*open_one),
        )
        self._build = Write(
            database,
            lambda: QueuedMergeRow.update(
                {
                    QueuedMergeRow.state: slot("state"),
                    QueuedMergeRow.reason: slot("reason"),
                    QueuedMergeRow.base_commit: slot("base_commit"),
                    QueuedMergeRow.merge_commit: slot("merge_commit"),
                }
            ).where(*open_one),
        )
        self._note = Write(database, lambda: QueuedMergeRow.update(reason=slot("reason")).where(*open_one))
        self._end = Write(
            database,
            lambda: QueuedMergeRow.update(state=slot("state"), reason=slot("reason"), ended_at=slot("now")).where(
                *open_one
            ),
        )

    def add(self, repository: Repository, new: NewMerge, by: str) -> QueuedMerge:
        """Add a branch or pull request at the end. Raises MergeQueued and MergeQueueFull."""
        with self._database.write():
            queued = self.of_repository(repository.id)
            if len(queued) >= _MOST_OPEN:
                raise MergeQueueFull(f"the merge queue has {_MOST_OPEN} entries: wait until some have landed")
            for each in queued:
                same_branch = new.branch is not None and (each.branch, each.target) == (new.branch, new.target)
                if same_branch or (new.pull_request is not None and each.pull_request == new.pull_request):
                    raise MergeQueued(f"{each.name} is in the merge queue already")
            entry_id = self._insert.insert(
                uuid=str(uuid4()),
                repository_id=repository.id,
                pull_request=new.pull_request,
                branch=new.branch,
                target=new.target,
                head=new.head,
                state=MergeState.QUEUED,
                reason="it waits for its turn",
                added_by=by,
                added_at=self._database.now(),
            )
            return written(self.get(entry_id))

    def get(self, entry_id: int) -> QueuedMerge | None:
        """Return an entry by row id."""
        return self._get.one(id=entry_id)

    def by_uuid(self, repository_id: int, uuid: str) -> QueuedMerge | None:
        """Return an entry of a repository."""
        return self._by_uuid.one(repository_id=repository_id, uuid=uuid)

    def of_repository(self, repository_id: int) -> list[QueuedMerge]:
        """Return the entries of a repository that have not ended, in their order."""
        return self._open.all(repository_id=repository_id)

    def ended(self, repository_id: int, limit: int) -> list[QueuedMerge]:
        """Return the entries of a repository that ended last, newest first."""
        return self._ended.all(repository_id=repository_id, limit=limit)

    def progress(self) -> dict[int, frozenset[tuple[object, ...]]]:
        """Return, for each repository with open entries, what changes when its queue may go on."""
        found: dict[int, set[tuple[object, ...]]] = {}
        for repository_id, told in self._progress.all():
            found.setdefault(repository_id, set()).add(told)
        return {each: frozenset(told) for each, told in found.items()}

    def builds(self, entry: QueuedMerge) -> list[Build]:
        """Return the builds of the merge that is built for an entry: of each pipeline the latest."""
        found = self._builds.all(merge_commit=entry.merge_commit, repository_id=entry.repository_id, ref=entry.ref)
        return list({each.pipeline_id: each for each in found}.values())

    def find(self, entry: QueuedMerge, branch: str, target: str, head: str) -> None:
        """Note what was looked up of an entry: from now on it is of this commit."""
        with self._database.write():
            self._find.run(id=entry.id, branch=branch, target=target, head=head)

    def build(self, entry: QueuedMerge, base: str, merge: str) -> None:
        """Note the merge that is built for an entry from now on; call it in the transaction of its builds."""
        with self._database.write():
            self._build.run(
                id=entry.id,
                state=MergeState.BUILDING,
                reason="its merge is built",
                base_commit=base,
                merge_commit=merge,
            )

    def wait(self, entry: QueuedMerge, reason: str) -> None:
        """Let an entry wait without a merge, for this reason."""
        with self._database.write():
            if (entry.state, entry.reason, entry.merge_commit) != (MergeState.QUEUED, reason, None):
                self._build.run(
                    id=entry.id, state=MergeState.QUEUED, reason=reason, base_commit=None, merge_commit=None
                )

    def note(self, entry: QueuedMerge, reason: str) -> None:
        """Note why an entry that is built waits."""
        with self._database.write():
            if entry.reason != reason:
                self._note.run(id=entry.id, reason=reason)

    def end(self, entry: QueuedMerge, state: MergeState, reason: str) -> bool:
        """End an entry in a final state; False if it has ended before."""
        with self._database.write():
            return self._end.run(id=entry.id, state=state, reason=reason, now=self._database.now()) == 1
