"""`ci-daemon webhook`: see the deliveries of source hosts, and process one again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.command.support.timestamps import timestamp

if TYPE_CHECKING:
    from storage import Delivery, Storage

__all__ = ["webhook"]

_COLUMNS = ("id", "provider", "event", "url", "received_at", "state", "attempts", "outcome", "last_error")


@click.group(cls=Group)
def webhook() -> None:
    """Reports of source hosts, such as pushes, of the last seven days."""


@webhook.command(name="list", reads=True)
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="The maximum number to list."
)
@pass_session
def list_deliveries(session: Session, *, limit: int) -> None:
    """List the latest deliveries, newest first."""
    with session.storage_without_billing() as storage:
        documents = [_document(storage, each) for each in storage.deliveries.latest(limit)]
    session.table(documents, _COLUMNS, "no source host has reported anything in the last seven days")


@webhook.command(reads=True)
@click.argument("delivery", metavar="ID")
@pass_session
def show(session: Session, *, delivery: str) -> None:
    """Show the delivery ID with its body, as it came."""
    with session.storage_without_billing() as storage:
        found = _find(storage, delivery)
        body = found.body.decode(errors="replace")
        document = {**_document(storage, found), "body": body}
    if session.json:
        session.answer(document, "")
    else:
        session.properties(document)


@webhook.command()
@click.argument("delivery", metavar="ID")
@pass_session
def redeliver(session: Session, *, delivery: str) -> None:
    """Process the delivery ID again. A push that was built is not built twice."""
    with session.storage_without_billing() as storage:
        found = _find(storage, delivery)
        storage.deliveries.redeliver(found)
        document = _document(storage, _find(storage, found.uuid))
    session.answer(document, f"{found.uuid} is processed again")


def _find(storage: Storage, uuid: str) -> Delivery:
    found = storage.deliveries.find(uuid)
    if found is None:
        raise Failure(f"there is no delivery {uuid}: `ci-daemon webhook list` shows those of the last seven days")
    return found


def _document(storage: Storage, each: Delivery) -> dict[str, object]:
    repository = None if each.repository_id is None else storage.repositories.get(each.repository_id)
    return {
        "id": each.uuid,
        "provider": each.provider,
        "event": each.event,
        "delivery_id": each.delivery_id,
        "url": repository and repository.url,
        "received_at": timestamp(each.received_at),
        "state": "waiting" if each.processed_at is None else "processed",
        "attempts": each.attempts,
        "outcome": each.outcome,
        "last_error": each.last_error,
    }
