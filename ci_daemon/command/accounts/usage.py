"""`ci-daemon usage`: the VM time of an organization of a server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from api.operations import billing
from api.operations import usage as operations
from ci_daemon.command.support.command_classes import ServerCommand
from ci_daemon.command.support.session import Session, pass_session
from storage import document_of, timestamp

_DAY = timedelta(days=1)
_DAY_COLUMNS = ("date", "cpu_seconds", "memory_gb_seconds", "disk_gb_seconds", "kept_mb_seconds", "total_cents")
_BUILD_COLUMNS = ("pipeline_slug", "build_number", "started_at", "job_count", "total_cents")

_DISK_COLUMNS = ("pipeline_slug", "build_number", "step_key", "bytes", "created_at")

_OF_BUILD = (
    "pipeline_name",
    "pipeline_slug",
    "build_number",
    "started_at",
    "finished_at",
    "job_count",
    "total_cents",
)
"""The fields of a build in JSON: a line has none of its jobs."""


def _instant(_context: click.Context, _parameter: click.Parameter, value: datetime | None) -> datetime | None:
    return value and value.replace(tzinfo=UTC)


@click.command(cls=ServerCommand)
@click.argument("org")
@click.option("--from", "start", type=click.DateTime(["%Y-%m-%d"]), callback=_instant, help="The first day, in UTC.")
@click.option("--to", "end", type=click.DateTime(["%Y-%m-%d"]), callback=_instant, help="The last day, in UTC.")
@click.option("--by", type=click.Choice(["day", "build", "disk"]), help="Show each day, build or kept disk.")
@pass_session
def usage(session: Session, *, org: str, start: datetime | None, end: datetime | None, by: str | None) -> None:
    """Show the VM time that the organization ORG used and what it cost, by default in the last 30 days.

    The disks that failed jobs leave cost, too, while they are kept; `--by disk` shows those that are there now.
    """
    until = (end or datetime.now(UTC)) + _DAY
    window = {"from": timestamp(start or until - 30 * _DAY), "to": timestamp(until)}
    names = {"org": org}
    with session.connection() as connection:
        if by == "day":
            days = connection.rows(operations.list_usage_by_day, names, window)
            session.table([document_of(each) for each in days], _DAY_COLUMNS, f"{org} used nothing")
            return
        if by == "disk":
            disks = connection.rows(operations.list_kept_disks, names)
            session.table([document_of(each) for each in disks], _DISK_COLUMNS, f"no disk of {org} is kept")
            return
        if by == "build":
            builds = map(document_of, connection.rows(operations.list_usage_by_build, names, window))
            documents = [{name: each[name] for name in _OF_BUILD} for each in builds]
            session.table(documents, _BUILD_COLUMNS, f"{org} built nothing")
            return
        used = document_of(connection.perform(operations.get_usage, names, query=window))
        balance = connection.perform(billing.get_balance, names).balance_cents
    document = {**used, "balance_cents": balance}
    if session.json:
        session.answer(document, "")
    else:
        session.properties(document)
