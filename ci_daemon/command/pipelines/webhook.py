"""`ci-daemon webhook`: deliveries of source hosts, on the box or of a server; process one again."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import click

from api import ApiError
from api.operations import organizations, repo_deliveries, repositories
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.options import limit_option
from ci_daemon.command.support.session import Session, pass_session
from ci_daemon.remote.errors import RequestFailed
from storage import document_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from api.doors import Door

_COLUMNS = ("id", "provider", "event", "url", "received_at", "state", "attempts", "outcome", "last_error")


@click.group(cls=Group)
def webhook() -> None:
    """Reports of source hosts, such as pushes, of the last seven days."""


@webhook.command(name="list", cls=SharedCommand, reads=True)
@limit_option(100_000, default=100)
@pass_session
def list_deliveries(session: Session, *, limit: int) -> None:
    """List the latest deliveries, newest first."""
    with session.door() as door:
        reports = door.rows(repo_deliveries.list_reports, {}) if door.owners else _reports(door, limit)
        session.records(islice(reports, limit), _COLUMNS, "no source host has reported anything in the last seven days")


@webhook.command(cls=SharedCommand, reads=True)
@click.argument("delivery", metavar="ID")
@pass_session
def show(session: Session, *, delivery: str) -> None:
    """Show the delivery ID with its body, as it came."""
    with session.door() as door:
        if door.owners:
            shown = door.perform(repo_deliveries.get_report, {"delivery_id": delivery})
        else:
            repository, _, found = _found(door, delivery)
            report = repo_deliveries.Report.of(found, repository.provider, repository.clone_url)
            shown = repo_deliveries.ReportWithBody.with_body(report, found.text)
    document = document_of(shown)
    if session.json:
        session.answer(document, "")
    else:
        session.properties(document)


@webhook.command(cls=SharedCommand)
@click.argument("delivery", metavar="ID")
@pass_session
def redeliver(session: Session, *, delivery: str) -> None:
    """Process the delivery ID again. A push that was built is not built twice."""
    with session.door() as door:
        if door.owners:
            again = door.perform(repo_deliveries.redeliver_report, {"delivery_id": delivery})
        else:
            repository, names, _ = _found(door, delivery)
            sent = door.perform(repo_deliveries.redeliver_to_repo, {**names, "delivery_id": delivery})
            again = repo_deliveries.Report.of(sent, repository.provider, repository.clone_url)
    session.answer(document_of(again), f"{delivery} is processed again")


def _repositories(door: Door) -> Iterator[tuple[repositories.RepoSummary, dict[str, str]]]:
    """Yield the repositories that the caller may see, each with the names in its path."""
    for org in door.rows(organizations.list_organizations, {}):
        for each in door.rows(repositories.list_org_repos, {"org": org.slug}):
            yield each, {"org": org.slug, "id": each.uuid}


def _reports(door: Door, limit: int) -> Iterator[repo_deliveries.Report]:
    """Yield the latest reports about these repositories, newest first."""
    reports = [
        repo_deliveries.Report.of(sent, repository.provider, repository.clone_url)
        for repository, names in _repositories(door)
        for sent in islice(door.rows(repo_deliveries.list_repo_deliveries, names), limit)
    ]
    yield from sorted(reports, key=lambda each: each.received_at, reverse=True)


def _found(
    door: Door, delivery: str
) -> tuple[repositories.RepoSummary, dict[str, str], repo_deliveries.DeliveryWithBody]:
    """Return a delivery with its repository, as no path of the API has its ID alone.

    Raises ApiError, or what the door raises.
    """
    for repository, names in _repositories(door):
        try:
            sent = door.perform(repo_deliveries.get_repo_delivery, {**names, "delivery_id": delivery})
        except RequestFailed as error:
            if error.code != "delivery_not_found":
                raise
        else:
            return repository, names, sent
    raise ApiError.not_found("delivery", delivery)
