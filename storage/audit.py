"""The audit: who changed what, when, and from where. Append-only; the oldest entries expire."""

from __future__ import annotations

from contextlib import closing
from itertools import product, takewhile
from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.database.clock import SystemClock
from storage.database.connection import Database
from storage.database.instants import to_micros
from storage.database.schema import schema_of_release, version
from storage.database.statements import NEWEST, Columns, Query, Write, first, insert_into, slot
from storage.files.kinds import DATABASE
from storage.models import AuditRow
from storage.records import AuditEntry, AuditFilter, Page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

__all__ = ["Audit", "append_to_audit"]

_BATCH = 1000
"""Entries that expire in one transaction."""

_INDEXED = tuple(product((False, True), (False, True)))
_ENTRY = Columns.of(AuditEntry, AuditRow)


class Audit:
    """The changes that people made by the API and by commands on the host. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = Write(database, insert_into(AuditRow))
        newest, following = AuditRow.id.desc(), AuditRow.id.asc()
        self._newest = {by: Query(database, _filtered(by).order_by(newest), _ENTRY) for by in _INDEXED}
        self._following = {by: Query(database, _filtered(by).order_by(following), _ENTRY) for by in _INDEXED}
        self._last = Query(database, AuditRow.select(peewee.fn.COALESCE(peewee.fn.MAX(AuditRow.id), 0)), first)
        self._oldest = Query(
            database,
            AuditRow.select(AuditRow.id, AuditRow.at)
            .where(AuditRow.id > slot("past"))
            .order_by(AuditRow.id)
            .limit(_BATCH),
            lambda row: (int(row[0]), int(row[1])),
        )
        self._expire = Write(database, AuditRow.delete().where(AuditRow.id <= slot("last")))

    def write(
        self,
        actor: str,
        action: str,
        subject: str,
        note: str,
        *,
        origin: str | None = None,
        organization: str | None = None,
    ) -> None:
        """Append an entry, in the caller's transaction if there is one."""
        with self._database.write():
            self._insert.run(
                uuid=str(uuid4()),
                at=self._database.now(),
                actor=actor,
                action=action,
                subject=subject,
                note=note,
                origin=origin,
                organization=organization,
            )

    def page(self, limit: int, after: int | None, wanted: AuditFilter = AuditFilter()) -> Page[AuditEntry]:  # noqa: B008 - it is frozen
        """Return the ``wanted`` entries past the key ``after``, newest first."""
        return self._newest[_indexed(wanted)].page(
            limit, lambda entry: entry.id, after=NEWEST if after is None else after, past=0, **_slots(wanted)
        )

    def following(self, past: int, limit: int, wanted: AuditFilter) -> list[AuditEntry]:
        """Return the first ``wanted`` entries past the id ``past``, oldest first."""
        return self._following[_indexed(wanted)].all(past=past, after=NEWEST, limit=limit, **_slots(wanted))

    def last_id(self) -> int:
        """Return the id of the newest entry; 0 if there is none."""
        return self._last.one() or 0

    def expirable(self, before: datetime) -> int:
        """Count the entries that `expire` would delete."""
        return sum(map(len, self._old(before)))

    def expire(self, before: datetime) -> int:
        """Delete the oldest entries, up to the first that is younger than an instant; return the count."""
        removed = 0
        for batch in self._old(before):
            with self._database.write():
                removed += self._expire.run(last=batch[-1])
        return removed

    def _old(self, before: datetime) -> Iterator[list[int]]:
        """Yield batches of ids, oldest first, up to the first entry that is younger than an instant."""
        end, past = to_micros(before), 0
        while rows := self._oldest.all(past=past):
            batch = [entry_id for entry_id, _ in takewhile(lambda row: row[1] < end, rows)]
            if batch:
                yield batch
            if len(batch) < len(rows):
                return
            past = batch[-1]


def _indexed(wanted: AuditFilter) -> tuple[bool, bool]:
    """Tell whether a filter gives an actor, and an organization."""
    return wanted.actor is not None, wanted.organization is not None


def _filtered(by: tuple[bool, bool]) -> peewee.ModelSelect[AuditRow]:
    """Return the wanted entries, for filters that give an actor, an organization, both or none.

    Each has a statement, since SQLite uses no index for a condition that may be left out.
    """
    persons = zip(by, (AuditRow.actor == slot("actor"), AuditRow.organization == slot("organization")), strict=True)
    return (
        AuditRow.select(*_ENTRY.selected)
        .where(
            AuditRow.id > slot("past"),
            AuditRow.id < slot("after"),
            AuditRow.at >= slot("since"),
            AuditRow.at < slot("until"),
            _given("action", peewee.Expression(AuditRow.action, "GLOB", slot("action"))),
            *(condition for given, condition in persons if given),
        )
        .limit(slot("limit"))
    )


def _given(name: str, condition: peewee.Node) -> peewee.Node:
    """Return a condition that also holds if the slot is null."""
    return peewee.Expression(peewee.Expression(slot(name), "IS", peewee.SQL("NULL")), "OR", condition)


def _slots(wanted: AuditFilter) -> dict[str, int | str | None]:
    return {
        "since": 0 if wanted.since is None else to_micros(wanted.since),
        "until": NEWEST if wanted.until is None else to_micros(wanted.until),
        "actor": wanted.actor,
        "action": wanted.action,
        "organization": wanted.organization,
    }


def append_to_audit(
    directory: Path,
    actor: str,
    action: str,
    subject: str,
    note: str,
    *,
    origin: str | None = None,
    organization: str | None = None,
) -> bool:
    """Append an entry to the audit of a state directory, opening only its database.

    False if there is no database, or its schema is another release's: an audit entry does not justify a migration.
    """
    path = directory / DATABASE
    if not path.is_file():
        return False
    with closing(Database(path, SystemClock())) as database:
        if version(database) != schema_of_release():
            return False
        Audit(database).write(actor, action, subject, note, origin=origin, organization=organization)
    return True
