"""`ci-daemon token`: API keys and sessions of users."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ci_daemon.command.instants import on_the_wire
from ci_daemon.command.lookup import find_user
from ci_daemon.command.session import Failure, Session, pass_session
from ci_daemon.command.style import Group
from ci_daemon.command.texts import one_line

if TYPE_CHECKING:
    from storage import Token

__all__ = ["token"]

_COLUMNS = ("id", "kind", "description", "created_at", "expires_at", "last_used_at")
_KINDS = ("api-key", "session")


def _future(_context: click.Context, _parameter: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is not None and moment.astimezone(UTC) > datetime.now(UTC):
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise click.BadParameter(f'"{value}" is no time to come with an offset: give one like 2030-01-01T00:00:00Z')


@click.group(cls=Group)
def token() -> None:
    """Tokens of users: API keys and sessions."""


@token.command()
@click.argument("email")
@click.option(
    "--kind",
    type=click.Choice(_KINDS),
    default="api-key",
    show_default=True,
    help="A session ends after 30 days, and may do what an API key may not: make API keys, hand out sessions.",
)
@click.option(
    "--description",
    metavar="TEXT",
    default="made on the box",
    show_default=True,
    type=one_line(10_000),
    help="What it is for, as its owner reads it in the list.",
)
@click.option(
    "--expires-at", metavar="TIME", callback=_future, help="When an API key ends, ISO 8601 with an offset; else never."
)
@pass_session
def create(session: Session, *, email: str, kind: str, description: str, expires_at: datetime | None) -> None:
    """Create a token for the user EMAIL. It is shown only once: the service stores its hash."""
    if kind == "session" and expires_at is not None:
        raise click.UsageError("a session ends after 30 days: leave --expires-at out")
    with session.records() as storage:
        user = find_user(storage, email)
        made, secret = (
            storage.tokens.create_session(user.id, description)
            if kind == "session"
            else storage.tokens.create_api_key(user.id, description, expires_at)
        )
    session.answer(
        {**_document(made), "token": secret},
        f"made the {kind} {made.uuid} for {user.email}; shown this once: {secret}",
    )


@token.command(name="list", reads=True)
@click.argument("email")
@pass_session
def list_tokens(session: Session, *, email: str) -> None:
    """List the tokens of the user EMAIL, oldest first, with expired ones, without revoked ones."""
    with session.records() as storage:
        documents = [_document(each) for each in storage.tokens.of_user(find_user(storage, email).id)]
    session.table(documents, _COLUMNS, f"{email} has no token")


@token.command()
@click.argument("token_id", metavar="ID")
@pass_session
def revoke(session: Session, *, token_id: str) -> None:
    """Revoke the token ID of any user. It is invalid at once."""
    with session.records() as storage:
        if not storage.tokens.revoke_named(token_id):
            raise Failure(f"there is no token {token_id}, or it is revoked: `ci-daemon token list EMAIL` shows what is")
    session.answer({"revoked": token_id}, f"revoked {token_id}")


def _document(each: Token) -> dict[str, object]:
    return {
        "id": each.uuid,
        "kind": each.kind.value.replace("_", "-"),
        "description": each.description,
        "created_at": on_the_wire(each.created_at),
        "expires_at": each.expires_at and on_the_wire(each.expires_at),
        "last_used_at": each.last_used_at and on_the_wire(each.last_used_at),
    }
