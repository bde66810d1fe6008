"""The mail sender: an attempt at each mail that is due, in turn (wire-decisions.md, "Sign-in")."""

from __future__ import annotations

import logging
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, assert_never

from actors.messages import MailSenderMessage, PollStorage
from actors.supervision import Supervised
from storage import immutable

if TYPE_CHECKING:
    from actors.mail.sending import Sending
    from actors.metrics import EngineMetrics
    from actors.parts import Parts
    from storage import Storage


_log = logging.getLogger(__name__)

_SERVER_PAUSE = 10.0
"""Seconds in which a server that failed is left alone, however many mails come meanwhile."""

_STOP_SECONDS = 3.0
"""Seconds that the mail under way has when the service stops: one that is cut off may be sent twice."""


def expire_mails(storage: Storage, metrics: EngineMetrics) -> None:
    """Give up the mails that have expired."""
    for mail in storage.mail.expire():
        metrics.mailed("expired")
        _log.warning("the mail (%s) to %s expired before it could be sent", mail.kind, mail.recipient)


class _Task(StrEnum):
    """Work on a worker thread."""

    SEND = "send e-mail"


@immutable
class _Sent:
    """Worker: no mail is due any more, or the server failed."""

    server_failed: bool


class MailSender(Supervised[MailSenderMessage | _Sent, _Task]):
    """Sends mail while a server is configured.

    The mails that wait are in the storage, so that a successor goes on with them.
    """

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts.timer, parts.addresses.root, parts.timings.retry)
        self._storage = parts.storage
        self._clock = parts.clock
        self._live_settings = parts.live_settings
        self._metrics = parts.metrics
        self._sending: Sending | None = None
        self._paused_until = 0.0

    def teardown(self) -> None:
        """Let the mail under way go out, for a moment; the others wait for the next start."""
        if self._sending is not None:
            self._sending.stop(_STOP_SECONDS)

    def handle(self, message: MailSenderMessage | _Sent) -> None:
        """Start sending when a mail is due; end what takes too long."""
        match message:
            case PollStorage():
                self._poll()
            case _Sent(server_failed):
                self._sending = None
                if server_failed:
                    self._paused_until = self._clock.monotonic() + _SERVER_PAUSE
            case _:
                assert_never(message)

    def on_task_error(self, task: _Task, error: Exception) -> None:
        """Log the error; after a pause another attempt begins."""
        super().on_task_error(task, error)
        self._sending = None
        self._paused_until = self._clock.monotonic() + _SERVER_PAUSE

    def _poll(self) -> None:
        if self._sending is not None:
            self._sending.end_if_overdue()
            return
        expire_mails(self._storage, self._metrics)
        settings = self._live_settings.now.mail
        if not settings.host or self._clock.monotonic() < self._paused_until or not self._storage.mail.is_due():
            return
        from actors.mail.sending import Sending  # noqa: PLC0415 - e-mail and SMTP, for the first mail that is due

        expire = partial(expire_mails, self._storage, self._metrics)
        sending = self._sending = Sending(self._storage, settings, self._clock, self._metrics, expire)

        def run() -> _Sent:
            return _Sent(server_failed=not sending.run())

        self.work(_Task.SEND, run)
