"""`ci-daemon machine`: accounts of organizations for their programs."""

from __future__ import annotations

import click

from api.operations import machine_accounts
from ci_daemon.command.support.body_options import body_option
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.session import Session, pass_session
from storage import Role, document_of


@click.group(cls=Group)
def machine() -> None:
    """Machine accounts: accounts of an organization for its programs."""


@machine.command(name="list", cls=SharedCommand, reads=True)
@click.argument("org")
@pass_session
def list_machines(session: Session, *, org: str) -> None:
    """List the machine accounts of the organization ORG by name."""
    with session.door() as door:
        session.records(
            door.rows(machine_accounts.list_machine_accounts, {"org": org}),
            ("name", "address", "role", "created_at"),
            f"{org} has no machine accounts",
        )


@machine.command(cls=SharedCommand)
@click.argument("org")
@click.argument("name")
@body_option(machine_accounts.CreateMachineAccountRequest, "role", default=Role.MEMBER.value, show_default=True)
@pass_session
def add(session: Session, *, org: str, name: str, role: str) -> None:
    """Make the machine account NAME of the organization ORG.

    `ci-daemon token create --machine ORG/NAME` makes a key for it. It cannot sign in.
    """
    with session.door() as door:
        made = door.perform(machine_accounts.create_machine_account, {"org": org}, {"name": name, "role": role})
    session.answer(document_of(made), f"made {made.address}, which has the role {made.role} in {org}")


@machine.command(cls=SharedCommand)
@click.argument("org")
@click.argument("name")
@pass_session
def remove(session: Session, *, org: str, name: str) -> None:
    """Remove the machine account NAME of the organization ORG. Its keys end at once."""
    with session.door() as door:
        door.perform(machine_accounts.delete_machine_account, {"org": org, "machine": name})
    session.answer({"removed": f"{org}/{name}"}, f"removed {org}/{name}, and its keys")
