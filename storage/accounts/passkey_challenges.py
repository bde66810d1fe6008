"""Challenges of passkeys (wire-decisions.md, "Sign-in").

A challenge is bound to a purpose and an owner, and answered once. The owner is a text that nobody else can present,
such as the token of a link; only its hash is stored.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from uuid import uuid4

from storage.accounts.tokens import hashed
from storage.database.instants import SECOND
from storage.database.statements import Columns, Query, Write, insert_into, slot, written
from storage.models import PasskeyChallengeRow
from storage.records import PasskeyChallenge, PasskeyPurpose

if TYPE_CHECKING:
    from storage.database.connection import Database

_BYTES = 32
_LIFETIME = 300 * SECOND
_MOST = 100_000
"""Challenges at once; the oldest go first, so that nobody can fill the disk by asking for more."""

_CHALLENGE = Columns.of(PasskeyChallenge, PasskeyChallengeRow)


class PasskeyChallenges:
    """Challenges, each usable once within 300 seconds. Safe in any thread."""

    def __init__(self, database: Database, most: int = _MOST) -> None:
        self._database = database
        self._most = most
        self._insert = Write(database, insert_into(PasskeyChallengeRow))
        self._by_id = Query(
            database,
            PasskeyChallengeRow.select(*_CHALLENGE.selected).where(PasskeyChallengeRow.id == slot("id")),
            _CHALLENGE,
        )
        self._take = Query(
            database,
            PasskeyChallengeRow.delete()
            .where(
                PasskeyChallengeRow.uuid == slot("uuid"),
                PasskeyChallengeRow.purpose == slot("purpose"),
                PasskeyChallengeRow.owner == slot("owner"),
                PasskeyChallengeRow.expires_at > slot("now"),
            )
            .returning(*_CHALLENGE.selected),
            _CHALLENGE,
        )
        self._forget = Write(
            database, PasskeyChallengeRow.delete().where(PasskeyChallengeRow.expires_at <= slot("now"))
        )
        self._forget_oldest = Write(
            database, PasskeyChallengeRow.delete().where(PasskeyChallengeRow.id <= slot("last"))
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
                challenge=secrets.token_bytes(_BYTES),
                handle=handle,
                expires_at=now + _LIFETIME,
            )
            self._forget_oldest.run(last=row_id - self._most)
            return written(self._by_id.one(id=row_id))

    def take(self, uuid: str, purpose: PasskeyPurpose, owner: str) -> PasskeyChallenge | None:
        """Use up a challenge; None if it is unknown, used, expired, or for another purpose or owner."""
        with self._database.write():
            return self._take.one(uuid=uuid, purpose=purpose, owner=hashed(owner), now=self._database.now())
