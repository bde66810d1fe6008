"""`ci-daemon merge-queue`: what is merged next, on the box or of a server."""

from __future__ import annotations

import click

from api.operations import merge_queue as queues
from ci_daemon.command.pipelines.repo import repository_names
from ci_daemon.command.support.body_options import body_options, given
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.session import Session, pass_session
from storage import document_of

_COLUMNS = ("place", "name", "target", "state", "reason", "builds", "id")

_repository_argument = click.argument("repository", metavar="URL|NAME")
_org_option = click.option("--org", required=True, help="The organization that it is connected to.")


@click.group(cls=Group)
def merge_queue() -> None:
    """Merge queues: branches that are built as they will be merged, and land in order."""


@merge_queue.command(cls=SharedCommand)
@_repository_argument
@_org_option
@body_options(queues.AddToMergeQueueRequest, "pull_request", "branch", "target", "head")
@pass_session
def add(session: Session, /, *, repository: str, org: str, **terms: object) -> None:
    """Add a pull request or a branch at the end of the merge queue of a repository.

    When its merge has passed on top of those before it, and these have landed, the service pushes it to the target.
    """
    with session.building_door() as door:
        names = repository_names(door, org, repository)
        made = door.perform(queues.add_to_merge_queue, names, given(terms))
    document = document_of(made)
    session.answer(document, f"{made.name} is at place {made.place} of the merge queue of {repository}")


@merge_queue.command(name="list", cls=SharedCommand, reads=True)
@_repository_argument
@_org_option
@pass_session
def list_entries(session: Session, *, repository: str, org: str) -> None:
    """List the merge queue of a repository in its order, and what ended last, with the reasons."""
    with session.door() as door:
        names = repository_names(door, org, repository)
        session.records(
            door.rows(queues.list_merge_queue, names), _COLUMNS, f"nothing is in the merge queue of {repository}"
        )


@merge_queue.command(cls=SharedCommand)
@_repository_argument
@click.argument("entry", metavar="ID")
@_org_option
@pass_session
def remove(session: Session, *, repository: str, entry: str, org: str) -> None:
    """Remove the entry ID from the merge queue of a repository, as `merge-queue list` shows it.

    Its builds are canceled, and those behind it are built again.
    """
    with session.building_door() as door:
        names = repository_names(door, org, repository)
        door.perform(queues.remove_from_merge_queue, {**names, "entry": entry})
    session.answer({"removed": entry}, f"removed {entry} from the merge queue of {repository}")
