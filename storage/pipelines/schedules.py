"""Schedules: the times at which pipelines are built."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.database.clock import to_micros
from storage.database.statements import Columns, Query, Slots, Write, first, insert_into, slot, written
from storage.errors import PipelineGone, TooManySchedules
from storage.models.pipelines import PipelineRow, ScheduleRow
from storage.records.pipelines import MOST_SCHEDULES, NewSchedule, Schedule, ScheduleChanges

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime
    from typing import Unpack

    from storage.database.connection import Database
    from storage.documents import Page
    from storage.pipelines.pipelines import Pipelines

_SCHEDULE = Columns.of(Schedule, ScheduleRow)
_NEW: Slots[NewSchedule] = Slots(NewSchedule, ScheduleRow)
_CHANGED: Slots[Schedule] = Slots(Schedule, ScheduleRow)
_CHANGEABLE = tuple(ScheduleChanges.__annotations__)


class Schedules:
    """The schedules of pipelines, which go with their pipeline. Safe in any thread."""

    def __init__(self, database: Database, pipelines: Pipelines) -> None:
        self._database = database
        self._pipelines = pipelines
        this, of_pipeline = ScheduleRow.id == slot("id"), ScheduleRow.pipeline == slot("pipeline_id")
        schedules = ScheduleRow.select(*_SCHEDULE.selected)
        enabled = ScheduleRow.next_at.is_null(is_null=False)
        self._get = Query(database, lambda: schedules.where(this), _SCHEDULE)
        self._by_uuid = Query(database, lambda: schedules.where(ScheduleRow.uuid == slot("uuid")), _SCHEDULE)
        self._page = Query(
            database,
            lambda: (
                schedules.where(of_pipeline, ScheduleRow.id > slot("after"))
                .order_by(ScheduleRow.id)
                .limit(slot("limit"))
            ),
            _SCHEDULE,
        )
        by_people, by_file = ScheduleRow.declared_in.is_null(), ScheduleRow.declared_in.is_null(is_null=False)
        count = ScheduleRow.select(peewee.fn.COUNT(peewee.SQL("*")))
        self._count = Query(database, lambda: count.where(of_pipeline, by_people), first)
        self._declared = Query(
            database, lambda: schedules.where(of_pipeline, by_file).order_by(ScheduleRow.id), _SCHEDULE
        )
        self._due = Query(
            database,
            lambda: (
                schedules.join(PipelineRow)
                .where(
                    enabled,
                    ScheduleRow.next_at <= slot("now"),
                    ScheduleRow.id.not_in(peewee.SQL("(SELECT value FROM json_each(:firing))")),
                    PipelineRow.organization.not_in(peewee.SQL("(SELECT value FROM json_each(:busy))")),
                )
                .order_by(ScheduleRow.next_at)
                .limit(slot("limit"))
            ),
            _SCHEDULE,
        )
        self._later = Query(database, lambda: schedules.where(enabled, ScheduleRow.next_at > slot("after")), _SCHEDULE)
        self._insert = Write(database, lambda: insert_into(ScheduleRow, "last_build_number", "last_error"))
        self._update = Write(
            database,
            lambda: ScheduleRow.update(
                {getattr(ScheduleRow, name): slot(name) for name in _CHANGEABLE} | {ScheduleRow.last_error: None}
            ).where(this),
        )
        self._take = Write(
            database,
            lambda: ScheduleRow.update({ScheduleRow.next_at: slot("next_at")}).where(
                this, ScheduleRow.next_at == slot("due")
            ),
        )
        self._note = Write(
            database,
            lambda: ScheduleRow.update(
                {
                    ScheduleRow.last_build_number: peewee.fn.COALESCE(slot("number"), ScheduleRow.last_build_number),
                    ScheduleRow.last_error: slot("why"),
                }
            ).where(this),
        )
        self._remove = Write(database, lambda: ScheduleRow.delete().where(this))

    def create(self, pipeline_id: int, new: NewSchedule) -> Schedule:
        """Add a schedule to a pipeline. Raises TooManySchedules and PipelineGone."""
        with self._database.write():
            if self._pipelines.by_id(pipeline_id) is None:
                raise PipelineGone("the pipeline was deleted: it gets no schedule")
            if (self._count.one(pipeline_id=pipeline_id) or 0) >= MOST_SCHEDULES:
                message = f"the pipeline has {MOST_SCHEDULES} schedules already: change or delete one of them"
                raise TooManySchedules(message)
            return written(self._get.one(id=self._add(pipeline_id, new)))

    def declare(self, pipeline_id: int, declared: Iterable[NewSchedule]) -> None:
        """Let a pipeline have these schedules of its file and no others of one; those made by people stay.

        One that it has already keeps its next time.
        """
        with self._database.write():
            new = {_what(each): each for each in declared}
            for each in self._declared.all(pipeline_id=pipeline_id):
                if new.pop(_what(each), None) is None:
                    self._remove.run(id=each.id)
            for added in new.values():
                self._add(pipeline_id, added)

    def _add(self, pipeline_id: int, new: NewSchedule) -> int:
        return self._insert.insert(
            uuid=str(uuid4()), pipeline_id=pipeline_id, created_at=self._database.now(), **_NEW(new)
        )

    def update(self, schedule_id: int, **changes: Unpack[ScheduleChanges]) -> Schedule | None:
        """Change the given fields and forget the last error; None if the schedule was deleted."""
        with self._database.write():
            schedule = self._get.one(id=schedule_id)
            if schedule is None:
                return None
            values = _CHANGED(replace(schedule, **changes))
            self._update.run(id=schedule_id, **{name: values[name] for name in _CHANGEABLE})
            return self._get.one(id=schedule_id)

    def remove(self, schedule_id: int) -> bool:
        """Delete a schedule; False if it is gone already."""
        with self._database.write():
            return self._remove.run(id=schedule_id) == 1

    def by_uuid(self, uuid: str) -> Schedule | None:
        """Return a schedule by UUID."""
        return self._by_uuid.one(uuid=uuid)

    def page(self, pipeline_id: int, limit: int, after: int | None) -> Page[Schedule]:
        """Return a pipeline's schedules past the key ``after``, oldest first."""
        return self._page.page(limit, lambda each: each.id, pipeline_id=pipeline_id, after=after or 0)

    def due(self, limit: int, firing: Collection[int] = (), busy: Collection[int] = ()) -> list[Schedule]:
        """Return schedules that are due, longest overdue first.

        Without those ``firing``, and those of ``busy`` organizations, by their ids.
        """
        return self._due.all(
            now=self._database.now(), limit=limit, firing=json.dumps(list(firing)), busy=json.dumps(list(busy))
        )

    def later(self, moment: datetime) -> list[Schedule]:
        """Return the schedules whose next time is after a moment."""
        return self._later.all(after=to_micros(moment))

    def take(self, schedule: Schedule, next_at: datetime | None) -> bool:
        """Move a schedule on to its next time; False, and no change, if it was moved or changed meanwhile."""
        due, later = (None if each is None else to_micros(each) for each in (schedule.next_at, next_at))
        with self._database.write():
            return self._take.run(id=schedule.id, due=due, next_at=later) == 1

    def built(self, schedule_id: int, number: int) -> None:
        """Note the build that a schedule made."""
        with self._database.write():
            self._note.run(id=schedule_id, number=number, why=None)

    def failed(self, schedule_id: int, why: str) -> None:
        """Note why a schedule built nothing."""
        with self._database.write():
            self._note.run(id=schedule_id, number=None, why=why)


def _what(schedule: NewSchedule | Schedule) -> tuple[str, str, str, str | None]:
    """Return what makes two declared schedules the same."""
    return schedule.cron, schedule.timezone, schedule.branch, schedule.declared_in
