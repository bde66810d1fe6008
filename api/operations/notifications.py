"""Notifications of a pipeline, and deliveries (wire-decisions.md, "Schedules and notifications")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from actors import notifications
from actors.notifications import NotificationInvalid, check_kind, new_notification
from api.body import ABSENT, given
from api.errors.catalog import ApiError
from api.operations.operation import (
    DELETE,
    GET,
    PATCH,
    POST,
    Call,
    Found,
    Membership,
    Span,
    Success,
    created,
    done,
    operation,
    owners_operation,
)
from api.operations.things import PIPELINE, ThisMembership, ThisPipeline
from storage import (
    Caller,
    CreatedNotification,
    Notification,
    NotificationDelivery,
    NotificationKind,
    Page,
    Pipeline,
    Role,
    Storage,
    TooManyNotifications,
    described,
    immutable,
)

if TYPE_CHECKING:
    from api.fields import EndpointUrl, EventNames

_NOTIFICATIONS = f"{PIPELINE}/notifications"
_NOTIFICATION = f"{_NOTIFICATIONS}/{{id}}"
_DELIVERIES = f"{_NOTIFICATION}/deliveries"
_SENT = "The delivery, which is sent soon."


@immutable
class CreateNotificationRequest:
    """The body of ``POST …/notifications``.

    ``url`` is for the kinds ``webhook`` and ``slack``, ``to_creator`` for ``email``: then builds without a commit
    author are told to their creator. Without ``events``, a webhook gets ``build.finished``, the others first failures
    and recoveries.
    """

    kind: NotificationKind
    url: EndpointUrl | None = None
    events: EventNames | None = None
    to_creator: bool | None = described("Mail also to the creators of builds without a commit author.", default=None)


@immutable
class MailTestRequest:
    """The body of `send_test_mail`: the address that it goes to."""

    to: str


@immutable
class UpdateNotificationRequest:
    """The body of ``PATCH …/notifications/{id}``. Absent fields stay as they are."""

    url: EndpointUrl = ABSENT
    events: EventNames = ABSENT
    to_creator: bool = described("Whether to mail to the creators of builds.", default=ABSENT)
    enabled: bool = described("Whether anything is told.", default=ABSENT)


def _notification(call: Call, pipeline: ThisPipeline, id: str) -> Notification:
    found = call.storage.notifications.by_uuid(id)
    if found is None or found.pipeline_id != pipeline.id:
        raise ApiError.not_found("notification", id)
    return found


ThisNotification = Annotated[Notification, Found(_notification, ("notification_not_found",))]


@immutable
class NotificationPlace:
    """The names by which paths find a notification, and its kind."""

    org: str
    pipeline: str
    id: str
    kind: NotificationKind

    @property
    def names(self) -> dict[str, str]:
        """The names in its path."""
        return {"org": self.org, "pipeline": self.pipeline, "id": self.id}


@operation("listNotifications", GET, _NOTIFICATIONS, "A page of notifications.")
def list_notifications(call: Call, pipeline: ThisPipeline, span: Span) -> Page[Notification]:
    """List the pipeline's notifications, oldest first, without their URLs and secrets."""
    return call.storage.notifications.page(pipeline.id, span.limit, span.after)


@operation(
    "createNotification",
    POST,
    _NOTIFICATIONS,
    created("The notification, and the secret that signs its deliveries."),
    role=Role.ADMIN,
    errors=("too_many_notifications",),
)
def create_notification(call: Call, pipeline: ThisPipeline, body: CreateNotificationRequest) -> CreatedNotification:
    """Tell the ends of the pipeline's builds by e-mail, webhook, or in Slack; needs the role admin.

    Webhooks are signed as [Standard Webhooks](https://www.standardwebhooks.com) says.
    """
    try:
        new = new_notification(body.kind, body.events, body.url, to_creator=bool(body.to_creator))
        return CreatedNotification.of(*call.storage.notifications.create(pipeline.id, new))
    except NotificationInvalid as error:
        raise ApiError("invalid_body", f"{error.field}: {error}") from None
    except TooManyNotifications as error:
        raise ApiError("too_many_notifications", str(error)) from None


@operation("updateNotification", PATCH, _NOTIFICATION, "The notification as it is now.", role=Role.ADMIN)
def update_notification(call: Call, notification: ThisNotification, body: UpdateNotificationRequest) -> Notification:
    """Change, enable or disable a notification; needs the role admin.

    Its kind stays. While it is disabled nothing is told, and what happened meanwhile is not told later.
    """
    changes = given(body)
    email = notification.kind is NotificationKind.EMAIL
    misplaced = (
        "url" if email and "url" in changes else "to_creator" if not email and changes.get("to_creator") else None
    )
    if misplaced is not None:
        raise ApiError("invalid_body", f"{misplaced}: expected none for the kind {notification.kind}")
    try:
        check_kind(notification.kind, changes.get("events") or ())
    except NotificationInvalid as error:
        raise ApiError("invalid_body", f"{error.field}: {error}") from None
    changed = call.storage.notifications.update(notification.id, **changes)
    if changed is None:
        raise ApiError.not_found("notification", notification.uuid)
    return changed


@operation("deleteNotification", DELETE, _NOTIFICATION, done("The notification is deleted."), role=Role.ADMIN)
def delete_notification(call: Call, notification: ThisNotification) -> None:
    """Delete a notification and its deliveries; needs the role admin. What waits is not sent."""
    if not call.storage.notifications.remove(notification.id):
        raise ApiError.not_found("notification", notification.uuid)


@operation(
    "rotateNotificationSecret",
    POST,
    f"{_NOTIFICATION}/rotate",
    "The notification with its new secret.",
    role=Role.ADMIN,
    errors=("notification_without_endpoint",),
)
def rotate_notification_secret(call: Call, notification: ThisNotification) -> CreatedNotification:
    """Give a webhook a new secret; needs the role admin. For a day the previous one signs, too."""
    secret = call.storage.notifications.rotate(notification.id)
    if secret is None:
        raise ApiError("notification_without_endpoint", "only webhooks have a secret")
    return CreatedNotification.of(notification, secret)


@operation("testNotification", POST, f"{_NOTIFICATION}/test", Success(_SENT, 202), role=Role.ADMIN)
def test_notification(
    call: Call, member: ThisMembership, pipeline: ThisPipeline, notification: ThisNotification
) -> NotificationDelivery:
    """Send a test to the notification's endpoint, or by e-mail to yourself; needs the role admin."""
    if notification.kind is NotificationKind.EMAIL:
        if not isinstance(call.caller, Caller):
            raise ApiError.unauthorized("the test goes to the caller's own address: say whose with a token")
        return _mail_test(call, member, pipeline, notification, call.caller.user.email)
    made = notifications.deliver_test(call.storage, notification, member.organization.slug, pipeline, call.clock.now())
    call.engine.notifications_added()
    return made


@owners_operation("testNotification", POST, f"{_NOTIFICATION}/test")
def send_test_mail(
    call: Call, member: ThisMembership, pipeline: ThisPipeline, notification: ThisNotification, body: MailTestRequest
) -> NotificationDelivery:
    """Send a test of a notification of the kind ``email`` to an address."""
    return _mail_test(call, member, pipeline, notification, body.to)


def _mail_test(
    call: Call, member: Membership, pipeline: Pipeline, notification: Notification, to: str
) -> NotificationDelivery:
    mails = call.service.mails if call.engine.sends_mail else None
    return notifications.mail_test(call.storage, mails, notification, f"{member.organization.slug}/{pipeline.slug}", to)


@operation("listNotificationDeliveries", GET, _DELIVERIES, "A page of deliveries.", role=Role.ADMIN)
def list_notification_deliveries(call: Call, notification: ThisNotification, span: Span) -> Page[NotificationDelivery]:
    """List the notification's deliveries of the last seven days, newest first; needs the role admin."""
    return call.storage.notification_deliveries.page(notification.id, span.limit, span.after)


@operation(
    "redeliverNotification",
    POST,
    f"{_DELIVERIES}/{{delivery}}/redeliver",
    Success(_SENT, 202),
    role=Role.ADMIN,
    errors=("notification_delivery_not_found", "notification_without_endpoint"),
)
def redeliver_notification(call: Call, notification: ThisNotification, delivery: str) -> NotificationDelivery:
    """Send a delivery again, with the same ID and body; needs the role admin."""
    deliveries = call.storage.notification_deliveries
    found = deliveries.by_uuid(delivery)
    if found is None or found.notification_id != notification.id:
        raise ApiError.not_found("notification_delivery", delivery)
    if not deliveries.redeliver(found):
        raise ApiError("notification_without_endpoint", "a mail is not sent again")
    call.engine.notifications_added()
    return deliveries.by_uuid(delivery) or found


@owners_operation("findNotification", GET, "/notifications/{id}")
def find_notification(call: Call, id: str) -> NotificationPlace:
    """Find a notification by its ID alone."""
    place = _place_of(call.storage, call.storage.notifications.by_uuid(id))
    if place is None:
        raise ApiError.not_found("notification", id)
    return place


@owners_operation("findNotificationOfDelivery", GET, "/notification-deliveries/{delivery}")
def find_notification_of_delivery(call: Call, delivery: str) -> NotificationPlace:
    """Find the notification of a delivery by the delivery's ID alone."""
    found = call.storage.notification_deliveries.by_uuid(delivery)
    place = None if found is None else _place_of(call.storage, call.storage.notifications.get(found.notification_id))
    if place is None:
        raise ApiError.not_found("notification_delivery", delivery)
    return place


def _place_of(storage: Storage, found: Notification | None) -> NotificationPlace | None:
    pipeline = None if found is None else storage.pipelines.by_id(found.pipeline_id)
    organization = None if pipeline is None else storage.organizations.by_id(pipeline.organization_id)
    if found is None or pipeline is None or organization is None:
        return None
    return NotificationPlace(organization.slug, pipeline.slug, found.uuid, found.kind)
