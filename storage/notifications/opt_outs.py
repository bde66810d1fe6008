"""Addresses whose owners want no mail about builds."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from storage.database.statements import Query, Write, insert_into, slot
from storage.models import MailOptOutRow

if TYPE_CHECKING:
    from itsdangerous import URLSafeSerializer

    from storage.database.connection import Database
    from storage.vault import Vault


class MailOptOuts:
    """The addresses that get no mail about builds, in their normal form. Safe in any thread."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault
        this = MailOptOutRow.email == slot("email")
        self._find = Query(database, MailOptOutRow.select(MailOptOutRow.email).where(this), tuple)
        self._add = Write(database, insert_into(MailOptOutRow).on_conflict_ignore())
        self._remove = Write(database, MailOptOutRow.delete().where(this))

    def token(self, email: str) -> str:
        """Return the token with which the reader of a mail opts out, without an account; it never expires."""
        return self._serializer.dumps(email)

    def address_of(self, token: str) -> str | None:
        """Return the address of a token; None if the service did not make it."""
        from itsdangerous import BadData  # noqa: PLC0415 - as below

        try:
            return str(self._serializer.loads(token))
        except BadData:
            return None

    @cached_property
    def _serializer(self) -> URLSafeSerializer:
        from itsdangerous import URLSafeSerializer  # noqa: PLC0415 - only those who write or read such mails need it

        return URLSafeSerializer(self._vault.derive(b"mail opt-outs"), salt=b"opt out")

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
