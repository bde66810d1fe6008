"""Schedules and pipeline triggers of a pipeline (wire-decisions.md, "Schedules and notifications")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from actors.schedules import changed_schedule, new_schedule
from api.body import ABSENT, given
from api.errors.catalog import ApiError
from api.operations.operation import DELETE, GET, PATCH, POST, Call, Found, Span, Whole, created, done, operation
from api.operations.things import PIPELINE, ThisPipeline
from storage import Page, PipelineTrigger, Role, Schedule, TooManySchedules, described, immutable

if TYPE_CHECKING:
    from api.fields import Cron, RequiredText, TimeZone

_SCHEDULES = f"{PIPELINE}/schedules"
_SCHEDULE = f"{_SCHEDULES}/{{id}}"
_CRON = "The times, as a cron expression of five fields."
_TIMEZONE = "The time zone, as in Europe/Berlin."
_BRANCH = "The branch to build."


@immutable
class CreateScheduleRequest:
    """The body of ``POST …/schedules``: a cron expression of five fields, and an IANA time zone.

    Without ``timezone`` it is UTC. Without ``branch`` it is the pipeline's default branch as it is now.
    """

    cron: Cron = described(_CRON)
    timezone: TimeZone | None = described(_TIMEZONE, default=None, word="ZONE")
    branch: RequiredText | None = described(_BRANCH, default=None)
    enabled: bool | None = None


@immutable
class UpdateScheduleRequest:
    """The body of ``PATCH …/schedules/{id}``. Absent fields stay as they are."""

    cron: Cron = described(_CRON, default=ABSENT)
    timezone: TimeZone = described(_TIMEZONE, default=ABSENT, word="ZONE")
    branch: RequiredText = described(_BRANCH, default=ABSENT)
    enabled: bool = described("Whether the schedule builds.", default=ABSENT)


def _schedule(call: Call, pipeline: ThisPipeline, id: str) -> Schedule:
    found = call.storage.schedules.by_uuid(id)
    if found is None or found.pipeline_id != pipeline.id:
        raise ApiError.not_found("schedule", id)
    return found


def _own(call: Call, pipeline: ThisPipeline, id: str) -> Schedule:
    """Return a schedule that no file of a connected repository declares, where alone it could be changed."""
    found = _schedule(call, pipeline, id)
    if found.declared_in is not None and call.storage.repositories.of_pipeline(pipeline) is not None:
        where = f'the file {found.declared_in} of the branch "{found.branch}" says it: change it there, and push'
        raise ApiError("schedule_declared", where)
    return found


PipelineTriggerList = Annotated[
    list[PipelineTrigger], Whole("The builds after which a pipeline is built.", "PipelineTriggerList")
]
ThisSchedule = Annotated[Schedule, Found(_own, ("schedule_not_found", "schedule_declared"))]


@operation("listSchedules", GET, _SCHEDULES, "A page of schedules.")
def list_schedules(call: Call, pipeline: ThisPipeline, span: Span) -> Page[Schedule]:
    """List the pipeline's schedules, oldest first."""
    return call.storage.schedules.page(pipeline.id, span.limit, span.after)


@operation(
    "createSchedule", POST, _SCHEDULES, created("The schedule."), role=Role.ADMIN, errors=("too_many_schedules",)
)
def create_schedule(call: Call, pipeline: ThisPipeline, body: CreateScheduleRequest) -> Schedule:
    """Build a branch of the pipeline at certain times; needs the role admin.

    If the pipeline's repository is connected, each time builds the head of the branch. Otherwise it repeats the
    latest build of the branch: its source, its pipeline and its environment.
    """
    branch = body.branch or pipeline.default_branch
    new = new_schedule(body.cron, body.timezone, branch, call.clock.now(), enabled=body.enabled is not False)
    try:
        return call.storage.schedules.create(pipeline.id, new)
    except TooManySchedules as error:
        raise ApiError("too_many_schedules", str(error)) from None


@operation("updateSchedule", PATCH, _SCHEDULE, "The schedule as it is now.", role=Role.ADMIN)
def update_schedule(call: Call, schedule: ThisSchedule, body: UpdateScheduleRequest) -> Schedule:
    """Change, enable or disable a schedule; needs the role admin.

    Times that passed while it was disabled are not made up for. One that a file of the repository declares is changed
    there.
    """
    changes = changed_schedule(schedule, call.clock.now(), **given(body))
    changed = call.storage.schedules.update(schedule.id, **changes)
    if changed is None:
        raise ApiError.not_found("schedule", schedule.uuid)
    return changed


@operation("deleteSchedule", DELETE, _SCHEDULE, done("The schedule is deleted."), role=Role.ADMIN)
def delete_schedule(call: Call, schedule: ThisSchedule) -> None:
    """Delete a schedule; needs the role admin. Its builds stay.

    One that a file of the repository declares goes with its lines there.
    """
    if not call.storage.schedules.remove(schedule.id):
        raise ApiError.not_found("schedule", schedule.uuid)


@operation("listPipelineTriggers", GET, f"{PIPELINE}/triggers", "The triggers.")
def list_pipeline_triggers(call: Call, pipeline: ThisPipeline) -> PipelineTriggerList:
    """List the pipelines after whose builds this one is built, as its file says, and what came of it."""
    return call.storage.pipeline_triggers.of_pipeline(pipeline.id)
