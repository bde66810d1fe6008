"""Audit entries of commands."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

import storage
from ci_daemon.command.support.session import as_owner
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ci_daemon.command.support.session import Session

_PASSWORD = re.compile(r"(//)[^/@\s]*@")


@immutable
class CommandAudit:
    """The audit entry of a command."""

    actor: str
    origin: str
    action: str
    subject: str
    note: str
    organization: str | None


def audit_command(context: click.Context, session: Session) -> None:
    """Write the entry of a command as the owner of the state directory.

    It is written after the command; a command that removes the program calls this itself before it does.
    """
    session.audited = True
    as_owner(session.state_dir, partial(write, session.state_dir, command_audit(context, session)))


def command_audit(context: click.Context, session: Session) -> CommandAudit:
    """Return the entry of a command that was run.

    Its subject consists of the arguments and of the row in the answer. Passwords in URLs are masked.
    """
    arguments = [
        _printable(context.params.get(str(each.name))) for each in context.command.params if _is_argument(each)
    ]
    subject = [argument for argument in arguments if argument]
    if session.answered_row is not None and session.answered_row not in subject:
        subject.append(session.answered_row)
    return CommandAudit(
        session.operator,
        session.origin,
        context.command_path.partition(" ")[2],
        " ".join(subject),
        " ".join(_options(context)),
        _organization(context),
    )


def write(directory: Path, audit: CommandAudit) -> None:
    """Append an entry to the audit of a state directory, if there is one; warn if that fails."""
    try:
        storage.append_to_audit(
            directory,
            audit.actor,
            audit.action,
            audit.subject,
            audit.note,
            origin=audit.origin,
            organization=audit.organization,
        )
    except storage.StorageError as error:
        click.echo(f"ci-daemon: the command succeeded, but is not in the audit: {error}", err=True)


def _options(context: click.Context) -> Iterator[str]:
    """Yield the options as given on the command line, without hidden input."""
    for each in context.command.params:
        name = str(each.name)
        if not isinstance(each, click.Option) or each.hide_input or name not in context.params:
            continue
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            value = context.params[name]
            if each.is_flag:
                yield each.opts[0] if value or not each.secondary_opts else each.secondary_opts[0]
            else:
                yield f"{each.opts[0]} {_printable(value)}"


def _organization(context: click.Context) -> str | None:
    """Return the slug of the organization that the command line names."""
    if (org := context.params.get("org")) is not None:
        return str(org)
    for each in context.command.params:
        if str(each.metavar).startswith("ORG/"):
            return str(context.params[str(each.name)]).partition("/")[0]
    return None


def _is_argument(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Argument)


def _printable(value: Any) -> str:  # noqa: ANN401 - whatever click made of a word
    words = value if isinstance(value, tuple | list) else (value,)
    names = (getattr(word, "name", word) for word in words if word is not None)
    return _PASSWORD.sub(r"\1***@", " ".join(map(str, names)))
