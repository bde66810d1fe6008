"""`ci-daemon audit`: list and follow changes."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING

import click

from api.operations import audit as operations
from ci_daemon.command.support.command_classes import Command
from ci_daemon.command.support.options import limit_option
from ci_daemon.command.support.session import Session, pass_session
from ci_daemon.terminal.text import printable
from storage import AuditFilter, document_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from api.doors import LocalDoor
    from storage import AuditEntry

_COLUMNS = ("at", "actor", "origin", "action", "subject", "note")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_AGE = re.compile(r"([1-9][0-9]{0,5})([smhd])", re.ASCII)
_POLL_SECONDS = 0.5
_BATCH = 1000


def _parse_time(_context: click.Context, _parameter: click.Parameter, value: str | None) -> datetime | None:
    """Parse an instant, or an age before now."""
    if value is None:
        return None
    if age := _AGE.fullmatch(value):
        return datetime.now(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])})
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        message = f'"{value}" is not a time: give one in UTC like 2030-01-31 or 2030-01-31T12:00:00Z, or an age like 7d'
        raise click.BadParameter(message) from None


@click.command(
    cls=Command,
    reads=True,
    json_help="Print one JSON document; with --follow one per line.",
)
@click.option(
    "--since",
    metavar="TIME",
    callback=_parse_time,
    help="Changes since this time, ISO 8601 in UTC, or this age, like 7d.",
)
@click.option("--until", metavar="TIME", callback=_parse_time, help="Changes before this time.")
@click.option("--by", metavar="WHO", help="Changes of this user of the host, or of this e-mail address.")
@click.option("--action", metavar="NAME", help='This command or operation of the API; * is any text, as in "org *".')
@click.option("--org", metavar="ORG", help="Changes to what belongs to this organization.")
@limit_option(100_000, default=20)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new entries until Ctrl-C, oldest first.")
@pass_session
def audit(
    session: Session,
    *,
    since: datetime | None,
    until: datetime | None,
    by: str | None,
    action: str | None,
    org: str | None,
    limit: int,
    follow: bool,
) -> None:
    """List the changes that were made through the API and by commands on this host, newest first.

    An entry says who made the change, from which address or terminal, by which operation or command, and what it
    changed. Its note names the door of an operation: api, console or box. Reads are not recorded. Entries are kept for
    retention.audit_days.
    """
    audit_filter = AuditFilter(since, until, by, action, org)
    with session.owners_door() as door:
        last = door.perform(operations.get_last_change, {})
        entries = [*islice(door.rows(operations.list_changes, {}, audit_filter), limit)]
        if follow:
            _follow(session, door, [entry for entry in entries if entry.id <= last], audit_filter, last)
    session.table([document_of(entry) for entry in entries], _COLUMNS, "no changes are recorded")


def _follow(
    session: Session, door: LocalDoor, entries: Iterable[AuditEntry], audit_filter: AuditFilter, last: int
) -> None:
    """Print the given entries and then new ones until Ctrl-C."""
    _print(session, reversed(list(entries)))
    while True:
        newest = door.perform(operations.get_last_change, {})
        while found := [*_after(door, last, audit_filter)]:
            _print(session, found)
            last = found[-1].id
        last = max(last, newest)
        time.sleep(_POLL_SECONDS)


def _after(door: LocalDoor, last: int, audit_filter: AuditFilter) -> Iterator[AuditEntry]:
    return door.rows(operations.list_changes_after, {}, operations.ChangesAfter(last, _BATCH, audit_filter))


def _print(session: Session, entries: Iterable[AuditEntry]) -> None:
    for document in map(document_of, entries):
        line = json.dumps(document) if session.json else "  ".join(printable(document[key]) for key in _COLUMNS)
        click.echo(line)
