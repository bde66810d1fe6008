"""Concurrency groups, and builds that a newer one makes pointless.

A group lets so many of its builds run at a time, in the order of creation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import peewee

from storage.data_classes import immutable
from storage.database.statements import NEWEST, Columns, Query, SqlValue, Write, first, slot
from storage.models.builds import BuildRow, EdgeRow, JobRow
from storage.models.pipelines import PipelineRow
from storage.models.source_hosts import BuildOriginRow
from storage.records.builds import BuildState, WaitsFor
from storage.records.jobs import SKIPPED_BY_CONDITION, BuildErrorCode, JobState, Turn
from storage.records.source_hosts import OriginEvent

if TYPE_CHECKING:
    from storage.database.connection import Database
    from storage.records.builds import Build, Concurrency, NewBuild
    from storage.records.pipelines import Pipeline
    from storage.records.source_hosts import NewOrigin


@immutable
class _Waiting:
    """A build that waits for its turn; ``limit`` is the most builds of its group that run at a time."""

    id: int
    organization_id: int
    group: str
    limit: int


def group_of(pipeline: Pipeline, new: NewBuild) -> str | None:
    """Return a build's concurrency group: that of its file, else that of its pipeline.

    One that looks for a culprit has none, so that it never delays or cancels another build.
    """
    if new.culprit_search_id is not None:
        return None
    group = pipeline.concurrency_group if new.concurrency is None else new.concurrency.group
    return None if group is None else shared_name(group, new.branch, new.untrusted_origin)


def shared_name(name: str, branch: str | None, untrusted_origin: str | None) -> str:
    """Return the name of a group or lock for a build, in which ``{branch}`` stands for the branch.

    A pull request of a fork has its own, so that it delays no other build.
    """
    own = name.replace("{branch}", branch or "")
    return own if untrusted_origin is None else f"{untrusted_origin}: {own}"


class ConcurrencyGroups:
    """The groups of each organization, and the end of all waiting. Safe in any thread.

    The unfinished builds of a group that wait for nothing have its places. The jobs of one that waits are ``pending``.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        columns = Columns(
            _Waiting,
            BuildRow.id,
            PipelineRow.organization,
            BuildRow.concurrency_group,
            (peewee.fn.COALESCE(BuildRow.concurrency_limit, PipelineRow.concurrency_limit), int),
        )
        unfinished = BuildRow.finished_at.is_null()
        runs, waits = BuildRow.waits_for.is_null(), BuildRow.waits_for == WaitsFor.TURN
        in_group = (
            PipelineRow.organization == slot("organization_id"),
            BuildRow.concurrency_group == slot("group"),
            unfinished,
        )

        def count(*conditions: Any) -> Any:  # noqa: ANN401 - peewee's
            return BuildRow.select(peewee.fn.COUNT(BuildRow.id)).join(PipelineRow).where(*in_group, *conditions)

        self._running = Query(database, lambda: count(runs, BuildRow.id != slot("id")), first)
        self._before = Query(database, lambda: count(waits, BuildRow.id < slot("id")), first)
        self._names: Query[str] = Query(
            database,
            lambda: (
                BuildRow.select(PipelineRow.slug, BuildRow.number)
                .join(PipelineRow)
                .where(*in_group, runs)
                .order_by(BuildRow.id)
                .limit(slot("limit"))
            ),
            lambda row: f"{row[0]}/{row[1]}",
        )
        self._limit = Query(
            database,
            lambda: (
                BuildRow.select(peewee.fn.COALESCE(BuildRow.concurrency_limit, PipelineRow.concurrency_limit))
                .join(PipelineRow)
                .where(BuildRow.id == slot("id"))
            ),
            first,
        )

        def older() -> Any:  # noqa: ANN401 - peewee's
            return BuildRow.select(BuildRow.id).join(PipelineRow).where(*in_group, BuildRow.id < slot("id"))

        self._cancel_older = Write(
            database,
            lambda: BuildRow.update(
                {
                    BuildRow.cancel_requested: 1,
                    BuildRow.error_code: BuildErrorCode.SUPERSEDED,
                    BuildRow.error_message: slot("why"),
                }
            ).where(BuildRow.id.in_(older()), BuildRow.cancel_requested == 0, BuildRow.error_code.is_null()),
        )
        self._join = Write(
            database,
            lambda: BuildRow.update(
                {
                    BuildRow.concurrency_group: slot("group"),
                    BuildRow.concurrency_limit: slot("limit"),
                    BuildRow.waits_for: slot("waits_for"),
                }
            ).where(BuildRow.id == slot("id")),
        )

        def elders() -> Any:  # noqa: ANN401 - peewee's
            elder: Any = BuildRow.alias("elder")
            of_elder: Any = PipelineRow.alias("of_elder")
            return (
                elder.select(elder.id)
                .join(of_elder)
                .where(
                    of_elder.organization == PipelineRow.organization,
                    elder.concurrency_group == BuildRow.concurrency_group,
                    elder.finished_at.is_null(),
                    elder.waits_for == WaitsFor.TURN,
                    elder.id < BuildRow.id,
                )
            )

        self._next = Query(
            database,
            lambda: (
                BuildRow.select(*columns.selected)
                .join(PipelineRow)
                .where(
                    BuildRow.concurrency_group.is_null(is_null=False), unfinished, waits, ~peewee.fn.EXISTS(elders())
                )
                .order_by(BuildRow.id)
            ),
            columns,
        )
        this = BuildRow.id == slot("id")
        self._set = Write(
            database, lambda: BuildRow.update({BuildRow.waits_for: slot("waits_for")}).where(this, unfinished)
        )

        def prerequisites() -> Any:  # noqa: ANN401 - peewee's
            before = JobRow.alias()
            is_awaited = before.error_code.is_null() | before.error_code.not_in(SKIPPED_BY_CONDITION)
            return (
                EdgeRow.select(EdgeRow.from_job)
                .join(before, on=before.id == EdgeRow.from_job)
                .where(EdgeRow.to_job == JobRow.id, is_awaited)
            )

        self._schedule = Write(
            database,
            lambda: JobRow.update(
                {
                    JobRow.state: JobState.SCHEDULED,
                    JobRow.scheduled_at: slot("now"),
                    JobRow.queued_at: slot("now"),
                }
            ).where(
                JobRow.build == slot("id"),
                JobRow.state == JobState.PENDING,
                JobRow.environment.is_null(),
                ~peewee.fn.EXISTS(prerequisites()),
            ),
        )

    def wait_of_new(self, pipeline: Pipeline, new: NewBuild) -> WaitsFor | None:
        """Return what a new build waits for, inside the transaction that creates it."""
        if new.approval_reason is not None:
            return WaitsFor.APPROVAL
        limit = pipeline.concurrency_limit if new.concurrency is None else new.concurrency.limit
        return self._wait(NEWEST, pipeline.organization_id, group_of(pipeline, new), limit)

    def join(self, build: Build, declared: Concurrency) -> WaitsFor | None:
        """Put a build whose file was just read into its group; return what it waits for then.

        Inside the caller's transaction.
        """
        group = shared_name(declared.group, build.branch, build.untrusted_origin)
        wait = self._wait(build.id, build.organization_id, group, declared.limit)
        self._join.run(id=build.id, group=group, limit=declared.limit, waits_for=wait)
        if declared.cancels:
            self.cancel_older(build.id, build.number, build.organization_id, group)
        return wait

    def cancel_older(self, build_id: int, number: int, organization_id: int, group: str) -> None:
        """Request the cancel of the older builds of a group, in the caller's transaction."""
        why = f'build {number} is newer in the concurrency group "{group}"'
        self._cancel_older.run(id=build_id, organization_id=organization_id, group=group, why=why)

    def wait_of(self, build: Build) -> WaitsFor | None:
        """Return what a build waits for before it may run, or run again, inside the caller's transaction."""
        if build.approval_reason is not None and build.approved_by is None:
            return WaitsFor.APPROVAL
        limit = self._limit_of(build)
        return self._wait(build.id, build.organization_id, build.concurrency_group, limit)

    def let_in(self, build: Build) -> None:
        """Give an approved build a place in its group, or let it wait for its turn.

        Inside the caller's transaction.
        """
        wait = self.wait_of(build)
        self._set.run(id=build.id, waits_for=wait)
        if wait is None:
            self._schedule.run(id=build.id, now=self._database.now())

    def give_turns(self) -> list[int]:
        """Give the free places of all groups to those that wait longest; return the ids of these builds."""
        if not any(self._has_place(each) for each in self._next.all()):
            return []
        given = []
        with self._database.write():
            while free := [each for each in self._next.all() if self._has_place(each)]:
                for each in free:
                    self._set.run(id=each.id, waits_for=None)
                    self._schedule.run(id=each.id, now=self._database.now())
                    given.append(each.id)
        return given

    def turn(self, build: Build) -> Turn | None:
        """Return for whom a build waits in its concurrency group; None if it does not."""
        if build.waits_for is not WaitsFor.TURN or build.concurrency_group is None:
            return None
        group: dict[str, SqlValue] = {"organization_id": build.organization_id, "group": build.concurrency_group}
        limit = self._limit_of(build)
        before = self._before.one(id=build.id, **group) or 0
        return Turn(build.concurrency_group, limit, tuple(self._names.all(limit=limit, **group)), before)

    def _limit_of(self, build: Build) -> int:
        return self._limit.one(id=build.id) or 1

    def _wait(self, build_id: int, organization_id: int, group: str | None, limit: int) -> WaitsFor | None:
        if group is None:
            return None
        this: dict[str, SqlValue] = {"id": build_id, "organization_id": organization_id, "group": group}
        if self._before.one(**this) or (self._running.one(**this) or 0) >= limit:
            return WaitsFor.TURN
        return None

    def _has_place(self, build: _Waiting) -> bool:
        running = self._running.one(id=build.id, organization_id=build.organization_id, group=build.group)
        return (running or 0) < build.limit


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
            database, lambda: cancel.where(unfinished, older, exists(of_branch)).returning(BuildRow.id), first
        )
        self._of_pull_request = Query(
            database, lambda: cancel.where(unfinished, older, exists(of_pull_request)).returning(BuildRow.id), first
        )
        self._closed = Query(
            database, lambda: cancel.where(unfinished, waits, exists(of_pull_request)).returning(BuildRow.id), first
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
