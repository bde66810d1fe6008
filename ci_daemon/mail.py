"""E-mail over SMTP, sent from a thread of its own."""

from __future__ import annotations

import logging
import queue
import smtplib
import ssl
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from storage import EmailInvalid, email_address

if TYPE_CHECKING:
    from email.message import EmailMessage

__all__ = ["MailSettings", "SmtpMailer"]

_log = logging.getLogger(__name__)

_MOST_WAITING = 1000
_TIMEOUT = 30.0
_LAST_WORDS = 5.0
_HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class MailSettings:
    """Section ``[mail]``: the mail server that letters are given to. Without a ``host`` none are sent.

    ``security`` is "starttls", "tls" or "none". Without a ``user`` nobody signs in. ``sender`` is the address that
    letters come from.
    """

    host: str = ""
    port: int = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str = ""
    password: str = field(default="", repr=False)
    sender: str = "ci-daemon@localhost"

    def __post_init__(self) -> None:
        if not 0 < self.port <= _HIGHEST_PORT:
            raise ValueError(f"port must be from 1 to {_HIGHEST_PORT}")
        try:
            email_address(self.sender)
        except EmailInvalid as error:
            raise ValueError(f'sender must be an address such as "ci@example.org": {error}') from None


class SmtpMailer:
    """Gives letters to a mail server, one after the other. What it cannot deliver is logged and dropped."""

    def __init__(self, settings: MailSettings) -> None:
        """Start the thread."""
        self._settings = settings
        self._letters: queue.Queue[EmailMessage | None] = queue.Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._run, name="mailer", daemon=True)
        self._thread.start()

    def send(self, letter: EmailMessage) -> None:
        """Queue a letter; a full queue drops it."""
        letter["From"] = self._settings.sender
        try:
            self._letters.put_nowait(letter)
        except queue.Full:
            _log.error("a letter to %s is dropped: %d wait for the mail server already", letter["To"], _MOST_WAITING)

    def close(self) -> None:
        """Send what is queued, within some seconds, and end the thread."""
        try:
            self._letters.put(None, timeout=_LAST_WORDS)
        except queue.Full:
            return
        self._thread.join(_LAST_WORDS)

    def _run(self) -> None:
        while (letter := self._letters.get()) is not None:
            try:
                self._deliver(letter)
            except (OSError, smtplib.SMTPException) as error:
                _log.error("a letter to %s could not be sent by %s: %s", letter["To"], self._settings.host, error)

    def _deliver(self, letter: EmailMessage) -> None:
        settings = self._settings
        context = ssl.create_default_context()
        if settings.security == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(settings.host, settings.port, timeout=_TIMEOUT, context=context)
        else:
            server = smtplib.SMTP(settings.host, settings.port, timeout=_TIMEOUT)
        with server:
            if settings.security == "starttls":
                server.starttls(context=context)
            if settings.user:
                server.login(settings.user, settings.password)
            server.send_message(letter)
