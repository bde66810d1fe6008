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

_MAX_QUEUED = 1000
_TIMEOUT = 30.0
_DRAIN_TIMEOUT = 5.0


class SmtpMailer:
    """Sends messages through a mail server, one after the other.

    A message that cannot be sent is logged and dropped.
    """

    def __init__(self, settings: MailSettings) -> None:
        """Start the thread."""
        self._settings = settings
        self._queue: queue.Queue[EmailMessage | None] = queue.Queue(_MAX_QUEUED)
        self._thread = threading.Thread(target=self._run, name="mailer", daemon=True)
        self._thread.start()

    def send(self, message: EmailMessage) -> None:
        """Queue a message; if the queue is full, drop it."""
        message["From"] = self._settings.sender
        try:
            self._queue.put_nowait(message)
        except queue.Full:
            _log.error(
                "e-mail to %s was dropped: %d messages already wait for the mail server", message["To"], _MAX_QUEUED
            )

    def close(self) -> None:
        """Send the queued messages, within seconds, and end the thread."""
        try:
            self._queue.put(None, timeout=_DRAIN_TIMEOUT)
        except queue.Full:
            return
        self._thread.join(_DRAIN_TIMEOUT)

    def _run(self) -> None:
        while (message := self._queue.get()) is not None:
            try:
                self._deliver(message)
            except (OSError, smtplib.SMTPException) as error:
                _log.error("e-mail to %s could not be sent through %s: %s", message["To"], self._settings.host, error)

    def _deliver(self, message: EmailMessage) -> None:
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
            server.send_message(message)
