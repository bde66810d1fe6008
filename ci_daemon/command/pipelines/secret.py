"""`ci-daemon secret`: set, list and remove secrets, on the box or of a server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

import click

from api.operations import secrets
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.session import Failure, Session, pass_session
from storage import Masker, document_of, immutable

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., object]")

_COLUMNS = ("name", "created_at", "updated_at")
_MAX_BYTES = 2**20


@immutable
class _Owner:
    """An organization, or one of its pipelines, by slugs."""

    org: str
    pipeline: str | None

    def __str__(self) -> str:
        return "/".join(self.names.values())

    @property
    def names(self) -> dict[str, str]:
        return {"org": self.org} if self.pipeline is None else {"org": self.org, "pipeline": self.pipeline}


def _owner_options(command: F) -> F:
    """Add the argument and the option that select an organization or pipeline."""
    pipeline = click.option("--pipeline", metavar="SLUG", help="Secrets of this pipeline, not the organization's.")
    return click.argument("org")(pipeline(command))


@click.group(cls=Group)
def secret() -> None:
    """Secrets of organizations and pipelines, for jobs that name them."""


@secret.command(name="set", cls=SharedCommand)
@_owner_options
@click.argument("name")
@pass_session
def set_secret(session: Session, *, org: str, name: str, pipeline: str | None) -> None:
    """Set the secret NAME of the organization ORG to stdin, without a final line end.

    At a terminal the value is prompted for and not shown. Jobs that start from now on get it.
    """
    value, owner = _read_value(), _Owner(org, pipeline)
    operation = secrets.set_pipeline_secret if pipeline else secrets.set_organization_secret
    with session.door() as door:
        made = door.perform(operation, {**owner.names, "name": name}, {"value": value})
    if not Masker.can_hide(value):
        click.echo(f"warning: {name} is too short to be masked in logs: set a longer value", err=True)
    session.answer(document_of(made), f"set {made.name} for {owner}")


@secret.command(name="list", cls=SharedCommand, reads=True)
@_owner_options
@pass_session
def list_secrets(session: Session, *, org: str, pipeline: str | None) -> None:
    """List the names of the secrets of the organization ORG. No command shows their values."""
    owner = _Owner(org, pipeline)
    operation = secrets.list_pipeline_secrets if pipeline else secrets.list_organization_secrets
    with session.door() as door:
        documents = [document_of(each) for each in door.rows(operation, owner.names)]
    session.table(documents, _COLUMNS, f"{owner} has no secrets of its own")


@secret.command(cls=SharedCommand)
@_owner_options
@click.argument("name")
@pass_session
def remove(session: Session, *, org: str, name: str, pipeline: str | None) -> None:
    """Remove the secret NAME of the organization ORG. Running jobs keep it."""
    owner = _Owner(org, pipeline)
    operation = secrets.delete_pipeline_secret if pipeline else secrets.delete_organization_secret
    with session.door() as door:
        door.perform(operation, {**owner.names, "name": name})
    session.answer({"removed": name}, f"removed {name} of {owner}")


def _read_value() -> str:
    """Return stdin's text, or at a terminal the answer to a prompt. Raises Failure."""
    if sys.stdin.isatty():
        value: str = click.prompt("Value", hide_input=True, err=True)
        return value
    try:
        text = sys.stdin.buffer.read(_MAX_BYTES).decode()
    except UnicodeDecodeError:
        raise Failure(
            "value: expected text in UTF-8; give other bytes in base64 and have the job decode them"
        ) from None
    return text.removesuffix("\n").removesuffix("\r")
