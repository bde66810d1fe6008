"""`ci-daemon context`: the servers that a person is signed in to."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from ci_daemon.command.support.command_classes import CallerCommand, Group
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.remote.contexts import Contexts, ContextsUnusable, configuration_folder, locked
from ci_daemon.remote.token_store import TokenStore

if TYPE_CHECKING:
    from ci_daemon.remote.contexts import Context

_COLUMNS = ("name", "url", "email", "current")


@click.group(cls=Group)
def context() -> None:
    """Contexts: the servers that you are signed in to, one of which is current."""


@context.command(name="list", cls=CallerCommand, reads=True)
@pass_session
def list_contexts(session: Session) -> None:
    """List the servers that you are signed in to."""
    contexts = Contexts.load(configuration_folder(os.environ))
    documents = [_document(contexts, each) for each in contexts.all]
    session.table(documents, _COLUMNS, "you are signed in nowhere: `ci-daemon login URL` signs in")


@context.command(cls=CallerCommand, reads=True)
@click.argument("name", required=False)
@pass_session
def show(session: Session, *, name: str | None) -> None:
    """Show the context NAME, or the current one."""
    contexts = Contexts.load(configuration_folder(os.environ))
    name = name or session.context_name or contexts.current_name
    if name is None:
        raise Failure("there is no current context: `ci-daemon login URL` makes one, `ci-daemon context use` chooses")
    document = _document(contexts, _find(contexts, name))
    if session.json:
        session.answer(document, "")
    else:
        session.properties(document)


@context.command(cls=CallerCommand, reads=True)
@click.argument("name")
@pass_session
def use(session: Session, *, name: str) -> None:
    """Make NAME the current context, whose server commands speak to."""
    folder = configuration_folder(os.environ)
    with locked(folder):
        contexts = Contexts.load(folder)
        found = _find(contexts, name)
        contexts = contexts.using(name)
        contexts.save(folder)
    session.answer(_document(contexts, found), f"commands speak to {found.url} as {found.email}")


@context.command(cls=CallerCommand, reads=True)
@click.argument("name")
@pass_session
def remove(session: Session, *, name: str) -> None:
    """Forget the context NAME and its token here, without a word to the server.

    The token stays valid until its session ends: `ci-daemon --context NAME logout` revokes it, too.
    """
    folder = configuration_folder(os.environ)
    with locked(folder):
        contexts = Contexts.load(folder)
        found = _find(contexts, name)
        with suppress(ContextsUnusable):
            TokenStore(folder).forget(found)
        contexts.without(name).save(folder)
    session.answer({"removed": name}, f"removed {name}; its session at {found.url} goes on until it ends there")


def _find(contexts: Contexts, name: str) -> Context:
    found = contexts.named(name)
    if found is None:
        raise Failure(f"there is no context {name}: `ci-daemon context list` shows all")
    return found


def _document(contexts: Contexts, each: Context) -> dict[str, object]:
    return {
        "name": each.name,
        "url": each.url,
        "email": each.email,
        "token_place": each.token_place,
        "current": each.name == contexts.current_name,
    }
