"""The server that a command speaks to: of a named context, of variables, or of the current context.

Its URL is checked as people write it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ci_daemon.remote.contexts import Contexts, ContextsUnusable
from ci_daemon.remote.token_store import TokenStore
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ci_daemon.remote.contexts import Context


def is_http_url(url: str) -> bool:
    """Tell whether a URL consists of scheme, valid host, port and path, and nothing else."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")
        extras = parts.port == 0 or parts.username or parts.query or parts.fragment
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(host) and url.isprintable() and " " not in url and not extras


def is_this_host(url: str) -> bool:
    """Tell whether a URL is of the loopback."""
    return urlsplit(url).hostname in {"127.0.0.1", "::1", "localhost"}


LOOPBACK_URL = "http://127.0.0.1:8800"
"""The URL of a service on this host with the default configuration; a test compares it with that."""

_URL = "CI_DAEMON_URL"
_TOKEN = "CI_DAEMON_TOKEN"  # noqa: S105 - a variable's name


@immutable
class Destination:
    """A server, the caller's token there, and the context that they are of."""

    url: str
    token: str
    context: Context | None = None


@immutable
class Wish:
    """A caller's words for a server: URL and token, of variables or options, and the name of a context."""

    url: str | None = None
    token: str | None = None
    context_name: str | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str], context_name: str | None) -> Wish:
        """Return the wish that the variables and a context's name express."""
        return cls(environ.get(_URL, "").rstrip("/") or None, environ.get(_TOKEN, "").strip() or None, context_name)

    @property
    def names_a_server(self) -> bool:
        """True if it says which server, and not only with which token."""
        return self.context_name is not None or self.url is not None


def find_destination(wish: Wish, folder: Path) -> Destination | None:
    """Return the server to speak to, None if there is none to choose. Raises ContextsUnusable.

    A context that is named stands above URL and token, and these above the current context. A URL alone takes the token
    of a context of that URL, and of no other; a token alone goes to the current context's server, or to this host.
    """
    _check(wish)
    if wish.context_name is None and wish.url and wish.token:
        return Destination(wish.url, wish.token)
    contexts, tokens = Contexts.load(folder), TokenStore(folder)
    if wish.context_name is not None:
        context = contexts.named(wish.context_name)
        if context is None:
            raise ContextsUnusable(f"there is no context {wish.context_name}: `ci-daemon context list` shows all")
        return _of_context(context, tokens)
    context = contexts.current if wish.url is None else contexts.of_url(wish.url)
    if wish.token is not None:
        return Destination(LOOPBACK_URL if context is None else context.url, wish.token)
    if context is not None:
        return _of_context(context, tokens)
    if wish.url is not None:
        raise _signed_out(wish.url)
    if contexts.all:
        names = ", ".join(each.name for each in contexts.all)
        raise ContextsUnusable(f"no context is current: choose one of {names} with `ci-daemon context use NAME`")
    return None


def _of_context(context: Context, tokens: TokenStore) -> Destination:
    token = tokens.find(context)
    if token is None:
        raise _signed_out(context.url)
    return Destination(context.url, token, context)


def _signed_out(url: str) -> ContextsUnusable:
    return ContextsUnusable(
        f"nobody is signed in at {url}: sign in with `ci-daemon login {url}`, or set CI_DAEMON_TOKEN to an API key"
    )


def _check(wish: Wish) -> None:
    """Raise ContextsUnusable if the URL is none, or the token cannot be one."""
    if wish.url is not None and not is_http_url(wish.url):
        raise ContextsUnusable(
            f"CI_DAEMON_URL: {wish.url!a} is not a URL: set it to one such as https://ci.example.org"
        )
    if wish.token is not None and not (wish.token.isascii() and wish.token.isprintable()):
        raise ContextsUnusable(
            "CI_DAEMON_TOKEN is not a token: set it to an API key, or sign in with `ci-daemon login`"
        )
