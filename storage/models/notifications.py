"""Notifications, their deliveries, and e-mail."""

from __future__ import annotations

import peewee

from storage.models.pipelines import PipelineRow
from storage.models.row import InstantField, Row
from storage.records.notifications import Mail, Notification, NotificationDelivery


class NotificationRow(Row, table="notifications", record=Notification, joined=("enabled",)):
    """A notification; ``sealed`` has the URL and the secrets of its endpoint."""

    pipeline = peewee.ForeignKeyField(PipelineRow)
    sealed = peewee.BlobField(null=True)


class NotificationDeliveryRow(Row, table="notification_deliveries", record=NotificationDelivery):
    """An event for one notification, sent or to be sent."""

    notification = peewee.ForeignKeyField(NotificationRow)


class MailOptOutRow(Row, table="mail_opt_outs"):
    """An address that gets no mail about builds."""

    email = peewee.TextField(primary_key=True)
    created_at = InstantField()


class MailRow(Row, table="mails", record=Mail):
    """An e-mail to one address; its sealed content goes when it is sent or given up."""

    content = peewee.BlobField(null=True)
