"""The mail sender: sends the mails that are due, one after the other (wire-decisions.md, "Sign-in")."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, assert_never

from actors.mail.sending import Sending, expire_mails
from actors.messages import MailSenderMessage, PollStorage
from actors.supervision import Supervised
from storage import immutable

if TYPE_CHECKING:
    from actors.addresses import Address
    from actors.engine_settings import LiveSettings
    from actors.messages import RootMessage
    from actors.metrics import EngineMetrics
    from actors.timer import Timer
    from actors.timings import Timings
    from storage import Clock, Storage

_SERVER_PAUSE = 10.0
"""Seconds in which a server that failed is left alone, however many mails come meanwhile."""

_STOP_SECONDS = 3.0
"""Seconds that the mail under way has when the service stops: one that is cut off may be sent twice."""


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

    def __init__(
        self,
        *,
        timer: Timer,
        root: Address[RootMessage],
        storage: Storage,
        clock: Clock,
        live_settings: LiveSettings,
        metrics: EngineMetrics,
        timings: Timings,
    ) -> None:
        super().__init__(timer, root, timings.retry)
        self._storage = storage
        self._clock = clock
        self._live_settings = live_settings
        self._metrics = metrics
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
        sending = self._sending = Sending(self._storage, settings, self._clock, self._metrics)

        def run() -> _Sent:
            return _Sent(server_failed=not sending.run())

        self.work(_Task.SEND, run)
