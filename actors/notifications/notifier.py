"""The notifier: announces the ends of builds, and sends what is due."""

from __future__ import annotations

import threading
from functools import cached_property, partial
from typing import TYPE_CHECKING, assert_never

from actors.messages import NotifierMessage, PollStorage
from actors.supervision import Supervised
from storage import EndedBuild, EndpointAnswer, NotificationDelivery, immutable

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.notifications.announcing import Announcements
    from actors.notifications.sending import DeliverySender
    from actors.parts import Parts

_AT_ONCE = 8
_INTERNAL = EndpointAnswer(None, "", 0, "an internal error, see `ci-daemon logs`")


@immutable
class _Announce:
    """Work on a worker thread: announce the end of a build."""

    ended: EndedBuild

    def __str__(self) -> str:
        return f"announce build {self.ended.build_id}"


@immutable
class _Send:
    """Work on a worker thread: make an attempt at a delivery."""

    delivery: NotificationDelivery

    def __str__(self) -> str:
        return f"send {self.delivery.uuid}"


@immutable
class _Done:
    """Worker: this task has ended."""

    task: _Announce | _Send


class Notifier(Supervised[NotifierMessage | _Done, _Announce | _Send]):
    """Announces ends one after the other, and sends to eight endpoints at once, to each one at a time.

    What it does next is in the storage, so that a successor, in this process or the next, goes on with it.
    """

    def __init__(self, parts: Parts, announcements: Callable[[], Announcements]) -> None:
        super().__init__(parts.timer, parts.addresses.root, parts.timings.retry)
        self._storage = parts.storage
        self._announcements = announcements
        self._stopping = threading.Event()
        self._parts = parts
        self._announcing = False
        self._busy: set[int] = set()

    @cached_property
    def _sender(self) -> DeliverySender:
        """The sender; the actor's own thread imports it, for the first delivery."""
        from actors.notifications.sending import DeliverySender, EndpointClient  # noqa: PLC0415 - most services tell nobody

        return DeliverySender(self._parts, client=EndpointClient(), stopping=self._stopping)

    def teardown(self) -> None:
        """Begin nothing else; what is under way is sent again by the next process, unless it ends in time."""
        self._stopping.set()

    def handle(self, message: NotifierMessage | _Done) -> None:
        """Begin what is due."""
        match message:
            case PollStorage():
                pass
            case _Done(task):
                self._forget(task)
            case _:
                assert_never(message)
        self._begin_due()

    def on_task_error(self, task: _Announce | _Send, error: Exception) -> None:
        """Log the error. An end that cannot be announced is left out; a delivery is tried again after a pause."""
        super().on_task_error(task, error)
        self._forget(task)
        match task:
            case _Announce(ended):
                self._storage.ended_builds.tell(ended, None)
            case _Send(delivery):
                self._sender.note(delivery, _INTERNAL)
            case _:
                assert_never(task)
        self._begin_due()

    def _forget(self, task: _Announce | _Send) -> None:
        match task:
            case _Announce():
                self._announcing = False
            case _Send(delivery):
                self._busy.discard(delivery.notification_id)
            case _:
                assert_never(task)

    def _begin_due(self) -> None:
        if not self._announcing:
            for ended in self._storage.ended_builds.untold(1):
                self._announcing = True
                announce = _Announce(ended)
                self.work(announce, partial(self._announce, announce))
        while len(self._busy) < _AT_ONCE and (due := self._storage.notification_deliveries.next(self._busy)):
            self._busy.add(due.notification_id)
            send = _Send(due)
            self.work(send, partial(self._send, self._sender, send))

    def _announce(self, task: _Announce) -> _Done:
        self._announcements().announce(task.ended)
        return _Done(task)

    def _send(self, sender: DeliverySender, task: _Send) -> _Done:
        sender.send(task.delivery)
        return _Done(task)
