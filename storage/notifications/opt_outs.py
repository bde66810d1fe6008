"""Addresses whose owners want no mail about builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.statements import Query, Write, insert_into, slot
from storage.models import MailOptOutRow

if TYPE_CHECKING:
    from storage.database.connection import Database

__all__ = ["MailOptOuts"]


class MailOptOuts:
    """The addresses that get no mail about builds, in their normal form. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        this = MailOptOutRow.email == slot("email")
        self._find = Query(database, MailOptOutRow.select(MailOptOutRow.email).where(this), tuple)
        self._add = Write(database, insert_into(MailOptOutRow).on_conflict_ignore())
        self._remove = Write(database, MailOptOutRow.delete().where(this))

    def has(self, email: str) -> bool:
        """Tell whether an address gets no mail about builds."""
        return self._find.one(email=email) is not None

    def set(self, email: str, *, out: bool) -> None:
        """Send an address no more mail about builds, or send it mail again."""
        with self._database.write():
            if out:
                self._add.run(email=email, created_at=self._database.now())
            else:
                self._remove.run(email=email)
