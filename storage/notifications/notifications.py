"""Notifications of pipelines: the events that are told, and the sealed endpoints."""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import asdict, replace
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import uuid4

import peewee

from storage.data_classes import immutable
from storage.database.clock import DAY, from_micros
from storage.database.statements import Columns, Query, Slots, SqlValue, Write, first, insert_into, slot, written
from storage.errors import PipelineGone, TooManyNotifications
from storage.models.accounts import OrganizationRow
from storage.models.notifications import NotificationRow
from storage.models.pipelines import PipelineRow
from storage.records.notifications import (
    Endpoint,
    FailingNotification,
    NewNotification,
    Notification,
    NotificationKind,
)

if TYPE_CHECKING:
    from datetime import datetime

    from storage.database.connection import Database
    from storage.documents import Page
    from storage.pipelines.pipelines import Pipelines
    from storage.records.notifications import EndpointAnswer
    from storage.vault import Vault

_NOTIFICATION = Columns.of(Notification, NotificationRow, enabled=(NotificationRow.disabled_at.is_null(), bool))
_FAILING = Columns.of(
    FailingNotification, NotificationRow, organization_slug=OrganizationRow.slug, pipeline_slug=PipelineRow.slug
)
_NEW: Slots[NewNotification] = Slots(NewNotification, NotificationRow)
_CHANGED: Slots[Notification] = Slots(Notification, NotificationRow)
_CHANGEABLE = ("events", "to_creator", "disabled_at", "failing_since", "last_error")
_MOST = 20
_SECRET_BYTES = 24
_OVERLAP = DAY
"""The time after a rotation in which the previous secret signs, too."""

_DISABLED_AFTER = timedelta(days=3)
"""The time without one success after which an endpoint is disabled."""


@immutable
class _Sealed:
    """The content of ``sealed``; the ``previous`` secret signs, too, before the instant ``until``."""

    url: str
    secret: str | None
    previous: str | None = None
    until: int = 0


class Notifications:
    """The notifications of pipelines, which go with their pipeline. Safe in any thread."""

    def __init__(self, database: Database, vault: Vault, pipelines: Pipelines) -> None:
        self._database = database
        self._vault = vault
        self._pipelines = pipelines
        this, of_pipeline = NotificationRow.id == slot("id"), NotificationRow.pipeline == slot("pipeline_id")
        notifications = NotificationRow.select(*_NOTIFICATION.selected)
        self._get = Query(database, lambda: notifications.where(this), _NOTIFICATION)
        self._by_uuid = Query(
            database, lambda: notifications.where(NotificationRow.uuid == slot("uuid")), _NOTIFICATION
        )
        self._page = Query(
            database,
            lambda: (
                notifications.where(of_pipeline, NotificationRow.id > slot("after"))
                .order_by(NotificationRow.id)
                .limit(slot("limit"))
            ),
            _NOTIFICATION,
        )
        self._enabled = Query(
            database,
            lambda: notifications.where(of_pipeline, NotificationRow.disabled_at.is_null()).order_by(
                NotificationRow.id
            ),
            _NOTIFICATION,
        )
        self._failing = Query(
            database,
            lambda: (
                NotificationRow.select(*_FAILING.selected)
                .join(PipelineRow)
                .join(OrganizationRow)
                .where(NotificationRow.failing_since.is_null(is_null=False))
                .order_by(NotificationRow.failing_since)
                .limit(slot("limit"))
            ),
            _FAILING,
        )
        self._count = Query(
            database, lambda: NotificationRow.select(peewee.fn.COUNT(peewee.SQL("*"))).where(of_pipeline), first
        )
        self._sealed = Query(
            database,
            lambda: NotificationRow.select(NotificationRow.uuid, NotificationRow.sealed).where(
                this, NotificationRow.sealed.is_null(is_null=False)
            ),
            lambda row: (str(row[0]), bytes(row[1])),
        )
        self._insert = Write(
            database, lambda: insert_into(NotificationRow, "failing_since", "last_error", "disabled_at")
        )
        self._seal = Write(
            database,
            lambda: NotificationRow.update(
                {NotificationRow.sealed: slot("sealed"), NotificationRow.origin: slot("origin")}
            ).where(this),
        )
        self._update = Write(
            database,
            lambda: NotificationRow.update(
                {
                    NotificationRow.events: slot("events"),
                    NotificationRow.to_creator: slot("to_creator"),
                    NotificationRow.disabled_at: slot("disabled_at"),
                    NotificationRow.failing_since: slot("failing_since"),
                    NotificationRow.last_error: slot("last_error"),
                }
            ).where(this),
        )
        self._recovered = Write(
            database,
            lambda: NotificationRow.update(
                {NotificationRow.failing_since: None, NotificationRow.last_error: None}
            ).where(this, NotificationRow.disabled_at.is_null()),
        )
        self._remove = Write(database, lambda: NotificationRow.delete().where(this))

    def create(self, pipeline_id: int, new: NewNotification) -> tuple[Notification, str | None]:
        """Add a notification to a pipeline; return it, and the secret of a webhook, which is not shown again.

        Raises TooManyNotifications and PipelineGone.
        """
        uuid = str(uuid4())
        secret = _new_secret() if new.kind is NotificationKind.WEBHOOK else None
        with self._database.write():
            if self._pipelines.by_id(pipeline_id) is None:
                raise PipelineGone("the pipeline was deleted: it gets no notification")
            if (self._count.one(pipeline_id=pipeline_id) or 0) >= _MOST:
                raise TooManyNotifications(f"the pipeline has {_MOST} notifications already: change or delete one")
            sealed = None if new.url is None else self._sealing(uuid, _Sealed(new.url, secret))
            notification_id = self._insert.insert(
                **_NEW(new),
                uuid=uuid,
                pipeline_id=pipeline_id,
                origin=None if new.url is None else _origin(new.url),
                sealed=sealed,
                created_at=self._database.now(),
            )
            return written(self.get(notification_id)), secret

    def update(
        self,
        notification_id: int,
        *,
        events: tuple[str, ...] | None = None,
        url: str | None = None,
        to_creator: bool | None = None,
        enabled: bool | None = None,
    ) -> Notification | None:
        """Change what is given; None if it was deleted. One that is enabled again begins without failures."""
        with self._database.write():
            found, sealed = self.get(notification_id), self._open(notification_id)
            if found is None:
                return None
            if url is not None and sealed is not None:
                changed = self._sealing(found.uuid, replace(sealed, url=url))
                self._seal.run(id=found.id, sealed=changed, origin=_origin(url))
            if enabled:
                found = replace(found, disabled_at=None, failing_since=None, last_error=None)
            elif enabled is False and found.enabled:
                found = replace(found, disabled_at=self._now())
            self._write(
                replace(
                    found,
                    events=found.events if events is None else events,
                    to_creator=found.to_creator if to_creator is None else to_creator,
                )
            )
            return self.get(notification_id)

    def rotate(self, notification_id: int) -> str | None:
        """Give a webhook a new secret and return it; None if it was deleted, or has none.

        The previous one signs, too, for a day.
        """
        with self._database.write():
            found, sealed = self.get(notification_id), self._open(notification_id)
            if found is None or sealed is None or sealed.secret is None:
                return None
            secret = _new_secret()
            until = self._database.now() + _OVERLAP
            changed = replace(sealed, secret=secret, previous=sealed.secret, until=until)
            self._seal.run(id=found.id, sealed=self._sealing(found.uuid, changed), origin=found.origin)
            return secret

    def remove(self, notification_id: int) -> bool:
        """Delete a notification and its deliveries; False if it is gone already."""
        with self._database.write():
            return self._remove.run(id=notification_id) == 1

    def get(self, notification_id: int) -> Notification | None:
        """Return a notification by row id."""
        return self._get.one(id=notification_id)

    def by_uuid(self, uuid: str) -> Notification | None:
        """Return a notification by UUID."""
        return self._by_uuid.one(uuid=uuid)

    def page(self, pipeline_id: int, limit: int, after: int | None) -> Page[Notification]:
        """Return a pipeline's notifications past the key ``after``, oldest first."""
        return self._page.page(limit, lambda each: each.id, pipeline_id=pipeline_id, after=after or 0)

    def enabled(self, pipeline_id: int) -> list[Notification]:
        """Return the notifications of a pipeline that are not disabled."""
        return self._enabled.all(pipeline_id=pipeline_id)

    def failing(self, limit: int) -> list[FailingNotification]:
        """Return the notifications with failing deliveries, longest failing first."""
        return self._failing.all(limit=limit)

    def endpoint(self, notification_id: int) -> Endpoint | None:
        """Return where to send; None if it was deleted or is e-mail. Raises SealBroken."""
        sealed = self._open(notification_id)
        if sealed is None:
            return None
        previous = sealed.previous if sealed.until > self._database.now() else None
        return Endpoint(sealed.url, tuple(each for each in (sealed.secret, previous) if each is not None))

    def note(self, notification_id: int, answer: EndpointAnswer) -> bool:
        """Note an answer of an endpoint, in the caller's transaction; False if it is disabled because of it.

        It is disabled after three days without a success, and at once if it says that it is gone.
        """
        found = self.get(notification_id)
        if found is None or (answer.error is None and found.failing_since is None):
            return True
        if answer.error is None:
            self._recovered.run(id=notification_id)
            return True
        now = self._now()
        since = found.failing_since or now
        ends = answer.gone or now - since >= _DISABLED_AFTER
        disabled = found.disabled_at or (now if ends else None)
        self._write(replace(found, failing_since=since, last_error=answer.error, disabled_at=disabled))
        return found.disabled_at is not None or not ends

    def _now(self) -> datetime:
        return from_micros(self._database.now())

    def _write(self, notification: Notification) -> None:
        values: dict[str, SqlValue] = _CHANGED(notification)
        self._update.run(id=notification.id, **{name: values[name] for name in _CHANGEABLE})

    def _open(self, notification_id: int) -> _Sealed | None:
        found = self._sealed.one(id=notification_id)
        if found is None:
            return None
        uuid, sealed = found
        return _Sealed(**json.loads(self._vault.open(sealed, _context(uuid))))

    def _sealing(self, uuid: str, content: _Sealed) -> bytes:
        return self._vault.seal(json.dumps(asdict(content)).encode(), _context(uuid))


def _new_secret() -> str:
    """Return a secret as Standard Webhooks writes it."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _context(uuid: str) -> bytes:
    """Return the only context in which a sealed endpoint opens; it is part of the stored format."""
    return f"notification {uuid}".encode()
