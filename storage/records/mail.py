"""Records of e-mail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Letter", "Mail", "MailTotals"]


@dataclass(frozen=True, slots=True)
class Letter:
    """The content of an e-mail: its subject, the same body twice, and a link that ends such mail."""

    subject: str
    text: str
    html: str
    stop_link: str | None = None


@dataclass(frozen=True, slots=True)
class Mail:
    """An e-mail to one address, without its content.

    It waits while ``next_attempt_at`` is set, and is not sent after ``expires_at``.
    """

    id: int
    uuid: str
    recipient: str
    kind: str
    created_at: datetime
    expires_at: datetime | None
    attempts: int
    next_attempt_at: datetime | None
    last_error: str | None
    sent_at: datetime | None
    given_up_at: datetime | None


@dataclass(frozen=True, slots=True)
class MailTotals:
    """Counts of mails: those that wait, those among them with a failed attempt, those given up lately."""

    waiting: int
    deferred: int
    given_up: int
