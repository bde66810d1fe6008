"""The paths of the pages of notifications, and of their forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.notifications.page import NotificationsPage, notification_of
from api.console.operation_form import OperationForm, leads_to, shows
from api.resources.notifications import NotificationsResource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.mail import Mails
    from api.console.site import Site
    from api.openapi.operations import Routes
    from api.paging import Pager

__all__ = ["add_notification_pages"]


def add_notification_pages(routes: Routes, site: Site, *, pager: Pager, mails: Mails) -> None:
    """Route the pages of notifications."""
    listed = "/{org}/pipelines/{pipeline}/notifications"
    one, page = f"{listed}/{{id}}", NotificationsPage(site)
    routes.add_page(listed, page)
    routes.add_page(one, page, "one")

    resource = NotificationsResource(site.storage, site.engine, site.access, pager, mails, site.clock)
    with_secret = shows(site, "notifications/secret")
    to_list = leads_to(lambda params, _: f"{params['org']}/pipelines/{params['pipeline']}/notifications")
    to_one = leads_to(lambda params, _: f"{params['org']}/pipelines/{params['pipeline']}/notifications/{params['id']}")
    routes.add_page(f"{listed}/create", OperationForm(site, resource.on_post_list, with_secret, notification_of))
    routes.add_page(f"{one}/test", OperationForm(site, resource.on_post_test, to_one))
    routes.add_page(f"{one}/rotate", OperationForm(site, resource.on_post_rotate, with_secret))
    routes.add_page(f"{one}/switch", OperationForm(site, resource.on_patch, to_one, _switched))
    routes.add_page(f"{one}/delete", OperationForm(site, resource.on_delete, to_list))
    redeliver = f"{one}/deliveries/{{delivery}}/redeliver"
    routes.add_page(redeliver, OperationForm(site, resource.on_post_redeliver, to_one))


def _switched(fields: Mapping[str, str]) -> dict[str, bool]:
    """Return the body of ``updateNotification`` for the buttons that enable and disable."""
    return {"enabled": fields.get("enabled") == "yes"}
