"""The sending of the mails that are due, in turn, over as few connections as the server allows."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from actors.mail.smtp import MailRefused, MailServerError, MailTroubled, SmtpConnection, message_of
from storage import DatabaseUnavailable, SealBroken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actors.metrics import EngineMetrics
    from actors.settings import MailSettings
    from storage import Clock, Mail, Storage

_log = logging.getLogger(__name__)

_MAIL_SECONDS = 120.0
"""Seconds that one mail, or the way to the server, may take; after that the connection is cut."""

_RETRY_SECONDS = 1.0
_MOST_LOST = 3
"""Connections that may be lost in a row, each at another mail, before the server counts as failed."""


class Sending:
    """Sends on a worker thread, where it blocks. Its other methods are called by the actor."""

    def __init__(
        self, storage: Storage, settings: MailSettings, clock: Clock, metrics: EngineMetrics, expire: Callable[[], None]
    ) -> None:
        self._storage = storage
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._expire = expire
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._connection = SmtpConnection(settings)
        self._since = clock.monotonic()
        self._lost = 0

    def run(self) -> bool:
        """Send the mails that are due; False if the server failed."""
        try:
            while not self._stopping.is_set() and self._storage.mail.is_due():
                if not self._use_connection():
                    return False
            return True
        except DatabaseUnavailable as error:
            _log.error("no e-mail can be sent: %s", error)
            return False
        finally:
            self._ended.set()

    def end_if_overdue(self) -> None:
        """Cut the connection if a mail, or the way to the server, takes too long."""
        with self._lock:
            if self._clock.monotonic() - self._since > _MAIL_SECONDS:
                self._connection.cut()

    def stop(self, seconds: float) -> None:
        """Begin no other mail; cut the connection if the one under way takes longer than that."""
        self._stopping.set()
        if not self._ended.wait(seconds):
            with self._lock:
                self._connection.cut()

    def _use_connection(self) -> bool:
        """Connect, and send until no mail is due or the connection is lost; False if the server failed."""
        connection = SmtpConnection(self._settings)
        with self._lock:
            self._connection = connection
            self._since = self._clock.monotonic()
        try:
            connection.open()
        except MailServerError as error:
            self._server_failed(str(error))
            return False
        try:
            while not self._stopping.is_set() and (mail := self._next()) is not None:
                with self._lock:
                    self._since = self._clock.monotonic()
                if not self._send(connection, mail):
                    break
        finally:
            connection.quit()
        if self._lost < _MOST_LOST:
            return True
        self._server_failed(f"{self._settings.host} drops the connection at each mail")
        return False

    def _next(self) -> Mail | None:
        self._expire()
        return self._storage.mail.next()

    def _send(self, connection: SmtpConnection, mail: Mail) -> bool:
        """Send a mail and note the result; False if the connection is lost."""
        try:
            letter = self._storage.mail.letter(mail)
            if letter is None:
                return True
            message = message_of(
                letter, to=mail.recipient, sender=self._settings.sender, message_id=mail.uuid, date=mail.created_at
            )
            self._storage.await_disk()
            connection.send(message, mail.recipient)
        except (MailRefused, SealBroken) as error:
            self._storage.mail.refuse(mail, str(error))
            self._given_up([mail], str(error))
        except MailTroubled as error:
            if self._stopping.is_set() and not error.connected:
                return False
            self._metrics.mailed("deferred")
            _log.warning("the mail (%s) to %s is tried again: %s", mail.kind, mail.recipient, error)
            self._given_up(self._storage.mail.defer(mail, str(error)), str(error))
            if not error.connected:
                self._lost += 1
                return False
        else:
            self._note_sent(mail)
            self._metrics.mailed("sent")
            self._lost = 0
        return True

    def _note_sent(self, mail: Mail) -> None:
        """Note that a mail was sent, however long the database is unavailable: else it would be sent again."""
        while True:
            try:
                self._storage.mail.sent(mail)
            except DatabaseUnavailable as error:
                _log.error("a mail was sent, which cannot be noted yet: %s", error)
                if self._stopping.wait(_RETRY_SECONDS):
                    return
            else:
                return

    def _server_failed(self, why: str) -> None:
        if self._stopping.is_set():
            return
        self._metrics.mailed("deferred")
        _log.error("no e-mail can be sent: %s", why)
        self._given_up(self._storage.mail.defer_all(why), why)

    def _given_up(self, mails: Iterable[Mail], why: str) -> None:
        for mail in mails:
            self._metrics.mailed("given_up")
            _log.error("the mail (%s) to %s is given up: %s", mail.kind, mail.recipient, why)
