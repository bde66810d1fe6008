"""The ends of builds that are not told yet, and those that were told last of each branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import peewee

from storage.builds.build_rows import counts
from storage.database.instants import to_micros
from storage.database.statements import Columns, Query, Write, slot
from storage.models import BuildRow
from storage.records import BuildState, EndedBuild, ToldEnd

if TYPE_CHECKING:
    from storage.database.connection import Database
    from storage.records import Build

_ENDED = Columns(EndedBuild, BuildRow.id, BuildRow.recorded_at)
_TOLD = Columns(ToldEnd, BuildRow.number, (BuildRow.told_state, BuildState))


class EndedBuilds:
    """Ends of builds, each told once. A build that was retried ends again. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        untold = peewee.Expression(BuildRow.recorded_at, "IS NOT", BuildRow.told_at)  # both are null before an end
        self._untold = Query(
            database,
            BuildRow.select(*_ENDED.selected)
            .where(untold)
            .order_by(BuildRow.recorded_at, BuildRow.id)
            .limit(slot("limit")),
            _ENDED,
        )
        self._last_told = Query(
            database,
            BuildRow.select(*_TOLD.selected)
            .where(
                BuildRow.pipeline == slot("pipeline_id"),
                BuildRow.branch == slot("branch"),
                BuildRow.told_state.is_null(is_null=False),
                counts(),
            )
            .order_by(BuildRow.number.desc())
            .limit(1),
            _TOLD,
        )
        self._tell = Write(
            database,
            BuildRow.update(
                {
                    BuildRow.told_at: slot("recorded_at"),
                    BuildRow.told_state: peewee.fn.COALESCE(slot("state"), BuildRow.told_state),
                }
            ).where(BuildRow.id == slot("id"), BuildRow.recorded_at == slot("recorded_at"), untold),
        )

    def untold(self, limit: int) -> list[EndedBuild]:
        """Return ends that are not told yet, in the order in which they were recorded."""
        return self._untold.all(limit=limit)

    def last_told(self, build: Build) -> ToldEnd | None:
        """Return the end that was told of the branch's newest build, which may be this build itself."""
        return self._last_told.one(pipeline_id=build.pipeline_id, branch=build.branch)

    def tell(self, ended: EndedBuild, state: BuildState | None) -> bool:
        """Note an end as told; False if it was already, or if the build was retried meanwhile.

        ``state`` counts for the events of the branch's later builds; None if the end says nothing about the branch.
        """
        with self._database.write():
            return self._tell.run(id=ended.build_id, recorded_at=to_micros(ended.recorded_at), state=state) == 1
