"""Deliveries of notifications, and the ends of builds that they are made for.

A delivery is kept for seven days after its end, with its result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.builds.build_rows import counts
from storage.database.clock import DAY, SECOND, to_micros
from storage.database.statements import NEWEST, Columns, Query, Write, insert_into, slot, written
from storage.models.builds import BuildRow
from storage.models.notifications import NotificationDeliveryRow as Row
from storage.records.builds import BuildState
from storage.records.notifications import EndedBuild, NotificationDelivery, ToldEnd

if TYPE_CHECKING:
    from collections.abc import Collection

    from storage.database.connection import Database
    from storage.documents import Page
    from storage.notifications.notifications import Notifications
    from storage.records.builds import Build
    from storage.records.notifications import EndpointAnswer


_DELIVERY = Columns.of(NotificationDelivery, Row)
_KEPT = 7 * DAY
_PAUSES = tuple(each * SECOND for each in (5, 300, 1800, 7200, 18_000, 36_000, 36_000))
"""The pauses before further attempts, as Standard Webhooks recommends: the last is after 28 hours."""

_DISABLED = "the notification is disabled, because its deliveries failed too long"


class NotificationDeliveries:
    """The deliveries of the last seven days. Safe in any thread.

    Each is written in the transaction that notes its event as told, so that none is lost, and is sent at least once.
    """

    def __init__(self, database: Database, notifications: Notifications) -> None:
        self._database = database
        self._notifications = notifications
        deliveries = Row.select(*_DELIVERY.selected)
        this = Row.id == slot("id")
        waiting = Row.next_attempt_at.is_null(is_null=False)
        of_notification = Row.notification == slot("notification_id")
        free = peewee.fn.INSTR(slot("busy"), peewee.SQL("',' || notification_id || ','")) == 0
        self._by_uuid = Query(database, lambda: deliveries.where(Row.uuid == slot("uuid")), _DELIVERY)
        self._next = Query(
            database,
            lambda: (
                deliveries.where(waiting, Row.next_attempt_at <= slot("now"), free)
                .order_by(Row.next_attempt_at, Row.id)
                .limit(1)
            ),
            _DELIVERY,
        )
        self._page = Query(
            database,
            lambda: (
                deliveries.where(of_notification, Row.id < slot("after")).order_by(Row.id.desc()).limit(slot("limit"))
            ),
            _DELIVERY,
        )
        self._insert = Write(database, lambda: insert_into(Row, "status", "answer", "duration_ms"))
        self._note = Write(
            database,
            lambda: Row.update(
                {
                    Row.attempts: Row.attempts + 1,
                    Row.next_attempt_at: slot("next_attempt_at"),
                    Row.delivered_at: slot("delivered_at"),
                    Row.status: slot("status"),
                    Row.answer: slot("answer"),
                    Row.duration_ms: slot("duration_ms"),
                    Row.last_error: slot("error"),
                }
            ).where(this, waiting),
        )
        self._end = Write(
            database,
            lambda: Row.update({Row.next_attempt_at: None, Row.last_error: slot("error")}).where(
                of_notification, waiting
            ),
        )
        self._again = Write(
            database,
            lambda: Row.update({Row.next_attempt_at: slot("now"), Row.attempts: 0, Row.delivered_at: None}).where(
                this, Row.body.is_null(is_null=False)
            ),
        )
        self._forget = Write(database, lambda: Row.delete().where(Row.created_at <= slot("before"), ~waiting))

    def add(self, notification_id: int, event: str, build_number: int | None, body: str) -> NotificationDelivery:
        """Add a delivery, to be sent at once, in the caller's transaction if there is one."""
        return self._add(notification_id, event, build_number, body=body, due=True)

    def mailed(
        self, notification_id: int, event: str, build_number: int | None, recipient: str
    ) -> NotificationDelivery:
        """Note a mail that was handed to the mail sender, in the caller's transaction."""
        return self._add(notification_id, event, build_number, recipient=recipient, delivered=True)

    def skipped(
        self, notification_id: int, event: str, build_number: int | None, recipient: str | None, why: str
    ) -> NotificationDelivery:
        """Note that nobody was written to, in the caller's transaction."""
        return self._add(notification_id, event, build_number, recipient=recipient, error=why)

    def _add(
        self,
        notification_id: int,
        event: str,
        build_number: int | None,
        *,
        body: str | None = None,
        recipient: str | None = None,
        error: str | None = None,
        due: bool = False,
        delivered: bool = False,
    ) -> NotificationDelivery:
        uuid = str(uuid4())
        with self._database.write():
            now = self._database.now()
            self._forget.run(before=self._database.ago(_KEPT))
            self._insert.run(
                uuid=uuid,
                notification_id=notification_id,
                event=event,
                build_number=build_number,
                recipient=recipient,
                body=body,
                created_at=now,
                attempts=int(delivered),
                next_attempt_at=now if due else None,
                last_error=error,
                delivered_at=now if delivered else None,
            )
            return written(self.by_uuid(uuid))

    def next(self, busy: Collection[int]) -> NotificationDelivery | None:
        """Return the delivery that has been due longest, except those of ``busy`` notifications."""
        return self._next.one(now=self._database.now(), busy="".join(f",{each}," for each in busy))

    def note(self, delivery: NotificationDelivery, answer: EndpointAnswer) -> bool:
        """Note an attempt: it is delivered, waits for the next attempt, or is given up after the eighth.

        False if the notification is disabled because of it; then none of its deliveries wait any more.
        """
        with self._database.write():
            now = self._database.now()
            pause = _PAUSES[delivery.attempts] if delivery.attempts < len(_PAUSES) else None
            failed = answer.error is not None
            self._note.run(
                id=delivery.id,
                next_attempt_at=now + pause if failed and pause is not None else None,
                delivered_at=None if failed else now,
                status=answer.status,
                answer=answer.text,
                duration_ms=answer.duration_ms,
                error=answer.error,
            )
            if self._notifications.note(delivery.notification_id, answer):
                return True
            self._end.run(notification_id=delivery.notification_id, error=_DISABLED)
            return False

    def redeliver(self, delivery: NotificationDelivery) -> bool:
        """Let a delivery be sent again, as if it were new but with its UUID; False if it is e-mail, or gone."""
        with self._database.write():
            return self._again.run(id=delivery.id, now=self._database.now()) == 1

    def by_uuid(self, uuid: str) -> NotificationDelivery | None:
        """Return a delivery by UUID."""
        return self._by_uuid.one(uuid=uuid)

    def page(self, notification_id: int, limit: int, after: int | None) -> Page[NotificationDelivery]:
        """Return a notification's deliveries past the key ``after``, newest first."""
        older_than = NEWEST if after is None else after
        return self._page.page(limit, lambda each: each.id, notification_id=notification_id, after=older_than)


_ENDED = Columns(EndedBuild, BuildRow.id, BuildRow.recorded_at)
_TOLD = Columns(ToldEnd, BuildRow.number, (BuildRow.told_state, BuildState))


class EndedBuilds:
    """Ends of builds, each told once. A build that was retried ends again. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        untold = peewee.Expression(BuildRow.recorded_at, "IS NOT", BuildRow.told_at)  # both are null before an end
        self._untold = Query(
            database,
            lambda: (
                BuildRow.select(*_ENDED.selected)
                .where(untold)
                .order_by(BuildRow.recorded_at, BuildRow.id)
                .limit(slot("limit"))
            ),
            _ENDED,
        )
        self._last_told = Query(
            database,
            lambda: (
                BuildRow.select(*_TOLD.selected)
                .where(
                    BuildRow.pipeline == slot("pipeline_id"),
                    BuildRow.branch == slot("branch"),
                    BuildRow.told_state.is_null(is_null=False),
                    counts(),
                )
                .order_by(BuildRow.number.desc())
                .limit(1)
            ),
            _TOLD,
        )
        self._tell = Write(
            database,
            lambda: BuildRow.update(
                {
                    BuildRow.told_at: slot("recorded_at"),
                    BuildRow.told_state: peewee.fn.COALESCE(slot("state"), BuildRow.told_state),
                }
            ).where(BuildRow.id == slot("id"), BuildRow.recorded_at == slot("recorded_at"), untold),
        )

    def untold(self, limit: int) -> list[EndedBuild]:
        """Return ends that are not told yet, in the order in which they were recorded."""
        return self._untold.all(limit=limit)

    def last_told(self, build: Build) -> ToldEnd | None:
        """Return the end that was told of the branch's newest build, which may be this build itself."""
        return self._last_told.one(pipeline_id=build.pipeline_id, branch=build.branch)

    def tell(self, ended: EndedBuild, state: BuildState | None) -> bool:
        """Note an end as told; False if it was already, or if the build was retried meanwhile.

        ``state`` counts for the events of the branch's later builds; None if the end says nothing about the branch.
        """
        with self._database.write():
            return self._tell.run(id=ended.build_id, recorded_at=to_micros(ended.recorded_at), state=state) == 1
