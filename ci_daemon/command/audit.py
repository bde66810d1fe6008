"""`ci-daemon audit`: list and follow changes."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from ci_daemon.command.instants import on_the_wire
from ci_daemon.command.session import Session, pass_session
from ci_daemon.command.style import Command
from ci_daemon.terminal.cells import on_one_line
from storage import AuditFilter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage import AuditEntry, Storage

__all__ = ["audit"]

_COLUMNS = ("at", "actor", "origin", "action", "subject", "note")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_AGO = re.compile(r"([1-9][0-9]{0,5})([smhd])", re.ASCII)
_LOOK_SECONDS = 0.5
_AT_ONCE = 1000


def _instant(_context: click.Context, _parameter: click.Parameter, value: str | None) -> datetime | None:
    """Parse an instant, or an age before now."""
    if value is None:
        return None
    if ago := _AGO.fullmatch(value):
        return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        message = (
            f'"{value}" is no time: give one in UTC like 2030-01-31 or 2030-01-31T12:00:00Z, or an age like 90m or 7d'
        )
        raise click.BadParameter(message) from None


@click.command(
    cls=Command,
    reads=True,
    json_help="Answer with one JSON document on stdout; with --follow a document a line.",
)
@click.option("--since", metavar="TIME", callback=_instant, help="From then on: ISO 8601, in UTC, or an age like 7d.")
@click.option("--until", metavar="TIME", callback=_instant, help="Before then.")
@click.option("--by", metavar="WHO", help="Changes of this user of the host, or of this e-mail address.")
@click.option("--action", metavar="NAME", help='This command or operation of the API; * is any text, as in "org *".')
@click.option("--org", metavar="ORG", help="Changes to what belongs to this organization.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help="How many at most.")
@click.option("-f", "--follow", is_flag=True, help="Go on with new entries until Ctrl-C; the oldest first.")
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

    An entry says who made the change, from which address or terminal, by which command or operation of the API, and
    what it changed. Reads are not recorded. Entries are kept for retention.audit_days.
    """
    wanted = AuditFilter(since, until, by, action, org)
    with session.records() as storage:
        last = storage.audit.last_id()
        entries = storage.audit.page(limit, None, wanted).rows
        if follow:
            _follow(session, storage, [entry for entry in entries if entry.id <= last], wanted, last)
    session.table([_document(entry) for entry in entries], _COLUMNS, "no change is noted")


def _follow(session: Session, storage: Storage, entries: Iterable[AuditEntry], wanted: AuditFilter, last: int) -> None:
    """Print the given entries and then new ones until Ctrl-C."""
    _print(session, reversed(list(entries)))
    while True:
        newest = storage.audit.last_id()
        while found := storage.audit.following(last, _AT_ONCE, wanted):
            _print(session, found)
            last = found[-1].id
        last = max(last, newest)
        time.sleep(_LOOK_SECONDS)


def _print(session: Session, entries: Iterable[AuditEntry]) -> None:
    for document in map(_document, entries):
        line = json.dumps(document) if session.json else "  ".join(on_one_line(document[key]) for key in _COLUMNS)
        click.echo(line)


def _document(entry: AuditEntry) -> dict[str, object]:
    return {
        "id": entry.uuid,
        "at": on_the_wire(entry.at),
        "actor": entry.actor,
        "origin": entry.origin,
        "action": entry.action,
        "organization": entry.organization,
        "subject": entry.subject,
        "note": entry.note,
    }
