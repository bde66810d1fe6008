"""The audit: who changed what, when, and from where. Append-only; the oldest entries expire."""

from __future__ import annotations

from contextlib import closing
from functools import cached_property, partial
from itertools import product, takewhile
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

import peewee

from storage.database.clock import SystemClock, to_micros
from storage.database.connection import Database
from storage.database.schema import schema_of_release, version
from storage.database.statements import NEWEST, Columns, Query, Slots, Write, first, insert_into, slot
from storage.documents import Page
from storage.files.kinds import DATABASE
from storage.models.service import AuditRow
from storage.records.audit import AuditEntry, AuditFilter, NewEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

_By: TypeAlias = tuple[bool, ...]
"""If a filter gives an actor, an organization and an action."""

_Read: TypeAlias = "Callable[[int, int, int], list[AuditEntry]]"
"""Read entries between two ids, and so many at most."""

_BATCH = 1000
"""Entries that expire in one transaction."""

_INDEXED = tuple(product((False, True), repeat=3))
_ENTRY = Columns.of(AuditEntry, AuditRow)
_NEW: Slots[NewEntry] = Slots(NewEntry, AuditRow)
_ACTIONS = """
WITH RECURSIVE found (action) AS (
    SELECT min(action) FROM audit_entries
    UNION ALL
    SELECT (SELECT min(action) FROM audit_entries WHERE action > found.action) FROM found WHERE action IS NOT NULL
)
SELECT action FROM found WHERE action GLOB :action
"""
"""The different actions that a pattern matches, by as many steps in their index as there are actions."""

_BOUNDS = """
SELECT
    coalesce((SELECT id FROM audit_entries WHERE at < :since - largest ORDER BY at DESC LIMIT 1), 0),
    coalesce((SELECT id FROM audit_entries WHERE at >= :until + largest ORDER BY at LIMIT 1), :newest)
FROM audit_set_back
"""
"""The ids between which all entries from ``since`` and before ``until`` are.

The entry of the latest instant that is earlier than ``since`` by more than the clock was ever set back comes before all
of them, and likewise after ``until``.
"""


class Audit:
    """The changes that people made by the API and by commands on the host. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = Write(database, lambda: insert_into(AuditRow))
        self._last = Query(database, lambda: AuditRow.select(peewee.fn.COALESCE(peewee.fn.MAX(AuditRow.id), 0)), first)
        self._oldest = Query(
            database,
            lambda: (
                AuditRow.select(AuditRow.id, AuditRow.at)
                .where(AuditRow.id > slot("past"))
                .order_by(AuditRow.id)
                .limit(_BATCH)
            ),
            lambda row: (int(row[0]), int(row[1])),
        )
        self._expire = Write(database, lambda: AuditRow.delete().where(AuditRow.id <= slot("last")))

    @cached_property
    def _newest(self) -> dict[_By, Query[AuditEntry]]:
        """The queries of entries, newest first; most processes only write some."""
        return {by: Query(self._database, partial(_filtered, by, AuditRow.id.desc()), _ENTRY) for by in _INDEXED}

    @cached_property
    def _following(self) -> dict[_By, Query[AuditEntry]]:
        return {by: Query(self._database, partial(_filtered, by, AuditRow.id), _ENTRY) for by in _INDEXED}

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
        self.add(NewEntry(actor, action, subject, note, origin, organization))

    def add(self, entry: NewEntry, made: int | None = None) -> None:
        """Append an entry, in the caller's transaction if there is one.

        The number of what was ``made`` is added to its subject.
        """
        values = _NEW(entry)
        if made is not None:
            values["subject"] = f"{entry.subject}/{made}"
        with self._database.write():
            self._insert.run(uuid=str(uuid4()), at=self._database.now(), **values)

    def page(self, limit: int, after: int | None, wanted: AuditFilter = AuditFilter()) -> Page[AuditEntry]:  # noqa: B008 - it is frozen
        """Return the ``wanted`` entries past the key ``after``, newest first."""
        rows: list[AuditEntry] = []
        past, before = self._bounds(wanted, 0, NEWEST if after is None else after)
        for read in self._reads(self._newest, wanted):
            rows = sorted((*rows, *read(past, before, limit + 1)), key=_id, reverse=True)[: limit + 1]
            past = rows[limit].id if len(rows) > limit else past
        return Page(tuple(rows[:limit]), rows[limit - 1].id if len(rows) > limit else None)

    def following(self, past: int, limit: int, wanted: AuditFilter) -> list[AuditEntry]:
        """Return the first ``wanted`` entries past the id ``past``, oldest first."""
        rows: list[AuditEntry] = []
        past, before = self._bounds(wanted, past, NEWEST)
        for read in self._reads(self._following, wanted):
            rows = sorted((*rows, *read(past, before, limit)), key=_id)[:limit]
            before = rows[-1].id if len(rows) == limit else before
        return rows

    def _bounds(self, wanted: AuditFilter, past: int, before: int) -> tuple[int, int]:
        """Return two ids between which the wanted entries are, of those between two others."""
        if wanted.since is None and wanted.until is None:
            return past, before
        ((first_id, last_id),) = self._database.execute(_BOUNDS, {**_instants(wanted), "newest": NEWEST})
        return max(past, first_id), min(before, last_id)

    def _reads(self, queries: Mapping[_By, Query[AuditEntry]], wanted: AuditFilter) -> Iterator[_Read]:
        """Yield what reads the wanted entries: one for each action, if only some are wanted."""
        slots = {**_instants(wanted), "actor": wanted.actor, "organization": wanted.organization}
        actions: Iterable[str | None] = (None,)
        if wanted.action is not None:
            actions = [action for (action,) in self._database.execute(_ACTIONS, {"action": wanted.action})]
        query = queries[wanted.actor is not None, wanted.organization is not None, wanted.action is not None]

        def read(action: str | None, past: int, before: int, limit: int) -> list[AuditEntry]:
            return query.all(past=past, after=before, limit=limit, action=action, **slots)

        return (partial(read, each) for each in actions)

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


def _id(entry: AuditEntry) -> int:
    return entry.id


def _instants(wanted: AuditFilter) -> dict[str, int]:
    return {
        "since": 0 if wanted.since is None else to_micros(wanted.since),
        "until": NEWEST if wanted.until is None else to_micros(wanted.until),
    }


def _filtered(by: _By, order: peewee.Node) -> peewee.ModelSelect[AuditRow]:
    """Return the wanted entries in an order, for filters that give some of actor, organization and action.

    Each has a statement, since SQLite uses no index for a condition that may be left out.
    """
    columns = (("actor", AuditRow.actor), ("organization", AuditRow.organization), ("action", AuditRow.action))
    return (
        AuditRow.select(*_ENTRY.selected)
        .where(
            AuditRow.id > slot("past"),
            AuditRow.id < slot("after"),
            AuditRow.at + 0 >= slot("since"),  # not by the index of instants, whose order is another
            AuditRow.at + 0 < slot("until"),
            *(column == slot(name) for given, (name, column) in zip(by, columns, strict=True) if given),
        )
        .order_by(order)
        .limit(slot("limit"))
    )


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
