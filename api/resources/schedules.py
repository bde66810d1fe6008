"""Schedules of a pipeline (wire-decisions.md, "Schedules and notifications")."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

import storage
from actors.schedules import ScheduleInvalid, ScheduleTimes, changed_schedule, new_schedule
from api.bodies import answer, read_body
from api.errors.responses import ApiError
from api.fields import RequestBody, RequiredText, StoredRecord, Timestamp, Uuid
from api.openapi.operations import Answer, operation
from api.paging import PAGE_ERRORS, PAGE_PARAMETERS, PageRecord
from storage import Role, Storage, TooManySchedules

if TYPE_CHECKING:
    import falcon

    from api.middleware.authentication import Access
    from api.paging import Pager
    from storage import Clock, Schedule

__all__ = ["CreateScheduleRequest", "ScheduleRecord", "SchedulesResource", "UpdateScheduleRequest"]

_ERRORS = ("organization_not_found", "pipeline_not_found")
_CHANGE_ERRORS = (*_ERRORS, "insufficient_org_role")
_UTC = "UTC"
_ANY_TIME = "* * * * *"


def _cron(text: str) -> str:
    return _checked(text, _UTC, text)


def _timezone(name: str) -> str:
    return _checked(_ANY_TIME, name, name)


def _checked(cron: str, timezone: str, value: str) -> str:
    """Return the value. Raises ValueError if there is no such schedule."""
    try:
        ScheduleTimes(cron, timezone)
    except ScheduleInvalid as error:
        raise ValueError(str(error)) from None
    return value


_FIVE_FIELDS = {"pattern": r"^\s*\S+(\s+\S+){4}\s*$", "examples": ["30 4 * * 1-5"]}
Cron = Annotated[RequiredText, AfterValidator(_cron), Field(json_schema_extra=_FIVE_FIELDS)]
TimeZone = Annotated[RequiredText, AfterValidator(_timezone), Field(json_schema_extra={"examples": ["Europe/Berlin"]})]


class ScheduleRecord(StoredRecord):
    """A schedule. ``next_at`` is null while it is disabled.

    ``last_error`` is the reason if the last run built nothing; null otherwise.
    """

    id: Uuid
    cron: str
    timezone: str
    branch: str
    enabled: bool
    next_at: Timestamp | None
    last_build_number: int | None
    last_error: str | None
    created_at: Timestamp

    @classmethod
    def of(cls, schedule: storage.Schedule) -> ScheduleRecord:
        """Return the record of a stored schedule."""
        return cls.showing(schedule, id=schedule.uuid)


class CreateScheduleRequest(RequestBody):
    """The body of ``POST …/schedules``: a cron expression of five fields, and an IANA time zone.

    Without ``timezone`` it is UTC. Without ``branch`` it is the pipeline's default branch as it is now.
    """

    cron: Cron
    timezone: TimeZone | None = None
    branch: RequiredText | None = None
    enabled: bool | None = None


def _without_defaults(schema: dict[str, Any]) -> None:
    for field in schema["properties"].values():
        field.pop("default", None)


class UpdateScheduleRequest(RequestBody):
    """The body of ``PATCH …/schedules/{id}``. Absent fields stay as they are."""

    model_config = ConfigDict(json_schema_extra=_without_defaults)

    cron: Cron = _ANY_TIME
    timezone: TimeZone = _UTC
    branch: RequiredText = ""
    enabled: bool = True


class SchedulesResource:
    """``/api/v0/organizations/{org}/pipelines/{pipeline}/schedules`` and the paths below it."""

    def __init__(self, storage: Storage, access: Access, pager: Pager, clock: Clock) -> None:
        self._schedules = storage.schedules
        self._access = access
        self._pager = pager
        self._clock = clock

    @operation(
        "listSchedules",
        Answer(200, "A page of schedules.", PageRecord[ScheduleRecord]),
        errors=(*_ERRORS, *PAGE_ERRORS),
        parameters=PAGE_PARAMETERS,
    )
    def on_get_list(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """List the pipeline's schedules, oldest first."""
        _, found = self._access.pipeline(req, org, pipeline)
        page = partial(self._schedules.page, found.id)
        self._pager.answer(req, resp, f"schedules/{found.id}", page, ScheduleRecord.of)

    @operation(
        "createSchedule",
        Answer(201, "The schedule.", ScheduleRecord),
        errors=(*_CHANGE_ERRORS, "too_many_schedules"),
        body=CreateScheduleRequest,
    )
    def on_post_list(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """Build a branch of the pipeline at certain times; needs the role admin.

        If the pipeline's repository is connected, each time builds the head of the branch. Otherwise it repeats the
        latest build of the branch: its source, its pipeline and its environment.
        """
        member, found = self._access.pipeline(req, org, pipeline)
        member.require(Role.ADMIN)
        body = read_body(req, CreateScheduleRequest)
        branch = body.branch or found.default_branch
        new = new_schedule(body.cron, body.timezone, branch, self._clock.now(), enabled=body.enabled is not False)
        try:
            answer(resp, ScheduleRecord.of(self._schedules.create(found.id, new)), status=201)
        except TooManySchedules as error:
            raise ApiError("too_many_schedules", str(error)) from None

    @operation(
        "updateSchedule",
        Answer(200, "The schedule as it is now.", ScheduleRecord),
        errors=(*_CHANGE_ERRORS, "schedule_not_found"),
        body=UpdateScheduleRequest,
    )
    def on_patch(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, id: str) -> None:
        """Change, enable or disable a schedule; needs the role admin.

        Times that passed while it was disabled are not made up for.
        """
        schedule = self._managed(req, org, pipeline, id)
        body = read_body(req, UpdateScheduleRequest)
        changes = changed_schedule(schedule, self._clock.now(), **body.model_dump(exclude_unset=True))
        changed = self._schedules.update(schedule.id, **changes)
        if changed is None:
            raise ApiError.not_found("schedule", id)
        answer(resp, ScheduleRecord.of(changed))

    @operation(
        "deleteSchedule",
        Answer(204, "The schedule is deleted."),
        errors=(*_CHANGE_ERRORS, "schedule_not_found"),
    )
    def on_delete(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, id: str) -> None:
        """Delete a schedule; needs the role admin. Its builds stay."""
        schedule = self._managed(req, org, pipeline, id)
        if not self._schedules.remove(schedule.id):
            raise ApiError.not_found("schedule", id)
        resp.status = 204

    def _managed(self, req: falcon.Request, org: str, pipeline: str, uuid: str) -> Schedule:
        """Return a schedule that the caller may change. Raises ApiError for 401, 404 and 403."""
        member, found = self._access.pipeline(req, org, pipeline)
        schedule = self._schedules.by_uuid(uuid)
        if schedule is None or schedule.pipeline_id != found.id:
            raise ApiError.not_found("schedule", uuid)
        member.require(Role.ADMIN)
        return schedule
