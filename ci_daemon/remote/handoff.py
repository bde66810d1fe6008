"""CLI login: a session that a person hands over in a browser (wire-decisions.md, "Authentication").

The command line makes a nonce, and the browser learns only its hash, so its URL helps nobody to claim the session. Or
the person types a code that the browser shows.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import TYPE_CHECKING

from api.operations import cli_login
from ci_daemon.remote.errors import RequestFailed, ServiceUnreachable
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_daemon.remote.connection import Connection

_PAGE = "/cli-login"
_POLL_SECONDS = 1.0
_MAX_SECONDS = 600.0
"""The time that a person has for signing in; the approval itself must be claimed within 60 seconds."""


class SignInFailed(Exception):
    """Nobody signed in; the message says what to do."""


@immutable
class Handoff:
    """A sign-in that waits for a person at a browser."""

    nonce: str
    url: str


def start_handoff(service_url: str) -> Handoff:
    """Return a new sign-in at a service."""
    nonce = secrets.token_urlsafe(32)
    return Handoff(nonce, f"{service_url}{_PAGE}?nonce_hash={hashlib.sha256(nonce.encode()).hexdigest()}")


def code_url(service_url: str) -> str:
    """Return the page that shows a person a code."""
    return service_url + _PAGE


def claim(connection: Connection, handoff: Handoff, pause: Callable[[float], None] = time.sleep) -> str:
    """Wait until a person has signed in, and return the token. Raises SignInFailed and RequestFailed."""
    deadline = time.monotonic() + _MAX_SECONDS
    while time.monotonic() < deadline:
        try:
            return connection.perform(cli_login.claim_v2, {}, {"nonce": handoff.nonce}).token
        except RequestFailed as error:
            if error.code != "cli_code_invalid" and not error.retryable:
                raise
        except ServiceUnreachable:
            # It was there a moment ago: perhaps it restarts.
            if time.monotonic() + _POLL_SECONDS >= deadline:
                raise
        pause(_POLL_SECONDS)
    raise SignInFailed(f"nobody signed in within {_MAX_SECONDS / 60:.0f} minutes: run the same command again")


def redeem(connection: Connection, code: str) -> str:
    """Return the token of the session that a code is for. Raises SignInFailed and RequestFailed."""
    try:
        return connection.perform(cli_login.redeem_v2, {}, {"code": code}).token
    except RequestFailed as error:
        if error.code != "cli_code_invalid":
            raise
        message = "the code is wrong, used, or older than five minutes: run the same command again, with a new one"
        raise SignInFailed(message) from error
