"""A test of a notification, which goes the way of every delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.notifications.slack import slack_test
from actors.notifications.webhook_body import TEST_EVENT, webhook_test
from storage import NotificationKind

if TYPE_CHECKING:
    from datetime import datetime

    from actors.mail import Mails
    from storage import Notification, NotificationDelivery, Pipeline, Storage


def deliver_test(
    storage: Storage, notification: Notification, organization: str, pipeline: Pipeline, now: datetime
) -> NotificationDelivery:
    """Add a test delivery to the endpoint of a notification; ``organization`` is a slug."""
    if notification.kind is NotificationKind.SLACK:
        body = slack_test(f"{organization}/{pipeline.slug}")
    else:
        body = webhook_test(organization, pipeline.slug, now)
    return storage.notification_deliveries.add(notification.id, TEST_EVENT, None, body)


def mail_test(
    storage: Storage, mails: Mails | None, notification: Notification, name: str, to: str
) -> NotificationDelivery:
    """Write a test mail for a notification of ORG/PIPELINE; ``mails`` is None without a mail server."""
    deliveries = storage.notification_deliveries
    with storage.transaction():
        if mails is None:
            return deliveries.skipped(notification.id, TEST_EVENT, None, to, "the service has no mail server")
        if not mails.test(to, name):
            return deliveries.skipped(notification.id, TEST_EVENT, None, to, "it had too many tests in 15 minutes")
        return deliveries.mailed(notification.id, TEST_EVENT, None, to)
