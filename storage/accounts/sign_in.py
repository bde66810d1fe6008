"""Sign-in without a token: links, sign-ups, and identities at providers.

A link is read as often as its page is loaded, and used up once, in the transaction of what it permits.
See wire-decisions.md, "Sign-in".
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from uuid import uuid4

from storage.database.clock import DAY, SECOND
from storage.database.statements import Columns, Query, Write, first, insert_into, slot, written
from storage.errors import EmailUnproven, LastIdentity, SignUpClosed
from storage.models.accounts import IdentityRow, InviteRow, OrganizationRow, PasskeyRow, SignInLinkRow, UserRow
from storage.records.accounts import (
    Identity,
    ProvenIdentity,
    SignInLink,
    SignInLinkKind,
    SignUpMode,
    SignUpPolicy,
    User,
)
from storage.vault import hashed

if TYPE_CHECKING:
    from storage.accounts.users import Users
    from storage.database.connection import Database


_LINK_BYTES = 32
_LINK_LIFETIMES = {
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
        self._read = Query(database, lambda: SignInLinkRow.select(*_LINK.selected).where(named, live), _LINK)
        self._take = Query(
            database, lambda: SignInLinkRow.delete().where(named, live).returning(SignInLinkRow.id), first
        )
        self._forget = Write(database, lambda: SignInLinkRow.delete().where(SignInLinkRow.expires_at <= slot("now")))
        self._insert = Write(database, lambda: insert_into(SignInLinkRow))

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
        token = secrets.token_urlsafe(_LINK_BYTES)
        with self._database.write():
            now = self._database.now()
            self._forget.run(now=now)
            self._insert.run(
                kind=kind,
                hash=hashed(token),
                email=email,
                name=name,
                user_id=user_id,
                expires_at=now + _LINK_LIFETIMES[kind],
            )
        return token


class SignUps:
    """Makes the accounts of people who may sign up. Safe in any thread.

    The first account of a service needs an owner's link. That link permits one account, whatever the policy is.
    """

    def __init__(self, database: Database, users: Users, links: SignInLinks) -> None:
        self._database = database
        self._users = users
        self._links = links
        self._any_user = Query(database, lambda: UserRow.select(UserRow.id).where(UserRow.id > 0).limit(1), first)
        self._invited = Query(
            database,
            lambda: (
                InviteRow.select(InviteRow.id)
                .join(OrganizationRow)
                .where(
                    InviteRow.email == slot("email"),
                    InviteRow.accepted_at.is_null(),
                    InviteRow.revoked_at.is_null(),
                    InviteRow.expires_at > slot("now"),
                    OrganizationRow.closed_at.is_null(),
                )
                .limit(1)
            ),
            first,
        )

    def check(self, email: str, policy: SignUpPolicy, owner_token: str | None = None) -> None:
        """Raise SignUpClosed unless a person who proved this address may make an account."""
        if owner_token is not None:
            if self._links.read(SignInLinkKind.OWNER, owner_token) is None:
                raise SignUpClosed("the owner's link is unknown, used or expired: print another one on the host")
            return
        if self._any_user.one() is None:
            raise SignUpClosed("the first account needs the owner's link, which `ci-daemon user link --owner` prints")
        domain = email.rpartition("@")[2].lower()
        if policy.domains and domain not in policy.domains:
            raise SignUpClosed(f"no one with an address at {domain} may sign up")
        match policy.mode:
            case SignUpMode.OPEN:
                return
            case SignUpMode.INVITED:
                if self._invited.one(email=email, now=self._database.now()) is None:
                    raise SignUpClosed("only those who were invited may sign up: ask a member for an invite")
            case SignUpMode.CLOSED:
                raise SignUpClosed("no one may sign up: ask the owner of the service for an account")

    def create(self, email: str, name: str, policy: SignUpPolicy, owner_token: str | None = None) -> User:
        """Make an account for a person who proved this address, in the caller's transaction if there is one.

        Uses up the owner's link. Raises SignUpClosed, EmailTaken or NameUnusable.
        """
        with self._database.write():
            self.check(email, policy, owner_token)
            if owner_token is not None:
                self._links.take(SignInLinkKind.OWNER, owner_token)
            return self._users.create(email, name)


_IDENTITY = Columns.of(Identity, IdentityRow)


class Identities:
    """Finds or makes the account of a person whom a provider names. Safe in any thread.

    A provider's subject belongs to one account; an account may have several, also of one provider. Only an address that
    the provider verified leads to an account that exists, as a magic link to that address would.
    """

    def __init__(self, database: Database, users: Users, sign_ups: SignUps) -> None:
        self._database = database
        self._users = users
        self._sign_ups = sign_ups
        identities = IdentityRow.select(*_IDENTITY.selected)
        mine = IdentityRow.user == slot("user_id")
        self._by_subject = Query(
            database,
            lambda: identities.where(IdentityRow.provider == slot("provider"), IdentityRow.subject == slot("subject")),
            _IDENTITY,
        )
        self._of_user = Query(database, lambda: identities.where(mine).order_by(IdentityRow.id), _IDENTITY)
        self._any_passkey = Query(
            database, lambda: PasskeyRow.select(PasskeyRow.id).where(PasskeyRow.user == slot("user_id")).limit(1), first
        )
        self._insert = Write(database, lambda: insert_into(IdentityRow))
        self._use = Write(
            database,
            lambda: IdentityRow.update({IdentityRow.email: slot("email"), IdentityRow.last_used_at: slot("now")}).where(
                IdentityRow.id == slot("id")
            ),
        )
        self._remove = Write(database, lambda: IdentityRow.delete().where(mine, IdentityRow.uuid == slot("uuid")))

    def sign_in(self, proven: ProvenIdentity, policy: SignUpPolicy, owner_token: str | None = None) -> User:
        """Return the account of a person: by subject, else by verified address, else a new one.

        The address of an account stays, whatever the provider says later. The owner's link is used up only by a new
        account. Raises EmailUnproven or SignUpClosed.
        """
        with self._database.write():
            known = self._by_subject.one(provider=proven.provider, subject=proven.subject)
            if known is not None:
                self._use.run(id=known.id, email=proven.email, now=self._database.now())
                return written(self._users.by_id(known.user_id))
            if not proven.verified or not proven.email:
                raise EmailUnproven("the identity provider names no e-mail address that it verified")
            user = self._users.by_email(proven.email)
            if user is None:
                name = proven.name or proven.email.partition("@")[0]
                user = self._sign_ups.create(proven.email, name, policy, owner_token)
            now = self._database.now()
            self._insert.run(
                uuid=str(uuid4()),
                user_id=user.id,
                provider=proven.provider,
                subject=proven.subject,
                email=proven.email,
                created_at=now,
                last_used_at=now,
            )
            return user

    def of_user(self, user_id: int) -> list[Identity]:
        """Return a user's identities, oldest first."""
        return self._of_user.all(user_id=user_id)

    def remove(self, user_id: int, uuid: str, *, others_suffice: bool) -> bool:
        """Remove an identity of a user; False if the user has no such identity.

        Raises LastIdentity if the user has no other identity and no passkey, unless ``others_suffice``: there are ways
        to sign in that this table does not know.
        """
        with self._database.write():
            identities = self.of_user(user_id)
            if uuid not in {each.uuid for each in identities}:
                return False
            last = len(identities) == 1 and self._any_passkey.one(user_id=user_id) is None
            if last and not others_suffice:
                raise LastIdentity("this identity is your only way to sign in: add another one, or a passkey, first")
            return self._remove.run(user_id=user_id, uuid=uuid) == 1
