"""What the API asks of whoever sends e-mail; a service without SMTP has one that sends none."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Mailer", "NoMailer"]


class Mailer(Protocol):
    """Sends letters. No call here waits for a mail server, and none fails."""

    def send(self, to: str, subject: str, text: str) -> None:
        """Have a letter sent, sooner or later; what keeps it from being sent is in the log."""
        ...


class NoMailer:
    """Sends none: no mail server is configured."""

    def send(self, to: str, subject: str, text: str) -> None:
        """Do nothing."""
