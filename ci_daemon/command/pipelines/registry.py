"""`ci-daemon registry`: logins of organizations at registries of images, on the box or of a server."""

from __future__ import annotations

import click

from api.operations import registry_logins
from ci_daemon.command.support.body_options import body_option
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.input import read_value
from ci_daemon.command.support.session import Session, pass_session
from storage import document_of

_COLUMNS = ("host", "username", "updated_at")


@click.group(cls=Group)
def registry() -> None:
    """Logins at registries of images, for jobs of an organization."""


@registry.command(cls=SharedCommand)
@click.argument("org")
@click.argument("host")
@body_option(registry_logins.SetRegistryLoginRequest, "username")
@pass_session
def login(session: Session, /, *, org: str, host: str, username: str) -> None:
    """Store the login of the organization ORG at the registry HOST; stdin is the password.

    At a terminal the password is prompted for and not shown. Images of HOST are pulled with it for jobs of ORG, and for
    no others; jobs with `registries: HOST` can push there. Builds of forks have neither.
    """
    body = {"username": username, "password": read_value("Password", "password")}
    with session.door() as door:
        made = door.perform(registry_logins.set_registry_login, {"org": org, "host": host}, body)
    session.answer(document_of(made), f"{org} logs in at {made.host} as {made.username}")


@registry.command(name="list", cls=SharedCommand, reads=True)
@click.argument("org")
@pass_session
def list_logins(session: Session, *, org: str) -> None:
    """List the logins of the organization ORG at registries. No command shows their passwords."""
    with session.door() as door:
        session.records(
            door.rows(registry_logins.list_registry_logins, {"org": org}),
            _COLUMNS,
            f"{org} has no logins at registries",
        )


@registry.command(cls=SharedCommand)
@click.argument("org")
@click.argument("host")
@pass_session
def logout(session: Session, *, org: str, host: str) -> None:
    """Remove the login of the organization ORG at the registry HOST."""
    with session.door() as door:
        door.perform(registry_logins.delete_registry_login, {"org": org, "host": host})
    session.answer({"removed": host}, f"removed the login of {org} at {host}")
