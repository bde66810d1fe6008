"""`ci-daemon notify`: tell the ends of builds, and see what was sent, as the owner of the host."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from actors.mail import Mails
from actors.notifications import (
    NotificationInvalid,
    checked_events,
    deliver_test,
    endpoint_url,
    mail_test,
    new_notification,
)
from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.exit_codes import ExitCode
from ci_daemon.command.support.lookup import find_pipeline
from ci_daemon.command.support.person import email_address
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.command.support.timestamps import timestamp
from storage import BuildEvent, NotificationKind, SystemClock, TooManyNotifications

if TYPE_CHECKING:
    from storage import Notification, NotificationDelivery, Storage

__all__ = ["notify"]

_COLUMNS = ("id", "kind", "events", "origin", "enabled", "failing_since", "last_error")
_DELIVERY_COLUMNS = ("id", "event", "build_number", "created_at", "state", "attempts", "http_status", "last_error")
_MOST = 1000
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


@notify.command(name="list", reads=True)
@click.argument("org")
@click.argument("pipeline")
@pass_session
def list_notifications(session: Session, *, org: str, pipeline: str) -> None:
    """List the notifications of PIPELINE of the organization ORG, without URLs and secrets."""
    with session.storage_without_billing() as storage:
        page = storage.notifications.page(find_pipeline(storage, org, pipeline).id, _MOST, None)
    session.table([_document(each) for each in page.rows], _COLUMNS, f"{org}/{pipeline} has no notifications")


@notify.command()
@click.argument("org")
@click.argument("pipeline")
@click.argument("kind", type=click.Choice([each.value for each in NotificationKind]))
@click.argument("url", required=False)
@_events_option
@click.option("--to-creator", is_flag=True, help="Mail also to the creators of builds without a commit author.")
@pass_session
def add(
    session: Session,
    *,
    org: str,
    pipeline: str,
    kind: str,
    url: str | None,
    events: tuple[str, ...],
    to_creator: bool,
) -> None:
    """Tell the ends of builds of PIPELINE of the organization ORG.

    KIND email writes to the author of the commit, webhook sends signed JSON to URL, and slack sends a message to the
    incoming webhook at URL, of Slack, Mattermost or Discord. A URL of - is read from stdin, so that it is in no list of
    processes. Without --event a webhook gets build.finished, the others first failures and recoveries.

    The secret of a webhook is printed once.
    """
    with session.storage_without_billing() as storage:
        found = find_pipeline(storage, org, pipeline)
        try:
            new = new_notification(NotificationKind(kind), events or None, _url(url), to_creator=to_creator)
            made, secret = storage.notifications.create(found.id, new)
        except (NotificationInvalid, TooManyNotifications) as error:
            raise _failure(error) from None
    told = f"{made.uuid}: {', '.join(made.events)}"
    session.answer({**_document(made), "secret": secret}, told if secret is None else f"{told}\nsecret: {secret}")


@notify.command(name="set")
@click.argument("id")
@click.option("--url", help="The new URL; - reads it from stdin.")
@_events_option
@click.option("--to-creator/--not-to-creator", default=None, help="Whether to mail to the creators of builds.")
@click.option("--enable/--disable", "enabled", default=None, help="Whether anything is told.")
@pass_session
def set_notification(
    session: Session,
    *,
    id: str,
    url: str | None,
    events: tuple[str, ...],
    to_creator: bool | None,
    enabled: bool | None,
) -> None:
    """Change the notification ID, with immediate effect.

    One that the service disabled after days of failed deliveries is enabled again by --enable.
    """
    with session.storage_without_billing() as storage:
        found = _find(storage, id)
        email = found.kind is NotificationKind.EMAIL
        if (email and url is not None) or (not email and to_creator is not None):
            raise Failure(
                f"a notification of the kind {found.kind} has {'no URL' if email else 'no creator to mail to'}"
            )
        try:
            changed = storage.notifications.update(
                found.id,
                url=None if url is None else endpoint_url(_url(url) or ""),
                events=checked_events(events) if events else None,
                to_creator=to_creator,
                enabled=enabled,
            )
        except NotificationInvalid as error:
            raise _failure(error) from None
    if changed is None:
        raise _unknown(id)
    state = "" if changed.enabled else ", disabled"
    session.answer(_document(changed), f"{id}: {', '.join(changed.events)}{state}")


@notify.command()
@click.argument("id")
@pass_session
def rotate(session: Session, *, id: str) -> None:
    """Give the webhook ID a new secret and print it. The previous one signs for another day, too."""
    with session.storage_without_billing() as storage:
        found = _find(storage, id)
        secret = storage.notifications.rotate(found.id)
    if secret is None:
        raise Failure(f"a notification of the kind {found.kind} has no secret")
    session.answer({**_document(found), "secret": secret}, f"secret: {secret}")


@notify.command()
@click.argument("id")
@pass_session
def remove(session: Session, *, id: str) -> None:
    """Remove the notification ID and its deliveries. Those that wait are not sent."""
    with session.storage_without_billing() as storage:
        if not storage.notifications.remove(_find(storage, id).id):
            raise _unknown(id)
    session.answer({"removed": id}, f"removed {id}")


@notify.command()
@click.argument("id")
@click.option("--to", type=email_address, help="For e-mail: the address.")
@pass_session
def test(session: Session, *, id: str, to: str | None) -> ExitCode:
    """Let the service send a test to the notification ID. `ci-daemon notify deliveries` shows the answer."""
    with session.storage_without_billing() as storage:
        found = _find(storage, id)
        pipeline = storage.pipelines.by_id(found.pipeline_id)
        organization = None if pipeline is None else storage.organizations.by_id(pipeline.organization_id)
        if pipeline is None or organization is None:
            raise _unknown(id)
        if found.kind is not NotificationKind.EMAIL:
            made = deliver_test(storage, found, organization.slug, pipeline, SystemClock().now())
        elif to is None:
            raise Failure("give the address of the test mail with --to")
        else:
            config = session.config()
            mails = (
                Mails(storage, config.http.url, config.http.front_end(config.http.url)) if config.mail.host else None
            )
            made = mail_test(storage, mails, found, f"{organization.slug}/{pipeline.slug}", to)
    session.answer(_delivery_document(made), f"{made.uuid}: {made.state}")
    if made.last_error is None:
        return ExitCode.SUCCESS
    click.echo(f"ci-daemon: nothing was sent: {made.last_error}", err=True)
    return ExitCode.FAILURE


@notify.command(reads=True)
@click.argument("id")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="The maximum number to list."
)
@pass_session
def deliveries(session: Session, *, id: str, limit: int) -> None:
    """List the deliveries of the notification ID of the last seven days, newest first.

    With --json each has its body, and the beginning of the last answer.
    """
    with session.storage_without_billing() as storage:
        page = storage.notification_deliveries.page(_find(storage, id).id, limit, None)
    documents = [_delivery_document(each) for each in page.rows]
    session.table(documents, _DELIVERY_COLUMNS, "nothing was told in the last seven days")


@notify.command()
@click.argument("delivery", metavar="ID")
@pass_session
def redeliver(session: Session, *, delivery: str) -> None:
    """Send the delivery ID again, with the same ID and body."""
    with session.storage_without_billing() as storage:
        found = storage.notification_deliveries.by_uuid(delivery)
        if found is None:
            raise Failure(
                f"there is no delivery {delivery}: `ci-daemon notify deliveries` shows those of a notification"
            )
        if not storage.notification_deliveries.redeliver(found):
            raise Failure("a mail is not sent again")
        again = storage.notification_deliveries.by_uuid(delivery) or found
    session.answer(_delivery_document(again), f"{delivery} is sent again")


def _url(text: str | None) -> str | None:
    return sys.stdin.readline(_MAX_URL).strip() if text == _FROM_STDIN else text


def _find(storage: Storage, uuid: str) -> Notification:
    """Return a notification by its ID. Raises Failure."""
    found = storage.notifications.by_uuid(uuid)
    if found is None:
        raise _unknown(uuid)
    return found


def _unknown(uuid: str) -> Failure:
    return Failure(f"there is no notification {uuid}: `ci-daemon notify list ORG PIPELINE` shows those of a pipeline")


def _failure(error: NotificationInvalid | TooManyNotifications) -> Failure:
    return Failure(f"{error.field}: {error}" if isinstance(error, NotificationInvalid) else str(error))


def _document(each: Notification) -> dict[str, object]:
    return {
        "id": each.uuid,
        "kind": each.kind.value,
        "events": list(each.events),
        "origin": each.origin,
        "to_creator": each.to_creator,
        "enabled": each.enabled,
        "failing_since": each.failing_since and timestamp(each.failing_since),
        "last_error": each.last_error,
        "created_at": timestamp(each.created_at),
    }


def _delivery_document(each: NotificationDelivery) -> dict[str, object]:
    return {
        "id": each.uuid,
        "event": each.event,
        "build_number": each.build_number,
        "state": each.state.value,
        "recipient": each.recipient,
        "body": each.body,
        "attempts": each.attempts,
        "next_attempt_at": each.next_attempt_at and timestamp(each.next_attempt_at),
        "http_status": each.status,
        "answer": each.answer,
        "duration_ms": each.duration_ms,
        "last_error": each.last_error,
        "created_at": timestamp(each.created_at),
        "delivered_at": each.delivered_at and timestamp(each.delivered_at),
    }
