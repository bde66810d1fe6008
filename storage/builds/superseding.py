"""Superseded builds: those that a newer build of their branch or pull request makes pointless."""

from __future__ import annotations

from typing import TYPE_CHECKING

import peewee

from storage.database.statements import Query, SqlValue, first, slot
from storage.models import BuildOriginRow, BuildRow
from storage.records import BuildErrorCode, BuildState, OriginEvent

if TYPE_CHECKING:
    from storage.database.connection import Database
    from storage.records import Build, NewOrigin


class SupersededBuilds:
    """Requests the cancel of builds of pushes and pull requests. Safe in any thread.

    Other builds, such as those of callers, schedules and tags, are never superseded.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        origin = BuildOriginRow.select(BuildOriginRow.build).where(
            BuildOriginRow.build == BuildRow.id, BuildOriginRow.repository == slot("repository_id")
        )
        of_branch = origin.where(BuildOriginRow.event == OriginEvent.PUSH, BuildOriginRow.ref == slot("ref"))
        of_pull_request = origin.where(BuildOriginRow.pull_request == slot("pull_request"))
        unfinished = BuildRow.finished_at.is_null() & (BuildRow.cancel_requested == 0) & BuildRow.error_code.is_null()
        waits = BuildRow.state == BuildState.SCHEDULED
        of_pipeline = BuildRow.pipeline == slot("pipeline_id")
        older = of_pipeline & (BuildRow.id < slot("id")) & (waits | (slot("running") == 1))
        cancel = BuildRow.update(
            {
                BuildRow.cancel_requested: 1,
                BuildRow.error_code: slot("error_code"),
                BuildRow.error_message: slot("error_message"),
            }
        )
        exists = peewee.fn.EXISTS
        self._of_branch = Query(
            database, cancel.where(unfinished, older, exists(of_branch)).returning(BuildRow.id), first
        )
        self._of_pull_request = Query(
            database, cancel.where(unfinished, older, exists(of_pull_request)).returning(BuildRow.id), first
        )
        self._closed = Query(
            database, cancel.where(unfinished, waits, exists(of_pull_request)).returning(BuildRow.id), first
        )

    def cancel_older(self, build: Build, origin: NewOrigin, *, running: bool) -> list[int]:
        """Cancel the pipeline's older builds of a build's branch or pull request; return their ids.

        Those that run only with ``running``.
        """
        this: dict[str, SqlValue] = {
            "id": build.id,
            "pipeline_id": build.pipeline_id,
            "repository_id": origin.repository_id,
            "running": int(running),
            "error_code": BuildErrorCode.SUPERSEDED,
            "error_message": f"build {build.number} is of a newer commit",
        }
        with self._database.write():
            if origin.event is OriginEvent.PULL_REQUEST:
                return self._of_pull_request.all(**this, pull_request=origin.pull_request)
            return self._of_branch.all(**this, ref=origin.ref) if origin.event is OriginEvent.PUSH else []

    def cancel_closed(self, repository_id: int, pull_request: int) -> list[int]:
        """Cancel the builds of a closed pull request that have not begun; return their ids."""
        with self._database.write():
            return self._closed.all(
                repository_id=repository_id,
                pull_request=pull_request,
                error_code=BuildErrorCode.SUPERSEDED,
                error_message=f"the pull request {pull_request} was closed",
            )
