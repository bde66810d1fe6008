"""`ci-daemon token`: API keys and sessions of users."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.lookup import find_user
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.command.support.texts import one_line
from ci_daemon.command.support.timestamps import timestamp

if TYPE_CHECKING:
    from storage import Token

__all__ = ["token"]

_COLUMNS = ("id", "kind", "description", "created_at", "expires_at", "last_used_at")
_KINDS = ("api-key", "session")


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
    "--expires-at",
    metavar="TIME",
    callback=_future_time,
    help="When an API key ends, ISO 8601 with an offset; else never.",
)
@pass_session
def create(session: Session, *, email: str, kind: str, description: str, expires_at: datetime | None) -> None:
    """Create a token for the user EMAIL. It is shown only once: the service stores its hash."""
    if kind == "session" and expires_at is not None:
        raise click.UsageError("a session ends after 30 days: leave --expires-at out")
    with session.storage_without_billing() as storage:
        user = find_user(storage, email)
        made, secret = (
            storage.tokens.create_session(user.id, description)
            if kind == "session"
            else storage.tokens.create_api_key(user.id, description, expires_at)
        )
    session.answer(
        {**_document(made), "token": secret},
        f"created the {kind} {made.uuid} for {user.email}; shown only once: {secret}",
    )


@token.command(name="list", reads=True)
@click.argument("email")
@pass_session
def list_tokens(session: Session, *, email: str) -> None:
    """List the tokens of the user EMAIL, oldest first, with expired ones, without revoked ones."""
    with session.storage_without_billing() as storage:
        documents = [_document(each) for each in storage.tokens.of_user(find_user(storage, email).id)]
    session.table(documents, _COLUMNS, f"{email} has no token")


@token.command()
@click.argument("token_id", metavar="ID")
@pass_session
def revoke(session: Session, *, token_id: str) -> None:
    """Revoke the token ID of any user. It is invalid at once."""
    with session.storage_without_billing() as storage:
        if not storage.tokens.revoke_named(token_id):
            raise Failure(f"there is no token {token_id}, or it is revoked: `ci-daemon token list EMAIL` shows what is")
    session.answer({"revoked": token_id}, f"revoked {token_id}")


def _document(each: Token) -> dict[str, object]:
    return {
        "id": each.uuid,
        "kind": each.kind.value.replace("_", "-"),
        "description": each.description,
        "created_at": timestamp(each.created_at),
        "expires_at": each.expires_at and timestamp(each.expires_at),
        "last_used_at": each.last_used_at and timestamp(each.last_used_at),
    }
