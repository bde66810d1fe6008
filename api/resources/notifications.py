"""Notifications of a pipeline, and deliveries (wire-decisions.md, "Schedules and notifications")."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from actors.notifications import (
    NotificationInvalid,
    deliver_test,
    mail_test,
    new_notification,
)
from api.bodies import answer, read_body
from api.errors.responses import ApiError
from api.openapi.operations import Answer, operation
from api.paging import PAGE_ERRORS, PAGE_PARAMETERS, PageRecord
from api.resources.notification_bodies import (
    CreatedNotificationRecord,
    CreateNotificationRequest,
    NotificationDeliveryRecord,
    NotificationRecord,
    UpdateNotificationRequest,
)
from storage import NotificationKind, Role, Storage, TooManyNotifications

if TYPE_CHECKING:
    import falcon

    from actors.mail import Mails
    from api.engine import EngineInterface
    from api.middleware.authentication import Access, Membership
    from api.paging import Pager
    from storage import Clock, Notification, Pipeline

__all__ = ["NotificationsResource"]

_ERRORS = ("organization_not_found", "pipeline_not_found")
_CHANGE_ERRORS = (*_ERRORS, "insufficient_org_role")
_ONE_ERRORS = (*_CHANGE_ERRORS, "notification_not_found")


class NotificationsResource:
    """``/api/v0/organizations/{org}/pipelines/{pipeline}/notifications`` and the paths below it."""

    def __init__(
        self, storage: Storage, engine: EngineInterface, access: Access, pager: Pager, mails: Mails, clock: Clock
    ) -> None:
        self._storage = storage
        self._engine = engine
        self._access = access
        self._pager = pager
        self._mails = mails
        self._clock = clock

    @operation(
        "listNotifications",
        Answer(200, "A page of notifications.", PageRecord[NotificationRecord]),
        errors=(*_ERRORS, *PAGE_ERRORS),
        parameters=PAGE_PARAMETERS,
    )
    def on_get_list(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """List the pipeline's notifications, oldest first, without their URLs and secrets."""
        _, found = self._access.pipeline(req, org, pipeline)
        page = partial(self._storage.notifications.page, found.id)
        self._pager.answer(req, resp, f"notifications/{found.id}", page, NotificationRecord.of)

    @operation(
        "createNotification",
        Answer(201, "The notification, and the secret that signs its deliveries.", CreatedNotificationRecord),
        errors=(*_CHANGE_ERRORS, "too_many_notifications"),
        body=CreateNotificationRequest,
    )
    def on_post_list(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """Tell the ends of the pipeline's builds by e-mail, webhook, or in Slack; needs the role admin.

        Webhooks are signed as [Standard Webhooks](https://www.standardwebhooks.com) says.
        """
        member, found = self._access.pipeline(req, org, pipeline)
        member.require(Role.ADMIN)
        body = read_body(req, CreateNotificationRequest)
        try:
            new = new_notification(NotificationKind(body.kind), body.events, body.url, to_creator=bool(body.to_creator))
            made, secret = self._storage.notifications.create(found.id, new)
        except NotificationInvalid as error:
            raise ApiError("invalid_body", f"{error.field}: {error}") from None
        except TooManyNotifications as error:
            raise ApiError("too_many_notifications", str(error)) from None
        answer(resp, CreatedNotificationRecord.with_secret(made, secret), status=201)

    @operation(
        "updateNotification",
        Answer(200, "The notification as it is now.", NotificationRecord),
        errors=_ONE_ERRORS,
        body=UpdateNotificationRequest,
    )
    def on_patch(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, id: str) -> None:
        """Change, enable or disable a notification; needs the role admin.

        Its kind stays. While it is disabled nothing is told, and what happened meanwhile is not told later.
        """
        _, _, notification = self._managed(req, org, pipeline, id)
        given = read_body(req, UpdateNotificationRequest).model_dump(exclude_unset=True)
        email = notification.kind is NotificationKind.EMAIL
        misplaced = (
            "url" if email and "url" in given else "to_creator" if not email and given.get("to_creator") else None
        )
        if misplaced is not None:
            raise ApiError("invalid_body", f"{misplaced}: expected none for the kind {notification.kind}")
        if "events" in given:
            given["events"] = tuple(given["events"])
        changed = self._storage.notifications.update(notification.id, **given)
        if changed is None:
            raise ApiError.not_found("notification", id)
        answer(resp, NotificationRecord.of(changed))

    @operation("deleteNotification", Answer(204, "The notification is deleted."), errors=_ONE_ERRORS)
    def on_delete(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, id: str) -> None:
        """Delete a notification and its deliveries; needs the role admin. What waits is not sent."""
        _, _, notification = self._managed(req, org, pipeline, id)
        if not self._storage.notifications.remove(notification.id):
            raise ApiError.not_found("notification", id)
        resp.status = 204

    @operation(
        "rotateNotificationSecret",
        Answer(200, "The notification with its new secret.", CreatedNotificationRecord),
        errors=(*_ONE_ERRORS, "notification_without_endpoint"),
    )
    def on_post_rotate(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, id: str) -> None:
        """Give a webhook a new secret; needs the role admin. For a day the previous one signs, too."""
        _, _, notification = self._managed(req, org, pipeline, id)
        secret = self._storage.notifications.rotate(notification.id)
        if secret is None:
            raise ApiError("notification_without_endpoint", "only webhooks have a secret")
        answer(resp, CreatedNotificationRecord.with_secret(notification, secret))

    @operation(
        "testNotification",
        Answer(202, "The delivery, which is sent soon.", NotificationDeliveryRecord),
        errors=_ONE_ERRORS,
    )
    def on_post_test(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, id: str) -> None:
        """Send a test to the notification's endpoint, or by e-mail to yourself; needs the role admin."""
        member, found, notification = self._managed(req, org, pipeline, id)
        slug = member.organization.slug
        if notification.kind is NotificationKind.EMAIL:
            mails = self._mails if self._engine.sends_mail else None
            made = mail_test(self._storage, mails, notification, f"{slug}/{found.slug}", member.caller.user.email)
        else:
            made = deliver_test(self._storage, notification, slug, found, self._clock.now())
            self._engine.notifications_added()
        answer(resp, NotificationDeliveryRecord.of(made), status=202)

    @operation(
        "listNotificationDeliveries",
        Answer(200, "A page of deliveries.", PageRecord[NotificationDeliveryRecord]),
        errors=(*_ONE_ERRORS, *PAGE_ERRORS),
        parameters=PAGE_PARAMETERS,
    )
    def on_get_deliveries(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, id: str) -> None:
        """List the notification's deliveries of the last seven days, newest first; needs the role admin."""
        _, _, notification = self._managed(req, org, pipeline, id)
        page = partial(self._storage.notification_deliveries.page, notification.id)
        self._pager.answer(req, resp, f"notification deliveries/{notification.id}", page, NotificationDeliveryRecord.of)

    @operation(
        "redeliverNotification",
        Answer(202, "The delivery, which is sent soon.", NotificationDeliveryRecord),
        errors=(*_ONE_ERRORS, "notification_delivery_not_found", "notification_without_endpoint"),
    )
    def on_post_redeliver(
        self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, id: str, delivery: str
    ) -> None:
        """Send a delivery again, with the same ID and body; needs the role admin."""
        _, _, notification = self._managed(req, org, pipeline, id)
        deliveries = self._storage.notification_deliveries
        found = deliveries.by_uuid(delivery)
        if found is None or found.notification_id != notification.id:
            raise ApiError.not_found("notification_delivery", delivery)
        if not deliveries.redeliver(found):
            raise ApiError("notification_without_endpoint", "a mail is not sent again")
        self._engine.notifications_added()
        answer(resp, NotificationDeliveryRecord.of(deliveries.by_uuid(delivery) or found), status=202)

    def _managed(
        self, req: falcon.Request, org: str, pipeline: str, uuid: str
    ) -> tuple[Membership, Pipeline, Notification]:
        """Return a notification that the caller may change. Raises ApiError for 401, 404 and 403."""
        member, found = self._access.pipeline(req, org, pipeline)
        notification = self._storage.notifications.by_uuid(uuid)
        if notification is None or notification.pipeline_id != found.id:
            raise ApiError.not_found("notification", uuid)
        member.require(Role.ADMIN)
        return member, found, notification
