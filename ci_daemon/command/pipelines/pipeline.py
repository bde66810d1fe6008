"""`ci-daemon pipeline`: list, make, change and delete pipelines, on the box or of a server."""

from __future__ import annotations

import click

from api.operations import pipelines
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.input import confirm
from ci_daemon.command.support.options import (
    DEFAULT,
    given,
    one_line,
    settings_in_words,
    strict_shell_of,
    strict_shell_option,
    superseded_option,
)
from ci_daemon.command.support.session import Session, pass_session
from ci_daemon.terminal.counts import counted
from storage import Visibility, document_of

_COLUMNS = ("slug", "name", "repository", "visibility", "fail_fast")
_SETTINGS = ("fail_fast", "concurrency_group", "concurrency_limit", "cancel_superseded", "strict_shell")
_MAX_TEXT = 255
_MAX_DESCRIPTION = 10_000
_MAX_CONCURRENCY = 1000


@click.group(cls=Group)
def pipeline() -> None:
    """Pipelines: the CI definitions of organizations."""


@pipeline.command(name="list", cls=SharedCommand, reads=True)
@click.argument("org")
@pass_session
def list_pipelines(session: Session, *, org: str) -> None:
    """List the pipelines of the organization ORG, oldest first."""
    with session.door() as door:
        documents = [document_of(each) for each in door.rows(pipelines.list_pipelines, {"org": org})]
    session.remember(f"pipeline/{org}/{each['slug']}" for each in documents)
    session.table(documents, _COLUMNS, f"{org} has no pipeline")


@pipeline.command(cls=SharedCommand, reads=True)
@click.argument("org")
@click.argument("pipeline")
@pass_session
def show(session: Session, /, **names: str) -> None:
    """Show PIPELINE of the organization ORG with its settings."""
    with session.door() as door:
        document = document_of(door.perform(pipelines.get_pipeline, names))
    if session.json:
        session.answer(document, "")
    else:
        session.properties(document)


@pipeline.command(cls=SharedCommand)
@click.argument("org")
@click.argument("name", type=one_line(_MAX_TEXT))
@click.option(
    "--repository", metavar="URL", required=True, type=one_line(_MAX_TEXT), help="The clone URL of its files."
)
@click.option(
    "--default-branch",
    metavar="BRANCH",
    default="main",
    show_default=True,
    type=one_line(_MAX_TEXT),
    help="The branch that is built by default.",
)
@pass_session
def create(session: Session, /, *, org: str, **fields: str) -> None:
    """Create the pipeline NAME in the organization ORG. Its slug is made from NAME.

    `ci-daemon submit` and a connected repository create pipelines by themselves.
    """
    with session.door() as door:
        document = document_of(door.perform(pipelines.create_pipeline, {"org": org}, fields))
    session.answer(document, f"created {org}/{document['slug']}")


@pipeline.command(cls=SharedCommand)
@click.argument("org")
@click.argument("pipeline")
@click.option("--name", metavar="NAME", type=one_line(_MAX_TEXT), help="Its name to show; the slug stays.")
@click.option("--description", metavar="TEXT", type=one_line(_MAX_DESCRIPTION), help="A sentence about it.")
@click.option("--default-branch", metavar="BRANCH", type=one_line(_MAX_TEXT), help="The branch built by default.")
@click.option(
    "--visibility",
    type=click.Choice([each.value for each in Visibility]),
    help="Of a public pipeline anybody can read builds, jobs and logs.",
)
@click.option("--allow-manual/--no-allow-manual", default=None, help="Whether people may start builds.")
@click.option("--fail-fast/--no-fail-fast", default=None, help="Whether the first failure cancels the rest of a build.")
@click.option(
    "--concurrency-group",
    metavar="NAME",
    type=one_line(_MAX_TEXT),
    help="The concurrency group of builds from now on; {branch} in it stands for a build's branch.",
)
@click.option("--no-concurrency-group", is_flag=True, help="No concurrency group for builds from now on.")
@click.option(
    "--concurrency-limit",
    type=click.IntRange(1, _MAX_CONCURRENCY),
    help="The most builds of the group that run at a time.",
)
@superseded_option
@strict_shell_option
@pass_session
def edit(
    session: Session,
    /,
    *,
    org: str,
    pipeline: str,
    no_concurrency_group: bool,
    cancel_superseded: str | None,
    strict_shell: str | None,
    **others: object,
) -> None:
    """Change PIPELINE of the organization ORG, with immediate effect, also on running builds.

    Builds of the organization with the same concurrency group run at most so many at a time; the others wait. Where
    --cancel-superseded or --strict-shell is "default", the setting of the organization or host applies.
    """
    changes = given(others)
    if no_concurrency_group:
        if "concurrency_group" in changes:
            raise click.UsageError("give --concurrency-group or --no-concurrency-group, not both")
        changes["concurrency_group"] = None
    if cancel_superseded is not None:
        changes["cancel_superseded"] = None if cancel_superseded == DEFAULT else cancel_superseded
    if strict_shell is not None:
        changes["strict_shell"] = strict_shell_of(strict_shell)
    if not changes:
        raise click.UsageError("give at least one change, such as --fail-fast")
    with session.door() as door:
        document = document_of(door.perform(pipelines.update_pipeline, {"org": org, "pipeline": pipeline}, changes))
    session.answer(document, f"{org}/{pipeline}: {settings_in_words(document, _SETTINGS)}")


@pipeline.command(cls=SharedCommand)
@click.argument("org")
@click.argument("pipeline")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_session
def delete(session: Session, *, org: str, pipeline: str, yes: bool) -> None:
    """Delete PIPELINE of the organization ORG with its builds, cache and secrets; not while builds run.

    The ledger keeps the cost of the builds.
    """
    names = {"org": org, "pipeline": pipeline}
    with session.door() as door:
        found = door.perform(pipelines.get_pipeline, names)
        if not yes:
            confirm(f"Delete {org}/{pipeline} with {counted(found.build_count, 'build')}?")
        door.perform(pipelines.delete_pipeline, names)
    session.answer({"deleted": pipeline}, f"deleted {org}/{pipeline}")
