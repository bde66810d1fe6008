"""The paths of the pages of notifications, and of their forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.notifications.page import NotificationsPage, notification_of
from api.console.operation_form import OperationForm, leads_to, shows
from api.operations import notifications

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.console.site import Site
    from api.openapi.operations import Routes


def add_notification_pages(routes: Routes, site: Site) -> None:
    """Route the pages of notifications."""
    listed = "/{org}/pipelines/{pipeline}/notifications"
    one, page = f"{listed}/{{id}}", NotificationsPage(site)
    routes.add_page(listed, page)
    routes.add_page(one, page, "one")

    with_secret = shows(site, "notifications/secret")
    to_list = leads_to(lambda params, _: f"{params['org']}/pipelines/{params['pipeline']}/notifications")
    to_one = leads_to(lambda params, _: f"{params['org']}/pipelines/{params['pipeline']}/notifications/{params['id']}")
    routes.add_page(
        f"{listed}/create", OperationForm(site, notifications.create_notification, with_secret, notification_of)
    )
    routes.add_page(f"{one}/test", OperationForm(site, notifications.test_notification, to_one))
    routes.add_page(f"{one}/rotate", OperationForm(site, notifications.rotate_notification_secret, with_secret))
    routes.add_page(f"{one}/switch", OperationForm(site, notifications.update_notification, to_one, _switched))
    routes.add_page(f"{one}/delete", OperationForm(site, notifications.delete_notification, to_list))
    redeliver = f"{one}/deliveries/{{delivery}}/redeliver"
    routes.add_page(redeliver, OperationForm(site, notifications.redeliver_notification, to_one))


def _switched(fields: Mapping[str, str]) -> dict[str, bool]:
    """Return the body of ``updateNotification`` for the buttons that enable and disable."""
    return {"enabled": fields.get("enabled") == "yes"}
