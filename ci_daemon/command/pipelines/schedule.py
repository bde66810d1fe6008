"""`ci-daemon schedule`: list, add, change and remove schedules, on the box or of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from api.operations import schedules
from ci_daemon.command.support.body_options import body_option, body_options, given
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.session import Session, pass_session
from storage import document_of

if TYPE_CHECKING:
    from storage import Schedule

_COLUMNS = ("id", "cron", "timezone", "branch", "next_at", "last_build_number", "last_error", "declared_in")


@click.group(cls=Group)
def schedule() -> None:
    """Schedules: the times at which pipelines are built."""


@schedule.command(name="list", cls=SharedCommand, reads=True)
@click.argument("org")
@click.argument("pipeline")
@pass_session
def list_schedules(session: Session, /, **names: str) -> None:
    """List the schedules of PIPELINE of the organization ORG, oldest first."""
    with session.door() as door:
        session.records(
            door.rows(schedules.list_schedules, names), _COLUMNS, f"{names['org']}/{names['pipeline']} has no schedules"
        )


@schedule.command(cls=SharedCommand)
@click.argument("org")
@click.argument("pipeline")
@click.argument("cron")
@body_options(schedules.CreateScheduleRequest, "timezone", "branch")
@pass_session
def add(session: Session, /, *, org: str, pipeline: str, **terms: object) -> None:
    """Build PIPELINE of the organization ORG at the times of CRON, as in "30 4 * * 1-5".

    The time zone is UTC by default, the branch the pipeline's default branch. Each time builds the head of the branch
    in a connected repository, or else repeats the branch's latest build.
    """
    with session.door() as door:
        made = door.perform(schedules.create_schedule, {"org": org, "pipeline": pipeline}, given(terms))
    session.answer(document_of(made), f"{made.uuid}: {_next(made)}")


@schedule.command(name="set", cls=SharedCommand)
@click.argument("org")
@click.argument("pipeline")
@click.argument("id")
@body_options(schedules.UpdateScheduleRequest, "cron", "timezone", "branch")
@body_option(schedules.UpdateScheduleRequest, "enabled", "--enable/--disable")
@pass_session
def set_schedule(session: Session, /, *, org: str, pipeline: str, id: str, **terms: object) -> None:
    """Change the schedule ID of PIPELINE of the organization ORG, with immediate effect."""
    names = {"org": org, "pipeline": pipeline, "id": id}
    with session.door() as door:
        changed = door.perform(schedules.update_schedule, names, given(terms))
    session.answer(document_of(changed), f"{id}: {_next(changed)}" if changed.enabled else f"{id}: disabled")


@schedule.command(cls=SharedCommand)
@click.argument("org")
@click.argument("pipeline")
@click.argument("id")
@pass_session
def remove(session: Session, /, **names: str) -> None:
    """Remove the schedule ID of PIPELINE of the organization ORG. Its builds stay."""
    with session.door() as door:
        door.perform(schedules.delete_schedule, names)
    session.answer({"removed": names["id"]}, f"removed {names['id']}")


def _next(made: Schedule) -> str:
    return "never again" if made.next_at is None else f"next at {made.next_at:%Y-%m-%d %H:%M} UTC"
