"""Passkeys of accounts, and their challenges (wire-decisions.md, "Sign-in").

A challenge is bound to a purpose and an owner, and answered once. The owner is a text that nobody else can present,
such as the token of a link; only its hash is stored.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.database.clock import SECOND
from storage.database.statements import Columns, Query, Write, first, insert_into, slot, written
from storage.errors import LastPasskey, PasskeyTaken, TooManyPasskeys
from storage.models.accounts import IdentityRow, PasskeyChallengeRow, PasskeyHandleRow, PasskeyRow
from storage.models.row import ListField
from storage.records.accounts import Passkey, PasskeyChallenge, PasskeyPurpose
from storage.vault import hashed

if TYPE_CHECKING:
    from storage.database.connection import Database
    from storage.records.accounts import NewPasskey


_HANDLE_BYTES = 16
_MOST_PASSKEYS = 50

_PASSKEY = Columns.of(Passkey, PasskeyRow, handle=PasskeyHandleRow.handle)


class Passkeys:
    """Passkeys, at most 50 of one account. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        of_user = PasskeyRow.user == slot("user_id")
        this = PasskeyRow.id == slot("id")
        passkeys = PasskeyRow.select(*_PASSKEY.selected).join(
            PasskeyHandleRow, on=(PasskeyHandleRow.user == PasskeyRow.user)
        )
        self._by_id = Query(database, lambda: passkeys.where(this), _PASSKEY)
        self._by_credential = Query(
            database, lambda: passkeys.where(PasskeyRow.credential_id == slot("credential_id")), _PASSKEY
        )
        self._of_user = Query(database, lambda: passkeys.where(of_user).order_by(PasskeyRow.id), _PASSKEY)
        self._count = Query(database, lambda: PasskeyRow.select(peewee.fn.COUNT(PasskeyRow.id)).where(of_user), first)
        self._any_identity = Query(
            database,
            lambda: IdentityRow.select(IdentityRow.id).where(IdentityRow.user == slot("user_id")).limit(1),
            first,
        )
        self._insert = Write(database, lambda: insert_into(PasskeyRow, "last_used_at"))
        without_counter = (PasskeyRow.sign_count == 0) & (peewee.Value(0) == slot("sign_count"))
        self._use = Write(
            database,
            lambda: PasskeyRow.update(
                {PasskeyRow.sign_count: slot("sign_count"), PasskeyRow.last_used_at: slot("now")}
            ).where(this, without_counter | (PasskeyRow.sign_count < slot("sign_count"))),
        )
        self._named = Query(
            database, lambda: PasskeyRow.select(PasskeyRow.id).where(of_user, PasskeyRow.uuid == slot("uuid")), first
        )
        self._remove = Write(database, lambda: PasskeyRow.delete().where(this))
        handles = PasskeyHandleRow.user == slot("user_id")
        self._handle = Query(
            database, lambda: PasskeyHandleRow.select(PasskeyHandleRow.handle).where(handles), lambda row: bytes(row[0])
        )
        self._insert_handle = Write(database, lambda: insert_into(PasskeyHandleRow))
        self._forget = Write(database, lambda: PasskeyRow.delete().where(of_user))
        self._forget_handle = Write(database, lambda: PasskeyHandleRow.delete().where(handles))

    def handle(self, user_id: int) -> bytes:
        """Return what an account is called in its passkeys; the first call decides it."""
        found = self._handle.one(user_id=user_id)
        if found is not None:
            return found
        with self._database.write():
            found = self._handle.one(user_id=user_id)
            if found is None:
                found = new_handle()
                self._insert_handle.run(user_id=user_id, handle=found)
            return found

    def add(self, user_id: int, handle: bytes, new: NewPasskey, nickname: str) -> Passkey:
        """Add a passkey to an account, in the caller's transaction if there is one.

        An account without a handle gets this one. Raises PasskeyTaken or TooManyPasskeys.
        """
        with self._database.write():
            if self._by_credential.one(credential_id=new.credential_id) is not None:
                raise PasskeyTaken("this passkey is registered already: sign in with it")
            if (self._count.one(user_id=user_id) or 0) >= _MOST_PASSKEYS:
                raise TooManyPasskeys(
                    f"an account has at most {_MOST_PASSKEYS} passkeys: delete one that you do not use"
                )
            if self._handle.one(user_id=user_id) is None:
                self._insert_handle.run(user_id=user_id, handle=handle)
            passkey_id = self._insert.insert(
                uuid=str(uuid4()),
                user_id=user_id,
                credential_id=new.credential_id,
                public_key=new.public_key,
                sign_count=new.sign_count,
                aaguid=new.aaguid,
                transports=ListField.write(new.transports),
                nickname=nickname,
                created_at=self._database.now(),
            )
            return written(self._by_id.one(id=passkey_id))

    def by_credential(self, credential_id: bytes) -> Passkey | None:
        """Return the passkey with a credential's id; None if no account has it."""
        return self._by_credential.one(credential_id=credential_id)

    def of_user(self, user_id: int) -> list[Passkey]:
        """Return an account's passkeys, oldest first."""
        return self._of_user.all(user_id=user_id)

    def use(self, passkey: Passkey, sign_count: int) -> bool:
        """Note a sign-in with a passkey; False if its counter did not grow, or the passkey was deleted.

        A counter that is always 0 is one of an authenticator without a counter.
        """
        with self._database.write():
            return self._use.run(id=passkey.id, sign_count=sign_count, now=self._database.now()) == 1

    def remove(self, user_id: int, uuid: str, *, others_suffice: bool) -> int | None:
        """Delete a passkey; return how many are left, None if the account has no such passkey.

        Raises LastPasskey if none would be left, unless the account has an identity or ``others_suffice``.
        """
        with self._database.write():
            passkey_id = self._named.one(user_id=user_id, uuid=uuid)
            if passkey_id is None:
                return None
            left = (self._count.one(user_id=user_id) or 0) - 1
            if left == 0 and not others_suffice and self._any_identity.one(user_id=user_id) is None:
                raise LastPasskey("this passkey is your only way to sign in: register another one first")
            self._remove.run(id=passkey_id)
            return left

    def forget(self, user_id: int) -> None:
        """Delete the passkeys of an account that closes, in the caller's transaction."""
        self._forget.run(user_id=user_id)
        self._forget_handle.run(user_id=user_id)


def new_handle() -> bytes:
    """Return a new handle for an account."""
    return secrets.token_bytes(_HANDLE_BYTES)


_CHALLENGE_BYTES = 32
_CHALLENGE_LIFETIME = 300 * SECOND
_MOST_CHALLENGES = 100_000
"""Challenges at once; the oldest go first, so that nobody can fill the disk by asking for more."""

_CHALLENGE = Columns.of(PasskeyChallenge, PasskeyChallengeRow)


class PasskeyChallenges:
    """Challenges, each usable once within 300 seconds. Safe in any thread."""

    def __init__(self, database: Database, most: int = _MOST_CHALLENGES) -> None:
        self._database = database
        self._most = most
        self._insert = Write(database, lambda: insert_into(PasskeyChallengeRow))
        self._by_id = Query(
            database,
            lambda: PasskeyChallengeRow.select(*_CHALLENGE.selected).where(PasskeyChallengeRow.id == slot("id")),
            _CHALLENGE,
        )
        self._take = Query(
            database,
            lambda: (
                PasskeyChallengeRow.delete()
                .where(
                    PasskeyChallengeRow.uuid == slot("uuid"),
                    PasskeyChallengeRow.purpose == slot("purpose"),
                    PasskeyChallengeRow.owner == slot("owner"),
                    PasskeyChallengeRow.expires_at > slot("now"),
                )
                .returning(*_CHALLENGE.selected)
            ),
            _CHALLENGE,
        )
        self._forget = Write(
            database, lambda: PasskeyChallengeRow.delete().where(PasskeyChallengeRow.expires_at <= slot("now"))
        )
        self._forget_oldest = Write(
            database, lambda: PasskeyChallengeRow.delete().where(PasskeyChallengeRow.id <= slot("last"))
        )

    def issue(self, purpose: PasskeyPurpose, owner: str, handle: bytes | None = None) -> PasskeyChallenge:
        """Return a new challenge.

        Args:
            purpose: what its answer is for.
            owner: what the caller must present with the answer; empty for a sign-in, which anybody may ask for.
            handle: that of the account which gets a passkey; None for a sign-in.
        """
        with self._database.write():
            now = self._database.now()
            self._forget.run(now=now)
            row_id = self._insert.insert(
                uuid=str(uuid4()),
                purpose=purpose,
                owner=hashed(owner),
                challenge=secrets.token_bytes(_CHALLENGE_BYTES),
                handle=handle,
                expires_at=now + _CHALLENGE_LIFETIME,
            )
            self._forget_oldest.run(last=row_id - self._most)
            return written(self._by_id.one(id=row_id))

    def take(self, uuid: str, purpose: PasskeyPurpose, owner: str) -> PasskeyChallenge | None:
        """Use up a challenge; None if it is unknown, used, expired, or for another purpose or owner."""
        with self._database.write():
            return self._take.one(uuid=uuid, purpose=purpose, owner=hashed(owner), now=self._database.now())
