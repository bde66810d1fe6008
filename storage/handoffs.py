"""Handoffs of sessions from a browser to a command line (wire-decisions.md, "Authentication").

A handoff is stored under the hash of a nonce that the command line generated, or of a code that a person types there.
The session's token is created when the handoff is taken.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

from storage.instants import SECOND
from storage.models import HandoffRow
from storage.records import HandoffKind
from storage.statements import Command, Query, first, insert_into, slot
from storage.tokens import hashed

if TYPE_CHECKING:
    from storage.database import Database
    from storage.tokens import Tokens

__all__ = ["Handoffs"]

_LIFETIMES = {HandoffKind.NONCE: 60 * SECOND, HandoffKind.CODE: 300 * SECOND}
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CODE_LENGTH = 16
_FORGIVEN = re.compile(r"[\s\-\u2010-\u2015]")


class Handoffs:
    """Handoffs, each of which can be taken once before it expires. Safe in any thread."""

    def __init__(self, database: Database, tokens: Tokens) -> None:
        self._database = database
        self._tokens = tokens
        parked = (HandoffRow.kind == slot("kind")) & (HandoffRow.hash == slot("hash"))
        live = HandoffRow.expires_at > slot("now")
        self._peek = Query(database, HandoffRow.select(HandoffRow.id).where(parked, live), first)
        self._take = Query(database, HandoffRow.delete().where(parked, live).returning(HandoffRow.user), first)
        self._forget = Command(database, HandoffRow.delete().where(HandoffRow.expires_at <= slot("now")))
        self._replace = Command(database, insert_into(HandoffRow).on_conflict("REPLACE"))

    def park(self, user_id: int, nonce: str) -> None:
        """Offer one session of the user for a nonce, for 60 s; a later offer for it replaces this one."""
        self._park(HandoffKind.NONCE, hashed(nonce), user_id)

    def park_hashed(self, user_id: int, nonce_hash: bytes) -> None:
        """Offer a session as `park` does, for a nonce of which only the SHA-256 is known."""
        self._park(HandoffKind.NONCE, nonce_hash, user_id)

    def claim(self, nonce: str) -> str | None:
        """Return the token of a new session; None if the nonce has no handoff, or an expired one."""
        return self._taken(HandoffKind.NONCE, hashed(nonce))

    def issue_code(self, user_id: int) -> str:
        """Return a code that gives one session of the user, within 300 s."""
        code = "".join(secrets.choice(_ALPHABET) for _ in range(_CODE_LENGTH))
        self._park(HandoffKind.CODE, hashed(code), user_id)
        return code

    def redeem(self, code: str) -> str | None:
        """Return the token of a new session; None if the code is unknown, used or expired.

        Case, spaces and dashes are ignored, because a person typed the code.
        """
        return self._taken(HandoffKind.CODE, hashed(_FORGIVEN.sub("", code).upper()))

    def _park(self, kind: HandoffKind, secret_hash: bytes, user_id: int) -> None:
        with self._database.write():
            now = self._database.now()
            self._forget.run(now=now)
            self._replace.run(kind=kind, hash=secret_hash, user_id=user_id, expires_at=now + _LIFETIMES[kind])

    def _taken(self, kind: HandoffKind, secret_hash: bytes) -> str | None:
        """Take a handoff and create its session; None if there is no handoff.

        A poll that finds none only reads, and so blocks no writer.
        """
        if self._peek.one(kind=kind, hash=secret_hash, now=self._database.now()) is None:
            return None
        with self._database.write():
            user_id = self._take.one(kind=kind, hash=secret_hash, now=self._database.now())
            if user_id is None:
                return None
            _, token = self._tokens.create_session(user_id, "handed to a command line")
            return token
