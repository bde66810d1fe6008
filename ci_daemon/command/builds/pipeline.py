"""`ci-daemon pipeline`: list and change pipelines, as the owner of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.lookup import find_organization, find_pipeline
from ci_daemon.command.support.session import Session, pass_session
from ci_daemon.command.support.setting_options import DEFAULT, settings_in_words, superseded_option
from ci_daemon.command.support.texts import one_line
from storage import CancelSuperseded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage import Pipeline, PipelineChanges, Storage

__all__ = ["pipeline"]

_COLUMNS = ("slug", "name", "repository", "visibility", "fail_fast")
_SETTINGS = ("fail_fast", "concurrency_group", "concurrency_limit", "cancel_superseded")
_PAGE_SIZE = 100
_MAX_GROUP = 255
_MAX_CONCURRENCY = 1000


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
@click.option("--fail-fast/--no-fail-fast", default=None, help="Whether the first failure cancels the rest of a build.")
@click.option(
    "--concurrency-group",
    metavar="NAME",
    type=one_line(_MAX_GROUP),
    help="The concurrency group of builds from now on; {branch} in it stands for a build's branch.",
)
@click.option("--no-concurrency-group", is_flag=True, help="No concurrency group for builds from now on.")
@click.option(
    "--concurrency-limit",
    type=click.IntRange(1, _MAX_CONCURRENCY),
    help="The most builds of the group that run at a time.",
)
@superseded_option
@pass_session
def set_pipeline(
    session: Session,
    *,
    org: str,
    pipeline: str,
    fail_fast: bool | None,
    concurrency_group: str | None,
    no_concurrency_group: bool,
    concurrency_limit: int | None,
    cancel_superseded: str | None,
) -> None:
    """Change settings of PIPELINE of the organization ORG, with immediate effect, also on running builds.

    Builds of the organization with the same concurrency group run at most so many at a time; the others wait. Where
    --cancel-superseded is "default", the setting of the organization or host applies.
    """
    changes: PipelineChanges = {}
    if fail_fast is not None:
        changes["fail_fast"] = fail_fast
    if concurrency_group is not None and no_concurrency_group:
        raise click.UsageError("give --concurrency-group or --no-concurrency-group, not both")
    if concurrency_group is not None or no_concurrency_group:
        changes["concurrency_group"] = concurrency_group
    if concurrency_limit is not None:
        changes["concurrency_limit"] = concurrency_limit
    if cancel_superseded is not None:
        changes["cancel_superseded"] = None if cancel_superseded == DEFAULT else CancelSuperseded(cancel_superseded)
    if not changes:
        raise click.UsageError("give at least one setting, such as --fail-fast")
    with session.storage_without_billing() as storage:
        changed = storage.pipelines.update(find_pipeline(storage, org, pipeline).id, **changes)
    document = _document(changed)
    session.answer(document, f"{org}/{pipeline}: {settings_in_words(document, _SETTINGS)}")


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
        "concurrency_group": each.concurrency_group,
        "concurrency_limit": each.concurrency_limit,
        "cancel_superseded": each.cancel_superseded,
    }
