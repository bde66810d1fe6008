"""`ci-daemon environment`: what an organization deploys to, on the box or of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

from api.operations import environments
from ci_daemon.command.builds.build_documents import build_document
from ci_daemon.command.support.body_options import body_option, body_options, given
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.names import PipelineName
from ci_daemon.command.support.session import Failure, Session, pass_session
from storage import document_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage import Deployment, Environment

F = TypeVar("F", bound="Callable[..., object]")

_COLUMNS = ("name", "approvers", "not_author", "gate_seconds", "url")
_DEPLOYMENTS = ("build", "step_key", "state", "commit", "approved_by", "created_by", "finished_at", "job_id")
_SETTINGS = ("url", "not_author", "gate_seconds")


def _approvers(command: F) -> F:
    """Add the option for the approvers."""
    return click.option(
        "--approver",
        "approvers",
        multiple=True,
        metavar="WHO",
        help="A member's e-mail address, or a role, who approves its jobs; may be given several times.",
    )(command)


@click.group(cls=Group)
def environment() -> None:
    """Environments: what jobs deploy to, after an approval."""


@environment.command(name="list", cls=SharedCommand, reads=True)
@click.argument("org")
@pass_session
def list_environments(session: Session, *, org: str) -> None:
    """List the environments of the organization ORG, oldest first."""
    with session.door() as door:
        session.records(door.rows(environments.list_environments, {"org": org}), _COLUMNS, f"{org} has no environments")


@environment.command(cls=SharedCommand)
@click.argument("org")
@click.argument("name")
@_approvers
@body_options(environments.CreateEnvironmentRequest, *_SETTINGS)
@pass_session
def create(session: Session, /, *, org: str, name: str, approvers: tuple[str, ...], **terms: object) -> None:
    """Make the environment NAME of the organization ORG, which jobs name in their gate.

    Without an approver its gates open by themselves, except for pull requests from forks.
    """
    body = {"name": name, "approvers": [*approvers], **given(terms)}
    with session.door() as door:
        made = door.perform(environments.create_environment, {"org": org}, body)
    session.answer(document_of(made), f"{org} deploys to {name}: {_who(made)}")


@environment.command(cls=SharedCommand, reads=True)
@click.argument("org")
@click.argument("name")
@pass_session
def show(session: Session, /, **names: str) -> None:
    """Show the environment NAME of the organization ORG, and what is there."""
    with session.door() as door:
        found = door.perform(environments.get_environment, names)
    document = document_of(found)
    if session.json:
        session.answer(document, "")
        return
    waiting = [_row(each) for each in found.waiting]
    now = found.current
    session.properties(
        {
            **{name: document[name] for name in ("name", *_SETTINGS)},
            "approvers": ", ".join(found.approvers),
            "deployed": None if now is None else now.name,
            "commit": None if now is None else now.commit,
            "since": None if now is None else now.finished_at,
            "approved_by": None if now is None else now.approved_by,
        }
    )
    click.echo()
    session.table(waiting, _DEPLOYMENTS, "nothing waits for it")


@environment.command(cls=SharedCommand, reads=True)
@click.argument("org")
@click.argument("name")
@pass_session
def history(session: Session, /, **names: str) -> None:
    """List what was deployed to the environment NAME of the organization ORG, newest builds first."""
    with session.door() as door:
        documents = [_row(each) for each in door.rows(environments.list_deployments, names)]
    session.table(documents, _DEPLOYMENTS, f"nothing was deployed to {names['name']}")


@environment.command(name="set", cls=SharedCommand)
@click.argument("org")
@click.argument("name")
@_approvers
@click.option("--no-approvers", is_flag=True, help="Let its gates open by themselves.")
@body_options(environments.UpdateEnvironmentRequest, *_SETTINGS)
@pass_session
def set_environment(
    session: Session, /, *, org: str, name: str, approvers: tuple[str, ...], no_approvers: bool, **terms: object
) -> None:
    """Change the environment NAME of the organization ORG, also for jobs that wait at its gate."""
    if approvers and no_approvers:
        raise Failure("give --approver or --no-approvers, not both")
    body = given(terms) | ({"approvers": [*approvers]} if approvers or no_approvers else {})
    with session.door() as door:
        changed = door.perform(environments.update_environment, {"org": org, "name": name}, body)
    session.answer(document_of(changed), f"{org} deploys to {name}: {_who(changed)}")


@environment.command(cls=SharedCommand)
@click.argument("org")
@click.argument("name")
@pass_session
def remove(session: Session, /, **names: str) -> None:
    """Remove the environment NAME of the organization ORG. Jobs that name it fail from now on."""
    with session.door() as door:
        door.perform(environments.delete_environment, names)
    session.answer({"removed": names["name"]}, f"removed {names['name']} of {names['org']}")


@environment.command(cls=SharedCommand)
@click.argument("org")
@click.argument("name")
@body_option(environments.RollBackRequest, "job_id", "--job")
@pass_session
def rollback(session: Session, /, *, org: str, name: str, **terms: object) -> None:
    """Deploy again what was in the environment NAME of the organization ORG before.

    That is the deployment before the current one, or that of the job with the ID that `environment history` shows. Its
    job runs again in a new build, with the artifacts of the earlier one, and asks for an approval as always.
    """
    body = {"source": "cli", **given(terms)}
    with session.building_door() as door:
        new = door.perform(environments.roll_back_environment, {"org": org, "name": name}, body)
    document = build_document(PipelineName(org, new.pipeline_slug), new)
    session.answer(document, f"build {document['name']} deploys again what build {new.rebuild_of} made")


def _row(each: Deployment) -> dict[str, object]:
    document = document_of(each)
    state = "waiting for approval" if each.waits else each.state.value
    return {**document, "build": f"{each.pipeline_slug}/{each.number}", "state": state}


def _who(made: Environment) -> str:
    return f"{' or '.join(made.approvers)} approves" if made.approvers else "nobody has to approve"
