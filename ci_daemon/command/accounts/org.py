"""`ci-daemon org`: create, list and change organizations, on the box or of a server."""

from __future__ import annotations

from typing import Any

import click

from api.operations import organizations
from ci_daemon.command.support.body_options import body_options, given, settings_in_words
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.options import display_name, email_address
from ci_daemon.command.support.session import Failure, Session, pass_session
from storage import document_of

_COLUMNS = ("slug", "name", "balance_cents", "weight", "fail_fast", "url")
_SETTINGS = (
    "weight",
    "fail_fast",
    "cancel_superseded",
    "fork_approval",
    "fork_secrets",
    "provider",
    "strict_shell",
    "find_culprits",
)


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
@body_options(organizations.CreateOrganizationRequest, "url")
@pass_session
def create(session: Session, /, *, name: str, owner: str | None, **site: Any) -> None:  # noqa: ANN401 - fields of the body
    """Create the organization NAME. With a server it is yours.

    Its slug is made from NAME, with -2, -3 and so on if that is taken.
    """
    with session.door() as door:
        if door.owners and owner is None:
            raise click.UsageError("on the box, say whose organization it is: give --owner EMAIL")
        if owner is None:
            sent = {"name": name, **given(site)}
            document = document_of(door.perform(organizations.create_organization, {}, sent))
        elif door.owners:
            body = organizations.CreateOrganizationRequest(name, **given(site))
            document = document_of(door.perform(organizations.create_user_organization, {"email": owner}, body))
        else:
            raise Failure("with a server you own what you create: leave --owner out, or give --state-dir on the box")
    session.answer({**document, "owner": owner}, f"created {document['slug']}{f', owned by {owner}' if owner else ''}")


@org.command(name="set")
@click.argument("org")
@body_options(
    organizations.ConfigureOrganizationRequest,
    "fail_fast",
    "weight",
    "cancel_superseded",
    "fork_approval",
    "fork_secrets",
    "provider",
    "strict_shell",
    "find_culprits",
)
@pass_session
def set_organization(session: Session, /, *, org: str, **settings: Any) -> None:  # noqa: ANN401 - fields of the body
    """Change settings of the organization ORG, with immediate effect, also on running builds.

    Where a setting is "default", the configuration of the host applies.
    """
    body = organizations.ConfigureOrganizationRequest(**settings)
    if not given(settings):
        raise click.UsageError("give at least one setting, such as --weight or --fail-fast")
    with session.owners_door() as door:
        document = document_of(door.perform(organizations.configure_organization, {"org": org}, body))
    session.answer(document, f"{org}: {settings_in_words(document, _SETTINGS)}")


@org.command(cls=SharedCommand, reads=True)
@click.argument("org")
@pass_session
def key(session: Session, *, org: str) -> None:
    """Show the deploy key of the organization ORG, to be added at servers of git.

    Repositories use it that were connected with `repo connect --org-key`.
    """
    from api.operations import deploy_keys  # noqa: PLC0415 - no other command needs keys

    with session.door() as door:
        found = door.perform(deploy_keys.get_deploy_key, {"org": org})
    session.answer(document_of(found), found.public_key)


@org.command(cls=SharedCommand)
@click.argument("org")
@pass_session
def rotate_key(session: Session, *, org: str) -> None:
    """Make a new deploy key for the organization ORG, and show it; the former is forgotten.

    All repositories that use it are fetched with the new one from then on, so add it at their servers.
    """
    from api.operations import deploy_keys  # noqa: PLC0415 - as above

    with session.door() as door:
        made = door.perform(deploy_keys.rotate_deploy_key, {"org": org})
    session.answer(document_of(made), made.public_key)
