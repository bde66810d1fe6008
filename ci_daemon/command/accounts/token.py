"""`ci-daemon token`: API keys and sessions of users."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import click

from api.operations import api_tokens, machine_accounts
from ci_daemon.command.support.body_options import body_option
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.session import Failure, Session, pass_session
from storage import Scope, TokenKind, document_of, timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from api.doors import Door

F = TypeVar("F", bound="Callable[..., object]")

_COLUMNS = (
    "id",
    "kind",
    "description",
    "created_at",
    "expires_at",
    "last_used_at",
    "scopes",
    "only",
    "budget_cents",
    "spent_cents",
)
_API_KEY = "api-key"
_WORDS = {_API_KEY: "API key", "session": "session"}
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


def _machine_names(_context: click.Context, _parameter: click.Parameter, value: str | None) -> dict[str, str] | None:
    if value is None:
        return None
    org, _, machine = value.partition("/")
    if not org or not machine:
        raise click.BadParameter("name a machine account like acme/deploy-bot")
    return {"org": org, "machine": machine}


def _of_machine(command: F) -> F:
    """Add the option for a machine account, whose keys they are."""
    return click.option(
        "--machine",
        metavar="ORG/NAME",
        callback=_machine_names,
        help="The machine account that it is about (`ci-daemon machine`).",
    )(command)


@click.group(cls=Group)
def token() -> None:
    """Tokens of users: API keys and sessions."""


@token.command(cls=SharedCommand)
@click.argument("email", required=False)
@click.option(
    "--kind",
    type=click.Choice([*_WORDS]),
    default=_API_KEY,
    show_default=True,
    help="A session ends after 30 days, and may do what an API key may not: make API keys, hand out sessions.",
)
@body_option(api_tokens.ApiTokenCreateRequest, "description", default="made by ci-daemon", show_default=True)
@click.option(
    "--expires-at",
    metavar="TIME",
    callback=_future_time,
    help="When an API key ends, ISO 8601 with an offset; else never.",
)
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([each.value for each in Scope]),
    multiple=True,
    help="What an API key may do beside reading: start builds, run on forks, or all (admin); by default all.",
)
@click.option("--pipeline", metavar="ORG/PIPELINE", help="The only pipeline that an API key is for.")
@_of_machine
@click.option("--organization", metavar="ORG", help="The only organization that an API key is for.")
@click.option(
    "--budget",
    type=click.IntRange(1, 100_000_000),
    metavar="CENTS",
    help="The most that what an API key starts may cost in all; needs --scope start, fork, or both.",
)
@pass_session
def create(
    session: Session,
    *,
    email: str | None,
    machine: dict[str, str] | None,
    kind: str,
    description: str,
    expires_at: datetime | None,
    scopes: tuple[str, ...],
    pipeline: str | None,
    organization: str | None,
    budget: int | None,
) -> None:
    """Create an API key of yours or of a machine account, or on the box a token for the user EMAIL.

    It is shown only once: the service stores its hash.
    """
    if kind == "session" and (expires_at is not None or scopes or pipeline or organization or budget):
        raise click.UsageError("a session ends after 30 days and may do all: leave the options of API keys out")
    if pipeline is not None and (organization is not None or not all(pipeline.partition("/"))):
        raise click.UsageError("give one pipeline, as in --pipeline acme/web, or one --organization")
    allowed, only = tuple(map(Scope, scopes)) or None, pipeline or organization
    sent = {
        "description": description,
        "expires_at": expires_at and timestamp(expires_at),
        "scopes": list(scopes) or None,
        "only": only,
        "budget_cents": budget,
    }
    with session.door() as door:
        if machine is not None:
            if email is not None or kind != _API_KEY:
                raise click.UsageError("a machine account has API keys alone: leave EMAIL and --kind out")
            made = door.perform(machine_accounts.create_machine_key, machine, sent)
            document = {**_own_document(made.api_token), "token": made.token}
        elif names := _names(door, email):
            body = api_tokens.UserTokenCreateRequest(
                TokenKind(kind.replace("-", "_")), description, expires_at, allowed, only, budget
            )
            document = _document(door.perform(api_tokens.create_user_token, names, body))
        else:
            if kind != _API_KEY:
                raise Failure("a session begins with `ci-daemon login`: leave --kind out")
            made = door.perform(api_tokens.create_api_token, names, sent)
            document = {**_own_document(made.api_token), "token": made.token}
    whose = f" for {email or '/'.join((machine or {}).values())}" if email or machine else ""
    told = f"created the {_WORDS[kind]} {document['id']}{whose}; shown only once: {document['token']}"
    session.answer(document, told)


@token.command(name="list", cls=SharedCommand, reads=True)
@click.argument("email", required=False)
@_of_machine
@pass_session
def list_tokens(session: Session, *, email: str | None, machine: dict[str, str] | None) -> None:
    """List your API keys or those of a machine account, or on the box the tokens of the user EMAIL.

    Those of EMAIL are also the expired ones.
    """
    with session.door() as door:
        if machine is not None:
            documents = [_own_document(each) for each in door.rows(machine_accounts.list_machine_keys, machine)]
        elif names := _names(door, email):
            documents = [_document(each) for each in door.rows(api_tokens.list_user_tokens, names)]
        else:
            documents = [_own_document(each) for each in door.rows(api_tokens.list_api_tokens, names)]
    session.table(documents, _COLUMNS, f"{email} has no token" if email else "there is no API key")


@token.command(cls=SharedCommand)
@click.argument("token_id", metavar="ID")
@_of_machine
@pass_session
def revoke(session: Session, *, token_id: str, machine: dict[str, str] | None) -> None:
    """Revoke the API key ID of yours or of a machine account, or on the box the token ID of any user.

    It is invalid at once.
    """
    with session.door() as door:
        if machine is not None:
            door.perform(machine_accounts.revoke_machine_key, {**machine, "id": token_id})
            session.answer({"revoked": token_id}, f"revoked {token_id}")
            return
        revoked = api_tokens.revoke_user_token if door.owners else api_tokens.revoke_api_token
        door.perform(revoked, {"id": token_id})
    session.answer({"revoked": token_id}, f"revoked {token_id}")


def _names(door: Door, email: str | None) -> dict[str, str]:
    """Return the names of the user whose tokens they are; of none with a server, which knows its caller.

    Raises Failure if a user is named with a server, or none on the box.
    """
    if door.owners:
        if email is None:
            raise Failure("on the box, say whose tokens: give EMAIL, or sign in to a server with `ci-daemon login`")
        return {"email": email}
    if email is not None:
        raise Failure("with a server the API keys are your own: leave EMAIL out, or give --state-dir on the box")
    return {}


def _document(each: api_tokens.UserToken) -> dict[str, object]:
    return {**document_of(each), "kind": each.kind.replace("_", "-")}


def _own_document(key: api_tokens.ApiToken) -> dict[str, object]:
    document = document_of(key)
    return {"id": document["id"], "kind": _API_KEY, **document}
