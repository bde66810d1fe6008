"""The outcomes of pushes and pull requests: builds, or the reason why there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.instants import DAY
from storage.database.statements import Columns, Query, Write, insert_into, slot
from storage.models import PushOutcomeRow
from storage.records import PushOutcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.database.connection import Database

_OUTCOME = Columns.of(PushOutcome, PushOutcomeRow)
_KEPT = 7 * DAY
_OF_ONE_REF = 20
"""The most outcomes of one branch that are searched for that of a commit."""


class PushOutcomes:
    """The outcomes of the last seven days, as long as deliveries are kept. Safe in any thread.

    The answer to a push, pages, commands and deliveries show what came of a push from here.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        outcomes = PushOutcomeRow.select(*_OUTCOME.selected)
        of_repository = PushOutcomeRow.repository == slot("repository_id")
        self._latest = Query(
            database,
            outcomes.where(of_repository).order_by(PushOutcomeRow.id.desc()).limit(slot("limit")),
            _OUTCOME,
        )
        self._of_ref = Query(
            database,
            outcomes.where(of_repository, PushOutcomeRow.ref == slot("ref"))
            .order_by(PushOutcomeRow.id.desc())
            .limit(_OF_ONE_REF),
            _OUTCOME,
        )
        self._insert = Write(database, insert_into(PushOutcomeRow))
        self._forget = Write(database, PushOutcomeRow.delete().where(PushOutcomeRow.recorded_at <= slot("before")))

    def record(
        self,
        repository_id: int,
        ref: str,
        commit: str,
        outcome: str,
        pages: Sequence[str] = (),
        pull_request: int | None = None,
    ) -> None:
        """Note what came of a push or pull request, and forget what is older than a week."""
        with self._database.write():
            now = self._database.now()
            self._forget.run(before=now - _KEPT)
            self._insert.run(
                repository_id=repository_id,
                ref=ref,
                pull_request=pull_request,
                commit_sha=commit,
                outcome=outcome,
                pages="\n".join(pages),
                recorded_at=now,
            )

    def latest(self, repository_id: int, limit: int) -> list[PushOutcome]:
        """Return the latest outcomes of a repository, newest first."""
        return self._latest.all(repository_id=repository_id, limit=limit)

    def find(self, repository_id: int, ref: str, commit: str) -> PushOutcome | None:
        """Return the latest outcome of a commit of a ref, else the ref's latest.

        An annotated tag may be named by its object, and hosts may abbreviate a commit.
        """
        found = self._of_ref.all(repository_id=repository_id, ref=ref)
        return next((each for each in found if each.commit.startswith(commit)), found[0] if found else None)
