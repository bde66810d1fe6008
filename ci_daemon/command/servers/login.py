"""`ci-daemon login` and `ci-daemon logout`: sign in to a server with a browser, and sign out again."""

from __future__ import annotations

import os
import sys
import webbrowser
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from api import pages_url
from api.operations import meta, sessions
from api.operations import user as users
from ci_daemon.command.support.command_classes import CallerCommand
from ci_daemon.command.support.input import hidden_line
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.remote.contexts import Context, Contexts, configuration_folder, locked
from ci_daemon.remote.destination import is_http_url, is_this_host
from ci_daemon.remote.errors import RequestFailed
from ci_daemon.remote.handoff import claim, code_url, redeem, start_handoff
from ci_daemon.remote.token_store import TokenPlace, TokenStore

if TYPE_CHECKING:
    from ci_daemon.remote.connection import Connection

_UNAUTHORIZED = 401


@click.command(cls=CallerCommand, reads=True)
@click.argument("url")
@click.option("--name", help="The name of the context; by default the host of the URL.")
@click.option("--paste", is_flag=True, help="Ask for a code that the browser shows, which may be on another machine.")
@pass_session
def login(session: Session, *, url: str, name: str | None, paste: bool) -> None:
    """Sign in to the server at URL with a browser, and make it the current context.

    A browser opens, here or where you open the printed address. There you sign in as usual, and agree. The token is
    kept in the system's keyring, or where there is none, in a file that only you may read.
    """
    url = url.rstrip("/")
    if not is_http_url(url):
        raise click.BadParameter(f"{url} is not a URL: give one such as https://ci.example.org", param_hint="URL")
    if urlsplit(url).scheme == "http" and not is_this_host(url):
        click.echo(f"{url} is not encrypted: whoever is on the way can read what you send there", err=True)
    with closing(_connect(url, None)) as connection:
        connection.perform(meta.ping, {})
        token = _redeem(connection) if paste else _claim(connection)
    with closing(_connect(url, token)) as connection:
        user = connection.perform(users.get_current_user, {})
    context = _keep(url, name or urlsplit(url).netloc, token, user)
    document = {"context": context.name, "url": url, "email": user.email, "token_place": context.token_place}
    place = "the keyring" if context.token_place == TokenPlace.KEYRING else configuration_folder(os.environ)
    session.answer(document, f"signed in to {url} as {user.email}; the token is in {place}")


@click.command(cls=CallerCommand, reads=True)
@pass_session
def logout(session: Session) -> None:
    """Sign out of the current server: revoke the token there, and forget it and the context here."""
    folder = configuration_folder(os.environ)
    server = session.signed_in()
    context = server.context
    if context is None:
        raise Failure("CI_DAEMON_TOKEN stands above the contexts: unset it, and sign out again")
    with closing(_connect(server.url, server.token)) as connection:
        try:
            connection.perform(sessions.logout, {})
        except RequestFailed as error:
            if error.status != _UNAUTHORIZED:
                raise
    with locked(folder):
        TokenStore(folder).forget(context)
        Contexts.load(folder).without(context.name).save(folder)
    session.answer({"context": context.name, "url": context.url}, f"signed out of {context.url}")


def _connect(url: str, token: str | None) -> Connection:
    from ci_daemon.remote.connection import Connection  # noqa: PLC0415 - the help connects to nothing

    return Connection(url, token)


def _claim(connection: Connection) -> str:
    """Return the token of a session that the person hands over in a browser."""
    handoff = start_handoff(pages_url(connection.url))
    _open(handoff.url, "Sign in there, and agree")
    return claim(connection, handoff)


def _redeem(connection: Connection) -> str:
    """Return the token of a session by the code that a browser shows; the code is not echoed."""
    _open(code_url(pages_url(connection.url)), "Sign in there, and copy the code")
    return redeem(connection, hidden_line("Code"))


def _open(url: str, what: str) -> None:
    """Open a page in a browser with windows, if this terminal has one; print its address in any case."""
    click.echo(f"{what}: {url}", err=True)
    if sys.stdin.isatty() and any(os.environ.get(each) for each in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")):
        webbrowser.open(url)


def _keep(url: str, name: str, token: str, user: users.CurrentUserResponse) -> Context:
    """Keep a token and make its context, which is the current one."""
    folder = configuration_folder(os.environ)
    with locked(folder):
        store, contexts = TokenStore(folder), Contexts.load(folder)
        context = Context(name, url, user.email, store.keep(name, url, token))
        contexts.adding(context).save(folder)
        return context
