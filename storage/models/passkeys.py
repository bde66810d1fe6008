"""Passkeys and their challenges."""

from __future__ import annotations

import peewee

from storage.models.accounts import UserRow
from storage.models.row import Row
from storage.records import Passkey, PasskeyChallenge

__all__ = ["PasskeyChallengeRow", "PasskeyHandleRow", "PasskeyRow"]


class PasskeyHandleRow(Row, table="passkey_handles"):
    """The name of an account in its passkeys: random bytes."""

    user = peewee.ForeignKeyField(UserRow)
    handle = peewee.BlobField()


class PasskeyRow(Row, table="passkeys", record=Passkey, joined=("handle",)):
    """A passkey of an account."""

    user = peewee.ForeignKeyField(UserRow)


class PasskeyChallengeRow(Row, table="passkey_challenges", record=PasskeyChallenge):
    """A challenge, under the hash of its owner."""

    owner = peewee.BlobField()
