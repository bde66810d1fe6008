"""`ci-daemon pipeline`: list and change pipelines, as the owner of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.lookup import find_organization, find_pipeline
from ci_daemon.command.support.session import Session, pass_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage import Pipeline, Storage

__all__ = ["pipeline"]

_COLUMNS = ("slug", "name", "repository", "visibility", "fail_fast")
_PAGE_SIZE = 100


@click.group(cls=Group)
def pipeline() -> None:
    """Pipelines: the CI definitions of organizations."""


@pipeline.command(name="list", reads=True)
@click.argument("org")
@pass_session
def list_pipelines(session: Session, *, org: str) -> None:
    """List the pipelines of the organization ORG, oldest first."""
    with session.storage_without_billing() as storage:
        documents = [_document(each) for each in _all_pipelines(storage, find_organization(storage, org).id)]
    session.table(documents, _COLUMNS, f"{org} has no pipeline")


@pipeline.command(name="set")
@click.argument("org")
@click.argument("pipeline")
@click.option(
    "--fail-fast/--no-fail-fast", required=True, help="Whether the first failure cancels the rest of a build."
)
@pass_session
def set_pipeline(session: Session, *, org: str, pipeline: str, fail_fast: bool) -> None:
    """Change settings of PIPELINE of the organization ORG, with immediate effect, also on running builds."""
    with session.storage_without_billing() as storage:
        storage.pipelines.update(find_pipeline(storage, org, pipeline).id, fail_fast=fail_fast)
        document = _document(find_pipeline(storage, org, pipeline))
    session.answer(document, f"{org}/{pipeline}: fail fast {'on' if fail_fast else 'off'}")


def _all_pipelines(storage: Storage, organization_id: int) -> Iterator[Pipeline]:
    page = storage.pipelines.page(organization_id, _PAGE_SIZE, None)
    yield from page.rows
    while page.next_key is not None:
        page = storage.pipelines.page(organization_id, _PAGE_SIZE, page.next_key)
        yield from page.rows


def _document(each: Pipeline) -> dict[str, object]:
    return {
        "id": each.uuid,
        "slug": each.slug,
        "name": each.name,
        "repository": each.repository,
        "default_branch": each.default_branch,
        "visibility": each.visibility.value,
        "fail_fast": each.fail_fast,
    }
