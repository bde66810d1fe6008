"""`ci-daemon schedule`: list, add, change and remove schedules, as the owner of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from actors.schedules import ScheduleInvalid, changed_schedule, new_schedule
from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.lookup import find_pipeline
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.command.support.timestamps import timestamp
from storage import SystemClock, TooManySchedules

if TYPE_CHECKING:
    from storage import Schedule, Storage

__all__ = ["schedule"]

_COLUMNS = ("id", "cron", "timezone", "branch", "next_at", "last_build_number", "last_error")
_MOST = 1000

_timezone_option = click.option("--timezone", metavar="ZONE", help="The time zone, as in Europe/Berlin.")
_branch_option = click.option("--branch", help="The branch to build.")


@click.group(cls=Group)
def schedule() -> None:
    """Schedules: the times at which pipelines are built."""


@schedule.command(name="list", reads=True)
@click.argument("org")
@click.argument("pipeline")
@pass_session
def list_schedules(session: Session, *, org: str, pipeline: str) -> None:
    """List the schedules of PIPELINE of the organization ORG, oldest first."""
    with session.storage_without_billing() as storage:
        page = storage.schedules.page(find_pipeline(storage, org, pipeline).id, _MOST, None)
    session.table([_document(each) for each in page.rows], _COLUMNS, f"{org}/{pipeline} has no schedules")


@schedule.command()
@click.argument("org")
@click.argument("pipeline")
@click.argument("cron")
@_timezone_option
@_branch_option
@pass_session
def add(session: Session, *, org: str, pipeline: str, cron: str, timezone: str | None, branch: str | None) -> None:
    """Build PIPELINE of the organization ORG at the times of CRON, as in "30 4 * * 1-5".

    The time zone is UTC by default, the branch the pipeline's default branch. Each time builds the head of the branch
    in a connected repository, or else repeats the branch's latest build.
    """
    with session.storage_without_billing() as storage:
        found = find_pipeline(storage, org, pipeline)
        try:
            new = new_schedule(cron, timezone, branch or found.default_branch, SystemClock().now())
            document = _document(storage.schedules.create(found.id, new))
        except (ScheduleInvalid, TooManySchedules) as error:
            raise _failure(error) from None
    session.answer(document, f"{document['id']}: next at {document['next_at']}")


@schedule.command(name="set")
@click.argument("id")
@click.option("--cron", help="The times, as a cron expression of five fields.")
@_timezone_option
@_branch_option
@click.option("--enable/--disable", "enabled", default=None, help="Whether the schedule builds.")
@pass_session
def set_schedule(
    session: Session,
    *,
    id: str,
    cron: str | None,
    timezone: str | None,
    branch: str | None,
    enabled: bool | None,
) -> None:
    """Change the schedule ID, with immediate effect."""
    with session.storage_without_billing() as storage:
        found = _find(storage, id)
        try:
            changes = changed_schedule(
                found, SystemClock().now(), cron=cron, timezone=timezone, branch=branch, enabled=enabled
            )
        except ScheduleInvalid as error:
            raise _failure(error) from None
        changed = storage.schedules.update(found.id, **changes)
    if changed is None:
        raise _unknown(id)
    document = _document(changed)
    session.answer(document, f"{id}: next at {document['next_at']}" if changed.enabled else f"{id}: disabled")


@schedule.command()
@click.argument("id")
@pass_session
def remove(session: Session, *, id: str) -> None:
    """Remove the schedule ID. Its builds stay."""
    with session.storage_without_billing() as storage:
        if not storage.schedules.remove(_find(storage, id).id):
            raise _unknown(id)
    session.answer({"removed": id}, f"removed {id}")


def _find(storage: Storage, uuid: str) -> Schedule:
    """Return a schedule by its ID. Raises Failure."""
    found = storage.schedules.by_uuid(uuid)
    if found is None:
        raise _unknown(uuid)
    return found


def _unknown(uuid: str) -> Failure:
    return Failure(f"there is no schedule {uuid}: `ci-daemon schedule list ORG PIPELINE` shows those of a pipeline")


def _failure(error: ScheduleInvalid | TooManySchedules) -> Failure:
    return Failure(f"{error.field}: {error}" if isinstance(error, ScheduleInvalid) else str(error))


def _document(each: Schedule) -> dict[str, object]:
    return {
        "id": each.uuid,
        "cron": each.cron,
        "timezone": each.timezone,
        "branch": each.branch,
        "enabled": each.enabled,
        "next_at": None if each.next_at is None else timestamp(each.next_at),
        "last_build_number": each.last_build_number,
        "last_error": each.last_error,
        "created_at": timestamp(each.created_at),
    }
