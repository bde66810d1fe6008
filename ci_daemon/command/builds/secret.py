"""`ci-daemon secret`: set, list and delete secrets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

import click

from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.lookup import find_organization, find_pipeline
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.command.support.timestamps import timestamp
from storage import SecretInvalid, SecretScope

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage import Secret, Storage

__all__ = ["secret"]

F = TypeVar("F", bound="Callable[..., object]")

_COLUMNS = ("name", "created_at", "updated_at")
_MAX_BYTES = 2**20


def _scope_options(command: F) -> F:
    """Add the argument and the option that select an organization or pipeline."""
    pipeline = click.option("--pipeline", metavar="SLUG", help="Secrets of this pipeline, not the organization's.")
    return click.argument("org")(pipeline(command))


@click.group(cls=Group)
def secret() -> None:
    """Secrets of organizations and pipelines, for jobs that name them."""


@secret.command(name="set")
@_scope_options
@click.argument("name")
@pass_session
def set_secret(session: Session, *, org: str, name: str, pipeline: str | None) -> None:
    """Set the secret NAME of the organization ORG to stdin, without a final line end.

    At a terminal the value is prompted for and not shown. Jobs that start from now on get it.
    """
    value = _read_value()
    with session.storage_without_billing() as storage:
        scope = _scope(storage, org, pipeline)
        try:
            made = storage.secrets.put(scope, name, value)
        except SecretInvalid as error:
            raise Failure(str(error)) from None
    session.answer(_document(made), f"set {made.name} for {_scope_name(org, pipeline)}")


@secret.command(name="list", reads=True)
@_scope_options
@pass_session
def list_secrets(session: Session, *, org: str, pipeline: str | None) -> None:
    """List the names of the secrets of the organization ORG. No command shows their values."""
    with session.storage_without_billing() as storage:
        documents = [_document(each) for each in storage.secrets.names(_scope(storage, org, pipeline))]
    session.table(documents, _COLUMNS, f"{_scope_name(org, pipeline)} has no secrets of its own")


@secret.command()
@_scope_options
@click.argument("name")
@pass_session
def delete(session: Session, *, org: str, name: str, pipeline: str | None) -> None:
    """Delete the secret NAME of the organization ORG. Running jobs keep it."""
    with session.storage_without_billing() as storage:
        if not storage.secrets.remove(_scope(storage, org, pipeline), name):
            raise Failure(
                f"{_scope_name(org, pipeline)} has no secret {name}: `ci-daemon secret list` shows those it has"
            )
    session.answer({"deleted": name}, f"deleted {name} of {_scope_name(org, pipeline)}")


def _read_value() -> str:
    """Return stdin's text, or at a terminal the answer to a prompt. Raises Failure."""
    if sys.stdin.isatty():
        value: str = click.prompt("Value", hide_input=True)
        return value
    try:
        text = sys.stdin.buffer.read(_MAX_BYTES).decode()
    except UnicodeDecodeError:
        raise Failure(
            "value: expected text in UTF-8; give other bytes in base64 and have the job decode them"
        ) from None
    return text.removesuffix("\n").removesuffix("\r")


def _scope(storage: Storage, org: str, pipeline: str | None) -> SecretScope:
    """Return the organization or pipeline of the secrets. Raises Failure if it does not exist."""
    if pipeline is None:
        return SecretScope(find_organization(storage, org).id)
    found = find_pipeline(storage, org, pipeline)
    return SecretScope(found.organization_id, found.id)


def _scope_name(org: str, pipeline: str | None) -> str:
    return org if pipeline is None else f"{org}/{pipeline}"


def _document(each: Secret) -> dict[str, object]:
    return {
        "name": each.name,
        "created_at": timestamp(each.created_at),
        "updated_at": timestamp(each.updated_at),
    }
