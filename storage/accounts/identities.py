"""Identities: the accounts of people who sign in with a provider (wire-decisions.md, "Sign-in")."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from storage.database.statements import Columns, Query, Write, first, insert_into, slot, written
from storage.errors import EmailUnproven, LastIdentity
from storage.models import IdentityRow, PasskeyRow
from storage.records import Identity, ProvenIdentity, SignUpPolicy, User

if TYPE_CHECKING:
    from storage.accounts.sign_ups import SignUps
    from storage.accounts.users import Users
    from storage.database.connection import Database

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
            identities.where(IdentityRow.provider == slot("provider"), IdentityRow.subject == slot("subject")),
            _IDENTITY,
        )
        self._of_user = Query(database, identities.where(mine).order_by(IdentityRow.id), _IDENTITY)
        self._any_passkey = Query(
            database, PasskeyRow.select(PasskeyRow.id).where(PasskeyRow.user == slot("user_id")).limit(1), first
        )
        self._insert = Write(database, insert_into(IdentityRow))
        self._use = Write(
            database,
            IdentityRow.update({IdentityRow.email: slot("email"), IdentityRow.last_used_at: slot("now")}).where(
                IdentityRow.id == slot("id")
            ),
        )
        self._remove = Write(database, IdentityRow.delete().where(mine, IdentityRow.uuid == slot("uuid")))

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
