"""Sign-in links, which are e-mailed or printed on the host (wire-decisions.md, "Sign-in").

A link is read as often as its page is loaded, and used up once, in the transaction of what it permits.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from storage.accounts.tokens import hashed
from storage.database.instants import DAY, SECOND
from storage.database.statements import Columns, Query, Write, first, insert_into, slot
from storage.models import SignInLinkRow
from storage.records import SignInLink, SignInLinkKind, User

if TYPE_CHECKING:
    from storage.database.connection import Database

_TOKEN_BYTES = 32
_LIFETIMES = {
    SignInLinkKind.VERIFICATION: DAY,
    SignInLinkKind.MAGIC_LINK: 15 * 60 * SECOND,
    SignInLinkKind.OWNER: DAY,
}

_LINK = Columns.of(SignInLink, SignInLinkRow)


class SignInLinks:
    """Links, each usable once before it expires. Only the hash of a token is stored. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        named = (SignInLinkRow.kind == slot("kind")) & (SignInLinkRow.hash == slot("hash"))
        live = SignInLinkRow.expires_at > slot("now")
        self._read = Query(database, SignInLinkRow.select(*_LINK.selected).where(named, live), _LINK)
        self._take = Query(database, SignInLinkRow.delete().where(named, live).returning(SignInLinkRow.id), first)
        self._forget = Write(database, SignInLinkRow.delete().where(SignInLinkRow.expires_at <= slot("now")))
        self._insert = Write(database, insert_into(SignInLinkRow))

    def verification(self, email: str, name: str) -> str:
        """Return the token of a link that proves the address of a new account, within 24 hours."""
        return self._issue(SignInLinkKind.VERIFICATION, email, name, None)

    def magic_link(self, user: User) -> str:
        """Return the token of a link by which a user signs in, within 15 minutes."""
        return self._issue(SignInLinkKind.MAGIC_LINK, user.email, user.name, user.id)

    def owner(self) -> str:
        """Return the token of a link that permits one sign-up within 24 hours, whatever the policy is."""
        return self._issue(SignInLinkKind.OWNER, None, "", None)

    def read(self, kind: SignInLinkKind, token: str) -> SignInLink | None:
        """Return a link without using it up; None if it is unknown, used or expired."""
        return self._read.one(kind=kind, hash=hashed(token), now=self._database.now())

    def take(self, kind: SignInLinkKind, token: str) -> SignInLink | None:
        """Use up a link, in the caller's transaction if there is one; None if it is unknown, used or expired.

        If the transaction fails, the link can be used again.
        """
        with self._database.write():
            link = self.read(kind, token)
            if link is not None:
                self._take.one(kind=kind, hash=hashed(token), now=self._database.now())
            return link

    def _issue(self, kind: SignInLinkKind, email: str | None, name: str, user_id: int | None) -> str:
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with self._database.write():
            now = self._database.now()
            self._forget.run(now=now)
            self._insert.run(
                kind=kind,
                hash=hashed(token),
                email=email,
                name=name,
                user_id=user_id,
                expires_at=now + _LIFETIMES[kind],
            )
        return token
