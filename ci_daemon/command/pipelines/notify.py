"""`ci-daemon notify`: tell the ends of builds, and see what was sent, on the box or of a server."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING

import click

from api import ApiError
from api.operations import ABSENT, notifications, organizations, pipelines
from ci_daemon.command.support.body_options import body_option, given
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.exit_codes import ExitCode
from ci_daemon.command.support.options import email_address, limit_option
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.remote.errors import RequestFailed
from storage import BuildEvent, NotificationKind, document_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from api.doors import Door

_COLUMNS = ("id", "kind", "events", "origin", "enabled", "failing_since", "last_error")
_DELIVERY_COLUMNS = ("id", "event", "build_number", "created_at", "state", "attempts", "http_status", "last_error")
_MAX_URL = 4096
_FROM_STDIN = "-"

_events_option = click.option(
    "--event",
    "events",
    multiple=True,
    type=click.Choice([each.value for each in BuildEvent]),
    help="An event to tell; may be given several times.",
)


@click.group(cls=Group)
def notify() -> None:
    """Notifications: who is told about the ends of a pipeline's builds."""


@notify.command(name="list", cls=SharedCommand, reads=True)
@click.argument("org")
@click.argument("pipeline")
@pass_session
def list_notifications(session: Session, /, **names: str) -> None:
    """List the notifications of PIPELINE of the organization ORG, without URLs and secrets."""
    with session.door() as door:
        session.records(
            door.rows(notifications.list_notifications, names),
            _COLUMNS,
            f"{names['org']}/{names['pipeline']} has no notifications",
        )


@notify.command(cls=SharedCommand)
@click.argument("org")
@click.argument("pipeline")
@click.argument("kind", type=click.Choice([each.value for each in NotificationKind]))
@click.argument("url", required=False)
@_events_option
@body_option(notifications.CreateNotificationRequest, "to_creator")
@pass_session
def add(
    session: Session,
    /,
    *,
    org: str,
    pipeline: str,
    url: str | None,
    events: tuple[str, ...],
    **choices: object,
) -> None:
    """Tell the ends of builds of PIPELINE of the organization ORG.

    KIND email writes to the author of the commit, webhook sends signed JSON to URL, and slack sends a message to the
    incoming webhook at URL, of Slack, Mattermost or Discord. A URL of - is read from stdin, so that it is in no list of
    processes. Without --event a webhook gets build.finished, the others first failures and recoveries.

    The secret of a webhook is printed once.
    """
    body = given({**choices, "url": _url(url), "events": list(events) or ABSENT})
    with session.door() as door:
        made = door.perform(notifications.create_notification, {"org": org, "pipeline": pipeline}, body)
    told = f"{made.uuid}: {', '.join(made.events)}"
    session.answer(document_of(made), told if made.secret is None else f"{told}\nsecret: {made.secret}")


@notify.command(name="set", cls=SharedCommand)
@click.argument("id")
@click.option("--url", help="The new URL; - reads it from stdin.")
@_events_option
@body_option(notifications.UpdateNotificationRequest, "to_creator", "--to-creator/--not-to-creator")
@body_option(notifications.UpdateNotificationRequest, "enabled", "--enable/--disable")
@pass_session
def set_notification(
    session: Session, /, *, id: str, url: str | None, events: tuple[str, ...], **choices: object
) -> None:
    """Change the notification ID, with immediate effect.

    One that the service disabled after days of failed deliveries is enabled again by --enable.
    """
    body = given({**choices, "url": _url(url), "events": list(events) or ABSENT})
    with session.door() as door:
        changed = door.perform(notifications.update_notification, _place(door, id).names, body)
    state = "" if changed.enabled else ", disabled"
    session.answer(document_of(changed), f"{id}: {', '.join(changed.events)}{state}")


@notify.command(cls=SharedCommand)
@click.argument("id")
@pass_session
def rotate(session: Session, *, id: str) -> None:
    """Give the webhook ID a new secret and print it. The previous one signs for another day, too."""
    with session.door() as door:
        made = door.perform(notifications.rotate_notification_secret, _place(door, id).names)
    session.answer(document_of(made), f"secret: {made.secret}")


@notify.command(cls=SharedCommand)
@click.argument("id")
@pass_session
def remove(session: Session, *, id: str) -> None:
    """Remove the notification ID and its deliveries. Those that wait are not sent."""
    with session.door() as door:
        door.perform(notifications.delete_notification, _place(door, id).names)
    session.answer({"removed": id}, f"removed {id}")


@notify.command(cls=SharedCommand)
@click.argument("id")
@click.option("--to", type=email_address, help="For e-mail: the address.")
@pass_session
def test(session: Session, *, id: str, to: str | None) -> ExitCode:
    """Let the service send a test to the notification ID. `ci-daemon notify deliveries` shows the answer."""
    with session.door() as door:
        place = _place(door, id)
        mailed = door.owners and place.kind is NotificationKind.EMAIL
        if to is not None and not door.owners:
            raise Failure("with a server a test mail goes to your own address: leave --to out")
        made = None if mailed else door.perform(notifications.test_notification, place.names)
    if made is None:
        if to is None:
            raise Failure("give the address of the test mail with --to")
        with session.mailing_door() as door:
            body = notifications.MailTestRequest(to)
            made = door.perform(notifications.send_test_mail, place.names, body)
    session.answer(document_of(made), f"{made.uuid}: {made.state}")
    if made.last_error is None:
        return ExitCode.SUCCESS
    click.echo(f"ci-daemon: nothing was sent: {made.last_error}", err=True)
    return ExitCode.FAILURE


@notify.command(cls=SharedCommand, reads=True)
@click.argument("id")
@limit_option(100_000, default=100)
@pass_session
def deliveries(session: Session, *, id: str, limit: int) -> None:
    """List the deliveries of the notification ID of the last seven days, newest first.

    With --json each has its body, and the beginning of the last answer.
    """
    with session.door() as door:
        rows = door.rows(notifications.list_notification_deliveries, _place(door, id).names)
        session.records(islice(rows, limit), _DELIVERY_COLUMNS, "nothing was told in the last seven days")


@notify.command(cls=SharedCommand)
@click.argument("delivery", metavar="ID")
@pass_session
def redeliver(session: Session, *, delivery: str) -> None:
    """Send the delivery ID again, with the same ID and body."""
    with session.door() as door:
        names = {**_place_of_delivery(door, delivery).names, "delivery": delivery}
        again = door.perform(notifications.redeliver_notification, names)
    session.answer(document_of(again), f"{delivery} is sent again")


def _url(text: str | None) -> object:
    if text is None:
        return ABSENT
    return sys.stdin.readline(_MAX_URL).strip() if text == _FROM_STDIN else text


def _place(door: Door, id: str) -> notifications.NotificationPlace:
    """Return the place of a notification. Raises ApiError, or what the door raises."""
    if door.owners:
        return door.perform(notifications.find_notification, {"id": id})
    for each in _places(door):
        if each.id == id:
            return each
    raise ApiError.not_found("notification", id)


def _place_of_delivery(door: Door, delivery: str) -> notifications.NotificationPlace:
    """Return the place of the notification of a delivery. Raises ApiError, or what the door raises."""
    if door.owners:
        return door.perform(notifications.find_notification_of_delivery, {"delivery": delivery})
    for each in _places(door):
        try:
            if any(sent.uuid == delivery for sent in door.rows(notifications.list_notification_deliveries, each.names)):
                return each
        except RequestFailed as error:
            if error.code != "insufficient_org_role":  # what the caller may not see is not the caller's
                raise
    raise ApiError.not_found("notification_delivery", delivery)


def _places(door: Door) -> Iterator[notifications.NotificationPlace]:
    """Yield the places of the notifications that the caller may see, as no path has their IDs alone."""
    for org in door.rows(organizations.list_organizations, {}):
        for pipeline in door.rows(pipelines.list_pipelines, {"org": org.slug}):
            names = {"org": org.slug, "pipeline": pipeline.slug}
            for each in door.rows(notifications.list_notifications, names):
                yield notifications.NotificationPlace(org.slug, pipeline.slug, each.uuid, each.kind)
