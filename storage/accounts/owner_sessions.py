"""Sessions of the host's owner in the console, begun by links that a command on the host prints.

A link is good for one session, within 15 minutes, and a session for one hour, however much it is used. Nothing else
makes either: a person who can run the command can read the whole state directory anyway. Only hashes are stored.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from uuid import uuid4

from storage.database.clock import SECOND
from storage.database.statements import Columns, Query, Write, insert_into, slot
from storage.models.accounts import OwnerSessionRow
from storage.records.accounts import OwnerSession
from storage.vault import hashed

if TYPE_CHECKING:
    from storage.database.connection import Database

_TOKEN_BYTES = 32
_LINK = 15 * 60 * SECOND
_SESSION = 60 * 60 * SECOND
_KEPT = Columns.of(OwnerSession, OwnerSessionRow)


class OwnerSessions:
    """The owner's sessions and the links to them. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        named = OwnerSessionRow.hash == slot("hash")
        live = OwnerSessionRow.expires_at > slot("now")
        opened = OwnerSessionRow.opened_at.is_null(is_null=False)
        self._insert = Write(database, lambda: insert_into(OwnerSessionRow))
        self._open = Query(
            database,
            lambda: (
                OwnerSessionRow.update(
                    {
                        OwnerSessionRow.hash: slot("new_hash"),
                        OwnerSessionRow.opened_at: slot("now"),
                        OwnerSessionRow.expires_at: slot("until"),
                    }
                )
                .where(named, live, OwnerSessionRow.opened_at.is_null())
                .returning(*_KEPT.selected)
            ),
            _KEPT,
        )
        self._find = Query(database, lambda: OwnerSessionRow.select(*_KEPT.selected).where(named, live, opened), _KEPT)
        self._end = Write(database, lambda: OwnerSessionRow.delete().where(named))
        self._forget = Write(
            database, lambda: OwnerSessionRow.delete().where(OwnerSessionRow.expires_at <= slot("until"))
        )
        self._end_all = Write(database, lambda: OwnerSessionRow.delete().where(OwnerSessionRow.id > slot("after")))

    def link(self, operator: str) -> str:
        """Return the token of a new link, which the account ``operator`` of the host asks for."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with self._database.write():
            now = self._database.now()
            self._forget.run(until=now)
            self._insert.run(
                uuid=str(uuid4()), operator=operator, hash=hashed(token), opened_at=None, expires_at=now + _LINK
            )
        return token

    def open(self, link: str) -> tuple[OwnerSession, str] | None:
        """Use up a link; return its session and the session's token. None if it is unknown, used or expired."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with self._database.write():
            now = self._database.now()
            found = self._open.one(hash=hashed(link), new_hash=hashed(token), now=now, until=now + _SESSION)
        return None if found is None else (found, token)

    def find(self, token: str) -> OwnerSession | None:
        """Return the session of a token; None if it is unknown, or over. A link's token is that of no session."""
        return self._find.one(hash=hashed(token), now=self._database.now())

    def end(self, token: str) -> None:
        """End the session of a token; does nothing if it is over."""
        with self._database.write():
            self._end.run(hash=hashed(token))

    def end_all(self) -> int:
        """End every session, and every link; return their number."""
        with self._database.write():
            self._forget.run(until=self._database.now())
            return self._end_all.run(after=0)
