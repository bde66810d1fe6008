"""Bearer tokens, and sessions handed from a browser to a command line.

A token is 32 random bytes, of which only the SHA-256 is stored. An offer of a session is stored under the hash of a
nonce that the command line generated, or of a code that a person types there; the token is created when it is taken.
See wire-decisions.md, "Authentication".
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from json import dumps
from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.accounts.users import USER_COLUMNS
from storage.database.clock import DAY, SECOND, to_micros
from storage.database.statements import Columns, Query, Write, first, insert_into, slot, written
from storage.errors import DatabaseUnavailable
from storage.models.accounts import CliLoginRow, OrganizationRow, TokenRow, UserRow
from storage.patterns import pattern
from storage.records.accounts import Caller, CliLoginKind, Token, TokenKind, TokenLimits
from storage.vault import hashed

if TYPE_CHECKING:
    from datetime import datetime

    from storage.database.connection import Database
    from storage.records.accounts import SessionOrigin


_PREFIX = "ci_"
_TOKEN_BYTES = 32
_LAST_USED_INTERVAL = 60 * SECOND
_SESSION = 30 * DAY
_MOST_LISTED = 500
_KEPT_AFTER_END = 30 * DAY
"""Time for which a token is kept after its end, so that its owner can still log out with it."""

_LIMITS = Columns.of(TokenLimits, TokenRow, organization_id=TokenRow.organization)
_TOKEN = Columns.of(Token, TokenRow, limits=_LIMITS)
_CALLER = Columns.of(Caller, TokenRow, user=USER_COLUMNS, token_id=TokenRow.id, limits=_LIMITS)
_WITHOUT_LIMITS = TokenLimits()


def _callers(*more: peewee.Node) -> peewee.ModelSelect[TokenRow]:
    """Return the query of callers by their tokens, valid or not."""
    return (
        TokenRow.select(*_CALLER.selected, *more)
        .join(UserRow, on=UserRow.id == TokenRow.user)
        .join(OrganizationRow, on=OrganizationRow.id == UserRow.personal_organization)
    )


class Tokens:
    """The bearer tokens of users. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        hashing = TokenRow.hash == slot("hash")
        named = TokenRow.uuid == slot("uuid")
        of_user = TokenRow.user == slot("user_id")
        api_key = TokenRow.kind == TokenKind.API_KEY
        standing = TokenRow.revoked_at.is_null()
        valid = (
            standing,
            UserRow.closed_at.is_null(),
            TokenRow.expires_at.is_null() | (TokenRow.expires_at > slot("now")),
        )
        self._by_hash = Query(
            database,
            lambda: _callers(TokenRow.last_used_at.alias("_")).where(hashing, *valid),
            tuple,
        )
        self._valid = Query(database, lambda: _callers().where(TokenRow.id == slot("id"), *valid), _CALLER)
        tokens = TokenRow.select(*_TOKEN.selected)
        self._by_id = Query(database, lambda: tokens.where(TokenRow.id == slot("id")), _TOKEN)
        self._of_user = Query(database, lambda: tokens.where(of_user, standing).order_by(TokenRow.id), _TOKEN)
        self._api_keys = Query(
            database, lambda: tokens.where(of_user, standing, api_key).order_by(TokenRow.id.desc()), _TOKEN
        )
        session = TokenRow.kind == TokenKind.SESSION
        running = standing & (TokenRow.expires_at > slot("now"))
        self._sessions = Query(
            database,
            lambda: tokens.where(of_user, session, running).order_by(TokenRow.id.desc()).limit(_MOST_LISTED),
            _TOKEN,
        )
        self._insert = Write(database, lambda: insert_into(TokenRow, "last_used_at", "revoked_at"))
        self._use = Write(
            database,
            lambda: TokenRow.update({TokenRow.last_used_at: slot("now")}).where(
                TokenRow.id == slot("id"), TokenRow.last_used_at.is_null() | (TokenRow.last_used_at <= slot("before"))
            ),
        )
        revoking = TokenRow.update(
            {TokenRow.revoked_at: peewee.fn.COALESCE(TokenRow.revoked_at, slot("now"))},
        )
        self._revoke = Write(database, lambda: revoking.where(hashing))
        self._revoke_named = Write(database, lambda: revoking.where(named, standing))
        self._revoke_api_key = Write(database, lambda: revoking.where(named, standing, of_user, api_key))
        self._end_session = Write(database, lambda: revoking.where(named, running, of_user, session))
        self._end_sessions = Write(
            database,
            lambda: revoking.where(of_user, running, session, TokenRow.id != slot("but")),
        )
        self._withdraw_offers = Write(database, lambda: CliLoginRow.delete().where(CliLoginRow.user == slot("user_id")))
        over_since = peewee.fn.COALESCE(TokenRow.revoked_at, TokenRow.expires_at)
        self._forget = Write(database, lambda: TokenRow.delete().where(over_since <= slot("before")))

    def create_api_key(
        self,
        user_id: int,
        description: str,
        expires_at: datetime | None = None,
        limits: TokenLimits = _WITHOUT_LIMITS,
    ) -> tuple[Token, str]:
        """Add a personal API key; return its record and the token, which cannot be read again."""
        token = _PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
        until = None if expires_at is None else to_micros(expires_at)
        return self._create(TokenKind.API_KEY, token, user_id, description, until, limits=limits)

    def create_session(self, user_id: int, description: str, origin: SessionOrigin | None = None) -> tuple[Token, str]:
        """Add a session of 30 days; return its record and the token, which cannot be read again."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with self._database.write():
            until = self._database.now() + _SESSION
            return self._create(TokenKind.SESSION, token, user_id, description, until, origin)

    def caller(self, token: str) -> Caller | None:
        """Return the caller that a token belongs to; None if it is unknown, revoked or expired.

        Notes the token's use at most once a minute, and skips that if it would wait for another writer.
        """
        now = self._database.now()
        row = self._by_hash.one(hash=hashed(token), now=now)
        if row is None:
            return None
        *found, last_used_at = row
        caller = _CALLER(found)
        if last_used_at is None or last_used_at + _LAST_USED_INTERVAL <= now:
            with suppress(DatabaseUnavailable), self._database.write_at_once():
                self._use.run(id=caller.token_id, now=now, before=now - _LAST_USED_INTERVAL)
        return caller

    def caller_of(self, token_id: int) -> Caller | None:
        """Return the caller that a token belongs to, by its id; None if it is gone, revoked or expired."""
        return self._valid.one(id=token_id, now=self._database.now())

    def of_user(self, user_id: int) -> list[Token]:
        """Return a user's tokens that are not revoked, oldest first."""
        return self._of_user.all(user_id=user_id)

    def api_keys(self, user_id: int) -> list[Token]:
        """Return a user's API keys that are not revoked, newest first."""
        return self._api_keys.all(user_id=user_id)

    def sessions(self, user_id: int) -> list[Token]:
        """Return a user's sessions that have not ended, newest first, 500 at most."""
        return self._sessions.all(user_id=user_id, now=self._database.now())

    def end_session(self, user_id: int, uuid: str) -> bool:
        """End a user's session by UUID; False if the user has no such session."""
        with self._database.write():
            return self._end_session.run(user_id=user_id, uuid=uuid, now=self._database.now()) == 1

    def end_sessions(self, user_id: int, but: int | None = None) -> int:
        """End a user's sessions except the token ``but``, in the caller's transaction; return their number.

        Sessions that were offered to command lines cannot be taken any more.
        """
        with self._database.write():
            self._withdraw_offers.run(user_id=user_id)
            return self._end_sessions.run(user_id=user_id, but=but or 0, now=self._database.now())

    def revoke(self, token: str) -> bool:
        """Revoke a token that its owner presents, if it is not revoked already; False if it is unknown."""
        with self._database.write():
            return self._revoke.run(hash=hashed(token), now=self._database.now()) == 1

    def revoke_api_key(self, user_id: int, uuid: str) -> bool:
        """Revoke a user's API key by UUID; False if the user has no such key."""
        with self._database.write():
            return self._revoke_api_key.run(user_id=user_id, uuid=uuid, now=self._database.now()) == 1

    def revoke_named(self, uuid: str) -> bool:
        """Revoke a token of any user and kind by UUID; False if there is none."""
        with self._database.write():
            return self._revoke_named.run(uuid=uuid, now=self._database.now()) == 1

    def _create(
        self,
        kind: TokenKind,
        token: str,
        user_id: int,
        description: str,
        expires_at: int | None,
        origin: SessionOrigin | None = None,
        limits: TokenLimits = _WITHOUT_LIMITS,
    ) -> tuple[Token, str]:
        with self._database.write():
            now = self._database.now()
            self._forget.run(before=now - _KEPT_AFTER_END)
            token_id = self._insert.insert(
                uuid=str(uuid4()),
                user_id=user_id,
                kind=kind,
                hash=hashed(token),
                description=description,
                created_at=now,
                expires_at=expires_at,
                address=None if origin is None else origin.address,
                agent=None if origin is None else origin.agent,
                scopes=None if limits.scopes is None else dumps(limits.scopes),
                organization_id=limits.organization_id,
                pipeline_id=limits.pipeline_id,
                budget_cents=limits.budget_cents,
                spent_cents=0,
            )
            return written(self._by_id.one(id=token_id)), token


_OFFER_LIFETIMES = {CliLoginKind.NONCE: 60 * SECOND, CliLoginKind.CODE: 300 * SECOND}
_CODE_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CODE_LENGTH = 16
_IGNORED_IN_CODES = pattern(r"[\s\-\u2010-\u2015]")


class CliLogins:
    """Offers of sessions, each of which can be taken once before it expires. Safe in any thread."""

    def __init__(self, database: Database, tokens: Tokens) -> None:
        self._database = database
        self._tokens = tokens
        offered = (CliLoginRow.kind == slot("kind")) & (CliLoginRow.hash == slot("hash"))
        live = CliLoginRow.expires_at > slot("now")
        self._peek = Query(database, lambda: CliLoginRow.select(CliLoginRow.id).where(offered, live), first)
        self._take = Query(
            database, lambda: CliLoginRow.delete().where(offered, live).returning(CliLoginRow.user), first
        )
        self._forget = Write(database, lambda: CliLoginRow.delete().where(CliLoginRow.expires_at <= slot("now")))
        self._replace = Write(database, lambda: insert_into(CliLoginRow).on_conflict("REPLACE"))

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
        code = "".join(secrets.choice(_CODE_ALPHABET) for _ in range(_CODE_LENGTH))
        self._offer(CliLoginKind.CODE, hashed(code), user_id)
        return code

    def redeem(self, code: str, origin: SessionOrigin | None = None) -> str | None:
        """Return the token of a new session; None if the code is unknown, used or expired.

        Case, spaces and dashes are ignored, because a person typed the code.
        """
        return self._taken(CliLoginKind.CODE, hashed(_IGNORED_IN_CODES.sub("", code).upper()), origin)

    def _offer(self, kind: CliLoginKind, secret_hash: bytes, user_id: int) -> None:
        with self._database.write():
            now = self._database.now()
            self._forget.run(now=now)
            self._replace.run(kind=kind, hash=secret_hash, user_id=user_id, expires_at=now + _OFFER_LIFETIMES[kind])

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
