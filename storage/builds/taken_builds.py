"""Builds whose artifacts builds of other pipelines take, by `files_of`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.statements import Query, Write, first, insert_into, slot, written
from storage.models.builds import TakenBuildRow

if TYPE_CHECKING:
    from storage.database.connection import Database


class TakenBuilds:
    """The builds whose artifacts builds take. Safe in any thread.

    A build takes one for each pipeline and branch that its file names: all its jobs and their retries get the same.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        this = (TakenBuildRow.build == slot("build_id")) & (TakenBuildRow.source == slot("source"))
        self._get = Query(database, lambda: TakenBuildRow.select(TakenBuildRow.taken_id).where(this), first)
        self._insert = Write(database, lambda: insert_into(TakenBuildRow).on_conflict_ignore())

    def get(self, build_id: int, source: str) -> int | None:
        """Return the id of the build that a build takes for a source; None if it has taken none yet."""
        return self._get.one(build_id=build_id, source=source)

    def take(self, build_id: int, source: str, taken_id: int) -> int:
        """Let a build take another one for a source; return the id of the one that it has taken first."""
        with self._database.write():
            self._insert.run(build_id=build_id, source=source, taken_id=taken_id)
            return written(self.get(build_id, source))
