"""E-mail that waits for the mail server, and addresses that want none of builds.

A mail is a row, written in the transaction of what it is about, and sent by the live service (`actors/mail/`).
Content holds tokens. It is sealed while the mail waits, and removed once the mail was sent or given up.
See wire-decisions.md, "Sign-in".
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.database.clock import DAY, SECOND, to_micros
from storage.database.statements import Columns, Query, Write, first, insert_into, slot
from storage.models.notifications import MailOptOutRow, MailRow
from storage.records.notifications import Letter, Mail, MailTotals

if TYPE_CHECKING:
    from datetime import datetime

    from itsdangerous import URLSafeSerializer

    from storage.database.connection import Database
    from storage.vault import Vault


_FIRST_PAUSE = 10 * SECOND
_LONGEST_PAUSE = 3600 * SECOND
_DOUBLINGS = 9
"""After so many doublings the longest pause is reached."""

_GIVEN_UP_AFTER = 3 * DAY
_KEPT_AFTER_END = 7 * DAY
_RECENT = 15 * 60 * SECOND
"""The lifetime of a magic link: an address that gets no other mail now has a link that is still valid."""

_MOST_WAITING = 10_000
_EXPIRED = "it expired before it could be sent"

_MAIL = Columns.of(Mail, MailRow)


class MailQueue:
    """The mails that wait, and those of the last days. Safe in any thread.

    Mails to one address keep their order.
    """

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault
        mails = MailRow.select(*_MAIL.selected)
        waiting = MailRow.next_attempt_at.is_null(is_null=False)
        due = waiting & (MailRow.next_attempt_at <= slot("now"))
        to_recipient = MailRow.recipient == slot("recipient")
        this = MailRow.id == slot("id")
        self._due_recipient = Query(
            database,
            lambda: MailRow.select(MailRow.recipient).where(due).order_by(MailRow.next_attempt_at).limit(1),
            lambda row: str(row[0]),
        )
        self._head = Query(database, lambda: mails.where(waiting, to_recipient).order_by(MailRow.id).limit(1), _MAIL)
        self._content = Query(
            database,
            lambda: MailRow.select(MailRow.uuid, MailRow.content).where(this, waiting),
            lambda row: (str(row[0]), bytes(row[1])),
        )
        self._listed = Query(
            database,
            lambda: mails.where(MailRow.sent_at.is_null()).order_by(MailRow.created_at).limit(slot("limit")),
            _MAIL,
        )
        self._count_waiting = Query(
            database,
            lambda: MailRow.select(
                peewee.fn.COUNT(MailRow.id), peewee.fn.COALESCE(peewee.fn.SUM(MailRow.attempts > 0), 0)
            ).where(waiting),
            lambda row: (int(row[0]), int(row[1])),
        )
        self._count_given_up = Query(
            database,
            lambda: MailRow.select(peewee.fn.COUNT(MailRow.id)).where(
                MailRow.given_up_at.is_null(is_null=False), MailRow.given_up_at > slot("since")
            ),
            first,
        )
        self._count_recent = Query(
            database,
            lambda: MailRow.select(peewee.fn.COUNT(MailRow.id)).where(
                to_recipient, MailRow.kind == slot("kind"), MailRow.created_at > slot("since")
            ),
            first,
        )
        self._insert = Write(database, lambda: insert_into(MailRow, "attempts", "last_error", "sent_at", "given_up_at"))
        self._hasten = Write(database, lambda: MailRow.update({MailRow.next_attempt_at: slot("now")}).where(waiting))
        ended = {MailRow.content: None, MailRow.next_attempt_at: None}
        self._sent = Write(
            database,
            lambda: MailRow.update(
                {
                    **ended,
                    MailRow.sent_at: slot("now"),
                    MailRow.last_error: None,
                    MailRow.attempts: MailRow.attempts + 1,
                }
            ).where(this, waiting),
        )
        self._refuse = Write(
            database,
            lambda: MailRow.update(
                {
                    **ended,
                    MailRow.given_up_at: slot("now"),
                    MailRow.last_error: slot("error"),
                    MailRow.attempts: MailRow.attempts + 1,
                }
            ).where(this, waiting),
        )
        pause = peewee.fn.MIN(
            _LONGEST_PAUSE,
            peewee.Expression(_FIRST_PAUSE, "<<", peewee.fn.MIN(MailRow.attempts, _DOUBLINGS)),
        )
        deferred = MailRow.update(
            {
                MailRow.attempts: MailRow.attempts + 1,
                MailRow.last_error: slot("error"),
                MailRow.next_attempt_at: peewee.Expression(slot("now"), "+", pause),
            }
        )
        self._defer_all = Write(database, lambda: deferred.where(due))
        self._defer = Write(database, lambda: deferred.where((due & to_recipient) | (waiting & this)))
        self._abandon = Query(
            database,
            lambda: (
                MailRow.update({**ended, MailRow.given_up_at: slot("now")})
                .where(waiting, MailRow.attempts > 0, MailRow.created_at <= slot("before"))
                .returning(*_MAIL.selected)
            ),
            _MAIL,
        )
        expired = waiting & MailRow.expires_at.is_null(is_null=False) & (MailRow.expires_at <= slot("now"))
        self._expired = Query(database, lambda: MailRow.select(MailRow.id).where(expired).limit(1), first)
        self._expire = Query(
            database,
            lambda: (
                MailRow.update({**ended, MailRow.given_up_at: slot("now"), MailRow.last_error: slot("error")})
                .where(expired)
                .returning(*_MAIL.selected)
            ),
            _MAIL,
        )
        self._forget = Write(
            database,
            lambda: MailRow.delete().where(
                (MailRow.sent_at <= slot("before")) | (MailRow.given_up_at <= slot("before"))
            ),
        )

    def add(self, recipient: str, kind: str, letter: Letter, expires_at: datetime | None, most: int) -> bool:
        """Add a mail, due at once, in the caller's transaction if there is one.

        The recipient's earlier mails go before it, although they wait for another attempt.

        False, and no mail, if the recipient had ``most`` of this kind in the last 15 minutes, so that nobody can fill a
        stranger's mailbox through the service; or if 10,000 mails wait.
        """
        uuid = str(uuid4())
        content = self._vault.seal(json.dumps(asdict(letter)).encode(), _context(uuid))
        with self._database.write():
            now = self._database.now()
            self._forget.run(before=self._database.ago(_KEPT_AFTER_END))
            recent = self._count_recent.one(recipient=recipient, kind=kind, since=self._database.ago(_RECENT)) or 0
            waiting, _ = self._count_waiting.one() or (0, 0)
            if recent >= most or waiting >= _MOST_WAITING:
                return False
            self._insert.insert(
                uuid=uuid,
                recipient=recipient,
                kind=kind,
                content=content,
                created_at=now,
                expires_at=None if expires_at is None else to_micros(expires_at),
                next_attempt_at=now,
            )
        return True

    def is_due(self) -> bool:
        """Tell whether a mail may be sent now."""
        return self._due_recipient.one(now=self._database.now()) is not None

    def next(self) -> Mail | None:
        """Return the mail to send now, the oldest of a recipient with one that is due; None if none is."""
        recipient = self._due_recipient.one(now=self._database.now())
        return None if recipient is None else self._head.one(recipient=recipient)

    def letter(self, mail: Mail) -> Letter | None:
        """Return the content of a mail that waits; None if it does not wait any more. Raises SealBroken."""
        found = self._content.one(id=mail.id)
        if found is None:
            return None
        uuid, content = found
        return Letter(**json.loads(self._vault.open(content, _context(uuid))))

    def sent(self, mail: Mail) -> None:
        """Note that a mail was sent, and remove its content."""
        with self._database.write():
            self._sent.run(id=mail.id, now=self._database.now())

    def refuse(self, mail: Mail, why: str) -> None:
        """Give a mail up, because it will never be accepted, and remove its content."""
        with self._database.write():
            self._refuse.run(id=mail.id, now=self._database.now(), error=why)

    def defer(self, mail: Mail, why: str) -> list[Mail]:
        """Note a failed attempt at a mail and at the later ones that are due to its recipient.

        Each waits 10 s, then twice as long each time, an hour at most. Returns those given up because they are three
        days old.
        """
        with self._database.write():
            now = self._database.now()
            self._defer.run(id=mail.id, recipient=mail.recipient, now=now, error=why)
            return self._abandon.all(now=now, before=self._database.ago(_GIVEN_UP_AFTER))

    def defer_all(self, why: str) -> list[Mail]:
        """Note a failed attempt at every mail that is due, as `defer` does."""
        with self._database.write():
            now = self._database.now()
            self._defer_all.run(now=now, error=why)
            return self._abandon.all(now=now, before=self._database.ago(_GIVEN_UP_AFTER))

    def expire(self) -> list[Mail]:
        """Give up the mails that have expired, and return them. While there is none, it only reads."""
        if self._expired.one(now=self._database.now()) is None:
            return []
        with self._database.write():
            return self._expire.all(now=self._database.now(), error=_EXPIRED)

    def retry(self) -> int:
        """Make every mail that waits due now; return their number."""
        with self._database.write():
            return self._hasten.run(now=self._database.now())

    def listed(self, limit: int) -> list[Mail]:
        """Return the mails that wait and those given up in the last days, oldest first."""
        return self._listed.all(limit=limit)

    def totals(self) -> MailTotals:
        """Return how many mails wait, and how many were given up in the last 24 hours."""
        waiting, deferred = self._count_waiting.one() or (0, 0)
        given_up = self._count_given_up.one(since=self._database.now() - DAY) or 0
        return MailTotals(waiting, deferred, given_up)


def _context(uuid: str) -> bytes:
    return f"mail {uuid}".encode()


class MailOptOuts:
    """The addresses that get no mail about builds, in their normal form. Safe in any thread."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault
        this = MailOptOutRow.email == slot("email")
        self._find = Query(database, lambda: MailOptOutRow.select(MailOptOutRow.email).where(this), tuple)
        self._add = Write(database, lambda: insert_into(MailOptOutRow).on_conflict_ignore())
        self._remove = Write(database, lambda: MailOptOutRow.delete().where(this))

    def token(self, email: str) -> str:
        """Return the token with which the reader of a mail opts out, without an account; it never expires."""
        return self._serializer.dumps(email)

    def address_of(self, token: str) -> str | None:
        """Return the address of a token; None if the service did not make it."""
        from itsdangerous import BadData  # noqa: PLC0415 - as below

        try:
            return str(self._serializer.loads(token))
        except BadData:
            return None

    @cached_property
    def _serializer(self) -> URLSafeSerializer:
        from itsdangerous import URLSafeSerializer  # noqa: PLC0415 - only those who write or read such mails need it

        return URLSafeSerializer(self._vault.derive(b"mail opt-outs"), salt=b"opt out")

    def has(self, email: str) -> bool:
        """Tell whether an address gets no mail about builds."""
        return self._find.one(email=email) is not None

    def set(self, email: str, *, out: bool) -> None:
        """Send an address no more mail about builds, or send it mail again."""
        with self._database.write():
            if out:
                self._add.run(email=email, created_at=self._database.now())
            else:
                self._remove.run(email=email)
