"""Records and bodies of notifications."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints

from actors.notifications import checked_events, endpoint_url
from api.fields import RequestBody, StoredRecord, Timestamp, Uuid
from storage import BuildEvent, DeliveryState, NotificationKind

if TYPE_CHECKING:
    import storage

__all__ = [
    "CreateNotificationRequest",
    "CreatedNotificationRecord",
    "NotificationDeliveryRecord",
    "NotificationRecord",
    "UpdateNotificationRequest",
]

Url = Annotated[
    str,
    StringConstraints(max_length=2000),
    AfterValidator(endpoint_url),
    Field(json_schema_extra={"pattern": "^https?://", "examples": ["https://hooks.example.org/ci"]}),
]
Events = Annotated[
    list[str],
    AfterValidator(lambda events: list(checked_events(events))),
    Field(
        json_schema_extra={
            "minItems": 1,
            "items": {"type": "string", "enum": [each.value for each in BuildEvent]},
            "examples": [[BuildEvent.FIRST_FAILURE, BuildEvent.RECOVERED]],
        }
    ),
]


class NotificationRecord(StoredRecord):
    """A notification. ``origin`` is the part of its URL that is shown; null for e-mail.

    ``failing_since`` is set while its deliveries fail, with the reason in ``last_error``. After three days it is
    disabled.
    """

    id: Uuid
    kind: NotificationKind
    events: list[str]
    origin: str | None
    to_creator: bool
    enabled: bool
    failing_since: Timestamp | None
    last_error: str | None
    created_at: Timestamp

    @classmethod
    def of(cls, notification: storage.Notification) -> NotificationRecord:
        """Return the record of a stored notification."""
        return cls.showing(notification, id=notification.uuid, events=list(notification.events))


class CreatedNotificationRecord(NotificationRecord):
    """A notification with its secret, which is shown only now; null for other kinds than webhooks."""

    secret: str | None

    @classmethod
    def with_secret(cls, notification: storage.Notification, secret: str | None) -> CreatedNotificationRecord:
        """Return the record of a stored notification and its new secret."""
        events = list(notification.events)
        return cls.showing(notification, id=notification.uuid, events=events, secret=secret)


class NotificationDeliveryRecord(StoredRecord):
    """A delivery; its ``id`` is the header ``webhook-id`` of every attempt.

    ``state`` is ``waiting``, ``delivered``, ``failed``, or ``skipped`` if ``last_error`` says why there was no attempt.
    ``http_status``, ``answer`` and ``duration_ms`` are those of the last attempt; of the answer it is the first 2 KB.
    """

    id: Uuid
    event: str
    build_number: int | None
    state: DeliveryState
    recipient: str | None
    body: str | None
    attempts: int
    next_attempt_at: Timestamp | None
    http_status: int | None
    answer: str | None
    duration_ms: int | None
    last_error: str | None
    created_at: Timestamp
    delivered_at: Timestamp | None

    @classmethod
    def of(cls, delivery: storage.NotificationDelivery) -> NotificationDeliveryRecord:
        """Return the record of a stored delivery."""
        return cls.showing(delivery, id=delivery.uuid, http_status=delivery.status)


class CreateNotificationRequest(RequestBody):
    """The body of ``POST …/notifications``.

    ``url`` is for the kinds ``webhook`` and ``slack``, ``to_creator`` for ``email``: then builds without a commit
    author are told to their creator. Without ``events``, a webhook gets ``build.finished``, the others first failures
    and recoveries.
    """

    kind: Literal["webhook", "slack", "email"]
    url: Url | None = None
    events: Events | None = None
    to_creator: bool | None = None


def _without_defaults(schema: dict[str, Any]) -> None:
    for field in schema["properties"].values():
        field.pop("default", None)


class UpdateNotificationRequest(RequestBody):
    """The body of ``PATCH …/notifications/{id}``. Absent fields stay as they are."""

    model_config = ConfigDict(json_schema_extra=_without_defaults)

    url: Url = ""
    events: Events = Field(default_factory=list)
    to_creator: bool = False
    enabled: bool = True
