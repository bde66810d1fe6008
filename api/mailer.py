"""E-mail messages, and the mailer that the API sends them with."""

from __future__ import annotations

from email.headerregistry import Address
from email.message import EmailMessage
from typing import Protocol

__all__ = ["Mailer", "NoMailer", "email_to"]


class Mailer(Protocol):
    """Sends e-mail. No call waits for a mail server, and none fails."""

    def send(self, message: EmailMessage) -> None:
        """Send a message, which has no sender yet, sooner or later; the log shows failures."""
        ...


class NoMailer:
    """Sends nothing: no mail server is configured."""

    def send(self, message: EmailMessage) -> None:
        """Do nothing."""


def email_to(to: str, subject: str, text: str) -> EmailMessage:
    """Return a message to one address. Raises ValueError if the address is invalid."""
    message = EmailMessage()
    message["To"] = Address(addr_spec=to)
    message["Subject"] = subject
    message.set_content(text)
    return message
