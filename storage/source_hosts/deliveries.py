"""Deliveries: reports of source hosts (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.database.clock import DAY, SECOND
from storage.database.statements import NEWEST, Columns, Query, Write, first, insert_into, slot
from storage.models.source_hosts import DeliveryRow
from storage.records.source_hosts import Delivery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from storage.database.connection import Database
    from storage.documents import Page
    from storage.records.source_hosts import Repository
    from storage.source_hosts.repositories import RepositoryChecks

_DELIVERY = Columns.of(Delivery, DeliveryRow)
_KEPT = 7 * DAY
_AT_ONCE = 100
_FIRST_PAUSE = 10 * SECOND
_DOUBLINGS = 8
_MOST_ATTEMPTS = 100
"""About three days of them."""


class Deliveries:
    """The deliveries of the last seven days. Safe in any thread.

    Each is stored before it is answered, once. Those of a repository are processed when it is checked, the others by
    their host, in the order of arrival.
    """

    def __init__(self, database: Database, checks: RepositoryChecks) -> None:
        self._database = database
        self._checks = checks
        deliveries = DeliveryRow.select(*_DELIVERY.selected)
        this = DeliveryRow.id == slot("id")
        waiting = DeliveryRow.processed_at.is_null()
        of_repository = DeliveryRow.repository == slot("repository_id")
        due = peewee.fn.COALESCE(DeliveryRow.retry_at, 0) <= slot("now")
        same = (DeliveryRow.provider == slot("provider"), DeliveryRow.delivery_id == slot("delivery_id"))
        self._known = Query(database, lambda: deliveries.where(*same), _DELIVERY)
        self._by_uuid = Query(database, lambda: deliveries.where(DeliveryRow.uuid == slot("uuid")), _DELIVERY)
        self._pending = Query(
            database,
            lambda: deliveries.where(of_repository, waiting, due).order_by(DeliveryRow.id).limit(_AT_ONCE),
            _DELIVERY,
        )
        self._postponed = Query(
            database,
            lambda: (
                deliveries.where(of_repository, waiting, DeliveryRow.retry_at > slot("now"))
                .order_by(DeliveryRow.id)
                .limit(_AT_ONCE)
            ),
            _DELIVERY,
        )
        next_due = peewee.fn.MIN(peewee.fn.COALESCE(DeliveryRow.retry_at, slot("now")))
        self._next_due = Query(
            database,
            lambda: DeliveryRow.select(peewee.fn.COALESCE(next_due, NEWEST)).where(of_repository, waiting),
            first,
        )
        self._page = Query(
            database,
            lambda: (
                deliveries.where(of_repository, DeliveryRow.id < slot("after"))
                .order_by(DeliveryRow.id.desc())
                .limit(slot("limit"))
            ),
            _DELIVERY,
        )
        self._latest = Query(
            database,
            lambda: (
                deliveries.where(DeliveryRow.id < slot("after")).order_by(DeliveryRow.id.desc()).limit(slot("limit"))
            ),
            _DELIVERY,
        )
        unassigned = (DeliveryRow.provider == slot("provider"), DeliveryRow.repository.is_null(), waiting)
        self._unassigned = Query(
            database,
            lambda: deliveries.where(*unassigned, due).order_by(DeliveryRow.id).limit(1),
            _DELIVERY,
        )
        self._assign = Write(database, lambda: DeliveryRow.update(repository_id=slot("repository_id")).where(this))
        self._postpone = Write(
            database,
            lambda: DeliveryRow.update(
                {
                    DeliveryRow.attempts: DeliveryRow.attempts + 1,
                    DeliveryRow.last_error: slot("why"),
                    DeliveryRow.retry_at: slot("at"),
                    DeliveryRow.processed_at: slot("processed_at"),
                }
            ).where(this),
        )
        self._insert = Write(
            database, lambda: insert_into(DeliveryRow, "attempts", "retry_at", "processed_at", "last_error", "outcome")
        )
        self._processed = Write(
            database,
            lambda: DeliveryRow.update(
                {
                    DeliveryRow.processed_at: slot("now"),
                    DeliveryRow.attempts: DeliveryRow.attempts + 1,
                    DeliveryRow.last_error: None,
                    DeliveryRow.outcome: slot("outcome"),
                }
            ).where(this),
        )
        self._failed = Write(
            database,
            lambda: DeliveryRow.update(
                {DeliveryRow.attempts: DeliveryRow.attempts + 1, DeliveryRow.last_error: slot("why")}
            ).where(of_repository, waiting, due),
        )
        self._again = Write(
            database,
            lambda: DeliveryRow.update({DeliveryRow.processed_at: None, DeliveryRow.retry_at: None}).where(this),
        )
        self._forget = Write(database, lambda: DeliveryRow.delete().where(DeliveryRow.received_at <= slot("before")))

    def receive(self, provider: str, event: str, delivery_id: str, repository: Repository | None, body: bytes) -> bool:
        """Store a delivery and make its repository due; False, and nothing else, if it came before."""
        with self._database.write():
            now = self._database.now()
            self._forget.run(before=self._database.ago(_KEPT))
            if self._known.one(provider=provider, delivery_id=delivery_id) is not None:
                return False
            self._insert.run(
                uuid=str(uuid4()),
                provider=provider,
                event=event,
                delivery_id=delivery_id,
                repository_id=None if repository is None else repository.id,
                body=body,
                received_at=now,
            )
            if repository is not None:
                self._checks.hasten(repository.id)
            return True

    def known(self, provider: str, delivery_id: str) -> Delivery | None:
        """Return a delivery by its host's own name for it."""
        return self._known.one(provider=provider, delivery_id=delivery_id)

    def next_unassigned(self, provider: str) -> Delivery | None:
        """Return the oldest delivery of a kind of host that waits and belongs to no repository."""
        return self._unassigned.one(provider=provider, now=self._database.now())

    def assign(self, delivery: Delivery, repository: Repository) -> None:
        """Let a delivery be processed with a repository that was not known when it came."""
        with self._database.write():
            self._assign.run(id=delivery.id, repository_id=repository.id)
            self._checks.hasten(repository.id)

    def handled(self, delivery: Delivery) -> None:
        """Note that a delivery without repository was processed, unless it has one by now."""
        with self._database.write():
            found = self._by_uuid.one(uuid=delivery.uuid)
            if found is not None and found.repository_id is None:
                self._processed.run(id=delivery.id, now=self._database.now(), outcome=None)

    def postpone(self, delivery: Delivery, why: str, most_attempts: int = _MOST_ATTEMPTS) -> None:
        """Note why a delivery failed on its own; it waits ever longer, and is given up after so many attempts."""
        with self._database.write():
            now = self._database.now()
            pause = _FIRST_PAUSE << min(delivery.attempts, _DOUBLINGS)
            given_up = now if delivery.attempts + 1 >= most_attempts else None
            self._postpone.run(id=delivery.id, why=why, at=now + pause, processed_at=given_up)

    def pending(self, repository_id: int) -> list[Delivery]:
        """Return the deliveries of a repository that are due, in the order of arrival, a hundred at most."""
        return self._pending.all(repository_id=repository_id, now=self._database.now())

    def postponed(self, repository_id: int) -> list[Delivery]:
        """Return the deliveries of a repository that wait for another attempt, in the order of arrival."""
        return self._postponed.all(repository_id=repository_id, now=self._database.now())

    def processed(
        self,
        repository_id: int,
        deliveries: Iterable[Delivery],
        outcome: Callable[[Delivery], str | None] = lambda _delivery: None,
    ) -> None:
        """Note that deliveries were processed, and what came of each.

        If others wait, their repository is due again when they are.
        """
        with self._database.write():
            now = self._database.now()
            for each in deliveries:
                self._processed.run(id=each.id, now=now, outcome=outcome(each))
            self._checks.hasten(repository_id, self._next_due.one(repository_id=repository_id, now=now))

    def failed(self, repository_id: int, why: str) -> None:
        """Note why the deliveries of a repository wait for its next check."""
        with self._database.write():
            self._failed.run(repository_id=repository_id, why=why, now=self._database.now())

    def page(self, repository_id: int, limit: int, after: int | None) -> Page[Delivery]:
        """Return the deliveries of a repository past the key ``after``, newest first."""
        return self._page.page(
            limit,
            lambda delivery: delivery.id,
            repository_id=repository_id,
            after=NEWEST if after is None else after,
        )

    def page_of_all(self, limit: int, after: int | None) -> Page[Delivery]:
        """Return the deliveries of all hosts past the key ``after``, newest first."""
        return self._latest.page(limit, lambda each: each.id, after=NEWEST if after is None else after)

    def latest(self, limit: int) -> list[Delivery]:
        """Return the latest deliveries, newest first."""
        return list(self.page_of_all(limit, None).rows)

    def find(self, uuid: str) -> Delivery | None:
        """Return a delivery by UUID."""
        return self._by_uuid.one(uuid=uuid)

    def redeliver(self, delivery: Delivery) -> None:
        """Let a delivery be processed again, as if it had come just now. What was built is not built again."""
        with self._database.write():
            self._again.run(id=delivery.id)
            if delivery.repository_id is not None:
                self._checks.hasten(delivery.repository_id)
