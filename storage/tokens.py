"""Bearer tokens: 32 random bytes, of which only the SHA-256 is stored (wire-decisions.md, "Authentication")."""

from __future__ import annotations

import hashlib
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import uuid4

from storage.errors import DatabaseUnavailable
from storage.instants import to_micros
from storage.models import OrganizationRow, TokenRow, UserRow
from storage.records import ApiKey, Caller
from storage.statements import Columns, Command, Query, insert_into, slot, written
from storage.users import USER

if TYPE_CHECKING:
    from datetime import datetime

    from storage.database import Database

__all__ = ["Tokens"]

_PREFIX = "ci_"
_TOKEN_BYTES = 32
_USED_EVERY = 60 * 1_000_000

_API_KEY = Columns(
    ApiKey,
    TokenRow.id,
    TokenRow.uuid,
    TokenRow.description,
    TokenRow.created_at,
    TokenRow.expires_at,
    TokenRow.last_used_at,
)
_CALLER = Columns(Caller, USER, TokenRow.id)


class Tokens:
    """What callers prove themselves with. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._by_hash = Query(
            database,
            TokenRow.select(*_CALLER.selected, TokenRow.expires_at.alias("_"), TokenRow.last_used_at.alias("__"))
            .join(UserRow)
            .join(OrganizationRow)
            .where(TokenRow.hash == slot("hash")),
            tuple,
        )
        self._by_id = Query(database, TokenRow.select(*_API_KEY.selected).where(TokenRow.id == slot("id")), _API_KEY)
        self._insert = Command(database, insert_into(TokenRow, "last_used_at"))
        self._use = Command(
            database, TokenRow.update({TokenRow.last_used_at: slot("now")}).where(TokenRow.id == slot("id"))
        )

    def create_api_key(self, user_id: int, description: str, expires_at: datetime | None = None) -> tuple[ApiKey, str]:
        """Add a personal API key; return its record and the token itself, which nothing gives out again."""
        token = _PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
        with self._database.write():
            token_id = self._insert.insert(
                uuid=str(uuid4()),
                user_id=user_id,
                kind="api_key",
                hash=_hashed(token),
                description=description,
                created_at=self._database.now(),
                expires_at=None if expires_at is None else to_micros(expires_at),
            )
            return written(self._by_id.one(id=token_id)), token

    def caller(self, token: str) -> Caller | None:
        """Return whom a token belongs to, None where it is unknown or expired. Notes its use once a minute."""
        row = self._by_hash.one(hash=_hashed(token))
        if row is None:
            return None
        *caller, expires_at, last_used_at = row
        now = self._database.now()
        if expires_at is not None and expires_at <= now:
            return None
        found = _CALLER(caller)
        if last_used_at is None or last_used_at + _USED_EVERY <= now:
            with suppress(DatabaseUnavailable), self._database.write():  # a full disk is no reason to refuse a reader
                self._use.run(id=found.token_id, now=now)
        return found


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
