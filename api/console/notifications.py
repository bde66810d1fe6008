"""The pages of notifications, and their forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.errors import Page
from api.console.operation_form import OperationForm, leads_to, shows
from api.console.pages import whole_number
from api.errors.catalog import ApiError
from api.operations import notifications
from storage import BuildEvent, NotificationKind, Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    import falcon

    from api.console.site import Site
    from api.openapi.operations import Routes


_MOST = 100
_DELIVERIES = 30
_EVENTS = {
    BuildEvent.FIRST_FAILURE: "the first failure of a branch",
    BuildEvent.RECOVERED: "its recovery",
    BuildEvent.FINISHED: "each end of a build",
    BuildEvent.GATE_WAITING: "a job that waits for an approval (Slack only)",
}
_KINDS = {
    NotificationKind.WEBHOOK: "Webhook",
    NotificationKind.SLACK: "Slack",
    NotificationKind.EMAIL: "E-mail",
}


class NotificationsPage(Page):
    """``/{org}/pipelines/{pipeline}/notifications``, and ``…/{id}`` below it."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """Show the notifications to a member; only admins change them."""
        member, found = self._site.access.pipeline(req, org, pipeline)
        self._site.pages.show(
            req,
            resp,
            "notifications/list",
            org=org,
            pipeline=found,
            admin=member.role.covers(Role.ADMIN),
            notifications=self._site.storage.notifications.page(found.id, _MOST, None).rows,
            kinds=_KINDS,
            events=_EVENTS,
            form_token=self._site.form_token(req),
        )

    def on_get_one(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, id: str) -> None:
        """Show a notification and its deliveries before the one with the key ``before``, to an admin."""
        member, found = self._site.access.pipeline(req, org, pipeline)
        notification = self._site.storage.notifications.by_uuid(id)
        if notification is None or notification.pipeline_id != found.id:
            raise ApiError.not_found("notification", id)
        member.require(Role.ADMIN)
        deliveries = self._site.storage.notification_deliveries.page(
            notification.id, _DELIVERIES, whole_number(req.get_param("before"))
        )
        self._site.pages.show(
            req,
            resp,
            "notifications/one",
            org=org,
            pipeline=found,
            notification=notification,
            deliveries=deliveries.rows,
            more=deliveries.next_key,
            kinds=_KINDS,
            events=_EVENTS,
            form_token=self._site.form_token(req),
        )


def notification_of(fields: Mapping[str, str]) -> dict[str, object]:
    """Return the body of ``createNotification`` for its form; without a chosen event the API chooses.

    What the form says is for Slack alone is left out elsewhere.
    """
    body: dict[str, object] = {"kind": fields.get("kind", "")}
    told = [each for each in BuildEvent if body["kind"] == NotificationKind.SLACK or each != BuildEvent.GATE_WAITING]
    chosen = [event.value for event in told if fields.get(event.value) == "yes"]
    if fields.get("url", "").strip():
        body["url"] = fields["url"].strip()
    if body["kind"] == NotificationKind.EMAIL:
        body["to_creator"] = fields.get("to_creator") == "yes"
    return {**body, "events": chosen} if chosen else body


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
