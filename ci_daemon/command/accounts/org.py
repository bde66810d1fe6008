"""`ci-daemon org`: create, list and change organizations, on the box or of a server."""

from __future__ import annotations

from typing import Any

import click

from api.operations import organizations
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.options import (
    DEFAULT,
    display_name,
    email_address,
    one_line,
    settings_in_words,
    strict_shell_of,
    strict_shell_option,
    superseded_option,
)
from ci_daemon.command.support.session import Failure, Session, pass_session
from storage import PROVIDERS, CancelSuperseded, ForkApproval, document_of

_COLUMNS = ("slug", "name", "balance_cents", "weight", "fail_fast", "url")
_SETTINGS = ("weight", "fail_fast", "cancel_superseded", "fork_approval", "fork_secrets", "provider", "strict_shell")
_MAX_WEIGHT = 1_000_000
_MAX_URL = 255


@click.group(cls=Group)
def org() -> None:
    """Organizations: owners of pipelines, with a share of the host."""


@org.command(name="list", cls=SharedCommand, reads=True)
@pass_session
def list_organizations(session: Session) -> None:
    """List your organizations, or on the box all, oldest first."""
    with session.door() as door:
        listed = organizations.list_hosted_organizations if door.owners else organizations.list_organizations
        documents = [document_of(each) for each in door.rows(listed, {})]
    session.remember(f"org/{each['slug']}" for each in documents)
    columns = [each for each in _COLUMNS if documents and each in documents[0]]
    session.table(documents, columns, "there are no organizations: `ci-daemon org create` makes one")


@org.command(cls=SharedCommand)
@click.argument("name", type=display_name)
@click.option(
    "--owner", metavar="EMAIL", type=email_address, help="On the box, the e-mail address of the user who owns it."
)
@click.option("--url", type=one_line(_MAX_URL), metavar="URL", help="Its web site, to show.")
@pass_session
def create(session: Session, *, name: str, owner: str | None, url: str | None) -> None:
    """Create the organization NAME. With a server it is yours.

    Its slug is made from NAME, with -2, -3 and so on if that is taken.
    """
    with session.door() as door:
        if door.owners and owner is None:
            raise click.UsageError("on the box, say whose organization it is: give --owner EMAIL")
        if owner is None:
            sent = {"name": name, "url": url or ""}
            document = document_of(door.perform(organizations.create_organization, {}, sent))
        elif door.owners:
            body = organizations.CreateOrganizationRequest(name, url)
            document = document_of(door.perform(organizations.create_user_organization, {"email": owner}, body))
        else:
            raise Failure("with a server you own what you create: leave --owner out, or give --state-dir on the box")
    session.answer({**document, "owner": owner}, f"created {document['slug']}{f', owned by {owner}' if owner else ''}")


@org.command(name="set")
@click.argument("org")
@click.option("--fail-fast/--no-fail-fast", default=None, help="Whether the first failure cancels the rest of a build.")
@click.option(
    "--weight",
    type=click.IntRange(1, _MAX_WEIGHT),
    help="Its share of VM time while others wait, as a multiple of that of an organization of weight 1.",
)
@superseded_option
@click.option(
    "--fork-approval",
    type=click.Choice([*(each.value for each in ForkApproval), DEFAULT]),
    help="The pull requests from forks whose builds wait for an approval; strangers are all who may not push.",
)
@click.option(
    "--fork-secrets",
    type=click.Choice(["yes", "no", DEFAULT]),
    help="Whether builds of pull requests from forks get the secrets and caches of other builds.",
)
@click.option(
    "--provider",
    type=click.Choice([*PROVIDERS, DEFAULT]),
    help="How its VMs are made from now on; `ci-daemon doctor` says what this host lacks for that.",
)
@strict_shell_option
@pass_session
def set_organization(
    session: Session,
    *,
    org: str,
    fail_fast: bool | None,
    weight: int | None,
    cancel_superseded: str | None,
    fork_approval: str | None,
    fork_secrets: str | None,
    provider: str | None,
    strict_shell: str | None,
) -> None:
    """Change settings of the organization ORG, with immediate effect, also on running builds.

    Where a setting is "default", the configuration of the host applies.
    """
    changes: dict[str, Any] = {}
    if fail_fast is not None:
        changes["fail_fast"] = fail_fast
    if weight is not None:
        changes["weight"] = weight
    if cancel_superseded is not None:
        changes["cancel_superseded"] = None if cancel_superseded == DEFAULT else CancelSuperseded(cancel_superseded)
    if fork_approval is not None:
        changes["fork_approval"] = None if fork_approval == DEFAULT else ForkApproval(fork_approval)
    if fork_secrets is not None:
        changes["fork_secrets"] = None if fork_secrets == DEFAULT else fork_secrets == "yes"
    if provider is not None:
        changes["provider"] = None if provider == DEFAULT else provider
    if strict_shell is not None:
        changes["strict_shell"] = strict_shell_of(strict_shell)
    if not changes:
        raise click.UsageError("give at least one setting, such as --weight or --fail-fast")
    with session.owners_door() as door:
        body = organizations.ConfigureOrganizationRequest(**changes)
        document = document_of(door.perform(organizations.configure_organization, {"org": org}, body))
    session.answer(document, f"{org}: {settings_in_words(document, _SETTINGS)}")
