"""`ci-daemon pipeline`: list, make, change and delete pipelines, on the box or of a server."""

from __future__ import annotations

import click

from api.operations import pipelines
from ci_daemon.command.support.body_options import body_option, body_options, given, settings_in_words
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.input import confirm
from ci_daemon.command.support.options import display_name
from ci_daemon.command.support.session import Session, pass_session
from ci_daemon.terminal import counted
from storage import document_of

_COLUMNS = ("slug", "name", "repository", "visibility", "fail_fast")
_SETTINGS = (
    "fail_fast",
    "concurrency_group",
    "concurrency_limit",
    "cancel_superseded",
    "strict_shell",
    "find_culprits",
    "test_command",
    "artifacts_public",
    "followers",
)


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
@click.argument("name", type=display_name)
@body_options(pipelines.CreatePipelineRequest, "repository")
@body_option(pipelines.CreatePipelineRequest, "default_branch", default="main", show_default=True)
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
@body_options(
    pipelines.UpdatePipelineRequest,
    "name",
    "description",
    "default_branch",
    "visibility",
    "allow_manual",
    "fail_fast",
    "concurrency_group",
)
@click.option("--no-concurrency-group", is_flag=True, help="No concurrency group for builds from now on.")
@body_options(
    pipelines.UpdatePipelineRequest,
    "concurrency_limit",
    "cancel_superseded",
    "strict_shell",
    "find_culprits",
    "artifacts_public",
    "test_command",
)
@click.option("--no-test-command", is_flag=True, help="Proofs run tests alone by the runner that a job calls.")
@click.option(
    "--follower",
    "followers",
    multiple=True,
    metavar="ORG",
    help="Another organization whose pipelines may follow it, and take its files; may be given several times, and"
    " replaces those that it has.",
)
@click.option("--no-followers", is_flag=True, help="No other organization may follow it any more.")
@pass_session
def edit(
    session: Session,
    /,
    *,
    org: str,
    pipeline: str,
    no_concurrency_group: bool,
    no_test_command: bool,
    followers: tuple[str, ...],
    no_followers: bool,
    **others: object,
) -> None:
    """Change PIPELINE of the organization ORG, with immediate effect, also on running builds.

    Builds of the organization with the same concurrency group run at most so many at a time; the others wait. Where
    --cancel-superseded, --strict-shell or --find-culprits is "default", the setting of the organization or host
    applies.
    """
    changes = given(others)
    for name, is_emptied in (("concurrency_group", no_concurrency_group), ("test_command", no_test_command)):
        if is_emptied and name in changes:
            option = name.replace("_", "-")
            raise click.UsageError(f"give --{option} or --no-{option}, not both")
        if is_emptied:
            changes[name] = None
    if followers and no_followers:
        raise click.UsageError("give --follower or --no-followers, not both")
    if followers or no_followers:
        changes["followers"] = [*followers]
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
