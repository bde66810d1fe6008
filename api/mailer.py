"""Letters, and what the API asks of whatever sends them."""

from __future__ import annotations

from email.headerregistry import Address
from email.message import EmailMessage
from typing import Protocol

__all__ = ["Mailer", "NoMailer", "letter"]


class Mailer(Protocol):
    """Sends letters. No call here waits for a mail server, and none fails."""

    def send(self, letter: EmailMessage) -> None:
        """Send a letter, which has no sender yet, sooner or later; the log says what prevents that."""
        ...


class NoMailer:
    """Sends nothing: no mail server is configured."""

    def send(self, letter: EmailMessage) -> None:
        """Do nothing."""


def letter(to: str, subject: str, text: str) -> EmailMessage:
    """Return a letter to one address. Raises ValueError for what is not one."""
    message = EmailMessage()
    message["To"] = Address(addr_spec=to)
    message["Subject"] = subject
    message.set_content(text)
    return message
