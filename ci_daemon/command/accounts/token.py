"""`ci-daemon token`: API keys and sessions of users."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.documents import document_of
from ci_daemon.command.support.session import Session, pass_session
from ci_daemon.command.support.texts import one_line

__all__ = ["token"]

_COLUMNS = ("id", "kind", "description", "created_at", "expires_at", "last_used_at")
_WORDS = {"api-key": "API key", "session": "session"}
"""The kinds of tokens, as messages name them."""


def _future_time(_context: click.Context, _parameter: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(value)
        if time.tzinfo is not None and time.astimezone(UTC) > datetime.now(UTC):
            return time.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise click.BadParameter(f'"{value}" is not a future time with an offset: give one like 2030-01-01T00:00:00Z')


@click.group(cls=Group)
def token() -> None:
    """Tokens of users: API keys and sessions."""


@token.command(cls=SharedCommand)
@click.argument("email", required=False)
@click.option(
    "--kind",
    type=click.Choice([*_WORDS]),
    default="api-key",
    show_default=True,
    help="A session ends after 30 days, and may do what an API key may not: make API keys, hand out sessions.",
)
@click.option(
    "--description",
    metavar="TEXT",
    default="made by ci-daemon",
    show_default=True,
    type=one_line(10_000),
    help="What it is for, as its owner reads it in the list.",
)
@click.option(
    "--expires-at",
    metavar="TIME",
    callback=_future_time,
    help="When an API key ends, ISO 8601 with an offset; else never.",
)
@pass_session
def create(session: Session, *, email: str | None, kind: str, description: str, expires_at: datetime | None) -> None:
    """Create an API key of yours, or on the box a token for the user EMAIL.

    It is shown only once: the service stores its hash.
    """
    if kind == "session" and expires_at is not None:
        raise click.UsageError("a session ends after 30 days: leave --expires-at out")
    with session.backend() as backend:
        made = backend.tokens.create(email, kind, description, expires_at)
    whose = "" if email is None else f" for {email}"
    session.answer(document_of(made), f"created the {_WORDS[kind]} {made.id}{whose}; shown only once: {made.token}")


@token.command(name="list", cls=SharedCommand, reads=True)
@click.argument("email", required=False)
@pass_session
def list_tokens(session: Session, *, email: str | None) -> None:
    """List your API keys, or on the box the tokens of the user EMAIL, also expired ones."""
    with session.backend() as backend:
        documents = [document_of(each) for each in backend.tokens.all(email)]
    session.table(documents, _COLUMNS, f"{email} has no token" if email else "you have no API key")


@token.command(cls=SharedCommand)
@click.argument("token_id", metavar="ID")
@pass_session
def revoke(session: Session, *, token_id: str) -> None:
    """Revoke the API key ID of yours, or on the box the token ID of any user. It is invalid at once."""
    with session.backend() as backend:
        backend.tokens.revoke(token_id)
    session.answer({"revoked": token_id}, f"revoked {token_id}")
