"""CLI logins: sessions handed from a browser to a command line (wire-decisions.md, "Authentication").

An offer is stored under the hash of a nonce that the command line generated, or of a code that a person types there.
The session's token is created when the offer is taken.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

from storage.accounts.tokens import hashed
from storage.database.instants import SECOND
from storage.database.statements import Query, Write, first, insert_into, slot
from storage.models import CliLoginRow
from storage.records import CliLoginKind

if TYPE_CHECKING:
    from storage.accounts.tokens import Tokens
    from storage.database.connection import Database
    from storage.records import SessionOrigin

_LIFETIMES = {CliLoginKind.NONCE: 60 * SECOND, CliLoginKind.CODE: 300 * SECOND}
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CODE_LENGTH = 16
_IGNORED = re.compile(r"[\s\-\u2010-\u2015]")


class CliLogins:
    """Offers of sessions, each of which can be taken once before it expires. Safe in any thread."""

    def __init__(self, database: Database, tokens: Tokens) -> None:
        self._database = database
        self._tokens = tokens
        offered = (CliLoginRow.kind == slot("kind")) & (CliLoginRow.hash == slot("hash"))
        live = CliLoginRow.expires_at > slot("now")
        self._peek = Query(database, CliLoginRow.select(CliLoginRow.id).where(offered, live), first)
        self._take = Query(database, CliLoginRow.delete().where(offered, live).returning(CliLoginRow.user), first)
        self._forget = Write(database, CliLoginRow.delete().where(CliLoginRow.expires_at <= slot("now")))
        self._replace = Write(database, insert_into(CliLoginRow).on_conflict("REPLACE"))

    def offer(self, user_id: int, nonce: str) -> None:
        """Offer one session of the user for a nonce, for 60 s; a later offer for it replaces this one."""
        self._offer(CliLoginKind.NONCE, hashed(nonce), user_id)

    def offer_hashed(self, user_id: int, nonce_hash: bytes) -> None:
        """Offer a session as `offer` does, for a nonce of which only the SHA-256 is known."""
        self._offer(CliLoginKind.NONCE, nonce_hash, user_id)

    def claim(self, nonce: str, origin: SessionOrigin | None = None) -> str | None:
        """Return the token of a new session; None if the nonce has no offer, or an expired one."""
        return self._taken(CliLoginKind.NONCE, hashed(nonce), origin)

    def issue_code(self, user_id: int) -> str:
        """Return a code that gives one session of the user, within 300 s."""
        code = "".join(secrets.choice(_ALPHABET) for _ in range(_CODE_LENGTH))
        self._offer(CliLoginKind.CODE, hashed(code), user_id)
        return code

    def redeem(self, code: str, origin: SessionOrigin | None = None) -> str | None:
        """Return the token of a new session; None if the code is unknown, used or expired.

        Case, spaces and dashes are ignored, because a person typed the code.
        """
        return self._taken(CliLoginKind.CODE, hashed(_IGNORED.sub("", code).upper()), origin)

    def _offer(self, kind: CliLoginKind, secret_hash: bytes, user_id: int) -> None:
        with self._database.write():
            now = self._database.now()
            self._forget.run(now=now)
            self._replace.run(kind=kind, hash=secret_hash, user_id=user_id, expires_at=now + _LIFETIMES[kind])

    def _taken(self, kind: CliLoginKind, secret_hash: bytes, origin: SessionOrigin | None) -> str | None:
        """Take an offer and create its session; None if there is none.

        A poll that finds none only reads, and so blocks no writer.
        """
        if self._peek.one(kind=kind, hash=secret_hash, now=self._database.now()) is None:
            return None
        with self._database.write():
            user_id = self._take.one(kind=kind, hash=secret_hash, now=self._database.now())
            if user_id is None:
                return None
            _, token = self._tokens.create_session(user_id, "handed to a command line", origin)
            return token
