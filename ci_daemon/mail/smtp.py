"""E-mail over SMTP, sent from a thread of its own."""

from __future__ import annotations

import logging
import queue
import smtplib
import ssl
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from email.message import EmailMessage

    from ci_daemon.mail.settings import MailSettings

__all__ = ["SmtpMailer"]

_log = logging.getLogger(__name__)

_MOST_WAITING = 1000
_TIMEOUT = 30.0
_LAST_WORDS = 5.0


class SmtpMailer:
    """Sends letters through a mail server, one after the other.

    A letter that cannot be sent is logged and dropped.
    """

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
        """Send the queued letters, within some seconds, and end the thread."""
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
