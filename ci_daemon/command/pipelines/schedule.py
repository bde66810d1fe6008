"""`ci-daemon schedule`: list, add, change and remove schedules, on the box or of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_daemon.command.backend.schedules import ScheduleTerms
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.documents import document_of
from ci_daemon.command.support.names import PipelineName
from ci_daemon.command.support.session import Session, pass_session

if TYPE_CHECKING:
    from ci_daemon.remote.views import ScheduleView

__all__ = ["schedule"]

_COLUMNS = ("id", "cron", "timezone", "branch", "next_at", "last_build_number", "last_error")

_timezone_option = click.option("--timezone", metavar="ZONE", help="The time zone, as in Europe/Berlin.")
_branch_option = click.option("--branch", help="The branch to build.")


@click.group(cls=Group)
def schedule() -> None:
    """Schedules: the times at which pipelines are built."""


@schedule.command(name="list", cls=SharedCommand, reads=True)
@click.argument("org")
@click.argument("pipeline")
@pass_session
def list_schedules(session: Session, *, org: str, pipeline: str) -> None:
    """List the schedules of PIPELINE of the organization ORG, oldest first."""
    with session.backend() as backend:
        documents = [document_of(each) for each in backend.schedules.all(PipelineName(org, pipeline))]
    session.table(documents, _COLUMNS, f"{org}/{pipeline} has no schedules")


@schedule.command(cls=SharedCommand)
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
    with session.backend() as backend:
        made = backend.schedules.add(PipelineName(org, pipeline), ScheduleTerms(cron, timezone, branch))
    document = document_of(made)
    session.answer(document, f"{made.id}: {_next(made)}")


@schedule.command(name="set", cls=SharedCommand)
@click.argument("org")
@click.argument("pipeline")
@click.argument("id")
@click.option("--cron", help="The times, as a cron expression of five fields.")
@_timezone_option
@_branch_option
@click.option("--enable/--disable", "enabled", default=None, help="Whether the schedule builds.")
@pass_session
def set_schedule(
    session: Session,
    *,
    org: str,
    pipeline: str,
    id: str,
    cron: str | None,
    timezone: str | None,
    branch: str | None,
    enabled: bool | None,
) -> None:
    """Change the schedule ID of PIPELINE of the organization ORG, with immediate effect."""
    with session.backend() as backend:
        terms = ScheduleTerms(cron, timezone, branch, enabled)
        changed = backend.schedules.change(PipelineName(org, pipeline), id, terms)
    document = document_of(changed)
    session.answer(document, f"{id}: {_next(changed)}" if changed.enabled else f"{id}: disabled")


@schedule.command(cls=SharedCommand)
@click.argument("org")
@click.argument("pipeline")
@click.argument("id")
@pass_session
def remove(session: Session, *, org: str, pipeline: str, id: str) -> None:
    """Remove the schedule ID of PIPELINE of the organization ORG. Its builds stay."""
    with session.backend() as backend:
        backend.schedules.remove(PipelineName(org, pipeline), id)
    session.answer({"removed": id}, f"removed {id}")


def _next(made: ScheduleView) -> str:
    return "never again" if made.next_at is None else f"next at {made.next_at:%Y-%m-%d %H:%M} UTC"
