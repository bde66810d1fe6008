"""`ci-daemon secret`: set, limit, list and remove secrets, on the box or of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from api.operations import body_fields, secrets
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.session import Failure, Session, pass_session
from storage import Secret, VerifiedEvent, document_of, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

F = TypeVar("F", bound="Callable[..., object]")

_COLUMNS = ("name", "source", "branches", "tags", "events", "environments", "pipelines", "updated_at")


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


_LIMITS = {
    "--branch": "branches",
    "--tag": "tags",
    "--event": "events",
    "--environment": "environments",
    "--only-pipeline": "pipelines",
}
"""The options of limits, and the fields of the body that they make."""


def _limit_options(command: F) -> F:
    """Add the options of limits, each of which may be given several times."""
    for flag, name in reversed(_LIMITS.items()):
        field = body_fields(secrets.LimitSecretRequest)[name]
        events = click.Choice([each.value for each in VerifiedEvent]) if name == "events" else None
        word = None if events else "PATTERN"
        command = click.option(flag, name, multiple=True, type=events, metavar=word, help=field.about)(command)
    return command


def _limits(options: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the fields of a body for those limits that the caller gave."""
    return {name: [str(each) for each in given] for name, given in options.items() if given}


_SOURCE = {
    "--url": ("url", "URL", "The address of Vault or OpenBao, or of the value itself."),
    "--role": ("role", "ROLE", "The role there that the job signs in as."),
    "--path": ("path", "PATH", "The path of the secret in its mount."),
    "--field": ("field", "FIELD", "The member of the answer that is the value."),
    "--mount": ("mount", "MOUNT", "The mount of the secrets, version 2; by default secret."),
    "--auth-mount": ("auth_mount", "MOUNT", "The mount of the sign-in by JWT; by default jwt."),
    "--audience": ("audience", "TEXT", "Whom the job's token is for; by default the beginning of the address."),
}
"""The options of a source: the field of each, a word for its value, and its help."""


def _source_options(command: F) -> F:
    """Add the options of a value that is fetched from elsewhere."""
    for flag, (name, word, text) in reversed(_SOURCE.items()):
        command = click.option(flag, name, metavar=word, help=text)(command)
    kinds = click.Choice(["vault", "http"])
    return click.option("--from", "kind", type=kinds, help="Fetch it from there as a job starts.")(command)


def _source(kind: str | None, options: Mapping[str, str | None]) -> dict[str, str]:
    """Return the source that options give; empty without. Raises UsageError."""
    given = {name: value for name, _, _ in _SOURCE.values() if (value := options[name]) is not None}
    if kind is None and given:
        raise click.UsageError("say with --from vault or --from http what is at the address")
    return {} if kind is None else {"kind": kind, **given}


@click.group(cls=Group)
def secret() -> None:
    """Secrets of organizations and pipelines, for jobs that name them."""


@secret.command(name="set", cls=SharedCommand)
@_owner_options
@click.argument("name")
@_source_options
@_limit_options
@pass_session
def set_secret(
    session: Session,
    /,
    *,
    org: str,
    name: str,
    pipeline: str | None,
    kind: str | None,
    **options: Any,  # noqa: ANN401 - texts of a source, and lists of limits
) -> None:
    """Set the secret NAME of the organization ORG to stdin, without a final line end.

    With --from it is fetched from elsewhere as a job starts, by the job's identity, and stdin is not read.

    At a terminal the value is prompted for and not shown. Jobs that start from now on get it. A limit may be given
    several times; those that are not given stay as they are.
    """
    owner, source = _Owner(org, pipeline), _source(kind, options)
    limits = {each: options[each] for each in _LIMITS.values()}
    value = None if source else _read_value()
    body = {"source": source} if source else {"value": value}
    operation = secrets.set_pipeline_secret if pipeline else secrets.set_organization_secret
    with session.door() as door:
        made = door.perform(operation, {**owner.names, "name": name}, {**body, **_limits(limits)})
    _warn_if_shown(name, value)
    session.answer(document_of(made), f"set {made.name} for {owner}")


def _read_value() -> str:
    """Return stdin's text, or the answer to a prompt. Raises Failure."""
    from ci_daemon.command.support.input import read_value  # noqa: PLC0415 - only a value that is set here needs it

    return read_value("Value", "value")


def _warn_if_shown(name: str, value: str | None) -> None:
    """Warn of a value that logs would show."""
    from storage import Masker  # noqa: PLC0415 - only a value that is set here needs it

    if value is not None and not Masker.can_hide(value):
        click.echo(f"warning: {name} is too short to be masked in logs: set a longer value", err=True)


@secret.command(name="limit", cls=SharedCommand)
@_owner_options
@click.argument("name")
@_limit_options
@click.option("--no-limits", is_flag=True, help="Take away all limits, except those that are given here.")
@pass_session
def limit_secret(
    session: Session, /, *, org: str, name: str, pipeline: str | None, no_limits: bool, **limits: Sequence[str]
) -> None:
    """Limit the secret NAME of the organization ORG to some builds and jobs. Its value stays.

    A limit may be given several times; those that are not given stay as they are. A job that names the secret and may
    not have it ends with secret_not_allowed before it runs.
    """
    owner = _Owner(org, pipeline)
    operation = secrets.limit_pipeline_secret if pipeline else secrets.limit_organization_secret
    body = {**(dict.fromkeys(_LIMITS.values(), ()) if no_limits else {}), **_limits(limits)}
    if not body:
        raise Failure("give a limit, such as --branch main, or --no-limits")
    with session.door() as door:
        made = door.perform(operation, {**owner.names, "name": name}, {each: list(of) for each, of in body.items()})
    session.answer(document_of(made), f"{made.name} of {owner}: {_in_words(made)}")


@secret.command(name="list", cls=SharedCommand, reads=True)
@_owner_options
@pass_session
def list_secrets(session: Session, *, org: str, pipeline: str | None) -> None:
    """List the names of the secrets of the organization ORG. No command shows their values."""
    owner = _Owner(org, pipeline)
    operation = secrets.list_pipeline_secrets if pipeline else secrets.list_organization_secrets
    with session.door() as door:
        session.records(door.rows(operation, owner.names), _COLUMNS, f"{owner} has no secrets of its own")


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


def _in_words(made: Secret) -> str:
    """Return the limits of a secret for people."""
    patterns = {name: getattr(made, name) for name in _LIMITS.values()}
    found = [f"{name} {', '.join(each)}" for name, each in patterns.items() if each]
    return "; ".join(found) or "no limits"
