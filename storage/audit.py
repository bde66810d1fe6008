"""The audit: who did by hand what the service does not do by itself. Append-only, as the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from storage.models import AuditRow
from storage.records import AuditEntry, Page
from storage.statements import NEWEST, Columns, Command, Query, insert_into, slot

if TYPE_CHECKING:
    from storage.database import Database

__all__ = ["Audit"]

_ENTRY = Columns(
    AuditEntry,
    AuditRow.id,
    AuditRow.uuid,
    AuditRow.at,
    AuditRow.actor,
    AuditRow.action,
    AuditRow.subject,
    AuditRow.note,
)


class Audit:
    """The acts of operators. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = Command(database, insert_into(AuditRow))
        self._page = Query(
            database,
            AuditRow.select(*_ENTRY.selected)
            .where(AuditRow.id < slot("after"))
            .order_by(AuditRow.id.desc())
            .limit(slot("limit")),
            _ENTRY,
        )

    def write(self, actor: str, action: str, subject: str, note: str) -> None:
        """Note an act, in the caller's transaction where there is one."""
        with self._database.write():
            self._insert.run(
                uuid=str(uuid4()), at=self._database.now(), actor=actor, action=action, subject=subject, note=note
            )

    def page(self, limit: int, after: int | None) -> Page[AuditEntry]:
        """Return the entries, newest first, those past the key ``after``."""
        return self._page.page(limit, lambda entry: entry.id, after=NEWEST if after is None else after)
