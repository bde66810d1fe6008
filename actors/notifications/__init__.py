"""Notifications: who is told about the ends of builds, and the actor that tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.notifications.announcing import deliver_test, mail_test
    from actors.notifications.choices import (
        NotificationInvalid,
        check_kind,
        checked_events,
        endpoint_url,
        new_notification,
    )
    from actors.settings import NotificationSettings
else:
    __getattr__ = on_first_use(__name__)
